/* SPDX-License-Identifier: MIT */
/*
 * Topics for special places. They run only if named, in DIR itself:
 *
 * read_only  on a read-only file system: DIR has file, dir/inside, empty/, link (to file), fifo.
 * Where it has none, they are made, in a directory that is bound read-only for this process. caller
 * what the user --as=U:G:G2 may do. With --as-is the caller keeps its identity, since the mount
 * gives it that user's rights, and DIR has been prepared as prepare_caller() does. mapped     DIR's
 * files, whosever they are, are shown as --shown=U:G.
 */
#include "tests/posix/posix.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>

/* --- read-only
 * ------------------------------------------------------------------------------------------ */

static void refuses(void)
{
	static const struct timespec some[2] = {{.tv_sec = 1}, {.tv_sec = 2}};
	struct stamp file = stamp("file"), dir = stamp("dir"), link = stamp("link");

	want(EROFS, ROOT, c_open("file", O_WRONLY, 0));
	want(EROFS, ROOT, c_open("file", O_RDWR, 0));
	want(EROFS, ROOT, c_open("file", O_RDONLY | O_TRUNC, 0));
	want(EROFS, ROOT, c_open("file", O_WRONLY | O_TRUNC | O_CREAT, 0644));
	want(EROFS, ROOT, c_open("file", O_WRONLY | O_APPEND, 0));
	want(EROFS, ROOT, c_open("link", O_WRONLY, 0));
	want(EROFS, ROOT, c_open("new", O_CREAT | O_WRONLY, 0644));
	want(EROFS, ROOT, c_open("new", O_CREAT | O_EXCL | O_RDWR, 0644));
	want(EROFS, ROOT, c_open("dir/new", O_CREAT | O_RDONLY, 0644));
	want(EROFS, ROOT, c_mkdir("new", 0755));
	want(EROFS, ROOT, c_mkfifo("new", 0644));
	want(EROFS, ROOT, c_mknod("new", S_IFREG | 0644, 0));
	want(EROFS, ROOT, c_mknod("new", S_IFSOCK | 0644, 0));
	want(EROFS, ROOT, c_bind("new"));
	want(EROFS, ROOT, c_symlink("text", "new"));
	want(EROFS, ROOT, c_link("file", "new"));
	want(EROFS, ROOT, c_rename("file", "new"));
	want(EROFS, ROOT, c_rename("file", "dir/inside"));
	want(EROFS, ROOT, c_rename("dir", "new"));
	want(EROFS, ROOT, c_rename("empty", "dir/new"));
	want(EROFS, ROOT, c_unlink("file"));
	want(EROFS, ROOT, c_unlink("link"));
	want(EROFS, ROOT, c_unlink("fifo"));
	want(EROFS, ROOT, c_unlink("dir/inside"));
	want(EROFS, ROOT, c_rmdir("empty"));
	want(EROFS, ROOT, c_chmod("file", 0600));
	want(EROFS, ROOT, c_chmod("dir", 0700));
	want(EROFS, ROOT, c_chmod("link", 0600));
	want(EROFS, ROOT, c_fchmod("file", 0600));
	want(EROFS, ROOT, c_chown("file", 1, 1));
	want(EROFS, ROOT, c_chown("dir", 1, -1));
	want(EROFS, ROOT, c_lchown("link", -1, 1));
	want(EROFS, ROOT, c_fchown("file", 1, 1));
	want(EROFS, ROOT, c_truncate("file", 0));
	want(EROFS, ROOT, c_truncate("file", 100));
	want(EROFS, ROOT, c_utimens("file", some, 0));
	want(EROFS, ROOT, c_utimens("file", NULL, 0));
	want(EROFS, ROOT, c_utimens("link", some, AT_SYMLINK_NOFOLLOW));
	want(EROFS, ROOT, c_setxattr("file", "user.posix", 0));
	want(EROFS, ROOT, c_removexattr("file", "user.posix"));
	want(EROFS, ROOT, c_access("file", W_OK));
	want(EROFS, ROOT, c_access("dir", W_OK));
	/* What is there already is said first. */
	want(EEXIST, ROOT, c_mkdir("dir", 0755));
	want(EEXIST, ROOT, c_symlink("text", "file"));
	want(EEXIST, ROOT, c_link("file", "dir/inside"));
	want(EEXIST, ROOT, c_open("file", O_CREAT | O_EXCL | O_RDWR, 0644));
	is_gone("new");
	is_gone("dir/new");
	is_kind("file", REG);
	is_kind("empty", DIR_);
	is_kind("fifo", FIFO);
	is_kind("dir/inside", REG);
	times(file, "MC");
	times(dir, "MC");
	times(link, "MC");
}

static void allows(void)
{
	want(0, ROOT, c_open("file", O_RDONLY, 0));
	want(0, ROOT, c_open("file", O_RDONLY | O_CREAT, 0644)); /* it is there */
	want(0, ROOT, c_read("file"));
	want(0, ROOT, c_opendir("dir"));
	want(0, ROOT, c_chdir("empty"));
	want(0, ROOT, c_readlink("link"));
	want(0, ROOT, c_stat("link"));
	want(0, ROOT, c_access("file", R_OK));
	want(0, ROOT, c_listxattr("file"));
	want(0, ROOT, c_statfs("."));
	want(0, ROOT, c_open("fifo", O_RDWR, 0)); /* a fifo is not the disk's */
	want(ENOENT, ROOT, c_open("new", O_RDONLY, 0));
}

static void bind_read_only(const char *dir)
{
	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount(dir, dir, NULL, MS_BIND, NULL) < 0 ||
		mount("", dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) < 0)
		bail("cannot bind %s read-only: %s", dir, strerror(errno));
}

void topic_read_only(void)
{
	const char *dir = NULL;

	if (access("file", F_OK) < 0) {
		char here[4096];

		dir = at("%s/%s", getcwd(here, sizeof(here)), at("read_only.%d", (int)getpid()));
		must(c_mkdir(dir, 0755));
		make(REG, at("%s/file", dir));
		make(DIR_, at("%s/dir", dir));
		make(REG, at("%s/dir/inside", dir));
		make(DIR_, at("%s/empty", dir));
		make(FIFO, at("%s/fifo", dir));
		must(c_symlink("file", at("%s/link", dir)));
		bind_read_only(dir);
		if (chdir(dir) < 0)
			bail("chdir: %s", strerror(errno));
	}
	refuses();
	allows();
	if (dir && (chdir("..") < 0 || umount(dir) < 0))
		bail("umount: %s", strerror(errno));
	if (dir)
		wipe(dir);
}

/* --- the caller
 * ----------------------------------------------------------------------------------------- */

/* What a shell in the sandbox makes as root, in a directory of the user's. U is the user, 3000
 * another one, G2 the user's extra group. */
static void prepare_caller(const struct who *u)
{
	static const struct {
		const char *path;
		enum kind kind;
		int uid, gid; /* -1: the user's; -2: the extra group */
		mode_t mode;
	} things[] = {
		{"root_600", REG, 0, 0, 0600},
		{"root_644", REG, 0, 0, 0644},
		{"group_660", REG, 0, -2, 0660},
		{"group_640", REG, 0, -2, 0640},
		{"own_000", REG, -1, -1, 0},
		{"own_600", REG, -1, -1, 0600},
		{"foreign_666", REG, 3000, 3000, 0666},
		{"closed", DIR_, 0, 0, 0700},
		{"closed/f", REG, 0, 0, 0666},
		{"shared", DIR_, 0, 0, 0755},
		{"shared/f", REG, 0, 0, 0666},
		{"sticky", DIR_, 0, 0, 01777},
		{"sticky/f", REG, 0, 0, 0666},
		{"setgid", DIR_, 0, -2, 02775},
		{"foreign_setgid", DIR_, 3000, 3000, 02777},
	};

	must(c_chown(".", u->uid, u->gid));
	for (size_t k = 0; k < sizeof(things) / sizeof(things[0]); k++) {
		make(things[k].kind, things[k].path);
		must(c_chown(things[k].path, things[k].uid < 0 ? (long)u->uid : things[k].uid,
			things[k].gid == -2 ? (long)u->groups[0]
			: things[k].gid < 0 ? (long)u->gid
					    : things[k].gid));
		must(c_chmod(things[k].path, things[k].mode));
	}
}

static void caller_files(struct who me, const struct who *u)
{
	static const struct timespec some[2] = {{.tv_sec = 1}, {.tv_sec = 2}};
	static const struct {
		const char *path;
		int r, w; /* errno */
	} files[] = {{"root_600", EACCES, EACCES}, {"root_644", 0, EACCES}, {"group_660", 0, 0},
		{"group_640", 0, EACCES}, {"own_000", EACCES, EACCES}, {"own_600", 0, 0},
		{"foreign_666", 0, 0}, {"closed/f", EACCES, EACCES}, {"shared/f", 0, 0},
		{"sticky/f", 0, 0}};

	for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
		const char *p = files[k].path;
		int both = files[k].r ? files[k].r : files[k].w;

		want(files[k].r, me, c_open(p, O_RDONLY, 0));
		want(files[k].w, me, c_open(p, O_WRONLY, 0));
		want(both, me, c_open(p, O_RDWR, 0));
		want(files[k].w, me, c_open(p, O_WRONLY | O_TRUNC, 0));
		want(files[k].w, me, c_truncate(p, 5));
		want(files[k].w, me, c_write(p));
		want(files[k].r, me, c_read(p));
		want(files[k].r, me, c_access(p, R_OK));
		want(files[k].w, me, c_access(p, W_OK));
		want(EACCES, me, c_access(p, X_OK));
		want(files[k].w, me, c_setxattr(p, "user.posix", 0));
		want(files[k].r	     ? files[k].r
			: files[k].w ? ENODATA
				     : 0,
			me, c_getxattr(p, "user.posix"));
		if (p[0] == 'o') {
			want(0, me, c_chmod(p, files[k].r ? 0 : 0600));
			want(0, me, c_utimens(p, some, 0));
			want(0, me, c_utimens(p, NULL, 0));
		} else if (p[0] != 'c') {
			want(EPERM, me, c_chmod(p, 0666));
			want(EPERM, me, c_chown(p, u->uid, -1));
			want(EPERM, me, c_chown(p, -1, u->gid));
			want(EPERM, me, c_utimens(p, some, 0));
			want(files[k].w, me, c_utimens(p, NULL, 0));
		}
	}
	want(EPERM, me, c_chown("own_600", 0, -1));
	want(EPERM, me, c_chown("own_600", 3000, -1));
	want(EPERM, me, c_chown("own_600", -1, 3000));
	want(EPERM, me, c_chown("own_600", -1, 0));
	want(0, me, c_chown("own_600", -1, u->groups[0]));
	is_owner("own_600", u->uid, u->groups[0]);
	want(0, me, c_chmod("own_600", 02750));
	is_mode("own_600", 02750);
	want(0, me, c_chown("own_600", u->uid, u->gid));
	is_owner("own_600", u->uid, u->gid);
	is_mode("own_600", 0750);
}

static void caller_directories(struct who me, const struct who *u)
{
	want(EACCES, me, c_stat("closed/f"));
	want(EACCES, me, c_opendir("closed"));
	want(EACCES, me, c_chdir("closed"));
	want(EACCES, me, c_mkdir("closed/new", 0755));
	want(EACCES, me, c_rename("own_600", "closed/new"));
	want(0, me, c_opendir("shared"));
	want(EACCES, me, c_open("shared/new", O_CREAT | O_WRONLY, 0644));
	want(EACCES, me, c_mkdir("shared/new", 0755));
	want(EACCES, me, c_symlink("text", "shared/new"));
	want(EACCES, me, c_link("own_600", "shared/new"));
	want(EACCES, me, c_unlink("shared/f"));
	want(EACCES, me, c_rename("shared/f", "mine"));
	want(EACCES, me, c_rename("own_600", "shared/f"));
	want(EPERM, me, c_unlink("sticky/f"));
	want(EPERM, me, c_rename("sticky/f", "sticky/g"));
	want(0, me, c_open("sticky/new", O_CREAT | O_EXCL | O_WRONLY, 0644));
	want(EPERM, me, c_rename("sticky/new", "sticky/f"));
	want(0, me, c_unlink("sticky/new"));
	/* In one's own directory one removes whatever is there. */
	want(0, me, c_rename("root_644", "moved"));
	want(0, me, c_unlink("moved"));
	want(0, me, c_unlink("root_600"));
	is_gone("root_600");
	/* New files are the user's, in a set-gid directory its group's. */
	want(0, me, c_open("setgid/f", O_CREAT | O_EXCL | O_WRONLY, 02755));
	is_owner("setgid/f", u->uid, u->groups[0]);
	is_mode("setgid/f", 02755);
	want(0, me, c_mkdir("setgid/d", 0755));
	is_owner("setgid/d", u->uid, u->groups[0]);
	is_mode("setgid/d", 02755);
	want(0, me, c_open("foreign_setgid/f", O_CREAT | O_EXCL | O_WRONLY, 02755));
	is_owner("foreign_setgid/f", u->uid, 3000);
	is_mode("foreign_setgid/f", 0755);
}

static void caller_makes(struct who me, const struct who *u)
{
	static const mode_t masks[] = {0, 022, 027, 077, 0777};

	for (size_t k = 0; k < sizeof(masks) / sizeof(masks[0]); k++) {
		const char *d = name();

		want(0, masked(me, 0), c_mkdir(d, 0777));
		want(0, masked(me, masks[k]), c_open(at("%s/f", d), O_CREAT | O_RDWR, 0666));
		want(0, masked(me, masks[k]), c_mkdir(at("%s/d", d), 0777));
		want(0, masked(me, masks[k]), c_mkfifo(at("%s/p", d), 0666));
		want(0, masked(me, masks[k]), c_bind(at("%s/s", d)));
		want(0, masked(me, masks[k]), c_symlink("text", at("%s/l", d)));
		is_mode(at("%s/f", d), 0666 & ~masks[k]);
		is_mode(at("%s/d", d), 0777 & ~masks[k]);
		is_mode(at("%s/p", d), 0666 & ~masks[k]);
		is_mode(at("%s/s", d), 0777 & ~masks[k]);
		for (const char *n = "fdpsl"; *n; n++)
			is_owner(at("%s/%c", d, *n), u->uid, u->gid);
	}
	want(EPERM, me, c_mknod("device", S_IFCHR | 0666, makedev(1, 3)));
	want(EPERM, me, c_mknod("device", S_IFBLK | 0666, makedev(7, 0)));
	is_gone("device");
}

void topic_caller(void)
{
	struct who me = ROOT;
	const char *dir = NULL;

	if (!options.caller.uid || !options.caller.n)
		bail("topic caller needs --as=U:G:G2");
	if (!options.as_is) {
		me = options.caller;
		dir = at("caller.%d", (int)getpid());
		must(c_mkdir(dir, 0755));
		if (chdir(dir) < 0)
			bail("chdir: %s", strerror(errno));
		prepare_caller(&me);
	}
	caller_files(me, &options.caller);
	caller_directories(me, &options.caller);
	caller_makes(me, &options.caller);
	if (dir) {
		if (chdir("..") < 0)
			bail("chdir: %s", strerror(errno));
		wipe(dir);
	}
}

/* --- shown as one user
 * ------------------------------------------------------------------------------------ */

static void shown_here(uid_t uid, gid_t gid, unsigned *n)
{
	struct dirent *e;
	DIR *d = opendir(".");

	if (!d)
		bail("opendir: %s", strerror(errno));
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, "..") != 0) {
			is_owner(e->d_name, uid, gid);
			++*n;
		}
	}
	closedir(d);
}

void topic_mapped(void)
{
	uid_t uid = (uid_t)options.shown_uid;
	gid_t gid = (gid_t)options.shown_gid;
	unsigned n = 0;

	shown_here(uid, gid, &n);
	holds(n > 3, "there are files of several owners");
	want(0, ROOT, c_open("new", O_CREAT | O_EXCL | O_WRONLY, 0640));
	is_owner("new", uid, gid);
	is_mode("new", 0640);
	want(0, ROOT, c_mkdir("new_dir", 0750));
	is_owner("new_dir", uid, gid);
	want(0, ROOT, c_symlink("new", "new_link"));
	is_owner("new_link", uid, gid);
	want(0, ROOT, c_mkfifo("new_fifo", 0600));
	is_owner("new_fifo", uid, gid);
	want(0, ROOT, c_mkdir("new_dir/deep", 0750));
	is_owner("new_dir/deep", uid, gid);
	/* To whom it is shown to belong already: done. To anybody else: there is nobody else. */
	want(0, ROOT, c_chown("new", uid, gid));
	want(0, ROOT, c_chown("new", uid, -1));
	want(0, ROOT, c_chown("new", -1, gid));
	want(0, ROOT, c_chown("new_dir", uid, gid));
	want(0, ROOT, c_lchown("new_link", uid, gid));
	want(0, ROOT, c_fchown("new", uid, gid));
	want(EPERM, ROOT, c_chown("new", uid + 1, gid));
	want(EPERM, ROOT, c_chown("new", -1, gid + 1));
	want(EPERM, ROOT, c_chown("new", uid + 1, -1));
	want(EPERM, ROOT, c_chown("new_dir", uid, gid + 1));
	want(EPERM, ROOT, c_lchown("new_link", uid + 1, gid + 1));
	is_owner("new", uid, gid);
	is_owner("new_dir", uid, gid);
	/* The rest is as ever. */
	want(0, ROOT, c_chmod("new", 0600));
	is_mode("new", 0600);
	want(0, ROOT, c_write("new"));
	want(0, ROOT, c_read("new"));
	want(0, ROOT, c_rename("new", "new_dir/moved"));
	is_owner("new_dir/moved", uid, gid);
	want(0, ROOT, c_link("new_dir/moved", "new"));
	is_owner("new", uid, gid);
	want(0, ROOT, c_access("new", R_OK | W_OK));
	want(0, ROOT, c_unlink("new"));
	want(0, ROOT, c_utimens("new_dir/moved", NULL, 0));
}
