/* SPDX-License-Identifier: MIT */
/* The setup file as the agent takes it: what a hostile image and a broken file come to, what is
 * done once, and when a sandbox counts as unused. The sandbox's root is a directory of ours. */
#include "test_agent_files.h"
#include "test_agent_jobs.h"

#include "common/setup_file.h"

static struct agent box;
static struct buf file;

static char *in_root(const char *name)
{
	static char p[4][256];
	static unsigned i;
	char *s = p[i++ % 4];

	snprintf(s, 256, "%s/root%s", box.dir, name);
	return s;
}

static void begin(void)
{
	strcpy(box.dir, "/tmp/agent-test-XXXXXX");
	CHECK(mkdtemp(box.dir));
	chmod(box.dir, 0755);
	CHECK(mkdir(in_root(""), 0755) == 0 && mkdir(in_root("/etc"), 0755) == 0);
	put_text(in_root("/etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nold:x:1000:1000::/old:/x");
	put_text(in_root("/etc/group"), "root:x:0:\nold:x:1000:\nwheel:x:10:old\n");
	put_text(in_root("/etc/shadow"), "root:*:::::::\n");
	CHECK(chmod(in_root("/etc/shadow"), 0600) == 0);
	buf_init(&file, 1 << 20);
	wire_u32(&file, SETUP_MAGIC);
	wire_u32(&file, SETUP_VERSION);
}

static void add_file(const char *path, const char *text)
{
	wire_u8(&file, SETUP_FILE);
	wire_str(&file, path);
	wire_str(&file, "");
	wire_u32(&file, 0640);
	wire_str(&file, text);
}

static void add_user(const char *name, uint32_t uid, const char *group)
{
	wire_u8(&file, SETUP_USER);
	wire_str(&file, name);
	wire_u32(&file, uid);
	wire_u32(&file, SETUP_ID_NONE);
	wire_str(&file, "");
	wire_str(&file, "");
	wire_u32(&file, group ? 1 : 0);
	if (group)
		wire_str(&file, group);
}

static void add_hook_with(uint8_t kind, const char *script, const char *const *env, uint32_t n)
{
	wire_u8(&file, kind);
	wire_str(&file, "");
	wire_str(&file, "/");
	wire_u32(&file, 3);
	wire_str(&file, "/bin/sh");
	wire_str(&file, "-c");
	wire_str(&file, script);
	wire_u32(&file, n);
	for (uint32_t i = 0; i < n; i++)
		wire_str(&file, env[i]);
}

static void add_hook(uint8_t kind, const char *script)
{
	add_hook_with(kind, script, NULL, 0);
}

/* Starts the agent on what was put together, less `cut` bytes. */
static void start(size_t cut)
{
	char state[96], ws[96], log[96], path[128];

	snprintf(state, sizeof(state), "%s/state", box.dir);
	snprintf(ws, sizeof(ws), "%s/ws", box.dir);
	snprintf(log, sizeof(log), "%s/log", box.dir);
	if (file.len) {
		int fd;

		wire_u8(&file, SETUP_END);
		mkdir(state, 0700);
		snprintf(path, sizeof(path), "%s/" SETUP_NAME, state);
		fd = open(path, O_WRONLY | O_CREAT, 0600);
		CHECK(write(fd, file.data, file.len - cut) == (ssize_t)(file.len - cut));
		close(fd);
		buf_fini(&file);
	}
	box.pid = fork();
	CHECK(box.pid >= 0);
	if (box.pid == 0) {
		dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
		execl(agent_path(), "agent", "init", "--state", state, "--root", in_root(""),
			"--workspace", ws, "--user", "0", "--setup", "1", (char *)NULL);
		_exit(99);
	}
}

/* What HELLO and then SETUP say. */
static void ask(struct client *c, char trouble[512], struct proto_setup *s)
{
	struct proto_hello h = {0};
	struct buf b;
	size_t at;

	CHECK(client_hello(c, &box, "setup", &h) == 0);
	snprintf(trouble, 512, "%s", h.trouble);
	proto_hello_fini(&h);
	at = client_begin(c, &b, PROTO_SETUP);
	CHECK(client_call(c, &b, at) == 0);
	proto_get_setup(&c->in, s);
	CHECK(wire_end(&c->in));
}

static void end(struct client *c)
{
	client_close(c);
	agent_clean(&box);
}

/* The trouble of a setup; the agent is gone afterwards unless keep. */
static const char *trouble_of(size_t cut)
{
	static char words[512];
	struct proto_setup s;
	struct client c;

	start(cut);
	ask(&c, words, &s);
	CHECK(s.result == (*words ? PROTO_SETUP_FAILED : PROTO_SETUP_FINE));
	proto_setup_fini(&s);
	client_close(&c);
	agent_stop(&box);
	return words;
}

static char *text_of(const char *path)
{
	static char text[4096];
	int fd = open(path, O_RDONLY | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = 0;
	close(fd);
	return text;
}

static void clean(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", box.dir);
	CHECK(system(cmd) == 0);
	buf_fini(&file);
}

static void accounts_are_added_and_kept(void)
{
	struct stat st;

	begin();
	wire_u8(&file, SETUP_GROUP);
	wire_str(&file, "crew");
	wire_u32(&file, 3000);
	add_user("old", SETUP_ID_NONE, "crew");
	add_user("dev", SETUP_ID_NONE, "wheel");
	add_user("fixed", 5000, NULL);
	CHECK_STR(trouble_of(0), "");
	CHECK_STR(text_of(in_root("/etc/passwd")),
		"root:x:0:0:root:/root:/bin/sh\nold:x:1000:1000::/old:/x\n"
		"dev:x:1001:1001::/home/dev:/bin/sh\nfixed:x:5000:5000::/home/fixed:/bin/sh\n");
	CHECK_STR(text_of(in_root("/etc/group")), "root:x:0:\nold:x:1000:\nwheel:x:10:old,dev\n"
						  "crew:x:3000:old\ndev:x:1001:\nfixed:x:5000:\n");
	CHECK_STR(text_of(in_root("/etc/shadow")),
		"root:*:::::::\ndev:!::0:99999:7:::\nfixed:!::0:99999:7:::\n");
	CHECK(stat(in_root("/etc/shadow"), &st) == 0 && (st.st_mode & 0777) == 0600);
	CHECK(stat(in_root("/home/dev"), &st) == 0 && st.st_uid == 1001);
	CHECK(stat(in_root("/home"), &st) == 0 && st.st_uid == 0);
	clean();

	begin();
	add_user("old", 77, NULL);
	CHECK(strstr(trouble_of(0), "user old is there, with id 1000, not 77"));
	clean();
	begin();
	add_user("a:b", 77, NULL);
	CHECK(strstr(trouble_of(0), "cannot be a user's name"));
	clean();
}

/* The image laid links: on the way, at the end, and a second name of a file of its own. */
static void no_link_is_followed(void)
{
	struct stat st;

	begin();
	CHECK(mkdir(in_root("/victim"), 0755) == 0);
	CHECK(symlink("victim", in_root("/way")) == 0);
	add_file("/way/file", "x");
	CHECK(strstr(trouble_of(0), "way in the way is a link (to victim)"));
	CHECK(stat(in_root("/victim/file"), &st) < 0);
	clean();

	begin();
	put_text(in_root("/victim"), "mine");
	CHECK(symlink("victim", in_root("/link")) == 0);
	CHECK(link(in_root("/victim"), in_root("/hard")) == 0);
	CHECK(mkfifo(in_root("/fifo"), 0666) == 0);
	add_file("/link", "one");
	add_file("/hard", "two");
	add_file("/fifo", "three");
	add_file("/new/dir/file", "four");
	CHECK_STR(trouble_of(0), "");
	CHECK_STR(text_of(in_root("/victim")), "mine");
	CHECK_STR(text_of(in_root("/link")), "one");
	CHECK_STR(text_of(in_root("/hard")), "two");
	CHECK_STR(text_of(in_root("/fifo")), "three");
	CHECK_STR(text_of(in_root("/new/dir/file")), "four");
	CHECK(stat(in_root("/new/dir/file"), &st) == 0 && (st.st_mode & 07777) == 0640);
	clean();

	begin();
	add_file("/etc", "x");
	CHECK(strstr(trouble_of(0), "/etc: Is a directory"));
	clean();
	begin();
	CHECK(rename(in_root("/etc"), in_root("/etcetera")) == 0);
	CHECK(symlink("etcetera", in_root("/etc")) == 0);
	add_user("dev", SETUP_ID_NONE, NULL);
	CHECK(strstr(trouble_of(0), "/etc: "));
	clean();
}

static void a_broken_file_is_told(void)
{
	begin();
	add_file("/file", "text");
	CHECK(strstr(trouble_of(1), "cut short"));
	clean();
	begin();
	wire_u8(&file, 99);
	CHECK(strstr(trouble_of(0), "malformed"));
	clean();
	begin();
	buf_reset(&file);
	CHECK(strstr(trouble_of(0), "has not arrived"));
	clean();
	begin();
	add_file("/../x", "");
	CHECK(strstr(trouble_of(0), "malformed"));
	clean();
}

/* A failure is tried again at the next start, a success is not. */
static void hooks_run_until_they_succeed_once(void)
{
	struct proto_setup s;
	struct client c;
	char script[512], trouble[512], log[96];

	begin();
	snprintf(log, sizeof(log), "%s/ran", box.dir);
	snprintf(script, sizeof(script),
		"echo x >> %s; echo first words; [ `wc -l < %s` -ge 2 ] || exit 7", log, log);
	add_hook(SETUP_POST_START, script);
	snprintf(script, sizeof(script), "echo stop >> %s", log);
	add_hook(SETUP_PRE_STOP, script);
	start(0);
	ask(&c, trouble, &s);
	CHECK_STR(trouble, "");
	CHECK(s.result == PROTO_SETUP_HOOK_FAILED && s.exit_code == 7 && s.hooks == 1);
	CHECK(strstr(s.words, "exit code 7"));
	CHECK_STR(s.output, "first words\n");
	proto_setup_fini(&s);
	for (int i = 0; i < 2; i++) {
		client_close(&c);
		agent_stop(&box);
		start(0);
		ask(&c, trouble, &s);
		CHECK(s.result == PROTO_SETUP_FINE && s.hooks == (i == 0));
		proto_setup_fini(&s);
	}
	CHECK_STR(text_of(log), "x\nx\nstop\n"); /* no pre_stop where nothing was set up */
	end(&c);
}

/* How many files under the state directory have that text. */
static int files_with(const char *text)
{
	char cmd[160];
	int n = -1;
	FILE *f;

	snprintf(cmd, sizeof(cmd), "grep -rlF %s %s/state/jobs | wc -l", text, box.dir);
	f = popen(cmd, "r");
	CHECK(f && fscanf(f, "%d", &n) == 1);
	pclose(f);
	return n;
}

/* The process has them, whatever is in them; nobody else can read them. */
static void variables_of_a_hook_are_its_own(void)
{
	static const char *const env[] = {"SECRET=hush-4711\nsecond line\n", "HOME=/moved",
		"OUTER=replaced", "PATH=/bin:/usr/bin"};
	struct proto_setup s;
	struct client c;
	char trouble[512], *text;
	uint64_t job;

	begin();
	setenv("OUTER", "container's", 1);
	add_hook_with(SETUP_POST_START,
		"printf %s \"$SECRET\" | tr a-z A-Z; echo $HOME $OUTER $PATH", env, 4);
	start(0);
	unsetenv("OUTER");
	ask(&c, trouble, &s);
	CHECK_STR(s.words, "");
	CHECK(s.result == PROTO_SETUP_FINE);
	proto_setup_fini(&s);
	job = do_job_find(&c, "post_start");
	CHECK(job);
	text = do_job_read(&c, job, PROTO_STREAM_STDOUT, NULL);
	CHECK_STR(text, "HUSH-4711\nSECOND LINE\n/moved replaced /bin:/usr/bin\n");
	free(text);
	text = do_job_get(&c, job, PROTO_SET_ENV);
	CHECK_STR(text, "");
	free(text);
	CHECK(files_with("OUTER") == 1 && files_with("hush-4711") == 0);
	end(&c);
}

/* IDLE is answered when there was no use for so long; a running command is one, PING is none. */
static void idleness_is_told(void)
{
	struct proto_setup s;
	struct proto_attr attr;
	struct client c, other;
	char trouble[512];
	struct buf b;
	size_t at;
	bool late = false;
	double t;

	begin();
	start(0);
	ask(&c, trouble, &s);
	proto_setup_fini(&s);
	client_open(&other, &box, "other");
	/* A machine that stalls may be idle before the touch: then it is tried again. */
	for (int i = 0; i < 10 && !late; i++) {
		struct timespec ts = {.tv_nsec = 150000000};

		at = client_begin(&c, &b, PROTO_IDLE);
		wire_u64(&b, 300);
		client_send(&c, &b, at);
		nanosleep(&ts, NULL);
		t = seconds();
		CHECK(do_getattr(&other, PROTO_NODE_WORKSPACE, 0, &attr) == 0);
		CHECK(client_recv(&c) && c.head.type == (PROTO_IDLE | PROTO_REPLY));
		CHECK(!c.head.error);
		late = seconds() - t >= 0.299;
	}
	CHECK(late);

	uint64_t job = 0;
	uint32_t pid;
	struct proto_job j;

	CHECK(do_job_open(&other, &job) == 0);
	CHECK(do_job_write(&other, job, 0, "sleep 1", 7) == 0);
	t = seconds();
	CHECK(do_job_start(&other, job, NULL, &pid) == 0);
	at = client_begin(&c, &b, PROTO_IDLE);
	wire_u64(&b, 100);
	client_send(&c, &b, at);
	CHECK(client_recv(&c) && !c.head.error);
	CHECK(seconds() - t >= 1.0);
	CHECK(do_job(&other, PROTO_JOB_INFO, job, &j) == 0 && j.result == PROTO_RESULT_SUCCESS);
	proto_job_fini(&j);
	client_close(&other);
	end(&c);
}

int main(void)
{
	if (!may_test())
		return 77;
	TEST(accounts_are_added_and_kept);
	TEST(no_link_is_followed);
	TEST(a_broken_file_is_told);
	TEST(hooks_run_until_they_succeed_once);
	TEST(variables_of_a_hook_are_its_own);
	TEST(idleness_is_told);
	return check_done();
}
