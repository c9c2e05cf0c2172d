# shellcheck shell=bash
# Mounts for bats tests. A test file begins with `load lib/mount`, a test with `mount_sbx`; the
# teardown that comes with this file unmounts, and fails the test if the daemon did not end
# well, if a sanitizer reported anything, or if a container is left that rmdir should have removed.
#
# From outside: SANDBOXFS (the daemon, default build/fs/sandboxfs), SANDBOXFS_WRAP (words put before
# it, such as valgrind), SBX_ENGINE (the private engine's directory, by setup_suite.bash).
# For tests: MNT and NS of the newest mount, SBX_LOG (the daemon's stderr), box_*, wait_for.

bats_require_minimum_version 1.5.0 # for `run !` and `run -N`
# shellcheck source=tests/lib/engine.bash
source "${BASH_SOURCE[0]%/*}/engine.bash"

SANDBOXFS=${SANDBOXFS:-$SBX_TOP/build/fs/sandboxfs}
declare -gA SBX_PID=()    # mount point -> the daemon's pid
declare -gA SBX_OPTS=()   # mount point -> its options, for remount
declare -gA SBX_KILLED=() # mount point -> 1: the test killed this daemon itself

# The namespace is the test's own, so that no test sees another's sandboxes.
NS=t${BATS_SUITE_TEST_NUMBER:-0}-$$

# sbx_new_dir: prints a fresh empty directory to mount on.
sbx_new_dir() {
  mktemp -d "$BATS_TEST_TMPDIR/mnt.XXXX"
}

# mount_sbx [KEY=VALUE[,...]]... : mounts on a fresh directory, or on $SBX_AT, and sets MNT. Later
# options win over the defaults; an option `host=` or `namespace=` replaces ours. Returns when the
# mount is there; fails, with the daemon's words, if it does not come.
mount_sbx() {
  local opts extra
  opts="$(engine_options),namespace=$NS,image=busybox:test"
  for extra; do
    opts+=,$extra
  done
  MNT=${SBX_AT:-$(sbx_new_dir)}
  SBX_OPTS[$MNT]=$opts
  sbx_start "$MNT"
}

# Sanitizers report into files: the daemon's stderr is the tests' to check, and may be closed by then.
sbx_report_to_files() {
  local log=$BATS_TEST_TMPDIR/report
  export ASAN_OPTIONS=detect_leaks=1:exitcode=99:log_path=$log.asan
  export LSAN_OPTIONS=exitcode=99:log_path=$log.lsan
  export UBSAN_OPTIONS=print_stacktrace=1:log_path=$log.ubsan
  export TSAN_OPTIONS=exitcode=99:second_deadlock_stack=1:log_path=$log.tsan
}

# sbx_start MNT: the daemon in the foreground, in the background of this shell.
sbx_start() {
  local mnt=$1
  SBX_LOG=$BATS_TEST_TMPDIR/sandboxfs.log
  sbx_report_to_files
  # shellcheck disable=SC2086 # the wrapper is several words
  ${SANDBOXFS_WRAP:-} "$SANDBOXFS" -f -o "${SBX_OPTS[$mnt]}" "$mnt" \
    </dev/null >>"$SBX_LOG" 2>&1 3>&- 4>&- &
  SBX_PID[$mnt]=$!
  unset "SBX_KILLED[$mnt]"
  wait_for 180 sbx_mounted_or_dead "$mnt" || true
  if ! sbx_is_mounted "$mnt"; then
    echo "no mount on $mnt; the daemon said:"
    cat "$SBX_LOG"
    sbx_reap "$mnt"
    return 1
  fi
}

# sbx_reap MNT: ends the daemon if it still runs; its exit status in SBX_STATUS.
sbx_reap() {
  local pid=${SBX_PID[$1]}
  unset "SBX_PID[$1]"
  engine_ended "$pid" || kill -KILL "$pid" || true
  SBX_STATUS=0
  wait "$pid" 2>/dev/null || SBX_STATUS=$?
}

# A mount that a killed daemon left is in the table too, but does not answer.
sbx_mounted_or_dead() {
  { sbx_is_mounted "$1" && timeout 5 test -e "$1/README"; } || ! kill -0 "${SBX_PID[$1]}" 2>/dev/null
}

# Asks the mount table, not the mount, which may hang.
sbx_is_mounted() {
  grep -qF " $1 fuse" /proc/mounts
}

# umount_sbx [MNT]: unmounts and waits for the daemon; true if it exited 0.
umount_sbx() {
  local mnt=${1:-$MNT} status=0 patience=150
  if ! wait_for 90 sbx_unmount "$mnt"; then
    echo "$mnt is busy:"
    sbx_users "$mnt"
    fusermount3 -u -z "$mnt" || umount -l "$mnt" || true
    status=1 patience=3
  fi
  wait_for $patience engine_ended "${SBX_PID[$mnt]}" || {
    echo "daemon ${SBX_PID[$mnt]} did not end after the unmount; killed"
    status=1
  }
  sbx_reap "$mnt"
  [[ $SBX_STATUS == 0 ]] || {
    echo "the daemon's exit status was $SBX_STATUS"
    status=1
  }
  return $status
}

# An unmount throws away what the kernel has queued, the RELEASE of a file that was closed just before too: then the
# daemon ends with that file open, which a sanitizer takes for a leak. Who has an answer comes after all that.
sbx_unmount() {
  sbx_is_mounted "$1" || return 0
  timeout 10 stat -f "$1" >/dev/null 2>&1 || true
  fusermount3 -u "$1" 2>/dev/null
}

# Which processes have MNT open or as their directory: without touching the mount.
sbx_users() {
  local link
  for link in /proc/[0-9]*/cwd /proc/[0-9]*/fd/*; do
    [[ $(readlink "$link" 2>/dev/null) != "$1"* ]] || echo "  $link -> $(readlink "$link")"
  done
}

# remount [MNT]: unmounts and mounts again with the same options, on the same directory.
remount() {
  local mnt=${1:-$MNT}
  umount_sbx "$mnt" && sbx_start "$mnt"
}

# daemon_pid [MNT]
daemon_pid() {
  echo "${SBX_PID[${1:-$MNT}]}"
}

# kill_daemon [MNT]: kill -9, as an accident would; the dead mount stays, `sbx_start MNT` replaces it.
kill_daemon() {
  local mnt=${1:-$MNT}
  SBX_KILLED[$mnt]=1
  kill -KILL "${SBX_PID[$mnt]}"
  wait_for 60 engine_ended "${SBX_PID[$mnt]}"
}

# sandbox NAME [SECONDS]: makes one and waits until it runs.
sandbox() {
  local dir=$MNT/$1
  mkdir "$dir" || return 1
  if ! wait_for "${2:-180}" sbx_settled "$dir" || [[ $(cat "$dir/ctl/state") != running ]]; then
    echo "sandbox $1 is $(cat "$dir/ctl/state"):"
    cat "$dir/ctl/error"
    return 1
  fi
}

sbx_settled() {
  case $(cat "$1/ctl/state") in running | failed) ;; *) return 1 ;; esac
}

# path_without DIR NAME...: prints DIR, which as a PATH has all programs of this machine but these.
path_without() {
  local dir=$1
  shift
  if [[ ! -d $dir ]]; then
    mkdir "$dir"
    ln -s /usr/sbin/* /usr/bin/* "$dir/" 2>/dev/null || true
    (cd "$dir" && rm -f -- "$@")
    chmod 755 "$dir"
  fi
  echo "$dir"
}

no_containers() {
  [[ -z $(containers "$@") ]]
}

# Fails, and shows them, if there are reports of a sanitizer or of valgrind.
sbx_reports() {
  local file found=0
  for file in "$BATS_TEST_TMPDIR"/report.*; do
    [[ -s $file ]] || continue
    echo "report ${file##*/}:"
    head -n 120 "$file"
    found=1
  done
  # gcc's UBSan knows no report file beside ASan's.
  ! grep -A 10 'runtime error:' "${SBX_LOG:-/dev/null}" || found=1
  return $found
}

sbx_teardown() {
  local mnt id status=0
  cd / || return 1
  for mnt in "${!SBX_PID[@]}"; do
    if [[ -n ${SBX_KILLED[$mnt]:-} ]]; then
      umount -l "$mnt" 2>/dev/null || true
      sbx_reap "$mnt"
    else
      umount_sbx "$mnt" || status=1
    fi
  done
  sbx_reports || status=1
  # Sandboxes outlive an unmount, so what a test did not rmdir is ours to remove.
  for id in $(containers); do
    containers_rm "$id" || status=1
  done
  # Set by bats when the test's last line was reached.
  if [[ -z ${BATS_TEST_COMPLETED:-} || $status != 0 ]] && [[ -s ${SBX_LOG:-} ]]; then
    echo "the daemon's log:"
    tail -n 60 "$SBX_LOG"
  fi
  return $status
}

teardown() {
  sbx_teardown
}
