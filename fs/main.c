/* SPDX-License-Identifier: MIT */
/* The program: options, the engine, the mount, the loop; and all of it again in reverse. */
#include "fs/fs.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "fs/changes.h"
#include "fs/inode.h"
#include "fs/op.h"
#include "fs/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The agent that goes with this program: beside it in the build tree, or where it was installed. */
static char *find_agent(const struct options *o)
{
	static const char *const beside[] = {"../agent/agent", "../libexec/sandboxfs/agent"};
	char exe[PATH_MAX], path[PATH_MAX + 64], *slash;
	ssize_t n;

	if (o->agent)
		return realpath(o->agent, NULL);
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (n > 0) {
		exe[n] = 0;
		slash = strrchr(exe, '/');
		for (size_t k = 0; slash && k < sizeof(beside) / sizeof(beside[0]); k++) {
			slash[1] = 0;
			snprintf(path, sizeof(path), "%s%s", exe, beside[k]);
			if (access(path, R_OK) == 0)
				return realpath(path, NULL);
		}
	}
	return realpath(SANDBOXFS_LIBEXEC "/agent", NULL);
}

/* What a daemon that died left behind is replaced. */
static int clear_mountpoint(const char *path)
{
	struct stat st;
	int status;
	pid_t pid;

	if (stat(path, &st) == 0)
		return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
	if (errno != ENOTCONN)
		return -errno;
	if (umount2(path, MNT_DETACH) == 0)
		return 0;
	pid = fork();
	if (pid == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-z", "--", path, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		return -ENOTCONN;
	return 0;
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

static int open_engine(const struct options *o, const char *agent, struct engine **e)
{
	struct engine_config config = {
		.host = o->host, .namespace = o->namespace, .agent_path = agent};
	struct err err = {0};
	char *text = NULL;

	if (docker_engine_open(&config, e, &err) < 0) {
		fprintf(stderr, "sandboxfs: no engine: %s\n", err.msg);
		return -err.code;
	}
	if (!o->engine || strcmp(o->engine, "auto") == 0) {
		if ((*e)->ops->describe(*e, &text, &err) == 0)
			fprintf(stderr, "sandboxfs: using %.*s\n", (int)strcspn(text, "\n"), text);
		free(text);
	}
	return 0;
}

static int fs_init(struct fs *fs, const struct options *o, struct registry *registry)
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
	fs->ops = op_table_new();
	fs->table = itable_new(fs, NULL);
	if (!fs->ops || !fs->table)
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

static int serve(
	struct fuse_args *args, const struct options *o, struct registry *registry, int say)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	struct fs fs = {0};
	struct fuse_session *se = NULL;
	bool mounted = false;
	int r = fs_init(&fs, o, registry);

	if (r == 0)
		se = fs.session = new_session(args, o, &fs);
	r = -EIO;
	if (se && fuse_set_signal_handlers(se) == 0) {
		mounted = fuse_session_mount(se, o->mountpoint) == 0;
		if (mounted && session_extend(se) == 0) {
			ready(say);
			r = fuse_session_loop_mt(se, config);
		}
		fuse_remove_signal_handlers(se);
	}
	/* First those who answer: unmounting closes the descriptor that they would write to. */
	registry_close(registry, o->rm_on_unmount && mounted);
	if (fs.threads)
		changes_threads_end(&fs);
	if (mounted)
		fuse_session_unmount(se);
	fs_fini(&fs);
	if (se)
		fuse_session_destroy(se);
	fuse_loop_cfg_destroy(config);
	return r;
}

static int run(struct fuse_args *args, struct options *o)
{
	cleanup_free char *agent = find_agent(o);
	struct registry_config config = {.namespace = o->namespace,
		.template_dirs = (const char *const *)o->template_dirs,
		.image = o->image,
		.max_sandboxes = o->max_sandboxes};
	struct registry *registry;
	struct err err = {0};
	int say = -1, r;

	if (!agent) {
		fprintf(stderr, "sandboxfs: cannot find the agent program: %s\n", strerror(errno));
		return -ENOENT;
	}
	r = clear_mountpoint(o->mountpoint);
	if (r < 0) {
		fprintf(stderr, "sandboxfs: %s: %s\n", o->mountpoint, strerror(-r));
		return r;
	}
	r = open_engine(o, agent, &config.engine);
	if (r < 0)
		return r;
	if (!o->foreground && !o->debug) {
		say = background();
		if (say < 0) {
			fprintf(stderr, "sandboxfs: cannot go to the background\n");
			config.engine->ops->close(config.engine);
			return say;
		}
	}
	r = registry_new(&config, &registry, &err);
	if (r < 0) {
		fprintf(stderr, "sandboxfs: %s\n", err.msg);
		return r;
	}
	return serve(args, o, registry, say);
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
		r = run(&args, &o);
	}
	fuse_opt_free_args(&args);
	options_fini(&o);
	return r < 0 ? 1 : 0;
}
