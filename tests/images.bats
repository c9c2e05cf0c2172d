#!/usr/bin/env bats
# Images that must be fetched, from a real registry on loopback; and an engine that is reached by TCP.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

# free_port: a port of 127.0.0.1 that nobody listens on.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# registry_start: a registry with one image, far:1, that the engine does not have. Its name in FAR.
registry_start() {
  local port dir=$BATS_TEST_TMPDIR/registry
  port=$(free_port)
  mkdir -p "$dir"
  printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: 127.0.0.1:%s}\n' \
    "$dir" "$port" >"$dir.yml"
  docker-registry serve "$dir.yml" </dev/null >"$dir.log" 2>&1 3>&- 4>&- &
  REGISTRY=$!
  wait_for 20 curl -sf "http://127.0.0.1:$port/v2/"
  FAR=127.0.0.1:$port/far:1
  far_image | dk import - "$FAR" >/dev/null
  dk push -q "$FAR"
  dk rmi -f "$FAR" >/dev/null
  ! dk image inspect "$FAR" >/dev/null 2>&1
}

# A tree of its own, so that the engine has none of its layers.
far_image() {
  local tree=$BATS_TEST_TMPDIR/far
  image_tree "$tree" "$(host_busybox)"
  echo from afar >"$tree/mark"
  head -c 20000000 /dev/urandom >"$tree/weight"
  tar -C "$tree" -c .
}

# end PID: kills what we started, without the shell's words about it.
end() {
  [[ -z $1 ]] || {
    kill -KILL "$1"
    wait "$1" 2>/dev/null || true
  }
}

teardown() {
  sbx_teardown
  local status=$?
  end "${REGISTRY:-}"
  end "${PROXY:-}"
  [[ -z ${FAR:-} ]] || dk rmi -f "$FAR" >/dev/null 2>&1 || true
  return $status
}

@test "an image that is not there is pulled for all who wait, and the progress is told" {
  local i before
  registry_start
  template far "{\"image\": \"$FAR\"}"
  mount_sbx "templates=$TEMPLATES"
  before=$(now_ms)
  for i in 1 2 3; do mkdir "$MNT/far@$i"; done
  (($(now_ms) - before < 3000)) # it does not wait for the pull
  for i in 1 2 3; do
    is "$(out "far@$i" 'cat /mark')" 'from afar'
    is "$(state "far@$i")" running
    rmdir "$MNT/far@$i"
  done
  grep -Eq 'Downloading|Pull complete|Extracting' "$SBX_LOG"
}

@test "a sandbox can be removed while its image is being pulled from a registry that hangs" {
  registry_start
  template far "{\"image\": \"$FAR\"}"
  mount_sbx "templates=$TEMPLATES"
  kill -STOP "$REGISTRY"
  mkdir "$MNT/far@demo"
  is "$(state far@demo)" creating
  timeout -s INT 2 ls "$MNT/far@demo/workspace" && false # it waits, until it is interrupted
  sandbox other # nobody else waits
  is "$(out other 'echo on')" on
  rmdir "$MNT/far@demo" "$MNT/other"
  not_listed far@demo
  umount_sbx # it ends, though the registry still hangs
  kill -CONT "$REGISTRY"
  no_containers
}

@test "an image without a shell, user or anything is used by its own user where it names one" {
  local dockerfile=$BATS_TEST_TMPDIR/tree.tar
  tar -c -T /dev/null >"$dockerfile"
  dk import -c 'USER 4711:4712' - "user:$NS" <"$dockerfile" >/dev/null
  mount_sbx "image=user:$NS"
  sandbox demo
  echo x >"$MNT/demo/workspace/f"
  is "$(stat -c %u:%g "$MNT/demo/workspace/f")" 4711:4712
  rmdir "$MNT/demo"
  wait_for 30 no_containers
  dk rmi "user:$NS" >/dev/null
}

# A plain TCP door to the private engine. SIGUSR1 cuts all that goes through it; after that the file NAME.503 says
# how many requests are told that the engine is not ready. To be run in the background: its pid is python's.
proxy() {
  exec python3 - "$1" "$SBX_ENGINE/docker.sock" "$BATS_TEST_TMPDIR/proxy.503" <<'PY'
import os, signal, socket, sys, threading
live = []
def pump(a, b):
    try:
        while True:
            d = a.recv(65536)
            if not d:
                break
            b.sendall(d)
    except OSError:
        pass
    try:
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
def cut(*_):
    while live:
        try:
            live.pop().shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
signal.signal(signal.SIGUSR1, cut)
def refused():
    try:
        n = int(open(sys.argv[3]).read())
    except OSError:
        return False
    if n > 1:
        open(sys.argv[3], "w").write(str(n - 1))
    else:
        os.unlink(sys.argv[3])
    return True
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    c, _ = s.accept()
    if refused():
        c.recv(65536)
        c.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        c.close()
        continue
    u = socket.socket(socket.AF_UNIX)
    u.connect(sys.argv[2])
    live += [c, u]
    for x, y in ((c, u), (u, c)):
        threading.Thread(target=pump, args=(x, y), daemon=True).start()
PY
}

# proxy_start: its address in DOOR.
proxy_start() {
  local port
  port=$(free_port)
  proxy "$port" </dev/null >/dev/null 2>&1 3>&- 4>&- &
  PROXY=$!
  wait_for 20 curl -sf "http://127.0.0.1:$port/_ping"
  DOOR=tcp://127.0.0.1:$port
}

@test "an engine by tcp:// works like one by unix://" {
  proxy_start
  mount_sbx "host=$DOOR"
  has "$(cat "$MNT/.sandboxfs/engine")" "$DOOR"
  sandbox demo
  head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/f"
  cp "$BATS_TEST_TMPDIR/f" "$MNT/demo/workspace/f"
  same "$BATS_TEST_TMPDIR/f" "$MNT/demo/workspace/f"
  is "$(out demo 'wc -c < f')" 3000000
  rmdir "$MNT/demo"
  umount_sbx
}

# door_cut N: every connection breaks, and the next N requests are told 503.
door_cut() {
  echo "$1" >"$BATS_TEST_TMPDIR/proxy.503"
  kill -USR1 "$PROXY"
}

@test "connections that break and an engine that is not ready for a moment: nobody notices" {
  local i
  proxy_start
  mount_sbx "host=$DOOR"
  sandbox demo
  head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/f"
  cp "$BATS_TEST_TMPDIR/f" "$MNT/demo/workspace/f"
  exec 7<"$MNT/demo/workspace/f"
  door_cut 3
  cmp "$BATS_TEST_TMPDIR/f" - <&7 # the file that was open still is
  exec 7<&-
  door_cut 3
  mkdir "$MNT/other"
  is "$(out other 'echo on')" on
  (ex demo 'sleep 3; echo through') 3>&- &
  sleep 1
  door_cut 2
  wait $!
  is "$(cat "$MNT/demo/ctl/stdout")" through
  rmdir "$MNT/demo" "$MNT/other"
  umount_sbx
}

@test "max_sandboxes is EDQUOT, rm_on_unmount removes them" {
  mount_sbx max_sandboxes=2,rm_on_unmount
  sandbox a
  sandbox b
  fails_with "Disk quota exceeded" mkdir "$MNT/c"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" max_sandboxes
  rmdir "$MNT/a"
  sandbox c
  umount_sbx
  no_containers
}
