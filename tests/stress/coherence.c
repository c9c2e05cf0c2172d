/*
 * What one side changes the other sees at once.
 *
 * In even rounds a command changes a small tree, in odd ones the host does, by one to three
 * operations. Then the other side looks at everything: names, absent names, listings, attributes,
 * bytes by every way to read them, descriptors and mappings that have been open for long. The host
 * has looked at all of that in the round before, so whatever it caches is warm, and an answer from
 * a stale cache is seen.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "stress.h"
#include "sys.h"

enum { PRINTED = 300 }; /* bytes that a shell's command may have in its text */

static struct driver d;
static struct batch batch, looks;

/* --- a change as a shell would make it ----------------------------------------------------------
 */

static int shell_write(const struct op *op, const char *path, char *text, size_t len)
{
	char data[PRINTED + 1];

	if (op->len > PRINTED || op->flags & W_DIRECT)
		return 0;
	data_fill(data, (size_t)op->len, op->seed, (uint64_t)op->off);
	data[op->len] = '\0';
	if (op->flags & W_APPEND)
		snprintf(text, len, "printf %%s '%s' >> %s", data, path);
	else if (op->flags & W_TRUNC)
		snprintf(text, len, "printf %%s '%s' > %s", data, path);
	else
		snprintf(text, len,
			"printf %%s '%s' | dd of=%s bs=1 seek=%lld conv=notrunc 2>/dev/null", data,
			path, (long long)op->off);
	return 1;
}

static int shell_rename(
	const struct op *op, const char *path, const char *path2, char *text, size_t len)
{
	struct place from, to;

	if (op->flags || tree_find(&d.tree, op->path, &from) || tree_find(&d.tree, op->path2, &to))
		return 0;
	/* Onto a directory mv moves into it; of two names of one file it complains. */
	if (to.node && (to.node->type == 'd' || to.node == from.node))
		return 0;
	snprintf(text, len, "mv -f %s %s", path, path2);
	return 1;
}

/* 0 where it takes more than a shell with busybox; to be called before the model has changed. */
static int as_shell(const struct op *op, char *text, size_t len)
{
	char path[PATH_MAX], path2[PATH_MAX] = "", target[64];

	if (!op_plain(op->path) || (op->path2[0] && !op_plain(op->path2)))
		return 0;
	op_real(op->path, path);
	if (op->path2[0])
		op_real(op->path2, path2);
	switch (op->kind) {
	case OP_WRITE:
		return shell_write(op, path, text, len);
	case OP_RENAME:
		return shell_rename(op, path, path2, text, len);
	case OP_CREATE:
		snprintf(text, len, ": > %s; chmod %o %s", path, op->mode, path);
		break;
	case OP_TRUNC:
		snprintf(text, len, "truncate -s %lld %s", (long long)op->len, path);
		break;
	case OP_LINK:
		snprintf(text, len, "ln %s %s", path, path2);
		break;
	case OP_UNLINK:
		snprintf(text, len, "rm -f %s", path);
		break;
	case OP_MKDIR:
		snprintf(text, len, "mkdir -m %o %s", op->mode, path);
		break;
	case OP_RMDIR:
		snprintf(text, len, "rmdir %s", path);
		break;
	case OP_SYMLINK:
		tree_target(op->seed, target, sizeof(target));
		snprintf(text, len, "ln -s %s %s", target, path);
		break;
	case OP_CHMOD:
		snprintf(text, len, "chmod %o %s", op->mode, path);
		break;
	default:
		return 0;
	}
	return 1;
}

/* --- rounds -------------------------------------------------------------------------------------
 */

/* The next change that succeeds; CAN says in its text how a shell does it. */
static void next_change(const struct scope *scope, struct op *op, char *text, size_t len)
{
	text[0] = '\0';
	do {
		pick_op(&d.pick, &d.tree, scope, op);
		if (!op_changes(op))
			continue;
		if (scope->host || rnd_once_in(&d.pick.rnd, 4) || !as_shell(op, text, len))
			text[0] = '\0';
		tree_apply(&d.tree, op);
	} while (!op_changes(op) || op->err);
	driver_log(&d, scope->host ? "host" : text[0] ? "shell" : "inside", op);
}

struct script {
	char text[16384];
	size_t len;
	int acting; /* operations of the `stress act` that the text ends in */
};

static void add(struct script *s, const char *text)
{
	size_t len = strlen(text);

	if (s->len + len + 1 > sizeof(s->text))
		abort();
	memcpy(s->text + s->len, text, len + 1);
	s->len += len;
}

/* Each operation by this program ends in a line of its own, so that none is missed. */
static void add_act(struct script *s, const struct op *op)
{
	char text[256];

	op_print(op, text, sizeof(text));
	add(s, "\n(cd .. && " BOX_PROGRAM " act '");
	add(s, text);
	add(s, "') || exit 1");
}

static int change_inside(void)
{
	static const struct scope scope = {.trees = IN_A | IN_B | IN_H};
	static struct script s;
	char text[4096], out[4096];
	struct op op;

	s.len = 0;
	add(&s, "umask 0; cd " BOX_TREE " || exit 1");
	for (unsigned n = rnd_below(&d.pick.rnd, 3) + 1; n > 0; n--) {
		next_change(&scope, &op, text, sizeof(text));
		if (text[0]) {
			add(&s, "\n{ ");
			add(&s, text);
			add(&s, "; } || { echo wrong; exit 1; }");
		} else {
			add_act(&s, &op);
		}
	}
	box_shell(&d.box, s.text, (enum box_way)rnd_below(&d.pick.rnd, BOX_WAYS));
	/* Reading what it printed is a look at ctl/, no more; but half of the rounds go without. */
	if (rnd_once_in(&d.pick.rnd, 2))
		return 0;
	box_output(&d.box, out, sizeof(out));
	if (!strstr(out, "wrong"))
		return 0;
	driver_report(&d, "inside", s.text, out);
	return -1;
}

static void change_outside(void)
{
	static const struct scope scope = {.trees = IN_A | IN_B, .host = 1};
	char text[4096];
	struct op op;

	for (unsigned n = rnd_below(&d.pick.rnd, 3) + 1; n > 0; n--) {
		next_change(&scope, &op, text, sizeof(text));
		driver_host(&d, &op, 0);
	}
}

/* A stale answer gets better with time, a wrong one does not. */
static void look_again(struct op *op)
{
	usleep(300000);
	printf("  300 ms later: %s\n", act(&d.actor, op) ? d.actor.why : "as it must be");
}

static void look_outside(void)
{
	looks.count = 0;
	driver_looks(&d, &looks, IN_A | IN_B);
	for (int i = 0; i < looks.count; i++)
		if (driver_host(&d, &looks.ops[i], 0) && d.wrongs <= 3)
			look_again(&looks.ops[i]);
}

static void look_inside(void)
{
	looks.count = batch.count = 0;
	driver_looks(&d, &looks, IN_A | IN_B);
	for (int i = 0; i < looks.count; i++)
		if (looks.ops[i].path[0])
			batch_add(&batch, &looks.ops[i]);
	driver_snaps(&d, &batch, IN_A | IN_B);
	driver_inside(&d, &batch);
}

/* The host keeps some files open, and lets go of them again. */
static void hold_some(void)
{
	static const struct scope scope = {.trees = IN_A | IN_B, .host = 1};
	struct op op;

	do
		pick_op(&d.pick, &d.tree, &scope, &op);
	while (op.kind != OP_HOLD && op.kind != OP_DROP);
	tree_apply(&d.tree, &op);
	driver_log(&d, "host", &op);
	driver_host(&d, &op, 0);
}

static void round_of(int inside_changes)
{
	if (rnd_once_in(&d.pick.rnd, 4) && !(d.pick.without & 1U << OP_HOLD))
		hold_some();
	if (!inside_changes) {
		change_outside();
		look_inside();
	} else if (!change_inside() && rnd_once_in(&d.pick.rnd, 2)) {
		/* The exact times, from inside: but in the other half the change is the last thing
		 * there. */
		batch.count = 0;
		driver_snaps(&d, &batch, IN_A | IN_B);
		driver_inside(&d, &batch);
	}
	look_outside();
}

int coherence_main(int argc, char **argv)
{
	int64_t start = now_ns();

	if (driver_open(&d, argc, argv, "rounds"))
		return 2;
	if (!d.wanted)
		d.wanted = 2000;
	d.pick.names = 5;
	d.pick.depth = 3;
	d.pick.nodes = 20;
	d.pick.size = 40960;
	look_outside();
	for (; d.done < 2 * d.wanted && d.wrongs < 20; d.done++)
		round_of(d.done % 2 == 0);
	driver_counts(&d);
	printf("coherence: %ld rounds each way, %.1f ms each, %s\n", d.done / 2,
		(double)(now_ns() - start) / 1e6 / (double)d.done,
		d.wrongs ? "WRONG" : "no stale answer");
	return d.wrongs ? 1 : 0;
}
