/* SPDX-License-Identifier: MIT */
/* What libfuse 3.14 does not ask the kernel for. */
#pragma once

#include <stdbool.h>

struct fuse_session;

/* After fuse_session_mount: the handshake will also ask for HANDLE_KILLPRIV_V2 and
 * DIRECT_IO_ALLOW_MMAP, if the kernel has them. */
int session_extend(struct fuse_session *se);
/* After the handshake: whether it has the second. */
bool session_maps_direct(void);
