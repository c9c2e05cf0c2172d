/*
 * The sandbox whose inside acts: one of a mount, through its ctl/, or, to test the test, a local
 * directory.
 */
#ifndef STRESS_BOX_H
#define STRESS_BOX_H

#include <stddef.h>

struct box {
	char ctl[4096];	    /* "" if local */
	char inside[4096];  /* if local: the directory that stands for the workspace */
	char outside[4096]; /* the host's view of the workspace */
	int child;	    /* box_begin: who waits */
	int in_job;	    /* the last one was a job of its own */
};

/* How a caller learns of a command's end: the close of ctl/exec returns; a read of a job's `wait`
 * does; a job's `result` says so when it is read again and again. */
enum box_way { BOX_EXEC, BOX_WAIT, BOX_RESULT, BOX_WAYS };

/*
 * DIR is a sandbox's directory, or, with INSIDE, a view of the directory INSIDE. Puts this program
 * into the workspace as BOX_PROGRAM, makes the tree's directories and enters it. Exits if it
 * cannot.
 */
void box_open(struct box *box, const char *dir, const char *inside);

#define BOX_PROGRAM "./stress.bin"
#define BOX_TREE    "tree"

/* Runs the NUL-separated ARGS of LEN bytes (or the shell's TEXT) there to its end. Exits if it
 * cannot. */
void box_argv(struct box *box, const char *args, size_t len);
void box_shell(struct box *box, const char *text, enum box_way way);
/* The same in two steps, for a caller that has something to do meanwhile. */
void box_begin(struct box *box, const char *args, size_t len);
void box_end(struct box *box);
/* What the last one printed. */
void box_output(struct box *box, char *text, size_t len);

#endif
