# shellcheck shell=bash
# A private dockerd in a directory of its own: socket, data, pid file, log, all beneath it; no
# bridge and no iptables rule, so nothing outside of the directory changes. Sourced after say.bash.
#
# DIR below is an engine's directory; DIR/data may be a link to where the data is to be.

engine_host() {
  echo "unix://$1/docker.sock"
}

# engine_api SOCKET METHOD PATH [CURL ARGS...]: one call of the engine API; fails on 4xx and 5xx. SOCKET is a path,
# or tcp://NAME:PORT.
engine_api() {
  local socket=$1 method=$2 path=$3 to=(--unix-socket "$1") base=http://engine
  shift 3
  if [[ $socket == tcp://* ]]; then
    to=()
    base=http://${socket#tcp://}
  fi
  curl --silent --show-error --fail "${to[@]}" -X "$method" "$@" "$base$path"
}

engine_answers() {
  [[ -S $1 || $1 == tcp://* ]] && [[ $(engine_api "$1" GET /_ping --max-time 5 2>/dev/null) == OK ]]
}

# engine_pid DIR: the pid of its dockerd, if that is alive. The pid file may be stale and the number
# someone else's by now, so the command line must name DIR.
engine_pid() {
  local pid
  pid=$(cat "$1/docker.pid" 2>/dev/null) || return 1
  [[ -n $pid ]] && engine_names "$pid" "$1" && echo "$pid"
}

# Does process PID's command line name something beneath DIR?
engine_names() {
  tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | grep -qF "$2/"
}

# engine_start DIR [OPTIONS OF DOCKERD...]: starts it and returns when it answers. Running already: nothing to do.
engine_start() {
  local dir=$1 started
  shift
  ! engine_answers "$dir/docker.sock" || return 0
  grep -q ' cgroup2\? ' /proc/mounts ||
    die "no cgroup file system is mounted on /sys/fs/cgroup; dockerd cannot run without one"
  mkdir -p "$dir"
  chmod 711 "$dir"
  engine_clear_pidfile "$dir"
  # On a busy machine it gives up by itself when its containerd is slow: once more then.
  for _ in 1 2 3; do
    # A session of its own, no inherited descriptors: it outlives the shell that starts it, and a
    # bats that waits for its descriptor 3 does not wait for us.
    setsid dockerd -H "$(engine_host "$dir")" --data-root "$dir/data" --exec-root "$dir/exec" \
      --pidfile "$dir/docker.pid" --bridge none --iptables=false --ip6tables=false "$@" \
      </dev/null >>"$dir/dockerd.log" 2>&1 3>&- 4>&- &
    started=$!
    wait_for 120 engine_up_or_dead "$dir" "$started" || break
    ! engine_answers "$dir/docker.sock" || return 0
    engine_stop "$dir" # what is left of it
  done
  tail -n 20 "$dir/dockerd.log" >&2
  die "dockerd did not start; its log is $dir/dockerd.log"
}

engine_up_or_dead() {
  engine_answers "$1/docker.sock" || ! kill -0 "$2" 2>/dev/null
}

# dockerd refuses to start where its pid file names any living process, as after a reboot.
engine_clear_pidfile() {
  engine_pid "$1" >/dev/null || rm -f "$1/docker.pid"
}

# Is there no process PID any more (a zombie is none)?
engine_ended() {
  [[ ! -r /proc/$1/stat ]] || [[ $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) == Z* ]]
}

# engine_stop DIR: ends dockerd, and whatever of its containerd and shims is left. By pid, each of
# which names DIR in its command line: nobody else's process does.
engine_stop() {
  local dir=$1 pid
  if pid=$(engine_pid "$dir"); then
    kill -TERM "$pid"
    wait_for 30 engine_ended "$pid" || kill -KILL "$pid"
    wait_for 5 engine_ended "$pid" || say "dockerd $pid does not end"
  fi
  engine_kill_rest "$dir"
  # A pid of a containerd that is gone makes the next dockerd wait for it.
  rm -f "$dir/docker.pid" "$dir/docker.sock" "$dir/exec/containerd/containerd.pid"
}

engine_kill_rest() {
  local pid rest
  mapfile -t rest < <(engine_rest "$(realpath "$1")/" "$(realpath -m "$1/data")/")
  for pid in "${rest[@]}"; do
    kill -KILL "$pid" 2>/dev/null || true
    wait_for 5 engine_ended "$pid" || true
  done
}

# engine_rest DIR/ DATA/: pids of containerd and shims, and of what runs in containers: their root is an
# overlay from DATA. Those outlive a dockerd and a shim that were killed.
engine_rest() {
  local proc
  for proc in /proc/[0-9]*; do
    case $(cat "$proc/comm") in
      containerd* | dockerd | podman | conmon) ! engine_names "${proc#/proc/}" "${1%/}" || echo "${proc#/proc/}" ;;
    esac
    ! awk '$5 == "/"' "$proc/mountinfo" | grep -qF "upperdir=$2" || echo "${proc#/proc/}"
  done 2>/dev/null
}

# engine_remove DIR: stops it, ends its containers, unmounts what is mounted beneath, deletes DIR.
engine_remove() {
  local dir=$1 ids
  [[ -d $dir ]] || return 0
  if engine_answers "$dir/docker.sock"; then
    # Killed at once; without this dockerd would give each container its time to stop.
    mapfile -t ids < <(docker -H "$(engine_host "$dir")" ps -aq)
    ((${#ids[@]} == 0)) || docker -H "$(engine_host "$dir")" rm -fv "${ids[@]}" >/dev/null || true
  fi
  engine_stop "$dir"
  engine_unmount "$dir"
  rm -rf --one-file-system "$dir"
}

engine_unmount() {
  local target
  # The newest first: a mount upon a mount goes before it.
  awk -v dir="$1/" 'index($5 "/", dir) == 1 { print $5 }' /proc/self/mountinfo | tac |
    while read -r target; do
      umount "$target" 2>/dev/null || umount -l "$target" || true
    done
}
