# shellcheck shell=bash
# A private dockerd: scripts/lib/engine.bash has it, since scripts/up has one too. Sourced by lib/engine.bash, which
# says what each function is.

# shellcheck source=tests/lib/box_api.bash
source "$SBX_TOP/tests/lib/box_api.bash"

# OPTIONS are dockerd's. There is a second runtime by a name of its own, to see which one is taken.
sbx_engine_start() {
  engine_start "$@" --add-runtime "runc-too=$(PATH=$PATH:/usr/sbin:/sbin type -P runc)"
}

sbx_engine_stop() {
  engine_stop "$1"
}

sbx_engine_remove() {
  engine_remove "$1"
}

sbx_engine_pid() {
  engine_pid "$1"
}

# Its containerd dies with it; where nobody reaps that at once, the next dockerd would take the dead one's pid for a
# running one.
sbx_engine_killed() {
  rm -f "$1/exec/containerd/containerd.pid"
}
