#!/usr/bin/env bats
# sandboxfs-exec and sandboxfs-shell: a command in a sandbox as if it ran here, and a terminal.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

setup_file() {
  sbx_image_debian
}

setup() {
  TOOLS=$(dirname "$SANDBOXFS")/../tools
  TMUX_SOCKET=$BATS_TEST_TMPDIR/tmux
}

teardown() {
  [[ -z ${PID:-} ]] || kill -KILL "$PID" 2>/dev/null || true
  [[ ! -S $TMUX_SOCKET ]] || tmux -S "$TMUX_SOCKET" kill-server || true
  sbx_teardown
}

sx() {
  "$TOOLS/sandboxfs-exec" "$@"
}

jobs_of() {
  ls "$MNT/$1/ctl/jobs"
}

@test "sandboxfs-exec: streams, arguments, settings, the exit code; nothing left behind" {
  mount_sbx
  sandbox demo
  local box=$MNT/demo
  is "$(sx "$box" echo 'one  argument' two)" 'one  argument two'
  sx "$box" sh -c 'echo out; echo err >&2' >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
  is "$(<"$BATS_TEST_TMPDIR/out")" out
  is "$(<"$BATS_TEST_TMPDIR/err")" err
  run -7 sx "$box" sh -c 'exit 7'
  run -137 sx "$box" sh -c 'kill -9 $$'
  run -127 sx "$box" nothing-of-that-name
  has "$output" 'nothing-of-that-name: not found'
  run -124 sx -t 0.3 "$box" sleep 60
  is "$(sx -u user -w /tmp -e A=1 -e B='x y' "$box" sh -c 'echo $(id -un) $PWD $A "$B"')" 'user /tmp 1 x y'
  run -125 sx -u nobody-here "$box" true
  has "$output" nobody-here
  run -125 sx "$MNT/none" true
  run -125 sx -e $'A=1\nB=2' "$box" true
  # What a command prints is not taken for words about it, however long its own are.
  is "$(sx "$box" echo 'message: its own' 2>&1)" 'message: its own'
  run -127 sx "$box" nothing-of-that-name "$(printf %05000d 0)"
  has "$output" 'nothing-of-that-name: not found'
  # What it left running may print for ever.
  sx -n "$box" sh -c 'yes & exit 0' >"$BATS_TEST_TMPDIR/out"
  is "$(jobs_of demo)" ''
}

@test "sandboxfs-exec: standard descriptors that are closed, full, or do not wait" {
  mount_sbx
  sandbox demo
  local box=$MNT/demo status=0
  is "$(sx "$box" sh -c 'cat; echo end' <&-)" end
  is "$(sx -n "$box" sh -c 'echo out; echo err >&2' 2>&1 >&-)" err
  sx -n "$box" echo x >/dev/full 2>"$BATS_TEST_TMPDIR/err" || status=$?
  is "$status" 125
  has "$(<"$BATS_TEST_TMPDIR/err")" 'stdout: No space left on device'
  python3 - "$TOOLS/sandboxfs-exec" "$box" <<'PY'
import os, subprocess, sys
give, take = os.pipe(), os.pipe()
for fd in give[0], take[1]:
    os.set_blocking(fd, False)
p = subprocess.Popen(sys.argv[1:] + ["sh", "-c", "head -c 1000000 /dev/zero; cat"], stdin=give[0], stdout=take[1])
os.close(give[0])
os.close(take[1])
out = open(take[0], "rb")
assert out.read(1) == b"\0"  # it has found no input by now
os.write(give[1], b"input")
os.close(give[1])
assert out.read() == bytes(999999) + b"input"
assert p.wait() == 0
PY
}

@test "sandboxfs-exec: input, to its end, and none with -n" {
  mount_sbx
  sandbox demo
  head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/bytes"
  sx "$MNT/demo" cat <"$BATS_TEST_TMPDIR/bytes" >"$BATS_TEST_TMPDIR/back"
  same "$BATS_TEST_TMPDIR/bytes" "$BATS_TEST_TMPDIR/back"
  is "$(echo given | sx -n "$MNT/demo" sh -c 'cat; echo end')" end
  # The reader may stop before the input does, and the reader of its output before the command.
  is "$(yes | sx "$MNT/demo" head -n 2 | wc -l)" 2
  is "$(sx "$MNT/demo" yes </dev/null | head -n 3 | wc -l)" 3
  is "$({ sx -n "$MNT/demo" sh -c 'yes | head -c 300000' | head -n 1; } 2>&1)" y
  is "$(jobs_of demo)" ''
}

@test "sandboxfs-exec shows output as it comes, and answers to signals" {
  mount_sbx
  sandbox demo
  local line pid to status=0
  # A conversation: each line comes back before the next is sent.
  coproc sx "$MNT/demo" sh -c 'while read -r l; do echo "got $l"; done'
  to=${COPROC[1]}
  for i in 1 2 3; do
    echo "$i" >&"$to"
    read -r -t 60 line <&"${COPROC[0]}"
    is "$line" "got $i"
  done
  exec {to}>&-
  wait "$COPROC_PID"
  # The program itself: a signal to a shell's function would end the shell.
  "$TOOLS/sandboxfs-exec" -n "$MNT/demo" sh -c 'trap "echo caught; exit 3" TERM; trap "echo INT" INT; echo ready; while :; do sleep 0.1; done' \
    >"$BATS_TEST_TMPDIR/out" &
  pid=$!
  wait_for 60 grep -q ready "$BATS_TEST_TMPDIR/out"
  kill -INT $pid # which a shell has what is in its background ignore
  kill -TERM $pid
  wait $pid || status=$?
  is "$status" 3
  is "$(<"$BATS_TEST_TMPDIR/out")" $'ready\ncaught'
  is "$(jobs_of demo)" ''
  # Nor does it wait for a sandbox that has gone.
  sx -n "$MNT/demo" sh -c 'echo again; sleep 600' >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" &
  pid=$!
  wait_for 60 grep -q again "$BATS_TEST_TMPDIR/out"
  rmdir "$MNT/demo"
  wait_for 60 engine_ended $pid
  status=0
  wait $pid || status=$?
  is "$status" 125
  has "$(<"$BATS_TEST_TMPDIR/err")" 'how it ended is not known'
}

# stuck [OPTIONS] SANDBOX COMMAND...: in the background, with an output that nobody reads until HOLD is closed and
# somebody else has the FIFO open; what it says is in the file err. Sets PID.
stuck() {
  FIFO=$BATS_TEST_TMPDIR/fifo ERR=$BATS_TEST_TMPDIR/err
  mkfifo "$FIFO"
  exec {HOLD}<>"$FIFO"
  env --default-signal=INT,QUIT "$TOOLS/sandboxfs-exec" "$@" >"$FIFO" 2>"$ERR" {HOLD}>&- &
  PID=$!
}

# last_is NAME RESULT: of the sandbox's newest job
last_is() {
  [[ $(cat "$MNT/$1/ctl/jobs/last/result") == "$2" ]]
}

@test "sandboxfs-exec: signals and stderr do not wait for who reads stdout" {
  mount_sbx
  sandbox demo
  local status=0 sig
  stuck -n "$MNT/demo" sh -c 'for s in HUP INT QUIT USR1 USR2; do trap "echo got $s >&2" $s; done
    yes | head -c 1000000; echo printed >&2; while :; do sleep 0.1; done'
  wait_for 60 grep -q printed "$ERR"
  for sig in USR1 USR2 INT QUIT HUP; do
    kill -$sig $PID
    wait_for 60 grep -q "got $sig" "$ERR"
  done
  kill -TERM $PID
  wait_for 90 engine_ended $PID
  wait $PID || status=$?
  PID=
  is "$status" 125
  has "$(<"$ERR")" 'stdout: cut off after '
  has "$(<"$ERR")" 'exit status: 143'
  is "$(jobs_of demo)" ''
}

@test "sandboxfs-exec prints no zeros for what was dropped before it was read, and says so" {
  template small '{"image": "busybox:test", "x-sandboxfs": {"output_limit": "256k"}}'
  mount_sbx "templates=$TEMPLATES"
  sandbox small@demo
  local status=0 reader out=$BATS_TEST_TMPDIR/out words n=4000000
  stuck -n "$MNT/small@demo" sh -c "yes 0123456789abcde | head -c $n; exit 7"
  wait_for 60 last_is small@demo exit-code
  cat "$FIFO" >"$out" {HOLD}>&- &
  reader=$!
  wait_for 60 test -s "$out" # it has the FIFO open
  exec {HOLD}>&-
  wait $PID || status=$?
  PID=
  wait $reader
  is "$status" 125
  is "$(tr -d '\0' <"$out" | wc -c)" "$(stat -c %s "$out")"
  is "$(sort -u "$out")" 0123456789abcde
  words='stdout: ([0-9]+) bytes between ([0-9]+) and ([0-9]+) are left out'
  [[ $(<"$ERR") =~ $words ]]
  is $((BASH_REMATCH[1] + $(stat -c %s "$out"))) $n
  ((BASH_REMATCH[2] >= 128 * 1024 && BASH_REMATCH[3] <= n - 128 * 1024))
  has "$(<"$ERR")" 'exit status: 7'
  # Zeros of the command's own are printed.
  is "$(sx -n "$MNT/small@demo" head -c 200000 /dev/zero | tr -d '\1' | wc -c)" 200000
  is "$(jobs_of small@demo)" ''
}

# --- terminals -----------------------------------------------------------------------------------

tm() {
  tmux -S "$TMUX_SOCKET" "$@"
}

# terminal COMMAND...: in a tmux of 80x24.
terminal() {
  LC_ALL=C.UTF-8 tmux -S "$TMUX_SOCKET" -f /dev/null new-session -d -x 80 -y 24 "$*; echo status \$?; exec sleep 600"
}

screen() {
  tm capture-pane -p
}

shows() {
  [[ $(screen) == *"$1"* ]]
}

# until_shows TEXT: within a minute; else the screen is printed.
until_shows() {
  wait_for 60 shows "$1" || {
    echo "the screen has no $1:"
    screen
    return 1
  }
}

# The size reaches the terminal inside when it does.
sized() {
  tm send-keys 'clear; stty size' Enter
  shows "$1"
}

begins() {
  [[ $(screen) == "$1"* ]]
}

# Whether the shell reads what is typed: what is typed before may be thrown away by the program that ends.
prompts() {
  tm send-keys Enter
  (($(screen | grep -c 'workspace#$') >= 2))
}

@test "sandboxfs-shell: a prompt, job control, the window's size, the exit code" {
  mount_sbx
  sandbox demo
  terminal "PS1='$ ' $TOOLS/sandboxfs-shell $MNT/demo"
  until_shows '/workspace'
  tm send-keys 'stty size; tty' Enter
  until_shows '24 80'
  until_shows /dev/pts/
  tm resize-window -x 100 -y 30
  wait_for 60 sized '30 100'
  tm send-keys 'clear; echo all  read' Enter # by the shell, of what was typed
  until_shows 'all read'
  # Ctrl-C ends what runs in it, not the shell; Ctrl-D ends the shell.
  tm send-keys 'sleep 1000' Enter
  wait_for 60 grep -q 'sleep 1000' "$MNT/demo/ctl/ps"
  tm send-keys C-c
  wait_for 60 eval '! grep -q "sleep 1000" "$MNT/demo/ctl/ps"'
  tm send-keys 'echo code $?' Enter
  until_shows 'code 130'
  tm send-keys 'exit 9' Enter
  until_shows 'status 9'
  is "$(jobs_of demo)" ''
  run -125 "$TOOLS/sandboxfs-shell" "$MNT/demo" </dev/null
  has "$output" terminal
}

# drawn_by_top: the whole screen: its lines about the machine, the heading, as many processes as
# it counts, each in its columns, PID 1, the shell and itself among them, and nothing below.
drawn_by_top() {
  local n=' *[0-9.]+' lines i tasks row shapes
  shapes=("top - [0-9:]+ up .*, $n users?,  load average: [0-9., ]+"
    "Tasks:$n total,$n running,$n sleeping,$n stopped,$n zombie"
    "%Cpu\\(s\\):$n us,$n sy,$n ni,$n id,$n wa,$n hi,$n si,$n st"
    "MiB Mem :$n total,$n free,$n used,$n buff/cache"
    "MiB Swap:$n total,$n free,$n used\\.$n avail Mem"
    ''
    '    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME\+ COMMAND')
  mapfile -t lines < <(screen)
  ((${#lines[@]} == 24)) || return 1
  for i in "${!shapes[@]}"; do
    [[ ${lines[i]} =~ ^${shapes[i]}$ ]] || return 1
  done
  tasks=${lines[1]#Tasks:} tasks=$((${tasks%%total*}))
  for row in "${lines[@]:7:tasks}"; do
    [[ $row =~ ^\ {0,6}[0-9]+\ [a-z]+\ +[-rt0-9]+\ +-?[0-9]+(${n}[mgt]?){3}\ [RSDI]($n){2}\ +[0-9]+:[0-9.]+\ [a-z0-9]+$ ]] || return 1
  done
  row=$(printf '%s\n' "${lines[@]:7:tasks}")
  [[ -z $(printf %s "${lines[@]:7+tasks}") ]] &&
    grep -q '^ *1 root .* agent$' <<<"$row" && grep -q ' bash$' <<<"$row" && grep -q ' R .* top$' <<<"$row"
}

@test "vim, top and a password prompt work in sandboxfs-shell" {
  template deb '{"image": "debian:test"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox deb@box
  local want
  terminal "$TOOLS/sandboxfs-shell $MNT/deb@box"
  until_shows '#'
  # Without questions to the terminal: vim shows no mode when an answer comes at the wrong moment.
  tm send-keys 'vim.tiny -u NONE -N --cmd "set t_RV= t_u7=" +startinsert file' Enter
  until_shows '-- INSERT --'
  tm send-keys 'hello there' Enter 'second line' Escape ':1' Enter 'x:w' Enter
  until_shows 'written'
  # The whole screen but for the last line, which says what was done.
  want=$(printf 'ello there\nsecond line\n' && for ((i = 0; i < 21; i++)); do echo '~'; done)
  is "$(screen | head -n 23)" "$want"
  is "$(cat "$MNT/deb@box/workspace/file")" $'ello there\nsecond line'
  tm send-keys ':q' Enter
  wait_for 60 prompts
  tm send-keys 'clear; top' Enter
  wait_for 60 drawn_by_top || {
    screen
    return 1
  }
  tm send-keys q
  wait_for 60 prompts
  tm send-keys 'clear; python3 -c "import getpass; print(len(getpass.getpass(\"Secret: \")), \"letters\")"' Enter
  wait_for 60 begins Secret:
  tm send-keys 'xyzzy-plugh' Enter
  until_shows '11 letters'
  [[ $(screen) != *xyzzy* ]]
  tm send-keys 'exit' Enter
  until_shows 'status 0'
}
