# shellcheck shell=bash
# Sandboxes behind the mount's back, in an engine that speaks Docker's API on DIR/docker.sock. Sourced by the
# lib/engine_KIND.bash of those kinds. Other kinds have functions of the same names.
#
# NAME is a sandbox of the newest mount: its directory's name.

# dk ARGS...: the docker client on the private engine, and on no other. For tests that have the tag only:api, or
# only:docker; all others use what is below.
dk() {
  env -u DOCKER_CONTEXT -u DOCKER_TLS_VERIFY docker -H "unix://$SBX_ENGINE/docker.sock" "$@"
}

sbx_engine_answers() {
  engine_answers "$1/docker.sock"
}

sbx_engine_options() {
  echo "host=$(engine_host "$1")"
}

sbx_import() {
  image_import "$SBX_ENGINE/docker.sock" "$1"
}

sbx_has_image() {
  image_exists "$SBX_ENGINE/docker.sock" "$1"
}

containers() {
  dk ps -aq --no-trunc --filter "label=sandboxfs.namespace=${1:-$NS}"
}

containers_rm() {
  dk rm -fv "$1" >/dev/null
}

# box_pid NAME: of its PID 1, as the host sees it
box_pid() {
  dk inspect -f '{{.State.Pid}}' "$(box_id "$1")"
}

# box_exec [-i] [-d] [-u USER] NAME CMD...: runs in it, as the sandbox's user or as USER; -i: with our stdin; -d: in
# the background
box_exec() {
  local options=()
  while [[ $1 == -* ]]; do
    options+=("$1")
    [[ $1 != -u ]] || {
      options+=("$2")
      shift
    }
    shift
  done
  dk exec "${options[@]}" "$(box_id "$1")" "${@:2}"
}

# box_top NAME: a line for each of its processes, the command in it
box_top() {
  dk top "$(box_id "$1")" -eo pid,args | tail -n +2
}

box_pause() {
  dk pause "$(box_id "$1")" >/dev/null
}

box_unpause() {
  dk unpause "$(box_id "$1")" >/dev/null
}

# box_kill NAME: SIGKILL to its PID 1
box_kill() {
  dk kill "$(box_id "$1")" >/dev/null
}

box_stop() {
  dk stop -t 1 "$(box_id "$1")" >/dev/null
}

box_start() {
  dk start "$(box_id "$1")" >/dev/null
}

box_rm() {
  containers_rm "$(box_id "$1")"
}

# box_state NAME: running, paused, exited ...
box_state() {
  dk inspect -f '{{.State.Status}}' "$(box_id "$1")"
}

# box_limit NAME memory|swap|cpu|pids: what the engine holds it to. memory and swap (with memory in it) in bytes,
# cpu as `QUOTA PERIOD` in microseconds; no limit: max.
box_limit() {
  local field
  case $2 in
    memory) field='{{.HostConfig.Memory}}' ;;
    swap) field='{{.HostConfig.MemorySwap}}' ;;
    cpu) field='{{.HostConfig.CpuQuota}} {{.HostConfig.CpuPeriod}}' ;;
    pids) field='{{.HostConfig.PidsLimit}}' ;;
  esac
  dk inspect -f "$field" "$(box_id "$1")" | sed -E 's/^(-1|0|<no value>|<nil>)( |$)/max\2/'
}

# box_set_pids NAME N: another limit on processes
box_set_pids() {
  dk update --pids-limit "$2" "$(box_id "$1")" >/dev/null
}

# box_log NAME: what its PID 1 printed
box_log() {
  dk logs "$(box_id "$1")" 2>&1
}

# box_labels NAME: all that the engine keeps of it in words, for those who look for secrets in it
box_labels() {
  dk inspect -f '{{json .Config.Labels}}' "$(box_id "$1")"
}

# box_changes NAME: the files that are no longer the image's, sorted
box_changes() {
  dk diff "$(box_id "$1")" | sort
}

# volume_make NAME, volume_rm NAME: one of somebody else's, which outlives sandboxes. volumes, volumes_with
# LABEL=VALUE: the names of all, and of those with that label.
volume_make() {
  dk volume create "$1" >/dev/null
}

volume_rm() {
  dk volume rm "$1" >/dev/null
}

# volume_run NAME CMD...: with the volume on /v
volume_run() {
  dk run --rm --network none --entrypoint '' -v "$1:/v" busybox:test "${@:2}"
}

volumes() {
  dk volume ls -q | sort
}

volumes_with() {
  dk volume ls -q --filter "label=$1"
}

# things: all else than containers that a sandbox could leave behind
things() {
  volumes
  dk image ls -aq | sort
  dk network ls -q | sort
}
