/* SPDX-License-Identifier: MIT */
/* The handles of a session. Any thread; s->lock guards the table, the counts and nodes' lists. */
#include "agent/handles.h"

#include "common/cleanup.h"

#include <fcntl.h>

static struct handle *find(struct session *s, uint64_t num)
{
	struct link *l = table_find(&s->handles, num);

	return l ? link_of(l, struct handle, by_num) : NULL;
}

static void handle_free(struct handle *h)
{
	close(h->fd);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

int handle_add(struct session *s, uint64_t num, struct node *node, int fd, int flags)
{
	struct handle *h = calloc(1, sizeof(*h));
	int ret = 0;

	if (!h) {
		close(fd);
		return -ENOMEM;
	}
	h->s = s;
	h->node = node;
	h->fd = fd;
	h->refs = 1;
	h->readable = (flags & O_ACCMODE) != O_WRONLY;
	h->writable = (flags & O_ACCMODE) != O_RDONLY;
	h->append = flags & O_APPEND;
	h->dir = flags & O_DIRECTORY;
	pthread_mutex_init(&h->lock, NULL);
	pthread_mutex_lock(&s->lock);
	if (!num || find(s, num))
		ret = -EEXIST;
	else
		ret = table_add(&s->handles, &h->by_num, num);
	if (!ret) {
		node->refs++;
		h->next = node->handles;
		node->handles = h;
	}
	pthread_mutex_unlock(&s->lock);
	if (ret)
		handle_free(h);
	return ret;
}

bool handle_taken(struct session *s, uint64_t num)
{
	bool taken;

	pthread_mutex_lock(&s->lock);
	taken = !num || find(s, num);
	pthread_mutex_unlock(&s->lock);
	return taken;
}

struct handle *handle_get(struct session *s, uint64_t num)
{
	struct handle *h;

	pthread_mutex_lock(&s->lock);
	h = find(s, num);
	if (h)
		h->refs++;
	pthread_mutex_unlock(&s->lock);
	return h;
}

/* Of n's, a writable one if there is a choice; s->lock is held. */
static struct handle *best_of(const struct node *n)
{
	struct handle *h, *best = n->handles;

	for (h = best; h && !best->writable; h = h->next)
		if (h->writable)
			best = h;
	return best;
}

struct handle *handle_of(struct session *s, struct node *node)
{
	struct handle *best;
	struct node *n = NULL;

	pthread_mutex_lock(&s->lock);
	best = best_of(node);
	/* It may have been opened by another name, under a number that is forgotten since. */
	while (!best && node->parent && (n = node_by_ino(s, node->dev, node->ino, n)))
		best = best_of(n);
	if (best)
		best->refs++;
	pthread_mutex_unlock(&s->lock);
	return best;
}

/* Drops a count; the lock is held. True: free it, without the lock (a close may be slow). */
static bool drop(struct handle *h)
{
	struct handle **at;

	if (--h->refs)
		return false;
	for (at = &h->node->handles; *at != h; at = &(*at)->next)
		;
	*at = h->next;
	node_release(h->s, h->node);
	return true;
}

void handle_put(struct handle *h)
{
	struct session *s = h->s;
	bool last;

	pthread_mutex_lock(&s->lock);
	last = drop(h);
	pthread_mutex_unlock(&s->lock);
	if (last)
		handle_free(h);
}

void handle_putp(struct handle **h)
{
	int saved = errno;

	if (*h)
		handle_put(*h);
	errno = saved;
}

void handle_close(struct session *s, uint64_t num)
{
	struct handle *h;
	bool last = false;

	pthread_mutex_lock(&s->lock);
	h = find(s, num);
	if (h) {
		table_del(&s->handles, &h->by_num);
		last = drop(h);
	}
	pthread_mutex_unlock(&s->lock);
	if (last)
		handle_free(h);
}

/* The number of one that is open on that file; 0: none. */
static uint64_t any_of_file(struct session *s, uint64_t dev, uint64_t ino)
{
	struct node *n = NULL;
	uint64_t num = 0;

	pthread_mutex_lock(&s->lock);
	while (!num && (n = node_by_ino(s, dev, ino, n)))
		for (struct handle *h = n->handles; h && !num; h = h->next)
			if (find(s, h->by_num.key) == h) /* else it is closed, and in use */
				num = h->by_num.key;
	pthread_mutex_unlock(&s->lock);
	return num;
}

void handles_close_file(struct session *s, uint64_t dev, uint64_t ino)
{
	uint64_t num;

	while ((num = any_of_file(s, dev, ino)))
		handle_close(s, num);
}

void handles_fini(struct session *s)
{
	struct link *l;

	while ((l = table_pop(&s->handles)))
		handle_put(link_of(l, struct handle, by_num));
	table_fini(&s->handles);
}
