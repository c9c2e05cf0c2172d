#!/usr/bin/env bats
# Bad input and bad luck: no engine, a dead engine, no image, a paused container, many operations.
# shellcheck disable=SC2012,SC2016

load lib/mount
load lib/assert

setup() {
  SECOND=''
}

teardown() {
  local status=0
  sbx_teardown || status=1
  [[ -z $SECOND ]] || engine_remove "$SECOND"
  return $status
}

# own_engine: from here on the test has an engine of its own, which it may kill.
own_engine() {
  SECOND=$BATS_TEST_TMPDIR/engine
  SBX_ENGINE=$SECOND
  engine_start "$SBX_ENGINE"
  sbx_images
}

# errors: the text of .sandboxfs/errors
errors() {
  cat "$MNT/.sandboxfs/errors"
}

@test "no engine at mount: a message, a status, no mount" {
  local dir=$BATS_TEST_TMPDIR/m status=0 said
  mkdir "$dir"
  said=$(timeout 60 "$SANDBOXFS" -f -o "host=unix://$BATS_TEST_TMPDIR/none.sock" "$dir" 2>&1) || status=$?
  ((status != 0 && status != 124))
  has "$said" none.sock
  ! sbx_is_mounted "$dir" || false
  status=0
  said=$(timeout 60 "$SANDBOXFS" -o "host=unix://$BATS_TEST_TMPDIR/none.sock" "$dir" 2>&1) || status=$?
  ((status != 0 && status != 124))
  has "$said" none.sock
  ! sbx_is_mounted "$dir" || false
}

@test "what answers but is no engine: a message, a status, no mount" {
  local dir=$BATS_TEST_TMPDIR/m status=0 said
  mkdir "$dir"
  python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(9)
print("up", flush=True)
for i in range(100):
    c = s.accept()[0]
    c.recv(4096)
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    c.close()' "$BATS_TEST_TMPDIR/s" >"$BATS_TEST_TMPDIR/up" 3>&- &
  wait_for 5 test -s "$BATS_TEST_TMPDIR/up"
  said=$(timeout 60 "$SANDBOXFS" -f -o "host=unix://$BATS_TEST_TMPDIR/s" "$dir" 2>&1) || status=$?
  kill $!
  ((status != 0 && status != 124))
  [[ -n $said ]]
  ! sbx_is_mounted "$dir" || false
}

@test "a bad option or mount point: a message, a status, no mount" {
  fails_with nosuchoption "$SANDBOXFS" -f -o "host=$(engine_host "$SBX_ENGINE"),nosuchoption=1" "$(sbx_new_dir)"
  fails_with symlinks "$SANDBOXFS" -f -o "host=$(engine_host "$SBX_ENGINE"),symlinks=perhaps" "$(sbx_new_dir)"
  fails_with nowhere "$SANDBOXFS" -f -o "host=$(engine_host "$SBX_ENGINE")" "$BATS_TEST_TMPDIR/nowhere"
  fails "$SANDBOXFS"
}

@test "an engine that is killed: EHOSTDOWN with words; back again, it works without a remount" {
  own_engine
  mount_sbx
  sandbox demo
  echo kept >"$MNT/demo/workspace/f"
  kill_engine
  fails_with "Host is down" mkdir "$MNT/other"
  has "$(errors | grep EHOSTDOWN)" other
  cat "$MNT/demo/ctl/state" "$MNT/README" >/dev/null
  # The container lives on without it, but the stream to its agent went through it.
  fails_with "Host is down" bash -c "echo true > '$MNT/demo/ctl/exec'"
  listed demo
  engine_up
  wait_for 30 works demo kept
  is "$(out demo 'cat f')" kept
  sandbox other
  rmdir "$MNT/demo" "$MNT/other"
  wait_for 30 no_containers
}

@test "an engine that hangs: what waits for it can be interrupted, what does not need it goes on" {
  local before
  own_engine
  mount_sbx
  sandbox demo
  echo kept >"$MNT/demo/workspace/f"
  kill -STOP "$(engine_pid "$SBX_ENGINE")"
  before=$(now_ms)
  timeout -s INT 1 mkdir "$MNT/other" && false
  timeout -s KILL 1 rmdir "$MNT/demo" && false
  timeout -s INT 1 bash -c "echo stopped > '$MNT/demo/ctl/state'" && false
  timeout -s INT 1 cat "$MNT/.sandboxfs/engine" && false
  timeout -s INT 1 cat "$MNT/demo/workspace/f" && false # the stream to its agent goes through dockerd
  (($(now_ms) - before < 10000))
  is "$(timeout 5 cat "$MNT/demo/ctl/config.json" | jq -r .name)" demo
  kill -CONT "$(engine_pid "$SBX_ENGINE")"
  wait_for 30 not_listed demo # the rmdir was on its way
  sandbox third
  is "$(out third 'echo on')" on
  rmdir "$MNT/third"
  ! listed other || rmdir "$MNT/other"
  wait_for 60 no_containers
}

# kill_engine: kill -9 of dockerd. Its containerd dies with it; where nobody reaps that at once, the next
# dockerd would take the dead one's pid for a running one.
kill_engine() {
  kill -KILL "$(engine_pid "$SBX_ENGINE")"
  wait_for 5 gone_engine
  rm -f "$SBX_ENGINE/exec/containerd/containerd.pid"
}

gone_engine() {
  ! engine_answers "$SBX_ENGINE/docker.sock"
}

works() {
  [[ $(timeout 20 cat "$MNT/$1/workspace/f" 2>/dev/null) == "$2" ]]
}

@test "an image that is nowhere: the sandbox is failed, and what waits for it fails with the reason" {
  template none '{"image": "registry.invalid/none:1"}'
  template never '{"image": "none:1", "pull_policy": "never"}'
  mount_sbx "templates=$TEMPLATES"
  mkdir "$MNT/none@demo"
  fails timeout 60 ls "$MNT/none@demo/workspace"
  wait_for 60 state_is none@demo failed
  fails bash -c "echo true > '$MNT/none@demo/ctl/exec'"
  has "$(cat "$MNT/none@demo/ctl/error")" registry.invalid
  has "$(errors)" registry.invalid
  fails_with "No medium found" mkdir "$MNT/never@demo"
  has "$(errors | grep ENOMEDIUM)" none:1
  rmdir "$MNT/none@demo"
  not_listed none@demo
  no_containers
}

@test "errors has a line for each failure: time, operation, path, errno, words" {
  mount_sbx
  fails mkdir "$MNT/bad name"
  errors | tail -n 1 | grep -Eq '^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+[^ ]* mkdir .*bad name.* EINVAL .+'
  for i in {1..250}; do mkdir "$MNT/no@x$i" 2>/dev/null || true; done
  (($(errors | wc -l) <= 200))
  has "$(errors | tail -n 1)" x250
  is "$(stat -c %s "$MNT/.sandboxfs/errors")" "$(errors | wc -c)"
}

# median_us N CMD...: the median time of a read of FILE, in microseconds.
median_us() {
  python3 - "$1" <<'PY'
import os, sys, time
t = []
for i in range(101):
    s = time.perf_counter()
    open(sys.argv[1]).read()
    os.stat(os.path.dirname(sys.argv[1]))
    t.append(time.perf_counter() - s)
print(int(sorted(t)[50] * 1e6))
PY
}

@test "a container that is paused outside: its own operations wait and can be interrupted, no other's" {
  local i pids=() before after start status=0
  mount_sbx
  sandbox slow
  sandbox quick
  echo x >"$MNT/slow/workspace/f"
  echo x >"$MNT/quick/workspace/f"
  before=$(median_us "$MNT/quick/workspace/f")
  dk pause "$(box_id slow)"
  wait_for 2 state_is slow paused
  start=$(now_ms)
  timeout -s INT 1 ls "$MNT/slow/workspace" || status=$?
  is $status 124
  (($(now_ms) - start < 3000))
  timeout -s INT 1 bash -c "echo true > '$MNT/slow/ctl/exec'" && false
  for i in {1..40}; do
    timeout -s KILL 30 cat "$MNT/slow/workspace/f$i" >/dev/null 2>&1 3>&- &
    pids+=($!)
  done
  sleep 0.5
  after=$(median_us "$MNT/quick/workspace/f")
  echo "median before $before us, while 40 wait $after us"
  ((after < 3 * before + 3000))
  is "$(out quick 'echo on')" on
  is "$(state slow)" paused
  cat "$MNT/slow/ctl/"{error,result,summary} >/dev/null
  dk unpause "$(box_id slow)"
  for i in "${pids[@]}"; do wait "$i" && false; done
  is "$(cat "$MNT/slow/workspace/f")" x
  is "$(out slow 'echo on')" on
  rmdir "$MNT/slow" "$MNT/quick"
}

@test "a paused sandbox can be removed while others wait for it" {
  mount_sbx
  sandbox demo
  dk pause "$(box_id demo)"
  timeout 30 ls "$MNT/demo/workspace" >/dev/null 2>&1 3>&- &
  sleep 0.5
  rmdir "$MNT/demo"
  not_listed demo
  wait $! && false
  wait_for 30 no_containers
}

# thousand: a thousand operations of many kinds
thousand() {
  python3 - "$MNT/demo" "$1" <<'PY'
import os, sys
box, n = sys.argv[1], int(sys.argv[2])
w = box + "/workspace"
for i in range(n):
    p = "%s/f%d" % (w, i % 7)
    with open(p, "w") as f:
        f.write("x" * i)
    assert len(open(p).read()) == i
    os.stat(p)
    os.rename(p, p + "r")
    os.listdir(w)
    os.symlink("x", p + "l")
    os.readlink(p + "l")
    os.unlink(p + "l")
    os.unlink(p + "r")
    for missing in ("nope", "nope/x"):
        try:
            os.stat(w + "/" + missing)
        except OSError:
            pass
    if i % 10 == 0:
        with open(box + "/ctl/exec", "w") as f:
            f.write("echo %d" % i)
        assert open(box + "/ctl/stdout").read() == "%d\n" % i
    open(box + "/ctl/state").read()
PY
}

fds() {
  # shellcheck disable=SC2012
  ls "/proc/$(daemon_pid)/fd" | wc -l
}

# bats test_tags=valgrind
@test "a thousand operations leak no descriptor, in the daemon or in the agent" {
  local before inside
  mount_sbx
  sandbox demo
  thousand 10
  before=$(fds)
  inside=$(dk exec "$(box_id demo)" sh -c 'ls /proc/1/fd | wc -l')
  thousand 100
  sleep 1
  (($(fds) <= before + 2))
  # The agent keeps one for each of the last 64 jobs.
  (($(dk exec "$(box_id demo)" sh -c 'ls /proc/1/fd | wc -l') <= inside + 80))
  rmdir "$MNT/demo"
  wait_for 30 no_containers
}

@test "making and removing sandboxes leaks no descriptor" {
  local before i
  mount_sbx
  for i in 1 2 3; do
    sandbox demo
    ex demo true
    rmdir "$MNT/demo"
  done
  wait_for 30 no_containers
  sleep 1
  before=$(fds)
  for i in 1 2 3 4 5; do
    sandbox demo
    ex demo true
    rmdir "$MNT/demo"
  done
  wait_for 30 no_containers
  sleep 1
  (($(fds) <= before + 2))
}

@test "an agent that is killed in its container: the sandbox says so and comes back" {
  mount_sbx
  sandbox demo
  echo kept >"$MNT/demo/workspace/f"
  ex demo 'kill -9 1; kill -TERM 1; sleep 1' || true
  wait_for 30 works demo kept
  is "$(out demo 'echo on')" on
  rmdir "$MNT/demo"
}

@test "memory that runs out in a command: the command fails, the sandbox goes on" {
  template small '{"image": "busybox:test", "mem_limit": "32m"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox small@demo
  ex small@demo 'x=$(head -c 100000000 /dev/zero | tr "\0" x); echo "${#x}"' || true
  [[ $(cat "$MNT/small@demo/ctl/exit_code") != 0 ]]
  wait_for 30 out small@demo 'echo on'
  rmdir "$MNT/small@demo"
}
