#!/usr/bin/env bats
# Sandboxes are directories: contract 2.
# shellcheck disable=SC2002,SC2010,SC2012,SC2016

load lib/mount
load lib/assert

@test "mkdir makes a running sandbox, ls shows it, rmdir removes it" {
  mount_sbx
  mkdir "$MNT/demo"
  listed demo
  wait_for 90 state_is demo running
  is "$(ls -U "$MNT/demo" | head -n 1)" ctl # rm -rf meets it first
  is "$(ls "$MNT/demo" | grep -xc -e ctl -e workspace)" 2
  [[ $(stat -c %a "$MNT/demo") == 700 ]]
  [[ $(stat -c %u "$MNT/demo") == "$(id -u)" ]]
  rmdir "$MNT/demo"
  not_listed demo
  fails_with "No such file" ls "$MNT/demo"
  wait_for 90 no_containers
}

@test "the control files are there, readable, and end in a newline" {
  local f
  mount_sbx
  sandbox demo
  for f in exec argv stdout stderr output exit_code result summary state error config.json; do
    [[ -f $MNT/demo/ctl/$f ]]
    [[ $f == exec || $f == argv ]] || cat "$MNT/demo/ctl/$f" >/dev/null
  done
  is "$(cat "$MNT/demo/ctl/result")" new
  is "$(cat "$MNT/demo/ctl/exit_code")" ""
  is "$(cat "$MNT/demo/ctl/state" | od -An -c | tr -d ' ')" 'running\n'
  # What the engine has made of it comes with its event.
  wait_for 90 jq -e '.config.image == "busybox:test" and (.image_id | length) > 16' "$MNT/demo/ctl/config.json"
  has "$(cat "$MNT/demo/ctl/config.json")" "$(containers)"
  has "$(cat "$MNT/README")" ctl/exec
  [[ -s $MNT/.sandboxfs/version && -s $MNT/.sandboxfs/engine ]]
}

@test "template@name takes that template, and keeps its whole name" {
  template py '{"image": "busybox:test", "environment": {"WHO": "py"}, "working_dir": "/src"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox py@demo
  listed py@demo
  is "$(out py@demo 'echo $WHO; pwd')" $'py\n/src'
  jq -e '.template == "py"' "$MNT/py@demo/ctl/config.json"
  rmdir "$MNT/py@demo"
}

@test "bad names are EINVAL, a missing template ENOENT, with words" {
  local name
  template broken '{"imag": "busybox:test"}'
  template host '{"image": "busybox:test", "volumes": ["/etc:/etc"]}'
  mount_sbx "templates=$TEMPLATES"
  for name in 'a b' '-a' '_a' 'a@' '@a' 'a@b@c' 'a:b' $'a\nb' 'ü' 'a:@b' "$(printf 'a%.0s' {1..129})"; do
    fails_with "Invalid argument" mkdir -- "$MNT/$name"
  done
  fails_with "No such file" mkdir "$MNT/nosuch@demo"
  has "$(grep ENOENT "$MNT/.sandboxfs/errors")" nosuch
  fails_with "No such file" mkdir "$MNT/demo:s1@copy"
  fails_with "Invalid argument" mkdir "$MNT/broken@demo"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" imag
  fails_with "Operation not permitted" mkdir "$MNT/host@demo"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "host path"
  no_containers
}

@test "what is not a sandbox cannot be made in the root" {
  mount_sbx
  sandbox demo
  fails_with "File exists" mkdir "$MNT/demo"
  fails touch "$MNT/file"
  fails ln -s x "$MNT/link"
  fails rmdir "$MNT/.sandboxfs"
  is "$(ls "$MNT" | tr '\n' ' ')" "README demo "
  rmdir "$MNT/demo"
}

@test "mv renames a sandbox, live" {
  mount_sbx
  sandbox one
  sandbox two
  echo 1 >"$MNT/one/workspace/f"
  mv "$MNT/one" "$MNT/three"
  listed three && not_listed one
  is "$(cat "$MNT/three/workspace/f")" 1
  is "$(out three 'cat f')" 1
  fails_with "Operation not permitted" mv "$MNT/two" "$MNT/three"
  fails_with "Invalid argument" python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$MNT/two" "$MNT/bad name"
  listed two && listed three
  remount
  is "$(cat "$MNT/three/workspace/f")" 1
  rmdir "$MNT/two" "$MNT/three"
}

@test "writing ctl/state pauses, stops, restarts; the write returns when it is so" {
  mount_sbx
  sandbox demo
  echo kept >"$MNT/demo/workspace/f"
  for s in paused stopped; do
    echo $s >"$MNT/demo/ctl/state"
    is "$(state demo)" $s
    fails_with "transport endpoint shutdown" cat "$MNT/demo/workspace/f"
    fails_with "transport endpoint shutdown" bash -c "echo true > '$MNT/demo/ctl/exec'"
    echo running >"$MNT/demo/ctl/state"
    is "$(state demo)" running
    is "$(cat "$MNT/demo/workspace/f")" kept
  done
  out demo 'echo old > /tmp/x; sleep 1000 >/dev/null 2>&1 &'
  echo restart >"$MNT/demo/ctl/state"
  is "$(state demo)" running
  is "$(out demo 'cat /tmp/x')" old
  [[ $(box_top demo) != *"sleep 1000"* ]]
  fails_with "Invalid argument" bash -c "echo nonsense > '$MNT/demo/ctl/state'"
  is "$(state demo)" running
  rmdir "$MNT/demo"
}

# The agent's end breaks the connection while the engine still says that it runs: nobody is to start it again for that.
@test "stopped by ctl/state it stays stopped, whatever waits for it at that moment" {
  local i
  mount_sbx
  sandbox demo
  for i in 1 2 3 4 5; do
    mkdir "$MNT/demo/ctl/jobs/j$i"
    echo 'sleep 1002' >"$MNT/demo/ctl/jobs/j$i/exec"
    cat "$MNT/demo/ctl/jobs/j$i/wait" >/dev/null 2>&1 &
    echo stopped >"$MNT/demo/ctl/state"
    is "$(state demo)" stopped
    sleep 0.2
    is "$(state demo)" stopped
    is "$(box_state demo)" exited
    echo running >"$MNT/demo/ctl/state"
  done
  rmdir "$MNT/demo"
}

@test "a container that is killed stays listed, and says why" {
  mount_sbx
  sandbox demo
  box_kill demo
  wait_for 90 state_is demo stopped
  has "$(cat "$MNT/demo/ctl/error")" 137
  is "$(sed 's/: .*//' "$MNT/demo/ctl/error" | xargs)" 'code op retryable message'
  grep -qx 'retryable: no' "$MNT/demo/ctl/error"
  grep -q '^message: .' "$MNT/demo/ctl/error"
  listed demo
  rmdir "$MNT/demo"
}

@test "stopped by somebody else, it is woken by a touch; reading ctl does not wake it" {
  mount_sbx
  sandbox demo
  echo kept >"$MNT/demo/workspace/f"
  box_stop demo
  wait_for 90 state_is demo stopped
  cat "$MNT/demo/ctl/"{state,error,result,summary,config.json} >/dev/null
  ls -l "$MNT/demo/ctl" >/dev/null
  sleep 0.5
  is "$(state demo)" stopped
  is "$(cat "$MNT/demo/workspace/f")" kept
  is "$(state demo)" running
  box_stop demo
  wait_for 90 state_is demo stopped
  is "$(out demo 'cat f')" kept
  rmdir "$MNT/demo"
}

# Within a second, where the machine is not busy with other tests.
@test "a sandbox removed behind the mount's back is gone" {
  mount_sbx
  sandbox demo
  cat "$MNT/demo/ctl/state"
  box_rm demo
  wait_for 90 not_listed demo
  fails_with "No such file" cat "$MNT/demo/ctl/state"
  sandbox demo
  rmdir "$MNT/demo"
}

@test "two mounts of one namespace show the same sandboxes, each the other's" {
  local a b
  mount_sbx
  a=$MNT
  mount_sbx
  b=$MNT
  mkdir "$a/demo"
  wait_for 90 listed demo "$b"
  echo from-a >"$a/demo/workspace/f"
  is "$(cat "$b/demo/workspace/f")" from-a
  ex demo 'cat f'
  is "$(cat "$a/demo/ctl/stdout")" from-a
  rmdir "$a/demo"
  wait_for 90 not_listed demo "$b"
  umount_sbx "$a"
  umount_sbx "$b"
}

@test "another namespace is invisible" {
  local a ns=$NS
  mount_sbx
  a=$MNT
  sandbox demo
  mount_sbx "namespace=$NS-other"
  is "$(ls "$MNT")" README
  NS=$ns-other sandbox demo
  echo x >"$MNT/demo/workspace/only-here"
  [[ ! -e $a/demo/workspace/only-here ]]
  rmdir "$MNT/demo" "$a/demo"
  wait_for 90 no_containers "$ns-other"
}

@test "rmdir removes a sandbox whatever it contains, at once" {
  local start took
  mount_sbx
  for _ in {1..5}; do # a busy engine may need so long by itself, now and then
    sandbox demo
    echo x >"$MNT/demo/workspace/f"
    out demo 'trap "" TERM; sleep 1000 >/dev/null 2>&1 &'
    start=$(now_ms)
    rmdir "$MNT/demo"
    took=$(($(now_ms) - start))
    not_listed demo
    ((took >= 8000)) || break
  done
  ((took < 8000)) # who waits for what ignores TERM waits for ten seconds
  sandbox demo
  [[ ! -e $MNT/demo/workspace/f ]]
  rmdir "$MNT/demo"
  wait_for 90 no_containers
}

@test "rm -rf by each tool removes the sandbox and nothing of a volume mounted in it" {
  local way bb vol=keep-$NS
  bb=$(host_busybox)
  template v "{\"image\": \"busybox:test\", \"volumes\": [\"$vol:/workspace/vol\"]}"
  mount_sbx "templates=$TEMPLATES"
  volume_make "$vol"
  sandbox v@fill
  echo precious >"$MNT/v@fill/workspace/vol/precious"
  mkdir "$MNT/v@fill/workspace/vol/dir"
  rmdir "$MNT/v@fill"
  for way in 'rm -rf' "$bb rm -rf" 'rm -r' find python; do
    sandbox v@demo
    is "$(cat "$MNT/v@demo/workspace/vol/precious")" precious
    mkdir -p "$MNT/v@demo/workspace/a/b"
    echo x >"$MNT/v@demo/workspace/a/b/f"
    ex v@demo 'echo printed'
    case $way in
      find) find "$MNT/v@demo" -delete ;;
      python) python3 -c 'import shutil, sys; shutil.rmtree(sys.argv[1])' "$MNT/v@demo" ;;
      *) is "$($way "$MNT/v@demo" 2>&1 </dev/null)" "" ;;
    esac
    not_listed v@demo
  done
  wait_for 90 no_containers
  is "$(volume_run "$vol" ls /v | tr '\n' ' ')" "dir precious "
  volume_rm "$vol"
}

@test "what is left between rmdir demo/ctl and rmdir demo is the same directory, empty" {
  local ino
  mount_sbx
  sandbox demo
  echo x >"$MNT/demo/workspace/f"
  ino=$(stat -c %i "$MNT/demo/workspace")
  rmdir "$MNT/demo/ctl"
  sleep 0.6 # so long the kernel may keep the name
  is "$(stat -c %i "$MNT/demo/workspace")" "$ino"
  is "$(ls -A "$MNT/demo/workspace")" ""
  rmdir "$MNT/demo/workspace" "$MNT/demo"
  not_listed demo
}

@test "after rmdir and unmount nothing is left in the engine but the agent's volume" {
  local before after kept
  mount_sbx
  before=$(things)
  kept=$(volumes | grep -v agent) || true
  sandbox demo
  ex demo 'echo x > f'
  rmdir "$MNT/demo"
  umount_sbx
  wait_for 90 no_containers
  after=$(things)
  # The first sandbox of a run makes the agent's volume.
  is "$(diff <(echo "$before") <(echo "$after") | grep '^[<>]' | grep -v '^> .*agent')" ""
  is "$(volumes | grep -v agent)" "$kept"
}

# stands_still PID: every thread of it is stopped
stands_still() {
  local task
  for task in /proc/"$1"/task/*/stat; do
    [[ $(sed 's/.*) //' "$task") == [Tt]* ]] || return 1
  done
}

@test "a daemon that is killed and started again shows the same tree and results" {
  local old
  mount_sbx
  sandbox demo
  sandbox other
  echo kept >"$MNT/demo/workspace/f"
  ex demo 'echo out; echo err >&2; exit 3'
  kill_daemon
  sbx_start "$MNT"
  is "$(ls "$MNT" | tr '\n' ' ')" "README demo other "
  is "$(cat "$MNT/demo/workspace/f")" kept
  is "$(cat "$MNT/demo/ctl/stdout")" out
  is "$(cat "$MNT/demo/ctl/stderr")" err
  is "$(cat "$MNT/demo/ctl/exit_code")" 3
  is "$(cat "$MNT/demo/ctl/result")" exit-code
  is "$(cat "$MNT/demo/ctl/exec")" 'echo out; echo err >&2; exit 3'
  is "$(out demo 'cat f')" kept
  # One that dies just when the next looks whether it is there.
  old=$(daemon_pid)
  kill -STOP "$old"
  wait_for 90 stands_still "$old" # else it may still answer who looks for the mount
  (sleep 1 && kill -KILL "$old") 3>&- &
  sbx_start "$MNT"
  is "$(out demo 'cat f')" kept
  rmdir "$MNT/demo" "$MNT/other"
}

@test "ctl/state's stop is remembered by the next daemon" {
  mount_sbx
  sandbox demo
  echo stopped >"$MNT/demo/ctl/state"
  remount
  is "$(state demo)" stopped
  fails_with "transport endpoint shutdown" ls "$MNT/demo/workspace"
  echo running >"$MNT/demo/ctl/state"
  is "$(out demo 'echo on')" on
  rmdir "$MNT/demo"
}

@test "twenty parallel mkdirs make twenty sandboxes" {
  local i pids=()
  mount_sbx
  for i in {1..20}; do
    mkdir "$MNT/box$i" &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i"; done
  for i in {1..20}; do
    is "$(out "box$i" "echo $i")" "$i"
  done
  rmdir "$MNT"/box*
  wait_for 60 no_containers
}

@test "twenty parallel mkdirs of one name make one sandbox" {
  local i pids=() made=0
  mount_sbx
  for i in {1..20}; do
    mkdir "$MNT/demo" 2>/dev/null &
    pids+=($!)
  done
  for i in "${pids[@]}"; do ! wait "$i" || made=$((made + 1)); done
  is $made 1
  is "$(containers | wc -l)" 1
  rmdir "$MNT/demo"
}

@test "an empty image works: files, and a static program by argv" {
  template e '{"image": "empty:test"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox e@demo
  cp "$(host_busybox)" "$MNT/e@demo/workspace/busybox"
  printf '%s\0' ./busybox echo 'a  b' c >"$MNT/e@demo/ctl/argv"
  is "$(cat "$MNT/e@demo/ctl/stdout")" 'a  b c'
  ex e@demo 'echo no shell here'
  is "$(cat "$MNT/e@demo/ctl/exit_code")" 127
  is "$(cat "$MNT/e@demo/ctl/result")" start-failed
  rmdir "$MNT/e@demo"
}

@test "a read-only root works" {
  template ro '{"image": "busybox:test", "read_only": true, "volumes": ["/workspace"]}'
  mount_sbx "templates=$TEMPLATES"
  sandbox ro@demo
  echo hi >"$MNT/ro@demo/workspace/f"
  is "$(out ro@demo 'cat f; touch /etc/x 2>/dev/null || echo read-only')" $'hi\nread-only'
  rmdir "$MNT/ro@demo"
}

@test "a read-only root without a volume has a workspace too" {
  template ro '{"image": "busybox:test", "read_only": true}'
  mount_sbx "templates=$TEMPLATES"
  sandbox ro@demo
  echo hi >"$MNT/ro@demo/workspace/f"
  is "$(out ro@demo 'cat f')" hi
  rmdir "$MNT/ro@demo"
}

@test "the template's network, user and command are those of the container" {
  template full '{"image": "busybox:test", "command": "sh -c \"echo main > /tmp/main; sleep 1000\"",
    "environment": {"A": "1"}, "hostname": "box",
    "tmpfs": "/scratch", "cap_drop": ["NET_RAW"], "user": "user"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox full@demo
  is "$(out full@demo 'echo $A; hostname; id -un; cat /tmp/main')" $'1\nbox\nuser\nmain'
  is "$(networks full@demo)" lo
  is "$(out full@demo 'grep -c " /scratch tmpfs" /proc/mounts; grep NoNewPrivs /proc/self/status')" \
    $'1\nNoNewPrivs:\t1'
  rmdir "$MNT/full@demo"
}

@test "max_sandboxes is EDQUOT, rm_on_unmount removes them" {
  mount_sbx max_sandboxes=2,rm_on_unmount
  sandbox a
  sandbox b
  fails_with "Disk quota exceeded" mkdir "$MNT/c"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" max_sandboxes
  rmdir "$MNT/a"
  sandbox c
  umount_sbx
  no_containers
}

@test "pull_policy never and no image is ENOMEDIUM, and leaves nothing" {
  template never '{"image": "no-such-image:1", "pull_policy": "never"}'
  mount_sbx "templates=$TEMPLATES"
  fails_with 'No medium found' mkdir "$MNT/never@a"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" 'there is no image no-such-image:1, and pull_policy is never'
  not_listed never@a
  no_containers
}
