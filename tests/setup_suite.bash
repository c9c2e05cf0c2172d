# shellcheck shell=bash
# Once per bats run: a private engine with the test images; gone afterwards, whatever happens, but where
# SBX_KEEP_ENGINE says that more is to be run on it.

# shellcheck source=tests/lib/engine.bash
source "${BASH_SOURCE[0]%/*}/lib/engine.bash"

setup_suite() {
  # scripts/test names the directory so that it can clean up after a bats that was killed.
  export SBX_ENGINE=${SBX_ENGINE:-$(mktemp -d /tmp/sandboxfs-engine.XXXXXX)}
  local IFS=$' \t\n' # bats changes it when it filters by tags
  sbx_engine_start "$SBX_ENGINE" && sbx_images
}

teardown_suite() {
  [[ -n ${SBX_KEEP_ENGINE:-} ]] || sbx_engine_remove "$SBX_ENGINE"
}
