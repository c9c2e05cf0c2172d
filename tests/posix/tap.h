/* SPDX-License-Identifier: MIT */
/* The count of assertions: check.c's, shown by main.c. */
#pragma once

unsigned tap_count(void);
unsigned tap_failed(void);
void tap_new_topic(void); /* strings of name() and at() end here */
