/* SPDX-License-Identifier: MIT */
#include "docker/body.h"
#include "docker/json.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdlib.h>

#define S(text) ((char[]){text})

static struct spec plain(void)
{
	static char ns[] = "ns", name[] = "demo", template[] = "default", image[] = "img",
		    dir[] = "/workspace", config[] = "{\"a\":\"\\\"\"}";

	return (struct spec){.namespace = ns,
		.name = name,
		.owner = 4294967295u,
		.template = template,
		.image = image,
		.working_dir = dir,
		.config = config};
}

static char *printed(const struct spec *spec)
{
	cJSON *body = NULL;
	char *text;

	CHECK(body_create(spec, "u:g", "sandboxfs-agent-1", "m1", &body, NULL) == 0);
	text = cJSON_PrintUnformatted(body);
	cJSON_Delete(body);
	return text;
}

static int has(const struct spec *spec, const char *part)
{
	char *text = printed(spec);
	int found = strstr(text, part) != NULL;

	free(text);
	return found;
}

static void the_plain_one(void)
{
	struct spec spec = plain();

	CHECK(has(&spec, "\"Entrypoint\":[\"/.sandboxfs/bin/agent\",\"init\",\"--state\","
			 "\"/.sandboxfs/state\",\"--workspace\",\"/workspace\",\"--user\",\"u:g\"],"
			 "\"Cmd\":[]"));
	CHECK(has(&spec, "\"User\":\"0\""));
	CHECK(has(&spec, "\"NetworkMode\":\"none\""));
	CHECK(has(&spec,
		"\"CapAdd\":[\"CHOWN\",\"DAC_OVERRIDE\",\"FOWNER\",\"FSETID\",\"KILL\","
		"\"SETGID\",\"SETUID\",\"SYS_CHROOT\",\"SETFCAP\"],\"CapDrop\":[\"ALL\"]"));
	CHECK(has(&spec, "\"SecurityOpt\":[\"no-new-privileges\"]"));
	CHECK(has(&spec, "\"Mounts\":[{\"Type\":\"volume\",\"Source\":\"sandboxfs-agent-1\","
			 "\"Target\":\"/.sandboxfs/bin\",\"ReadOnly\":true,\"VolumeOptions\":"
			 "{\"NoCopy\":true}},{\"Type\":\"volume\",\"Target\":\"/.sandboxfs/state\","
			 "\"ReadOnly\":false,\"VolumeOptions\":{\"NoCopy\":true}}]"));
	CHECK(has(&spec, "\"sandboxfs.owner\":\"4294967295\""));
	CHECK(has(&spec, "\"sandboxfs.config\":\"{\\\"a\\\":\\\"\\\\\\\"\\\"}\""));
	CHECK(!has(&spec, "Memory") && !has(&spec, "Cpu") && !has(&spec, "Hostname"));
}

static void command_and_limits(void)
{
	struct spec spec = plain();
	char *argv[] = {S("sh"), S("-c"), S("a \"b\""), NULL};

	spec.command = argv;
	spec.mem_limit = 1000000000000000u; /* cJSON alone would write 1e+15 */
	spec.cpus_milli = 1500;
	spec.pids_limit = 99;
	CHECK(has(&spec, "\"Cmd\":[\"--\",\"sh\",\"-c\",\"a \\\"b\\\"\"]"));
	CHECK(has(&spec, "\"Memory\":1000000000000000,\"MemorySwap\":1000000000000000,"
			 "\"CpuPeriod\":100000,\"CpuQuota\":150000,\"PidsLimit\":99"));
	spec.cpus_milli = 1;
	CHECK(has(&spec, "\"CpuQuota\":1000,"));
}

static void capabilities(void)
{
	struct spec spec = plain();
	char *add[] = {S("net_raw"), S("CAP_SYS_PTRACE"), S("KILL"), NULL};
	char *drop[] = {S("cap_chown"), S("SYS_PTRACE"), NULL};
	char *all[] = {S("all"), NULL};

	spec.cap_add = add;
	spec.cap_drop = drop;
	CHECK(has(&spec,
		"\"CapAdd\":[\"DAC_OVERRIDE\",\"FOWNER\",\"FSETID\",\"KILL\",\"SETGID\","
		"\"SETUID\",\"NET_RAW\",\"SYS_CHROOT\",\"SETFCAP\"],\"CapDrop\":[\"ALL\"]"));
	spec.cap_drop = all;
	CHECK(has(&spec, "\"CapAdd\":[\"KILL\",\"NET_RAW\",\"SYS_PTRACE\"],\"CapDrop\":[\"ALL\"]"));
	spec.cap_add = all;
	spec.cap_drop = drop;
	CHECK(has(&spec, "\"CapAdd\":[\"ALL\"],\"CapDrop\":[\"CHOWN\",\"SYS_PTRACE\"]"));
}

static void read_only_root(void)
{
	static const char added[] = "\"Target\":\"/workspace\"";
	struct spec spec = plain();
	struct spec_volume v = {.target = S("/workspace")};
	char *tmpfs[] = {S("/tmp"), S("/workspace:size=1m"), NULL}, *parent[] = {S("/work"), NULL};

	CHECK(!has(&spec, added));
	spec.read_only = true;
	CHECK(has(&spec, added) && has(&spec, "\"ReadonlyRootfs\":true"));
	spec.tmpfs = parent; /* no parent of it, only the same letters */
	CHECK(has(&spec, added));
	spec.tmpfs = tmpfs;
	CHECK(!has(&spec, added));
	CHECK(has(&spec, "\"Tmpfs\":{\"/tmp\":\"\",\"/workspace\":\"size=1m\"}"));
	spec.tmpfs = NULL;
	spec.volumes = &v;
	spec.n_volumes = 1;
	CHECK(has(&spec, "{\"Type\":\"volume\",\"Target\":\"/workspace\",\"ReadOnly\":false}]"));
}

static void refused(struct spec *spec)
{
	cJSON *body = NULL;
	struct err err = {0};

	CHECK(body_create(spec, "0", "sandboxfs-agent-1", "m1", &body, &err) == -EINVAL);
	CHECK(!body && err.msg[0]);
}

static void our_own_is_out_of_reach(void)
{
	char *const targets[] = {S("/.sandboxfs"), S("/.sandboxfs/"), S("/.sandboxfs/bin"),
		S("/.sandboxfs/state/x"), S("/"), S("x"), S(""), S("/a/../.sandboxfs"),
		S("//.sandboxfs"), S("/./.sandboxfs"), S("/a/.."), S("/."), S("/a//b")};
	struct spec_volume v = {0};
	struct spec spec = plain();
	char *tmpfs[] = {NULL, NULL};

	for (size_t i = 0; i < sizeof(targets) / sizeof(*targets); i++) {
		tmpfs[0] = targets[i];
		spec.tmpfs = tmpfs;
		refused(&spec);
		spec.tmpfs = NULL;
		v.target = targets[i];
		spec.volumes = &v;
		spec.n_volumes = 1;
		refused(&spec);
		spec.n_volumes = 0;
	}
	tmpfs[0] = S("/.sandboxfs/bin:size=1m");
	spec.tmpfs = tmpfs;
	refused(&spec);
	tmpfs[0] = S("/.sandboxfs2/:a=/../"); /* this one is nobody's */
	CHECK(has(&spec, "{\"/.sandboxfs2/\":\"a=/../\"}"));
	spec.tmpfs = NULL;
	v = (struct spec_volume){.source = S("sandboxfs-agent-0123"), .target = S("/a")};
	spec.n_volumes = 1;
	refused(&spec);
	v.source = S("/etc");
	refused(&spec);
	spec.n_volumes = 0;
	spec.working_dir = S("/.sandboxfs/state");
	refused(&spec);
	spec.working_dir = S("/a/../.sandboxfs");
	refused(&spec);
	spec.working_dir = S("relative");
	refused(&spec);
}

static void what_is_mounted(void)
{
	struct spec spec = plain();
	char *opts[] = {S("type=tmpfs"), S("o=size=1m"), NULL}, *labels[] = {S("a=b=c"), NULL};
	struct spec_volume v[] = {{.source = S("data"),
					  .target = S("/d"),
					  .ours = true,
					  .driver_opts = opts,
					  .labels = labels},
		{.type = SPEC_BIND,
			.source = S("/srv"),
			.target = S("/s"),
			.read_only = true,
			.propagation = S("rslave")},
		{.type = SPEC_TMPFS, .target = S("/t"), .tmpfs_size = 4096, .tmpfs_mode = 0700},
		{.source = S("kept"), .target = S("/k"), .subpath = S("p"), .nocopy = true}};

	spec.volumes = v;
	spec.n_volumes = 4;
	CHECK(has(&spec, "{\"Type\":\"volume\",\"Target\":\"/d\",\"ReadOnly\":false,"
			 "\"VolumeOptions\":{\"Labels\":{\"a\":\"b=c\",\"sandboxfs.volume\":"
			 "\"data\"},\"DriverConfig\":{\"Name\":\"local\",\"Options\":"
			 "{\"type\":\"tmpfs\",\"o\":\"size=1m\"}}}}"));
	CHECK(has(&spec, "{\"Type\":\"bind\",\"Source\":\"/srv\",\"Target\":\"/s\","
			 "\"ReadOnly\":true,\"BindOptions\":{\"Propagation\":\"rslave\"}}"));
	CHECK(has(&spec, "{\"Type\":\"tmpfs\",\"Target\":\"/t\",\"ReadOnly\":false,"
			 "\"TmpfsOptions\":{\"SizeBytes\":4096,\"Mode\":448}}"));
	CHECK(has(&spec, "\"Source\":\"kept\",\"Target\":\"/k\",\"ReadOnly\":false,"
			 "\"VolumeOptions\":{\"NoCopy\":true,\"Subpath\":\"p\"}}"));
}

static void published_ports(void)
{
	struct spec spec = plain();
	struct spec_port ports[] = {{.target = 80, .protocol = "tcp"},
		{.target = 80,
			.published = 8080,
			.published_last = 8080,
			.host_ip = S("0.0.0.0"),
			.protocol = "tcp"},
		{.target = 53, .published = 5000, .published_last = 5009, .protocol = "udp"}};

	CHECK(!has(&spec, "ExposedPorts"));
	spec.ports = ports;
	spec.n_ports = 3;
	CHECK(has(&spec, "\"ExposedPorts\":{\"80/tcp\":{},\"53/udp\":{}}"));
	CHECK(has(&spec,
		"\"PortBindings\":{\"80/tcp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"\"},"
		"{\"HostIp\":\"0.0.0.0\",\"HostPort\":\"8080\"}],\"53/udp\":["
		"{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"5000-5009\"}]}"));
}

static void devices_and_rights(void)
{
	struct spec spec = plain();
	struct spec_device devices[] = {{.source = S("/dev/a"), .target = S("/dev/b")},
		{.source = S("v/c=1")}, {.source = S("v/c=2")}};
	struct spec_gpu gpu = {.count = -1};
	struct spec_ulimit limit = {.name = S("core"), .soft = 0, .hard = -1};
	char *security[] = {S("no-new-privileges=false"), S("systempaths=unconfined"), NULL};
	char *groups[] = {S("audio"), S("44"), NULL};

	spec.devices = devices;
	spec.n_devices = 3;
	spec.gpus = &gpu;
	spec.n_gpus = 1;
	spec.ulimits = &limit;
	spec.n_ulimits = 1;
	spec.security_opt = security;
	spec.group_add = groups;
	spec.runtime = S("runsc");
	CHECK(has(&spec, "\"Devices\":[{\"PathOnHost\":\"/dev/a\",\"PathInContainer\":\"/dev/b\","
			 "\"CgroupPermissions\":\"rwm\"}],\"DeviceRequests\":[{\"Driver\":\"cdi\","
			 "\"DeviceIDs\":[\"v/c=1\",\"v/c=2\"]},{\"Count\":-1,\"Capabilities\":"
			 "[[\"gpu\"]],\"Options\":{}}]"));
	CHECK(has(&spec, "\"Ulimits\":[{\"Name\":\"core\",\"Soft\":0,\"Hard\":-1}]"));
	CHECK(has(&spec, "\"SecurityOpt\":[\"no-new-privileges=false\"]"));
	CHECK(has(&spec, "\"MaskedPaths\":[],\"ReadonlyPaths\":[]"));
	CHECK(has(&spec, "\"GroupAdd\":[\"audio\",\"44\"]") &&
		has(&spec, "\"--groups\",\"audio,44\"]"));
	CHECK(has(&spec, "\"Runtime\":\"runsc\""));
}

int main(void)
{
	TEST(the_plain_one);
	TEST(command_and_limits);
	TEST(capabilities);
	TEST(read_only_root);
	TEST(our_own_is_out_of_reach);
	TEST(what_is_mounted);
	TEST(published_ports);
	TEST(devices_and_rights);
	return check_done();
}
