#!/usr/bin/env bats
# The promised ratios hold on this machine, in one run.

load ../lib/mount
load ../lib/assert

# ratio NAME: of the benchmark's line
ratio() {
  awk -v name="$1" '$1 == name { print $4 }' "$BATS_TEST_TMPDIR/bench"
}

@test "a command by ctl/exec is at least ten times faster than docker exec" {
  mount_sbx
  "$SBX_TOP/tests/bench/bench.sh" "$MNT" "$(engine_host "$SBX_ENGINE")" busybox:test | tee "$BATS_TEST_TMPDIR/bench"
  sed 's/^/# /' "$BATS_TEST_TMPDIR/bench" >&3
  awk -v r="$(ratio exec)" 'BEGIN { exit !(r >= 10) }'
  awk -v r="$(ratio file_1k)" 'BEGIN { exit !(r >= 10) }'
  awk -v r="$(ratio first_exec)" 'BEGIN { exit !(r >= 0.5) }'
}

@test "files through the mount beside other file systems" {
  mount_sbx
  "$SBX_TOP/tests/bench/files.sh" "$MNT" "$(engine_host "$SBX_ENGINE")" busybox:test \
    "${SANDBOXFS%/fs/sandboxfs}/tests/stress/stress" | tee "$BATS_TEST_TMPDIR/bench"
  sed 's/^/# /' "$BATS_TEST_TMPDIR/bench" >&3
  # No less than eight workloads, each beside the local disk.
  is "$(awk 'NF == 4 && $1 !~ /[.]/' "$BATS_TEST_TMPDIR/bench" | wc -l)" 8
  awk -v r="$(ratio stat_warm)" 'BEGIN { exit !(r >= 1 / 20) }'
}
