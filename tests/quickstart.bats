#!/usr/bin/env bats
# bats file_tags=only:api
#
# The README's quick start, line by line as it stands there, on each kind of image; and what
# scripts/up and scripts/down do to a machine.

load lib/mount

setup() {
  cd "$SBX_TOP" || return 1
  MNT=$BATS_TEST_TMPDIR/mnt
  # The README's commands find the engine, the options and the build by what is exported here.
  export DOCKER_HOST SANDBOXFS_RUN=$BATS_TEST_TMPDIR/run SANDBOXFS_STATE=$BATS_TEST_TMPDIR/state
  export SANDBOXFS_OPTIONS=namespace=$NS SANDBOXFS_BUILD
  DOCKER_HOST=$(engine_host "$SBX_ENGINE")
  SANDBOXFS_BUILD=$(realpath --relative-to="$SBX_TOP" "$(dirname "$SANDBOXFS")/..")
  sbx_report_to_files
  volumes_before=$(volumes)
}

teardown() {
  scripts/down --purge >/dev/null 2>&1 || true
  wait_for 90 no_daemons # what a sanitizer has to say it says at the end
  sbx_teardown
}

# block NAME: the lines of the README between the markers of that name, on our mount point.
block() {
  sed -n "/^<!-- $1 -->\$/,/^<!-- end -->\$/p" README.md | grep -vE '^(<!--|```)' |
    sed "s,/mnt/sbx,$MNT,g"
}

# run_lines: each line of stdin in this shell; the first that fails fails the test. Their
# output is in $printed.
run_lines() {
  local line
  : >"$BATS_TEST_TMPDIR/printed"
  while read -r line <&9; do
    echo "+ $line"
    eval "$line" >>"$BATS_TEST_TMPDIR/printed" 2>"$BATS_TEST_TMPDIR/err" 3>&- 9>&- || {
      echo "failed with $?: $(cat "$BATS_TEST_TMPDIR/err")"
      return 1
    }
  done 9<&0 </dev/null
  printed=$(cat "$BATS_TEST_TMPDIR/printed")
}

# The daemons that this test's scripts/up started.
daemons() {
  local proc
  for proc in /proc/[0-9]*; do
    [[ $(cat "$proc/comm" 2>/dev/null) == sandboxfs ]] || continue
    ! grep -qzxF "SANDBOXFS_RUN=$SANDBOXFS_RUN" "$proc/environ" || echo "${proc#/proc/}"
  done 2>/dev/null
}

no_daemons() {
  [[ -z $(daemons) ]]
}

# After rmdir and unmount the engine holds nothing of ours but the volume with the agent.
nothing_left() {
  local new
  fusermount3 -u "$MNT"
  wait_for 90 no_daemons
  wait_for 90 no_containers
  new=$(comm -13 <(echo "$volumes_before") <(volumes))
  echo "new volumes: $new"
  [[ -z $new || $new =~ ^sandboxfs-agent[^[:space:]]*$ ]]
}

wc_of_docs() {
  wc -l docs/*.md | awk '{ print $1, $2 }'
}

@test "quick start: six lines on a busybox image" {
  [ "$(block quickstart | wc -l)" = 6 ]
  run_lines < <(block quickstart)
  [ "$(awk '{ print $1, $2 }' <<<"$printed")" = "$(wc_of_docs)" ]
  [ ! -e "$MNT/demo" ]
  nothing_left
}

@test "quick start: on an image with a read-only root" {
  mkdir "$BATS_TEST_TMPDIR/templates"
  echo '{"image": "busybox:test", "read_only": true}' >"$BATS_TEST_TMPDIR/templates/default.json"
  SANDBOXFS_OPTIONS+=,templates=$BATS_TEST_TMPDIR/templates
  run_lines < <(block quickstart | head -n 5)
  [ "$(awk '{ print $1, $2 }' <<<"$printed")" = "$(wc_of_docs)" ]
  run_lines < <(block jobs)
  [ "$printed" = $'0\n1\n2\n3' ]
  echo 'touch /cannot' >"$MNT/demo/ctl/exec"
  [ "$(cat "$MNT/demo/ctl/exit_code")" = 1 ]
  grep -q 'Read-only file system' "$MNT/demo/ctl/stderr"
  run_lines < <(block quickstart | tail -n 1)
  nothing_left
}

@test "quick start: on an empty image, by argv" {
  SANDBOXFS_OPTIONS+=,image=empty:test
  run_lines < <(block quickstart | head -n 3)
  diff -r docs "$MNT/demo/workspace/docs"
  busybox=$(image_busybox "$SBX_TOP/build-cache/busybox")
  run_lines < <(block noshell | sed "s,/bin/busybox,$busybox,")
  [ "$printed" = Linux ]
  [ "$(cat "$MNT/demo/ctl/exit_code")" = 0 ]
  # There is no sh: that is the command's failure, as a shell would say it.
  echo 'true' >"$MNT/demo/ctl/exec"
  [ "$(cat "$MNT/demo/ctl/exit_code")" = 127 ]
  [ "$(cat "$MNT/demo/ctl/result")" = start-failed ]
  run_lines < <(block quickstart | tail -n 1)
  nothing_left
}

@test "scripts/up twice is as good as once; scripts/down leaves the engine running" {
  scripts/up "$MNT" 3>&-
  run scripts/up "$MNT" 3>&-
  [ "$status" = 0 ]
  [[ $output == *"is mounted already"* ]]
  [ "$(daemons | wc -l)" = 1 ]
  scripts/down 3>&-
  run scripts/down 3>&-
  [ "$status" = 0 ]
  wait_for 90 no_daemons
  [ ! -e "$SANDBOXFS_RUN" ] && [ ! -e "$SANDBOXFS_STATE" ]
  dk version >/dev/null
}

@test "scripts/up replaces the mount of a dead daemon" {
  scripts/up "$MNT" 3>&-
  kill -KILL "$(daemons)"
  wait_for 90 no_daemons
  scripts/up "$MNT" 3>&-
  grep -q '[0-9]' "$MNT/.sandboxfs/version"
  scripts/down 3>&-
}

@test "scripts/up --private: an engine of its own, sandboxes survive down, purge removes all" {
  unset DOCKER_HOST
  scripts/up --private "$MNT" 3>&-
  mkdir "$MNT/kept"
  echo 'echo hello > file' >"$MNT/kept/ctl/exec"
  scripts/down 3>&-
  [ ! -e "$SANDBOXFS_RUN" ] && [ -d "$SANDBOXFS_STATE" ]
  scripts/up "$MNT" 3>&- # finds the engine that it made before
  [ "$(cat "$MNT/kept/workspace/file")" = hello ]
  rmdir "$MNT/kept"
  scripts/down --purge 3>&-
  [ ! -e "$SANDBOXFS_RUN" ] && [ ! -e "$SANDBOXFS_STATE" ]
  run ! grep -F "$BATS_TEST_TMPDIR" /proc/mounts
}
