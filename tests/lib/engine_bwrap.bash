# shellcheck shell=bash
# The embedded engine: no daemon, so there is nothing to start but a directory, DIR/data, which mounts are given as their
# host. Sourced by lib/engine.bash, which says what each function is; those for sandboxes are as in lib/box_api.bash.
#
# Another client of such an engine is another sandboxfs on the same directory, or somebody with kill and a shell. What
# is done here behind a mount's back is what those would do. There is no process of the engine's that a test could kill
# or freeze: tests of that are for engines with the API.

sbx_engine_start() {
  command -v bwrap >/dev/null || packages_need bubblewrap
  mkdir -p "$1/data/images"
  chmod 711 "$1"
}

sbx_engine_stop() {
  :
}

sbx_engine_remove() {
  local dir=$1 box
  [[ -d $dir ]] || return 0
  for box in "$dir"/data/boxes/*/*; do
    [[ ! -d $box ]] || bwrap_rm "$box" || true
  done
  for box in /sys/fs/cgroup/{,*/}"$(bwrap_group "$dir/data")"; do
    [[ ! -d $box ]] || rmdir "$box" || true
  done
  engine_unmount "$dir"
  rm -rf --one-file-system "$dir"
}

sbx_engine_answers() {
  [[ -d $1/data/images ]]
}

sbx_engine_options() {
  echo "engine=bwrap,host=$1/data"
}

sbx_import() {
  local to=$SBX_ENGINE/data/images/${1//\//+}.tar
  cat >"$to.part" && mv "$to.part" "$to"
}

sbx_has_image() {
  [[ -s $SBX_ENGINE/data/images/${1//\//+}.tar ]]
}

containers() {
  find "$SBX_ENGINE/data/boxes/${1:-$NS}" -maxdepth 1 -regextype egrep -regex '.*/[0-9a-f]{64}' -printf '%f\n' 2>/dev/null ||
    true # no such namespace yet
}

containers_rm() {
  bwrap_rm "$SBX_ENGINE"/data/boxes/*/"$1"
}

# --- by the sandbox's directory --------------------------------------------------------------------------------------

# bwrap_group DATA: the name of its groups' parent: FNV-1a of the path (bwrap/cgroup.c).
bwrap_group() {
  local LC_ALL=C i h=$((0xcbf29ce484222325)) c
  for ((i = 0; i < ${#1}; i++)); do
    printf -v c %d "'${1:i:1}"
    h=$(((h ^ (c & 255)) * 0x100000001b3))
  done
  printf 'sandboxfs-%016x\n' "$h"
}

# bwrap_cgroups BOX: the directories of its groups
bwrap_cgroups() {
  local dir parent
  parent=$(bwrap_group "${1%/boxes/*}")
  for dir in /sys/fs/cgroup/{,*/}"$parent/${1##*/}"; do
    [[ ! -d $dir ]] || echo "$dir"
  done
}

# bwrap_pid BOX: of its PID 1; fails if it does not run. A number that is somebody else's by now has another namespace.
bwrap_pid() {
  local pid
  pid=$(jq -rs 'add | select(.["exit-code"] == null and .["child-pid"]) | "\(.["child-pid"]) pid:[\(.["pid-namespace"])]"' "$1/status" 2>/dev/null) || return 1
  [[ -n $pid && $(readlink "/proc/${pid% *}/ns/pid") == "${pid#* }" ]] && echo "${pid% *}"
}

# bwrap_freeze BOX 0|1: frozen, all are so when it returns
bwrap_freeze() {
  local dir
  while read -r dir; do
    if [[ -e $dir/freezer.state ]]; then
      if (($2)); then echo FROZEN; else echo THAWED; fi >"$dir/freezer.state"
      ! (($2)) || wait_for 20 grep -qx FROZEN "$dir/freezer.state"
    elif [[ -e $dir/cgroup.freeze ]]; then
      echo "$2" >"$dir/cgroup.freeze"
      ! (($2)) || wait_for 20 grep -qx 'frozen 1' "$dir/cgroup.events"
    fi
  done < <(bwrap_cgroups "$1")
}

# bwrap_end BOX SIGNAL: sends it to PID 1 and waits until bwrap has gone too
bwrap_end() {
  local pid parent
  pid=$(bwrap_pid "$1") || return 0
  parent=$(awk '{ print $4 }' "/proc/$pid/stat")
  kill "-$2" "$pid" 2>/dev/null || true
  wait_for 20 engine_ended "$pid" && { [[ $parent == [01] ]] || wait_for 20 engine_ended "$parent"; }
}

bwrap_rm() {
  local dir
  ! grep -qs child-pid "$1/.status" || mv "$1/.status" "$1/status" # its daemon was killed at that moment
  bwrap_freeze "$1" 0
  bwrap_end "$1" KILL || return 1
  while read -r dir; do
    wait_for 5 rmdir "$dir"
  done < <(bwrap_cgroups "$1")
  mv "$1" "${1%/*}/.gone-${1##*/}"
  rm -rf --one-file-system "${1%/*}/.gone-${1##*/}"
}

# bwrap_note BOX FILTER [JQ OPTIONS...]: changes its record as jq's filter says
bwrap_note() {
  local box=$1 filter=$2
  shift 2
  jq -c "$@" "$filter" "$box/box.json" >"$box/.box.test" && mv "$box/.box.test" "$box/box.json"
}

# --- by name ---------------------------------------------------------------------------------------------------------

# box_dir NAME
box_dir() {
  local id
  id=$(box_id "$1") && echo "$SBX_ENGINE/data/boxes/$NS/$id"
}

box_pid() {
  bwrap_pid "$(box_dir "$1")"
}

# As root where nobody else is named; in its groups, with PID 1's environment and the workspace as directory.
box_exec() {
  local in=/dev/null background='' user=0
  while [[ $1 == -* ]]; do
    case $1 in
      -i) in=/dev/stdin ;;
      -d) background=1 ;;
      -u) user=$2 && shift ;;
    esac
    shift
  done
  if [[ -n $background ]]; then
    bwrap_enter "$(box_dir "$1")" "$user" "${@:2}" <$in >/dev/null 2>&1 3>&- 4>&- &
  else
    bwrap_enter "$(box_dir "$1")" "$user" "${@:2}" <$in
  fi
}

# bwrap_enter BOX UID CMD...
bwrap_enter() (
  box=$1 uid=$2
  shift 2
  pid=$(bwrap_pid "$box") || exit 125
  mapfile -d '' -t environment <"/proc/$pid/environ"
  workspace=$(tr '\0' '\n' <"/proc/$pid/cmdline" | sed -n '/^--workspace$/{n;p;q}')
  while read -r dir; do
    echo $BASHPID >"$dir/cgroup.procs"
  done < <(bwrap_cgroups "$box")
  exec env -i "${environment[@]}" "$(command -v nsenter)" -t "$pid" -U -m -p -i -n -u -C -S "$uid" -G "$uid" \
    --wdns="$workspace" "$@"
)

box_top() {
  ps -eo pidns,pid,args | awk -v ns="$(readlink "/proc/$(box_pid "$1")/ns/pid" | tr -dc 0-9)" '$1 == ns { $1 = ""; print }'
}

box_pause() {
  local box
  box=$(box_dir "$1")
  bwrap_freeze "$box" 1
  bwrap_note "$box" '.paused = true'
}

box_unpause() {
  local box
  box=$(box_dir "$1")
  bwrap_freeze "$box" 0
  bwrap_note "$box" '.paused = false'
}

box_kill() {
  bwrap_end "$(box_dir "$1")" KILL
}

box_stop() {
  bwrap_end "$(box_dir "$1")" TERM
}

# As a daemon does it. The groups are there from the time before.
box_start() {
  local box top=${SANDBOXFS%/fs/sandboxfs} groups
  box=$(box_dir "$1")
  mapfile -t groups < <(bwrap_cgroups "$box")
  is "$("$top/bwrap/launch" run "$box" "$top/agent/agent" "${groups[@]}" 2>&1 3>&- 4>&- | grep ^error)" ''
  mv "$box/.status" "$box/status"
}

box_rm() {
  containers_rm "$(box_id "$1")"
}

box_state() {
  local box
  box=$(box_dir "$1")
  if ! bwrap_pid "$box" >/dev/null; then
    echo exited
  elif jq -e .paused "$box/box.json" >/dev/null; then
    echo paused
  else
    echo running
  fi
}

box_limit() {
  local dirs
  mapfile -t dirs < <(bwrap_cgroups "$(box_dir "$1")")
  case $2 in
    memory) bwrap_file memory.max memory.limit_in_bytes ;;
    swap) bwrap_file memory.swap.max memory.memsw.limit_in_bytes ;;
    cpu)
      if [[ -n $(bwrap_file cpu.max) ]]; then
        bwrap_file cpu.max
      else
        echo "$(bwrap_file cpu.cfs_quota_us) $(bwrap_file cpu.cfs_period_us)"
      fi
      ;;
    pids) bwrap_file pids.max ;;
  esac | sed -E 's/^(-1|92233720368547[0-9]{5})( |$)/max\2/' # the largest number of pages is none, too
}

# bwrap_file NAME...: the first of these in dirs
bwrap_file() {
  local name dir
  for name; do
    for dir in "${dirs[@]}"; do
      [[ ! -e $dir/$name ]] || {
        cat "$dir/$name"
        return
      }
    done
  done
}

box_set_pids() {
  local box dir
  box=$(box_dir "$1")
  while read -r dir; do
    [[ ! -e $dir/pids.max ]] || echo "$2" >"$dir/pids.max"
  done < <(bwrap_cgroups "$box")
  # shellcheck disable=SC2016 # jq's
  bwrap_note "$box" '.pids = $n' --arg n "$2"
}

box_log() {
  cat "$(box_dir "$1")/log"
}

box_labels() {
  cat "$(box_dir "$1")/box.json"
}

box_changes() {
  (cd "$(box_dir "$1")" && find upper root -printf '%p %C@\n' 2>/dev/null | sort)
}

# Whose root is IDS_BASE of bwrap/ids.h.
volume_make() {
  mkdir -p "$SBX_ENGINE/data/volumes/$1"
  chown 1893728256:1893728256 "$SBX_ENGINE/data/volumes/$1"
}

volume_rm() {
  rm -rf --one-file-system "$SBX_ENGINE/data/volumes/${1:?}"
}

volume_run() {
  local volume=$1 root
  shift
  root=$(mktemp -d)
  tar -C "$root" -xf "$SBX_ENGINE/data/images/busybox:test.tar"
  bwrap --unshare-all --bind "$root" / --bind "$SBX_ENGINE/data/volumes/$volume" /v "$@" || return 1
  rm -rf --one-file-system "$root"
}

volumes() {
  ls "$SBX_ENGINE/data/volumes"
}

# No volume has a label here: ours are in the sandbox's own directory, which has gone with it.
volumes_with() {
  find "$SBX_ENGINE"/data/boxes/*/*/volumes/ -mindepth 1 -maxdepth 1 2>/dev/null || true
}

things() {
  volumes
  ls -A "$SBX_ENGINE/data/images" "$SBX_ENGINE/data/roots" "$SBX_ENGINE"/data/boxes/*/.names
  bwrap_groups_left
}

# Groups of this engine's that no sandbox has.
bwrap_groups_left() {
  local dir id parent
  parent=$(bwrap_group "$SBX_ENGINE/data")
  for dir in /sys/fs/cgroup/{,*/}"$parent"/*/; do
    id=$(basename "$dir")
    [[ ! -d $dir ]] || compgen -G "$SBX_ENGINE/data/boxes/*/$id" >/dev/null || echo "$dir"
  done
}
