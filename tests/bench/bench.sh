#!/usr/bin/env bash
# The benchmark: what costs how much through a mount, beside the docker client on the same container in
# the same run. usage: bench.sh MOUNT DOCKER_HOST IMAGE [ROUNDS]
#
# Prints lines `name value unit ratio`: medians; the ratio is how many times faster than the docker
# client's way of doing the same (1 for that way itself).
set -euo pipefail

MNT=$1
export DOCKER_HOST=$2
IMAGE=$3
ROUNDS=${4:-31}
BOX=bench$$
TMP=$(mktemp -d)
CONTAINER=

# shellcheck disable=SC2317 # called by trap
clean_up() {
  [[ ! -d $MNT/$BOX ]] || rmdir "$MNT/$BOX"
  [[ -z $CONTAINER ]] || docker rm -fv "$CONTAINER" >/dev/null
  rm -rf "$TMP"
}
trap clean_up EXIT

now_us() {
  echo "${EPOCHREALTIME/[.,]/}"
}

# p50 ROUNDS FUNCTION: the median time of a call, in microseconds.
p50() {
  local i start
  for ((i = 0; i < $1; i++)); do
    start=${EPOCHREALTIME/[.,]/}
    "$2"
    echo $((${EPOCHREALTIME/[.,]/} - start))
  done | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# best ROUNDS FUNCTION: the smallest of three medians; others may use the machine for a while.
best() {
  local i
  for i in 1 2 3; do p50 "$@"; done | sort -n | head -n 1
}

# compare NAME OURS THEIRS: medians in microseconds
compare() {
  awk -v name="$1" -v ours="$2" -v theirs="$3" 'BEGIN {
    printf "%s %.3f ms %.1f\n", name, ours / 1000, theirs / ours
    printf "%s.docker %.3f ms 1\n", name, theirs / 1000 }'
}

ours_exec() { echo true >"$MNT/$BOX/ctl/exec"; }
theirs_exec() { docker exec "$CONTAINER" true; }

# What a command costs inside, by itself: a shell there starts and awaits so many of the same.
INSIDE=400
inside_exec() {
  echo "i=0; while [ \$i -lt $1 ]; do sh -c true; i=\$((i + 1)); done" >"$MNT/$BOX/ctl/exec"
}
inside_many() { inside_exec $INSIDE; }
inside_none() { inside_exec 0; }

ours_file() {
  cp "$TMP/1k" "$MNT/$BOX/workspace/1k"
  cp "$MNT/$BOX/workspace/1k" "$TMP/back"
}
theirs_file() {
  docker cp -q "$TMP/1k" "$CONTAINER:/tmp/1k" 2>/dev/null || docker cp "$TMP/1k" "$CONTAINER:/tmp/1k" >/dev/null
  docker cp "$CONTAINER:/tmp/1k" "$TMP/back" >/dev/null
}

ours_start() {
  mkdir "$MNT/$BOX.s"
  echo true >"$MNT/$BOX.s/ctl/exec"
  rmdir "$MNT/$BOX.s"
}
theirs_start() {
  local id
  id=$(docker run -d --network none "$IMAGE" sleep 1000)
  docker exec "$id" true
  docker rm -fv "$id" >/dev/null
}

mkdir "$MNT/$BOX"
CONTAINER=$(docker run -d --network none "$IMAGE" sleep 100000)
head -c 1024 /dev/urandom >"$TMP/1k"
ours_exec
theirs_exec
compare exec "$(best "$ROUNDS" ours_exec)" "$(p50 "$ROUNDS" theirs_exec)"
many=$(p50 5 inside_many)
awk -v us=$(((many - $(p50 5 inside_none)) / INSIDE)) 'BEGIN { printf "exec.inside %.3f ms -\n", us / 1000 }'
compare file_1k "$(p50 "$ROUNDS" ours_file)" "$(p50 $((ROUNDS / 3 + 1)) theirs_file)"
cmp "$TMP/1k" "$TMP/back"
compare first_exec "$(p50 5 ours_start)" "$(p50 5 theirs_start)"
