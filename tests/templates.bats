#!/usr/bin/env bats
# Templates: each key read back from inside the container or from the engine, never from our own config.json.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

# inspect NAME FORMAT: what the engine says of the sandbox's container.
inspect() {
  dk inspect -f "$2" "$(box_id "$1")"
}

# free_ports: two of 127.0.0.1 that follow each other and that nobody listens on.
free_ports() {
  python3 -c 'import socket
while True:
    try:
        a, b = socket.create_server(("127.0.0.1", 0)), socket.socket()
        b.bind(("127.0.0.1", a.getsockname()[1] + 1))
        break
    except (OSError, OverflowError):
        pass
print(a.getsockname()[1], b.getsockname()[1])'
}

@test "the default: only lo, the listed capabilities, no new privileges" {
  mount_sbx
  sandbox demo
  is "$(networks demo)" lo
  is "$(out demo 'grep -E "CapEff|CapBnd|NoNewPrivs" /proc/1/status; pwd')" "CapEff:	00000000800400fb
CapBnd:	00000000800400fb
NoNewPrivs:	1
/workspace"
  rmdir "$MNT/demo"
}

# An ordinary user's embedded engine: limits.bats has what it says instead.
# bats test_tags=not:bwrap-user
@test "limits: the default ones, and a template's, are the container's; 0 is none" {
  template some '{"image": "busybox:test", "mem_limit": "64m", "cpus": "0.5", "pids_limit": 99}'
  template none '{"image": "busybox:test", "mem_limit": 0, "cpus": 0, "pids_limit": 0}'
  mount_sbx "templates=$TEMPLATES"
  sandbox demo
  sandbox some@demo
  sandbox none@demo
  is "$(box_limit none@demo memory) $(box_limit none@demo cpu | cut -d ' ' -f 1) $(box_limit none@demo pids)" "max max max"
  is "$(cat "$MNT"/none@demo/ctl/{memory,cpu,pids}.max)" $'max\nmax 100000\nmax'
  is "$(out none@demo 'cd /sys/fs/cgroup; cat pids.max 2>/dev/null || cat pids/pids.max')" max
  is "$(out demo 'cd /sys/fs/cgroup; cat memory.max 2>/dev/null || cat memory/memory.limit_in_bytes')" 1073741824
  is "$(box_limit demo swap) $(box_limit demo cpu) $(box_limit demo pids)" "1073741824 200000 100000 512"
  is "$(box_limit some@demo memory) $(box_limit some@demo cpu) $(box_limit some@demo pids)" "67108864 50000 100000 99"
}

@test "keys whose effect a program inside sees" {
  export SBX_TEST_SECRET=hush
  template full '{"image": "busybox:test", "pull_policy": "never", "entrypoint": ["/bin/sh", "-c"],
    "command": ["echo $0 $PLAIN | tee main; sleep 1000", "arg"],
    "environment": {"PLAIN": "p", "N": 5, "SBX_TEST_SECRET": null, "MARKED": "marked-value"},
    "working_dir": "/workspace/sub", "user": "user", "group_add": ["2000", 4321], "hostname": "box",
    "tmpfs": ["/t1", "/t2:size=1m,mode=700"], "extra_hosts": {"far": "10.1.2.3"},
    "cap_add": ["NET_RAW"], "cap_drop": ["SYS_CHROOT", "SETFCAP"], "security_opt": ["no-new-privileges:true"],
    "read_only": true, "shm_size": "3m",
    "ulimits": {"nofile": {"soft": 100, "hard": 200}, "core": 0, "nproc": 4096},
    "volumes": ["/workspace", "named:/named",
      {"type": "tmpfs", "target": "/t3", "tmpfs": {"size": 65536, "mode": "0710"}}],
    "x-sandboxfs": {"secrets": ["MARKED"], "volumes": {"named": {}}}}'
  mount_sbx "templates=$TEMPLATES"
  before=$(volumes | grep -v agent) || true
  sandbox full@demo
  wait_for 90 test -s "$MNT/full@demo/workspace/main"
  is "$(out full@demo 'cat main; pwd; id -u; id -G; hostname; echo $N $SBX_TEST_SECRET $MARKED
    grep -c -E " /t1 tmpfs|/t2 tmpfs.*size=1024k|/t3 tmpfs.*size=64k|/dev/shm tmpfs.*size=3072k" /proc/mounts
    grep far /etc/hosts; grep -E "CapBnd|NoNewPrivs" /proc/1/status; ulimit -n; ulimit -Hn; ulimit -c
    touch /no 2>/dev/null || echo read-only; grep -c " /named " /proc/mounts; stat -c %a /t2 /t3')" \
    "arg p
/workspace/sub
1000
1000 2000 4321
box
5 hush marked-value
4
10.1.2.3	far
CapBnd:	00000000000020fb
NoNewPrivs:	1
100
200
0
read-only
1
700
710"
  # The program is the job main.
  is "$(cat "$MNT"/full@demo/ctl/jobs/main/{result,output})" $'running\narg p'
  # Secrets are in the container's environment, and nowhere that we write.
  run ! grep -rE 'hush|marked-value' "$MNT/full@demo/ctl/config.json" "$MNT/.sandboxfs/errors" "$MNT/.sandboxfs/events"
  has "$(cat "$MNT/full@demo/ctl/config.json")" '"SBX_TEST_SECRET":"***"'
  run ! grep -E 'hush|marked-value' <<<"$(box_labels full@demo)"
  # A volume of ours goes with the sandbox.
  rmdir "$MNT/full@demo"
  wait_for 90 no_containers
  is "$(volumes | grep -v agent)" "$before"
}

# The host's interfaces come and go with other tests.
same_networks() {
  [[ $(networks "$1") == "$(sed -n 's/^ *\([^ :]*\):.*/\1/p' /proc/net/dev)" ]]
}

@test "the host's network: all of its interfaces; dns and extra_hosts are what a program reads" {
  template open '{"image": "busybox:test", "network_mode": "host", "dns": ["10.9.8.7", "10.9.8.6"],
    "extra_hosts": ["far:10.1.2.3", "six=fd00::1"]}'
  mount_sbx "templates=$TEMPLATES"
  sandbox open@demo
  wait_for 90 same_networks open@demo
  is "$(out open@demo 'grep ^nameserver /etc/resolv.conf; grep -E "far|six" /etc/hosts')" \
    $'nameserver 10.9.8.7\nnameserver 10.9.8.6\n10.1.2.3\tfar\nfd00::1\tsix'
  rmdir "$MNT/open@demo"
}

# not_ours: the capabilities that nobody on this machine can give, as a list in JSON.
not_ours() {
  python3 - "$(setpriv --list-caps)" <<'PY'
import json, re, sys
mine = int(re.search(r"CapBnd:\s*(\w+)", open("/proc/self/status").read())[1], 16)
print(json.dumps([name.upper() for bit, name in enumerate(sys.argv[1].split()) if not mine >> bit & 1]))
PY
}

# bats test_tags=only:api
@test "keys that open a sandbox up: a device to read, new privileges, all capabilities; ids of any size" {
  local caps
  template open '{"image": "busybox:test", "devices": ["/dev/fuse:/dev/fuse2:r"], "cap_add": ["ALL"], "cap_drop": '"$(not_ours)"',
    "security_opt": ["no-new-privileges:false"], "ulimits": {"nproc": 4097, "nofile": 100}}'
  mount_sbx "templates=$TEMPLATES"
  sandbox open@demo
  is "$(out open@demo ': </dev/fuse2 && echo read; (: >/dev/fuse2) 2>/dev/null || echo not written
    grep NoNewPrivs /proc/1/status; grep "Max processes" /proc/self/limits | tr -s " "
    touch f; chown 70000:4000000000 f; stat -c %u:%g f')" \
    $'read\nnot written\nNoNewPrivs:\t0\nMax processes 4097 4097 processes \n70000:4000000000'
  # Docker knows of those that were there when it was made.
  caps=$(out open@demo 'grep CapBnd /proc/1/status')
  (((0x${caps##*[[:space:]]} & 0x3fffffffff) == (0x$(awk '/CapBnd/ { print $2 }' /proc/self/status) & 0x3fffffffff)))
}

@test "a sandbox without any capability serves" {
  # A root that cannot be written without them is the image's business.
  template none '{"image": "busybox:test", "cap_drop": ["ALL"], "working_dir": "/root"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox none@demo
  is "$(out none@demo 'grep -E "CapBnd|CapEff" /proc/1/status; echo x >f; cat f')" \
    $'CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nx'
  is "$(cat "$MNT/none@demo/workspace/f")" x
}

# bats test_tags=only:docker
@test "keys that only Docker acts on: runtime, all of /proc, nocopy, labels and a driver of a volume that is ours" {
  template one '{"image": "busybox:test", "runtime": "runc-too", "security_opt": ["systempaths=unconfined"],
    "volumes": ["named:/named", "/home",
      {"type": "volume", "target": "/usr", "volume": {"nocopy": true}}],
    "x-sandboxfs": {"volumes": {"named": {"driver": "local", "labels": {"which": "ours"},
      "driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}}}}}'
  template part '{"image": "127.0.0.1:1/none", "volumes": [{"type": "volume", "source": "v", "target": "/v",
    "volume": {"subpath": "s"}}]}'
  mount_sbx "templates=$TEMPLATES"
  # It would mount all of the volume; told before anything is pulled.
  if [[ $(printf '1.45\n%s\n' "$(dk version -f '{{.Server.APIVersion}}')" | sort -V | head -n 1) != 1.45 ]]; then
    fails_with "Operation not supported" mkdir "$MNT/part@demo"
    has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "EOPNOTSUPP key volumes: docker ignores a volume's subpath before API 1.45"
  fi
  sandbox one@demo
  is "$(inspect one@demo '{{.HostConfig.Runtime}}')" runc-too
  is "$(out one@demo 'ls -A /home /usr; grep -c " /named tmpfs .*size=1024k" /proc/mounts
    ! grep " /proc/" /proc/mounts')" $'/home:\nuser\n\n/usr:\n1'
  is "$(volumes_with which=ours | wc -l)" 1
  rmdir "$MNT/one@demo"
  wait_for 90 no_containers
  is "$(volumes_with which=ours | wc -l)" 0
}

# ignored KEY TEMPLATE: which is refused by that key, since Podman would ignore it
ignored() {
  template bad "$2"
  fails_with "Operation not supported" mkdir "$MNT/bad@x" || return 1
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "EOPNOTSUPP key $1: podman ignores"
}

# bats test_tags=only:podman
@test "keys that Podman would ignore are refused, each by its name" {
  mount_sbx "templates=$TEMPLATES,image=127.0.0.1:1/none" # nothing is pulled first
  ignored runtime '{"runtime": "crun"}'
  ignored gpus '{"gpus": "all"}'
  ignored security_opt '{"security_opt": ["systempaths=unconfined"]}'
  ignored devices '{"devices": ["vendor.com/class=none"]}'
  ignored volumes '{"volumes": [{"type": "volume", "source": "v", "target": "/v", "volume": {"nocopy": true}}]}'
  ignored volumes '{"volumes": [{"type": "volume", "source": "v", "target": "/v", "volume": {"subpath": "s"}}]}'
  ignored x-sandboxfs.volumes '{"volumes": ["v:/v"], "x-sandboxfs": {"volumes": {"v": {"labels": {"which": "ours"}}}}}'
  ignored x-sandboxfs.volumes '{"volumes": ["v:/v"], "x-sandboxfs": {"volumes": {"v": {"driver": "other"}}}}'
  ignored x-sandboxfs.volumes '{"volumes": ["v:/v"], "x-sandboxfs": {"volumes": {"v": {"driver": "local",
    "driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}}}}}'
  template bad '{"network_mode": "bridge", "ports": ["8000-8001:80"]}'
  fails_with "Operation not supported" mkdir "$MNT/bad@x"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "EOPNOTSUPP key ports: podman cannot choose from the range 8000-8001"
  # What it does not ignore but refuses has its own words.
  template tmpfs '{"image": "busybox:test", "tmpfs": ["/t:size=1m,nr_inodes=50"]}'
  fails_with "Input/output error" mkdir "$MNT/tmpfs@x"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" nr_inodes
  no_containers
}

# bats test_tags=only:api
@test "keys that the engine acts on: labels, dns, ports, a volume of others, a bind" {
  local dir=$BATS_TEST_TMPDIR/shared a b range=''
  read -r a b < <(free_ports)
  [[ $SBX_KIND == podman ]] || range=", \"$a-$b:83\""
  mkdir -p "$dir/real"
  ln -s real "$dir/link"
  ln -s /etc "$dir/out"
  echo hello >"$dir/real/f"
  dk network create "net-$NS" >/dev/null
  template net "{\"network_mode\": \"net-$NS\", \"dns\": [\"10.9.8.7\"], \"labels\": [\"color=blue\"],
    \"ports\": [\"80\", {\"target\": 81, \"host_ip\": \"0.0.0.0\", \"published\": 0}, \"$a:82/udp\"$range],
    \"security_opt\": [\"seccomp:unconfined\"],
    \"volumes\": [\"kept-$NS:/kept\", \"$dir/link:/bound:ro\"], \"platform\": \"linux/$(dk version -f '{{.Server.Arch}}')\"}"
  template out "{\"volumes\": [\"$dir/out:/bound\"]}"
  mount_sbx "templates=$TEMPLATES,allow_binds=/nowhere:$dir"
  fails_with "Operation not permitted" mkdir "$MNT/out@demo"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" 'key volumes[0]'
  sandbox net@demo
  is "$(out net@demo 'cat /bound/f; touch /bound/g 2>/dev/null || echo ro; echo x > /kept/f; grep Seccomp: /proc/self/status')" \
    $'hello\nro\nSeccomp:\t0'
  is "$(inspect net@demo '{{json .HostConfig.Dns}} {{.Config.Labels.color}} {{range .NetworkSettings.Ports}}{{(index . 0).HostIp}} {{end}}')" \
    "[\"10.9.8.7\"] blue 127.0.0.1 0.0.0.0 127.0.0.1 ${range:+127.0.0.1 }"
  is "$(inspect net@demo '{{(index .NetworkSettings.Ports "82/udp" 0).HostPort}}')" "$a"
  [[ -z $range || $(inspect net@demo '{{(index .NetworkSettings.Ports "83/tcp" 0).HostPort}}') == @("$a"|"$b") ]]
  rmdir "$MNT/net@demo"
  wait_for 90 no_containers
  volume_rm "kept-$NS" # it stayed
  dk network rm "net-$NS"
}

@test "what the engine cannot do is its error, in words" {
  template runtime '{"runtime": "no-such-runtime"}'
  template device '{"devices": ["/dev/no-such-device"]}'
  template g '{"gpus": "all"}'
  template c '{"devices": ["vendor.com/class=none"]}'
  template quota '{"storage_opt": {"sise": "1g"}}'
  mount_sbx "templates=$TEMPLATES"
  local name word
  for name in runtime:no-such-runtime device:no-such-device 'g:gpu|device driver' 'c:cdi|vendor' 'quota:sise|storage-opt'; do
    word=${name#*:} name=${name%:*}
    if mkdir "$MNT/$name@x" 2>/dev/null; then
      wait_for 60 state_is "$name@x" failed
      grep -E "$word" "$MNT/$name@x/ctl/error"
      rmdir "$MNT/$name@x"
    else
      grep -E "$word" <<<"$(tail -n 1 "$MNT/.sandboxfs/errors")"
    fi
  done
  wait_for 90 no_containers
}

@test "two hundred templates with a fault each: as many errors that name the key, and no sandbox" {
  mount_sbx "templates=$SBX_TOP/tests/fuzz/corpus/template_bad"
  python3 - "$SBX_TOP/tests/fuzz/corpus/template_bad" "$MNT" <<'PY'
import errno, os, re, sys
names = [f[:-5] for f in os.listdir(sys.argv[1]) if f.endswith(".json")]
assert len(names) >= 100
for name in names:
    try:
        os.mkdir(sys.argv[2] + "/" + name + "@x")
        raise AssertionError(name + " made a sandbox")
    except OSError as e:
        assert e.errno in (errno.EINVAL, errno.EPERM), (name, e)
    with open(sys.argv[2] + "/.sandboxfs/errors") as f:
        last = f.readlines()[-1]
    # volumes.1.target--relative is at volumes[1].target
    place = re.sub(r"\.(\d)", r"[\1]", name.split("--")[0])
    begin = "template %s: " % name
    assert begin in last and (place == "json" or place in last.split(begin)[1]), (name, last)
PY
  # shellcheck disable=SC2012 # the names are ours
  is "$(ls "$MNT" | tr '\n' ' ')" "README "
  no_containers
}

@test "templates through the mount: written, refused, saved by rename, moved, removed" {
  local dir here=$BATS_TEST_TMPDIR/config/sandboxfs/templates
  export XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/config
  mount_sbx
  dir=$MNT/.sandboxfs/templates
  is "$(ls "$dir")" default.json
  is "$(jq -r '.network_mode, .image' "$dir/default.json")" $'none\nbusybox:test'
  is "$(stat -c %s "$dir/default.json")" "$(wc -c <"$dir/default.json")"

  # Written, it is used by the next sandbox, and lies in a directory that was made for it.
  echo '{"environment": {"FROM": "py"}}' >"$dir/py.json"
  same "$dir/py.json" "$here/py.json"
  is "$(stat -c %a "$here/py.json")" 600
  sandbox py@demo
  is "$(out py@demo 'echo $FROM')" py

  # A bad one is refused where the writer sees it; the old one stays.
  fails_with "Invalid argument" bash -c 'echo "{\"imag\": 1}" >"$1"' - "$dir/py.json"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" 'unknown key imag'
  is "$(cat "$here/py.json")" '{"environment": {"FROM": "py"}}'
  fails_with "Invalid argument" bash -c 'echo hello >"$1"' - "$dir/new.json"
  fails_with "Operation not permitted" bash -c 'echo "{\"volumes\": [\"/etc:/e\"]}" >"$1"' - "$dir/new.json"
  python3 - "$dir" <<'PY'
import errno, os, sys
os.chdir(sys.argv[1])
def refused(f, code):
    try:
        f()
    except OSError as e:
        assert e.errno == code, e
    else:
        raise AssertionError("not refused")
# In pieces: the half that is there at the close is all there is.
fd = os.open("py.json", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b'{"image": ')
refused(lambda: os.close(fd), errno.EINVAL)
def old_one_stays():
    assert open("py.json").read() == '{"environment": {"FROM": "py"}}\n'
old_one_stays()
assert "JSON" in open("../errors").readlines()[-1]
# By rename, as editors do.
open(".py.json.tmp", "w").write('{"image": 5}')
refused(lambda: os.rename(".py.json.tmp", "py.json"), errno.EINVAL)
old_one_stays()
open("py.json~", "w").write('{"environment": {"FROM":\n')
open("py.json~", "a").write('"rename"}}\n')
os.rename("py.json~", "py.json")
with open("two.json", "x") as f:
    f.write('{"image":'); f.flush(); f.write('"busybox:test"}'); f.flush(); os.fsync(f.fileno())
with open("two.json", "r+") as f:
    assert f.read() == '{"image":"busybox:test"}'
refused(lambda: os.truncate("two.json", 3), errno.EPERM)
os.rename("two.json", "three.json")
refused(lambda: os.rename("three.json", "three.txt"), errno.EPERM)
PY
  is "$(cat "$here/py.json")" $'{"environment": {"FROM":\n"rename"}}'
  # What it is now is for new sandboxes only.
  echo restart >"$MNT/py@demo/ctl/state"
  sandbox py@new
  is "$(out py@demo 'echo $FROM') $(out py@new 'echo $FROM')" 'py rename'
  rmdir "$MNT/py@demo" "$MNT/py@new"
  # shellcheck disable=SC2012 # the names are ours
  is "$(ls -A "$dir" | tr '\n' ' ')$(ls -A "$here" | tr '\n' ' ')" 'default.json py.json three.json py.json three.json '

  # The default can be replaced, and comes back.
  cp "$dir/default.json" "$BATS_TEST_TMPDIR/builtin"
  mv "$dir/three.json" "$dir/default.json"
  is "$(cat "$dir/default.json")" '{"image":"busybox:test"}'
  rm "$dir/default.json" "$dir/py.json"
  same "$dir/default.json" "$BATS_TEST_TMPDIR/builtin"
  fails_with "Operation not permitted" rm "$dir/default.json"
  fails_with "No such file" cat "$dir/py.json"
  is "$(ls -A "$dir")$(ls -A "$here")" default.json
}

# On a machine whose /etc is the test's.
# bats test_tags=not:bwrap-user
@test "without -o templates: the user's own directory, then the machine's" {
  local etc=$BATS_TEST_TMPDIR/etc own=$BATS_TEST_TMPDIR/config/sandboxfs/templates
  cp -a /etc "$etc"
  rm -rf "$etc/sandboxfs"
  mkdir -p "$etc/sandboxfs/templates" "$own" "$BATS_TEST_TMPDIR/at"
  echo '{"hostname": "etc"}' | tee "$etc/sandboxfs/templates"/{both,only}.json >/dev/null
  echo '{"hostname": "mine"}' | tee "$own"/{both,own}.json >/dev/null
  sbx_report_to_files
  export XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/config
  is "$(unshare --mount --propagation private timeout -k 5 300 bash -euc 'mount --bind "$1" /etc
    at=$2
    shift 2
    "$@" "$at" >&2 3>&- 4>&- &
    trap "kill $!" EXIT
    until [ -e "$at/README" ]; do sleep 0.1; done
    cd "$at/.sandboxfs/templates"
    echo *
    cat both.json only.json own.json
    cd /
    fusermount3 -u "$at"
    wait $!
    trap - EXIT' - "$etc" "$BATS_TEST_TMPDIR/at" "$SANDBOXFS" -f -o "$(engine_options),namespace=$NS")" \
    $'both.json default.json only.json own.json\n{"hostname": "mine"}\n{"hostname": "etc"}\n{"hostname": "mine"}'
}

@test "locked: templates can be read and not changed" {
  template one '{"image": "busybox:test"}'
  mount_sbx "templates=$TEMPLATES,locked"
  local dir=$MNT/.sandboxfs/templates line
  is "$(cat "$dir/one.json")" '{"image": "busybox:test"}'
  fails_with "Operation not permitted" bash -c 'echo "{}" >"$1"' - "$dir/one.json"
  fails_with "Operation not permitted" bash -c 'echo "{}" >"$1"' - "$dir/two.json"
  fails_with "Operation not permitted" rm -f "$dir/one.json"
  fails_with "Operation not permitted" mv -f "$dir/one.json" "$dir/two.json"
  fails_with "Operation not permitted" touch "$dir/scratch"
  echo '{}' >"$MNT/.sandboxfs/scratch"
  fails mv -f "$MNT/.sandboxfs/scratch" "$dir/one.json"
  for line in 'rm T/one.json' 'mv T/one.json T/two.json' 'mv .sandboxfs/scratch T/one.json' 'mv .sandboxfs/scratch T/two.json'; do
    echo '{}' >"$MNT/.sandboxfs/scratch"
    fails_with "Operation not permitted" bash -c 'echo "$1" >"$2"' - "${line//T\//.sandboxfs/templates/}" "$MNT/.sandboxfs/do"
  done
  is "$(cat "$TEMPLATES/one.json")" '{"image": "busybox:test"}'
  is "$(ls "$TEMPLATES")" one.json
  has "$(cat "$MNT/.sandboxfs/errors")" 'locked'
}

# There is no GPU here, so its start fails; what was asked for, the engine knows.
# bats test_tags=only:docker
@test "gpus: the engine is asked for them" {
  template all '{"gpus": "all"}'
  template two '{"gpus": [{"driver": "nvidia", "count": 2, "capabilities": ["gpu", "compute"]}]}'
  mount_sbx "templates=$TEMPLATES"
  mkdir "$MNT/all@x" "$MNT/two@x"
  wait_for 60 state_is all@x failed
  wait_for 60 state_is two@x failed
  is "$(inspect all@x '{{json .HostConfig.DeviceRequests}}' | jq -c '[.[] | .Count, .Capabilities]')" '[-1,[["gpu"]]]'
  is "$(inspect two@x '{{json .HostConfig.DeviceRequests}}' | jq -c '[.[] | .Driver, .Count, (.Capabilities[0] | sort)]')" \
    '["nvidia",2,["compute","gpu"]]'
}
