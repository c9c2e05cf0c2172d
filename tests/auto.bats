#!/usr/bin/env bats
# -o engine: which engine serves, of all that there may be, and how that is said; contract 1. The machine's own sockets
# are hidden: such a daemon runs in a mount namespace where /run is a directory of the test.

load lib/mount
load lib/assert

setup() {
  unset DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_TLS_VERIFY DOCKER_CERT_PATH XDG_RUNTIME_DIR
  export HOME=$BATS_TEST_TMPDIR/home
  RUN=$BATS_TEST_TMPDIR/run
  mkdir -p "$HOME" "$RUN/podman"
  ENGINE=$(engine_host "$SBX_ENGINE")
  STARTED=() PODMAN_DIRS=() HIDDEN='' SECOND='' USERS='' AS=()
  hide_in "$RUN"
}

teardown() {
  local status=0 pid
  [[ -z $HIDDEN ]] || end_hidden || status=1
  sbx_teardown || status=1
  for pid in "${STARTED[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  ((${#PODMAN_DIRS[@]} == 0)) || rm -rf --one-file-system "${PODMAN_DIRS[@]}"
  [[ -z $SECOND ]] || engine_remove "$SECOND"
  [[ -z $USERS ]] || rm -rf --one-file-system "$USERS"
  return $status
}

# hide_in DIR: "${HIDE[@]}" CMD... runs CMD with DIR as /run; where it has a `fuse`, that is /dev/fuse. Unmounts elsewhere
# reach that namespace, nothing goes the other way.
hide_in() {
  HIDE=(unshare --mount --propagation slave bash -ec 'mount --bind "$1" /run
    shift
    [[ ! -e /run/fuse ]] || mount --bind /run/fuse /dev/fuse
    exec "$@"' hide "$1")
}

# mount_auto [OPTIONS]: without host=, where the test says by other means which engine.
mount_auto() {
  MNT=$(sbx_new_dir)
  # shellcheck disable=SC2034,SC2004 # sbx_start's; a name
  SBX_OPTS[$MNT]=namespace=$NS,image=busybox:test${1:+,$1}
  sbx_start "$MNT"
}

# mount_hidden [OPTIONS]: the daemon in such a namespace, on a fresh directory or $SBX_AT; `look` is how to see its
# mount. AS: words before it, for another user.
mount_hidden() {
  MNT=${SBX_AT:-$(sbx_new_dir)} SBX_LOG=$BATS_TEST_TMPDIR/sandboxfs.log
  : >"$SBX_LOG"
  sbx_report_to_files
  # shellcheck disable=SC2086 # the wrapper is several words
  "${HIDE[@]}" "${AS[@]}" ${SANDBOXFS_WRAP:-} "$SANDBOXFS" -f -o "namespace=$NS${1:+,$1}" "$MNT" \
    </dev/null >>"$SBX_LOG" 2>&1 3>&- 4>&- &
  HIDDEN=$!
  wait_for 60 hidden_up_or_dead || true
  grep -qF " $MNT fuse" "/proc/$HIDDEN/mounts" || {
    cat "$SBX_LOG"
    return 1
  }
}

hidden_up_or_dead() {
  engine_ended "$HIDDEN" || grep -qsF " $MNT fuse" "/proc/$HIDDEN/mounts"
}

# quick SOCKET: until it answers within a second, as a search among several does not wait long for each
quick() {
  wait_for 60 engine_api "$1" GET /version --max-time 1 --output /dev/null &&
    wait_for 60 engine_api "$1" GET /info --max-time 1 --output /dev/null
}

look() {
  nsenter --mount --target "$HIDDEN" "${AS[@]}" timeout 30 cat "$MNT/.sandboxfs/engine"
}

end_hidden() {
  local status=0 pid=$HIDDEN
  HIDDEN=''
  nsenter --mount --target "$pid" umount "$MNT" || kill -KILL "$pid" || true
  wait_for 60 engine_ended "$pid" || kill -KILL "$pid"
  wait "$pid" || status=$?
  is $status 0
}

# no_bwrap: a PATH with all programs of this one but bwrap
no_bwrap() {
  chmod 755 "$BATS_TEST_TMPDIR"
  path_without "$BATS_TEST_TMPDIR/path" bwrap
}

# refused CMD...: a status, words in SAID, no mount, soon.
refused() {
  local status=0 before
  before=$(now_ms)
  SAID=$(timeout 60 "$@" 2>&1) || status=$?
  echo "$SAID"
  is $status 1
  (($(now_ms) - before < 30000))
}

# chosen ENGINE WHY TEXT: the one line on stderr says both, and TEXT, that of .sandboxfs/engine, says why.
chosen() {
  is "$(grep -c '^sandboxfs: engine ' "$SBX_LOG")" 1
  has "$(grep '^sandboxfs: engine ' "$SBX_LOG")" "$1"
  has "$(grep '^sandboxfs: engine ' "$SBX_LOG")" ": $2"
  is "$(grep ^chosen: <<<"$3")" "chosen: $2"
}

# listener SOCKET: accepts, and never answers.
listener() {
  python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(9)
time.sleep(600)' "$1" 3>&- 4>&- &
  STARTED+=($!)
  wait_for 90 test -S "$1"
}

# podman_service SOCKET: a real one, with all that it keeps in the test's directory.
podman_service() {
  local dir
  # Podman takes no longer path than 50 characters for what runs.
  dir=$(mktemp -d /tmp/sbx-pod.XXXX)
  PODMAN_DIRS+=("$dir")
  podman --root "$dir/root" --runroot "$dir/run" --tmpdir "$dir/tmp" --storage-driver vfs --cgroup-manager cgroupfs \
    system service -t 0 "unix://$1" </dev/null >"$BATS_TEST_TMPDIR/podman.log" 2>&1 3>&- 4>&- &
  STARTED+=($!)
  wait_for 60 engine_answers "$1"
}

# context NAME HOST [MORE]: by hand, in ~/.docker; its directory for TLS in TLS.
context() {
  local hash meta
  hash=$(printf %s "$1" | sha256sum | cut -d ' ' -f 1)
  meta=$HOME/.docker/contexts/meta/$hash
  TLS=$HOME/.docker/contexts/tls/$hash/docker
  mkdir -p "$meta" "$TLS"
  printf '{"Name":"%s","Metadata":{},"Endpoints":{"docker":{"Host":"%s"%s}}}' "$1" "$2" "${3:-}" >"$meta/meta.json"
}

@test "DOCKER_HOST: that engine serves, and it is said on stderr and in .sandboxfs/engine" {
  context far tcp://127.0.0.1:1
  DOCKER_HOST=$ENGINE DOCKER_CONTEXT=far mount_auto
  chosen "engine docker $(dk version -f '{{.Server.Version}}') at $ENGINE" "DOCKER_HOST names it" \
    "$(cat "$MNT/.sandboxfs/engine")"
  is "$(grep ^address: "$MNT/.sandboxfs/engine")" "address: $ENGINE"
  sandbox demo
  is "$(out demo 'echo on')" on
  rmdir "$MNT/demo"
  wait_for 90 no_containers
}

@test "-o host: only that, whatever the environment says" {
  context far tcp://127.0.0.1:1
  export DOCKER_HOST=tcp://127.0.0.1:1 DOCKER_CONTEXT=far
  mount_auto "host=$ENGINE"
  chosen "at $ENGINE" "-o host names it" "$(cat "$MNT/.sandboxfs/engine")"
  DOCKER_HOST=$ENGINE refused "$SANDBOXFS" -f -o "host=tcp://127.0.0.1:1" "$(sbx_new_dir)"
  has "$SAID" "-o host: cannot reach the engine at tcp://127.0.0.1:1: Connection refused"
  [[ $SAID != *"Docker socket"* ]]
}

@test "DOCKER_HOST that does not answer: an error that names it, and no other engine" {
  local engine dir
  dir=$(sbx_new_dir)
  ln -s "$SBX_ENGINE/docker.sock" "$RUN/docker.sock"
  export DOCKER_HOST=unix://$BATS_TEST_TMPDIR/none.sock
  for engine in auto docker; do
    refused "${HIDE[@]}" "$SANDBOXFS" -f -o "engine=$engine" "$dir"
    has "$SAID" "DOCKER_HOST: cannot reach the engine at $DOCKER_HOST: No such file or directory"
    has "$SAID" "unset DOCKER_HOST"
    [[ $SAID != *"engine docker"* ]]
  done
  DOCKER_HOST=far:2375 refused "${HIDE[@]}" "$SANDBOXFS" -f "$dir"
  has "$SAID" "far:2375 is neither unix:///PATH nor tcp://HOST:PORT"
}

@test "the current docker context, made by the docker command" {
  export DOCKER_CONFIG=$BATS_TEST_TMPDIR/config
  docker context create near --docker "host=$ENGINE" >/dev/null
  docker context use near >/dev/null
  mount_auto
  chosen "at $ENGINE" "the current docker context, near, names it" "$(cat "$MNT/.sandboxfs/engine")"
  sandbox demo
  is "$(out demo 'echo on')" on
  rmdir "$MNT/demo"
}

@test "DOCKER_CONTEXT comes before the one in config.json; the default is none" {
  context near "$ENGINE"
  context far tcp://127.0.0.1:1
  echo '{"currentContext":"far"}' >"$HOME/.docker/config.json"
  DOCKER_CONTEXT=near mount_auto engine=docker
  chosen "at $ENGINE" "the current docker context, near, names it" "$(cat "$MNT/.sandboxfs/engine")"
  refused "$SANDBOXFS" -f "$(sbx_new_dir)"
  has "$SAID" "the docker context: cannot reach the engine at tcp://127.0.0.1:1: Connection refused"
  ln -s "$SBX_ENGINE/docker.sock" "$RUN/docker.sock"
  quick "$RUN/docker.sock"
  DOCKER_CONTEXT=default mount_hidden
  chosen "at unix:///var/run/docker.sock" "the Docker socket answers" "$(look)"
}

@test "a context that cannot be read is an error, whatever answers elsewhere" {
  local dir
  dir=$(sbx_new_dir)
  ln -s "$SBX_ENGINE/docker.sock" "$RUN/docker.sock"
  DOCKER_CONTEXT=nobody refused "${HIDE[@]}" "$SANDBOXFS" -f "$dir"
  has "$SAID" "the docker context: context nobody: there is no $HOME/.docker/contexts/meta/"
  context near "$ENGINE"
  echo '{"Endpoints":' >"${TLS%/tls/*}/meta/$(basename "${TLS%/docker}")/meta.json"
  echo '{"currentContext":"near"}' >"$HOME/.docker/config.json"
  refused "${HIDE[@]}" "$SANDBOXFS" -f "$dir"
  has "$SAID" "meta.json is not JSON"
  echo 'currentContext' >"$HOME/.docker/config.json"
  refused "${HIDE[@]}" "$SANDBOXFS" -f "$dir"
  has "$SAID" "$HOME/.docker/config.json is not JSON"
}

# certificates DIR: an authority, one for the engine at 127.0.0.1, one for who asks it.
certificates() {
  local name
  mkdir "$1"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
    -keyout "$1/ca-key.pem" -out "$1/ca.pem"
  for name in server client; do
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" \
      -keyout "$1/$name-key.pem" -out "$1/$name.csr"
    printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=%sAuth\n' $name >"$1/ext"
    openssl x509 -req -in "$1/$name.csr" -CA "$1/ca.pem" -CAkey "$1/ca-key.pem" -CAcreateserial -days 2 \
      -extfile "$1/ext" -out "$1/$name.pem"
  done
}

@test "a context with TLS: its own files, both sides are verified" {
  local certs=$BATS_TEST_TMPDIR/certs port
  certificates "$certs" 2>/dev/null
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  SECOND=$BATS_TEST_TMPDIR/engine SBX_ENGINE=$BATS_TEST_TMPDIR/engine
  engine_start "$SBX_ENGINE" -H "tcp://127.0.0.1:$port" --tlsverify --tlscacert "$certs/ca.pem" \
    --tlscert "$certs/server.pem" --tlskey "$certs/server-key.pem"
  sbx_images
  context far "tcp://127.0.0.1:$port"
  export DOCKER_CONTEXT=far
  cp "$certs/ca.pem" "$TLS/ca.pem"
  refused "$SANDBOXFS" -f "$(sbx_new_dir)" # we are nobody to it
  cp "$certs/client.pem" "$TLS/cert.pem"
  cp "$certs/client-key.pem" "$TLS/key.pem"
  mount_auto
  chosen "at tcp://127.0.0.1:$port" "the current docker context, far, names it" "$(cat "$MNT/.sandboxfs/engine")"
  sandbox demo
  is "$(out demo 'echo on')" on
  rmdir "$MNT/demo"
  wait_for 90 no_containers
  DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=$TLS mount_auto "host=tcp://127.0.0.1:$port" # the other way to say so
  is "$(grep ^chosen: "$MNT/.sandboxfs/engine")" "chosen: -o host names it"
  cp "$certs/client.pem" "$TLS/ca.pem"
  refused "$SANDBOXFS" -f "$(sbx_new_dir)" # it is nobody to us
  has "$SAID" "TLS with the engine at tcp://127.0.0.1:$port"
  context far "tcp://127.0.0.1:$port" ',"SkipTLSVerify":true'
  mount_auto
  is "$(grep ^address: "$MNT/.sandboxfs/engine")" "address: tcp://127.0.0.1:$port"
}

@test "the Docker socket, before Podman's" {
  local engine
  ln -s "$SBX_ENGINE/docker.sock" "$RUN/docker.sock"
  listener "$RUN/podman/podman.sock"
  for engine in auto docker; do
    quick "$RUN/docker.sock"
    mount_hidden "engine=$engine"
    chosen "engine docker $(dk version -f '{{.Server.Version}}') at unix:///var/run/docker.sock" \
      "the Docker socket answers" "$(look)"
    end_hidden
  done
}

@test "Podman's socket, where Docker's accepts and never answers" {
  local before
  listener "$RUN/docker.sock"
  podman_service "$RUN/podman/podman.sock"
  quick "$RUN/podman/podman.sock"
  before=$(now_ms)
  mount_hidden
  (($(now_ms) - before < 60000)) # it never answers
  chosen "engine podman $(podman --version | sed 's/.* //') at unix:///run/podman/podman.sock" \
    "the Podman socket answers" "$(look)"
  is "$(look | grep ^engine:)" "engine: podman"
}

@test "a user's own Podman socket, where Docker's may not be opened" {
  # The way to these must be open to the user, as to a test's directory and to the sources it may not be.
  USERS=$(mktemp -d /tmp/sandboxfs-user.XXXXXX)
  mkdir -p "$USERS"/{run,own/podman,mnt}
  chmod -R 755 "$USERS"
  chown nobody "$USERS/mnt"
  mknod -m 666 "$USERS/run/fuse" c 10 229 # the machine's may be root's alone
  cp "$SANDBOXFS" "$USERS/sandboxfs"
  cp "${SANDBOXFS%/fs/*}/agent/agent" "$USERS/agent"
  hide_in "$USERS/run"
  ln -s "$SBX_ENGINE/docker.sock" "$USERS/run/docker.sock"
  podman_service "$USERS/own/podman/podman.sock"
  chmod 666 "$USERS/own/podman/podman.sock"
  quick "$USERS/own/podman/podman.sock"
  AS=(env "HOME=$USERS" "XDG_RUNTIME_DIR=$USERS/own" setpriv --reuid nobody --regid nogroup --clear-groups)
  SANDBOXFS=$USERS/sandboxfs SBX_AT=$USERS/mnt
  mount_hidden "agent=$USERS/agent"
  chosen "at unix://$USERS/own/podman/podman.sock" "the Podman socket answers" "$(look)"
  end_hidden
  PATH=$(no_bwrap) refused "${HIDE[@]}" "${AS[@]}" env -u XDG_RUNTIME_DIR "$SANDBOXFS" -f -o "agent=$USERS/agent" "$SBX_AT"
  has "$SAID" "unix:///var/run/docker.sock: Permission denied"
  has "$SAID" "unix:///run/user/$(id -u nobody)/podman/podman.sock: No such file"
}

@test "nothing answers: each place a line, and what to do" {
  local dir engine
  dir=$(sbx_new_dir)
  for engine in auto docker; do
    # Without bubblewrap: it is looked for in PATH.
    PATH=$(no_bwrap) refused "${HIDE[@]}" "$SANDBOXFS" -o "engine=$engine" "$dir"
    [[ $engine == docker ]] || has "$SAID" "the embedded engine: bubblewrap is not installed: apt-get install bubblewrap"
    has "$SAID" $'no engine:\n'
    has "$SAID" $'\n  DOCKER_HOST: not set\n  the docker context: none is chosen\n  the Docker socket: '
    has "$SAID" "unix:///var/run/docker.sock: No such file or directory"
    has "$SAID" "unix:///run/podman/podman.sock: No such file or directory"
    has "$SAID" "start Docker"
    has "$SAID" "-o host="
  done
  listener "$RUN/docker.sock"
  PATH=$(no_bwrap) refused "${HIDE[@]}" "$SANDBOXFS" "$dir"
  has "$SAID" "  the Docker socket: cannot reach the engine at unix:///var/run/docker.sock: it does not answer"
  ! sbx_is_mounted "$dir" || false
}

@test "nothing answers, but bubblewrap is there: the embedded engine serves, and says why" {
  XDG_DATA_HOME=$BATS_TEST_TMPDIR/data mount_hidden
  chosen "engine bwrap " "no other engine answers" "$(look)"
  end_hidden
  XDG_DATA_HOME=$BATS_TEST_TMPDIR/data mount_hidden engine=bwrap
  chosen "engine bwrap " "-o engine names it" "$(look)"
  end_hidden
}

@test "an engine that there is not: the words that there are" {
  refused "$SANDBOXFS" -f -o engine=swarm "$(sbx_new_dir)"
  has "$SAID" "engine=swarm is not one of auto, docker, bwrap"
}
