/* SPDX-License-Identifier: MIT */
/* The next job's directory, made before anybody asks for it. jobs_fd is DIR/jobs. Loop's thread. */
#pragma once

/* Has one made, unless there is one. */
void spare_make(int jobs_fd);
/* It becomes jobs/NAME, with an empty command and meta; -errno: there is none now. */
int spare_take(int jobs_fd, const char *name);
