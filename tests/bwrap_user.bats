#!/usr/bin/env bats
# bats file_tags=only:bwrap
#
# The embedded engine for an ordinary user: no cgroups, no freezer, ids from /etc/subuid or one alone. Each test is its
# own little machine: see lib/user.bash.

load lib/mount
load lib/assert
load lib/user

teardown() {
  user_end
}

# life IDS: all of a sandbox's life, and nothing afterwards
life() {
  user_world "$1"
  user_mount
  user_sandbox a
  u 'for ns in mnt pid net ipc uts user cgroup; do
      echo "readlink /proc/self/ns/$ns" >$M/a/ctl/exec && got=$(cat $M/a/ctl/output) && [[ $got == $ns:* && $got != $(readlink /proc/self/ns/$ns) ]] || exit 1
    done'
  u 'echo "cat /proc/self/status" >$M/a/ctl/exec && grep -q "^NoNewPrivs:.*1" $M/a/ctl/output'
  is "$(u 'echo "id -u; id -g; pwd" >$M/a/ctl/exec; cat $M/a/ctl/output')" $'0\n0\n/workspace'
  # Files, both ways.
  u 'cp -r $U/top/docs $M/a/workspace/ && diff -r $U/top/docs $M/a/workspace/docs'
  u 'echo "tar -cf all.tar docs && rm -r docs" >$M/a/ctl/exec && [ "$(cat $M/a/ctl/exit_code)" = 0 ]'
  u 'tar -C $U/home -xf $M/a/workspace/all.tar && diff -r $U/top/docs $U/home/docs && [ ! -e $M/a/workspace/docs ]'
  u 'cd $M/a/workspace && echo x >f && ln f g && chmod 700 f && mv g h && ln -s f l && [ "$(cat l)" = x ]'
  # Jobs.
  u 'j=$M/a/ctl/jobs/j && mkdir $j && echo "echo out; exit 3" >$j/exec && [ "$(cat $j/wait)" = 3 ] && [ "$(cat $j/output)" = out ]'
  u 'echo 1 >$M/a/ctl/timeout && echo "sleep 100" >$M/a/ctl/exec; [ "$(cat $M/a/ctl/result)" = timeout ]'
  u 'mv $M/a $M/b && rmdir $M/b && [ "$(ls $M)" = README ]'
  wait_for 90 user_no_boxes
  wait_for 90 user_no_processes
}

@test "with a range of ids: a sandbox's whole life" {
  life range
}

@test "with one id: a sandbox's whole life" {
  life one
}

# A stop reaches a process when that has the processor; one that has ended meanwhile needs none.
all_stopped() {
  local pid state
  while read -r _ pid _; do
    state=$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null) || continue
    [[ $state == [TtZ]* ]] || return 1
  done < <(user_processes | grep -vE ' (bwrap|launch) ')
}

states() {
  user_world "$1"
  user_mount
  user_sandbox a
  u 'j=$M/a/ctl/jobs/j && mkdir $j && echo "while :; do echo x; sleep 0.02; done" >$j/exec'
  wait_for 90 u 'test -s $M/a/ctl/jobs/j/output'
  # One that is stopped for who traces it, as in a debugger.
  u 'cat >$M/a/workspace/traced.py' <<'END'
import ctypes, os, signal, time
if os.fork() == 0:
    ctypes.CDLL(None).ptrace(0, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(-1, os.WUNTRACED)
print("traced", flush=True)
time.sleep(1000)
END
  u 'j=$M/a/ctl/jobs/t && mkdir $j && echo "python3 traced.py" >$j/exec'
  wait_for 90 u 'grep -q traced $M/a/ctl/jobs/t/output'
  # No freezer here: each process is stopped by itself.
  u 'echo paused >$M/a/ctl/state && [ "$(cat $M/a/ctl/state)" = paused ]'
  wait_for 90 all_stopped
  u_fails_with 'transport endpoint shutdown' 'cat $M/a/workspace/none'
  u 'echo running >$M/a/ctl/state && [ "$(cat $M/a/ctl/state)" = running ]'
  u 'n=$(stat -c %s $M/a/ctl/jobs/j/output); until [ $(stat -c %s $M/a/ctl/jobs/j/output) -gt $n ]; do sleep 0.1; done'
  u 'echo here >$M/a/workspace/file && echo stopped >$M/a/ctl/state && [ "$(cat $M/a/ctl/state)" = stopped ]'
  wait_for 90 user_no_processes
  u 'echo running >$M/a/ctl/state && [ "$(cat $M/a/workspace/file)" = here ]'
  u 'echo restart >$M/a/ctl/state && echo "cat file" >$M/a/ctl/exec && [ "$(cat $M/a/ctl/output)" = here ]'
  # A paused one is removed like any other.
  u 'echo paused >$M/a/ctl/state && rmdir $M/a'
  wait_for 90 user_no_boxes
}

@test "with a range of ids: paused, running, stopped, restart" {
  states range
}

@test "with one id: paused, running, stopped, restart" {
  states one
}

# In a user namespace of the user's own, in which no further one may be made.
@test "where user namespaces are forbidden it says so, and leaves nothing" {
  user_world range
  u_fails_with 'user namespaces are forbidden here' 'unshare --user --map-current-user --keep-caps \
    sh -c "echo 0 >/proc/sys/user/max_user_namespaces && exec \"\$@\"" - $U/top/$1 -f -o engine=bwrap $M' "${SANDBOXFS#"$SBX_TOP"/}"
  u '[ -z "$(ls -A $U/data)" ] && ! grep -qF " $M fuse" /proc/mounts'
}

@test "a daemon that is killed takes nothing with it" {
  user_world range
  user_mount
  user_sandbox a
  u 'j=$M/a/ctl/jobs/j && mkdir $j && echo "i=0; while [ ! -e stop ]; do i=\$((i+1)); echo \$i; sleep 0.05; done" >$j/exec'
  wait_for 90 u 'test -s $M/a/ctl/jobs/j/output'
  user_kill
  sleep 0.5
  user_mount
  u '[ "$(cat $M/a/ctl/jobs/j/result)" = running ]'
  wait_for 90 u '[ $(wc -l <$M/a/ctl/jobs/j/output) -ge 10 ]'
  u 'touch $M/a/workspace/stop && [ "$(cat $M/a/ctl/jobs/j/wait)" = 0 ]'
  # Without a gap: 1, 2, 3 ...
  u 'cat $M/a/ctl/jobs/j/output | awk "\$1 != NR { exit 1 } END { exit NR < 10 }"'
  u 'rmdir $M/a'
  wait_for 90 user_no_boxes
}

# image IDS: an archive as image, in which every kind of change is made
image() {
  user_world "$1"
  user_mount image=busybox
  u 'cat >$XDG_DATA_HOME/sandboxfs/images/busybox.tar' < <(image_tar_busybox "$SBX_TOP/build-cache/busybox")
  user_sandbox a
  u 'echo "rm /bin/vi; echo x >>/etc/passwd; mkdir -p /srv/new; mv /etc/group /etc/g; ln -s /bin /b; rm -r /tmp; mkdir /tmp" >$M/a/ctl/exec
    cat $M/a/ctl/output; [ "$(cat $M/a/ctl/exit_code)" = 0 ]'
  u 'echo restart >$M/a/ctl/state && echo "ls /bin/vi; tail -n 1 /etc/passwd; ls -d /srv/new /etc/g*" >$M/a/ctl/exec'
  is "$(u 'cat $M/a/ctl/stdout')" $'x\n/etc/g\n/srv/new'
  # Another one begins as the image is.
  user_sandbox b
  u 'echo "test -e /bin/vi && test -e /etc/group && ! test -e /srv/new" >$M/b/ctl/exec; [ "$(cat $M/b/ctl/exit_code)" = 0 ]'
  u 'rmdir $M/a $M/b'
  wait_for 90 user_no_boxes
}

@test "with a range of ids: an archive as image" {
  image range
}

@test "with one id: an archive as image" {
  image one
}

@test "limits without cgroups: what cannot be held is refused in words, and none is shown" {
  user_world one
  user_mount
  echo '{"mem_limit": "64m"}' >"$U/templates/mem.json"
  echo '{"cpus": 0.5}' >"$U/templates/cpu.json"
  echo '{"mem_limit": 0, "cpus": 0}' >"$U/templates/none.json"
  chmod 644 "$U"/templates/*
  u_fails_with 'Operation not supported' 'mkdir $M/mem@a'
  has "$(u 'tail -n 1 $M/.sandboxfs/errors')" 'EOPNOTSUPP mem_limit: the embedded engine (bwrap) cannot do this: no cgroup can be made here'
  u_fails_with 'Operation not supported' 'mkdir $M/cpu@a'
  has "$(u 'tail -n 1 $M/.sandboxfs/errors')" 'EOPNOTSUPP cpus:'
  user_sandbox none@a
  user_sandbox b
  is "$(u 'cat $M/b/ctl/memory.max $M/b/ctl/cpu.max $M/b/ctl/pids.max')" $'max\nmax 100000\n512'
  has "$(u 'cat $M/b/ctl/config.json')" '"mem_limit":0,"cpus":0,"pids_limit":512'
  u_fails_with 'Operation not supported' 'echo 100m >$M/b/ctl/memory.max'
  has "$(u 'cat $M/.sandboxfs/engine')" 'limits: pids by rlimit; none of memory and cpu'
  u 'rmdir $M/none@a $M/b'
}

# Root's daemon, on a machine whose groups are of version 2. Where another hierarchy has the controllers there are no limits.
@test "cgroup v2: an empty parent that another daemon removed is made anew; limits are claimed where there are controllers" {
  local limits='pids by rlimit; none of memory and cpu: no cgroup of theirs can be made here' group
  user_world root
  nsenter -t "$UWORLD" -m mount -t cgroup2 none /sys/fs/cgroup
  group=/sys/fs/cgroup/$(bwrap_group "$UDATA")
  ! u 'grep -qw memory /sys/fs/cgroup/cgroup.controllers' || limits='memory cpu pids by cgroup v2'
  user_mount
  is "$(u 'sed -n "s/^limits: //p" $M/.sandboxfs/engine')" "$limits"
  u 'rmdir "$1"' "$group"
  user_sandbox a
  u 'grep -q . "$1"/*/cgroup.procs' "$group"
  u '[[ $2 == pids* ]] || grep -qw memory "$1/cgroup.subtree_control"' "$group" "$limits"
  u 'echo paused >$M/a/ctl/state && grep -qx "frozen 1" "$1"/*/cgroup.events && echo running >$M/a/ctl/state' "$group"
  u 'rmdir $M/a'
  wait_for 90 user_no_boxes
  user_unmount
  u '[ ! -e "$1" ]' "$group"
}

# bomb IDS: as many forks as it can, each as another user where there are some
bomb() {
  user_world "$1"
  echo '{"pids_limit": 60}' >"$U/templates/default.json"
  chmod 644 "$U/templates/default.json"
  user_mount
  user_sandbox a
  user_sandbox b
  u 'cat >$M/a/workspace/bomb.py' <<'END'
import os, sys, time
for n in range(2000):
    try:
        pid = os.fork()
    except OSError as e:
        print(n, e.errno)
        break
    if pid == 0:
        if int(sys.argv[1]):
            os.setuid(1000 + n)
        time.sleep(100)
END
  u 'j=$M/a/ctl/jobs/j && mkdir $j && echo "python3 bomb.py $1; sleep 100" >$j/exec' "$2"
  wait_for 90 u 'test -s $M/a/ctl/jobs/j/output'
  is "$(u 'awk "\$1 > 40 && \$1 < 60 && \$2 == 11 { print \"held\" }" $M/a/ctl/jobs/j/output')" held
  (($(user_processes | grep -c bomb.py) < 60))
  # Nobody else is held by it, and it can be ended.
  u 'echo "sh -c true" >$M/b/ctl/exec && [ "$(cat $M/b/ctl/exit_code)" = 0 ]'
  u 'rmdir $M/a/ctl/jobs/j && echo "sh -c true" >$M/a/ctl/exec && [ "$(cat $M/a/ctl/exit_code)" = 0 ]'
  u 'rmdir $M/a $M/b'
}

@test "with a range of ids: a fork bomb is held, whatever ids it takes" {
  bomb range 1
}

@test "with one id: a fork bomb is held" {
  bomb one 0
}

@test "with a range of ids: a user of the template's, and files of many users are removed" {
  user_world range
  echo '{"user": "1000:2000", "group_add": ["3000"]}' >"$U/templates/default.json"
  chmod 644 "$U/templates/default.json"
  user_mount
  user_sandbox a
  is "$(u 'echo "id -u; id -g; id -G" >$M/a/ctl/exec; cat $M/a/ctl/output')" $'1000\n2000\n2000 3000'
  u 'echo "touch mine; mkdir -m 700 -p deep/er; touch deep/er/file; chmod 000 deep/er" >$M/a/ctl/exec; [ "$(cat $M/a/ctl/exit_code)" = 0 ]'
  u 'echo 0 >$M/a/ctl/user && echo "install -d -o 4000 -m 700 other && install -o 65533 /dev/null other/f" >$M/a/ctl/exec; [ "$(cat $M/a/ctl/exit_code)" = 0 ]'
  # On the disk they are the range's.
  is "$(find "$UDATA"/boxes/ -path '*/workspace/other/f' -printf '%U\n')" $((USER_SUB + 65532))
  # ctl/exec is the writer's: what the user of the host copies in is the sandbox user's.
  is "$(u 'cp $U/top/README.md $M/a/workspace/ && echo "stat -c %u README.md" >$M/a/ctl/exec; cat $M/a/ctl/output')" 1000
  u 'rmdir $M/a'
  wait_for 90 user_no_boxes
}

@test "with one id: any other user is refused in words" {
  user_world one
  echo '{"user": "1000"}' >"$U/templates/user.json"
  echo '{"user": "root"}' >"$U/templates/root.json"
  echo '{"x-sandboxfs": {"users": ["bob"]}}' >"$U/templates/bob.json"
  chmod 644 "$U"/templates/*
  user_mount
  u_fails_with 'Operation not supported' 'mkdir $M/user@a'
  has "$(u 'tail -n 1 $M/.sandboxfs/errors')" 'EOPNOTSUPP user: the embedded engine (bwrap) cannot do this: this machine grants one user id only'
  u_fails_with 'Operation not supported' 'mkdir $M/bob@a'
  has "$(u 'tail -n 1 $M/.sandboxfs/errors')" 'x-sandboxfs.users'
  user_sandbox root@a
  u_fails_with 'Invalid argument' 'chown 1000 $M/root@a/workspace'
  has "$(u 'cat $M/.sandboxfs/engine')" 'a user namespace with one id (no range in /etc/subuid)'
  u 'rmdir $M/root@a'
}

@test "what is read-only stays so, for a sandbox that may mount and has no limit of processes too" {
  user_world range
  mkdir "$U/bound"
  chown "$USER_ID" "$U/bound"
  echo '{"cap_add": ["SYS_ADMIN"], "pids_limit": 0, "volumes": ["'"$U/bound"':/bound:ro"]}' >"$U/templates/default.json"
  chmod 644 "$U/templates/default.json"
  user_mount "allow_binds=$U/bound"
  user_sandbox a
  u 'echo "for d in /usr /bound; do mount -o remount,bind,rw \$d; mount -o remount,bind,ro,suid \$d; done; touch /bound/f" >$M/a/ctl/exec; cat $M/a/ctl/output' ||
    true
  u 'echo "mount -t tmpfs none /mnt && echo mounts" >$M/a/ctl/exec; [ "$(cat $M/a/ctl/output)" = mounts ]'
  is "$(u 'echo "sed -nE \"s,^[^ ]* (/usr|/bound) [^ ]* (ro|rw)\,nosuid\,nodev.*,\\1 \\2,p\" /proc/mounts" >$M/a/ctl/exec; cat $M/a/ctl/output' | sort)" $'/bound ro\n/usr ro'
  [[ ! -e $U/bound/f ]]
  u 'rmdir $M/a'
}

# A file system that nothing can be laid over: another such.
@test "where there are no overlays each sandbox has a root of its own" {
  user_world one
  mkdir "$U.root"/{lower,upper,work}
  chown "$USER_ID" "$U.root"/{lower,upper,work}
  nsenter -t "$UWORLD" -m mount -t overlay -o "lowerdir=$U.root/lower,upperdir=$U.root/upper,workdir=$U.root/work" none "$U/data"
  user_mount
  user_sandbox a
  u '[ -d $XDG_DATA_HOME/sandboxfs/boxes/default/*/root/etc ] && [ -z "$(ls $XDG_DATA_HOME/sandboxfs/roots)" ]'
  u 'echo "python3 -c 1 && cat /etc/hosts && test -s /etc/os-release && touch /etc/new /root/new" >$M/a/ctl/exec; cat $M/a/ctl/output; [ "$(cat $M/a/ctl/exit_code)" = 0 ]'
  u 'echo restart >$M/a/ctl/state && echo "test -e /etc/new && ls -l /dev/null /proc/self/exe" >$M/a/ctl/exec; [ "$(cat $M/a/ctl/exit_code)" = 0 ]'
  u_fails_with 'Read-only' 'echo "touch /usr/x" >$M/a/ctl/exec; cat $M/a/ctl/output; exit 1'
  u 'rmdir $M/a'
}
