/* SPDX-License-Identifier: MIT */
/* What a sandbox is to be made from: a resolved template. Owns all its strings; lists are
 * NULL-terminated; NULL and 0 are "the engine's own" where nothing else is said. */
#pragma once

#include "sandbox/spec_x.h"

enum spec_mount { SPEC_VOLUME, SPEC_BIND, SPEC_TMPFS };

struct spec_volume {
	enum spec_mount type;
	char *source; /* VOLUME: its name, NULL: anonymous. BIND: a real path that was allowed */
	char *target;
	bool read_only;
	bool ours; /* declared under x-sandboxfs: goes with the sandbox */
	char *driver, **driver_opts, **labels; /* where it is ours; KEY=VALUE */
	bool nocopy;			       /* VOLUME */
	char *subpath;			       /* VOLUME */
	char *propagation;		       /* BIND */
	uint64_t tmpfs_size;		       /* TMPFS */
	uint32_t tmpfs_mode;
};

struct spec_build {
	char *context;	  /* a real path of a directory that allow_binds allows; NULL: no build */
	char *dockerfile; /* below context; NULL: Dockerfile */
	char **args;	  /* KEY=VALUE */
	char *target;	  /* the stage; NULL: the last */
};

struct spec_port {
	uint16_t target;
	uint16_t published, published_last; /* a range to choose from; 0: any */
	char *host_ip;			    /* NULL: 127.0.0.1 */
	const char *protocol;		    /* "tcp", "udp", "sctp"; static */
};

struct spec_ulimit {
	char *name;
	int64_t soft, hard; /* -1: none */
};

struct spec_device {
	char *source, *target; /* target NULL: source is the name of a CDI device */
	char *permissions;
};

struct spec_gpu {
	char *driver;
	int32_t count; /* -1: all */
	char **device_ids, **capabilities, **options;
};

struct spec {
	char *namespace, *name; /* the directory's whole name */
	uint32_t owner;		/* uid that made it */
	char *template;		/* name of the template */
	char *image;		/* with build and no image: sandboxfs-build:TEMPLATE-HASH */
	char *pull_policy;	/* "missing" (default), "always", "never", "build" */
	struct spec_build build;
	char *user; /* NULL: the image's */
	char *working_dir;
	char **environment; /* KEY=VALUE */
	char **command;	    /* argv of the main program; NULL: none */
	char **group_add;
	char **tmpfs; /* "/path" or "/path:options" */
	struct spec_volume *volumes;
	struct spec_port *ports;
	struct spec_ulimit *ulimits;
	struct spec_device *devices;
	struct spec_gpu *gpus;
	size_t n_volumes, n_ports, n_ulimits, n_devices, n_gpus;
	char **dns, **extra_hosts; /* extra_hosts: NAME:ADDRESS */
	char **cap_add, **cap_drop, **security_opt;
	char **storage_opt, **labels; /* KEY=VALUE */
	char *network_mode;	      /* "none" by default */
	char *hostname, *platform, *runtime;
	bool read_only;
	uint64_t mem_limit;  /* bytes, 0: none */
	uint64_t shm_size;   /* bytes */
	uint32_t cpus_milli; /* thousandths of a CPU, 0: none */
	uint32_t pids_limit; /* 0: none */
	struct spec_x x;
	char *config; /* the resolved template as JSON, secrets masked */
};

void spec_fini(struct spec *spec);

/* Our own directory in every sandbox. */
#define SPEC_OURS "/.sandboxfs"
/* How the names of our own volumes begin: whoever could write there would be root in every sandbox.
 */
#define SPEC_OUR_VOLUMES "sandboxfs-agent-"
/* Can something be mounted there? An absolute path without . and .., not in our own directory. */
bool spec_usable(const char *path, size_t len);
/* Is path dir, or below it? Both are absolute. */
bool spec_beneath(const char *path, const char *dir, size_t len);
