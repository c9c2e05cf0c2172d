/* SPDX-License-Identifier: MIT */
/*
 * The I/O threads: a fixed number, each with an epoll of its own. A watch belongs to one of them
 * for life, and its callback runs only there. Callbacks must not block.
 */
#pragma once

#include <stdint.h>

struct loop;  /* all threads */
struct watch; /* one descriptor */

int loop_new(unsigned threads, struct loop **out);
/* Ends the threads. No watch may be left. */
void loop_free(struct loop *l);

/* Begins to watch fd for EPOLLIN. ready() runs in the watch's thread with the epoll events; the
 * last call is ready(arg, 0) after watch_end, and then the watch is gone. */
int watch_new(struct loop *l, int fd, void (*ready)(void *arg, uint32_t events), void *arg,
	struct watch **out);
/* From any thread: also (or no longer) watch for EPOLLOUT. */
void watch_want_out(struct watch *w, int want);
/* From the watch's own ready(): calls it again with EPOLLIN when others have had their turn. */
void watch_again(struct watch *w);
/* The same as watch_new, but nothing is told before watch_arm, and after each event nothing more
 * until the next: for descriptors whose far end may have hung up while nobody wants to know. */
int watch_new_once(struct loop *l, int fd, void (*ready)(void *arg, uint32_t events), void *arg,
	struct watch **out);
/* From any thread: EPOLLIN, EPOLLOUT, both, or 0 for an error and the end of both ways only. */
void watch_arm(struct watch *w, uint32_t events);
/* From any thread, once: ends it, with a last ready(arg, 0) from the watch's thread. */
void watch_end(struct watch *w);

/* The clock of the timers. */
int64_t loop_now_ms(void);

/* Runs fn(arg) once in an I/O thread, after delay_ms. What is pending at loop_free
 * runs then, so that nothing it owns is lost. */
int loop_after(struct loop *l, unsigned delay_ms, void (*fn)(void *arg), void *arg);
