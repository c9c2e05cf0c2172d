/* SPDX-License-Identifier: MIT */
#include "sandbox/caps.h"

#include <stddef.h>
#include <strings.h>

const char *const caps_default[] = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID",
	"KILL", "SETFCAP", "SYS_CHROOT", NULL};

const char *const caps_all[] = {"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID",
	"KILL", "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE",
	"NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO",
	"SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE",
	"AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM",
	"BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE", NULL};

const char *caps_name(const char *s)
{
	return strncasecmp(s, "CAP_", 4) ? s : s + 4;
}

bool caps_in(char *const *list, const char *name)
{
	for (; list && *list; list++)
		if (!strcasecmp(caps_name(*list), name))
			return true;
	return false;
}

bool caps_known(const char *s)
{
	const char *name = caps_name(s);
	bool known = !strcasecmp(name, "ALL");

	for (const char *const *c = caps_all; !known && *c; c++)
		known = !strcasecmp(*c, name);
	return known;
}

bool caps_has(char *const *add, char *const *drop, const char *name)
{
	bool usual = false;

	for (const char *const *c = caps_default; *c; c++)
		usual = usual || !strcasecmp(*c, name);
	if (caps_in(drop, name))
		return false;
	return caps_in(add, "ALL") || caps_in(add, name) || (usual && !caps_in(drop, "ALL"));
}
