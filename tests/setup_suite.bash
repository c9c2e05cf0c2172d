# shellcheck shell=bash
# Once per bats run: a private engine with the test images; gone afterwards, whatever happens.

# shellcheck source=tests/lib/engine.bash
source "${BASH_SOURCE[0]%/*}/lib/engine.bash"

setup_suite() {
  # scripts/test names the directory so that it can clean up after a bats that was killed.
  export SBX_ENGINE=${SBX_ENGINE:-$(mktemp -d /tmp/sandboxfs-engine.XXXXXX)}
  engine_start "$SBX_ENGINE" && sbx_images
}

teardown_suite() {
  engine_remove "$SBX_ENGINE"
}
