# shellcheck shell=bash
# Is a test right? With SBX_LOCAL=1 those that load this file after lib/mount and lib/assert run without
# sandboxfs: a sandbox is a container of the same image with a local directory bound to its workspace, so the
# kernel's own file system is what host and sandbox share. What fails there is the test's fault. Nothing
# but `ex`, `out`, `box_id` and workspace/ is there.

[[ -z ${SBX_LOCAL:-} ]] && return

mount_sbx() {
  MNT=$(mktemp -d "$BATS_TEST_TMPDIR/local.XXXX")
}

sandbox() {
  local dir=$MNT/$1 json='{}' image tmpfs
  mkdir -p "$dir"/{ctl,workspace}
  [[ $1 != *@* ]] || json=$(cat "$TEMPLATES/${1%%@*}.json")
  image=$(jq -r '.image // "busybox:test"' <<<"$json")
  tmpfs=$(jq -r '.tmpfs // empty' <<<"$json")
  [[ -z $tmpfs ]] || mount -t tmpfs -o "${tmpfs#*:}" none "$dir/workspace"
  dk run -d --label "sandboxfs.namespace=$NS" --network none -v "$dir/workspace:/workspace" -w /workspace \
    "$image" sleep infinity >"$dir/ctl/config.json"
}

ex() {
  local ctl=$MNT/$1/ctl status=0
  dk exec "$(cat "$ctl/config.json")" sh -c "$2" >"$ctl/stdout" 2>"$ctl/stderr" || status=$?
  echo $status >"$ctl/exit_code"
  cat "$ctl/stdout" "$ctl/stderr" "$ctl/exit_code" >"$ctl/summary"
}

teardown() {
  local status=0
  sbx_teardown || status=1
  engine_unmount "$BATS_TEST_TMPDIR"
  return $status
}
