/* SPDX-License-Identifier: MIT */
#include "fs/dirlist.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct dirlist_entry {
	char *name;
	uint64_t ino;
	mode_t type;
};

struct dirlist {
	struct dirlist_entry *entries;
	size_t n, room;
	bool short_of_memory;
};

struct dirlist *dirlist_new(void)
{
	struct dirlist *d = calloc(1, sizeof(*d));

	if (d) {
		dirlist_add(d, ".", 1, S_IFDIR);
		dirlist_add(d, "..", 1, S_IFDIR);
	}
	return d;
}

void dirlist_free(struct dirlist *d)
{
	if (!d)
		return;
	for (size_t k = 0; k < d->n; k++)
		free(d->entries[k].name);
	free(d->entries);
	free(d);
}

void dirlist_add(struct dirlist *d, const char *name, uint64_t ino, mode_t type)
{
	if (d->n == d->room) {
		size_t room = d->room ? d->room * 2 : 16;
		struct dirlist_entry *more = realloc(d->entries, room * sizeof(*more));

		if (!more) {
			d->short_of_memory = true;
			return;
		}
		d->entries = more;
		d->room = room;
	}
	d->entries[d->n] = (struct dirlist_entry){strdup(name), ino, type};
	if (d->entries[d->n].name)
		d->n++;
	else
		d->short_of_memory = true;
}

void dirlist_reply_open(fuse_req_t req, struct dirlist *d, struct fuse_file_info *fi)
{
	if (!d || d->short_of_memory) {
		if (d)
			dirlist_free(d);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)d;
	if (fuse_reply_open(req, fi) < 0)
		dirlist_free(d);
}

void dirlist_readdir(fuse_req_t req, struct inode *i, size_t size, off_t off,
	struct fuse_file_info *fi, bool plus)
{
	struct dirlist *d = (struct dirlist *)(uintptr_t)fi->fh;
	cleanup_free char *page = malloc(size);
	size_t used = 0;

	(void)i;
	if (!page) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	for (size_t k = off < 0 ? 0 : (size_t)off; k < d->n; k++) {
		const struct dirlist_entry *e = &d->entries[k];
		/* No node number: the kernel looks the name up when it needs it. */
		struct fuse_entry_param p = {.attr = {.st_ino = e->ino, .st_mode = e->type}};
		size_t n = plus ? fuse_add_direntry_plus(
					  req, page + used, size - used, e->name, &p, (off_t)k + 1)
				: fuse_add_direntry(req, page + used, size - used, e->name, &p.attr,
					  (off_t)k + 1);

		if (n > size - used)
			break;
		used += n;
	}
	fuse_reply_buf(req, page, used);
}

void dirlist_release(fuse_req_t req, struct inode *i, struct fuse_file_info *fi)
{
	(void)i;
	dirlist_free((struct dirlist *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}
