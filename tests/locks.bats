#!/usr/bin/env bats
# flock and fcntl locks hold between host and sandbox: contract 3.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

LOCKER=${SANDBOXFS%/fs/sandboxfs}/tests/locker/locker

setup() {
  mount_sbx
  sandbox demo
  W=$MNT/demo/workspace
  cp "$LOCKER" "$W/.locker"
  T=$BATS_TEST_TMPDIR
  OURS=() # processes that may hold a file of the mount when a test fails
}

teardown() {
  local pid
  exec 9>&-
  for pid in "${OURS[@]}"; do
    kill -KILL "$pid" 2>/dev/null || true
  done
  sbx_teardown
}

# inside ARGS...: the locker in the sandbox; its output and status.
inside() {
  local code
  ex demo "exec ./.locker $*" || return 1
  cat "$MNT/demo/ctl/stdout"
  code=$(cat "$MNT/demo/ctl/exit_code")
  ((code < 2)) || cat "$MNT/demo/ctl/stderr"
  return "$code"
}

# free_inside ARGS..., taken_inside ARGS...: KIND TYPE FILE START LEN; the same on the host.
free_inside() {
  inside try "$@"
}

taken_inside() {
  run -1 inside try "$@"
}

free_here() {
  "$LOCKER" try "$1" "$2" "$W/$3" "$4" "$5"
}

taken_here() {
  run -1 free_here "$@"
}

# hold_here ARGS...: a process of the host's that holds a lock; its pid in HOLDER.
hold_here() {
  rm -f "$T/held"
  "$LOCKER" hold "$1" "$2" "$W/$3" "$4" "$5" >"$T/held" 3>&- &
  HOLDER=$!
  OURS+=($!)
  wait_for 90 grep -q held "$T/held"
}

# hold_inside ARGS...: the same in the sandbox.
hold_inside() {
  ex demo "rm -f .held; ./.locker hold $* >.held 2>&1 </dev/null &" # the last one's is not to be taken for ours
  wait_for 90 grep -q held "$W/.held"
  HOLDER=$(sed -n 's/^held //p' "$W/.held")
}

# wait_here ARGS... SECONDS: one that waits for a lock; its pid in WAITER, what it says in $T/got.
wait_here() {
  "$LOCKER" wait "$1" "$2" "$W/$3" "$4" "$5" "$6" >"$T/got" 3>&- &
  WAITER=$!
  OURS+=($!)
  wait_for 90 agent_waits 1
}

ended() {
  engine_ended "$1"
}

# How many threads of the agent wait for a lock: they are in a lock's system call.
agent_waits() {
  is "$(agent_lock_threads)" "$1"
}

agent_has_threads() {
  is "$(ls /proc/"$(agent_pid)"/task | wc -l)" "$1"
}

# So many processes in the sandbox wait for a lock; some of another one's may be seen there too.
inside_waits() {
  (($(out demo 'grep -c -- "->" /proc/locks || true') >= $1))
}

agent_pid() {
  box_pid demo
}

# fcntl is 72, flock 73 on this machine's architecture; see /proc/PID/syscall.
agent_lock_threads() {
  local task n=0
  for task in /proc/"$(agent_pid)"/task/*/syscall; do
    case $(cut -d' ' -f1 "$task" 2>/dev/null) in 72 | 73) n=$((n + 1)) ;; esac
  done
  echo $n
}

# ms FILE: the time in what a locker said.
ms() {
  sed -n 's/^[a-z]* \([0-9]\{4,\}\)$/\1/p' "$1" | tail -n 1
}

# at_once LATER EARLIER: as soon as a busy machine lets it, so at most ten seconds apart. Nobody ever looks again who was
# not told.
at_once() {
  (($1 - $2 >= 0 && $1 - $2 < 10000)) || {
    echo "took $(($1 - $2)) ms"
    return 1
  }
}

@test "a byte range locked on the host is taken in the sandbox, and only that" {
  local kind
  for kind in posix ofd; do
    hold_here $kind write f 10 10
    taken_inside posix read f 10 1
    taken_inside ofd write f 19 100
    free_inside posix write f 0 10
    free_inside posix write f 20 0
    free_inside flock write f 0 0
    is "$(inside test posix read f 0 0)" "write 10 10 -1"
    kill "$HOLDER"
    wait "$HOLDER"
    free_inside posix write f 0 0
  done
}

@test "a byte range locked in the sandbox is taken on the host, and only that" {
  hold_inside posix read f 10 10
  taken_here posix write f 19 1
  free_here posix read f 10 10
  free_here posix write f 0 10
  free_here ofd write f 20 0
  is "$("$LOCKER" test posix write "$W/f" 0 0)" "read 10 10 0"
  is "$("$LOCKER" test posix read "$W/f" 0 0)" free
  is "$("$LOCKER" test ofd write "$W/f" 0 0)" "read 10 10 -1"
  ex demo "kill $HOLDER"
  wait_for 90 grep -q released "$W/.held"
  free_here posix write f 0 0
}

@test "flock(1) on the host and a flock in the sandbox exclude each other" {
  exec 9>"$W/f"
  flock 9
  taken_inside flock write f 0 0
  taken_inside flock read f 0 0
  flock -s 9
  free_inside flock read f 0 0
  taken_inside flock write f 0 0
  exec 9>&-
  ex demo "./.locker run flock write f 0 0 sh -c '
    echo >.in; while [ ! -e .go ]; do usleep 50000; done' </dev/null >/dev/null 2>&1 &"
  wait_for 90 test -e "$W/.in"
  run -1 flock -n "$W/f" true
  run -1 flock -s -w 1 "$W/f" true
  : >"$W/.go"
  flock -w 60 "$W/f" true
}

@test "a lock that waits is granted as soon as the other side lets go" {
  hold_inside posix write f 0 0
  wait_here posix write f 0 1 30
  is "$(cat "$T/got")" ''
  ex demo "kill $HOLDER"
  wait "$WAITER"
  at_once "$(ms "$T/got")" "$(ms "$W/.held")"

  hold_inside flock write f 0 0
  wait_here flock read f 0 0 30
  ex demo "kill $HOLDER"
  wait "$WAITER"
  at_once "$(ms "$T/got")" "$(ms "$W/.held")"

  hold_here posix write f 0 0
  ex demo './.locker wait posix write f 0 1 30 >.got </dev/null 2>&1 &'
  ex demo './.locker wait ofd read f 7 1 30 >.got2 </dev/null 2>&1 &'
  wait_for 90 inside_waits 2
  is "$(cat "$W/.got" "$W/.got2")" ''
  kill "$HOLDER"
  wait "$HOLDER"
  wait_for 90 test -s "$W/.got"
  wait_for 90 test -s "$W/.got2"
  at_once "$(ms "$W/.got")" "$(ms "$T/held")"
  at_once "$(ms "$W/.got2")" "$(ms "$T/held")"
  agent_waits 0
}

@test "a lock that waits ends by SIGALRM, SIGINT, SIGTERM and kill -9, and leaves nothing" {
  local before sig start
  hold_inside posix write f 0 0
  before=$(ls /proc/"$(agent_pid)"/task | wc -l)
  start=$(now_ms)
  run -1 "$LOCKER" wait posix write "$W/f" 0 0 1
  has "$output" timeout
  (($(now_ms) - start >= 900 && $(now_ms) - start < 60000))
  run -1 "$LOCKER" wait ofd read "$W/f" 5 5 1
  has "$output" timeout
  for sig in INT TERM KILL; do
    env --default-signal=INT "$LOCKER" wait posix write "$W/f" 0 0 0 3>&- &
    OURS+=($!)
    wait_for 90 agent_waits 1
    kill -s $sig $!
    wait_for 90 ended $!
    wait_for 90 agent_waits 0
  done
  wait_for 90 agent_has_threads "$before"
  # Nobody else got it in the end.
  ex demo "kill $HOLDER"
  wait_for 90 grep -q released "$W/.held"
  free_inside posix write f 0 0
  hold_inside flock write f 0 0
  run -124 timeout -s INT 1 "$LOCKER" wait flock write "$W/f" 0 0 0
  "$LOCKER" wait flock write "$W/f" 0 0 0 3>&- &
  OURS+=($!)
  wait_for 90 agent_waits 1
  kill -KILL $!
  wait_for 90 agent_waits 0
  ex demo "kill $HOLDER"
  wait_for 90 grep -q released "$W/.held"
  free_inside flock write f 0 0
}

@test "a waiter can be stopped and continued, and a handler that restarts does not end its wait" {
  hold_inside posix write f 0 0
  wait_here posix write f 0 0 0
  kill -STOP "$WAITER"
  wait_for 90 grep -q '^State:.T' "/proc/$WAITER/status"
  kill -CONT "$WAITER"
  wait_for 90 agent_waits 1
  kill -KILL "$WAITER"
  wait_for 90 agent_waits 0
  python3 -u - "$W/f" >"$T/py" 3>&- <<'PY' &
import fcntl, os, signal, sys
seen = []
signal.signal(signal.SIGUSR1, lambda *a: (seen.append(1), print("usr1")))
fd = os.open(sys.argv[1], os.O_RDWR)
print("asks")
fcntl.lockf(fd, fcntl.LOCK_EX)
print("locked", len(seen))
PY
  WAITER=$!
  OURS+=($!)
  wait_for 90 agent_waits 1
  kill -USR1 $WAITER
  wait_for 90 grep -q usr1 "$T/py"
  wait_for 90 agent_waits 1
  ex demo "kill $HOLDER"
  wait $WAITER
  is "$(tail -n 1 "$T/py")" "locked 1"
}

@test "the lock of a killed process goes away, on either side" {
  local kind
  for kind in posix ofd flock; do
    hold_here $kind write f 0 0
    taken_inside $kind write f 0 0
    kill -KILL "$HOLDER"
    wait_for 90 ended "$HOLDER"
    free_inside $kind write f 0 0
    hold_inside $kind write f 0 0
    taken_here $kind write f 0 0
    ex demo "kill -9 $HOLDER" # which does not wait for its end
    wait_for 90 free_here $kind write f 0 0
  done
}

@test "the locks of a killed daemon go away within some ten seconds" {
  local start
  still_taken() {
    taken_inside "$@" || (($(now_ms) - start > 8000)) # where the start of the daemon took so long
  }
  hold_here posix write f 0 0
  hold_here flock write g 0 0
  start=$(now_ms)
  kill_daemon
  umount -l "$MNT"
  sbx_start "$MNT"
  still_taken posix write f 0 0
  still_taken flock write g 0 0
  has "$(inside wait posix write f 0 0 20)" got
  has "$(inside wait flock write g 0 0 20)" got
  (($(now_ms) - start > 8000 && $(now_ms) - start < 60000))
}

@test "a close of any descriptor ends a process's byte ranges, before it returns" {
  python3 - "$W/f" "$LOCKER" <<'PY'
import fcntl, os, subprocess, sys
path, locker = sys.argv[1:]
def taken(kind="posix", start="0"):
    return subprocess.run([locker, "try", kind, "write", path, start, "1"]).returncode == 1
a = os.open(path, os.O_RDWR | os.O_CREAT)
for i in range(50):
    fcntl.lockf(a, fcntl.LOCK_EX, 1, 0)
    assert taken()
    b = os.open(path, os.O_RDONLY)
    os.close(b)
    assert not taken(), i
# Not inherited by a child, whose end does not end them.
fcntl.lockf(a, fcntl.LOCK_EX)
pid = os.fork()
if pid == 0:
    try:
        fcntl.lockf(a, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os._exit(1)
    except BlockingIOError:
        os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert taken()
# Kept over exec.
os.set_inheritable(a, True)
pid = os.fork()
if pid == 0:
    fcntl.lockf(a, fcntl.LOCK_UN)
    os._exit(0)
os.waitpid(pid, 0)
assert taken()
fcntl.lockf(a, fcntl.LOCK_UN)
assert not taken()
PY
}

@test "a flock belongs to the open file: dup, fork and exec share it, the last close ends it" {
  python3 - "$W/f" "$LOCKER" <<'PY'
import fcntl, os, subprocess, sys, time
path, locker = sys.argv[1:]
def taken():
    return subprocess.run([locker, "try", "flock", "write", path, "0", "0"]).returncode == 1
a = os.open(path, os.O_RDWR | os.O_CREAT)
b = os.dup(a)
fcntl.flock(a, fcntl.LOCK_EX)
fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.close(a)
assert taken()
r, w = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(w)
    fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.read(r, 1)
    os._exit(0)
os.close(b)
assert taken()
os.close(w)
os.waitpid(pid, 0)
assert not taken()
# A child may unlock for all.
a = os.open(path, os.O_RDWR)
fcntl.flock(a, fcntl.LOCK_EX)
subprocess.run(["flock", "-u", str(a)], pass_fds=[a], check=True)
assert not taken()
# Kept over exec.
fcntl.flock(a, fcntl.LOCK_SH)
p = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[a])
os.close(a)
assert taken()
p.stdin.close()
p.wait()
assert not taken()
PY
}

@test "one after another, processes get a flock that the one before had: no close is late" {
  local i
  for ((i = 0; i < 50; i++)); do
    flock -n "$W/f" true || {
      echo "round $i"
      return 1
    }
  done
  python3 - "$W/f" <<'PY'
import fcntl, os, struct, sys
whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
for i in range(1000):
    fd = os.open(sys.argv[1], os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.fcntl(fd, 37, whole) # F_OFD_SETLK
    os.close(fd)
PY
}

@test "upgrade, downgrade, split and join of ranges, as on a local file system" {
  python3 - "$W/f" "$LOCKER" <<'PY'
import fcntl, os, subprocess, sys
path, locker = sys.argv[1:]
def holder():
    return subprocess.run([locker, "test", "posix", "write", path, "0", "0"], stdout=subprocess.PIPE, text=True).stdout.split()[:3]
def taken(type, start, n):
    return subprocess.run([locker, "try", "posix", type, path, str(start), str(n)]).returncode == 1
a = os.open(path, os.O_RDWR | os.O_CREAT)
fcntl.lockf(a, fcntl.LOCK_SH, 100, 0)
assert taken("write", 50, 1) and not taken("read", 50, 1)
fcntl.lockf(a, fcntl.LOCK_EX, 20, 40)
assert taken("read", 40, 1) and taken("read", 59, 1) and not taken("read", 60, 40)
fcntl.lockf(a, fcntl.LOCK_UN, 10, 45)
assert not taken("write", 45, 10) and taken("write", 44, 1) and taken("write", 55, 1)
fcntl.lockf(a, fcntl.LOCK_SH, 100, 0)
assert holder() == ["read", "0", "100"], holder()
fcntl.lockf(a, fcntl.LOCK_EX, 0, 0)
assert holder() == ["write", "0", "0"], holder()
# Two descriptors of one process, one of which can only read.
r = os.open(path, os.O_RDONLY)
fcntl.lockf(r, fcntl.LOCK_SH)
assert holder() == ["read", "0", "0"], holder()
try:
    fcntl.lockf(r, fcntl.LOCK_EX)
    raise SystemExit("a write lock without the right to write")
except OSError as e:
    assert e.errno == 9, e
fcntl.lockf(a, fcntl.LOCK_EX, 10, 0)
assert taken("read", 0, 1) and not taken("read", 10, 1) and taken("write", 10, 1)
PY
}

@test "a file of the image is not copied up by a read lock" {
  local etc=$MNT/.sandboxfs/rootfs/demo/etc/passwd before
  before=$(box_changes demo)
  run ! grep -q passwd <<<"$before"
  python3 -c 'import fcntl, sys
f = open(sys.argv[1]); fcntl.lockf(f, fcntl.LOCK_SH); fcntl.flock(f, fcntl.LOCK_EX)
' "$etc"
  is "$(box_changes demo)" "$before"
}

@test "two mounts of the same sandbox exclude each other" {
  local first=$MNT
  mount_sbx
  wait_for 90 listed demo
  hold_here posix write f 0 0
  run -1 "$LOCKER" try posix write "$first/demo/workspace/f" 0 0
  "$LOCKER" try posix write "$first/demo/workspace/g" 0 0
  hold_here flock read g 0 0
  run -1 "$LOCKER" try flock write "$first/demo/workspace/g" 0 0
  "$LOCKER" try flock read "$first/demo/workspace/g" 0 0
  # A database with a writer on each.
  python3 - "$first/demo/workspace/db" "$MNT/demo/workspace/db" <<'PY'
import sqlite3, sys
a, b = (sqlite3.connect(p, timeout=0, isolation_level=None) for p in sys.argv[1:])
a.execute("create table t (n integer)")
a.execute("begin immediate")
a.execute("insert into t values (1)")
try:
    b.execute("begin immediate")
    raise SystemExit("two writers at once")
except sqlite3.OperationalError as e:
    assert "locked" in str(e), e
a.execute("commit")
b.execute("insert into t values (2)")
assert a.execute("select sum(n) from t").fetchone() == (3,)
assert b.execute("pragma integrity_check").fetchone() == ("ok",)
PY
}

# Nothing is opened in between, since an open would be a barrier too; names are looked at first in some rounds, bytes in
# others, so that no look makes up for another.
@test "when a lock is granted, all that was done under it before is seen" {
  local kind rounds=30
  ! short || rounds=10
  for kind in flock posix; do
    rm -rf "$W/shared"
    mkdir "$W/shared"
    ex demo "cd shared; printf 000000 >bytes; printf 000000 >longer; : >other; : >name0
      ../.locker turns $kind write lock 0 0 $rounds </dev/null >.log 2>&1 &"
    timeout 120 python3 - "$W/shared" $kind $rounds <<'PY' || {
import fcntl, os, sys, time
os.chdir(sys.argv[1])
kind, rounds = sys.argv[2], int(sys.argv[3])
lock = fcntl.flock if kind == "flock" else fcntl.lockf
fd, held, longer = (os.open(n, os.O_RDWR | os.O_CREAT) for n in ("lock", "bytes", "longer"))
def there(name):
    try:
        os.stat(name)
        return True
    except FileNotFoundError:
        return False
def touch(name):
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
wrong = []
for i in range(1, rounds + 1):
    while not there("turn%d" % i):
        time.sleep(0.001)
    looks = [
        ("bytes by a held descriptor", lambda i: os.pread(held, 100, 0), lambda i: b"%06d" % i),
        ("size by a held descriptor", lambda i: os.fstat(longer).st_size, lambda i: 6 + 6 * i),
        ("mode of another file", lambda i: os.stat("other").st_mode & 0o777, lambda i: 0o644 if i % 2 else 0o600),
        ("a name that came", lambda i: there("name%d" % i), lambda i: True),
        ("a name that went", lambda i: there("name%d" % (i - 1)), lambda i: False),
        ("the listing", lambda i: [n for n in os.listdir() if n.startswith("name")], lambda i: ["name%d" % i]),
    ]
    looks = looks[i % len(looks):] + looks[:i % len(looks)]
    # All is known, and how it was.
    assert os.pread(held, 100, 0) == b"%06d" % (i - 1), i
    for what, look, want in looks:
        look(i)
        look(i)
    touch("go%d" % i)
    lock(fd, fcntl.LOCK_EX)
    wrong += [(i, what, got, want(i)) for what, look, want in looks if (got := look(i)) != want(i)]
    lock(fd, fcntl.LOCK_UN)
    touch("seen%d" % i)
for w in wrong:
    print("WRONG: %s, round %d: %s: got %r, want %r" % ((kind,) + w))
sys.exit(bool(wrong))
PY
      cat "$W/shared/.log"
      false
    }
  done
}

# bats test_tags=valgrind
@test "a counter under a lock loses nothing when both sides count" {
  local n=100 i
  ! short || n=20
  echo 0 >"$W/n"
  ex demo "(i=0; while [ \$i -lt $n ]; do
    ./.locker run flock write lock 0 0 sh -c 'echo \$((\$(cat n) + 1)) >n'; i=\$((i+1)); done; : >.done) </dev/null >/dev/null 2>&1 &"
  for ((i = 0; i < n; i++)); do
    flock "$W/lock" sh -c 'echo $(($(cat "$1/n") + 1)) >"$1/n"' - "$W"
  done
  wait_for 60 test -e "$W/.done"
  right "$(cat "$W/n")" $((2 * n))
  python3 - "$W" $n <<'PY'
import fcntl, os, sys
# The same by byte ranges and threads of several processes of the host's.
w, n = sys.argv[1], int(sys.argv[2])
open(w + "/m", "w").write("0")
pids = []
for k in range(4):
    pid = os.fork()
    if pid == 0:
        for i in range(n):
            with open(w + "/lock", "r+") as l:
                fcntl.lockf(l, fcntl.LOCK_EX)
                v = int(open(w + "/m").read())
                open(w + "/m", "w").write(str(v + 1))
        os._exit(0)
    pids.append(pid)
assert [os.waitpid(p, 0)[1] for p in pids] == [0] * 4
assert open(w + "/m").read() == str(4 * n), open(w + "/m").read()
PY
}

# RELEASE comes after close(2) has returned, and is not to end what its process has locked since.
@test "a file closed and locked again at once stays locked, and a wait for it ends by nothing but the lock" {
  local rounds=1500
  ! short || rounds=300
  python3 - "$W" $rounds <<'PY'
import fcntl, os, signal, sys, threading
w, rounds = sys.argv[1], int(sys.argv[2])
open(w + "/lock", "w").close()
held = w + "/held"
def turns():
    for i in range(rounds):
        l = os.open(w + "/lock", os.O_RDWR)
        fcntl.lockf(l, fcntl.LOCK_EX)
        os.mkdir(held)  # EEXIST: two have the lock
        os.rmdir(held)
        os.close(l)
pids = []
for k in range(3):
    pid = os.fork()
    if pid == 0:
        turns()
        os._exit(0)
    pids.append(pid)
assert [os.waitpid(p, 0)[1] for p in pids] == [0] * 3

# A thread that waits, while another closes the same file: on a local disk it goes on waiting.
r, s = os.pipe()
pid = os.fork()
if pid == 0:
    l = os.open(w + "/lock", os.O_RDWR)
    fcntl.lockf(l, fcntl.LOCK_EX)
    os.write(s, b"x")
    signal.pause()  # until it is killed
os.read(r, 1)
got = []
def wait():
    l = os.open(w + "/lock", os.O_RDWR)
    fcntl.lockf(l, fcntl.LOCK_EX)
    got.append(l)
t = threading.Thread(target=wait)
t.start()
for i in range(20):
    o = os.open(w + "/lock", os.O_RDWR)
    try:
        fcntl.lockf(o, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise SystemExit("locked twice")
    except BlockingIOError:
        pass
    os.close(o)
assert t.is_alive() and not got
os.kill(pid, 9)
os.waitpid(pid, 0)
t.join(60)
if not got:
    sys.exit("the wait did not end")
PY
}

@test "a lock of a file in ctl/ is refused, not pretended; of a directory it is the host's own" {
  fails_with "No locks available" flock -n "$MNT/demo/ctl/state" true
  python3 - "$MNT/demo/ctl/state" <<'PY'
import errno, fcntl, sys
f = open(sys.argv[1])
try:
    fcntl.lockf(f, fcntl.LOCK_SH)
    raise SystemExit("locked")
except OSError as e:
    assert e.errno == errno.ENOLCK, e
fcntl.lockf(f, fcntl.LOCK_UN)
fcntl.flock(f, fcntl.LOCK_UN)
PY
  exec 9<"$W"
  flock 9
  run -1 flock -n "$W" true
  exec 9<&-
  flock -n "$W" true
}

@test "a sandbox that is stopped or paused keeps no close waiting" {
  hold_here posix write f 0 0
  echo paused >"$MNT/demo/ctl/state"
  kill -KILL "$HOLDER"
  wait_for 90 ended "$HOLDER"
  echo running >"$MNT/demo/ctl/state"
  free_inside posix write f 0 0
  hold_here flock write f 0 0
  echo stopped >"$MNT/demo/ctl/state"
  kill -KILL "$HOLDER"
  wait_for 90 ended "$HOLDER"
  is "$(state demo)" stopped
}
