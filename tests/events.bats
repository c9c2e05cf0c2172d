#!/usr/bin/env bats
# .sandboxfs/events, -o audit and ctl/log: what happened, contract 1 and 4.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

# events NAME [KEY...]: the event and these values of each line of one sandbox; fails if any line is no JSON.
events() {
  python3 - "$MNT/.sandboxfs/events" "$@" <<'PY'
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    e = json.loads(line)
    assert e["time"].endswith("Z"), line
    if e.get("sandbox") == sys.argv[2]:
        print(*[e["event"]] + [str(e.get(key)) for key in sys.argv[3:]])
PY
}

# events_are NAME WORDS
events_are() {
  [[ $(sed -n "s/.*\"event\":\"\([a-z-]*\)\",\"sandbox\":\"$1\".*/\1/p" "$MNT/.sandboxfs/events" | xargs) == "$2" ]]
}

# soon NAME WORDS: what another daemon or the engine did is seen a little later.
soon() {
  wait_for 90 events_are "$1" "$2" || is "$(events "$1" | xargs)" "$2"
}

# both NAME WORDS: two daemons that show the same sandboxes say so. (A second change that comes before the
# first was seen would hide it, from a daemon that only watches.)
both() {
  MNT=$ONE soon "$@" && MNT=$TWO soon "$@"
}

# first: the embedded engine unpacks the image for the first sandbox of it, and says so.
first() {
  sandbox first
  rmdir "$MNT/first"
}

@test "each change of a sandbox is told once, whoever made it, and copied to the audit file" {
  local audit=$BATS_TEST_TMPDIR/audit
  mount_sbx "audit=$audit"
  TWO=$MNT
  mount_sbx
  ONE=$MNT
  first
  sandbox demo
  is "$(events demo uid template | head -n1)" "created $(id -u) default"
  both demo "created started"
  echo paused >"$ONE/demo/ctl/state"
  both demo "created started paused"
  echo running >"$ONE/demo/ctl/state"
  both demo "created started paused resumed"
  mv "$ONE/demo" "$ONE/moved"
  is "$(events demo to | tail -n1)" "renamed moved"
  both demo "created started paused resumed renamed"
  box_kill moved
  both moved stopped
  has "$(events moved message)" "stopped the container ended with exit code 137"
  box_start moved
  both moved "stopped started"
  rmdir "$ONE/moved"
  both moved "stopped started removed"
  both demo "created started paused resumed renamed"
  is "$(stat -c %s "$TWO/.sandboxfs/events")" "$(wc -c <"$TWO/.sandboxfs/events")"
  cat "$TWO/.sandboxfs/events" >"$audit.want"
  umount_sbx "$TWO"
  same "$audit" "$audit.want"
}

log_has() {
  grep -q "$2" "$MNT/$1/ctl/log"
}

@test "ctl/log has what the container printed and what happened to it, by time, also when it is down" {
  mount_sbx
  first
  sandbox demo
  ex demo 'printf "from\tinside\n" >/proc/1/fd/1'
  wait_for 90 log_has demo inside
  sleep 1.1 # there are engines whose log has whole seconds
  echo stopped >"$MNT/demo/ctl/state"
  is "$(sed -E 's/^[0-9-]{10}T[0-9:]{8}(\.[0-9]{3})?Z //; s/^(\[[a-z]+\]).*/\1/' "$MNT/demo/ctl/log")" \
    $'[created]\n[started]\nfrom\tinside\n[stopped]'
  if [[ $SBX_KIND == podman ]]; then
    grep -qE '^[0-9-]{10}T[0-9:]{8}Z from' "$MNT/demo/ctl/log"
  else
    grep -qE '^[0-9-]{10}T[0-9:]{8}\.[0-9]{3}Z from' "$MNT/demo/ctl/log"
  fi
  is "$(stat -c %s "$MNT/demo/ctl/log")" "$(wc -c <"$MNT/demo/ctl/log")"
  mkdir "$BATS_TEST_TMPDIR/templates"
  echo '{"image": "127.0.0.1:1/none"}' >"$BATS_TEST_TMPDIR/templates/bad.json"
  mount_sbx "templates=$BATS_TEST_TMPDIR/templates"
  mkdir "$MNT/bad@one"
  wait_for 60 state_is bad@one failed
  has "$(cat "$MNT/bad@one/ctl/log")" "[failed] "
  rmdir "$MNT/bad@one"
  # Another by that name has a log of its own.
  mkdir "$MNT/bad@one"
  is "$(grep -c '\[created\]' "$MNT/bad@one/ctl/log")" 1
}

@test "an audit file that cannot be opened fails the mount, in words" {
  fails "$SANDBOXFS" -f -o "$(engine_options),audit=/nowhere/file" "$BATS_TEST_TMPDIR"
  has "$FAIL_WORDS" "cannot open the audit file /nowhere/file: No such file or directory"
}

# execs NAME WORDS: its commands, started and ended.
execs() {
  [[ $(events "$1" job result exit_code | grep ^exec- | xargs) == "$2" ]]
}

execs_soon() {
  wait_for 90 execs "$@" || is "$(events "$1" job result exit_code | grep ^exec- | xargs)" "$2"
}

@test "every command is told at its start and at its end, whoever waits for it" {
  local C pid
  mount_sbx "audit=$BATS_TEST_TMPDIR/audit"
  sandbox demo
  C=$MNT/demo/ctl
  pid=$(bash -c 'echo $$; printf "echo \"\303\251\377\"\nexit 3\n" >"$1"' - "$C/exec")
  execs_soon demo 'exec-start 1 None None exec-end 1 exit-code 3'
  is "$(events demo uid pid command | grep -A1 '^exec-start')" "exec-start $(id -u) $pid echo \"é"$'\xef\xbf\xbd'$'"\nexit 3'
  grep -Eq '"exec-end".*"wall_seconds":[0-9]+\.[0-9]' "$MNT/.sandboxfs/events"
  wait_for 90 grep -q '"exec-end".*"exit_code":3' "$BATS_TEST_TMPDIR/audit"
  grep -q "\"exec-start\".*\"uid\":$(id -u),\"pid\":$pid" "$BATS_TEST_TMPDIR/audit"
  # argv; and a text that is too long for a line.
  printf 'true\0%s\0' "$(head -c 20000 /dev/zero | tr '\0' x)" >"$C/argv"
  execs_soon demo 'exec-start 1 None None exec-end 1 exit-code 3 exec-start 2 None None exec-end 2 success 0'
  has "$(events demo command | tail -n2)" 'exec-start true xxxx'
  has "$(events demo command | tail -n2)" 'xxxx...'
  # By rename, and a job for which nobody waits: the daemon dies, and the next tells the end.
  mkdir "$C/jobs/j"
  echo 'until [ -e go ]; do sleep 0.1; done; exit 5' >"$C/jobs/j/text"
  mv "$C/jobs/j/text" "$C/jobs/j/exec"
  wait_for 90 grep -q '"exec-start".*"job":"j"' "$MNT/.sandboxfs/events"
  kill_daemon
  sbx_start "$MNT"
  # It asks for one job after another, in turns with our questions: then it knows that this one runs.
  for _ in {1..8}; do
    is "$(cat "$C/jobs/j/result")" running
  done
  touch "$MNT/demo/workspace/go"
  execs_soon demo 'exec-end j exit-code 5'
  # What runs when its sandbox goes.
  mkdir "$C/jobs/k"
  echo 'sleep 1000' >"$C/jobs/k/exec"
  rmdir "$MNT/demo"
  execs_soon demo 'exec-end j exit-code 5 exec-start k None None exec-end k lost None'
}
