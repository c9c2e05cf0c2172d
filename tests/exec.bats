#!/usr/bin/env bats
# ctl/: the foreground command, contract 4.
# shellcheck disable=SC2016,SC2086

load lib/mount
load lib/assert

setup() {
  mount_sbx
  sandbox demo
  W=$MNT/demo/workspace
  C=$MNT/demo/ctl
}

# idle: no foreground command runs, and none of the sleeps that tests start.
idle() {
  [[ $(cat "$C/result") != running ]] && no_sleeps
}

no_sleeps() {
  [[ $(box_top demo) != *"sleep 10"* ]]
}

@test "stdout, stderr and exit code of a command" {
  ex demo 'echo to-out; echo to-err >&2; exit 7'
  is "$(cat "$C/stdout")" to-out
  is "$(cat "$C/stderr")" to-err
  is "$(cat "$C/output")" $'to-out\nto-err'
  is "$(cat "$C/exit_code")" 7
  is "$(cat "$C/result")" exit-code
  is "$(cat "$C/exec")" 'echo to-out; echo to-err >&2; exit 7'
  is "$(od -An -c "$C/exit_code" | tr -d ' ')" '7\n'
}

@test "output keeps the order of 2000 alternating lines" {
  ex demo 'i=0; while [ $i -lt 1000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done'
  is "$(cat "$C/output")" "$(for i in {0..999}; do printf 'o%d\ne%d\n' $i $i; done)"
  is "$(cat "$C/stdout")" "$(for i in {0..999}; do echo o$i; done)"
  is "$(wc -l <"$C/stderr")" 1000
}

@test "exit codes and results are those of a shell" {
  local code
  for code in 0 1 2 42 255; do
    ex demo "exit $code"
    is "$(cat "$C/exit_code")" $code
    is "$(cat "$C/result")" "$([[ $code == 0 ]] && echo success || echo exit-code)"
  done
  ex demo nosuchcommand
  is "$(cat "$C/exit_code")" 127
  ex demo /etc/passwd
  is "$(cat "$C/exit_code")" 126
  ex demo 'kill -SEGV $$'
  is "$(cat "$C/exit_code" "$C/result")" $'139\nsignal'
  ex demo 'kill -TERM $$'
  is "$(cat "$C/exit_code" "$C/result")" $'143\nsignal'
  ex demo 'kill -KILL $$'
  is "$(cat "$C/exit_code" "$C/result")" $'137\nsignal'
}

@test "argv runs without a shell, and says what could not start" {
  printf '%s\0' echo 'a b' '$HOME' '' "'q'" >"$C/argv"
  is "$(cat "$C/stdout")" "a b \$HOME  'q'"
  is "$(cat "$C/exit_code")" 0
  printf '%s\0' echo no-nul-at-the >"$C/argv"
  printf 'echo\0end' >"$C/argv"
  is "$(cat "$C/stdout")" end
  printf '/nosuch\0' >"$C/argv"
  is "$(cat "$C/exit_code" "$C/result")" $'127\nstart-failed'
  printf '/etc/passwd\0' >"$C/argv"
  is "$(cat "$C/exit_code" "$C/result")" $'126\nstart-failed'
  is "$(od -An -c "$C/argv" | tr -d ' \n')" '/etc/passwd\0'
}

@test "all 256 bytes come through in output, in text and in argv" {
  python3 - "$C" <<'PY'
import sys
c = sys.argv[1]
every = bytes(range(256)) * 300
script = b"printf '" + b"".join(b"\\%03o" % b for b in range(256)) + b"' >x; " \
    b"i=0; while [ $i -lt 300 ]; do cat x; i=$((i+1)); done; cat x >&2"
open(c + "/exec", "wb").write(script)
assert open(c + "/stdout", "rb").read() == every
assert open(c + "/stderr", "rb").read() == bytes(range(256))
some = bytes(b for b in range(1, 256))
open(c + "/argv", "wb").write(b"printf\0%s\0" + some + b"\0")
assert open(c + "/stdout", "rb").read() == some
PY
}

@test "100 MB of output: its size, its head and its tail" {
  local n=104857600
  ex demo "yes 0123456789abcde | head -c $n; printf 'THE END'"
  is "$(stat -c %s "$C/stdout")" $((n + 7))
  is "$(tail -c 23 "$C/stdout")" $'0123456789abcde\nTHE END'
  is "$(head -c 16 "$C/stdout")" 0123456789abcde
  # Every byte that is kept is at its own offset; what was dropped reads as zeros.
  is "$(dd if="$C/stdout" bs=1M count=32 status=none | sort -u)" 0123456789abcde
  is "$(tail -c $((32 * 1024 * 1024 - 32 + 7)) "$C/stdout" | sort -u | wc -l)" 2
  is "$(wc -c <"$C/stdout")" $((n + 7))
  is "$(stat -c %s "$C/output")" $((n + 7))
  is "$(cat "$C/exit_code")" 0
  # summary says where the hole is, to the byte.
  python3 - "$C" $((n + 7)) <<'PY'
import os, re, sys
ctl, size = sys.argv[1], int(sys.argv[2])
summary = open(ctl + "/summary").read()
for name in "stdout", "output":
    first, end = map(int, re.search("^%s_dropped: (\\d+)-(\\d+)$" % name, summary, re.M).groups())
    assert first == 32 << 20 and first < end <= size - (32 << 20), (name, first, end)
    fd = os.open(ctl + "/" + name, os.O_RDONLY)
    for at in first, (first + end) // 2, end - 4096:
        assert os.pread(fd, 4096, at) == bytes(4096), (name, at)
    line = b"0123456789abcde\n"
    for at in first - 16, end:
        assert os.pread(fd, 16, at) == line[at % 16:] + line[:at % 16], (name, at)
PY
}

@test "50 MB of output are kept whole" {
  ex demo 'yes 0123456789abcdef | head -c 50000000'
  is "$(sha256sum <"$C/stdout")" "$(yes 0123456789abcdef | head -c 50000000 | sha256sum)"
}

@test "two writers with one descriptor run one command, with both texts" {
  echo 'echo a >> log' >"$BATS_TEST_TMPDIR/a"
  echo 'echo b >> log' >"$BATS_TEST_TMPDIR/b"
  { cat "$BATS_TEST_TMPDIR/a"; cat "$BATS_TEST_TMPDIR/b"; } >"$C/exec"
  is "$(cat "$W/log")" $'a\nb'
  is "$(cat "$C/exec")" $'echo a >> log\necho b >> log'
  (cat "$BATS_TEST_TMPDIR/a"; echo 'echo c >> log') >"$C/exec"
  is "$(cat "$W/log")" $'a\nb\na\nc'
}

@test "a command runs at the last close of who opened it, not at that of a duplicate" {
  bash -c 'exec 7>"$1"; echo "echo a" >&7; echo "echo b" >&7; exec 7>&-' - "$C/exec"
  is "$(cat "$C/stdout")" $'a\nb'
  python3 - "$C" <<'PY'
import os, sys
ctl = sys.argv[1]
fd = os.open(ctl + "/exec", os.O_WRONLY | os.O_TRUNC)
for k in range(3):
    more = os.dup(fd)
    os.write(more, b"echo %d\n" % k)
    os.close(more)
    assert open(ctl + "/result").read() == "new\n"
reads = os.open(ctl + "/stdout", os.O_RDONLY)
os.close(fd)
assert open(ctl + "/stdout").read() == "0\n1\n2\n"
PY
}

@test "every writer runs the command once, and returns when it has ended" {
  local bb t=$BATS_TEST_TMPDIR/t
  bb=$(host_busybox)
  echo 'sleep 0.2; echo x >> count' >"$t"
  bash -c "echo 'sleep 0.2; echo x >> count' > '$C/exec'"
  is "$(wc -l <"$W/count")" 1
  dash -c "echo 'sleep 0.2; echo x >> count' > '$C/exec'"
  is "$(wc -l <"$W/count")" 2
  "$bb" sh -c "echo 'sleep 0.2; echo x >> count' > '$C/exec'"
  is "$(wc -l <"$W/count")" 3
  python3 -c 'import sys; open(sys.argv[1], "w").write("sleep 0.2; echo x >> count")' "$C/exec"
  is "$(wc -l <"$W/count")" 4
  tee "$C/exec" <"$t" >/dev/null
  is "$(wc -l <"$W/count")" 5
  dd of="$C/exec" if="$t" status=none
  is "$(wc -l <"$W/count")" 6
  cat "$t" >"$C/exec"
  is "$(wc -l <"$W/count")" 7
  cp "$t" "$C/exec"
  is "$(wc -l <"$W/count")" 8
  "$bb" cp "$t" "$C/exec"
  is "$(wc -l <"$W/count")" 9
  python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
if os.fork() == 0:
    os.write(fd, b"sleep 0.2; ")
    os._exit(0)
os.wait()
os.write(fd, b"echo x >> count")
os.close(fd)' "$C/exec"
  is "$(wc -l <"$W/count")" 10
  echo 'sleep 0.2; echo x' >"$C/exec" && cat "$C/stdout" >>"$W/count"
  is "$(wc -l <"$W/count")" 11
}

@test "an open that is followed by the opener's exit is run by the last close" {
  python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
if os.fork():
    os._exit(0)
os.write(fd, b"echo x >> count")' "$C/exec"
  wait_for 90 test -s "$W/count"
  sleep 0.3 # a second run would show by then
  is "$(wc -l <"$W/count")" 1
}

# value KEY: of the summary
value() {
  sed -n "s/^$1: //p" "$C/summary"
}

@test "summary shows it all at a glance" {
  ex demo 'echo visible; exit 3'
  grep -Eq '^command: echo visible; exit 3$' "$C/summary"
  grep -Eq '^result: exit-code$' "$C/summary"
  grep -Eq '^exit[ _]code: 3$' "$C/summary"
  grep -Eq '^wall.*: [0-9.]+' "$C/summary"
  is "$(sed '1,/^$/d' "$C/summary")" visible
  # Head and tail of a long output, with words between.
  ex demo 'seq 200000'
  python3 - "$C/summary" <<'PY'
import re, sys
body = open(sys.argv[1]).read().split("\n\n", 1)[1]
whole = "".join("%d\n" % k for k in range(1, 200001))
head, left, tail = re.fullmatch(r"(.*)\n\[\.\.\. (\d+) bytes left out; see output \.\.\.\]\n(.*)", body, re.S).groups()
assert head and whole.startswith(head) and tail and whole.endswith(tail), body
assert len(head) + len(tail) <= 16384 and len(head) + int(left) + len(tail) == len(whole)
PY
  # The kernel's account: 8 MB, then a loop until the shell's own user time (the 14th field) is 0.3 seconds.
  ex demo 'x=$(head -c 8000000 /dev/zero | tr "\0" x)
    used() { read -r line </proc/self/stat; set -- $line; [ "${14}" -ge 30 ]; }
    until used; do i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done; done
    echo 12345; echo err >&2'
  is "$(cat "$C/exit_code")" 0
  is "$(value stdout_bytes) $(value stderr_bytes) $(value output_bytes)" '6 4 10'
  (($(value peak_memory_bytes) > 8000000))
  awk -v user="$(value user_seconds)" -v sys="$(value system_seconds)" -v wall="$(value wall_seconds)" \
    'BEGIN { print user, sys, wall; exit !(user > 0.1 && sys >= 0 && wall > 0.1 && user < 2 * wall) }'
}

@test "EBUSY while another foreground command runs" {
  ex demo 'until [ -e go ]; do sleep 0.05; done; echo first' &
  wait_for 90 grep -q running "$C/result"
  fails_with "Device or resource busy" bash -c "echo 'echo second' > '$C/exec'"
  is "$(sed 's/^message: .*/message/' "$C/error")" $'code: EBUSY\nop: exec\nretryable: yes\nmessage'
  fails_with "Device or resource busy" bash -c "printf 'echo' > '$C/argv'"
  : >"$W/go"
  wait $!
  is "$(cat "$C/stdout")" first
}

@test "a command that could not be started keeps no other from running" {
  local state
  for state in paused stopped; do
    python3 - "$C" $state <<'PY'
import errno, os, sys
ctl, state = sys.argv[1:]
def put(text):
    with open(ctl + "/state", "w") as f: f.write(text)
fd = os.open(ctl + "/exec", os.O_WRONLY | os.O_TRUNC)
os.write(fd, b"echo never >> ran")
put(state)
try:
    os.close(fd)
    sys.exit("it was closed as if it had run")
except OSError as e:
    assert e.errno == errno.ESHUTDOWN, e
put("running")
PY
    is "$(out demo "echo $state | tee -a ran")" $state
  done
  is "$(cat "$W/ran")" $'paused\nstopped'
}

@test "output can be read while the command runs" {
  ex demo 'echo early; until [ -e go ]; do sleep 0.05; done; echo late' &
  wait_for 90 grep -q early "$C/stdout"
  is "$(cat "$C/stdout")" early
  is "$(cat "$C/result")" running
  is "$(cat "$C/exit_code")" ""
  : >"$W/go"
  wait $!
  is "$(cat "$C/stdout")" $'early\nlate'
}

@test "kill -9 of the writer kills the whole tree, setsid children too" {
  bash -c "echo 'sleep 1001 & setsid sleep 1002 & (setsid sh -c \"sleep 1003 & sleep 1004\" &) ; sleep 1005' > '$C/exec'" &
  wait_for 90 grep -q running "$C/result"
  sleep 0.5
  kill -KILL $!
  wait $! || true
  wait_for 90 idle
  is "$(out demo 'echo free')" free
}

@test "Ctrl-C in the writer kills the whole tree" {
  local status=0
  timeout -s INT 1 bash -c "echo 'trap \"\" INT TERM; setsid sleep 1001 & sleep 1002' > '$C/exec'" || status=$?
  is $status 124
  wait_for 90 idle
  is "$(out demo 'echo free')" free
}

@test "a writer killed half way through starts nothing" {
  python3 -c 'import os, sys
f = open(sys.argv[1], "wb", buffering=0)
f.write(b"touch started; ")
os.kill(os.getpid(), 9)' "$C/exec" || true
  sleep 0.5
  [[ ! -e $W/started ]]
  is "$(out demo 'echo free')" free
}

@test "a signal that does not kill the writer does not kill the command" {
  bash -c "sleep 0.3 & echo 'sleep 1; echo done > f' > '$C/exec'"
  is "$(cat "$W/f")" 'done'
  is "$(cat "$C/exit_code")" 0
  python3 -c 'import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *a: None)
writer = os.getpid()
if os.fork() == 0:
    for i in range(5):
        time.sleep(0.15)
        if os.getppid() != writer: # it has ended; who adopted us is not meant
            break
        os.kill(writer, signal.SIGUSR1)
    os._exit(0)
f = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
os.write(f, b"sleep 1; echo again > f")
os.close(f)' "$C/exec"
  is "$(cat "$W/f")" again
}

@test "a script of 10 MB runs, and one with #! runs by its interpreter" {
  python3 -c 'import sys
with open(sys.argv[1], "w") as f:
    f.write("x=1\n" + ": a line that does nothing at all, for size\n" * 250000 + "echo end $x\n")' "$C/exec"
  is "$(cat "$C/stdout")" 'end 1'
  (($(stat -c %s "$C/exec") > 10000000))
  printf '#!/bin/cat\nshown\n' >"$C/exec"
  is "$(cat "$C/stdout")" $'#!/bin/cat\nshown'
  printf '#!/usr/bin/env awk -f\nBEGIN { print 6 * 7 }\n' >"$C/exec" || true
  printf '#!/bin/awk -f\nBEGIN { print 6 * 7 }\n' >"$C/exec"
  is "$(cat "$C/stdout")" 42
  printf '#!/nosuch\n' >"$C/exec"
  is "$(cat "$C/exit_code" "$C/result")" $'127\nstart-failed'
}

@test "opening for writing empties the results; writing nothing runs nothing" {
  ex demo 'echo old; touch ran'
  rm "$W/ran"
  : >"$C/exec"
  is "$(cat "$C/stdout")" ""
  is "$(cat "$C/exit_code")" ""
  is "$(cat "$C/result")" new
  [[ ! -e $W/ran ]]
  ex demo 'echo old'
  exec 7>"$C/exec"
  is "$(stat -c %s "$C/stdout")" 0
  exec 7>&-
  is "$(out demo 'echo new')" new
}

@test "every reader sees every byte of stdout" {
  local n=300001 bb sum
  bb=$(host_busybox)
  ex demo "yes 0123456 | head -c $n"
  sum=$(yes 0123456 | head -c $n | sha256sum)
  is "$(stat -c %s "$C/stdout")" $n
  is "$(sha256sum <"$C/stdout")" "$sum"
  # shellcheck disable=SC2002 # cat is what is tested
  is "$(cat "$C/stdout" | sha256sum)" "$sum"
  is "$(wc -c <"$C/stdout")" $n
  is "$(wc -c "$C/stdout" | cut -d' ' -f1)" $n
  is "$(head -c $n "$C/stdout" | sha256sum)" "$sum"
  is "$(tail -c $n "$C/stdout" | sha256sum)" "$sum"
  is "$(tail -c +1 "$C/stdout" | sha256sum)" "$sum"
  is "$("$bb" cat "$C/stdout" | sha256sum)" "$sum"
  cp "$C/stdout" "$BATS_TEST_TMPDIR/1"
  "$bb" cp "$C/stdout" "$BATS_TEST_TMPDIR/2"
  python3 -c 'import shutil, sys
shutil.copyfile(sys.argv[1], sys.argv[2])
assert len(open(sys.argv[1], "rb").read()) == int(sys.argv[3])' "$C/stdout" "$BATS_TEST_TMPDIR/3" $n
  dd if="$C/stdout" of="$BATS_TEST_TMPDIR/4" bs=1000 status=none
  is "$(cat "$BATS_TEST_TMPDIR/"{1,2,3,4} | wc -c)" $((4 * n))
  is "$(for i in 1 2 3 4; do sha256sum <"$BATS_TEST_TMPDIR/$i"; done | sort -u)" "$sum"
  for f in exit_code result summary state config.json error; do
    is "$(stat -c %s "$C/$f")" "$(wc -c <"$C/$f")"
    is "$("$bb" cat "$C/$f" | wc -c)" "$(stat -c %s "$C/$f")"
  done
}

@test "a command that leaves children behind has ended when its own process has" {
  local start
  start=$(now_ms)
  ex demo 'sleep 1000 & echo $!'
  (($(now_ms) - start < 100000))
  is "$(cat "$C/exit_code")" 0
  is "$(out demo 'echo next')" next
}

@test "kill -9 -1 in a command loses neither output nor the sandbox" {
  # The kernel spares who calls: here a subshell, so that the command is among the killed, and its supervisor.
  ex demo 'echo before; (kill -9 -1); echo after'
  is "$(cat "$C/stdout" "$C/result" "$C/exit_code")" $'before\nsignal\n137'
  ex demo 'echo before; kill -9 -1; echo after; exit 5'
  is "$(cat "$C/stdout" "$C/result" "$C/exit_code")" $'before\nafter\nexit-code\n5'
  is "$(out demo 'echo alive')" alive
}

@test "a command starts in the workspace, with the end of file as its standard input" {
  is "$(out demo 'pwd; cat; echo $?')" $'/workspace\n0'
}

# at_work I: commands in the sandbox boxI, by settings of its own.
at_work() {
  local i=$1 c=$MNT/box$1/ctl j cwd=/workspace uid=0
  ((i % 2)) || cwd=/tmp
  ((i % 3)) || uid=1000
  echo "N=$i" >"$c/env" && echo $cwd >"$c/cwd" && echo $uid >"$c/user" || return 1
  for j in {1..10}; do
    ex "box$i" "echo \$N.$j \$PWD \$(id -u); echo err$i.$j >&2; exit $((i + 10 * j))" || return 1
    is "$(cat "$c/stdout" "$c/stderr" "$c/exit_code")" \
      "$i.$j $cwd $uid"$'\n'"err$i.$j"$'\n'"$((i + 10 * j))" || return 1
  done
}

@test "commands in many sandboxes do not mix" {
  local i n=20 pids=()
  ! short || n=4
  for ((i = 1; i <= n; i++)); do mkdir "$MNT/box$i"; done
  for ((i = 1; i <= n; i++)); do
    at_work $i &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i"; done
  rmdir "$MNT"/box*
}
