# shellcheck shell=bash
# Where scripts/up keeps what it makes outside of this tree. Sourced by up and down.

# The private engine's data, and its socket, pid file, log and the list of mounts. Overridden by
# tests, so that they touch nothing of the machine's.
# shellcheck disable=SC2034 # used by those who source this
STATE=${SANDBOXFS_STATE:-/var/lib/sandboxfs}
# shellcheck disable=SC2034
RUN=${SANDBOXFS_RUN:-/run/sandboxfs}

is_mounted() {
  grep -qF " $1 fuse" /proc/mounts
}
