/*
 * Random operations by two actors, one on the host through the mount and one inside, against a
 * model.
 *
 * They take turns of one to sixty operations on the same two trees, or act at once, each on a tree
 * of its own. The end of a command inside is what makes its effects due on the host. Now and then,
 * and at the end, everything is looked at from both sides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "stress.h"

static struct driver d;
static struct batch batch, mine;

static int turn_length(void)
{
	static const unsigned longest[] = {1, 1, 4, 10, 30, 60};
	int n = (int)rnd_below(&d.pick.rnd, longest[rnd_below(&d.pick.rnd, 6)]) + 1;

	return n < d.wanted - d.done ? n : (int)(d.wanted - d.done);
}

static void next(const struct scope *scope, struct op *op)
{
	pick_op(&d.pick, &d.tree, scope, op);
	tree_apply(&d.tree, op);
	d.done++;
	driver_log(&d, scope->host ? "host" : "inside", op);
}

static int host_turn(void)
{
	const struct scope scope = {.trees = IN_A | IN_B, .host = 1};
	struct op op;

	for (int n = turn_length(); n > 0; n--) {
		next(&scope, &op);
		if (driver_host(&d, &op, 0))
			return -1;
	}
	return 0;
}

static int inside_turn(void)
{
	const struct scope scope = {.trees = IN_A | IN_B | IN_H};
	struct op op;

	for (int n = turn_length(); n > 0; n--) {
		next(&scope, &op);
		batch_add(&batch, &op);
	}
	return driver_inside(&d, &batch) ? -1 : 0;
}

/* What one can reach the other cannot: the order among them does not matter. */
static int turn_at_once(void)
{
	int a_is_host = (int)rnd_below(&d.pick.rnd, 2), bad = 0;
	struct scope host = {.trees = a_is_host ? IN_A : IN_B, .host = 1, .at_once = 1};
	struct scope inside = {.trees = IN_H | (a_is_host ? IN_B : IN_A), .at_once = 1};
	struct op op;

	tree_mark(&d.tree);
	for (int n = turn_length(); n > 0; n--) {
		next(&inside, &op);
		batch_add(&batch, &op);
	}
	mine.count = 0;
	for (int n = turn_length(); n > 0; n--) {
		next(&host, &op);
		mine.ops[mine.count++] = op;
	}
	if (!batch.count)
		return 0;
	driver_begin(&d, &batch);
	for (int i = 0; !bad && i < mine.count; i++)
		bad = driver_host(&d, &mine.ops[i], 1);
	return driver_end(&d) || bad ? -1 : 0;
}

static int look_from_inside(int tree)
{
	mine.count = batch.count = 0;
	driver_looks(&d, &mine, tree);
	for (int i = 0; i < mine.count; i++)
		if (mine.ops[i].path[0])
			batch_add(&batch, &mine.ops[i]);
	return driver_inside(&d, &batch);
}

/* Everything, from both sides; the times, which only the inside knows, are compared too. */
static int look_all(void)
{
	int wrongs = 0, last = d.done == d.wanted;

	for (int i = 0; i < 3; i++) {
		int tree = 1 << i;

		wrongs += look_from_inside(tree);
		batch.count = 0;
		driver_snaps(&d, &batch, tree);
		wrongs += driver_inside(&d, &batch);
		if (tree == IN_H && !last) /* the host is not to know it */
			continue;
		mine.count = 0;
		driver_looks(&d, &mine, tree);
		for (int k = 0; k < mine.count; k++)
			wrongs += driver_host(&d, &mine.ops[k], 0) != 0;
	}
	return wrongs ? -1 : 0;
}

int model_main(int argc, char **argv)
{
	int64_t start = now_ns();
	long looked = 0;
	int bad = 0;

	if (driver_open(&d, argc, argv, "ops"))
		return 2;
	if (!d.wanted)
		d.wanted = 30000;
	d.pick.names = OP_NAMES;
	d.pick.depth = OP_DEPTH;
	d.pick.nodes = 150;
	d.pick.size = OP_MAP;
	while (!bad && d.done < d.wanted) {
		unsigned which = rnd_below(&d.pick.rnd, 10);

		bad = which < 4 ? host_turn() : which < 8 ? inside_turn() : turn_at_once();
		if (!bad && (d.done - looked > 5000 || d.done == d.wanted)) {
			bad = look_all();
			looked = d.done;
		}
	}
	driver_counts(&d);
	printf("model: %ld operations in %.0f s, %s\n", d.done, (double)(now_ns() - start) / 1e9,
		bad ? "WRONG" : "all as they must be");
	return bad ? 1 : 0;
}
