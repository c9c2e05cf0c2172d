# shellcheck shell=bash
# The test run's private engine: one for all bats files, made by setup_suite.bash. Sourced by
# setup_suite.bash and lib/mount.bash.
#
# SBX_ENGINE is its directory (see scripts/lib/engine.bash), exported to all tests.

SBX_TOP=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
# shellcheck source=scripts/lib/say.bash
source "$SBX_TOP/scripts/lib/say.bash"
# shellcheck source=scripts/lib/packages.bash
source "$SBX_TOP/scripts/lib/packages.bash"
# shellcheck source=scripts/lib/engine.bash
source "$SBX_TOP/scripts/lib/engine.bash"
# shellcheck source=scripts/lib/image.bash
source "$SBX_TOP/scripts/lib/image.bash"

# dk ARGS...: the docker client on the private engine, and on no other.
dk() {
  env -u DOCKER_CONTEXT -u DOCKER_TLS_VERIFY docker -H "unix://$SBX_ENGINE/docker.sock" "$@"
}

# sbx_images: what tests run on. busybox:test has a shell and the users root and user (1000, in the
# extra group 2000); empty:test has nothing.
sbx_images() {
  local socket=$SBX_ENGINE/docker.sock
  image_exists "$socket" busybox:test ||
    image_make_busybox "$socket" busybox:test "$SBX_TOP/build-cache/busybox" || return 1
  image_exists "$socket" empty:test || image_make_empty "$socket" empty:test
}

# sbx_image_debian: debian:test, for files whose tests need real programs inside; call it in setup_file.
# The archive is made once a machine, the image once an engine.
sbx_image_debian() {
  local socket=$SBX_ENGINE/docker.sock
  image_exists "$socket" debian:test ||
    image_make_debian "$socket" debian:test "$SBX_TOP/build-cache/debian"
}

# For tests in which the engine goes away and comes back. Containers stop with it.
engine_down() {
  engine_stop "$SBX_ENGINE"
}

engine_up() {
  engine_start "$SBX_ENGINE"
}
