# shellcheck shell=bash
# What passed and what failed. Sourced by scripts/test; LOGS is where logs go.

PASSED=0 FAILED=0

# check NAME CMD...: one test that is a command. In the background, since a shell takes a signal while it
# waits, not while a command runs.
check() {
  local name=$1 log=$LOGS/${1// /-}.log start=$SECONDS
  shift
  "$@" >"$log" 2>&1 </dev/null &
  if wait $!; then
    PASSED=$((PASSED + 1))
    echo "ok $name ($((SECONDS - start)) s)"
  else
    FAILED=$((FAILED + 1))
    echo "not ok $name ($((SECONDS - start)) s); the end of $log:"
    tail -n 40 "$log" | sed 's/^/  /'
    return 1
  fi
}

# tap_totals LOG: prints `PASSED FAILED` of a TAP stream. Skipped, and announced but not run, is failed; so is a
# stream without a test.
tap_totals() {
  local ok bad skipped planned
  skipped=$(grep -ciE '^ok .*# skip' "$1" || true)
  ok=$(($(grep -cE '^ok ' "$1" || true) - skipped))
  bad=$((skipped + $(grep -cE '^not ok ' "$1" || true)))
  planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$1" | head -n 1)
  ((ok + bad >= ${planned:-0})) || bad=$((planned - ok))
  ((ok + bad > 0)) || bad=1
  echo "$ok $bad"
}

# meson_totals JSON: the same for what `meson test` has written. The C tests print TAP, and its lines are what is
# counted; a program that ends badly otherwise (a crash) is one failure.
meson_totals() {
  jq -rn '
    def lines(re): [(.stdout // "") | split("\n")[] | select(test(re))] | length;
    reduce inputs as $t ([0, 0];
      ($t | lines("^(not ok |ok .*# (skip|SKIP))")) as $bad
      | (($t | lines("^ok ")) - ($t | lines("^ok .*# (skip|SKIP)"))) as $ok
      | if $t.result == "OK" then .[0] += (if $ok + $bad == 0 then 1 else $ok end)
        else .[0] += $ok end
      | .[1] += (if $bad == 0 and $t.result != "OK" then 1 else $bad end))
    | if .[0] + .[1] == 0 then "0 1" else "\(.[0]) \(.[1])" end' "$1" 2>/dev/null || echo '0 1'
}

# count WHAT PASSED FAILED
count() {
  PASSED=$((PASSED + $2))
  FAILED=$((FAILED + $3))
  echo "# $1: $2 passed, $3 failed"
}
