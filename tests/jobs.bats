#!/usr/bin/env bats
# Jobs: many commands at once, contract 4.
# shellcheck disable=SC2016,SC2012

load lib/mount
load lib/assert

setup() {
  mount_sbx
  sandbox demo
  C=$MNT/demo/ctl
  J=$C/jobs
}

# job NAME TEXT: makes it and starts it.
job() {
  mkdir "$J/$1" && printf '%s\n' "$2" >"$J/$1/exec"
}

# no_process WORDS: nothing in the sandbox has them in its command line.
no_process() {
  [[ $(box_top demo) != *"$1"* ]]
}

# holds FILE TEXT
holds() {
  grep -qs -- "$2" "$1"
}

# error_of FILE TEXT: writes it with one write(2) and prints the name of its errno, or "ok".
error_of() {
  python3 -c 'import errno, os, sys
try:
    os.write(os.open(sys.argv[1], os.O_WRONLY), os.fsencode(sys.argv[2]))
    print("ok")
except OSError as e:
    print(errno.errorcode[e.errno])' "$1" "$2"
}

@test "a job is made by mktemp, starts and returns, is waited for and forgotten" {
  local j
  is "$(ls "$J")" ""
  j=$(mktemp -d "$J/XXXXXX")
  is "$(cat "$j/result" "$j/exit_code" "$j/pid" "$j/exec" "$j/stdout")" new
  has "$(cat "$j/summary")" 'result: new'
  mkfifo "$MNT/demo/workspace/go"
  echo 'echo a; echo b >&2; read x < /workspace/go; exit 3' >"$j/exec"
  is "$(cat "$j/result")" running
  (($(cat "$j/pid") > 1))
  wait_for 90 holds "$j/output" b
  is "$(cat "$j/exit_code")" ""
  is "$(readlink "$J/last")" "${j##*/}"
  ex demo 'echo foreground > go' # it runs beside, as a job too
  is "$(cat "$j/wait")" 3
  is "$(cat "$j/wait")" 3
  is "$(cat "$j/exit_code" "$j/result" "$j/stdout" "$j/stderr")" $'3\nexit-code\na\nb'
  is "$(cat "$j/output")" $'a\nb'
  has "$(cat "$j/exec")" 'exit 3'
  has "$(cat "$j/summary")" "job: ${j##*/}"
  is "$(ls "$J" | sort)" "$(printf '%s\n' 1 last "${j##*/}" | sort)"
  is "$(readlink "$J/last")" 1
  is "$(cat "$J/1/exec" "$J/last/exit_code")" $'echo foreground > go\n0'
  is "$(ls "$j" | tr '\n' ' ')" "argv cwd env exec exit_code max_wait output pid result shell signal stderr stdin stdout summary timeout tty user wait "
  is "$(stat -c '%F' "$j" "$J/last")" $'directory\nsymbolic link'
  rmdir "$j"
  [[ ! -e $j ]]
  is "$(ls "$J" | tr '\n' ' ')" '1 last '
  fails_with "File exists" mkdir "$J/1"
  fails_with "File exists" mkdir "$J/last"
  fails_with "No such file" cat "$J/none/wait"
  job x 'sleep 1001'
  rm -rf "$J/x"
  [[ ! -e $J/x ]]
  no_process 'sleep 1001'
  job y 'sleep 1002'
  rm -rf "$MNT/demo"
  not_listed demo
}

@test "bad input: the right errno at once, words, and nothing is started" {
  local j=$J/x
  job x 'echo ran >> count'
  is "$(cat "$j/wait")" 0
  fails_with "Device or resource busy" bash -c "echo 'echo again >> count' > '$j/exec'"
  has "$(cat "$C/error")" started
  has "$(grep EBUSY "$MNT/.sandboxfs/errors")" demo/ctl/jobs/x/exec
  fails_with "Device or resource busy" bash -c "printf 'id' > '$j/argv'"
  fails_with "Device or resource busy" bash -c "echo 'echo again >> count' > '$J/last/exec'"
  is "$(error_of "$j/signal" NOSUCH)" EINVAL
  has "$(cat "$C/error")" NOSUCH
  is "$(error_of "$j/signal" 65)" EINVAL
  is "$(error_of "$j/signal" '')" ok # write(2) of nothing is nothing
  is "$(error_of "$j/signal" TERM)" ESRCH
  is "$(error_of "$j/stdin" x)" EPIPE
  for f in stdout stderr output exit_code result summary pid wait; do
    fails_with "Permission denied" bash -c "echo x > '$j/$f'"
    has "$(cat "$C/error")" "message: $f cannot be written"
    has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "demo/ctl/jobs/x/$f EACCES $f cannot be written"
  done
  for f in stdout summary error config.json ps stats log; do
    fails_with "Permission denied" bash -c "echo x > '$C/$f'"
    is "$(cat "$C/error")" $'code: EACCES\nop: '"$f"$'\nretryable: no\nmessage: '"$f cannot be written"
  done
  fails_with "Permission denied" cat "$j/signal"
  fails_with "not permitted" mv "$j/stdout" "$j/other"
  fails_with "not permitted" mkdir "$j/sub"
  is "$(cat "$MNT/demo/workspace/count")" ran
  # A writer that is killed half way starts nothing here either; the job can still be.
  mkdir "$J/half"
  python3 -c 'import os, sys
f = open(sys.argv[1], "wb", buffering=0)
f.write(b"echo half >> count; ")
os.kill(os.getpid(), 9)' "$J/half/exec" || true
  is "$(cat "$J/half/result")" new
  echo 'echo whole >> count' >"$J/half/exec"
  is "$(cat "$J/half/wait" "$MNT/demo/workspace/count")" $'0\nran\nwhole'
}

@test "wait blocks, can be interrupted and polled, and every reader gets the code" {
  local bb start
  bb=$(host_busybox)
  mkfifo "$MNT/demo/workspace/go"
  job x 'read x < go; exit 7'
  start=$(now_ms)
  timeout -s INT 1 cat "$J/x/wait" && false
  (($(now_ms) - start < 20000))
  python3 - "$J/x/wait" "$C/exec" <<'PY'
import errno, os, select, signal, sys
def alarm(*a):
    raise InterruptedError
fd = os.open(sys.argv[1], os.O_RDONLY)
signal.signal(signal.SIGALRM, alarm)
signal.alarm(1)
try:
    os.read(fd, 10)
    sys.exit("the read was not interrupted")
except InterruptedError:
    pass
p = select.poll()
p.register(fd, select.POLLIN)
assert p.poll(100) == []
if os.fork() == 0:
    with open(sys.argv[2], "w") as f:
        f.write("echo > go")
    os._exit(0)
assert p.poll(60000) == [(fd, select.POLLIN)], "poll was not told"
assert os.read(fd, 10) == b"7\n"
assert os.read(fd, 10) == b""
assert p.poll(0) == [(fd, select.POLLIN)]
again = os.open(sys.argv[1], os.O_RDONLY)
p.register(again, select.POLLIN)
assert sorted(p.poll(0)) == sorted([(fd, select.POLLIN), (again, select.POLLIN)])
assert select.select([again], [], [], 0)[0] == [again]
assert open(sys.argv[1]).read() == "7\n"
os.wait()
PY
  is "$(cat "$J/x/wait")" 7
  is "$("$bb" cat "$J/x/wait")" 7
  cp "$J/x/wait" "$BATS_TEST_TMPDIR/1"
  dd if="$J/x/wait" of="$BATS_TEST_TMPDIR/2" status=none
  is "$(cat "$BATS_TEST_TMPDIR"/[12])" $'7\n7'
  is "$(head -c 1 "$J/x/wait")" 7
}

# stubborn: jobs whose processes do what they can to outlive a timeout; returns when all have ended.
stubborn() {
  local k
  job fork 'echo one; (sleep 1001; echo no) & sleep 1001'
  job setsid 'echo one; setsid sleep 1001; echo no'
  job double 'echo one; (setsid sh -c "sleep 1001 & exec sleep 1001" &); sleep 1001'
  job nohup 'echo one; trap "" HUP INT; (setsid sleep 1001 </dev/null >/dev/null 2>&1 &); sleep 1001; echo no'
  job trap 'trap "" TERM; echo one; while :; do sleep 1001; done'
  job stop 'echo one; sleep 1001 & kill -STOP $$'
  job many 'seq 100000; sleep 1001'
  for k in fork setsid double nohup trap stop many; do
    is "$k $(cat "$J/$k/wait")" "$k 124" || return 1
  done
}

# all_gone_by SECONDS: no job took longer, which after a timeout is until its last process was gone.
all_gone_by() {
  sed -s -n 's/^wall_seconds: //p' "$J"/*/summary | awk -v limit="$1" '
    { printf "%s ", $1 } $1 > limit { late = 1 } END { print "seconds"; exit late || NR < 7 }'
}

@test "a timeout ends every descendant: 124, timeout, the output until then" {
  local k try
  echo 5 >"$C/timeout"     # which is enough for all that they print
  for try in 1 2 3 4 5; do # a busy machine may be late
    stubborn
    no_process 'sleep 1001'
    ! all_gone_by 8 || break
    ((try < 5))
    rmdir "$J"/{fork,setsid,double,nohup,trap,stop,many}
  done
  for k in fork setsid double nohup trap stop; do
    is "$(cat "$J/$k/result" "$J/$k/exit_code")" $'timeout\n124'
    is "$(head -n 1 "$J/$k/stdout")" one
    [[ $(cat "$J/$k/stdout") != *no* ]]
  done
  is "$(sha256sum <"$J/many/stdout")" "$(seq 100000 | sha256sum)"
  # A command that ends in time is not touched, and what it leaves behind lives on.
  ex demo 'sleep 1003 & echo fine'
  is "$(cat "$C/result")" success
  # The same in the foreground.
  ex demo 'echo fg; setsid sleep 1002'
  is "$(cat "$C/result" "$C/exit_code" "$C/stdout")" $'timeout\n124\nfg'
  no_process 'sleep 1002'
  ! no_process 'sleep 1003' || false
  rmdir "$J/$(basename "$(ls -d "$J"/[0-9]* | head -n 1)")" # the one that left it
  no_process 'sleep 1003'
}

@test "signals go to the whole tree at once, by name or number" {
  job x 'trap "echo usr1" USR1; trap "echo hup" HUP; (trap "echo child" USR1; echo up; while :; do sleep 0.05; done) & while :; do sleep 0.05; done'
  wait_for 90 holds "$J/x/stdout" up
  echo USR1 >"$J/x/signal"
  wait_for 90 holds "$J/x/stdout" usr1
  wait_for 90 holds "$J/x/stdout" child
  echo 1 >"$J/x/signal"
  wait_for 90 holds "$J/x/stdout" hup
  echo sigterm >"$J/x/signal"
  is "$(cat "$J/x/wait" "$J/x/result")" $'143\nsignal'
  job y 'sleep 1001 & setsid sleep 1001 & wait'
  wait_for 90 holds "$J/y/result" running
  echo SIGKILL >"$J/y/signal"
  is "$(cat "$J/y/wait")" 137
  wait_for 90 no_process 'sleep 1001'
}

@test "stdin: before the start a file, live with pipe; rm stdin is its end" {
  local n=3000000 status=0
  echo 'for the next' >"$C/stdin"
  echo 'command' >>"$C/stdin"
  is "$(cat "$C/stdin")" $'for the next\ncommand'
  is "$(out demo cat)" $'for the next\ncommand'
  is "$(out demo 'cat; echo end')" end
  mkdir "$J/file"
  head -c $n /dev/urandom | tee "$J/file/stdin" | sha256sum >"$BATS_TEST_TMPDIR/sum"
  is "$(stat -c %s "$J/file/stdin")" $n
  is "$(sha256sum <"$J/file/stdin")" "$(cat "$BATS_TEST_TMPDIR/sum")"
  echo sha256sum >"$J/file/exec"
  is "$(cat "$J/file/wait" "$J/file/stdout")" $'0\n'"$(cat "$BATS_TEST_TMPDIR/sum")"

  mkdir "$J/live"
  echo pipe >"$J/live/tty"
  echo first >"$J/live/stdin"
  echo 'while read -r x; do echo "got $x"; done; echo end' >"$J/live/exec"
  wait_for 90 holds "$J/live/stdout" first
  echo second >"$J/live/stdin"
  wait_for 90 holds "$J/live/stdout" second
  is "$(cat "$J/live/result")" running
  rm "$J/live/stdin"
  is "$(cat "$J/live/wait" "$J/live/stdout")" $'0\ngot first\ngot second\nend'
  is "$(error_of "$J/live/stdin" x)" EPIPE

  # Who does not read holds the writer up, until that is interrupted.
  mkdir "$J/full"
  echo pipe >"$J/full/tty"
  echo 'read x; cat > /dev/null; echo all' >"$J/full/exec"
  timeout -s INT 2 bash -c "cat /dev/zero > '$J/full/stdin'" || status=$?
  is $status 124
  printf '\n' >"$J/full/stdin"
  rm "$J/full/stdin"
  is "$(cat "$J/full/wait" "$J/full/stdout")" $'0\nall'
}

@test "ctl/stdin is the sandbox's: it outlives the daemon, and two mounts show the same" {
  local n other=$MNT
  echo one >"$C/stdin"
  remount
  is "$(stat -c %s "$C/stdin") $(cat "$C/stdin")" '4 one'
  echo two >>"$C/stdin"
  is "$(out demo cat)" $'one\ntwo'
  is "$(stat -c %s "$C/stdin")" 0
  # Sizes around those of the reads by which it is found.
  for n in 65535 65536 65537 131072 300001; do
    head -c $n /dev/zero >"$C/stdin"
    is "$(stat -c %s "$C/stdin")" $n
  done
  mount_sbx
  is "$(wc -c <"$MNT/demo/ctl/stdin")" 300001
  is "$(out demo 'wc -c')" 300001
  is "$(stat -c %s "$other/demo/ctl/stdin") $(cat "$other/demo/ctl/stdin")" '0 '
}

@test "a terminal: its size, its input, its end, and resizing" {
  mkdir "$J/x"
  echo 100x30 >"$J/x/tty"
  echo 'test -t 0 && test -t 1 && stty size; read -r x; echo "got $x"; stty size; read -r x || echo end' >"$J/x/exec"
  wait_for 90 holds "$J/x/output" '30 100'
  echo 90x20 >"$J/x/tty"
  is "$(cat "$J/x/tty")" 90x20
  echo line >"$J/x/stdin"
  wait_for 90 holds "$J/x/output" 'got line'
  wait_for 90 holds "$J/x/output" '20 90'
  rm "$J/x/stdin"
  is "$(cat "$J/x/wait")" 0
  holds "$J/x/stdout" end
  is "$(cat "$J/x/stderr")" ""
}

@test "max_wait: the close returns, the command goes on as a job" {
  echo 0.5 >"$C/max_wait"
  ex demo 'echo early; until [ -e go ]; do sleep 0.1; done; echo late; exit 4'
  is "$(cat "$C/result")" running
  wait_for 90 holds "$C/stdout" early
  is "$(cat "$C/stdout")" early
  echo 0 >"$C/max_wait"
  is "$(out demo 'echo beside')" beside
  touch "$MNT/demo/workspace/go"
  is "$(cat "$J/1/wait" "$J/1/stdout")" $'4\nearly\nlate'
}

# In a sandbox as it is by default, of 512 processes: the supervisor and one for the command.
@test "many jobs at once: each has its own settings, output and code" {
  local n=200
  ! short || n=40
  mkdir "$MNT/demo/workspace/d"
  python3 - "$J" $n <<'PY'
import os, sys
jobs, n = sys.argv[1], int(sys.argv[2])
def put(k, name, text):
    with open("%s/j%d/%s" % (jobs, k, name), "w") as f:
        f.write(text)
def get(k, name):
    with open("%s/j%d/%s" % (jobs, k, name)) as f:
        return f.read()
for k in range(n):
    os.mkdir("%s/j%d" % (jobs, k))
    put(k, "env", "N=%d\nM=m%d\n" % (k, k))
    if k % 2:
        put(k, "cwd", "/workspace/d")
    if k % 3 == 0:
        put(k, "user", "user\n")
    put(k, "tty", "pipe\n")
    put(k, "stdin", "in%d\n" % k)
for k in range(n): # the shell alone does all of it
    put(k, "exec", "read x; read go; while read key uid rest; do [ $key != Uid: ] || break; done </proc/self/status; "
        "echo $N $M $x $PWD $uid; echo err$N >&2; exit $((N % 100))")
for k in range(n):
    assert get(k, "result") == "running\n", (k, get(k, "summary"))
for k in range(n):
    put(k, "stdin", "go\n")
for k in range(n):
    assert get(k, "wait") == "%d\n" % (k % 100), (k, get(k, "summary"))
    want = "%d m%d in%d /workspace%s %d\n" % (k, k, k, "/d" if k % 2 else "", 1000 if k % 3 == 0 else 0)
    assert get(k, "stdout") == want, (k, get(k, "stdout"), want)
    assert get(k, "stderr") == "err%d\n" % k
    assert get(k, "output") == want + "err%d\n" % k
    assert get(k, "exit_code") == "%d\n" % (k % 100)
assert len(os.listdir(jobs)) == n + 1
PY
  rm -rf "$J"/j*
  is "$(ls "$J")" ""
}

@test "tail -f follows a job" {
  local k start took=() best
  mkdir "$J/x"
  echo pipe >"$J/x/tty"
  echo 'while read -r x; do echo "line $x"; done' >"$J/x/exec"
  tail -f "$J/x/output" >"$BATS_TEST_TMPDIR/tail" 3>&- &
  for k in {1..30}; do
    start=$(now_ms)
    echo "$k" >"$J/x/stdin"
    wait_for 90 holds "$BATS_TEST_TMPDIR/tail" "line $k\$"
    took+=($(($(now_ms) - start)))
    ((took[-1] >= 1200)) || break
  done
  kill $!
  # tail itself looks once a second, and has just looked when we write. The best: the others may have met a busy machine.
  best=$(printf '%s\n' "${took[@]}" | sort -n | head -n 1)
  echo "followed within ${took[*]} ms"
  ((best < 1200))
}

@test "kill -9 of the daemon while ten jobs count: nothing lost, nothing doubled, the codes arrive" {
  local k
  for k in {0..9}; do
    job "c$k" "i=0; while [ \$i -lt 400 ]; do echo \$i; i=\$((i+1)); [ \$((i % 10)) != 0 ] || sleep 0.05; done; exit $k"
  done
  wait_for 90 holds "$J/c9/stdout" '^50$'
  kill_daemon
  sbx_start "$MNT"
  is "$(ls "$J" | tr '\n' ' ')" "c0 c1 c2 c3 c4 c5 c6 c7 c8 c9 last "
  for k in {0..9}; do
    is "$(cat "$J/c$k/wait")" "$k"
    is "$(cat "$J/c$k/stdout")" "$(seq 0 399)"
  done
}

@test "a stop: ended jobs stay, a running one is lost, and all can be looked at and removed" {
  job 'done' 'echo kept; exit 5'
  is "$(cat "$J/done/wait")" 5
  job run 'echo until; sleep 1001'
  wait_for 90 holds "$J/run/stdout" until
  job gone true
  is "$(cat "$J/gone/wait")" 0
  echo stopped >"$C/state"
  is "$(ls "$J" | tr '\n' ' ')" "done gone last run "
  is "$(cat "$J/done/wait" "$J/done/exit_code" "$J/done/result")" $'5\n5\nexit-code'
  fails_with "transport endpoint shutdown" cat "$J/done/stdout"
  fails_with "transport endpoint shutdown" cat "$J/run/wait"
  rmdir "$J/gone"
  [[ ! -e $J/gone ]]
  is "$(ls -d "$J/done" "$J/run" | wc -l)" 2
  echo running >"$C/state"
  is "$(cat "$J/done/stdout" "$J/done/exit_code")" $'kept\n5'
  is "$(cat "$J/run/stdout")" until
  is "$(cat "$J/run/result")" lost
  is "$(wc -c <"$J/run/exit_code") $(od -An -c "$J/run/wait" | tr -d ' ')" '0 \n'
  wait_for 90 test ! -e "$J/gone"
  echo stopped >"$C/state"
  rm -rf "$MNT/demo"
  not_listed demo
}

@test "a daemon that finds a sandbox stopped does not say that nothing ran there" {
  local f down='Cannot send after transport endpoint shutdown'
  echo stopped >"$C/state"
  is "$(cat "$C/result" "$C/summary")" $'new\nresult: new' # it saw that
  echo running >"$C/state"
  ex demo 'exit 3'
  echo stopped >"$C/state"
  is "$(cat "$C/result" "$C/exit_code")" $'exit-code\n3'
  remount
  for f in result exit_code summary; do
    fails_with "$down" cat "$C/$f"
  done
  ls -l "$C" >/dev/null
  echo running >"$C/state"
  is "$(cat "$C/result" "$C/exit_code")" $'exit-code\n3'
}

@test "thousands of short commands in a row leave nothing behind" {
  local n=10000 room=8192 # KiB of the daemon: .sandboxfs/events fills up meanwhile
  ! short || n=300
  [[ -z ${SBX_SANITIZER:-} ]] || room=400000 # a sanitizer keeps what was freed
  python3 - "$C" $n $room "$(daemon_pid)" "$(box_pid demo)" <<'PY'
import os, sys, time
ctl, n, pids = sys.argv[1], int(sys.argv[2]), sys.argv[4:]
rooms = int(sys.argv[3]), 1024 # the daemon's, the agent's
state = "/proc/%s/root/.sandboxfs/state" % pids[1]
def run(k):
    fd = os.open(ctl + "/exec", os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"echo %d" % k)
    os.close(fd)
    if k % 50 == 0:
        with open(ctl + "/stdout") as f:
            assert f.read() == "%d\n" % k
def sizes():
    out = []
    for p in pids:
        rss = [int(l.split()[1]) for l in open("/proc/%s/status" % p) if l.startswith("VmRSS")][0]
        out.append((len(os.listdir("/proc/%s/fd" % p)), rss, len(os.listdir("/proc/%s/task" % p))))
    return out
def kept():
    return sum(len(dirs) + len(files) for _, dirs, files in os.walk(state))
for k in range(150):
    run(k)
before, kept_before = sizes(), kept()
assert kept_before > 64 # else that is not where they are
start = time.time()
for k in range(n):
    run(k)
took = time.time() - start
def fit(now, files):
    return files <= kept_before + 16 and all( # a job has seven, and may be going
        fds2 <= fds + 4 and rss2 <= rss + room and threads2 <= threads + 12
        for (fds, rss, threads), (fds2, rss2, threads2), room in zip(before, now, rooms))
# What the last command had open is closed just after its end was told.
end = time.time() + 20
after, kept_after = sizes(), kept()
while not fit(after, kept_after) and time.time() < end:
    time.sleep(0.1)
    after, kept_after = sizes(), kept()
print("# %d commands in %.1f s: fds, KiB, threads %s, then %s; files %d, then %d"
      % (n, took, before, after, kept_before, kept_after), file=open(3, "w", closefd=False))
assert fit(after, kept_after), (before, after, kept_before, kept_after)
assert len(os.listdir(ctl + "/jobs")) <= 66
PY
}

@test "ps and stats tell of the sandbox now" {
  job x 'exec sleep 1001'
  wait_for 90 holds "$C/ps" 'sleep 1001'
  is "$(awk '/sleep 1001/ { print $1 }' "$C/ps")" "$(cat "$J/x/pid")"
  grep -Eq '^[a-z_.]+:? [0-9]+' "$C/stats"
  echo stopped >"$C/state"
  is "$(cat "$C/ps" "$C/stats")" ""
}

@test "what a command left in the background outlives seventy others, as part of its job" {
  ex demo 'sleep 1007 & echo up'
  for _ in {1..70}; do ex demo :; done
  is "$(cat "$J/1/stdout" "$J/1/result")" $'up\nsuccess'
  [[ ! -e $J/2 && -e $J/71 ]] # those that left nothing have gone
  [[ $(box_top demo) == *'sleep 1007'* ]]
  rmdir "$J/1"
  no_process 'sleep 1007'
}

@test "kill -9 of the daemon while a command runs in the foreground: it goes on, and its end is there" {
  local writer
  ex demo 'echo a; until [ -e go ]; do sleep 0.1; done; echo b; exit 6' 3>&- &
  writer=$!
  wait_for 90 holds "$C/stdout" a
  kill_daemon
  wait $writer || true
  sbx_start "$MNT"
  is "$(cat "$C/result" "$C/stdout")" $'running\na'
  touch "$MNT/demo/workspace/go"
  is "$(cat "$J/1/wait")" 6
  is "$(cat "$C/stdout" "$C/exit_code")" $'a\nb\n6'
}
