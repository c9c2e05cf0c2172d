#!/usr/bin/env bash
# The benchmark of starts: from mkdir to the end of the first command, on a mount of the embedded engine, beside `docker
# run -d` and `docker exec` of the same. usage: start.sh MOUNT DOCKER_HOST IMAGE [ROUNDS]
#
# Prints lines `name value unit ratio`: medians, by programs as a user runs them; the ratio is how many times faster than
# docker. Removals are not in it.
set -euo pipefail

MNT=$1
export DOCKER_HOST=$2
IMAGE=$3
ROUNDS=${4:-50}
BOX=start$$
TMP=$(mktemp -d)

# shellcheck disable=SC2317 # called by trap
clean_up() {
  local id
  rmdir "$MNT/$BOX".* 2>/dev/null || true
  while read -r id; do
    docker rm -fv "$id" >/dev/null
  done <"$TMP/containers"
  rm -rf "$TMP"
}
trap clean_up EXIT
: >"$TMP/containers"

# p50 ROUNDS FUNCTION AFTER: the median time of FUNCTION N, in microseconds; AFTER N undoes it
p50() {
  local i start
  for ((i = 0; i < $1; i++)); do
    start=${EPOCHREALTIME/[.,]/}
    "$2" $i
    echo $((${EPOCHREALTIME/[.,]/} - start))
    "$3" $i
  done | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

ours() {
  mkdir "$MNT/$BOX.$1"
  echo true >"$MNT/$BOX.$1/ctl/exec"
}

ours_after() {
  [[ $(cat "$MNT/$BOX.$1/ctl/exit_code") == 0 ]]
  rmdir "$MNT/$BOX.$1"
}

theirs() {
  docker run -d --network none "$IMAGE" sleep 1000 >"$TMP/id"
  docker exec "$(cat "$TMP/id")" true
}

theirs_after() {
  cat "$TMP/id" >>"$TMP/containers"
  docker rm -fv "$(cat "$TMP/id")" >/dev/null && sed -i '$d' "$TMP/containers"
}

ours 0 # what is made once a machine is no start's
ours_after 0
our=$(p50 "$ROUNDS" ours ours_after)
their=$(p50 $((ROUNDS / 3 + 1)) theirs theirs_after)
awk -v ours="$our" -v theirs="$their" 'BEGIN {
  printf "start %.3f ms %.1f\n", ours / 1000, theirs / ours
  printf "start.docker %.3f ms 1\n", theirs / 1000 }'
