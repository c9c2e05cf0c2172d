#!/usr/bin/env bats
# An agent that lies (tests/liar): a sandbox that talks nonsense fails with words, and harms neither the
# mount nor another sandbox.
# shellcheck disable=SC2012

load lib/mount
load lib/assert

LIAR=${SANDBOXFS%/fs/sandboxfs}/tests/liar/liar
SECRET=HOST-SECRET-80517

setup() {
  mkdir "$BATS_TEST_TMPDIR/canary"
  echo $SECRET >"$BATS_TEST_TMPDIR/canary/secret"
  [[ -x $LIAR ]]
  template default '{"image": "busybox:test"}'
  mount_sbx "templates=$TEMPLATES" "agent=$LIAR"
  mkdir "$MNT/good"
  good
}

# good: the sandbox whose agent tells the truth still works, each operation of it.
good() {
  local w=$MNT/good/workspace
  is "$(timeout 20 cat "$w/file")" hello
  is "$(timeout 20 cat "$w/link")" hello
  is "$(timeout 20 ls "$w" | sort | tr '\n' ' ')" "dir file link "
  timeout 20 bash -c "echo x >> '$w/file'"
  timeout 20 sync "$w/file"
  timeout 20 stat -f "$w" >/dev/null
  timeout 20 bash -c "echo x > '$MNT/good/ctl/exec'"
  is "$(cat "$MNT/good/ctl/stdout")" out
  kill -0 "$(daemon_pid)"
}

# liar MODE: a sandbox whose agent lies so.
liar() {
  template "$1" "{\"image\": \"busybox:test\", \"environment\": {\"LIE\": \"$1\"}}"
  mkdir "$MNT/$1@liar"
  L=$MNT/$1@liar
}

# provoke: all that could make it talk; nothing may hang for ever or be the host's. Prints what came out.
provoke() {
  local w=$L/workspace
  {
    timeout -s KILL 10 ls -la "$w/"
    timeout -s KILL 10 cat "$w/file" | head -c 100000
    timeout -s KILL 10 cat "$w/link" | head -c 100000
    timeout -s KILL 10 ls -la "$w/dir/" "$w/dir/.."
    timeout -s KILL 10 readlink "$w/link"
    timeout -s KILL 10 bash -c "echo x >> '$w/file'"
    timeout -s KILL 10 sync "$w/file"
    timeout -s KILL 10 bash -c "echo x > '$L/ctl/exec'"
    timeout -s KILL 10 cat "$L/ctl/stdout" "$L/ctl/exit_code" "$L/ctl/summary" | head -c 100000
  } >"$BATS_TEST_TMPDIR/said" 2>&1 || true
  if grep -q -e $SECRET -e Killed "$BATS_TEST_TMPDIR/said"; then
    cat "$BATS_TEST_TMPDIR/said"
    return 1
  fi
  is "$(cat "$BATS_TEST_TMPDIR/canary/secret")" $SECRET
}

# caught MODE: the daemon notices, says so in words, and goes on.
caught() {
  liar "$1"
  provoke
  wait_for 20 state_is "$1@liar" failed || {
    echo "$1: $(state "$1@liar")"
    cat "$BATS_TEST_TMPDIR/said"
    return 1
  }
  grep -Eq '^message: .{8,}' "$L/ctl/error"
  fails timeout 20 cat "$L/workspace/file"
  timeout 20 rmdir "$L"
  good
}

# harmless MODE: whatever it says, nothing happens but to itself.
harmless() {
  liar "$1"
  provoke
  timeout 20 rmdir "$L"
  good
}

@test "a handshake that is none: garbage, too long, closed" {
  caught garbage
  caught oversize
  caught close-hello
}

@test "a workspace that is no path inside" {
  caught workspace-climb
}

@test "a version that we do not speak" {
  caught wrong-version
  liar no-version
  fails timeout 30 ls "$L/workspace"
  wait_for 20 state_is no-version@liar failed
  has "$(cat "$L/ctl/error")" "liar speaks 7 only"
  good
}

@test "replies to nobody: wrong id, wrong type, twice, unasked" {
  caught wrong-id
  caught wrong-type
  caught twice
  caught unasked
}

# ask PYTHON: as provoke, for what no ordinary tool asks.
ask() {
  timeout -s KILL 20 python3 -c "import os, sys; f = sys.argv[1]; $1" "$L/workspace/file"
}

@test "extended attributes, holes and copies that cannot be" {
  is "$(L=$MNT/good ask 'print(os.listxattr(f), os.getxattr(f, "user.a"))')" "['user.a'] b'b'"
  is "$(L=$MNT/good ask 'd = os.open(f, 0); print(os.lseek(d, 2, 3), os.lseek(d, 2, 4))')" "2 6"
  L=$MNT/good ask 'os.setxattr(f, "user.a", b"c"); os.removexattr(f, "user.a")'
  local mode code said
  while read -r mode code; do
    liar "$mode"
    wait_for 20 test -e "$L/workspace/file"
    said=$(ask "$code" 2>&1) && false
    has "$said" Input/output
    wait_for 20 state_is "$mode@liar" failed
    grep -Eq '^message: .{8,}' "$L/ctl/error"
    timeout 20 rmdir "$L"
    good
  done <<'ASK'
xattr-long os.getxattr(f, "user.a")
names-open os.listxattr(f)
names-hollow os.listxattr(f)
seek-far os.lseek(os.open(f, 0), 0, 3)
big-copy d = os.open(f, os.O_RDWR); e = os.open(f, os.O_RDONLY); os.copy_file_range(e, d, 2, 0, 4)
ASK
}

@test "bodies that are cut or padded" {
  caught truncated
  caught padded
}

@test "a connection that closes in a frame, every time" {
  caught close
}

@test "errno 512 and ENOSYS reach nobody, and switch nothing off" {
  liar errno-512
  fails_with "Input/output error" timeout 20 cat "$L/workspace/file"
  provoke
  good
  liar errno-38
  fails_with "Operation not supported" timeout 20 cat "$L/workspace/file"
  provoke
  good
}

@test "names that are paths, too long, or none" {
  caught names-slash
  caught names-dotdot
  caught names-dot
  caught names-nul
  caught names-long
  caught names-empty
}

@test "types that are none, times that are none" {
  caught type-0
  caught type-junk
  caught bad-time
}

@test "a directory that is a link every other time, sizes beyond all bounds" {
  harmless flip
  harmless huge-size
}

@test "more bytes read or written than were asked for" {
  caught long-read
  caught big-write
}

@test "link texts that are too long, empty, with a NUL, climbing" {
  harmless link-long
  harmless link-nul
  harmless link-empty
  harmless link-climb
}

@test "changes that are none, of others, without end, or counted and never told" {
  caught changes-junk
  caught changes-empty
  caught changes-slash
  harmless changes-flood
  harmless changes-seq
}

@test "jobs with impossible results" {
  caught job-exit
  caught job-result
  caught job-size
}

@test "an agent that never answers: its callers can be interrupted, the others do not notice" {
  local start status=0
  liar silent
  start=$(now_ms)
  timeout -s INT 2 cat "$L/workspace/file" || status=$?
  ((status == 124 && $(now_ms) - start < 5000))
  timeout -s KILL 2 ls "$L/workspace" || true
  cat "$L/ctl/state"
  good
  timeout 20 rmdir "$L"
  liar hang
  timeout -s INT 2 cat "$L/workspace/file" && false
  good
  timeout 20 rmdir "$L"
}

@test "an agent that is only slow works" {
  liar drip
  is "$(timeout 60 cat "$L/workspace/file")" hello
  is "$(timeout 60 ls "$L/workspace" | sort | tr '\n' ' ')" "dir file link "
  timeout 60 bash -c "echo x > '$L/ctl/exec'"
  is "$(cat "$L/ctl/stdout")" out
}
