/* SPDX-License-Identifier: MIT */
/*
 * Reads /etc/passwd and /etc/group without the C library, which would load modules and follow
 * nsswitch. The files belong to the sandbox: sizes are bounded, a FIFO in their place is refused.
 * Owns nothing; any thread.
 */
#include "agent/user.h"

#include "common/cleanup.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX     (1u << 20)
#define FIELDS	     7
#define SPEC_MAX     128
#define NO_ID	     UINT32_MAX
#define NOT_A_NUMBER UINT64_MAX

static const char *all_have = ""; /* set once, before there are threads */

void user_init(const char *groups)
{
	all_have = groups;
}

/* The file's text, a new string; NULL if there is none. */
static char *slurp(int root_fd, const char *path)
{
	cleanup_close int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	size_t len = 0;
	char *text;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return NULL;
	while (len < (size_t)st.st_size) {
		ssize_t n = read(fd, text + len, (size_t)st.st_size - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	text[len] = 0;
	return text;
}

static uint64_t number(const char *s)
{
	uint64_t v = 0;

	if (!*s)
		return NOT_A_NUMBER;
	for (; *s; s++) {
		if (!isdigit((unsigned char)*s) || v > UINT32_MAX)
			return NOT_A_NUMBER;
		v = v * 10 + (uint64_t)(*s - '0');
	}
	return v < NO_ID ? v : NOT_A_NUMBER;
}

/* Cuts the next line of *text into fields at the colons; their count, 0 at the end. */
static size_t next_line(char **text, char *field[FIELDS])
{
	size_t n = 0;
	char *line = *text, *end;

	if (!line || !*line)
		return 0;
	end = strchr(line, '\n');
	*text = end ? end + 1 : NULL;
	if (end)
		*end = 0;
	while (line && n < FIELDS) {
		field[n++] = line;
		line = strchr(line, ':');
		if (line)
			*line++ = 0;
	}
	return n;
}

static bool find_passwd(char *text, const char *name, uint64_t id, struct user *user)
{
	char *field[FIELDS];
	size_t n;

	while ((n = next_line(&text, field)) > 0) {
		uint64_t uid, gid;

		if (n < 6)
			continue;
		uid = number(field[2]);
		gid = number(field[3]);
		if (uid == NOT_A_NUMBER || gid == NOT_A_NUMBER)
			continue;
		if (strcmp(field[0], name) != 0 && uid != id)
			continue;
		user->uid = (uint32_t)uid;
		user->gid = (uint32_t)gid;
		snprintf(user->name, sizeof(user->name), "%s", field[0]);
		if (field[5][0] == '/')
			snprintf(user->home, sizeof(user->home), "%s", field[5]);
		return true;
	}
	return false;
}

static bool is_member(char *members, const char *name)
{
	char *next;

	for (; members; members = next) {
		next = strchr(members, ',');
		if (next)
			*next++ = 0;
		if (strcmp(members, name) == 0)
			return true;
	}
	return false;
}

/* The groups that name the user; and the id of the group called wanted, if any. */
static uint64_t read_groups(char *text, const char *wanted, struct user *user)
{
	uint64_t found = NOT_A_NUMBER, gid;
	char *field[FIELDS];
	size_t n;

	while ((n = next_line(&text, field)) > 0) {
		if (n < 3)
			continue;
		gid = number(field[2]);
		if (gid == NOT_A_NUMBER)
			continue;
		if (wanted && strcmp(field[0], wanted) == 0)
			found = gid;
		if (n >= 4 && user->name[0] && (gid_t)gid != user->groups[0] &&
			user->n_groups < USER_GROUPS_MAX && is_member(field[3], user->name))
			user->groups[user->n_groups++] = (gid_t)gid;
	}
	return found;
}

static void add_group(struct user *user, uint64_t gid)
{
	for (size_t i = 0; i < user->n_groups; i++)
		if (user->groups[i] == (gid_t)gid)
			return;
	if (gid != NOT_A_NUMBER && user->n_groups < USER_GROUPS_MAX)
		user->groups[user->n_groups++] = (gid_t)gid;
}

static void add_all_have(int root_fd, struct user *user)
{
	struct user nobody = {0};
	char name[SPEC_MAX];

	for (const char *s = all_have; *s; s += *s == ',') {
		size_t n = strcspn(s, ",");
		uint64_t gid;

		snprintf(name, sizeof(name), "%.*s", (int)n, s);
		s += n;
		gid = number(name);
		if (gid == NOT_A_NUMBER) {
			cleanup_free char *group = slurp(root_fd, "etc/group");

			gid = group ? read_groups(group, name, &nobody) : NOT_A_NUMBER;
		}
		add_group(user, gid);
		user->asked |= gid != NOT_A_NUMBER && gid != user->gid;
	}
}

int64_t user_extra_group(const struct user *user)
{
	for (size_t i = 0; i < user->n_groups; i++)
		if (user->groups[i] != (gid_t)user->gid)
			return user->groups[i];
	return -1;
}

int user_find(int root_fd, const char *spec, struct user *user, struct err *err)
{
	cleanup_free char *passwd = slurp(root_fd, "etc/passwd");
	cleanup_free char *group = slurp(root_fd, "etc/group");
	struct user u = {.home = "/"};
	uint64_t uid, gid = NOT_A_NUMBER, named;
	char name[SPEC_MAX], *colon;
	bool known;

	if (!*spec || strlen(spec) >= sizeof(name))
		return err_set(err, EINVAL, "not a user: '%s'", spec);
	snprintf(name, sizeof(name), "%s", spec);
	colon = strchr(name, ':');
	if (colon)
		*colon++ = 0;
	uid = number(name);
	known = passwd && find_passwd(passwd, name, uid, &u);
	if (!known && uid == NOT_A_NUMBER)
		return err_set(err, ENOENT, "no user '%s' in the sandbox's /etc/passwd", name);
	if (!known)
		u.uid = (uint32_t)uid;
	u.groups[u.n_groups++] = (gid_t)u.gid; /* as initgroups(3) does */
	named = group ? read_groups(group, colon, &u) : NOT_A_NUMBER;
	if (colon) {
		gid = named != NOT_A_NUMBER ? named : number(colon);
		if (gid == NOT_A_NUMBER)
			return err_set(
				err, ENOENT, "no group '%s' in the sandbox's /etc/group", colon);
		u.gid = (uint32_t)gid;
		u.groups[0] = (gid_t)gid;
	}
	add_all_have(root_fd, &u);
	*user = u;
	return 0;
}
