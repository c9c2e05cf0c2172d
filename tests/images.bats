#!/usr/bin/env bats
# bats file_tags=only:api
#
# Images that must be fetched, from a real registry on loopback; and an engine that is reached by TCP.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

# free_port: a port of 127.0.0.1 that nobody listens on.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# registry_start [SETTINGS [PORT]]: a registry with one image, far:1, that the engine does not have. Its name in FAR.
registry_start() {
  local port dir=$BATS_TEST_TMPDIR/registry
  mkdir -p "$dir"
  for _ in 1 2 3; do # somebody else may have taken the port
    port=${2:-$(free_port)}
    printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: 127.0.0.1:%s}\n%s\n' \
      "$dir" "$port" "${1:-}" >"$dir.yml"
    docker-registry serve "$dir.yml" </dev/null >"$dir.log" 2>&1 3>&- 4>&- &
    REGISTRY=$!
    wait_for 60 registry_up_or_dead "$port"
    engine_ended $REGISTRY || break
  done
  FAR=127.0.0.1:$port/far:1
  far_push "from afar"
}

registry_up_or_dead() {
  engine_ended "$REGISTRY" || curl -s -o /dev/null "http://127.0.0.1:$1/v2/"
}

# far_push MARK: the image that the registry has from now on; the engine has none.
far_push() {
  far_image "$1" | dk import - "$FAR" >/dev/null
  dk push -q "$FAR" >/dev/null
  dk rmi -f "$FAR" >/dev/null
  ! dk image inspect "$FAR" >/dev/null 2>&1
}

# A tree of its own, so that the engine has none of its layers.
far_image() {
  local tree=$BATS_TEST_TMPDIR/far
  [[ -d $tree ]] || image_tree "$tree" "$(host_busybox)"
  echo "$1" >"$tree/mark"
  head -c "${WEIGHT:-100000}" /dev/urandom >"$tree/weight"
  tar -C "$tree" -c .
}

# gate PORT: another door to the registry. Until there is a file $BATS_TEST_TMPDIR/open each connection brings 6 MB at
# most, and slowly: Docker tells what has come ten times a second. To be run in the background: its pid is python's.
gate() {
  exec python3 - "${FAR%/*}" "$1" "$BATS_TEST_TMPDIR/open" <<'PY'
import os, socket, sys, threading, time
def pump(a, b, slow):
    n = 0
    try:
        while d := a.recv(65536):
            n += len(d)
            while n > slow and not os.path.exists(sys.argv[3]):
                time.sleep(0.05)
                if n < 6000000:
                    break
            b.sendall(d)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
host, port = sys.argv[1].split(":")
s = socket.create_server(("127.0.0.1", int(sys.argv[2])))
while True:
    c, _ = s.accept()
    u = socket.create_connection((host, int(port)))
    for args in (c, u, 1 << 60), (u, c, 100000):
        threading.Thread(target=pump, args=args, daemon=True).start()
PY
}

# gate_start: FAR is behind it from now on.
gate_start() {
  local port
  port=$(free_port)
  gate "$port" </dev/null >/dev/null 2>&1 3>&- 4>&- &
  GATE=$!
  FAR=127.0.0.1:$port/far:1
  wait_for 90 curl -s -o /dev/null "http://127.0.0.1:$port/v2/"
}

# told_between NAME: a pull that is on its way, in the events and on the daemon's stderr
told_between() {
  [[ -n $(events pull "$1" | jq 'select(.percent > 0 and .percent < 100 and .bytes > 0 and .bytes < .total)') ]] &&
    grep -qE "pulling $FAR: [1-9][0-9]? %, [0-9.]+ of [0-9.]+ MB" "$SBX_LOG"
}

# events EVENT NAME: those of a sandbox, as JSON lines.
events() {
  jq -c --arg e "$1" --arg s "$2" 'select(.event == $e and .sandbox == $s)' "$MNT/.sandboxfs/events"
}

# fails_to_start NAME WORDS...: it is failed, and ctl/error has all the words.
fails_to_start() {
  local name=$1 words error
  shift
  wait_for 60 state_is "$name" failed
  error=$(cat "$MNT/$name/ctl/error")
  for words; do has "$error" "$words"; done
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
  end "${GATE:-}"
  end "${REGISTRY:-}"
  end "${PROXY:-}"
  [[ -z ${FAR:-} ]] || dk rmi -f "$FAR" >/dev/null 2>&1 || true
  return $status
}

@test "an image that is not there is pulled once for all who wait, and the progress is told" {
  local i before told WEIGHT=8000000 total='.total > 8000000'
  [[ $SBX_KIND != podman ]] || total='.total == 0' # it tells no sizes
  registry_start
  gate_start
  template far "{\"image\": \"$FAR\"}"
  mount_sbx "templates=$TEMPLATES"
  before=$(now_ms)
  for i in 1 2 3; do mkdir "$MNT/far@$i"; done
  (($(now_ms) - before < 60000)) # it does not wait for the pull, which would wait for ever
  is "$(state far@3)" creating
  [[ $SBX_KIND == podman ]] || wait_for 90 told_between far@3
  touch "$BATS_TEST_TMPDIR/open"
  for i in 1 2 3; do
    is "$(out "far@$i" 'cat /mark')" 'from afar'
    told=$(events pull "far@$i")
    is "$(head -n 1 <<<"$told" | jq -c '[.image, .percent, .bytes]')" "[\"$FAR\",0,0]"
    is "$(tail -n 1 <<<"$told" | jq -c "[.percent, .bytes == .total, $total]")" '[100,true,true]'
    # Each whole per cent at most, and never backwards.
    is "$(jq -s '[.[1:][].percent] | . == (sort | unique)' <<<"$told")" true
    has "$(cat "$MNT/far@$i/ctl/log")" "[pull] image=$FAR percent=100 "
    rmdir "$MNT/far@$i"
  done
  is "$(grep -c "pulling $FAR: done" "$SBX_LOG")" 1
  wait_for 90 no_containers
}

@test "a sandbox can be removed while its image is being pulled from a registry that hangs" {
  registry_start
  template far "{\"image\": \"$FAR\"}"
  mount_sbx "templates=$TEMPLATES"
  kill -STOP "$REGISTRY"
  mkdir "$MNT/far@demo" "$MNT/far@gone"
  is "$(state far@demo)" creating
  timeout -s INT 1 ls "$MNT/far@demo/workspace" && false # it waits, until it is interrupted
  sandbox other # nobody else waits
  is "$(out other 'echo on')" on
  rmdir "$MNT/far@gone" # the pull goes on for the other
  is "$(state far@demo)" creating
  rmdir "$MNT/far@demo" "$MNT/other"
  not_listed far@demo
  mkdir "$MNT/far@late"
  umount_sbx # it ends, though the registry still hangs
  kill -CONT "$REGISTRY"
  wait_for 60 no_containers
}

@test "pull_policy never, missing and always; a platform that the image is not for" {
  local arch
  registry_start
  arch=$(dk version -f '{{.Server.Arch}}')
  template never "{\"image\": \"$FAR\", \"pull_policy\": \"never\"}"
  template missing "{\"image\": \"$FAR\", \"platform\": \"linux/$arch\"}"
  template always "{\"image\": \"$FAR\", \"pull_policy\": \"always\"}"
  template alien "{\"image\": \"$FAR\", \"platform\": \"linux/s390x\"}"
  template alien_never "{\"image\": \"$FAR\", \"platform\": \"linux/s390x\", \"pull_policy\": \"never\"}"
  mount_sbx "templates=$TEMPLATES"
  fails_with 'No medium found' mkdir "$MNT/never@a"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "no image $FAR"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" scripts/make-base-image
  not_listed never@a
  mkdir "$MNT/missing@a"
  is "$(out missing@a 'cat /mark')" 'from afar'
  mkdir "$MNT/never@a"
  is "$(out never@a 'cat /mark')" 'from afar'
  rmdir "$MNT"/{missing,never}@a
  wait_for 90 no_containers
  far_push 'changed'
  far_image 'only here' | dk import - "$FAR" >/dev/null
  mkdir "$MNT/missing@b" "$MNT/always@b"
  is "$(out missing@b 'cat /mark')" 'only here'
  is "$(out always@b 'cat /mark')" changed
  fails_with 'No medium found' mkdir "$MNT/alien_never@a"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" 'for linux/s390x'
  mkdir "$MNT/alien@a"
  fails_to_start alien@a 'code: ENOENT' linux/s390x
  fails ls "$MNT/alien@a/workspace"
  rmdir "$MNT"/{missing,always}@b "$MNT/alien@a"
  wait_for 90 no_containers
}

# helper_make NAME TEXT: a credential helper in a directory that is in the PATH.
helper_make() {
  mkdir -p "$BATS_TEST_TMPDIR/bin"
  printf '#!/bin/bash\n%s\n' "$2" >"$BATS_TEST_TMPDIR/bin/docker-credential-$1"
  chmod 755 "$BATS_TEST_TMPDIR/bin/docker-credential-$1"
}

@test "registry credentials of the docker command: from its file, from helpers, for that registry only" {
  local host port auth config=$BATS_TEST_TMPDIR/docker/config.json
  export DOCKER_CONFIG=${config%/*} PATH=$BATS_TEST_TMPDIR/bin:$PATH
  mkdir -p "$DOCKER_CONFIG"
  # The password is "secret", by bcrypt.
  echo 'jo:$2b$04$JObBZ5b1uxRiLRULLWsajeI4jM5zP/MNSAr5XCEYUuOpfb6HV9rFm' >"$BATS_TEST_TMPDIR/passwd"
  auth=$(printf jo:secret | base64)
  port=$(free_port)
  echo "{\"auths\": {\"127.0.0.1:$port\": {\"auth\": \"$auth\"}}}" >"$config" # for the push
  registry_start "auth: {htpasswd: {realm: here, path: $BATS_TEST_TMPDIR/passwd}}" "$port"
  host=${FAR%%/*}
  template far "{\"image\": \"$FAR\"}"
  mount_sbx "templates=$TEMPLATES"

  echo "{\"auths\": {\"other:1\": {\"auth\": \"$auth\"}}}" >"$config"
  mkdir "$MNT/far@a"
  fails_to_start far@a 'code: EACCES' 'op: pull' scripts/make-base-image
  rmdir "$MNT/far@a"

  helper_make fake 'read -r -d "" server; echo "$1 $server" >>"$0.asked"
[[ $server == '"$host"' ]] && echo "{\"Username\": \"jo\", \"Secret\": \"secret\"}"'
  echo "{\"credHelpers\": {\"$host\": \"fake\"}, \"credsStore\": \"none\"}" >"$config"
  mkdir "$MNT/far@b"
  is "$(out far@b 'cat /mark')" 'from afar'
  is "$(cat "$BATS_TEST_TMPDIR/bin/docker-credential-fake.asked")" "get $host"
  rmdir "$MNT/far@b"
  wait_for 90 no_containers

  dk rmi -f "$FAR" >/dev/null
  helper_make broken 'echo no keyring; exit 3'
  echo '{"credsStore": "broken"}' >"$config"
  mkdir "$MNT/far@c"
  fails_to_start far@c 'code: EACCES' 'docker-credential-broken failed with exit code 3: no keyring'
  rmdir "$MNT/far@c"

  echo "{\"auths\": {\"http://$host/v2/\": {\"auth\": \"$auth\"}}}" >"$config"
  mkdir "$MNT/far@d"
  is "$(out far@d 'cat /mark')" 'from afar'
  rmdir "$MNT/far@d"
  wait_for 90 no_containers
  run ! grep -q "$auth\|secret" "$SBX_LOG" "$MNT/.sandboxfs/events" "$MNT/.sandboxfs/errors"
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
  wait_for 90 no_containers
  dk rmi "user:$NS" >/dev/null
}

# A plain TCP door to the private engine. SIGUSR1 cuts all that goes through it; after that the file proxy.503 says
# how many requests are told that the engine is not ready. While there is a file proxy.lose, the next request that has
# the words in it is carried out, and its answer lost. Its port is in proxy.port; proxy.cut is there when all was cut. To
# be run in the background: its pid is python's.
proxy() {
  exec python3 - "$BATS_TEST_TMPDIR/proxy." "$SBX_ENGINE/docker.sock" "$BATS_TEST_TMPDIR"/proxy.{503,lose} <<'PY'
import os, signal, socket, sys, threading
live = []
lost = set()
def lose(d):
    try:
        with open(sys.argv[4], "rb") as f:
            if f.read().strip() not in d:
                return False
        os.unlink(sys.argv[4])
        return True
    except OSError:
        return False
def pump(a, b):
    try:
        while True:
            d = a.recv(65536)
            if not d or a in lost:
                break
            if lose(d):
                lost.add(b)
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
    open(sys.argv[1] + "cut", "w").close()
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
s = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1] + "port", "w") as f:
    print(s.getsockname()[1], file=f)
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
  proxy </dev/null >/dev/null 2>&1 3>&- 4>&- &
  PROXY=$!
  wait_for 60 test -s "$BATS_TEST_TMPDIR/proxy.port"
  DOOR=tcp://127.0.0.1:$(cat "$BATS_TEST_TMPDIR/proxy.port")
  wait_for 90 curl -sf "http://${DOOR#tcp://}/_ping"
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
  proxy_told 503 "$1"
  rm -f "$BATS_TEST_TMPDIR/proxy.cut"
  kill -USR1 "$PROXY"
  wait_for 90 test -e "$BATS_TEST_TMPDIR/proxy.cut"
}

# proxy_told NAME TEXT: its file, whole from the beginning.
proxy_told() {
  echo "$2" >"$BATS_TEST_TMPDIR/proxy.new"
  mv "$BATS_TEST_TMPDIR/proxy.new" "$BATS_TEST_TMPDIR/proxy.$1"
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

# The first connection is one that was used before, which libcurl tries again by itself; the second is new.
@test "a container whose making was answered into a broken connection is made once, and is ours" {
  local i
  proxy_start
  mount_sbx "host=$DOOR"
  sandbox demo
  for i in 1 2; do
    proxy_told lose "POST /v$(dk version -f '{{.Server.APIVersion}}')/containers/create"
    mkdir "$MNT/other$i"
    [ ! -e "$BATS_TEST_TMPDIR/proxy.lose" ]
    is "$(out "other$i" 'echo on')" on
    door_cut 1
  done
  is "$(containers | wc -l)" 3
  # What another made is another's.
  dk create --name "sandboxfs-${NS/-/_d}-theirs" busybox:test true >/dev/null
  fails_with "File exists" mkdir "$MNT/theirs"
  dk rm "sandboxfs-${NS/-/_d}-theirs" >/dev/null
  rmdir "$MNT/demo" "$MNT"/other?
  umount_sbx
}
