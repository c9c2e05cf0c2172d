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
  is "$(timeout 60 cat "$w/file")" hello
  is "$(timeout 60 cat "$w/link")" hello
  is "$(timeout 60 ls "$w" | sort | tr '\n' ' ')" "dir file link "
  timeout 60 bash -c "echo x >> '$w/file'"
  timeout 60 sync "$w/file"
  timeout 60 stat -f "$w" >/dev/null
  timeout 60 bash -c "echo x > '$MNT/good/ctl/exec'"
  is "$(cat "$MNT/good/ctl/stdout")" out
  kill -0 "$(daemon_pid)"
}

# liar MODE: a sandbox whose agent lies so.
liar() {
  template "$1" "{\"image\": \"busybox:test\", \"environment\": {\"LIE\": \"$1\"}}"
  mkdir "$MNT/$1@liar"
  L=$MNT/$1@liar
}

made() {
  [[ $(cat "$L/ctl/state") != creating ]]
}

# provoke: all that could make it talk; nothing may hang for ever or be the host's. Prints what came out.
provoke() {
  local w=$L/workspace
  wait_for 60 made # what the engine takes for that is not in the limits
  {
    timeout -s KILL 120 ls -la "$w/"
    timeout -s KILL 120 cat "$w/file" | head -c 100000
    timeout -s KILL 120 cat "$w/link" | head -c 100000
    timeout -s KILL 120 ls -la "$w/dir/" "$w/dir/.."
    timeout -s KILL 120 readlink "$w/link"
    timeout -s KILL 120 bash -c "echo x >> '$w/file'"
    timeout -s KILL 120 sync "$w/file"
    timeout -s KILL 120 bash -c "echo x > '$L/ctl/exec'"
    timeout -s KILL 120 cat "$L/ctl/stdout" "$L/ctl/exit_code" "$L/ctl/summary" | head -c 100000
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
  wait_for 90 state_is "$1@liar" failed || {
    echo "$1: $(state "$1@liar")"
    cat "$BATS_TEST_TMPDIR/said"
    return 1
  }
  grep -Eq '^message: .{8,}' "$L/ctl/error"
  fails timeout 60 cat "$L/workspace/file"
  timeout 60 rmdir "$L"
  good
}

# harmless MODE: whatever it says, nothing happens but to itself.
harmless() {
  liar "$1"
  provoke
  timeout 60 rmdir "$L"
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
  wait_for 120 made
  fails timeout 50 ls "$L/workspace"
  wait_for 90 state_is no-version@liar failed
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
  timeout -s KILL 60 python3 -c "import os, sys; f = sys.argv[1]; $1" "$L/workspace/file"
}

@test "extended attributes, holes and copies that cannot be" {
  is "$(L=$MNT/good ask 'print(os.listxattr(f), os.getxattr(f, "user.a"))')" "['user.a'] b'b'"
  is "$(L=$MNT/good ask 'd = os.open(f, 0); print(os.lseek(d, 2, 3), os.lseek(d, 2, 4))')" "2 6"
  L=$MNT/good ask 'os.setxattr(f, "user.a", b"c"); os.removexattr(f, "user.a")'
  local mode code said
  while read -r mode code; do
    liar "$mode"
    wait_for 90 test -e "$L/workspace/file"
    said=$(ask "$code" 2>&1) && false
    has "$said" Input/output
    wait_for 90 state_is "$mode@liar" failed
    grep -Eq '^message: .{8,}' "$L/ctl/error"
    timeout 60 rmdir "$L"
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
  fails_with "Input/output error" timeout 60 cat "$L/workspace/file"
  provoke
  good
  liar errno-38
  fails_with "Operation not supported" timeout 60 cat "$L/workspace/file"
  provoke
  good
}

# The kernel makes EINTR of a lock a 512, which reaches the program where no signal is pending.
@test "a lock that ends by no signal" {
  local code='import fcntl; d = os.open(f, os.O_RDWR); fcntl.lockf(d, fcntl.LOCK_EX)'
  L=$MNT/good ask "$code"
  liar lock-eintr
  wait_for 90 test -e "$L/workspace/file"
  run ! ask "$code"
  has "$output" "No locks available"
  run ! ask "${code/lockf/flock}"
  has "$output" "No locks available"
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
  liar huge-block
  wait_for 60 made
  is "$(timeout 60 stat -c %o "$L/workspace/file")" 4096
  timeout 60 rmdir "$L"
}

# The kernel takes these whatever it was told while they were on their way.
@test "attributes that come with a change are not kept" {
  liar set-old
  wait_for 60 made
  is "$(timeout 60 stat -c %h "$L/workspace/file")" 1
  timeout 60 chmod 600 "$L/workspace/file"
  is "$(timeout 60 stat -c %h "$L/workspace/file")" 1
}

@test "more bytes read or written than were asked for" {
  caught long-read
  caught big-write
}

@test "more bytes of a port than were asked for" {
  local client=$SBX_TOP/tests/lib/portclient.py
  is "$(timeout 60 python3 "$client" ended "$(cat "$MNT/good/ctl/ports/80")")" data
  liar port-long
  is "$(timeout 60 python3 "$client" ended "$(cat "$L/ctl/ports/80")")" reset
  wait_for 90 state_is port-long@liar failed
  has "$(cat "$L/ctl/error")" malformed
  timeout 60 rmdir "$L"
  good
}

@test "link texts that are too long, empty, with a NUL, climbing" {
  harmless link-long
  harmless link-nul
  harmless link-empty
  harmless link-climb
}

# moves MODE PYTHON: in the workspace of such a liar, with links that lead to the canary where they are
# believed. `away(f, ...)` is another process; `text(path)` what can be read there, or why not.
moves() {
  liar "$1"
  wait_for 60 made
  timeout -s KILL 180 python3 - "$L/workspace" >"$BATS_TEST_TMPDIR/said" 2>&1 <<PY
import errno, os, signal, sys, time
os.chdir(sys.argv[1])
os.stat("d/link", follow_symlinks=False), os.stat("a/b/c/d")
def away(f, *args):
    up, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.write(says, b"x")
        try:
            print(f(*args))
        except OSError as e:
            print(errno.errorcode[e.errno])
        sys.stdout.flush()
        os._exit(0)
    os.read(up, 1), os.close(up), os.close(says)
    time.sleep(0.3)
    return pid
def text(path):
    try:
        return open(path).read()
    except OSError as e:
        return errno.errorcode[e.errno]
$2
PY
  said=$(cat "$BATS_TEST_TMPDIR/said")
  [[ $said != *"$SECRET"* ]] || {
    echo "$1 leads to the host: $said"
    return 1
  }
  timeout 60 rmdir "$L"
}

@test "moves that are answered when nobody waits, or while somebody walks" {
  local said
  moves rename-late '
p = away(os.rename, "d", "a/b/c/new")
os.kill(p, signal.SIGINT)
os.waitpid(p, 0)
print(text("d/link"))'
  moves rename-link '
p = away(text, "link")
os.rename("link", "a/b/c/new")
os.waitpid(p, 0)'
  moves rename-swap '
os.chdir("a/b/c/d")
p = away(os.rename, "../d", "../../../../new")
q = away(os.stat, "../../../../a/b/c/d")
os.waitpid(p, 0), os.waitpid(q, 0)
print(text("link"))'
  has "$said" ESTALE
  moves rename-race '
for k in range(20):
    p = away(text, "d/link")
    os.rename("d", "a/b/c/new%d" % k)
    os.waitpid(p, 0)'
  good
}

@test "changes that are none, of others, without end, or counted and never told" {
  caught changes-junk
  caught changes-empty
  caught changes-slash
  harmless changes-flood
  harmless changes-seq
}

@test "a directory that is made after its caller was interrupted is seen" {
  local said
  moves rename-mkdir '
there = os.path.exists
print(there("late"))
p = away(os.mkdir, "late")
os.kill(p, signal.SIGINT)
os.waitpid(p, 0)
print(there("late"), there("go"))
end = time.time() + 60
while not there("late") and time.time() < end:
    time.sleep(0.01)
print(there("late"))'
  is "$said" $'False\nFalse False\nTrue'
}

# cpu_ms: what the daemon has used.
cpu_ms() {
  awk '{ print ($14 + $15) * 10 }' "/proc/$(daemon_pid)/stat"
}

@test "an agent that says without end that everything has changed leaves the machine to others" {
  local before used
  liar changes-all
  wait_for 60 made
  timeout 60 ls "$L/workspace" >/dev/null
  before=$(cpu_ms)
  sleep 3
  used=$(($(cpu_ms) - before))
  echo "$used ms"
  [[ -n $SBX_SANITIZER ]] || ((used < 600))
  good
  timeout 60 rmdir "$L"
  good
}

daemon_gone() {
  ! kill -0 "$1" 2>/dev/null
}

# A teller waits for the directory's lock; who has it waits for an answer.
@test "SIGTERM ends the daemon while names change where others make some" {
  local daemon i makers=()
  liar changes-names
  wait_for 60 made
  daemon=$(daemon_pid)
  for i in {1..8}; do
    python3 -c 'if True:
      import errno, os, sys
      print("begun", flush=True)
      while True:
          try: os.mkdir(sys.argv[1])
          except OSError as e:
              if e.errno in (errno.ENOTCONN, errno.ENOENT, errno.ECONNABORTED, errno.ENODEV): break
    ' "$L/workspace/new$i" >"$BATS_TEST_TMPDIR/maker$i" 3>&- &
    makers+=($!)
  done
  for i in {1..8}; do wait_for 90 grep -q begun "$BATS_TEST_TMPDIR/maker$i"; done
  sleep 0.5
  kill -TERM "$daemon"
  wait_for 90 daemon_gone "$daemon"
  wait "${makers[@]}"
}

@test "jobs with impossible results" {
  caught job-exit
  caught job-result
  caught job-size
}

@test "ps and stats as long as a message may be, and longer" {
  liar text-full
  is "$(timeout 60 cat "$L/workspace/file")" hello
  is "$(timeout 60 wc -c <"$L/ctl/ps") $(timeout 60 wc -c <"$L/ctl/stats")" '1048577 1048577' # with a newline
  is "$(timeout 60 cat "$L/workspace/file")" hello
  timeout 60 rmdir "$L"
  liar text-long
  is "$(timeout 60 cat "$L/workspace/file")" hello
  fails timeout 60 cat "$L/ctl/ps"
  wait_for 90 state_is text-long@liar failed
  timeout 60 rmdir "$L"
  good
}

@test "an agent that never answers: its callers can be interrupted, the others do not notice" {
  local status=0
  liar silent
  timeout -s INT -k 20 1 cat "$L/workspace/file" || status=$?
  is $status 124 # not 137: it ended by the SIGINT
  timeout -s KILL 1 ls "$L/workspace" || true
  cat "$L/ctl/state"
  good
  timeout 60 rmdir "$L"
  liar hang
  timeout -s INT 1 cat "$L/workspace/file" && false
  good
  timeout 60 rmdir "$L"
}

@test "an agent that is only slow works" {
  liar drip
  is "$(timeout 60 cat "$L/workspace/file")" hello
  is "$(timeout 60 ls "$L/workspace" | sort | tr '\n' ' ')" "dir file link "
  timeout 60 bash -c "echo x > '$L/ctl/exec'"
  is "$(cat "$L/ctl/stdout")" out
}
