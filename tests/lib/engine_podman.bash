# shellcheck shell=bash
# A private Podman, by its service for Docker's API: storage, networks, locks, socket, all beneath a directory. Sourced by
# lib/engine.bash, which says what each function is.
#
# Podman is no daemon: a container is a conmon's child and outlives the service, and each `podman` works on the files
# itself. So what is private is the configuration, and where the files are.

# shellcheck source=tests/lib/box_api.bash
source "$SBX_TOP/tests/lib/box_api.bash"

# podman_conf DIR: what the machine's configuration says has no say here. Locks are files, since the usual ones are one
# piece of shared memory for all; the limits are ours, since those that Podman asks for may be above what root may have.
podman_conf() {
  local dir=$1 processes
  processes=$(ulimit -Hu)
  ((processes < 32768)) 2>/dev/null || processes=32768 # to which it lowers itself
  mkdir -p "$dir"/{data,tmp,net}
  podman_runroot "$dir" >/dev/null
  cat >"$dir/containers.conf" <<END2
[containers]
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=$processes:$processes"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
tmp_dir = "$dir/tmp"
[network]
network_backend = "cni"
network_config_dir = "$dir/net"
END2
  printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$dir/data" "$(podman_runroot "$dir")" >"$dir/storage.conf"
  # A registry of a test speaks plain HTTP.
  printf 'unqualified-search-registries = []\n[[registry]]\nlocation = "127.0.0.1"\ninsecure = true\n' >"$dir/registries.conf"
}

# podman_runroot DIR: prints where it keeps what runs: a path that Podman may not find longer than 50 characters, so
# where DIR's is DIR/run is a link.
podman_runroot() {
  local run=$1/run
  if [[ ! -e $run ]]; then
    if ((${#run} <= 50)); then mkdir "$run"; else ln -s "$(mktemp -d /tmp/sbx-run.XXXXXX)" "$run"; fi
  fi
  readlink -f "$run"
}

# podman_in DIR ARGS...: the podman program on that engine. Its own options are for its conmons, which call it again.
podman_in() {
  local dir=$1
  shift
  env -u CONTAINER_HOST -u XDG_RUNTIME_DIR CONTAINERS_CONF="$dir/containers.conf" \
    CONTAINERS_STORAGE_CONF="$dir/storage.conf" CONTAINERS_REGISTRIES_CONF="$dir/registries.conf" \
    podman --root "$dir/data" --runroot "$(podman_runroot "$dir")" --storage-driver overlay --cgroup-manager cgroupfs \
    --events-backend file --tmpdir "$dir/tmp" "$@"
}

# Its containers outlive it always, so dockerd's option for that is none here.
sbx_engine_start() {
  local dir=$1 started
  ! sbx_engine_answers "$dir" || return 0
  command -v podman >/dev/null || packages_need podman
  mkdir -p "$dir"
  chmod 711 "$dir"
  podman_conf "$dir"
  # As engine_start in scripts/lib/engine.bash.
  for _ in 1 2 3; do
    rm -f "$dir/docker.sock"
    podman_service "$dir" </dev/null >>"$dir/podman.log" 2>&1 3>&- 4>&- &
    started=$!
    wait_for 120 engine_up_or_dead "$dir" $started || break
    ! sbx_engine_answers "$dir" || return 0
  done
  tail -n 20 "$dir/podman.log" >&2
  die "podman did not start; its log is $dir/podman.log"
}

# In a session of its own: it outlives the shell that starts it.
podman_service() {
  local dir=$1
  export -f podman_in podman_runroot
  # shellcheck disable=SC2016 # that shell's own
  exec setsid bash -c 'echo $$ >"$1/podman.pid"; env() { exec env "$@"; }; podman_in "$1" system service --time=0 "unix://$1/docker.sock"' - "$dir"
}

sbx_engine_pid() {
  local pid
  pid=$(cat "$1/podman.pid" 2>/dev/null) || return 1
  [[ -n $pid ]] && engine_names "$pid" "$1" && echo "$pid"
}

sbx_engine_stop() {
  local dir=$1 pid
  if pid=$(sbx_engine_pid "$dir"); then
    kill -TERM "$pid"
    wait_for 30 engine_ended "$pid" || kill -KILL "$pid"
    wait_for 5 engine_ended "$pid" || say "podman $pid does not end"
  fi
  rm -f "$dir/docker.sock" "$dir/podman.pid"
}

sbx_engine_killed() {
  rm -f "$1/docker.sock"
}

sbx_engine_remove() {
  local dir=$1 run
  [[ -d $dir ]] || return 0
  [[ ! -e $dir/containers.conf ]] || podman_rm_all "$dir" || true
  sbx_engine_stop "$dir"
  engine_kill_rest "$dir"
  run=$(podman_runroot "$dir")
  engine_unmount "$run"
  engine_unmount "$dir"
  rm -rf --one-file-system "$dir" "$run"
}

podman_rm_all() {
  podman_in "$1" rm -afv -t 0 >/dev/null 2>&1
}
