/* SPDX-License-Identifier: MIT */
/* How much all jobs together keep on the state volume. The loop's thread. */
#pragma once

/* From now on growth of the output is watched. */
void budget_init(void);
/* Makes room if there is too much. */
void budget_keep(void);
