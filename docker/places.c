/* SPDX-License-Identifier: MIT */
/* The addresses where an engine that speaks Docker's API may be: those that are named outright, and
 * the usual ones. Contexts have place_context.c. Called once, at the mount. */
#include "docker/places.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DOCKER_SOCKET "unix:///var/run/docker.sock"
#define PODMAN_SOCKET "unix:///run/podman/podman.sock"
#define TCP_PORT      2375
#define TLS_PORT      2376

/* The daemon leaves the directory that it was started in. */
static int file_in(const char *dir, const char *name, char **path)
{
	cleanup_free char *cwd = *dir == '/' ? NULL : getcwd(NULL, 0);
	int n = asprintf(path, "%s%s%s/%s", cwd ? cwd : "", cwd ? "/" : "", dir, name);

	return n < 0 ? -ENOMEM : 0;
}

/* As the docker command: TLS where DOCKER_TLS_VERIFY says so, with DOCKER_CERT_PATH's files. */
static int env_tls(struct engine_place *p)
{
	const char *verify = getenv("DOCKER_TLS_VERIFY");
	const char *dir = getenv("DOCKER_CERT_PATH"), *home = getenv("HOME");
	cleanup_free char *own = NULL;

	if (!verify || !*verify)
		return 0;
	if (!dir || !*dir) {
		if (asprintf(&own, "%s/.docker", home ? home : "") < 0)
			return -ENOMEM;
		dir = own;
	}
	p->tls = true;
	if (file_in(dir, "ca.pem", &p->ca) || file_in(dir, "cert.pem", &p->cert) ||
		file_in(dir, "key.pem", &p->key))
		return -ENOMEM;
	return 0;
}

int place_add_port(struct engine_place *p)
{
	size_t n = strlen(p->host);
	const char *colon;
	char *full;

	if (strncmp(p->host, "tcp://", 6) != 0 || n == 6)
		return 0;
	colon = strrchr(p->host + 6, ':');
	if (colon && colon[1] && !strchr(colon, ']')) /* not one of an address in brackets */
		return 0;
	n -= p->host[n - 1] == ':';
	if (asprintf(&full, "%.*s:%d", (int)n, p->host, p->tls ? TLS_PORT : TCP_PORT) < 0)
		return -ENOMEM;
	free(p->host);
	p->host = full;
	return 0;
}

static int named(const char *host, struct engine_place *place, struct err *err)
{
	struct engine_place p = {.host = strdup(host)};

	if (!p.host || env_tls(&p) || place_add_port(&p)) {
		engine_place_fini(&p);
		return err_set(err, ENOMEM, "out of memory");
	}
	*place = p;
	return 0;
}

int docker_place_option(const char *host, struct engine_place *place, struct err *err)
{
	return host && *host ? named(host, place, err) : err_set(err, ENOENT, "not given");
}

int docker_place_env(const char *host, struct engine_place *place, struct err *err)
{
	const char *env = getenv("DOCKER_HOST");

	(void)host;
	return env && *env ? named(env, place, err) : err_set(err, ENOENT, "not set");
}

static int usual(const char *host, struct engine_place *place, struct err *err)
{
	char *own = host ? strdup(host) : NULL;

	if (!own)
		return err_set(err, ENOMEM, "out of memory");
	*place = (struct engine_place){.host = own};
	return 0;
}

int docker_place_socket(const char *host, struct engine_place *place, struct err *err)
{
	(void)host;
	return usual(DOCKER_SOCKET, place, err);
}

int docker_place_podman(const char *host, struct engine_place *place, struct err *err)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	cleanup_free char *own = NULL;
	int n;

	(void)host;
	if (geteuid() == 0)
		return usual(PODMAN_SOCKET, place, err);
	if (dir && *dir == '/')
		n = asprintf(&own, "unix://%s/podman/podman.sock", dir);
	else
		n = asprintf(&own, "unix:///run/user/%u/podman/podman.sock", geteuid());
	if (n < 0)
		own = NULL;
	return usual(own, place, err);
}
