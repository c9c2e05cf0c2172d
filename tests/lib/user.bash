# shellcheck shell=bash
# An ordinary user of this machine, for tests, in a world of its own: lib/world.bash. A mount of theirs is theirs alone,
# so all that a test does to it is done as that user: by `u`, in that namespace.
#
# user_world IDS    makes it; IDS is `range`, `one`, or `root`: then `u` is root in such a namespace. Sets U (a directory of the user's), UMNT (the mount point), UDATA
#                   (where the embedded engine keeps all)
# user_mount [OPTIONS...]   a daemon as that user; user_unmount, user_kill
# u SCRIPT [ARGS...]        bash -c, as that user
# user_end          ends it; fails if the daemon did not end well, or if a process of the user's is left

# shellcheck source=tests/lib/world.bash
source "$SBX_TOP/tests/lib/world.bash"
UENV=()  # NAME=VALUE: more of the environment
UWRAP=() # words before the daemon

user_world() {
  UIDS=$1
  U=$(mktemp -d "${TMPDIR:-/tmp}/sbxu.XXXXXX")
  UMNT=$U/mnt UDATA=$U/data/sandboxfs ULOG=$U/log UPID=''
  mkdir "$U"/{mnt,home,data,top,templates}
  chmod 755 "$U"
  chown -R $USER_ID:$USER_ID "$U"
  world_files "$U.root" "$1" "$U/home"
  world_run "$U.root" "$SBX_TOP" "$U/top" sleep 100000 </dev/null >"$U.root/log" 2>&1 3>&- 4>&- &
  UWORLD=$!
  wait_for 60 test -e "$U.root/ready" || {
    cat "$U.root/log"
    return 1
  }
}

# u_fails_with WORDS SCRIPT [ARGS...]
u_fails_with() {
  local words=$1 said
  shift
  ! said=$(u "$@" 2>&1) || {
    echo "it did not fail: $1"
    return 1
  }
  has "$said" "$words"
}

# user_run CMD...: in the user's place; becomes it
user_run() {
  local as=("${WORLD_USER[@]}")
  [[ $UIDS != root ]] || as=()
  exec nsenter -t "$UWORLD" -m --wd="$U/home" "${as[@]}" \
    env -i PATH="$PATH" HOME="$U/home" XDG_DATA_HOME="$U/data" U="$U" M="$UMNT" LC_ALL=C \
    ASAN_OPTIONS="${ASAN_OPTIONS:-}" TSAN_OPTIONS="${TSAN_OPTIONS:-}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-}" "${UENV[@]}" "$@"
}

# In it: $M the mount, $U the directory.
u() {
  local script=$1
  shift
  (user_run timeout 300 bash -c "set -o pipefail; $script" u "$@")
}

user_mount() {
  local opts=engine=bwrap,templates=$U/templates option
  for option; do opts+=,$option; done
  (user_run "${UWRAP[@]}" "$U/top/${SANDBOXFS#"$SBX_TOP"/}" -f -o "$opts" "$UMNT" </dev/null >>"$ULOG" 2>&1 3>&- 4>&-) &
  UPID=$!
  wait_for 90 user_answers_or_dead || true
  ! engine_ended "$UPID" || {
    cat "$ULOG"
    return 1
  }
}

# A mount that a killed daemon left does not answer.
user_answers_or_dead() {
  u "test -e \$M/README" || engine_ended "$UPID"
}

user_unmount() {
  local status=0
  wait_for 90 u "fusermount3 -u \$M" && wait_for 90 engine_ended "$UPID" || return 1
  wait "$UPID" || status=$?
  UPID=''
  ((status == 0)) || {
    echo "the daemon's exit status was $status"
    cat "$ULOG"
    return 1
  }
}

user_kill() {
  kill -KILL "$UPID"
  wait "$UPID" || true
  UPID=''
}

# user_sandbox NAME: and waits until it runs
user_sandbox() {
  # shellcheck disable=SC2016 # that shell's own
  u 'mkdir "$M/$1" && echo true >"$M/$1/ctl/exec" && [ "$(cat "$M/$1/ctl/state")" = running ] || {
    cat "$M/$1/ctl/error" "$M/.sandboxfs/errors"
    exit 1
  }' "$1"
}

# user_processes: of the user's own id and of the range's, but for the daemon
user_processes() {
  ps -eo uid=,pid=,args= | awk -v id=$USER_ID -v low=$USER_SUB -v daemon="${UPID:-0}" \
    '($1 == id || ($1 >= low && $1 < low + 65536)) && $2 != daemon && !/fs.sandboxfs /'
}

user_no_processes() {
  [[ -z $(user_processes) ]]
}

# user_no_boxes: nothing of a sandbox is left
user_no_boxes() {
  [[ -z $(find "$UDATA"/boxes/*/ -mindepth 1 ! -name .lock ! -name .names) ]]
}

# Of root's sandboxes that a test which failed has left: their ids are those of everybody's, so by their directories.
user_kill_boxes() {
  local file pid group
  for file in "$UDATA"/boxes/*/*/status; do
    pid=$(grep -ho '"child-pid": *[0-9]*' "$file" 2>/dev/null | tail -n 1 | tr -dc 0-9)
    [[ -n $pid && $(stat -c %u "/proc/$pid" 2>/dev/null) == 1893728256 ]] || continue # bwrap/ids.h
    kill -KILL "$pid"
    wait_for 10 engine_ended "$pid" || true
    for group in /sys/fs/cgroup/{,*/}sandboxfs-*/"$(basename "${file%/status}")"; do
      [[ ! -d $group ]] || wait_for 10 rmdir "$group" || true
      rmdir "${group%/*}" 2>/dev/null || true
    done
  done
}

user_end() {
  local status=0 pid
  if [[ -n ${UPID:-} ]]; then
    user_unmount || {
      echo "the daemon did not end:"
      cat "$ULOG"
      status=1
      user_kill
    }
  fi
  [[ -n ${UWORLD:-} ]] || return $status
  wait_for 60 user_no_processes || {
    echo "left:"
    user_processes
    status=1
    user_processes | while read -r _ pid _; do kill -KILL "$pid" || true; done
  }
  [[ $UIDS != root ]] || user_kill_boxes
  kill "$UWORLD"
  wait "$UWORLD" || true
  rm -rf --one-file-system "$U" "$U.root"
  return $status
}
