/* SPDX-License-Identifier: MIT */
/* Which sandboxes there are, how they are, and hearing when that changes: by inotify on their
 * directories. Any thread. */
#include "bwrap/bwrap.h"

#include "bwrap/record.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#define BOX_EVENTS (IN_MOVED_TO | IN_MODIFY | IN_ONLYDIR)
#define TOP_EVENTS (IN_MOVED_TO | IN_MOVED_FROM | IN_ONLYDIR)

static enum engine_state state_of(const struct record *r, const struct status *s)
{
	if (s->alive)
		return r->paused ? ENGINE_PAUSED : ENGINE_RUNNING;
	return s->started ? ENGINE_EXITED : ENGINE_CREATED;
}

static int look(const struct bwrap *b, const char *id, struct engine_box *box, struct err *err)
{
	cleanup_close int fd = bwrap_box(b, id, err);
	struct record r = {0};
	struct status s;
	int ret = fd < 0 ? fd : bwrap_record(b, id, fd, &r, err);

	if (ret < 0)
		return ret;
	status_read(fd, &s);
	if (s.unknown) {
		record_fini(&r);
		return err_set(err, EAGAIN, "it cannot be told whether the sandbox runs");
	}
	*box = (struct engine_box){.id = strdup(id),
		.name = r.name,
		.mark = r.mark,
		.state = state_of(&r, &s),
		.owner = r.owner,
		.template = r.template,
		.config = r.config,
		.image_id = r.image_id,
		.created = r.created,
		.exit_code = s.has_code ? s.exit_code : 137,
		.error = r.error,
		.limits = r.limits,
		.detailed = true};
	box->oom =
		box->state == ENGINE_EXITED && box->exit_code == 137 && cgroups_oom(b->cgroups, id);
	if (box->id)
		return 0;
	engine_box_fini(box);
	return err_set(err, ENOMEM, "out of memory");
}

int bwrap_inspect(struct engine *e, const char *id, struct engine_box *box, struct err *err)
{
	return look(bwrap_of(e), id, box, err);
}

static bool is_id(const char *name)
{
	return strspn(name, "0123456789abcdef") == BWRAP_ID_LEN && !name[BWRAP_ID_LEN];
}

int bwrap_list(struct engine *e, void (*each)(void *arg, const struct engine_box *box), void *arg,
	struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	int fd = openat(b->boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!d)
		return err_set(err, EHOSTDOWN, "%s: %s", b->boxes, strerror(errno));
	while ((entry = readdir(d))) {
		struct engine_box box = {0};
		struct err why = {0};
		int r;

		if (!is_id(entry->d_name))
			continue;
		r = look(b, entry->d_name, &box, &why);
		/* What cannot be looked at for want of anything is not gone. */
		if (r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -EAGAIN)
			return err_set(err, EHOSTDOWN, "%s: %s", b->boxes, why.msg);
		if (r < 0) { /* it has just gone */
			if (r != -ENOENT)
				log_warn("%s/%s: %s", b->boxes, entry->d_name, why.msg);
			continue;
		}
		each(arg, &box);
		engine_box_fini(&box);
	}
	return 0;
}

/* The directories that are watched: which descriptor is whose. */
struct watched {
	int fd;
	const struct bwrap *b;
	struct {
		int wd;
		char id[BWRAP_ID_LEN + 1];
	} * boxes;
	size_t n, room;
};

static int watch_box(struct watched *w, const char *id)
{
	char path[PATH_MAX];
	void *more;
	int wd;

	if (w->n == w->room) {
		more = realloc(w->boxes, (w->room * 2 + 16) * sizeof(*w->boxes));
		if (!more)
			return -ENOMEM;
		w->boxes = more;
		w->room = w->room * 2 + 16;
	}
	snprintf(path, sizeof(path), "%s/%s", w->b->boxes, id);
	wd = inotify_add_watch(w->fd, path, BOX_EVENTS);
	if (wd < 0)
		return errno == ENOENT ? 0 : -errno;
	for (size_t i = 0; i < w->n; i++)
		if (w->boxes[i].wd == wd)
			return 0;
	w->boxes[w->n].wd = wd;
	memcpy(w->boxes[w->n++].id, id, BWRAP_ID_LEN + 1);
	return 0;
}

static int watch_all(struct watched *w)
{
	int fd = openat(w->b->boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (r == 0 && d && (e = readdir(d)))
		if (is_id(e->d_name))
			r = watch_box(w, e->d_name);
	return d ? r : -errno;
}

static void heard(
	struct watched *w, const struct inotify_event *ev, const struct engine_watcher *to)
{
	char id[BWRAP_ID_LEN + 1] = "";

	if (ev->mask & IN_IGNORED) {
		for (size_t i = 0; i < w->n; i++)
			if (w->boxes[i].wd == ev->wd)
				w->boxes[i] = w->boxes[--w->n];
		return;
	}
	if (ev->len && is_id(ev->name)) {
		memcpy(id, ev->name, BWRAP_ID_LEN);
		if (ev->mask & IN_MOVED_TO)
			watch_box(w, id);
	} else if (!ev->len || (ev->name[0] != '.' && (strcmp(ev->name, "box.json") == 0 ||
							      strcmp(ev->name, "status") == 0))) {
		for (size_t i = 0; i < w->n; i++)
			if (w->boxes[i].wd == ev->wd)
				memcpy(id, w->boxes[i].id, sizeof(id));
	}
	if (id[0])
		to->changed(to->arg, id);
}

static int hear_all(struct watched *w, const struct engine_watcher *to)
{
	_Alignas(struct inotify_event) char text[65536];
	ssize_t n = read(w->fd, text, sizeof(text));

	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *ev = (const void *)(text + at);

		if (ev->mask & IN_Q_OVERFLOW) {
			watch_all(w);
			to->up(to->arg);
		} else {
			heard(w, ev, to);
		}
		at += (ssize_t)(sizeof(*ev) + ev->len);
	}
	return 0;
}

/* What there is none left of is the kernel's, and no disk's. */
static int not_watched(const struct bwrap *b, int code, struct err *err)
{
	return err_set(err, EHOSTDOWN, "%s cannot be watched: %s%s", b->boxes, strerror(code),
		code == ENOSPC	 ? ": raise fs.inotify.max_user_watches by sysctl"
		: code == EMFILE ? ": raise fs.inotify.max_user_instances by sysctl"
				 : "");
}

int bwrap_watch(struct engine *e, const struct engine_watcher *to, struct err *err)
{
	struct bwrap *b = bwrap_of(e);
	cleanup_close int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct watched w = {.fd = fd, .b = b};
	int r = 0;

	if (fd < 0 || inotify_add_watch(fd, b->boxes, TOP_EVENTS) < 0)
		return not_watched(b, errno, err);
	r = watch_all(&w);
	if (r == 0)
		to->up(to->arg);
	while (r == 0) {
		struct pollfd p[] = {
			{.fd = fd, .events = POLLIN}, {.fd = to->stop_fd, .events = POLLIN}};

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			r = -errno;
		else if (p[1].revents)
			break;
		else if (p[0].revents)
			r = hear_all(&w, to);
	}
	free(w.boxes);
	return r < 0 ? not_watched(b, -r, err) : 0;
}
