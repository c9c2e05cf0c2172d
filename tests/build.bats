#!/usr/bin/env bats
# What the build makes, and where an installation puts it.

load lib/mount

setup() {
  build=$(cd "$(dirname "$SANDBOXFS")/.." && pwd)
  agent=$build/agent/agent
}

@test "the agent is one static file of less than 300 kB" {
  run file -L "$agent"
  [[ $output == *"statically linked"* || $output == *"static-pie linked"* ]]
  size=$(stat -Lc %s "$agent")
  echo "$size bytes"
  ((size < 300000))
  run ! grep INTERP <(readelf -lW "$agent")
}

@test "an installation has the programs, the agent and the manuals" {
  DESTDIR=$BATS_TEST_TMPDIR/dest meson install -C "$build" --no-rebuild >"$BATS_TEST_TMPDIR/log"
  cd "$BATS_TEST_TMPDIR/dest/usr/local"
  [ -x bin/sandboxfs ]
  [ -x bin/sandboxfs-exec ]
  [ -x bin/sandboxfs-shell ]
  [ -x libexec/sandboxfs/agent ]
  cmp libexec/sandboxfs/agent "$agent"
  [ -f share/man/man1/sandboxfs.1 ]
  # Nothing of the tests, nothing unexpected.
  [ "$(find . -type f | LC_ALL=C sort | tr '\n' ' ')" = \
    "./bin/sandboxfs ./bin/sandboxfs-exec ./bin/sandboxfs-shell ./libexec/sandboxfs/agent ./libexec/sandboxfs/launch ./libexec/sandboxfs/unpack $(
      printf './share/man/man1/%s.1 ' sandboxfs-exec sandboxfs-shell sandboxfs
    )" ]
}

@test "an installed daemon finds the installed agent" {
  DESTDIR=$BATS_TEST_TMPDIR/dest meson install -C "$build" --no-rebuild >"$BATS_TEST_TMPDIR/log"
  SANDBOXFS=$BATS_TEST_TMPDIR/dest/usr/local/bin/sandboxfs
  mount_sbx
  sandbox demo
  echo 'echo here' >"$MNT/demo/ctl/exec"
  [ "$(cat "$MNT/demo/ctl/output")" = here ]
  rmdir "$MNT/demo"
}

@test "the version is the project's, and printed" {
  version=$(meson introspect --projectinfo "$build" | jq -r .version)
  run "$SANDBOXFS" --version
  [ "$status" = 0 ]
  [[ $output == *"sandboxfs $version"* ]]
  mount_sbx
  grep -qF "$version" "$MNT/.sandboxfs/version"
}

@test "help names the options; a wrong one is refused with words" {
  run "$SANDBOXFS" --help
  [ "$status" = 0 ]
  for option in engine host image templates namespace symlinks; do
    [[ $output == *"$option"* ]]
  done
  run "$SANDBOXFS" -o symlinks=sideways "$BATS_TEST_TMPDIR"
  [ "$status" != 0 ]
  [[ $output == *symlinks* ]]
  run "$SANDBOXFS"
  [ "$status" != 0 ]
}
