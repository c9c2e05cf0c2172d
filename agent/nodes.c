/* SPDX-License-Identifier: MIT */
/*
 * The nodes of a session, and the bounded cache of their descriptors. Any thread; s->lock guards
 * all fields. Files are opened outside the lock: a slow disk must not stop the other requests.
 *
 * Re-opening what the cache dropped is done with the agent's own rights: it is the agent that
 * forgot, and the checks were made when the daemon looked the name up. What is then done to the
 * file is done with the caller's.
 */
#include "agent/nodes.h"

#include "agent/creds.h"
#include "agent/watch.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t name_key(const struct node *parent, const char *name)
{
	uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)(uintptr_t)parent;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3u;
	return h;
}

struct node *node_by_num(struct session *s, uint64_t num)
{
	struct link *l = table_find(&s->nodes, num);

	return l ? link_of(l, struct node, by_num) : NULL;
}

static uint64_t ino_key(uint64_t dev, uint64_t ino)
{
	return (dev ^ ino * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
}

struct node *node_by_ino(struct session *s, uint64_t dev, uint64_t ino, struct node *prev)
{
	struct link *l = prev ? table_next(&prev->by_ino) : table_find(&s->inos, ino_key(dev, ino));

	for (; l; l = table_next(l)) {
		struct node *n = link_of(l, struct node, by_ino);

		if (n->ino == ino && n->dev == dev)
			return n;
	}
	return NULL;
}

struct node *node_by_name(
	struct session *s, const struct node *dir, const char *name, struct node *prev)
{
	struct link *l =
		prev ? table_next(&prev->by_name) : table_find(&s->names, name_key(dir, name));

	for (; l; l = table_next(l)) {
		struct node *n = link_of(l, struct node, by_name);

		if (n->parent == dir && strcmp(n->name, name) == 0)
			return n;
	}
	return NULL;
}

struct node *node_next(struct session *s, struct node *prev)
{
	struct link *l = table_each(&s->nodes, prev ? &prev->by_num : NULL);

	return l ? link_of(l, struct node, by_num) : NULL;
}

void nodes_untell(struct session *s)
{
	struct node *n = NULL;

	while ((n = node_next(s, n)))
		n->told = n->told_data = 0;
}

static bool is_root(const struct node *n)
{
	return !n->parent;
}

static void lru_del(struct session *s, struct node *n)
{
	*(n->newer ? &n->newer->older : &s->newest) = n->older;
	*(n->older ? &n->older->newer : &s->oldest) = n->newer;
	n->newer = n->older = NULL;
}

static void lru_add(struct session *s, struct node *n)
{
	n->newer = NULL;
	n->older = s->newest;
	*(s->newest ? &s->newest->newer : &s->oldest) = n;
	s->newest = n;
}

static void close_fd(struct session *s, struct node *n)
{
	if (n->fd < 0)
		return;
	if (!is_root(n)) {
		lru_del(s, n);
		s->n_fds--;
	}
	close(n->fd);
	n->fd = -1;
}

static void evict(struct session *s)
{
	struct node *n = s->oldest, *newer;

	for (; n && s->n_fds > s->max_fds; n = newer) {
		newer = n->newer;
		if (!n->busy)
			close_fd(s, n);
	}
}

void node_release(struct session *s, struct node *n)
{
	struct node *parent;

	/* A loop, not a recursion: a tree may be as deep as the sandbox likes. */
	for (; n && --n->refs == 0; n = parent) {
		parent = n->parent;
		watch_forget(s, n);
		if (parent) {
			table_del(&s->inos, &n->by_ino);
			table_trim(&s->inos);
		}
		close_fd(s, n);
		free(n->name);
		free(n);
	}
}

static int add_root(struct session *s, uint64_t num, int fd)
{
	struct node *n = calloc(1, sizeof(*n));
	struct sys_statx stx = {0};

	if (!n || table_add(&s->nodes, &n->by_num, num) < 0) {
		free(n);
		if (fd >= 0)
			close(fd);
		return -ENOMEM;
	}
	if (fd >= 0 && sys_statx(fd, "", &stx) == 0) {
		n->dev = sys_dev(&stx);
		n->ino = stx.ino;
	}
	n->num = num;
	n->type = S_IFDIR;
	n->fd = fd;
	n->refs = 1;
	n->known = true;
	return 0;
}

int nodes_init(struct session *s, int root_fd, const char *workspace)
{
	int ret = add_root(s, PROTO_NODE_ROOT, fcntl(root_fd, F_DUPFD_CLOEXEC, 0));

	creds_own();
	if (!ret)
		ret = add_root(
			s, PROTO_NODE_WORKSPACE, open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC));
	return ret;
}

void nodes_fini(struct session *s)
{
	struct link *l;

	while ((l = table_pop(&s->nodes)))
		node_release(s, link_of(l, struct node, by_num));
	table_fini(&s->nodes);
	table_fini(&s->names);
	table_fini(&s->inos);
}

/* Opens n, whose parent's descriptor is dirfd, with the agent's own rights; -ESTALE if it is not
 * the same file. */
static int open_child(int dirfd, const struct node *n, const char *name)
{
	cleanup_close int fd = -1;
	struct sys_statx stx;

	creds_own();
	fd = sys_open_beneath(dirfd, name, O_PATH, 0);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? -ESTALE : -errno;
	if (sys_statx(fd, "", &stx) < 0)
		return -errno;
	if (stx.ino != n->ino || sys_dev(&stx) != n->dev)
		return -ESTALE;
	return steal_fd(&fd);
}

/* Lock held. */
static void keep_fd(struct session *s, struct node *n, int fd)
{
	if (n->fd >= 0) {
		close(fd);
		return;
	}
	n->fd = fd;
	s->n_fds++;
	lru_add(s, n);
	n->busy++; /* not at once the victim of its own coming */
	evict(s);
	n->busy--;
}

void node_keep(struct session *s, uint64_t num, int fd)
{
	struct node *n;

	pthread_mutex_lock(&s->lock);
	n = node_by_num(s, num);
	if (n && !is_root(n))
		keep_fd(s, n, fd);
	else
		close(fd);
	pthread_mutex_unlock(&s->lock);
}

/* One step towards n's descriptor: opens the first node without one on the way down from an
 * ancestor that has one. 0: again; else an error. Called, and returns, with s->lock held. */
static int open_step(struct session *s, struct node *n)
{
	struct node *up;
	char name[PROTO_NAME_MAX + 1];
	int fd;

	while (n->parent && n->parent->fd < 0)
		n = n->parent;
	up = n->parent;
	if (!up)
		return -ESTALE; /* a root that could not be opened */
	snprintf(name, sizeof(name), "%s", n->name);
	n->refs++;
	up->refs++;
	up->busy++;
	pthread_mutex_unlock(&s->lock);
	fd = open_child(up->fd, n, name);
	pthread_mutex_lock(&s->lock);
	up->busy--;
	if (fd >= 0)
		keep_fd(s, n, fd);
	node_release(s, up);
	node_release(s, n);
	return fd < 0 ? fd : 0;
}

/* Opens what the pin holds; the lock is held. */
static int open_pinned(struct pin *pin)
{
	struct session *s = pin->s;
	struct node *n = pin->node;
	int ret;

	while (n->fd < 0) {
		ret = open_step(s, n);
		if (ret < 0)
			return ret;
	}
	if (!is_root(n)) {
		lru_del(s, n);
		lru_add(s, n);
	}
	n->busy++;
	pin->fd = n->fd;
	return 0;
}

int pin_node(struct session *s, uint64_t num, struct pin *pin)
{
	struct node *n;

	pthread_mutex_lock(&s->lock);
	n = node_by_num(s, num);
	if (n) {
		n->refs++;
		*pin = (struct pin){.s = s, .node = n, .fd = -1};
	}
	pthread_mutex_unlock(&s->lock);
	return n ? 0 : -ESTALE;
}

int pin_open(struct session *s, uint64_t num, struct pin *pin)
{
	int ret = pin_node(s, num, pin);

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&s->lock);
	ret = open_pinned(pin);
	pthread_mutex_unlock(&s->lock);
	return ret;
}

int pin_parent(const struct pin *of, struct pin *pin)
{
	struct session *s = of->s;
	int ret = -ESTALE;

	pthread_mutex_lock(&s->lock);
	if (of->node->parent) {
		*pin = (struct pin){.s = s, .node = of->node->parent, .fd = -1};
		pin->node->refs++;
		ret = open_pinned(pin);
	}
	pthread_mutex_unlock(&s->lock);
	return ret;
}

void unpin(struct pin *pin)
{
	int saved = errno;

	if (!pin->node)
		return;
	pthread_mutex_lock(&pin->s->lock);
	if (pin->fd >= 0)
		pin->node->busy--;
	node_release(pin->s, pin->node);
	evict(pin->s);
	pthread_mutex_unlock(&pin->s->lock);
	*pin = PIN_NONE;
	errno = saved;
}

bool pin_has_fd(const struct pin *pin)
{
	bool has;

	pthread_mutex_lock(&pin->s->lock);
	has = pin->node->fd >= 0 || is_root(pin->node);
	pthread_mutex_unlock(&pin->s->lock);
	return has;
}

int node_add(struct session *s, uint64_t num, const struct pin *parent, const char *name,
	const struct sys_statx *stx)
{
	struct node *n = calloc(1, sizeof(*n));
	int ret = 0;

	if (n)
		n->name = strdup(name);
	if (!n || !n->name) {
		free(n);
		return -ENOMEM;
	}
	n->num = num;
	n->dev = sys_dev(stx);
	n->ino = stx->ino;
	n->born = stx->btime;
	n->type = stx->mode & S_IFMT;
	n->fd = -1;
	n->refs = 1;
	n->known = true;
	pthread_mutex_lock(&s->lock);
	if (num < PROTO_NODE_FIRST || node_by_num(s, num))
		ret = -EEXIST;
	else if (table_add(&s->nodes, &n->by_num, num) < 0)
		ret = -ENOMEM;
	else if (table_add(&s->names, &n->by_name, name_key(parent->node, name)) < 0) {
		table_del(&s->nodes, &n->by_num);
		ret = -ENOMEM;
	} else if (table_add(&s->inos, &n->by_ino, ino_key(n->dev, n->ino)) < 0) {
		table_del(&s->nodes, &n->by_num);
		table_del(&s->names, &n->by_name);
		ret = -ENOMEM;
	} else {
		n->parent = parent->node;
		n->parent->refs++;
	}
	pthread_mutex_unlock(&s->lock);
	if (ret) {
		free(n->name);
		free(n);
	}
	return ret;
}

bool node_taken(struct session *s, uint64_t num)
{
	bool taken;

	pthread_mutex_lock(&s->lock);
	taken = num < PROTO_NODE_FIRST || node_by_num(s, num);
	pthread_mutex_unlock(&s->lock);
	return taken;
}

/* Lock held. */
static void forget(struct session *s, uint64_t num)
{
	struct node *n = num < PROTO_NODE_FIRST ? NULL : node_by_num(s, num);

	if (!n)
		return;
	table_del(&s->nodes, &n->by_num);
	table_del(&s->names, &n->by_name);
	table_trim(&s->nodes);
	table_trim(&s->names);
	n->known = false;
	watch_forget(s, n);
	node_release(s, n);
}

void node_forget(struct session *s, uint64_t num)
{
	nodes_forget(s, num, 1);
}

void nodes_forget(struct session *s, uint64_t first, uint32_t n)
{
	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < n; i++)
		forget(s, first + i);
	pthread_mutex_unlock(&s->lock);
}

/* Takes the nodes at parent/name out of the name table, as a chain by by_name.next. */
static struct link *take_names(struct session *s, struct node *parent, const char *name)
{
	struct link *l = table_find(&s->names, name_key(parent, name)), *next, *chain = NULL;

	for (; l; l = next) {
		struct node *n = link_of(l, struct node, by_name);

		next = table_next(l);
		if (n->parent != parent || strcmp(n->name, name) != 0)
			continue;
		table_del(&s->names, l);
		l->next = chain;
		chain = l;
	}
	return chain;
}

/* Is n on the way up from `from`? A stale picture of a hostile tree must not close a circle. */
static bool is_above(const struct node *n, const struct node *from)
{
	for (; from && from != n; from = from->parent)
		;
	return from != NULL;
}

static void put_names(struct session *s, struct link *chain, struct node *parent, const char *name)
{
	struct link *next;

	for (; chain; chain = next) {
		struct node *n = link_of(chain, struct node, by_name), *old = n->parent;
		char *copy = is_above(n, parent) ? NULL : strdup(name);

		next = chain->next;
		if (copy) {
			free(n->name);
			n->name = copy;
			parent->refs++;
			n->parent = parent;
			node_release(s, old);
		}
		/* Else it keeps its old place and will be found stale: no harm. The table has room:
		 * the link came out of it. */
		table_add(&s->names, chain, name_key(n->parent, n->name));
	}
}

void node_moved(struct session *s, struct node *parent, const char *name, struct node *to,
	const char *toname, bool swap)
{
	struct link *moved, *other = NULL;

	pthread_mutex_lock(&s->lock);
	moved = take_names(s, parent, name);
	if (swap)
		other = take_names(s, to, toname);
	put_names(s, moved, to, toname);
	put_names(s, other, parent, name);
	pthread_mutex_unlock(&s->lock);
}
