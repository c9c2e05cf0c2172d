/* SPDX-License-Identifier: MIT */
/* The keys of the network: ports in both of Compose's forms, dns, extra_hosts, network_mode. Owns
 * nothing between calls, takes no lock; any thread. */
#include "sandbox/template_keys.h"

#include "common/cleanup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORTS_FORM "[IP:][PUBLISHED:]PORT[/tcp|udp|sctp], a port or a range A-B"

static bool is_address(const char *s)
{
	unsigned char to[16];

	return inet_pton(AF_INET, s, to) == 1 || inet_pton(AF_INET6, s, to) == 1;
}

struct range {
	uint32_t first, last;
};

/* "80" or "80-89" of n bytes; least is 0 where "any" can be said by 0. */
static bool get_range(const char *s, size_t n, uint32_t least, struct range *out)
{
	uint32_t v[2] = {0, 0};
	size_t at = 0, digits;
	int i = 0;

	for (;; i++) {
		for (digits = 0; at < n && s[at] >= '0' && s[at] <= '9' && digits < 6; digits++)
			v[i] = v[i] * 10 + (uint32_t)(s[at++] - '0');
		if (!digits || v[i] < least || v[i] > 65535)
			return false;
		if (i || at == n || s[at] != '-')
			break;
		at++;
	}
	out->first = v[0];
	out->last = i ? v[1] : v[0];
	return at == n && out->first <= out->last;
}

static const char *get_protocol(const char *s)
{
	static const char *const words[] = {"tcp", "udp", "sctp"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcmp(s, words[i]) == 0)
			return words[i];
	return NULL;
}

/* Adds target, a port each; published goes along with it, or is a range for one to choose from. */
static int add_ports(struct template_parse *p, struct range target, const struct range *published,
	const char *host_ip, const char *protocol)
{
	struct spec *s = p->spec;
	bool along = published && published->last - published->first == target.last - target.first;

	if (published && !along && target.first != target.last)
		return value_fail(p, EINVAL, "the ranges have different lengths");
	for (uint32_t t = target.first; t <= target.last; t++) {
		struct spec_port *port;

		if (s->n_ports >= TEMPLATE_ITEMS_MAX)
			return value_fail(p, EINVAL, "too many ports");
		port = array_grow(&s->ports, &s->n_ports, sizeof(*port));
		if (!port)
			return value_no_memory(p);
		port->target = (uint16_t)t;
		port->protocol = protocol;
		if (published) {
			uint32_t first = published->first + (along ? t - target.first : 0);

			port->published = (uint16_t)first;
			port->published_last = (uint16_t)(along ? first : published->last);
		}
		port->host_ip = host_ip ? strdup(host_ip) : NULL;
		if (host_ip && !port->host_ip)
			return value_no_memory(p);
	}
	return 0;
}

static int short_port(struct template_parse *p, const char *text)
{
	cleanup_free char *s = strdup(text);
	struct range target, published;
	char *slash, *port, *colon, *ip = NULL;
	const char *protocol = "tcp";
	size_t n;

	if (!s)
		return value_no_memory(p);
	slash = strchr(s, '/');
	if (slash) {
		*slash = 0;
		protocol = get_protocol(slash + 1);
	}
	colon = strrchr(s, ':');
	port = colon ? colon + 1 : s;
	if (!protocol || !get_range(port, strlen(port), 1, &target))
		return value_bad(p, text, PORTS_FORM);
	if (!colon)
		return add_ports(p, target, NULL, NULL, protocol);
	*colon = 0;
	colon = strrchr(s, ':');
	port = colon ? colon + 1 : s;
	if (colon) {
		*colon = 0;
		ip = s;
		n = strlen(ip);
		if (n > 1 && ip[0] == '[' && ip[n - 1] == ']') {
			ip[n - 1] = 0;
			ip++;
		}
		if (!is_address(ip))
			return value_bad(p, text, PORTS_FORM);
		if (!*port)
			return add_ports(p, target, NULL, ip, protocol);
	}
	if (!get_range(port, strlen(port), 0, &published))
		return value_bad(p, text, PORTS_FORM);
	return add_ports(p, target, &published, ip, protocol);
}

struct long_port {
	char *target, *published, *host_ip, *protocol, *mode, *name;
};

/* A port as a number or as text; the text in either case. */
static int port_text(struct template_parse *p, const cJSON *j, void *to)
{
	char **out = to, number[16];
	int64_t v;
	int r;

	if (cJSON_IsString(j))
		return value_string(p, j, to);
	if (!cJSON_IsNumber(j))
		return value_wrong_type(p, "a port", j);
	r = value_whole(p, j, 0, 65535, &v);
	if (r < 0)
		return r;
	snprintf(number, sizeof(number), "%d", (int)v);
	*out = strdup(number);
	return *out ? 0 : value_no_memory(p);
}

static int port_ip(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);

	return r == 0 && !is_address(j->valuestring) ? value_bad(p, j->valuestring, "an address")
						     : r;
}

static int port_protocol(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);

	return r == 0 && !get_protocol(j->valuestring)
		       ? value_bad(p, j->valuestring, "tcp, udp or sctp")
		       : r;
}

static int port_mode(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);

	if (r == 0 && strcmp(j->valuestring, "host") != 0 && strcmp(j->valuestring, "ingress") != 0)
		r = value_bad(p, j->valuestring, "host or ingress");
	return r;
}

static int long_port(struct template_parse *p, const cJSON *j, struct long_port *l)
{
	static const struct template_key keys[] = {
		{"target", port_text, offsetof(struct long_port, target)},
		{"published", port_text, offsetof(struct long_port, published)},
		{"host_ip", port_ip, offsetof(struct long_port, host_ip)},
		{"protocol", port_protocol, offsetof(struct long_port, protocol)},
		{"mode", port_mode, offsetof(struct long_port, mode)},
		{"name", value_string, offsetof(struct long_port, name)},
	};
	struct range target, published;
	int r = value_map(p, j, TEMPLATE_KEYS(keys), l);

	if (r < 0)
		return r;
	if (!l->target)
		return value_fail(p, EINVAL, "the key target is missing");
	if (!get_range(l->target, strlen(l->target), 1, &target) || target.first != target.last) {
		place_member(p, "target");
		return value_bad(p, l->target, "a port from 1 to 65535");
	}
	if (l->published && !get_range(l->published, strlen(l->published), 0, &published)) {
		place_member(p, "published");
		return value_bad(p, l->published, "a port or a range");
	}
	return add_ports(p, target, l->published ? &published : NULL, l->host_ip,
		l->protocol ? get_protocol(l->protocol) : "tcp");
}

static int add_port(struct template_parse *p, const cJSON *j, void *arg)
{
	struct long_port l = {0};
	char *text = NULL;
	int r;

	(void)arg;
	if (cJSON_IsObject(j)) {
		r = long_port(p, j, &l);
	} else if (cJSON_IsString(j) || cJSON_IsNumber(j)) {
		r = port_text(p, j, &text);
		r = r < 0 || !text ? r : short_port(p, text);
	} else {
		r = value_wrong_type(p, "a string, a number or a map", j);
	}
	free(text);
	free(l.target);
	free(l.published);
	free(l.host_ip);
	free(l.protocol);
	free(l.mode);
	free(l.name);
	return r;
}

int key_ports(struct template_parse *p, const cJSON *j, void *to)
{
	(void)to;
	return value_each(p, j, "a list of ports", false, add_port, NULL);
}

int key_network_mode(struct template_parse *p, const cJSON *j, void *to)
{
	int r = value_string(p, j, to);

	if (r == 0 && !template_is_name(j->valuestring, strlen(j->valuestring)))
		r = value_bad(p, j->valuestring, "none, bridge, host or a network");
	return r;
}

int key_dns(struct template_parse *p, const cJSON *j, void *to)
{
	char ***out = to;
	int r = value_one_or_more(p, j, to);

	for (int i = 0; r == 0 && *out && (*out)[i]; i++) {
		size_t was = cJSON_IsArray(j) ? place_item(p, i) : p->place_len;

		if (!is_address((*out)[i]))
			return value_bad(p, (*out)[i], "an address");
		place_leave(p, was);
	}
	return r;
}

struct hosts {
	struct list l;
	char ***to;
	const char *name; /* where the map's value is a list */
};

static int add_host(
	struct template_parse *p, struct hosts *h, const char *name, size_t n, const char *address)
{
	size_t len = strlen(address);
	cleanup_free char *bare = len > 1 && address[0] == '[' && address[len - 1] == ']'
					  ? strndup(address + 1, len - 2)
					  : strdup(address);
	char *line;

	if (!bare)
		return value_no_memory(p);
	if (!template_is_name(name, n))
		return value_fail(
			p, EINVAL, "\"%.*s\" is not a host name", (int)(n < 200 ? n : 200), name);
	if (!is_address(bare) && strcmp(bare, "host-gateway") != 0)
		return value_bad(p, bare, "an address");
	if (asprintf(&line, "%.*s:%s", (int)n, name, bare) < 0)
		line = NULL;
	if (list_add(&h->l, line) != 0)
		return value_no_memory(p);
	*h->to = h->l.v;
	return 0;
}

static int host_line(struct template_parse *p, const cJSON *j, void *arg)
{
	const char *s = j->valuestring, *sep;

	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string", j);
	sep = s + strcspn(s, "=:");
	if (!*sep)
		return value_bad(p, s, "NAME:ADDRESS or NAME=ADDRESS");
	return add_host(p, arg, s, (size_t)(sep - s), sep + 1);
}

static int host_address(struct template_parse *p, const cJSON *j, void *arg)
{
	struct hosts *h = arg;

	if (!cJSON_IsString(j))
		return value_wrong_type(p, "a string", j);
	return add_host(p, h, h->name, strlen(h->name), j->valuestring);
}

static int host_member(struct template_parse *p, const cJSON *j, void *arg)
{
	struct hosts *h = arg;

	h->name = j->string;
	return value_each(p, j, "an address or a list of them", true, host_address, h);
}

int key_extra_hosts(struct template_parse *p, const cJSON *j, void *to)
{
	static const char want[] = "a map or a list of strings";
	struct hosts h = {.to = to};

	return cJSON_IsArray(j) ? value_each(p, j, want, false, host_line, &h)
				: value_members(p, j, want, host_member, &h);
}
