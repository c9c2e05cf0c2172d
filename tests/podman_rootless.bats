#!/usr/bin/env bats
# bats file_tags=only:podman
#
# A Podman of an ordinary user's own: found by engine=auto, and a sandbox's life on it. No suite: docs/engines.md says what
# it lacks. On a little machine of its own: lib/world.bash.

load lib/mount
load lib/assert
load lib/user

setup() {
  user_world range
  # shellcheck disable=SC2034 # lib/user.bash's
  UENV=("XDG_RUNTIME_DIR=$U/run" "CONTAINERS_CONF=$U/containers.conf")
  install -d -o "$USER_ID" -m 700 "$U/run"
  cat >"$U/containers.conf" <<END2
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
END2
  chmod 644 "$U/containers.conf"
}

teardown() {
  local pid name
  u 'podman rm -afv -t 0; podman unshare rm -rf $U/data/containers' >/dev/null 2>&1 || true
  # Its service, the process that keeps its namespace, and conmons, which stay for five minutes after an exec.
  user_processes | while read -r _ pid name _; do
    [[ $name != *@(podman|conmon)* ]] || kill -KILL "$pid" || true
  done
  user_end
}

@test "a user's own Podman serves: found, a command, files, a killed daemon, the end" {
  mkdir "$U/run/podman"
  chown "$USER_ID" "$U/run/podman"
  (user_run podman system service -t 0 "unix://$U/run/podman/podman.sock" </dev/null >"$U/podman.log" 2>&1 3>&- 4>&-) &
  wait_for 90 u 'podman --url "unix://$U/run/podman/podman.sock" version'
  is "$(u 'podman info -f "{{.Host.Security.Rootless}}"')" true
  u 'podman import - busybox:test' < <(image_tar_busybox "$SBX_TOP/build-cache/busybox")
  user_mount engine=auto,image=busybox:test
  is "$(u 'sed -n "s/^\(engine\|address\|chosen\): //p" $M/.sandboxfs/engine')" \
    "podman"$'\n'"unix://$U/run/podman/podman.sock"$'\n'"the Podman socket answers"
  user_sandbox a
  is "$(u 'echo "id -u; pwd" >$M/a/ctl/exec; cat $M/a/ctl/output')" $'0\n/workspace'
  u 'cp -r $U/top/docs $M/a/workspace/ && diff -r $U/top/docs $M/a/workspace/docs'
  u 'echo "tar -cf all.tar docs && chown 1000 all.tar" >$M/a/ctl/exec && [ "$(cat $M/a/ctl/exit_code)" = 0 ]'
  is "$(u 'stat -c %u $M/a/workspace/docs $M/a/workspace/all.tar')" "$USER_ID"$'\n'1000
  u 'j=$M/a/ctl/jobs/j && mkdir $j && echo "until [ -e stop ]; do sleep 0.05; done; echo stopped" >$j/exec'
  user_kill
  user_mount engine=auto,image=busybox:test
  u 'touch $M/a/workspace/stop && [ "$(cat $M/a/ctl/jobs/j/wait)" = 0 ] && [ "$(cat $M/a/ctl/jobs/j/output)" = stopped ]'
  # It has no say in cgroups of version 1, and would ignore limits.
  if [[ $(u 'podman info -f "{{.Host.CgroupsVersion}}"') == v1 ]]; then
    is "$(u 'cat $M/a/ctl/memory.max $M/a/ctl/cpu.max $M/a/ctl/pids.max')" $'max\nmax 100000\nmax'
    run ! grep _limit <<<"$(u 'cat $M/.sandboxfs/templates/default.json')"
    for limit in 'mem_limit: 99999999' 'cpus: 1' 'pids_limit: 99'; do
      u 'echo "{\"image\": \"127.0.0.1:1/none\", \"${1/:/\":}}" >$U/templates/bad.json' "$limit"
      u_fails_with "Operation not supported" 'mkdir $M/bad@x'
      has "$(u 'tail -n 1 $M/.sandboxfs/errors')" "EOPNOTSUPP key ${limit%:*}: podman has no such limits here"
    done
    u_fails_with "Operation not supported" 'echo 100 >$M/a/ctl/pids.max'
  fi
  u 'rmdir $M/a && [ "$(ls $M)" = README ]'
  wait_for 90 u '[ -z "$(podman ps -aq)" ]'
}
