/*
 * See driver.h. One process, one thread (box_begin's child only writes to ctl/).
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

static int usage(const char *program, const char *name)
{
	fprintf(stderr, "usage: %s [--seed S] [--%s N] [--without KIND,...] [--local INSIDE] DIR\n",
		program, name);
	return -1;
}

int driver_open(struct driver *d, int argc, char **argv, const char *name)
{
	const struct option options[] = {{"seed", 1, NULL, 's'}, {name, 1, NULL, 'n'},
		{"without", 1, NULL, 'w'}, {"local", 1, NULL, 'l'}, {0}};
	const char *inside = NULL;
	int c;

	memset(d, 0, sizeof(*d));
	d->seed = (uint64_t)now_ns() / 1000 % 1000000007;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			d->seed = strtoull(optarg, NULL, 10);
			break;
		case 'n':
			d->wanted = strtol(optarg, NULL, 10);
			break;
		case 'w':
			d->pick.without = pick_kinds(optarg);
			if (!d->pick.without)
				return -1;
			break;
		case 'l':
			inside = optarg;
			break;
		default:
			return usage(argv[0], name);
		}
	}
	if (optind != argc - 1)
		return usage(argv[0], name);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s: seed %llu\n", argv[0], (unsigned long long)d->seed);
	d->pick.rnd.state = d->seed;
	tree_init(&d->tree);
	box_open(&d->box, argv[optind], inside);
	return 0;
}

/* --- reports ------------------------------------------------------------------------------------
 */

void driver_log(struct driver *d, const char *side, const struct op *op)
{
	char text[256];

	op_print(op, text, sizeof(text));
	snprintf(d->log[d->logged % LOG], sizeof(d->log[0]), "%ld %s: %s", d->done, side, text);
	d->logged++;
	d->counts[op->kind]++;
}

void driver_report(struct driver *d, const char *side, const char *op, const char *why)
{
	if (++d->wrongs > 20)
		return;
	if (d->wrongs == 1) {
		printf("the last ones (number side: operation, and what must come of it):\n");
		for (long i = d->logged > LOG ? d->logged - LOG : 0; i < d->logged; i++)
			printf("  %s\n", d->log[i % LOG]);
	}
	printf("WRONG: seed %llu, number %ld, %s: %s: %s\n", (unsigned long long)d->seed, d->done,
		side, op, why);
}

void driver_counts(const struct driver *d)
{
	for (int i = 0; i < OP_KINDS; i++)
		if (d->counts[i])
			printf("%s %ld, ", op_kind_name((enum op_kind)i), d->counts[i]);
	printf("%d nodes at the end\n", d->tree.nodes);
}

/* --- the host -----------------------------------------------------------------------------------
 */

int driver_host(struct driver *d, struct op *op, int ahead)
{
	struct place place;
	char text[512];
	int bad = act(&d->actor, op);

	/* The number that a file shows first is its number for life. */
	if (!bad && !ahead && op->kind == OP_STAT && !op->err &&
		!tree_find(&d->tree, op->path, &place) && place.node)
		place.node->ino = op->got_ino;
	if (!bad)
		return 0;
	op_print(op, text, sizeof(text));
	driver_report(d, "host", text, d->actor.why);
	return -1;
}

/* --- the inside ---------------------------------------------------------------------------------
 */

void batch_add(struct batch *batch, const struct op *op)
{
	static const char head[] = BOX_PROGRAM "\0act";

	if (!batch->count) {
		memcpy(batch->args, head, sizeof(head));
		batch->len = sizeof(head);
	}
	if (batch->count == BATCH)
		abort();
	batch->ops[batch->count++] = *op;
	op_print(op, batch->args + batch->len, sizeof(batch->args) - batch->len);
	batch->len += strlen(batch->args + batch->len) + 1;
}

/* The times of a file, as they are inside. */
static void learn(struct driver *d, const char *line)
{
	char path[OP_PATH];
	long long mtime, ctime;
	struct place place;

	if (sscanf(line, "snap %31s %lld %lld", path, &mtime, &ctime) != 3)
		return;
	if (tree_find(&d->tree, path, &place) || !place.node)
		return;
	place.node->mtime = mtime;
	place.node->ctime = ctime;
}

int driver_results(struct driver *d, int count)
{
	static char text[1 << 17];
	char *rest = text, *line, done[32];
	int wrongs = 0, ended = 0;

	box_output(&d->box, text, sizeof(text));
	snprintf(done, sizeof(done), "done %d", count);
	while ((line = strsep(&rest, "\n"))) {
		if (strncmp(line, "wrong ", 6) == 0) {
			driver_report(d, "inside", line + 6, "");
			wrongs++;
		} else if (strncmp(line, "snap ", 5) == 0) {
			learn(d, line);
		} else if (strcmp(line, done) == 0) {
			ended = 1;
		}
	}
	if (!ended && !wrongs) {
		driver_report(d, "inside", "the command", "did not end as it must; it printed:");
		printf("%s\n", text);
		wrongs++;
	}
	return wrongs;
}

int driver_inside(struct driver *d, struct batch *batch)
{
	int count = batch->count;

	if (!count)
		return 0;
	box_argv(&d->box, batch->args, batch->len);
	batch->count = 0;
	return driver_results(d, count);
}

static int begun;

void driver_begin(struct driver *d, struct batch *batch)
{
	begun = batch->count;
	box_begin(&d->box, batch->args, batch->len);
	batch->count = 0;
}

int driver_end(struct driver *d)
{
	box_end(&d->box);
	return driver_results(d, begun);
}

int driver_act(int argc, char **argv)
{
	static struct actor actor;
	int wrongs = 0, i;

	umask(0);
	if (chdir(BOX_TREE)) {
		perror(BOX_TREE);
		return 1;
	}
	for (i = 1; i < argc; i++) {
		struct op op;

		if (op_parse(&op, argv[i])) {
			printf("wrong %s: cannot be parsed\n", argv[i]);
			return 1;
		}
		if (act(&actor, &op) == 0)
			continue;
		printf("wrong %s: %s\n", argv[i], actor.why);
		wrongs++;
		/* After a change that was none the rest makes no sense. */
		if (op_changes(&op) || wrongs > 20)
			return 1;
	}
	printf("done %d\n", argc - 1);
	return wrongs != 0;
}

/* --- all there is -------------------------------------------------------------------------------
 */

struct visit {
	struct driver *d;
	struct batch *batch;
};

static void child_path(char *out, const char *path, int i)
{
	snprintf(out, OP_PATH, "%s/%d", path, i);
}

static void snap(struct visit *v, const struct node *dir, const char *path)
{
	for (int i = 0; i < OP_NAMES; i++) {
		const struct node *node = dir->child[i];
		char name[OP_PATH];
		struct op op;

		if (!node)
			continue;
		child_path(name, path, i);
		op_init(&op, OP_SNAP, name);
		if ((node->mtime < 0 || node->ctime < 0) && v->batch->count < BATCH)
			batch_add(v->batch, &op);
		if (node->type == 'd')
			snap(v, node, name);
	}
}

void driver_snaps(struct driver *d, struct batch *batch, int trees)
{
	struct visit v = {d, batch};

	for (int i = 0; i < 3; i++)
		if (trees & 1 << i)
			snap(&v, d->tree.top[i], (const char *[]){"a", "b", "h"}[i]);
}

static void look(struct visit *v, enum op_kind kind, const char *path)
{
	struct rnd *r = &v->d->pick.rnd;
	struct op op;

	op_init(&op, kind, path);
	if (v->batch->count == BATCH || v->d->pick.without & 1U << kind)
		return;
	if (kind == OP_READ) {
		op.flags = (int)rnd_below(r, R_METHODS);
		op.len = v->d->pick.size;
	}
	if (kind == OP_GETX)
		op.slot = (int)rnd_below(r, OP_XATTRS);
	tree_apply(&v->d->tree, &op);
	v->batch->ops[v->batch->count++] = op;
}

static void look_at(struct visit *v, const struct node *node, const char *path)
{
	struct rnd *r = &v->d->pick.rnd;
	char beneath[OP_PATH];

	look(v, OP_STAT, path);
	if (!node || node->type == 'd')
		return;
	if (node->type == 'l') {
		look(v, OP_READLINK, path);
		return;
	}
	look(v, OP_READ, path);
	if (rnd_once_in(r, 4)) { /* a file has nothing beneath it */
		child_path(beneath, path, 0);
		look(v, OP_STAT, beneath);
	}
	for (int i = 0; i < OP_XATTRS; i++)
		if (node->xattr_len[i] >= 0 && rnd_once_in(r, 2))
			look(v, OP_GETX, path);
}

static void look_into(struct visit *v, const struct node *dir, const char *path)
{
	look(v, OP_LIST, path);
	for (int i = 0; i < v->d->pick.names; i++) {
		char name[OP_PATH];

		child_path(name, path, i);
		look_at(v, dir->child[i], name);
		if (dir->child[i] && dir->child[i]->type == 'd')
			look_into(v, dir->child[i], name);
	}
}

static void look_held(struct visit *v)
{
	static const enum op_kind kinds[] = {OP_HREAD, OP_HMAP, OP_HSTAT};

	for (int i = 0; i < OP_SLOTS; i++)
		for (int k = 0; v->d->tree.held[i] && k < 3; k++) {
			struct op op;

			if (v->batch->count == BATCH || v->d->pick.without & 1U << kinds[k])
				continue;
			op_init(&op, kinds[k], "");
			op.slot = i;
			op.len = OP_MAP;
			tree_apply(&v->d->tree, &op);
			v->batch->ops[v->batch->count++] = op;
		}
}

static void shuffle(struct rnd *r, struct batch *batch)
{
	for (int i = batch->count - 1; i > 0; i--) {
		int k = (int)rnd_below(r, (unsigned)i + 1);
		struct op op = batch->ops[i];

		batch->ops[i] = batch->ops[k];
		batch->ops[k] = op;
	}
}

void driver_looks(struct driver *d, struct batch *batch, int trees)
{
	struct visit v = {d, batch};

	for (int i = 0; i < 3; i++)
		if (trees & 1 << i)
			look_into(&v, d->tree.top[i], (const char *[]){"a", "b", "h"}[i]);
	look_held(&v);
	shuffle(&d->pick.rnd, batch);
}
