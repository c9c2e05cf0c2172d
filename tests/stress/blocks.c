/*
 * A file of blocks that know their places: each has the file's seed, its own number and its
 * generation, and bytes that follow from those. Written in an order that jumps about, half of it
 * twice; checked likewise.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data.h"
#include "stress.h"

enum { BLOCK = 4096, STRIDE = 7919 /* a prime */ };

struct file {
	int fd, direct;
	char *map;   /* or NULL */
	char *block; /* aligned */
	long count;
	uint32_t seed;
};

/* Every second block is written again. */
static int generations(long number)
{
	return number % 2 ? 2 : 1;
}

static void fill(const struct file *f, long number, int generation, char *block)
{
	data_fill(block, BLOCK, f->seed + (uint32_t)generation, (uint64_t)number * BLOCK);
}

static int put(const struct file *f, long number, int generation)
{
	fill(f, number, generation, f->block);
	if (f->map) {
		memcpy(f->map + number * BLOCK, f->block, BLOCK);
		return 0;
	}
	return pwrite(f->fd, f->block, BLOCK, number * BLOCK) == BLOCK ? 0 : -1;
}

static int check(const struct file *f, long number)
{
	static char want[BLOCK];
	const char *got = f->map ? f->map + number * BLOCK : f->block;

	if (!f->map && pread(f->fd, f->block, BLOCK, number * BLOCK) != BLOCK)
		return -1;
	fill(f, number, generations(number), want);
	if (memcmp(got, want, BLOCK) == 0)
		return 0;
	fprintf(stderr, "block %ld of %ld is wrong\n", number, f->count);
	errno = EILSEQ;
	return -1;
}

static int write_all(const struct file *f)
{
	for (int generation = 1; generation <= 2; generation++)
		for (long i = 0, number = 0; i < f->count;
			i++, number = (number + STRIDE) % f->count)
			if (generation <= generations(number) && put(f, number, generation))
				return -1;
	return f->map ? msync(f->map, (size_t)f->count * BLOCK, MS_SYNC) : fsync(f->fd);
}

static int check_all(const struct file *f)
{
	for (long i = 0, number = 0; i < f->count; i++, number = (number + STRIDE) % f->count)
		if (check(f, number))
			return -1;
	return 0;
}

static int open_blocks(struct file *f, const char *name, int writing, int map)
{
	f->fd = open(name,
		(writing ? O_RDWR | O_CREAT : O_RDONLY) | (f->direct ? O_DIRECT : 0) | O_CLOEXEC,
		0644);
	f->block = aligned_alloc(BLOCK, BLOCK);
	if (f->fd < 0 || !f->block || (writing && ftruncate(f->fd, f->count * BLOCK)))
		return -1;
	if (!map)
		return 0;
	f->map = mmap(NULL, (size_t)f->count * BLOCK, PROT_READ | (writing ? PROT_WRITE : 0),
		MAP_SHARED, f->fd, 0);
	return f->map == MAP_FAILED ? -1 : 0;
}

/* blocks write|check buffered|direct|mmap FILE MEGABYTES SEED */
int blocks_main(int argc, char **argv)
{
	struct file f = {0};
	int writing, bad;

	if (argc != 6) {
		fprintf(stderr,
			"usage: blocks write|check buffered|direct|mmap FILE MEGABYTES SEED\n");
		return 2;
	}
	writing = strcmp(argv[1], "write") == 0;
	f.direct = strcmp(argv[2], "direct") == 0;
	f.count = strtol(argv[4], NULL, 10) * 1048576 / BLOCK;
	f.seed = (uint32_t)strtoul(argv[5], NULL, 10);
	if (f.count <= 0 || f.count % STRIDE == 0)
		return 2;
	bad = open_blocks(&f, argv[3], writing, strcmp(argv[2], "mmap") == 0) ||
	      (writing ? write_all(&f) : check_all(&f));
	if (bad)
		perror(argv[3]);
	return bad ? 1 : 0;
}
