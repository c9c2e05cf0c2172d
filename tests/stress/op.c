/*
 * Operations as text, and the table of names. No state, any process.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

static const char *const kinds[OP_KINDS] = {
	[OP_STAT] = "stat",
	[OP_READ] = "read",
	[OP_LIST] = "list",
	[OP_READLINK] = "readlink",
	[OP_GETX] = "getx",
	[OP_LISTX] = "listx",
	[OP_HREAD] = "hread",
	[OP_HMAP] = "hmap",
	[OP_HSTAT] = "hstat",
	[OP_CREATE] = "create",
	[OP_WRITE] = "write",
	[OP_MSTORE] = "mstore",
	[OP_TRUNC] = "trunc",
	[OP_RENAME] = "rename",
	[OP_LINK] = "link",
	[OP_UNLINK] = "unlink",
	[OP_ORPHAN] = "orphan",
	[OP_MKDIR] = "mkdir",
	[OP_RMDIR] = "rmdir",
	[OP_SYMLINK] = "symlink",
	[OP_CHMOD] = "chmod",
	[OP_UTIMENS] = "utimens",
	[OP_SETX] = "setx",
	[OP_REMX] = "remx",
	[OP_FALLOC] = "falloc",
	[OP_COPY] = "copy",
	[OP_HWRITE] = "hwrite",
	[OP_HOLD] = "hold",
	[OP_DROP] = "drop",
	[OP_SNAP] = "snap",
};

/* 51 bytes; five of them are 255, which is as long as a name may be. */
#define N51 "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"

/* The plain ones first: small trees use only those. */
static const char *const names[OP_NAMES] = {
	"one",
	"two",
	"three",
	"four.c",
	".five",
	"six-6",
	"seven",
	"eight~",
	"with blank",
	"new\nline",
	"-dash",
	"\xff\xfe",
	"quote'\"",
	"gr\xc3\xbc\xc3\x9f"
	"e",
	"back\\slash",
	N51 N51 N51 N51 N51,
};

/* The fields that are numbers, each by its letter. */
static const struct {
	char letter;
	size_t at;
	enum { I32, U32, I64, U64 } form;
	int64_t unset;
} fields[] = {
	{'o', offsetof(struct op, off), I64, 0},
	{'O', offsetof(struct op, off2), I64, 0},
	{'l', offsetof(struct op, len), I64, 0},
	{'s', offsetof(struct op, seed), U32, 0},
	{'m', offsetof(struct op, mode), I32, 0},
	{'f', offsetof(struct op, flags), I32, 0},
	{'S', offsetof(struct op, slot), I32, 0},
	{'e', offsetof(struct op, err), I32, 0},
	{'n', offsetof(struct op, count), I64, 0},
	{'h', offsetof(struct op, hash), U64, 0},
	{'k', offsetof(struct op, nlink), I32, 0},
	{'M', offsetof(struct op, mtime), I64, -1},
	{'C', offsetof(struct op, ctime), I64, -1},
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

void op_init(struct op *op, enum op_kind kind, const char *path)
{
	memset(op, 0, sizeof(*op));
	op->kind = kind;
	op->mtime = op->ctime = -1;
	snprintf(op->path, sizeof(op->path), "%s", path);
}

int op_changes(const struct op *op)
{
	return op->kind >= OP_FIRST_CHANGE && op->kind <= OP_LAST_CHANGE;
}

const char *op_kind_name(enum op_kind kind)
{
	return kinds[kind];
}

const char *op_name(int index)
{
	return names[index];
}

int op_name_index(const char *name)
{
	for (int i = 0; i < OP_NAMES; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

int op_plain(const char *path)
{
	char real[PATH_MAX];

	op_real(path, real);
	return real[strspn(real, "abcdefghijklmnopqrstuvwxyz0123456789./-")] == '\0';
}

void op_real(const char *path, char *out)
{
	size_t used = 1;

	*out++ = *path++;
	while (*path == '/') {
		char *end;
		long index = strtol(path + 1, &end, 10);
		size_t len;

		if (end == path + 1 || index < 0 || index >= OP_NAMES)
			break;
		len = strlen(names[index]);
		if (used + len + 2 > PATH_MAX)
			break;
		*out++ = '/';
		memcpy(out, names[index], len);
		out += len;
		used += len + 1;
		path = end;
	}
	*out = '\0';
}

static int64_t field_get(const struct op *op, int i)
{
	const char *at = (const char *)op + fields[i].at;
	int32_t i32;
	uint32_t u32;
	int64_t i64;

	switch (fields[i].form) {
	case I32:
		memcpy(&i32, at, sizeof(i32));
		return i32;
	case U32:
		memcpy(&u32, at, sizeof(u32));
		return u32;
	default:
		memcpy(&i64, at, sizeof(i64));
		return i64;
	}
}

static void field_set(struct op *op, int i, int64_t value)
{
	char *at = (char *)op + fields[i].at;
	int32_t i32 = (int32_t)value;
	uint32_t u32 = (uint32_t)value;

	switch (fields[i].form) {
	case I32:
		memcpy(at, &i32, sizeof(i32));
		break;
	case U32:
		memcpy(at, &u32, sizeof(u32));
		break;
	default:
		memcpy(at, &value, sizeof(value));
	}
}

void op_print(const struct op *op, char *text, size_t len)
{
	size_t used = (size_t)snprintf(text, len, "%s %s", kinds[op->kind], op->path);

	if (op->path2[0] && used < len)
		used += (size_t)snprintf(text + used, len - used, " >%s", op->path2);
	for (int i = 0; i < FIELDS && used < len; i++) {
		int64_t value = field_get(op, i);

		if (value != fields[i].unset)
			used += (size_t)snprintf(text + used, len - used,
				fields[i].form == U64 ? " %c%" PRIu64 : " %c%" PRId64,
				fields[i].letter, value);
	}
	if (op->type && used < len)
		used += (size_t)snprintf(text + used, len - used, " t%c", op->type);
	if (op->list[0] && used < len)
		snprintf(text + used, len - used, " L%s", op->list);
}

static int parse_word(struct op *op, const char *word)
{
	switch (word[0]) {
	case '>':
		snprintf(op->path2, sizeof(op->path2), "%s", word + 1);
		return 0;
	case 't':
		op->type = word[1];
		return 0;
	case 'L':
		snprintf(op->list, sizeof(op->list), "%s", word + 1);
		return 0;
	default:
		break;
	}
	for (int i = 0; i < FIELDS; i++)
		if (fields[i].letter == word[0]) {
			field_set(op, i,
				fields[i].form == U64 ? (int64_t)strtoull(word + 1, NULL, 10)
						      : strtoll(word + 1, NULL, 10));
			return 0;
		}
	return -EINVAL;
}

int op_parse(struct op *op, const char *text)
{
	char copy[1024], *rest = copy, *word;
	int kind = 0, err = 0;

	snprintf(copy, sizeof(copy), "%s", text);
	word = strsep(&rest, " ");
	while (kind < OP_KINDS && strcmp(kinds[kind], word) != 0)
		kind++;
	if (kind == OP_KINDS || !rest)
		return -EINVAL;
	op_init(op, (enum op_kind)kind, strsep(&rest, " "));
	while (!err && (word = strsep(&rest, " ")))
		err = parse_word(op, word);
	return err;
}
