/* SPDX-License-Identifier: MIT */
/* Link texts: whatever a sandbox says, what is shown is safe. A byte for the place, then the link's
 * directory and its text, ended by a newline each. */
#include "fs/symlink.h"
#include "tests/unit/safe_link.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char buf[8192], *dir = buf, *text, *out = NULL;
	struct link_place at = {.sandbox = "demo"};

	if (size < 2 || size >= sizeof(buf) || memchr(data + 1, 0, size - 1))
		return 0;
	memcpy(buf, data + 1, size - 1);
	buf[size - 1] = 0;
	text = strchr(buf, '\n');
	if (!text)
		return 0;
	*text++ = 0;
	text[strcspn(text, "\n")] = 0;
	at.tree = data[0] & 1 ? TREE_ROOTFS : TREE_WORKSPACE;
	at.depth = (data[0] >> 1) % 8;
	at.least = (data[0] >> 4) % (at.depth + 1);
	at.sure = !(data[0] & 0x80);
	at.dir = dir;
	if (symlink_show(&at, text, &out) == 0) {
		if (!safe_link(&at, out) || strlen(out) > 4095)
			abort();
		free(out);
		out = NULL;
	} else if (out) {
		abort();
	}
	if (symlink_store(&at, text, &out) == 0)
		free(out);
	return 0;
}
