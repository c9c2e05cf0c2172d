/* SPDX-License-Identifier: MIT */
/*
 * Sticky directories: a name is removed, moved or replaced by its owner, by the directory's owner,
 * or by root; by nobody else, whatever the modes say.
 */
#include "tests/posix/posix.h"

static const struct who users[] = {ID(0, 0), ID(65534, 65534), ID(65533, 65533)};

enum { USERS = sizeof(users) / sizeof(users[0]) };

static bool same(struct who a, struct who b)
{
	return a.uid == b.uid;
}

/* What sticky says: EACCES or EPERM by POSIX, EPERM in Linux. */
static int verdict(bool sticky, struct who caller, struct who dir, struct who file)
{
	return !sticky || caller.uid == 0 || same(caller, dir) || same(caller, file) ? 0 : EPERM;
}

/* One directory, one name in it; each caller tries to replace it, to move it, to remove it. */
struct place {
	const char *dir, *n;	/* dir is sticky or not, n in it */
	const char *out, *mine; /* out is free for all, mine in it: the caller's own */
	struct who dir_owner, owner;
	enum kind kind;
	bool sticky;
};

static void ensure(const struct place *p)
{
	if (faccessat(AT_FDCWD, p->n, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		make_for(p->kind, p->n, p->owner);
}

static void removes(const struct place *p, struct who caller)
{
	int err = verdict(p->sticky, caller, p->dir_owner, p->owner);
	struct stamp dir, file;

	ensure(p);
	dir = stamp(p->dir);
	file = stamp(p->n);
	want(err, caller, p->kind == DIR_ ? c_rmdir(p->n) : c_unlink(p->n));
	if (err) {
		is_kind(p->n, p->kind);
		times(dir, "MC");
		times(file, "MC");
	} else {
		is_gone(p->n);
	}
}

static void moves(const struct place *p, struct who caller)
{
	const char *within = at("%s/m", p->dir), *to = at("%s/to", p->out);
	int err = verdict(p->sticky, caller, p->dir_owner, p->owner);
	/* A directory's `..` changes, so it must be writable itself. */
	bool closed = p->kind == DIR_ && caller.uid && !same(caller, p->owner);
	int moved = err ? err : closed ? EACCES : 0;

	ensure(p);
	want(err, caller, c_rename(p->n, within));
	if (!err && try_as(ROOT, &(struct call[]){c_rename(within, p->n)}[0]))
		ensure(p);
	want(moved, caller, c_rename(p->n, to));
	is_kind(moved ? p->n : to, p->kind);
	if (!moved)
		wipe(to);
}

/* The caller's own file over this one. */
static void replaces(const struct place *p, struct who caller)
{
	int err = verdict(p->sticky, caller, p->dir_owner, p->owner);
	struct stat st;
	ino_t ino;

	ensure(p);
	make_for(p->kind == DIR_ ? DIR_ : REG, p->mine, caller);
	if (lstat(p->mine, &st) < 0)
		bail("lstat: %s", strerror(errno));
	ino = st.st_ino;
	want(err, caller, c_rename(p->mine, p->n));
	if (lstat(p->n, &st) < 0)
		st.st_ino = 0;
	holds((st.st_ino == ino) == !err, "the %s was %sreplaced", kind_names[p->kind],
		err ? "not " : "");
	wipe(err ? p->mine : p->n);
}

static void each_owner(bool sticky, enum kind k)
{
	for (int d = 0; d < USERS; d++) {
		struct place p = {
			.dir = name(), .kind = k, .dir_owner = users[d], .sticky = sticky};

		p.n = at("%s/n", p.dir);
		p.out = at("%s.out", p.dir);
		p.mine = at("%s/mine", p.out);
		make_for(DIR_, p.dir, users[d]);
		must(c_chmod(p.dir, sticky ? 01777 : 0777));
		must(c_mkdir(p.out, 0777));
		for (int f = 0; f < USERS; f++) {
			p.owner = users[f];
			for (int c = 0; c < USERS; c++) {
				replaces(&p, users[c]);
				moves(&p, users[c]);
				removes(&p, users[c]);
			}
			wipe(p.n);
		}
	}
}

/* The group is no owner: neither the file's nor the directory's helps. */
static void group_is_no_owner(void)
{
	struct who caller = WHO(65534, 65532, 65531);

	make_for(DIR_, "group", WHO(0, 65532));
	must(c_chmod("group", 01777));
	make_for(REG, "group/f", WHO(65533, 65532));
	must(c_chmod("group/f", 0666));
	want(EPERM, caller, c_unlink("group/f"));
	want(EPERM, caller, c_rename("group/f", "group/g"));
	want(0, caller, c_write("group/f"));
	want(0, caller, c_open("group/new", O_CREAT | O_EXCL | O_WRONLY, 0644));
	want(0, caller, c_unlink("group/new"));
}

void topic_sticky(void)
{
	for (each_kind(k)) {
		each_owner(true, k);
		if (k == REG || k == DIR_)
			each_owner(false, k);
	}
	group_is_no_owner();
}
