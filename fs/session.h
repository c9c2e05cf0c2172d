/* SPDX-License-Identifier: MIT */
/* What libfuse 3.14 does not ask the kernel for. */
#pragma once

struct fuse_session;

/* After fuse_session_mount: the handshake will also ask for HANDLE_KILLPRIV_V2, if the kernel has
 * it. */
int session_extend(struct fuse_session *se);
