/*
 * Numbers and calls of the kernel that musl's headers of Debian 12 do not have.
 */
#ifndef STRESS_SYS_H
#define STRESS_SYS_H

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE	 2
#endif

#define FALLOC_KEEP_SIZE  0x01
#define FALLOC_PUNCH_HOLE 0x02
#define FALLOC_ZERO_RANGE 0x10

static inline int sys_rename(const char *from, const char *to, int flags)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

#endif
