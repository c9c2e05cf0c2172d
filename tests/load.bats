#!/usr/bin/env bats
# Many at once: 50 copies and 10 foreground commands over 10 sandboxes, for a minute; all right.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

# copier BOX K END: copies a file in and out, again and again, and compares.
copier() {
  local src=$BATS_TEST_TMPDIR/src$(($2 % 5)) w=$MNT/box$1/workspace n=0
  while ((SECONDS < $3)); do
    cp "$src" "$w/c$2" && cmp "$src" "$w/c$2" && cp "$w/c$2" "$BATS_TEST_TMPDIR/back$1.$2" &&
      cmp "$src" "$BATS_TEST_TMPDIR/back$1.$2" || return 1
    n=$((n + 1))
  done
  echo "copies $n"
}

# commander BOX END: runs commands, and compares what they print and exit with.
commander() {
  local c=$MNT/box$1/ctl n=0 code
  while ((SECONDS < $2)); do
    code=$((n % 3))
    echo "echo $1.$n; echo e$n >&2; exit $code" >"$c/exec" || return 1
    [[ $(cat "$c/stdout") == "$1.$n" && $(cat "$c/stderr") == "e$n" && $(cat "$c/exit_code") == "$code" ]] || {
      echo "box$1 command $n: $(cat "$c/summary")"
      return 1
    }
    n=$((n + 1))
  done
  echo "commands $n"
}

@test "50 cp and 10 commands at once over 10 sandboxes" {
  local i k secs=60 end pids=() failed=0
  ! short || secs=10
  mount_sbx
  for i in {0..9}; do mkdir "$MNT/box$i"; done
  for i in {0..9}; do is "$(out "box$i" 'echo up')" up; done
  for i in 0 1 2 3 4; do head -c $((i * 150001 + 1)) /dev/urandom >"$BATS_TEST_TMPDIR/src$i"; done
  end=$((SECONDS + secs))
  for i in {0..9}; do
    for k in 0 1 2 3 4; do
      copier "$i" "$k" $end >"$BATS_TEST_TMPDIR/log.c$i.$k" 2>&1 3>&- &
      pids+=($!)
    done
    commander "$i" $end >"$BATS_TEST_TMPDIR/log.e$i" 2>&1 3>&- &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i" || failed=$((failed + 1)); done
  cat "$BATS_TEST_TMPDIR"/log.* | sort | awk '{ n[$1] += $2 } END { for (k in n) print k, n[k] }'
  ((failed == 0)) || cat "$BATS_TEST_TMPDIR"/log.*
  is $failed 0
  # Every worker got a turn.
  is "$(cat "$BATS_TEST_TMPDIR"/log.* | grep -cE '^(copies|commands) [1-9]')" 60
  rmdir "$MNT"/box*
  wait_for 60 no_containers
}
