# shellcheck shell=bash
# The embedded engine of an ordinary user, who is also who runs the tests: in a world with such a user (lib/world.bash),
# which scripts/test makes. As lib/engine_bwrap.bash, but without cgroups, and with ids from /etc/subuid. Sourced by
# lib/engine.bash.

# shellcheck source=tests/lib/engine_bwrap.bash
source "$SBX_TOP/tests/lib/engine_bwrap.bash"

# No freezer here: each process by itself, until none runs.
bwrap_freeze() {
  local signal=CONT pid
  pid=$(bwrap_pid "$1") || return 0
  ((!$2)) || signal=STOP
  while bwrap_signal_all "$pid" $signal; do :; done
}

# bwrap_signal_all PID SIGNAL: to all in PID's namespace that are not so yet; false if there was none
bwrap_signal_all() {
  local pids
  mapfile -t pids < <(ps -eo pidns=,state=,pid= | awk -v ns="$(readlink "/proc/$1/ns/pid" | tr -dc 0-9)" -v stop="$2" \
    '$1 == ns && $2 != "Z" && (($2 == "T") != (stop == "STOP")) { print $3 }')
  ((${#pids[@]})) && kill "-$2" "${pids[@]}" 2>/dev/null
}

# Files of the range's ids go by a namespace that has them. As root, from scripts/test, by rm.
bwrap_rm() {
  local gone
  gone=${1%/*}/.gone-${1##*/}
  ! grep -qs child-pid "$1/.status" || mv "$1/.status" "$1/status" # its daemon was killed at that moment
  bwrap_freeze "$1" 0
  bwrap_end "$1" KILL || return 1
  mv "$1" "$gone"
  if ((EUID == 0)); then rm -rf --one-file-system "$gone"; else "${SANDBOXFS%/fs/sandboxfs}/bwrap/launch" remove "$gone"; fi
}

volume_make() {
  mkdir -p "$SBX_ENGINE/data/volumes/$1"
}
