/* SPDX-License-Identifier: MIT */
/* Which descriptors the launcher and the program that unpacks agree on. */
#pragma once

enum { UNPACK_ARCHIVE_FD = 3, UNPACK_DIR_FD = 4 };
