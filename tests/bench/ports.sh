#!/usr/bin/env bash
# Throughput and latency of a forwarded port, beside the same client and server on the plain loopback.
# usage: ports.sh MOUNT BUSYBOX [MB]
#
# Prints lines `name value unit ratio`; the ratio is to the loopback's (1 for that itself).
set -euo pipefail

MNT=$1 BUSYBOX=$2 MB=${3:-64}
BOX=bench$$
TMP=$(mktemp -d)
SERVERS=()
CLIENT=$(dirname "${BASH_SOURCE[0]}")/../lib/portclient.py

# shellcheck disable=SC2317 # called by trap
clean_up() {
  ((${#SERVERS[@]} == 0)) || kill "${SERVERS[@]}" 2>/dev/null || true
  [[ ! -d $MNT/$BOX ]] || rmdir "$MNT/$BOX"
  rm -rf "$TMP"
}
trap clean_up EXIT

# rate FUNCTION ADDRESS: MB a second, the best of three
rate() {
  local start
  for _ in 1 2 3; do
    start=${EPOCHREALTIME/[.,]/}
    "$1" "$2" >/dev/null
    echo $((MB * 1000000 / (${EPOCHREALTIME/[.,]/} - start)))
  done | sort -n | tail -n 1
}

down() { curl -sS "http://$1/big" -o /dev/null; }
up() { python3 "$CLIENT" upload "$1" $((MB << 20)); }

# small ADDRESS: the median of 50 requests on a new connection each, in microseconds
small() {
  local start
  for _ in {1..50}; do
    start=${EPOCHREALTIME/[.,]/}
    curl -sS "http://$1/small" >/dev/null
    echo $((${EPOCHREALTIME/[.,]/} - start))
  done | sort -n | sed -n 25p
}

# line NAME UNIT OURS LOOPBACK
line() {
  awk -v n="$1" -v u="$2" -v o="$3" -v l="$4" 'BEGIN {
    printf "%s %d %s %.2f\n%s.loopback %d %s 1\n", n, o, u, o / l, n, l, u }'
}

# Two ports of 127.0.0.1 that nobody has.
read -r http raw < <(python3 -c 'import socket
s = [socket.socket() for _ in range(2)]
for x in s: x.bind(("127.0.0.1", 0))
print(*(x.getsockname()[1] for x in s))')
mkdir "$MNT/$BOX"
head -c $((MB << 20)) /dev/zero >"$TMP/big"
echo small >"$TMP/small"
cp "$TMP/big" "$TMP/small" "$MNT/$BOX/workspace/"
echo 'httpd -p 127.0.0.1:8080 -h /workspace; nc -ll -p 9000 -e sh -c "cat > /dev/null; echo x" > /dev/null 2>&1 &' >"$MNT/$BOX/ctl/exec"
"$BUSYBOX" httpd -f -p "127.0.0.1:$http" -h "$TMP" &
SERVERS+=($!)
"$BUSYBOX" nc -ll -p "$raw" -e sh -c 'cat > /dev/null; echo x' >/dev/null 2>&1 &
SERVERS+=($!)
at=$(cat "$MNT/$BOX/ctl/ports/8080")
in=$(cat "$MNT/$BOX/ctl/ports/9000")
curl -sS --retry 50 --retry-connrefused --retry-delay 1 "http://127.0.0.1:$http/small" >/dev/null
line port_down MB/s "$(rate down "$at")" "$(rate down "127.0.0.1:$http")"
line port_up MB/s "$(rate up "$in")" "$(rate up "127.0.0.1:$raw")"
line port_small us "$(small "$at")" "$(small "127.0.0.1:$http")"
