# shellcheck shell=bash
# The test run's private engine: one for all bats files, made by setup_suite.bash. Sourced by
# setup_suite.bash and lib/mount.bash, and by scripts/test to remove one.
#
# SBX_KIND says which engine it is. All that differs between the kinds is in one file for each, lib/engine_KIND.bash,
# which has these functions and no others that a test may call:
#
#   sbx_engine_start DIR [OPTIONS]  starts it and returns when it works; running already: nothing to do
#   sbx_engine_stop DIR             ends it
#   sbx_engine_remove DIR           ends it with all that it ran, and deletes DIR
#   sbx_engine_pid DIR              of the process that a test may kill or freeze
#   sbx_engine_answers DIR
#   sbx_engine_killed DIR           what must be done after a kill -9 before it can be started again
#   sbx_engine_options DIR          the mount's options that choose it
#   sbx_import NAME:TAG             a tar archive on stdin becomes an image
#   sbx_has_image NAME:TAG
#   containers [NAMESPACE]          ids of all sandboxes of a namespace, running or not
#   containers_rm ID                kills and removes one
#   box_*, volume*, things             see lib/box_api.bash
#
# SBX_ENGINE is its directory, exported to all tests. A test that is not for every kind has a tag that says so:
# see suites_tags in scripts/lib/suites.bash.

SBX_TOP=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
# shellcheck source=scripts/lib/say.bash
source "$SBX_TOP/scripts/lib/say.bash"
# shellcheck source=scripts/lib/packages.bash
source "$SBX_TOP/scripts/lib/packages.bash"
# shellcheck source=scripts/lib/engine.bash
source "$SBX_TOP/scripts/lib/engine.bash"
# shellcheck source=scripts/lib/image.bash
source "$SBX_TOP/scripts/lib/image.bash"

export SBX_KIND=${SBX_KIND:-docker}
[[ -r $SBX_TOP/tests/lib/engine_$SBX_KIND.bash ]] || die "no kind of engine is named $SBX_KIND (SBX_KIND)"
# shellcheck source=/dev/null
source "$SBX_TOP/tests/lib/engine_$SBX_KIND.bash"

# sbx_images: what tests run on. busybox:test has a shell and the users root and user (1000, in the
# extra group 2000); empty:test has nothing.
sbx_images() {
  sbx_has_image busybox:test ||
    image_tar_busybox "$SBX_TOP/build-cache/busybox" | sbx_import busybox:test || return 1
  # The root itself is a member, since an archive without any is no image for the embedded engine.
  sbx_has_image empty:test ||
    tar -c --no-recursion --owner=0 --group=0 --mode=755 -C "$SBX_TOP" . | sbx_import empty:test
}

# sbx_image_debian: debian:test, for files whose tests need real programs inside; call it in setup_file.
# The archive is made once a machine, the image once an engine.
sbx_image_debian() {
  local archive
  ! sbx_has_image debian:test || return 0
  archive=$(image_debian "$SBX_TOP/build-cache/debian") || return 1
  sbx_import debian:test <"$archive"
}

# For tests in which the engine goes away and comes back. Containers may stop with it.
engine_down() {
  sbx_engine_stop "$SBX_ENGINE"
}

# engine_up [OPTIONS]
engine_up() {
  sbx_engine_start "$SBX_ENGINE" "$@"
}

# engine_kill: kill -9. What it does not end itself then is ended too, so that it can be started again.
engine_kill() {
  kill -KILL "$(sbx_engine_pid "$SBX_ENGINE")"
  wait_for 90 engine_is_gone
  sbx_engine_killed "$SBX_ENGINE"
}

engine_is_gone() {
  ! sbx_engine_answers "$SBX_ENGINE"
}

# engine_freeze, engine_thaw: it hangs; and goes on
engine_freeze() {
  kill -STOP "$(sbx_engine_pid "$SBX_ENGINE")"
}

engine_thaw() {
  kill -CONT "$(sbx_engine_pid "$SBX_ENGINE")"
}

# engine_options: what a mount needs to find it.
engine_options() {
  sbx_engine_options "$SBX_ENGINE"
}
