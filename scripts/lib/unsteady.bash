# shellcheck shell=bash
# Tests that fail beside others and pass alone. Sourced by scripts/test after suites.bash, whose queue calls unsteady.
#
# Three files run at once on a machine that may have two processors: some limit of time will not hold one day, and one
# such test in thousands says little. It is run again by itself, and where it passes it is counted as passed, and named in
# the last lines of the run for whoever mends it. Never where a daemon ended badly, or a sanitizer or valgrind reported: what
# they saw happened. And of a whole run no more than UNSTEADY_MAX: more of them are no accident.

UNSTEADY_MAX=3
UNSTEADY=()

# Nor where bytes, rows or answers were wrong: that is no matter of time (what comes late is LATE: in tests/stress/lag.c). bats
# puts "# " before what a failed test printed. In this order: a daemon or a sanitizer; an assertion of tests/posix, of
# python (a limit of time is no assert there), two checksums for `is`, tests/lib/sametree.py; what has WRONG of its own, `right`
# too; a lock that two have; stress blocks, tests/lib/sqlwriter.py and its database, fio, sha256sum -c; git fsck.
UNSTEADY_NEVER='^# (report |the daemon.s exit status|daemon [0-9]+ did not end)|runtime error:'
UNSTEADY_NEVER+='|^# (not ok |AssertionError|got  [^0-9a-f]{0,2}[0-9a-f]{64}|[0-9]+ differences between )|WRONG: '
UNSTEADY_NEVER+='|expected exit code 1, got 0|block [0-9]+ of [0-9]+ is wrong|committed rows are missing|rows are there twice'
UNSTEADY_NEVER+='|integrity_check:|verify: bad|checksums? did NOT match'
UNSTEADY_NEVER+='|(missing|broken link from|error in) +(blob|tree|commit|tag) |(object|is) corrupt|(sha1|hash|checksum) mismatch'

# unsteady NAME BAD KIND FILE: true where all that failed of it passes alone.
unsteady() {
  local log=$LOGS/$1.log test tests
  mapfile -t tests < <(sed -nE 's/^not ok [0-9]+ (.*) in [0-9]+ms$/\1/p' "$log")
  ((${#tests[@]} == $2 && ${#UNSTEADY[@]} + $2 <= UNSTEADY_MAX)) || return 1
  ! grep -qE "$UNSTEADY_NEVER" "$log" || return 1
  for test in "${tests[@]}"; do
    UNSTEADY+=("$3 ${4##*/}: $test")
    unsteady_alone "$1" "$3" "$4" "$test" || return 1
  done
}

# unsteady_alone NAME KIND FILE TEST: on an engine of its own, as a lane would. The first log stays.
unsteady_alone() {
  local dir=$WORK/alone log=$LOGS/$1-alone.log
  mkdir -p "$dir/tmp"
  (
    export SBX_KIND SBX_ENGINE TMPDIR=$dir/tmp SBX_KEEP_ENGINE=1 SBX_LANE=0 SBX_FILTER
    SBX_KIND=$(suites_engine "$2")
    SBX_ENGINE=$dir/engine-$SBX_KIND
    SBX_FILTER=^$(printf %s "$4" | sed 's/[][(){}.*+?^$|\\]/\\&/g')\$
    kind_run "$2" "$3" </dev/null
  ) >"$log" 2>&1 &
  wait $! || true
  clean_up "$dir"
  [[ $(tap_totals "$log") == '1 0' ]]
}

unsteady_tell() {
  ((${#UNSTEADY[@]} == 0)) || printf '# failed beside others: %s\n' "${UNSTEADY[@]}"
}
