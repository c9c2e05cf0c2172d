/* SPDX-License-Identifier: MIT */
/* The program: options, the engine, the mount, the loop; and all of it again in reverse. */
#include "fs/fs.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "fs/changes.h"
#include "fs/choose.h"
#include "fs/doing.h"
#include "fs/drain.h"
#include "fs/inode.h"
#include "fs/mountpoint.h"
#include "fs/op.h"
#include "fs/scratch.h"
#include "fs/session.h"
#include "fs/siphash.h"
#include "fs/templates.h"
#include "fs/trail.h"
#include "fs/vacant.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX  65536u
#define PATIENT_MS 2000 /* with tellers that wait for others */

/* A program that goes with this one: beside it in the build tree, or where it was installed. */
static char *find_program(const char *build_dir, const char *name)
{
	char exe[PATH_MAX], path[2 * PATH_MAX], *slash;
	ssize_t n;

	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = 0;
	slash = strrchr(exe, '/');
	if (slash)
		slash[1] = 0;
	for (size_t k = 0; slash && k < 2; k++) {
		if (k == 0)
			snprintf(path, sizeof(path), "%s../%s/%s", exe, build_dir, name);
		else
			snprintf(path, sizeof(path), "%s../libexec/sandboxfs/%s", exe, name);
		if (access(path, R_OK) == 0)
			return realpath(path, NULL);
	}
	snprintf(path, sizeof(path), SANDBOXFS_LIBEXEC "/%s", name);
	return realpath(path, NULL);
}

/* In the background: the parent waits for the child's word, and exits with its status. */
static int background(void)
{
	int pipes[2];
	char status = 1;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		close(pipes[1]);
		if (read(pipes[0], &status, 1) != 1)
			status = 1;
		_exit(status);
	}
	close(pipes[0]);
	setsid();
	return pipes[1];
}

static void ready(int say)
{
	cleanup_close int null = -1;
	char status = 0;

	if (say < 0)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
	}
	if (chdir("/") < 0 || write(say, &status, 1) != 1)
		log_warn("the parent is gone");
	close(say);
}

static int fs_init(
	struct fs *fs, const struct options *o, struct registry *registry, const struct doer *doer)
{
	fs->options = o;
	fs->registry = registry;
	fs->next_id = PROTO_NODE_FIRST;
	fs->mounter_uid = getuid();
	fs->mounter_gid = getgid();
	clock_gettime(CLOCK_REALTIME, &fs->mounted);
	pthread_mutex_init(&fs->tables_lock, NULL);
	fs->threads = changes_threads_new();
	if (!fs->threads)
		return -ENOMEM;
	fs->scratch = scratch_store_new();
	fs->templates = template_names_new();
	fs->vacant = vacant_new();
	fs->doing = doing_new(fs, doer);
	fs->trail = trail_new(registry);
	fs->ops = op_table_new();
	fs->table = itable_new(fs, NULL);
	if (!fs->ops || !fs->table || !fs->scratch || !fs->templates || !fs->doing || !fs->trail ||
		!fs->vacant)
		return -ENOMEM;
	fs->root = inode_fixed(fs->table, &root_ops, 0);
	return fs->root ? 0 : -ENOMEM;
}

/* After registry_close: no answer can come any more. */
static void fs_fini(struct fs *fs)
{
	struct itable *t;

	for (t = itable_next(fs, NULL); t;) {
		struct itable *next = itable_next(fs, t);

		itable_clear(t); /* may free it with its sandbox */
		t = next;
	}
	if (fs->table)
		itable_free(fs->table);
	registry_free(fs->registry);
	op_table_free(fs->ops);
	scratch_store_free(fs->scratch);
	template_names_free(fs->templates);
	vacant_free(fs->vacant);
	changes_threads_free(fs->threads);
	pthread_mutex_destroy(&fs->tables_lock);
}

static struct fuse_session *new_session(
	struct fuse_args *args, const struct options *o, struct fs *fs)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "-ofsname=%s,subtype=sandboxfs",
		o->source ? o->source : "sandboxfs");
	fuse_opt_add_arg(args, name);
	if (!o->exec)
		fuse_opt_add_arg(args, "-onoexec");
	if (o->allow_other)
		fuse_opt_add_arg(args, "-oallow_other,default_permissions");
	if (o->debug)
		fuse_opt_add_arg(args, "-d");
	return fuse_session_new(args, &fs_lowlevel_ops, sizeof(fs_lowlevel_ops), fs);
}

/* No worker is left. First those who answer, then those who tell: unmounting closes the descriptor
 * that they would write to. Tellers may wait for a lock whose holder has a request that nobody
 * reads, or that libfuse read and threw away when it was told to end. */
static void stop(struct fs *fs, bool mounted, const char *device)
{
	struct drain *drain = mounted ? drain_start(fs->session) : NULL;

	if (fs->threads)
		changes_threads_close(fs);
	if (fs->trail)
		trail_stop(fs->trail);
	registry_close(fs->registry, fs->options->rm_on_unmount && mounted);
	if (fs->threads && !changes_threads_end(fs, PATIENT_MS)) {
		mountpoint_abort(fs->options->mountpoint, device);
		changes_threads_end(fs, -1);
	}
	if (fs->doing)
		doing_stop(fs->doing);
	drain_stop(drain);
}

static int serve(struct fuse_args *args, const struct options *o, struct registry *registry,
	const struct doer *doer, int say)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	struct fs fs = {0};
	struct fuse_session *se = NULL;
	char device[MOUNTPOINT_DEVICE] = "";
	bool mounted = false;
	int r = fs_init(&fs, o, registry, doer);

	if (r == 0)
		se = fs.session = new_session(args, o, &fs);
	r = -EIO;
	if (se && fuse_set_signal_handlers(se) == 0) {
		mounted = fuse_session_mount(se, o->mountpoint) == 0;
		if (mounted)
			mountpoint_device(o->mountpoint, device);
		if (mounted && session_extend(se) == 0) {
			ready(say);
			r = fuse_session_loop_mt(se, config);
		}
		fuse_remove_signal_handlers(se);
	}
	stop(&fs, mounted, device);
	if (mounted)
		fuse_session_unmount(se);
	doing_free(fs.doing);
	trail_free(fs.trail);
	fs_fini(&fs);
	if (se)
		fuse_session_destroy(se);
	fuse_loop_cfg_destroy(config);
	return r;
}

/* The daemon does not stay in the directory that it was started in. */
static void make_absolute(char **path)
{
	char *real = realpath(*path, NULL);

	if (real) {
		free(*path);
		*path = real;
	}
}

static int run(struct fuse_args *args, struct options *o)
{
	cleanup_free char *agent =
		o->agent ? realpath(o->agent, NULL) : find_program("agent", "agent");
	cleanup_free char *launch = find_program("bwrap", "launch"), *why = NULL;
	struct template_rules rules = {.dirs = (const char *const *)o->template_dirs,
		.image = o->image,
		.allow_binds = (const char *const *)o->allow_binds};
	struct registry_config config = {.namespace = o->namespace,
		.rules = &rules,
		.max_sandboxes = o->max_sandboxes,
		.audit = o->audit};
	struct registry *registry;
	struct err err = {0};
	struct doer doer;
	int say = -1, r;

	if (!agent) {
		fprintf(stderr, "sandboxfs: cannot find the agent program: %s\n", strerror(errno));
		return -ENOENT;
	}
	r = mountpoint_clear(o->mountpoint);
	if (r < 0) {
		fprintf(stderr, "sandboxfs: %s: %s\n", o->mountpoint, strerror(-r));
		return r;
	}
	make_absolute(&o->mountpoint);
	r = choose_engine(o, agent, launch, &config.engine, &why);
	if (r < 0)
		return r;
	config.chosen = why;
	if (!rules.image)
		rules.image = config.engine->ops->default_image;
	if (config.engine->ops->limits_lacking)
		rules.no_limits = config.engine->ops->limits_lacking(config.engine);
	if (!o->foreground && !o->debug) {
		say = background();
		if (say < 0) {
			fprintf(stderr, "sandboxfs: cannot go to the background\n");
			config.engine->ops->close(config.engine);
			return say;
		}
	}
	r = doer_start(o->mountpoint, &doer); /* there are no threads yet */
	if (r < 0) {
		fprintf(stderr, "sandboxfs: cannot start a process: %s\n", strerror(-r));
		config.engine->ops->close(config.engine);
		return r;
	}
	r = registry_new(&config, &registry, &err);
	if (r < 0)
		fprintf(stderr, "sandboxfs: %s\n", err.msg);
	else
		r = serve(args, o, registry, &doer, say);
	doer_end(&doer);
	return r;
}

/* A connection a sandbox, and one for each client of a forwarded port. */
static void raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_MAX) {
		files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct options o = {0};
	int r = options_parse(&o, &args);

	if (r == 0 && o.show_help)
		options_help();
	else if (r == 0 && o.show_version)
		puts("sandboxfs " SANDBOXFS_VERSION);
	else if (r == 0) {
		log_level(o.debug ? LOG_TRACE : o.foreground ? LOG_INFO : LOG_WARN);
		raise_files();
		/* An arena a thread keeps much of what a walk of very many files took. */
		mallopt(M_ARENA_MAX, 2);
		siphash_seed();
		r = run(&args, &o);
	}
	fuse_opt_free_args(&args);
	options_fini(&o);
	return r < 0 ? 1 : 0;
}
