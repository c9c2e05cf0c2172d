#!/usr/bin/env bats
# Limits: the default ones hold, and ctl/*.max changes them live.

load lib/mount
load lib/assert

# cgroup FILE: of demo, as its kernel has it.
cgroup() {
  out demo "cat /sys/fs/cgroup/$1 2>/dev/null || cat /sys/fs/cgroup/$2"
}

# bats test_tags=not:podman,not:bwrap-user
@test "memory.max, cpu.max and pids.max are read and written live" {
  mount_sbx
  sandbox demo
  ctl=$MNT/demo/ctl

  # The defaults, as the engine has them.
  is "$(cat "$ctl/memory.max")" $((1 << 30))
  is "$(cat "$ctl/cpu.max")" '200000 100000'
  is "$(cat "$ctl/pids.max")" 512
  is "$(stat -c %s "$ctl/cpu.max")" 14

  echo 268435456 >"$ctl/memory.max"
  is "$(cat "$ctl/memory.max")" 268435456
  is "$(box_limit demo memory) $(box_limit demo swap)" '268435456 268435456'
  is "$(cgroup memory.max memory/memory.limit_in_bytes)" 268435456
  echo 128m >"$ctl/memory.max"
  is "$(cgroup memory.max memory/memory.limit_in_bytes)" 134217728
  echo max >"$ctl/memory.max"
  is "$(cat "$ctl/memory.max")" max
  value=$(box_limit demo memory) # or the machine's own
  [[ $value == max || $value -gt 1073741824 ]]

  echo '50000 200000' >"$ctl/cpu.max"
  is "$(cat "$ctl/cpu.max")" '50000 200000'
  is "$(box_limit demo cpu)" '50000 200000'
  echo 100000 >"$ctl/cpu.max" # the period stays
  is "$(cat "$ctl/cpu.max")" '100000 200000'
  echo max >"$ctl/cpu.max"
  is "$(cat "$ctl/cpu.max")" 'max 200000'
  is "$(box_limit demo cpu)" 'max 200000'

  echo 100 >"$ctl/pids.max"
  is "$(cat "$ctl/pids.max")" 100
  is "$(cgroup pids.max pids/pids.max)" 100
  echo max >"$ctl/pids.max"
  is "$(cat "$ctl/pids.max")" max
  is "$(cgroup pids.max pids/pids.max)" max
  echo 64 >"$ctl/pids.max"

  # Behind the mount's back, over a remount, and while it is stopped.
  box_set_pids demo 77
  wait_for 90 pids_are 77
  remount
  is "$(cat "$ctl/pids.max" "$ctl/cpu.max" "$ctl/memory.max")" "$(printf '77\nmax 200000\nmax')"
  echo stopped >"$ctl/state"
  echo 88 >"$ctl/pids.max"
  is "$(cat "$ctl/pids.max")" 88
  echo running >"$ctl/state"
  is "$(cgroup pids.max pids/pids.max)" 88
}

pids_are() {
  [[ $(cat "$MNT/demo/ctl/pids.max") == "$1" ]]
}

# bats test_tags=not:bwrap-user
@test "a bad limit is refused in words; a locked mount lowers only" {
  mount_sbx locked
  sandbox demo
  ctl=$MNT/demo/ctl
  for bad in memory.max:-1 memory.max:0 memory.max:1x memory.max:lots cpu.max:1 cpu.max:'1000 5' cpu.max:'max max' \
    pids.max:0 pids.max:1.5 pids.max:; do
    fails_with 'Invalid argument' bash -c "echo '${bad#*:}' > $ctl/${bad%%:*}"
    has "$(cat "$ctl/error")" "${bad%%:*} takes"
  done
  for more in memory.max:max memory.max:1073741825 cpu.max:200001 cpu.max:'100000 10000' cpu.max:max pids.max:513 pids.max:max; do
    fails_with 'Operation not permitted' bash -c "echo '${more#*:}' > $ctl/${more%%:*}"
  done
  has "$(cat "$ctl/error")" 'the mount is locked'
  is "$(cat "$ctl/pids.max" "$ctl/cpu.max" "$ctl/memory.max")" "$(printf '512\n200000 100000\n1073741824')"
}

# bats test_tags=not:podman,not:bwrap-user
@test "what is lowered on a locked mount cannot be raised again; what the engine refuses, it says why" {
  mount_sbx locked
  sandbox demo
  ctl=$MNT/demo/ctl
  fails bash -c "echo 4096 > $ctl/memory.max"
  has "$(cat "$ctl/error")" 'emory limit'
  echo 100 >"$ctl/pids.max"
  fails_with 'Operation not permitted' bash -c "echo 101 > $ctl/pids.max"
  is "$(cat "$ctl/pids.max")" 100
}

# bats test_tags=only:podman
@test "an engine that cannot change limits says so, and they stay" {
  local value
  mount_sbx
  sandbox demo
  ctl=$MNT/demo/ctl
  for value in memory.max:268435456 cpu.max:50000 pids.max:100; do
    fails_with 'Operation not supported' bash -c "echo '${value#*:}' > $ctl/${value%%:*}"
    has "$(cat "$ctl/error")" 'code: EOPNOTSUPP'
    has "$(cat "$ctl/error")" 'cannot change the limits of a container'
  done
  is "$(cat "$ctl/pids.max" "$ctl/cpu.max" "$ctl/memory.max")" "$(printf '512\n200000 100000\n1073741824')"
  is "$(cgroup memory.max memory/memory.limit_in_bytes) $(cgroup pids.max pids/pids.max)" '1073741824 512'
}

# bats test_tags=only:bwrap-user
@test "without cgroups: what cannot be held is refused and not shown, and processes are counted" {
  template mem '{"image": "busybox:test", "mem_limit": "64m"}'
  template cpu '{"image": "busybox:test", "cpus": 0.5}'
  template few '{"image": "busybox:test", "pids_limit": 60}'
  mount_sbx "templates=$TEMPLATES"
  for bad in mem:mem_limit cpu:cpus; do
    fails_with 'Operation not supported' mkdir "$MNT/${bad%:*}@demo"
    has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "EOPNOTSUPP ${bad#*:}: the embedded engine (bwrap) cannot do this"
  done
  sandbox few@demo
  ctl=$MNT/few@demo/ctl
  is "$(cat "$ctl/memory.max" "$ctl/cpu.max" "$ctl/pids.max")" $'max\nmax 100000\n60'
  for value in memory.max:268435456 cpu.max:50000 pids.max:50; do
    fails_with 'Operation not supported' bash -c "echo '${value#*:}' > $ctl/${value%%:*}"
    has "$(cat "$ctl/error")" 'limits cannot be changed here'
  done
  ex few@demo 'i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i + 1)); done' || true
  (($(box_top few@demo | wc -l) <= 60))
  is "$(box_top few@demo | grep -c 'sleep 1000' | awk '{ print ($1 > 30) }')" 1
  # Not above what the user has; that the number of processes is held by both is no error.
  template files "{\"ulimits\": {\"nofile\": $(($(ulimit -Hn) + 1))}}"
  fails_with 'Operation not supported' mkdir "$MNT/files@demo"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" 'EOPNOTSUPP ulimits.nofile: the embedded engine (bwrap) cannot do this'
  rmdir "$MNT/few@demo"
  wait_for 90 no_containers
}

# median NAME: of 15 commands, in microseconds
median() {
  local i start
  for ((i = 0; i < 15; i++)); do
    start=${EPOCHREALTIME/[.,]/}
    ex "$1" true
    echo $((${EPOCHREALTIME/[.,]/} - start))
  done | sort -n | sed -n 8p
}

# bats test_tags=not:bwrap-user
@test "a fork bomb and a memory hog are their own sandbox's problem" {
  # Less memory makes the same point sooner.
  template small '{"image": "busybox:test", "mem_limit": "64m", "pids_limit": 100}'
  mount_sbx "templates=$TEMPLATES"
  sandbox small@bad
  sandbox good
  before=$(median good)

  ex small@bad 'head -c 200000000 /dev/zero | tail -c 190000000 > /dev/null' || true
  is "$(cat "$MNT/small@bad/ctl/result")" oom-kill
  has "$(cat "$MNT/small@bad/ctl/error")" "OOM: a process"
  is "$(out small@bad 'echo fine again')" 'fine again'
  ex small@bad 'while :; do head -c 200000000 /dev/zero | tail -c 190000000 > /dev/null; done' &
  writer=$!
  as_fast good "$before" 'memory hogs'
  kill -KILL "$writer" || true # its loop may have been the victim itself
  wait "$writer" || true
  wait_for 60 idle small@bad

  # It goes on when it can make no more.
  ex small@bad 'exec awk "BEGIN { while (1) system(\"sleep 1000 &\") }"' &
  writer=$!
  wait_for 60 is_full small@bad
  as_fast good "$before" 'a fork bomb'
  rmdir "$MNT/small@bad"
  wait "$writer" || true
  is "$(out good 'echo fine')" fine
}

# as_fast NAME BEFORE BESIDE: a command in NAME takes about as long as before, beside somebody else's misdeeds. Other
# tests run at the same time: one of many must show it.
as_fast() {
  local now
  for _ in {1..15}; do
    now=$(median "$1")
    echo "# exec in another sandbox: $2 us before, $now us beside $3" >&3
    ((now >= $2 * 3 + 20000)) || return 0
    sleep 1
  done
  return 1
}

# idle NAME: its last command has ended.
idle() {
  [[ $(cat "$MNT/$1/ctl/result") != running ]]
}

# is_full NAME: no process more can be made in it.
is_full() {
  (($(box_top "$1" | wc -l) >= 90))
}

# bats test_tags=not:bwrap-user
@test "cpus: a busy loop gets its share and no more" {
  template fifth '{"image": "busybox:test", "cpus": "0.2"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox fifth@demo
  ex fifth@demo 'timeout 2 sh -c "while :; do :; done"' || true
  # Two seconds of a fifth, and what its start took; a busy machine gives less.
  awk '/^(user|system)_seconds:/ { cpu += $2 } /^wall_seconds:/ { wall = $2 } END { exit !(cpu > 0 && cpu < 0.3 * wall + 0.1) }' \
    "$MNT/fifth@demo/ctl/summary"
}

# bats test_tags=not:bwrap-user
@test "who was killed by hand is no victim of memory, whatever else was" {
  local ctl
  template small '{"image": "busybox:test", "mem_limit": "64m"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox small@x
  ctl=$MNT/small@x/ctl
  mkdir "$ctl/jobs/x"
  echo 'sleep 1000' >"$ctl/jobs/x/exec"
  ex small@x 'head -c 200000000 /dev/zero | tail -c 190000000 > /dev/null' || true
  is "$(cat "$ctl/result")" oom-kill
  echo KILL >"$ctl/jobs/x/signal"
  is "$(cat "$ctl/jobs/x/wait" "$ctl/jobs/x/result")" $'137\nsignal'
}
