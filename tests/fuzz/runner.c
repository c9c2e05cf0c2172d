/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target without libFuzzer: each file of the corpus directories as it is, and N times
 * (first argument) with a few bytes changed, always the same ones. So the corpus is a unit test.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX (1u << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t seed = 88172645463325252ull;

static uint32_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 16);
}

/* In a block of its exact size, so that a sanitizer sees the first byte read beyond it. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *own = malloc(size ? size : 1);

	if (!own)
		abort();
	if (size)
		memcpy(own, data, size);
	LLVMFuzzerTestOneInput(own, size);
	free(own);
}

static void mutate_and_run(const uint8_t *data, size_t size)
{
	static uint8_t copy[INPUT_MAX];

	if (!size)
		return;
	memcpy(copy, data, size);
	for (uint32_t n = next_random() % 4; n < 4; n++)
		copy[next_random() % size] = (uint8_t)next_random();
	run(copy, next_random() % 4 ? size : next_random() % size);
}

static int run_dir(const char *dir, int times)
{
	static uint8_t data[INPUT_MAX];
	DIR *d = opendir(dir);
	int files = 0;

	for (const struct dirent *e; d && (e = readdir(d));) {
		char path[4096];
		size_t n;
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		n = fread(data, 1, sizeof(data), f);
		fclose(f);
		files++;
		run(data, n);
		for (int i = 0; i < times; i++)
			mutate_and_run(data, n);
	}
	if (d)
		closedir(d);
	return files;
}

int main(int argc, char **argv)
{
	int files = 0;

	for (int i = 2; i < argc; i++)
		files += run_dir(argv[i], atoi(argv[1]));
	printf("%d files\n", files);
	return files > 0 ? 0 : 1;
}
