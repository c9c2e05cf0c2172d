#!/usr/bin/env bats
# The settings of ctl/ and of jobs, contract 4: one write, one value, and its error is the write's.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

setup() {
  template default '{"image": "busybox:test", "environment": {"T": "template", "GONE": "not yet"}}'
  template bound '{"image": "busybox:test", "cap_drop": ["SETUID", "SETGID"]}'
  mount_sbx "templates=$TEMPLATES"
  sandbox demo
  C=$MNT/demo/ctl
}

# error_of FILE TEXT: writes it with one write(2) and prints the name of its errno, or "ok".
error_of() {
  python3 -c 'import errno, os, sys
try:
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
    os.write(fd, os.fsencode(sys.argv[2]))
    print("ok")
except OSError as e:
    print(errno.errorcode[e.errno])' "$1" "$2"
}

# settles FILE TEXT: what the last close of a file does comes just after it.
settles() {
  wait_for 90 shows "$1" "$2"
}

shows() {
  [[ $(cat "$1") == "$2" ]]
}

@test "settings read as their defaults, take values, and commands run by them" {
  local name
  is "$(cat "$C"/{timeout,max_wait,user,cwd,env,shell})" $'0\n0\nroot\n/workspace\nsh\n-c'
  for name in timeout max_wait user cwd env shell; do
    is "$(stat -c '%s %a' "$C/$name")" "$(wc -c <"$C/$name") 600"
  done
  echo user >"$C/user"
  echo /tmp >"$C/cwd"
  is "$(out demo 'echo "$T $GONE"')" 'template not yet'
  printf 'A=one\nB=two words\nPATH\nGONE\n' >"$C/env"
  is "$(cat "$C/user" "$C/cwd" "$C/env")" $'user\n/tmp\nA=one\nB=two words\nPATH\nGONE'
  is "$(out demo 'echo "$(id -un) $(id -G) $PWD $A $B"')" 'user 1000 2000 /tmp one two words'
  printf '/bin/env\0' >"$C/argv" # a shell would give itself a PATH
  is "$(grep -cE '^(PATH|GONE)' "$C/stdout")" 0
  is "$(grep -E '^[ABT]=' "$C/stdout" | sort)" $'A=one\nB=two words\nT=template' # added to the container's
  printf 'A=one' >"$C/env" # without a newline is the same
  is "$(cat "$C/env")" A=one
  echo 0:2000 >"$C/user"
  is "$(out demo 'id -u; id -g')" $'0\n2000'
  echo 1000 >"$C/user"
  is "$(out demo 'id -un')" user
  printf 'awk\nBEGIN { print ARGV[1] }\n' >"$C/shell"
  is "$(out demo 'as an argument')" 'as an argument'
}

@test "a job starts with a copy of the settings, and has its own from then on" {
  local j=$C/jobs/own
  echo 77 >"$C/timeout"
  echo A=ctl >"$C/env"
  mkdir "$j"
  is "$(cat "$j/timeout" "$j/env" "$j/tty")" $'77\nA=ctl\nnone'
  echo 88 >"$C/timeout"
  echo A=job >"$j/env"
  is "$(cat "$j/timeout" "$C/env")" $'77\nA=ctl'
  echo 'echo $A' >"$j/exec"
  is "$(cat "$j/wait" "$j/stdout")" $'0\njob'
  is "$(out demo 'echo $A')" ctl
  is "$(error_of "$j/timeout" 5)" EBUSY
  is "$(error_of "$j/tty" pipe)" EBUSY
  has "$(cat "$C/error")" started
  is "$(cat "$j/timeout")" 77
}

@test "a bad value: the errno at the write, words in ctl/error and errors, the old value stays" {
  local j=$C/jobs/x
  mkdir "$j"
  echo 30 >"$C/timeout"
  echo A=1 >"$C/env"
  is "$(error_of "$C/timeout" abc)" EINVAL
  has "$(cat "$C/error")" 'code: EINVAL'
  has "$(cat "$C/error")" 'op: timeout'
  has "$(cat "$C/error")" abc
  has "$(grep EINVAL "$MNT/.sandboxfs/errors")" demo/ctl/timeout
  fails_with "Invalid argument" bash -c "echo abc > '$C/timeout'"
  is "$(error_of "$C/timeout" -1)" EINVAL
  is "$(error_of "$C/timeout" '1 2')" EINVAL
  is "$(error_of "$C/max_wait" soon)" EINVAL
  is "$(error_of "$C/user" nosuchuser)" EINVAL
  has "$(cat "$C/error")" nosuchuser
  is "$(error_of "$C/cwd" /no/such/dir)" ENOENT
  has "$(cat "$C/error")" 'code: ENOENT'
  has "$(cat "$C/error")" /no/such/dir
  is "$(error_of "$C/cwd" etc)" EINVAL
  is "$(error_of "$C/env" '=value')" EINVAL
  is "$(error_of "$C/env" $'B=2\n=other')" EINVAL
  has "$(cat "$C/error")" 'op: env'
  has "$(cat "$C/error")" "message: line 2 names no variable (KEY=VALUE, or KEY to unset): '=other'"
  is "$(error_of "$j/tty" 80by24)" EINVAL
  has "$(cat "$C/error")" 80by24
  is "$(error_of "$C/env" "X=$(head -c 70000 /dev/zero | tr '\0' x)")" EFBIG
  sleep 0.3 # what a close would do is done by then
  is "$(cat "$C"/{timeout,max_wait,user,cwd,env} "$j/tty")" $'30\n0\nroot\n/workspace\nA=1\nnone'
}

@test "a sandbox that may not change users says so in words" {
  sandbox bound@b
  is "$(error_of "$MNT/bound@b/ctl/user" user)" EPERM
  has "$(cat "$MNT/bound@b/ctl/error")" 'no capability SETUID'
  is "$(out bound@b 'id -u')" 0
}

@test "env comes line by line, appended, byte by byte; a truncation is the default" {
  { echo A=1; echo B=2; } >"$C/env"
  is "$(cat "$C/env")" $'A=1\nB=2'
  echo C=3 >>"$C/env"
  is "$(cat "$C/env")" $'A=1\nB=2\nC=3'
  is "$(out demo 'echo $A$B$C')" 123
  printf 'LONG=value\n' | dd of="$C/env" bs=1 status=none
  is "$(cat "$C/env")" LONG=value
  printf 'D=4\nE=5\n' | tee "$C/env" >/dev/null
  python3 -c 'import sys
with open(sys.argv[1], "a", buffering=1) as f:
    print("F=6", file=f)
    print("G=7", file=f)' "$C/env"
  is "$(cat "$C/env")" $'D=4\nE=5\nF=6\nG=7'
  : >"$C/env"
  settles "$C/env" ''
  echo 9.5 >"$C/timeout"
  is "$(cat "$C/timeout")" 9.5
  truncate -s 0 "$C/timeout"
  settles "$C/timeout" 0
  echo 5 >"$C/timeout"
  echo >"$C/timeout"
  is "$(cat "$C/timeout")" 0
}

@test "the default that a truncation sets is there when its close returns, and comes once" {
  python3 - "$C" <<'PY'
import os, subprocess, sys, time
path = sys.argv[1] + "/timeout"
def value(): return open(path).read()
def put(text):
    with open(path, "w") as f: f.write(text)
default = value()
put("7")
fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
keeper = subprocess.Popen(["sleep", "1000"], pass_fds=[fd]) # so it is not the last close
assert value() == "7\n", value()
os.close(fd)
assert value() == default, value()
put("5")
keeper.kill()
keeper.wait()
for k in range(5):
    assert value() == "5\n", value()
    time.sleep(0.05)
PY
}

@test "settings survive the daemon and a restart of the sandbox" {
  echo 12 >"$C/timeout"
  echo K=kept >"$C/env"
  is "$(cat "$C/cwd")" /workspace
  kill_daemon
  sbx_start "$MNT"
  wait_for 90 shows "$C/timeout" 12
  echo restart >"$C/state"
  is "$(cat "$C/timeout" "$C/env")" $'12\nK=kept'
  is "$(out demo 'echo $K')" kept
  echo stopped >"$C/state"
  is "$(cat "$C/timeout" "$C/env")" $'12\nK=kept' # what was last known
  fails_with "transport endpoint shutdown" bash -c "echo 5 > '$C/timeout'"
}

@test "a directory that has gone before the start: in words, and nothing runs" {
  out demo 'mkdir /tmp/gone'
  echo /tmp/gone >"$C/cwd"
  ex demo 'rmdir /tmp/gone'
  ex demo 'touch /workspace/ran' || true
  is "$(cat "$C/result" "$C/exit_code")" $'start-failed\n126'
  has "$(cat "$C/summary")" 'cannot enter the directory /tmp/gone: No such file or directory'
  [[ ! -e $MNT/demo/workspace/ran ]]
}

@test "a locked mount: a user who is not root becomes no other, and a template's timeout is not made longer" {
  local L
  template bounded '{"image": "busybox:test", "user": "user", "x-sandboxfs": {"timeout": 30}}'
  mount_sbx "templates=$TEMPLATES" locked
  sandbox bounded@demo
  L=$MNT/bounded@demo/ctl
  is "$(cat "$L/timeout" "$L/user")" $'30\nuser'
  is "$(error_of "$L/user" root)" EPERM
  has "$(cat "$L/error")" "the mount is locked: commands run as the template's user"
  for value in 0 30.001 31 99999; do
    is "$value $(error_of "$L/timeout" "$value")" "$value EPERM"
  done
  has "$(cat "$L/error")" "the mount is locked: the template's timeout is 30 s"
  is "$(error_of "$L/timeout" abc)" EINVAL
  is "$(error_of "$L/timeout" 5)" ok
  is "$(cat "$L/timeout")" 5
  is "$(error_of "$L/timeout" 30)" ok
  mkdir "$L/jobs/x"
  is "$(error_of "$L/jobs/x/user" 0)" EPERM
  is "$(error_of "$L/jobs/x/timeout" 0)" EPERM
  echo root >"$L/scratch"
  fails_with 'Operation not permitted' mv "$L/scratch" "$L/user"
  is "$(out bounded@demo 'id -un')" user
  # Root can be anybody anyway.
  sandbox plain
  is "$(error_of "$MNT/plain/ctl/user" user) $(error_of "$MNT/plain/ctl/timeout" 99999)" 'ok ok'
}
