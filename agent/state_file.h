/* SPDX-License-Identifier: MIT */
/* Files of the agent's own on the state volume, where commands of root can put anything. */
#pragma once

/* One that is there (or is made, with O_CREAT); -1 and errno. Neither the open nor what follows can
 * wait for anybody: never through a link, and EINVAL for what is no regular file. */
int state_open(int dir_fd, const char *name, int flags, unsigned mode);

/* A new one to be written, instead of whatever had the name. */
int state_create(int dir_fd, const char *name, unsigned mode);
