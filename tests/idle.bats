#!/usr/bin/env bats
# x-sandboxfs: idle_timeout and ttl. Contract 2: what idleness has stopped is woken by a touch.
# shellcheck disable=SC2016,SC2030,SC2031

load lib/mount
load lib/assert

# told NAME EVENT: how often it was told of that sandbox.
told() {
  grep -c "\"event\":\"$2\".*\"sandbox\":\"$1\"" "$MNT/.sandboxfs/events"
}

# answers NAME TEXT WANT: each command wakes it; a slow machine may let it sleep again before the output is read.
answers() {
  for _ in {1..10}; do
    ex "$1" "$2"
    ! is "$(cat "$MNT/$1/ctl/stdout")" "$3" || return 0
  done
  return 1
}

# A short timeout: a slow machine may be idle in between, and wakes up again.
setup() {
  template pause '{"image": "busybox:test", "x-sandboxfs": {"idle_timeout": 1}}'
  template stop '{"image": "busybox:test", "x-sandboxfs": {"idle_timeout": 1, "idle_action": "stop"}}'
}

# read_ctl NAME: all that can be read while nothing runs.
read_ctl() {
  cat "$MNT/$1"/ctl/{state,result,summary,error,config.json,log,ps,stats,memory.max,cpu.max,pids.max} >/dev/null
  ls "$MNT/$1"/ctl "$MNT/$1"/ctl/{ports,jobs} >/dev/null
}

paused_while_read() {
  read_ctl "$1" && state_is "$1" paused
}

# woken NAME N: more than N times
woken() {
  (($(told "$1" resumed) > $2))
}

@test "nobody uses it: it is paused, also while ctl/ is read all the time; that does not wake it, a file or a command does" {
  mount_sbx "templates=$TEMPLATES"
  mkdir "$MNT/pause@demo"
  echo kept >"$MNT/pause@demo/workspace/file"
  wait_for 60 paused_while_read pause@demo
  (($(told pause@demo idle) >= 1))
  is "$(box_state pause@demo)" paused
  NUMBER=$(told pause@demo resumed) || true
  read_ctl pause@demo
  is "$(state pause@demo) $(told pause@demo resumed)" "paused $NUMBER"
  is "$(dd if="$MNT/pause@demo/workspace/file" iflag=direct 2>/dev/null)" kept
  wait_for 90 woken pause@demo "$NUMBER"
  wait_for 60 state_is pause@demo paused
  answers pause@demo 'cat file' kept
  # What runs is use.
  answers pause@demo 'sleep 3; echo done' 'done'
  is "$(cat "$MNT/pause@demo/ctl/result")" success
  # Paused by hand it stays so.
  echo paused >"$MNT/pause@demo/ctl/state"
  fails_with "transport endpoint" cat "$MNT/pause@demo/workspace/file" || fails ls "$MNT/pause@demo/workspace"
  is "$(state pause@demo)" paused
  echo running >"$MNT/pause@demo/ctl/state"
  wait_for 60 state_is pause@demo paused
  rmdir "$MNT/pause@demo"
}

@test "nobody uses it: it is stopped, and started by a touch; also after a remount" {
  mount_sbx "templates=$TEMPLATES"
  mkdir "$MNT/stop@demo"
  echo kept >"$MNT/stop@demo/workspace/file"
  wait_for 60 state_is stop@demo stopped
  (($(told stop@demo idle) >= 1))
  is "$(cat "$MNT/stop@demo/ctl/error")" ""
  is "$(cat "$MNT/stop@demo/workspace/file")" kept
  wait_for 90 eval '(($(told stop@demo started) > 1))'
  # Mounted again, nobody touches it, and it is stopped all the same.
  remount
  wait_for 60 state_is stop@demo stopped
  answers stop@demo 'cat file' kept
}

@test "two daemons: what one puts to sleep the other wakes, and both go on" {
  mount_sbx "templates=$TEMPLATES"
  ONE=$MNT
  mkdir "$MNT/pause@demo"
  mount_sbx "templates=$TEMPLATES"
  TWO=$MNT
  wait_for 60 listed pause@demo
  for MNT in "$TWO" "$ONE" "$TWO"; do
    wait_for 60 state_is pause@demo paused
    answers pause@demo 'echo awake' awake
  done
}

@test "idle_action remove and ttl remove it, also when no daemon was there at the time" {
  template gone '{"image": "busybox:test", "x-sandboxfs": {"idle_timeout": 1, "idle_action": "remove"}}'
  template ttl '{"image": "busybox:test", "x-sandboxfs": {"ttl": 10,
    "pre_stop": ["echo over > /keep/end"]}, "volumes": ["keep-'"$NS"':/keep"]}'
  mount_sbx "templates=$TEMPLATES"
  mkdir "$MNT/gone@demo"
  mkdir "$MNT/ttl@a" "$MNT/ttl@b"
  wait_for 60 not_listed gone@demo
  is "$(told gone@demo idle)" 1
  wait_for 60 not_listed ttl@a
  is "$(told ttl@a ttl)" 1
  wait_for 60 not_listed ttl@b
  wait_for 60 no_containers
  mkdir "$MNT/ttl@c"
  umount_sbx
  sbx_start "$MNT"
  wait_for 60 not_listed ttl@c
  wait_for 60 no_containers
  # Its last words: pre_stop was run.
  is "$(volume_run "keep-$NS" cat /v/end)" over
  volume_rm "keep-$NS"
}

@test "rm_on_unmount: pre_stop is run before it goes" {
  template last '{"image": "busybox:test", "x-sandboxfs": {"pre_stop": ["echo over > /keep/end"]},
    "volumes": ["keep-'"$NS"':/keep"]}'
  mount_sbx "templates=$TEMPLATES" rm_on_unmount
  sandbox last@demo
  umount_sbx
  wait_for 60 no_containers
  is "$(volume_run "keep-$NS" cat /v/end)" over
  volume_rm "keep-$NS"
}
