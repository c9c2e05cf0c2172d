#!/usr/bin/env bats
# bats file_tags=only:api
#
# Images that a template builds from a directory of this machine.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

setup() {
  CTX=$BATS_TEST_TMPDIR/ctx
  mkdir -p "$CTX"
}

teardown() {
  sbx_teardown
  local status=$? image
  for image in $(dk images -q --filter label=sandboxfs.built); do
    dk rmi -f "$image" >/dev/null 2>&1 || true
  done
  return $status
}

# built_log NAME: the lines of the build that this sandbox's events have.
built_log() {
  jq -r --arg s "$1" 'select(.event == "build" and .sandbox == $s) | .line' "$MNT/.sandboxfs/events"
}

fails_to_build() {
  local name=$1 words error
  shift
  mkdir "$MNT/$name"
  wait_for 60 state_is "$name" failed
  error=$(cat "$MNT/$name/ctl/error")
  for words in 'op: build' "$@"; do has "$error" "$words"; done
}

@test "a template's directory is built once for all who wait: args, target, .dockerignore, links, the log" {
  local i
  mkdir -p "$CTX/sub" "$CTX/secret"
  cat >"$CTX/sub/Other" <<'END'
FROM busybox:test AS first
ARG WHO=nobody
COPY . /ctx
RUN echo "made for $WHO" | tee /mark
FROM first AS second
RUN echo too far > /mark
END
  echo key >"$CTX/secret/key"
  echo data >"$CTX/data"
  ln -s / "$CTX/root"
  head -c 3000000 /dev/zero >"$CTX/sub/large"
  printf '# no keys\nsecret\nsub\n!sub/large\n' >"$CTX/.dockerignore"
  template app "{\"build\": {\"context\": \"$CTX\", \"dockerfile\": \"sub/Other\", \"target\": \"first\",
    \"args\": {\"WHO\": \"me & you\"}}}"
  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
  for i in 1 2; do mkdir "$MNT/app@$i"; done
  for i in 1 2; do
    is "$(out "app@$i" 'cat /mark /ctx/data; readlink /ctx/root; ls /ctx; wc -c < /ctx/sub/large')" \
      $'made for me & you\ndata\n/\ndata\nroot\nsub\n3000000'
    has "$(built_log "app@$i")" 'made for me & you'
    has "$(cat "$MNT/app@$i/ctl/log")" 'made for me & you'
  done
  is "$(grep -c 'building .*Successfully built' "$SBX_LOG")" 1
  has "$(cat "$MNT/app@1/ctl/config.json")" '"sandboxfs-build:app-'
  mkdir "$MNT/app@3" # it is there now
  is "$(out app@3 'cat /mark')" 'made for me & you'
  is "$(built_log app@3)" ''
  rmdir "$MNT"/app@{1,2,3}
  wait_for 90 no_containers
}

@test "pull_policy build follows the directory, if_not_present keeps what is there; the image's own program does not run" {
  printf 'FROM busybox:test\nCOPY mark /mark\nENTRYPOINT ["sleep"]\nCMD ["4321"]\n' >"$CTX/Dockerfile"
  template anew "{\"image\": \"mine:$NS\", \"build\": \"$CTX\", \"pull_policy\": \"build\"}"
  template kept "{\"image\": \"mine:$NS\", \"build\": \"$CTX\", \"pull_policy\": \"if_not_present\"}"
  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
  echo one >"$CTX/mark"
  sandbox kept@a
  is "$(out kept@a 'cat /mark')" one
  echo two >"$CTX/mark"
  sandbox kept@b
  is "$(out kept@b 'cat /mark')" one
  sandbox anew@a
  is "$(out anew@a 'cat /mark')" two
  run ! grep 4321 <<<"$(box_top anew@a)"
  is "$(ls "$MNT/anew@a/ctl/jobs")" $'1\nlast'
  # With never nothing is built; always is for what is pulled.
  template never "{\"image\": \"other:$NS\", \"build\": \"$CTX\", \"pull_policy\": \"never\"}"
  fails_with "No medium found" mkdir "$MNT/never@a"
  template never "{\"image\": \"mine:$NS\", \"build\": \"$CTX\", \"pull_policy\": \"never\"}"
  sandbox never@a
  is "$(out never@a 'cat /mark')" two
  template always "{\"build\": \"$CTX\", \"pull_policy\": \"always\"}"
  fails_with "Invalid argument" mkdir "$MNT/always@a"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "key pull_policy: always"
}

# climbing_build: a build of a directory with a link that climbs out of it.
climbing_build() {
  echo outside >"$BATS_TEST_TMPDIR/outside"
  ln -s ../outside "$CTX/climb"
  printf 'FROM busybox:test\nCOPY . /ctx\n' >"$CTX/Dockerfile"
  template app "{\"build\": \"$CTX\"}"
  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
}

# bats test_tags=only:docker
@test "a link that climbs out of the directory is a link, and nothing outside is sent" {
  climbing_build
  mkdir "$MNT/app@a"
  is "$(out app@a 'readlink /ctx/climb; ls /ctx')" $'../outside\nDockerfile\nclimb'
}

# bats test_tags=only:podman
@test "a link that climbs out of the directory is refused by Podman" {
  climbing_build
  fails_to_build app@a 'code: EIO' 'status 500'
}

@test "a build that fails says why, in words, and makes no sandbox's container" {
  template app "{\"image\": \"mine:$NS\", \"build\": \"$CTX\"}"
  template gone "{\"build\": {\"context\": \"$CTX\", \"dockerfile\": \"None\"}}"
  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
  printf 'FROM busybox:test\nRUN echo the reason; exit 7\n' >"$CTX/Dockerfile"
  fails_to_build app@a "cannot build mine:$NS" ' 7' 'the reason'
  fails ls "$MNT/app@a/workspace"
  printf 'FROM busybox:test\nNONSENSE\n' >"$CTX/Dockerfile"
  fails_to_build app@b NONSENSE
  fails_to_build gone@a 'None'
  echo '[' >"$CTX/.dockerignore"
  fails_to_build app@c '.dockerignore, line 1'
  rm "$CTX/.dockerignore"
  no_containers
  printf 'FROM busybox:test\nRUN echo good > /mark\n' >"$CTX/Dockerfile"
  mkdir "$MNT/app@d"
  is "$(out app@d 'cat /mark')" good
  dk image inspect "mine:$NS" >/dev/null
  rmdir "$MNT"/app@{a,b,c,d} "$MNT/gone@a"
  wait_for 90 no_containers
}

# No RUN of ours is under way in the engine.
something_is_built() {
  ! nothing_is_built
}

nothing_is_built() {
  ! dk ps --no-trunc --format '{{.Command}}' | grep -qF "begun $NS"
}

# bats test_tags=only:podman
@test "a build that nobody waits for: the sandbox is gone at once, Podman ends its RUN first" {
  # Until we say so; at the latest after two minutes, should we not come to that.
  printf 'FROM busybox:test\nRUN echo begun; for i in $(seq 1200); do [ ! -e /go-%s ] || break; sleep 0.1; done\n' "$$" >"$CTX/Dockerfile"
  template app "{\"build\": \"$CTX\", \"pull_policy\": \"build\"}"
  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
  mkdir "$MNT/app@a" "$MNT/app@b"
  wait_for 60 grep -q ': begun' "$SBX_LOG"
  rmdir "$MNT/app@a" "$MNT/app@b"
  not_listed app@a
  no_containers
  run ! no_run
  touch "/proc/$(run_pid)/root/go-$$"
  wait_for 60 no_run
  is "$(dk images -q --filter label=sandboxfs.built)" ''
}

run_pid() {
  pgrep -of "for i in .* -e /go[-]$$ "
}

no_run() {
  ! run_pid >/dev/null
}

# bats test_tags=not:podman
@test "a build that hangs ends when nobody waits for it: by rmdir, by unmount" {
  printf 'FROM busybox:test\nRUN echo begun %s; sleep 1000\n' "$NS" >"$CTX/Dockerfile"
  template app "{\"build\": \"$CTX\", \"pull_policy\": \"build\"}"
  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
  mkdir "$MNT/app@a" "$MNT/app@b"
  wait_for 60 grep -q ': begun' "$SBX_LOG"
  rmdir "$MNT/app@a"
  is "$(state app@b)" creating
  wait_for 90 something_is_built # the shell has said so, and makes its sleep now
  rmdir "$MNT/app@b"
  wait_for 60 nothing_is_built
  mkdir "$MNT/app@c"
  wait_for 60 eval '(($(grep -c ": begun" "$SBX_LOG") == 2))'
  umount_sbx
  wait_for 60 nothing_is_built
  no_containers
}
