/* SPDX-License-Identifier: MIT */
/*
 * The output thread. It owns the reading ends of all jobs' pipes, one inotify descriptor, and the
 * stores' files. `lock` guards the list of orders to it and the counts; all else is its own.
 *
 * The order of writes to two pipes cannot be seen from the pipes: their reader wakes too late. So
 * the pipes are FIFOs that hold one packet each (O_DIRECT: one write, one packet, up to a page; one
 * page of capacity: one packet), and inotify tells of each write after it was done. A packet is
 * taken when its event has been; a second write to the same pipe waits for that; so the order of
 * the events is the order of the writes. Two things need care:
 *
 *  - a write longer than a page is several packets and one event, at its end. A full page without
 * an event is therefore taken after a moment in which its event could have come ("early"); events
 *    that find no packet are left-overs of such writes and mean nothing;
 *  - some calls give no event (splice on older kernels), and some events are lost when writers make
 * them faster than they are read: what lies in a pipe for some milliseconds is taken without,
 *    however busy the other pipes are.
 *
 * Without inotify (a limit of 128 instances a user) ordinary pipes have to do, read at once.
 */
#include "agent/output.h"

#include "agent/clock.h"
#include "agent/pipe.h"
#include "agent/table.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#define READ_MAX      65536
#define WAIT_FIRST_NS 100000	   /* for the event of a full page */
#define WAIT_NEXT_NS  5000	   /* in the middle of a long write */
#define SPIN_NS	      30000	   /* a wake-up costs more than looking for so long */
#define SILENT_NS     3000000	   /* then a packet is taken without an event */
#define TERMINAL_MAX  (256u << 10) /* what can lie in a terminal, at most */
#define BATCH	      16
#define ROUNDS	      64 /* of taking, before orders and other jobs have their turn */
#define STACK_SIZE    (256u << 10)
#define GROWTH	      (4u << 20)

struct pipe_end {
	struct link by_wd; /* protected by lock */
	struct output *o;
	unsigned stream;
	int fd, wd;	  /* -1: closed; not watched */
	bool early;	  /* a packet was taken without its event, which may still come */
	bool owed;	  /* the same of a whole write: its event is not the next packet's */
	bool skipped;	  /* such an event has come */
	bool used;	  /* something has come */
	bool hung_up;	  /* nobody can write any more */
	bool terminal;	  /* a terminal's master: no packets, no count of what waits */
	size_t seen;	  /* bytes in it at the round's start */
	int64_t since_ns; /* since when they lie there; 0: nothing did */
};

struct output {
	unsigned refs; /* protected by lock, as the next four */
	struct output *next_order;
	bool ordered, stop, over;
	uint64_t keep;	      /* protected by lock: a new limit; 0: none */
	struct post *drained; /* protected by lock: to be posted when all is stored */
	_Atomic bool watched; /* somebody waits for more */

	struct output *next_active; /* the thread's, as all that follows */
	bool active;
	unsigned told_in; /* the last round with an event of its */
	struct pipe_end end[2];
	struct store store;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct output *orders; /* protected by lock */
static struct table by_wd;    /* protected by lock */
static _Atomic bool has_orders;
static _Atomic(struct post *) growth; /* to be posted when so much more was printed */
static _Atomic(struct post *) more;   /* the same for anything of a watched one */
static int wake_fd = -1, epoll_fd = -1, inotify_fd = -1; /* constant after output_init(), */
static size_t page;					 /* as this */
static struct output *active; /* the thread's: those with something in a pipe, perhaps */
static unsigned round_now;    /* the thread's: counts pump() */

static void end_close(struct pipe_end *e)
{
	if (e->fd < 0)
		return;
	if (e->wd >= 0) {
		pthread_mutex_lock(&lock);
		table_del(&by_wd, &e->by_wd);
		pthread_mutex_unlock(&lock);
		inotify_rm_watch(inotify_fd, e->wd);
	}
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, e->fd, NULL); /* a terminal has another descriptor */
	close(e->fd);
	e->fd = -1;
}

static void post_once(_Atomic(struct post *) *to)
{
	struct post *p = atomic_exchange(to, NULL);

	if (p)
		loop_post(p);
}

static void tell_growth(struct output *o, size_t n)
{
	static size_t grown; /* the thread's */

	if (atomic_load(&o->watched) && atomic_exchange(&o->watched, false))
		post_once(&more);
	grown += n;
	if (grown < GROWTH)
		return;
	grown = 0;
	post_once(&growth);
}

/* One packet, or with plain pipes what is there, into the store: how many bytes. */
static size_t take(struct pipe_end *e)
{
	static uint8_t data[READ_MAX]; /* the thread's */
	ssize_t n;

	if (e->fd < 0)
		return 0;
	n = read(e->fd, data, sizeof(data));
	if (n > 0) {
		e->used = true;
		e->since_ns = 0; /* what comes next has lain there for no time yet */
		store_append(&e->o->store, e->stream, data, (size_t)n);
		tell_growth(e->o, (size_t)n);
	} else if (n == 0 || errno != EAGAIN) {
		end_close(e);
	}
	return n > 0 ? (size_t)n : 0;
}

static struct pipe_end *end_of(int wd)
{
	struct link *l;

	pthread_mutex_lock(&lock);
	l = table_find(&by_wd, (uint64_t)wd);
	pthread_mutex_unlock(&lock);
	return l ? link_of(l, struct pipe_end, by_wd) : NULL;
}

/* Takes the packets whose events have come, in their order; how many bytes of events there were. */
static size_t take_told(void)
{
	_Alignas(8) uint8_t raw[4096];
	ssize_t n = inotify_fd < 0 ? -1 : read(inotify_fd, raw, sizeof(raw));

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *ev = (const void *)(raw + at);
		struct pipe_end *e = end_of(ev->wd);

		at += (ssize_t)(sizeof(*ev) + ev->len);
		if (!e)
			continue;
		e->skipped = e->owed;
		if (!e->owed && pipe_waiting(e->fd))
			take(e);
		e->early = e->owed = false;
		e->o->told_in = round_now;
	}
	return n > 0 ? (size_t)n : 0;
}

/* The same for all events that are there now, and no more: busy writers make new ones as fast.
 * An order ends it unless it is what it is done for. */
static bool take_all_told(bool ordered)
{
	size_t left = pipe_waiting(inotify_fd), n;
	bool took = false;

	while (left && (ordered || !atomic_load(&has_orders)) && (n = take_told())) {
		left -= n < left ? n : left;
		took = true;
	}
	return took;
}

/* Is there an event of o's soon? */
static bool told_within(const struct output *o, int64_t ns)
{
	int64_t until = clock_ns() + ns;

	do {
		take_told();
		if (o->told_in == round_now)
			return true;
	} while (clock_ns() < until);
	return false;
}

/* What lies in e without an event: a page of a long write, or something silent? In a round with
 * events of the same output only the latter. `now`: when the events were read. */
static bool take_untold(struct pipe_end *e, const struct pipe_end *other, int64_t now)
{
	if (!e->since_ns || e->fd < 0)
		return false;
	if (e->wd >= 0 && now - e->since_ns < SILENT_NS) {
		if (e->o->told_in == round_now || e->seen < page)
			return false; /* its event comes */
		if (other->used && told_within(e->o, e->early ? WAIT_NEXT_NS : WAIT_FIRST_NS))
			return true;
	}
	e->early = true;
	/* One event too many was passed over before: this packet's own, so none is owed for it. */
	if (e->wd >= 0 && e->seen < page)
		e->owed = !e->skipped;
	e->skipped = false;
	return take(e) > 0;
}

static void look(struct pipe_end *e)
{
	e->seen = pipe_waiting(e->fd);
	if (!e->seen)
		e->since_ns = 0;
	else if (!e->since_ns)
		e->since_ns = clock_ns();
}

/* One look at every active output. True: something was taken.
 * First at the pipes, then at the events: a packet that was seen and has no event afterwards
 * belongs to a write that is not over, and so is the latest of its process. */
static bool pump(void)
{
	struct output *o;
	int64_t now;
	bool took;

	round_now++;
	for (o = active; o; o = o->next_active)
		for (int i = 0; i < 2; i++)
			look(&o->end[i]);
	now = clock_ns(); /* what has no event after this has lain there without one for so long */
	took = take_all_told(false);
	if (atomic_load(&has_orders))
		return took;
	for (o = active; o; o = o->next_active)
		for (int i = 0; i < 2; i++)
			if (take_untold(&o->end[i], &o->end[!i], now))
				took = true;
	return took;
}

/* A writer that waited for room is back within microseconds, a sleep here would cost tens. */
static bool spin(void)
{
	int64_t until = clock_ns() + SPIN_NS;
	struct output *o;

	do {
		if (take_told())
			return true;
		for (o = active; o; o = o->next_active)
			if (pipe_waiting(o->end[0].fd) != o->end[0].seen ||
				pipe_waiting(o->end[1].fd) != o->end[1].seen)
				return true;
	} while (clock_ns() < until);
	return false;
}

static void unref(struct output *o)
{
	unsigned refs;

	pthread_mutex_lock(&lock);
	refs = --o->refs;
	pthread_mutex_unlock(&lock);
	if (refs)
		return;
	store_fini(&o->store);
	free(o);
}

static bool is_over(const struct output *o)
{
	return o->end[0].fd < 0 && o->end[1].fd < 0;
}

/* The active ones that have nothing more in their pipes become inactive; those whose pipes nobody
 * has open any more are done with. */
static void settle(void)
{
	struct output **at = &active, *o;

	while ((o = *at)) {
		for (int i = 0; i < 2; i++) {
			struct pipe_end *e = &o->end[i];

			for (size_t left = TERMINAL_MAX, got; e->hung_up && e->terminal && left;
				left -= got < left ? got : left)
				if (!(got = take(e)))
					break;
			if (e->hung_up && !pipe_waiting(e->fd))
				end_close(e);
		}
		if (pipe_waiting(o->end[0].fd) || pipe_waiting(o->end[1].fd)) {
			at = &o->next_active;
			continue;
		}
		*at = o->next_active;
		o->active = false;
		if (is_over(o)) {
			store_close(&o->store);
			pthread_mutex_lock(&lock);
			o->over = true;
			pthread_mutex_unlock(&lock);
			unref(o);
		}
	}
}

static void activate(struct output *o)
{
	if (o->active)
		return;
	o->active = true;
	o->next_active = active;
	active = o;
}

/* Stores what is in the pipes now, and no more: somebody may be printing without end. */
static void drain(struct output *o)
{
	take_all_told(true);
	for (int i = 0; i < 2; i++) {
		size_t left = o->end[i].terminal ? TERMINAL_MAX : pipe_waiting(o->end[i].fd), got;

		/* A packet a read, however small: who has made the pipe larger has many in it. */
		while (left && (got = take(&o->end[i])))
			left -= got < left ? got : left;
	}
}

static void obey(void)
{
	struct output *o, *next;
	struct post *drained;
	uint64_t n, keep;
	bool stop, over;

	if (read(wake_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	atomic_store(&has_orders, false);
	pthread_mutex_lock(&lock);
	o = orders;
	orders = NULL;
	for (; o; o = next) {
		next = o->next_order;
		drained = steal_ptr(&o->drained);
		stop = o->stop;
		over = o->over;
		keep = o->keep;
		o->keep = 0;
		o->ordered = false;
		pthread_mutex_unlock(&lock);
		if (keep)
			store_limit(&o->store, keep);
		if (drained) {
			drain(o);
			loop_post(drained);
		}
		if (stop && !over) { /* also one that never had an end */
			end_close(&o->end[0]);
			end_close(&o->end[1]);
			activate(o); /* settle() does the rest */
		}
		unref(o); /* the order's */
		pthread_mutex_lock(&lock);
	}
	pthread_mutex_unlock(&lock);
}

static void *output_thread(void *arg)
{
	struct epoll_event ev[BATCH];

	(void)arg;
	for (;;) {
		int n = epoll_wait(epoll_fd, ev, BATCH, active ? SILENT_NS / 1000000 + 1 : -1);

		for (int i = 0; i < n; i++) {
			struct pipe_end *e = ev[i].data.ptr;

			if (!e)
				continue; /* an order or an event of inotify */
			if (ev[i].events & (EPOLLHUP | EPOLLERR))
				e->hung_up = true;
			activate(e->o);
		}
		for (int i = 0; i < ROUNDS && !atomic_load(&has_orders); i++)
			if (!pump() && (!active || !spin()))
				break;
		if (atomic_load(&has_orders))
			obey();
		settle();
	}
	return NULL;
}

static int watch_fd(int fd, uint32_t events, struct pipe_end *e)
{
	struct epoll_event ev = {.events = events, .data.ptr = e};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

int output_init(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	page = (size_t)sysconf(_SC_PAGESIZE);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (epoll_fd < 0 || wake_fd < 0)
		return -errno;
	if (inotify_fd < 0)
		log_warn("no inotify: the order between stdout and stderr is not exact");
	ret = watch_fd(wake_fd, EPOLLIN, NULL);
	if (!ret && inotify_fd >= 0)
		ret = watch_fd(inotify_fd, EPOLLIN, NULL);
	if (ret)
		return ret;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	ret = -pthread_create(&thread, &attr, output_thread, NULL);
	pthread_attr_destroy(&attr);
	return ret;
}

/* A FIFO of one packet, watched. The writing end, or -errno: then an ordinary pipe has to do. */
static int open_fifo(struct pipe_end *e, int dir_fd)
{
	cleanup_close int in = -1, out = -1;
	char path[48];
	int ret;

	if (inotify_fd < 0)
		return -EOPNOTSUPP;
	out = pipe_fifo(dir_fd, page, &in);
	if (out < 0)
		return out;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", in);
	e->wd = inotify_add_watch(inotify_fd, path, IN_MODIFY);
	if (e->wd < 0)
		return -errno;
	pthread_mutex_lock(&lock);
	ret = table_add(&by_wd, &e->by_wd, (uint64_t)e->wd);
	pthread_mutex_unlock(&lock);
	if (ret) {
		inotify_rm_watch(inotify_fd, e->wd);
		e->wd = -1;
		return ret;
	}
	e->fd = steal_fd(&in);
	return steal_fd(&out);
}

static int open_end(struct output *o, unsigned stream)
{
	struct pipe_end *e = &o->end[stream];
	cleanup_close int out = -1;
	int ret;

	out = open_fifo(e, o->store.dir_fd);
	if (out < 0)
		out = pipe_plain(&e->fd);
	if (out < 0)
		return out;
	ret = watch_fd(e->fd, EPOLLIN | EPOLLET, e);
	return ret < 0 ? ret : steal_fd(&out);
}

static struct output *make(int dir_fd, int *error)
{
	struct output *o = calloc(1, sizeof(*o));

	if (!o) {
		close(dir_fd);
		*error = -ENOMEM;
		return NULL;
	}
	store_init(&o->store, dir_fd);
	o->refs = 2; /* the caller's and the thread's */
	for (unsigned i = 0; i < 2; i++)
		o->end[i] = (struct pipe_end){.o = o, .stream = i, .fd = -1, .wd = -1};
	return o;
}

struct output *output_new_terminal(int dir_fd, int master, int *error)
{
	struct output *o = make(dir_fd, error);
	struct pipe_end *e;

	if (!o)
		return NULL;
	e = &o->end[PROTO_STREAM_STDOUT];
	e->terminal = true;
	e->fd = fcntl(master, F_DUPFD_CLOEXEC, 0);
	*error = e->fd < 0 ? -errno : watch_fd(e->fd, EPOLLIN | EPOLLET, e);
	if (*error) {
		output_put(o, true);
		return NULL;
	}
	return o;
}

struct output *output_new(int dir_fd, int *out, int *err, int *error)
{
	struct output *o = make(dir_fd, error);
	int fd[2] = {-1, -1};

	if (!o)
		return NULL;
	for (unsigned i = 0; i < 2; i++) {
		fd[i] = open_end(o, i);
		if (fd[i] < 0) {
			*error = fd[i];
			if (i)
				close(fd[0]);
			output_put(o, true);
			return NULL;
		}
	}
	*out = fd[0];
	*err = fd[1];
	return o;
}

/* Tells the thread; the lock is held and given back. */
static void order(struct output *o)
{
	static const uint64_t one = 1;

	if (!o->ordered) {
		o->ordered = true;
		o->refs++;
		o->next_order = orders;
		orders = o;
	}
	pthread_mutex_unlock(&lock);
	atomic_store(&has_orders, true);
	if (write(wake_fd, &one, sizeof(one)) < 0)
		return; /* full: it is awake */
}

void output_drain(struct output *o, struct post *done)
{
	pthread_mutex_lock(&lock);
	o->drained = done;
	order(o);
}

void output_put(struct output *o, bool stop)
{
	if (stop) {
		pthread_mutex_lock(&lock);
		o->stop = true;
		order(o);
	}
	unref(o);
}

void output_limit(struct output *o, uint64_t keep)
{
	pthread_mutex_lock(&lock);
	o->keep = keep;
	order(o);
}

bool output_is_over(struct output *o)
{
	bool over;

	pthread_mutex_lock(&lock);
	over = o->over;
	pthread_mutex_unlock(&lock);
	return over;
}

void output_on_growth(struct post *p)
{
	atomic_store(&growth, p);
}

void output_on_more(struct post *p)
{
	atomic_store(&more, p);
}

void output_watch(struct output *o)
{
	atomic_store(&o->watched, true);
}

void output_get(struct output *o, struct store_info *info)
{
	store_get(&o->store, info);
}
