#!/usr/bin/env bash
# What files cost through a mount, beside the same on the local disk, on two other FUSE file systems
# (bindfs with libfuse's timeouts of a second, and mergerfs told to cache all) and by the docker client, in one run.
# usage: files.sh MOUNT DOCKER_HOST IMAGE STRESS-PROGRAM
#
# Prints lines `name value unit ratio`: the ratio is how many times as fast as the local disk. Ours has the
# plain name, the others `name.local`, `name.bindfs`, `name.mergerfs`, `name.docker`.
set -euo pipefail

MNT=$1
export DOCKER_HOST=$2
IMAGE=$3
STRESS=$4
BOX=files$$
TMP=$(mktemp -d)
CONTAINER=

# shellcheck disable=SC2317 # called by trap
clean_up() {
  cd /
  for dir in "$TMP"/bindfs "$TMP"/mergerfs; do
    ! mountpoint -q "$dir" || fusermount3 -u "$dir"
  done
  [[ ! -d $MNT/$BOX ]] || rmdir "$MNT/$BOX"
  [[ -z $CONTAINER ]] || docker rm -fv "$CONTAINER" >/dev/null
  rm -rf --one-file-system "$TMP"
}
trap clean_up EXIT

declare -A DIRS=([ours]=$MNT/$BOX/workspace [local]=$TMP/local [bindfs]=$TMP/bindfs [mergerfs]=$TMP/mergerfs)
PEERS=(ours local bindfs mergerfs)

mkdir "$MNT/$BOX" "$TMP"/{local,bindfs,mergerfs} "$TMP"/source.{bindfs,mergerfs}
bindfs "$TMP/source.bindfs" "$TMP/bindfs"
mergerfs -o cache.attr=60,cache.entry=60,cache.negative_entry=60,cache.files=auto-full,cache.readdir=true,use_ino \
  "$TMP/source.mergerfs" "$TMP/mergerfs"
echo true >"$MNT/$BOX/ctl/exec"
CONTAINER=$(docker run -d --network none "$IMAGE" sleep 100000)

# took CMD...: its microseconds
took() {
  local start=${EPOCHREALTIME/[.,]/}
  "$@" >/dev/null
  echo $((${EPOCHREALTIME/[.,]/} - start))
}

# p50 ROUNDS CMD...: the median
p50() {
  local i rounds=$1
  shift
  for ((i = 0; i < rounds; i++)); do
    took "$@"
  done | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# p50_cold ROUNDS CMD...: with nothing in the kernel's caches before each
p50_cold() {
  local i rounds=$1
  shift
  for ((i = 0; i < rounds; i++)); do
    sync
    echo 3 >/proc/sys/vm/drop_caches
    took "$@"
  done | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

# line NAME PEER MICROSECONDS UNIT: needs the local disk's in LOCAL
line() {
  local name=$1
  [[ $2 == ours ]] || name+=.$2
  awk -v name="$name" -v us="$3" -v base="$LOCAL" -v unit="$4" 'BEGIN {
    printf "%s %.3f %s %.3f\n", name, unit == "ms" ? us / 1000 : us, unit, base / us }'
}

# each NAME UNIT FUNCTION [MORE-PEERS...]: FUNCTION PEER DIR prints microseconds
each() {
  local name=$1 unit=$2 function=$3 peer
  shift 3
  LOCAL=$($function local "${DIRS[local]}")
  for peer in "${PEERS[@]}" "$@"; do
    if [[ $peer == local ]]; then
      line "$name" local "$LOCAL" "$unit"
    else
      line "$name" "$peer" "$($function "$peer" "${DIRS[$peer]:-/tmp}")" "$unit"
    fi
  done
}

stat_warm() { "$STRESS" time stat "$2/4k" 20000; }
read_4k_warm() { "$STRESS" time read "$2/4k" 5000; }
# By size, which takes a stat of each.
find_all() {
  if [[ $1 == docker ]]; then
    docker exec "$CONTAINER" find /tmp/many -type f -size -100
  else
    find "$2/many" -type f -size -100
  fi
}
find_warm() {
  find_all "$@" >/dev/null
  p50 5 find_all "$@"
}
find_cold() { p50_cold 3 find_all "$@"; }
git_status() {
  git -C "$2/repo" status --short >/dev/null
  p50 5 git -C "$2/repo" status --short
}
untar_into() {
  if [[ $1 == docker ]]; then
    docker cp - "$CONTAINER:/tmp" <"$TMP/small.tar"
  else
    tar -C "$2" -xf "$TMP/small.tar"
  fi
}
untar() { took untar_into "$@"; }
read_big() {
  if [[ $1 == docker ]]; then
    docker exec "$CONTAINER" cat /tmp/big | cat >/dev/null
  else
    dd if="$2/big" of=/dev/null bs=1M status=none
  fi
}
read_big_warm() {
  read_big "$@"
  p50 3 read_big "$@"
}
read_big_cold() { p50_cold 2 read_big "$@"; }

# The same files everywhere.
"$STRESS" files "$TMP/small" 2000
tar -C "$TMP" -cf "$TMP/small.tar" small
head -c 4096 /dev/urandom >"$TMP/4k"
head -c 268435456 /dev/urandom >"$TMP/big"
git -c init.defaultBranch=main init -q "$TMP/small"
git -C "$TMP/small" add .
git -C "$TMP/small" -c user.name=bench -c user.email=bench@example.com commit -q -m all

each untar_2000 ms untar docker
for peer in "${PEERS[@]}"; do
  cp "$TMP/4k" "$TMP/big" "${DIRS[$peer]}/"
  "$STRESS" files "${DIRS[$peer]}/many" 5000
  cp -r "$TMP/small" "${DIRS[$peer]}/repo"
done
docker cp "$TMP/big" "$CONTAINER:/tmp/big" >/dev/null
docker cp "$STRESS" "$CONTAINER:/tmp/stress" >/dev/null
docker exec "$CONTAINER" /tmp/stress files /tmp/many 5000

each stat_warm us stat_warm
each read_4k_warm us read_4k_warm
each find_5000_warm ms find_warm docker
each git_status_2000_warm ms git_status
each read_256m_warm ms read_big_warm docker
each find_5000_cold ms find_cold docker
each read_256m_cold ms read_big_cold docker
