/*
 * One static program for both sides: `stress PART ...` on the host copies itself into the workspace
 * and starts itself there.
 */
#include <stdio.h>
#include <string.h>

#include "driver.h"
#include "stress.h"

static const struct {
	const char *name, *what;
	int (*main)(int argc, char **argv);
} parts[] = {
	{"model", "random operations from both sides against a model", model_main},
	{"coherence", "a change on one side is seen at once on the other", coherence_main},
	{"lag", "how late the host sees what a process in the background changes", lag_main},
	{"blocks", "writes or checks a file of blocks that know their places", blocks_main},
	{"append", "appends records to a file, with one descriptor", append_main},
	{"files", "makes many small files", files_main},
	{"time", "how long a stat or a read takes", time_main},
	{"act", "(inside) performs operations", driver_act},
	{"lag-write", "(inside) changes files, for lag", lag_write_main},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcmp(parts[i].name, argv[1]) == 0)
			return parts[i].main(argc - 1, argv + 1);
	fprintf(stderr, "usage: stress PART ...\n");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		fprintf(stderr, "  %-10s %s\n", parts[i].name, parts[i].what);
	return 2;
}
