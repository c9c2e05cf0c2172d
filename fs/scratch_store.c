/* SPDX-License-Identifier: MIT */
/* s->lock guards the list, the names and the counts, each file's lock its bytes. The list is short:
 * it is walked. */
#include "fs/scratch_store.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct scratch_store {
	_Atomic size_t bytes; /* allocated, in all files */
	pthread_mutex_t lock;
	unsigned next, count;	    /* protected by lock, as the next */
	struct scratch_file *files; /* those without a name too */
};

struct scratch_file {
	struct scratch_store *store;
	unsigned number;
	unsigned refs; /* its name's is one; protected by the store's lock, as the next */
	struct scratch_place at;
	char *name; /* NULL: it has none any more */
	struct scratch_file *prev, *next;

	pthread_mutex_t lock;
	char *data; /* protected by lock, as the rest */
	size_t size, room;
	struct timespec changed;
};

struct scratch_store *scratch_store_new(void)
{
	struct scratch_store *s = calloc(1, sizeof(*s));

	if (s)
		pthread_mutex_init(&s->lock, NULL);
	return s;
}

/* With the store's lock held. */
static void unref(struct scratch_file *f)
{
	if (--f->refs)
		return;
	DL_DELETE(f->store->files, f);
	f->store->bytes -= f->room;
	f->store->count--;
	pthread_mutex_destroy(&f->lock);
	free(f->data);
	free(f);
}

void scratch_put(struct scratch_file *f)
{
	struct scratch_store *s;

	if (!f)
		return;
	s = f->store;
	pthread_mutex_lock(&s->lock);
	unref(f);
	pthread_mutex_unlock(&s->lock);
}

/* With the store's lock held, as the next. */
static void unname(struct scratch_file *f)
{
	free(f->name);
	f->name = NULL;
	unref(f);
}

void scratch_store_free(struct scratch_store *s)
{
	struct scratch_file *f, *tmp;

	if (!s)
		return;
	DL_FOREACH_SAFE (s->files, f, tmp) { /* an open one the kernel never released */
		f->refs = 1;
		unname(f);
	}
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static bool is_at(const struct scratch_file *f, const struct scratch_place *at)
{
	return f->name && f->at.owner == at->owner && f->at.job == at->job &&
	       f->at.kind == at->kind;
}

static struct scratch_file *find(
	struct scratch_store *s, const struct scratch_place *at, const char *name)
{
	struct scratch_file *f;

	DL_FOREACH (s->files, f)
		if (is_at(f, at) && strcmp(f->name, name) == 0)
			return f;
	return NULL;
}

struct scratch_file *scratch_find(
	struct scratch_store *s, const struct scratch_place *at, const char *name)
{
	struct scratch_file *f;

	pthread_mutex_lock(&s->lock);
	f = find(s, at, name);
	if (f)
		f->refs++;
	pthread_mutex_unlock(&s->lock);
	return f;
}

struct scratch_file *scratch_find_number(struct scratch_store *s, unsigned number)
{
	struct scratch_file *f;

	pthread_mutex_lock(&s->lock);
	DL_FOREACH (s->files, f)
		if (f->number == number)
			break;
	if (f)
		f->refs++;
	pthread_mutex_unlock(&s->lock);
	return f;
}

bool scratch_is_in(struct scratch_file *f, uint8_t kind)
{
	bool is;

	pthread_mutex_lock(&f->store->lock);
	is = f->at.kind == kind;
	pthread_mutex_unlock(&f->store->lock);
	return is;
}

unsigned scratch_number(const struct scratch_file *f)
{
	return f->number;
}

static struct scratch_file *file_new(
	struct scratch_store *s, const struct scratch_place *at, const char *name)
{
	struct scratch_file *f = calloc(1, sizeof(*f));
	char *copy = strdup(name);

	if (!f || !copy) {
		free(f);
		free(copy);
		return NULL;
	}
	f->refs = 2; /* its name's and the caller's */
	f->store = s;
	f->at = *at;
	f->name = copy;
	pthread_mutex_init(&f->lock, NULL);
	clock_gettime(CLOCK_REALTIME, &f->changed);
	return f;
}

int scratch_make(struct scratch_store *s, const struct scratch_place *at, const char *name,
	struct scratch_file **out, struct err *err)
{
	struct scratch_file *f = NULL;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	if (find(s, at, name))
		r = err_set(err, EEXIST, "there is a file %s", name);
	else if (s->count >= SCRATCH_FILES_MAX)
		r = err_set(err, ENOSPC, "there are %u scratch files, as many as a mount has",
			SCRATCH_FILES_MAX);
	else
		f = file_new(s, at, name);
	if (f) {
		f->number = ++s->next;
		s->count++;
		DL_APPEND(s->files, f);
		*out = f;
	}
	pthread_mutex_unlock(&s->lock);
	return f || r < 0 ? r : err_set(err, ENOMEM, "no memory for a scratch file");
}

int scratch_remove(struct scratch_store *s, const struct scratch_place *at, const char *name)
{
	struct scratch_file *f;

	pthread_mutex_lock(&s->lock);
	f = find(s, at, name);
	if (f)
		unname(f);
	pthread_mutex_unlock(&s->lock);
	return f ? 0 : -ENOENT;
}

int scratch_move(struct scratch_store *s, const struct scratch_place *at, const char *name,
	const struct scratch_place *to, const char *new_name, bool no_replace)
{
	char *copy = strdup(new_name);
	struct scratch_file *f, *there;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	f = find(s, at, name);
	there = find(s, to, new_name);
	if (!f)
		r = -ENOENT;
	else if (there && no_replace)
		r = -EEXIST;
	else if (!copy)
		r = -ENOMEM;
	if (r == 0 && there != f) {
		if (there)
			unname(there);
		free(f->name);
		f->name = copy;
		f->at = *to;
		copy = NULL;
	}
	pthread_mutex_unlock(&s->lock);
	free(copy);
	return r;
}

void scratch_drop(struct scratch_store *s, const void *owner, uint64_t job)
{
	struct scratch_file *f, *tmp;

	pthread_mutex_lock(&s->lock);
	DL_FOREACH_SAFE (s->files, f, tmp)
		if (f->name && f->at.owner == owner && (!job || f->at.job == job))
			unname(f);
	pthread_mutex_unlock(&s->lock);
}

void scratch_each(struct scratch_store *s, const struct scratch_place *at,
	void (*each)(void *arg, const char *name), void *arg)
{
	struct scratch_file *f;

	pthread_mutex_lock(&s->lock);
	DL_FOREACH (s->files, f)
		if (is_at(f, at))
			each(arg, f->name);
	pthread_mutex_unlock(&s->lock);
}

size_t scratch_read(struct scratch_file *f, uint64_t off, char *to, size_t size)
{
	size_t n = 0;

	pthread_mutex_lock(&f->lock);
	if (off < f->size) {
		n = f->size - (size_t)off;
		n = n < size ? n : size;
		memcpy(to, f->data + off, n);
	}
	pthread_mutex_unlock(&f->lock);
	return n;
}

/* What all files have may not pass the bound, whoever asks at once. */
static bool take_bytes(struct scratch_store *s, size_t n)
{
	size_t have = s->bytes;

	do {
		if (n > SCRATCH_BYTES_MAX - have)
			return false;
	} while (!atomic_compare_exchange_weak(&s->bytes, &have, have + n));
	return true;
}

/* With the file's lock held: room for so many bytes. */
static int grow(struct scratch_file *f, uint64_t size, struct err *err)
{
	size_t room = f->room + f->room / 2;
	char *data;

	if (size > SCRATCH_FILE_MAX)
		return err_set(
			err, EFBIG, "a scratch file has at most %u MiB", SCRATCH_FILE_MAX >> 20);
	if (size <= f->room)
		return 0;
	if (room < size || room > SCRATCH_FILE_MAX || !take_bytes(f->store, room - f->room)) {
		room = (size_t)size;
		if (!take_bytes(f->store, room - f->room))
			return err_set(err, EDQUOT,
				"the scratch files of a mount have at most %u MiB together",
				SCRATCH_BYTES_MAX >> 20);
	}
	data = realloc(f->data, room);
	if (!data) {
		f->store->bytes -= room - f->room;
		return err_set(err, ENOMEM, "no memory for a scratch file");
	}
	f->data = data;
	f->room = room;
	return 0;
}

int scratch_write(
	struct scratch_file *f, uint64_t off, const char *from, size_t size, struct err *err)
{
	int r;

	if (off > SCRATCH_FILE_MAX)
		off = SCRATCH_FILE_MAX + 1; /* no overflow below */
	pthread_mutex_lock(&f->lock);
	r = grow(f, off + size, err);
	if (r == 0) {
		if (off > f->size)
			memset(f->data + f->size, 0, (size_t)off - f->size);
		if (size)
			memcpy(f->data + off, from, size);
		if (off + size > f->size)
			f->size = (size_t)off + size;
		clock_gettime(CLOCK_REALTIME, &f->changed);
	}
	pthread_mutex_unlock(&f->lock);
	return r;
}

int scratch_resize(struct scratch_file *f, uint64_t size, struct err *err)
{
	int r;

	pthread_mutex_lock(&f->lock);
	r = grow(f, size, err);
	if (r == 0) {
		if (size > f->size)
			memset(f->data + f->size, 0, (size_t)size - f->size);
		f->size = (size_t)size;
		clock_gettime(CLOCK_REALTIME, &f->changed);
		if (!size) {
			free(f->data);
			f->data = NULL;
			f->store->bytes -= f->room;
			f->room = 0;
		}
	}
	pthread_mutex_unlock(&f->lock);
	return r;
}

size_t scratch_size(struct scratch_file *f, struct timespec *changed)
{
	size_t size;

	pthread_mutex_lock(&f->lock);
	size = f->size;
	*changed = f->changed;
	pthread_mutex_unlock(&f->lock);
	return size;
}

void scratch_touch(struct scratch_file *f, const struct timespec *when)
{
	pthread_mutex_lock(&f->lock);
	f->changed = *when;
	pthread_mutex_unlock(&f->lock);
}
