# shellcheck shell=bash
# The bats files as a queue, worked off by several lanes at once: most of a test's time is waiting. Sourced by
# scripts/test after count.bash and engine.bash; WORK is the run's directory.
#
# An item of the queue is `KIND FILE`: a build, or what it runs under, or the engine that it runs on, and a bats file. A
# lane is a shell of its own with engines of its own, one of each kind that it needs, which it keeps for all of its items.

# These start first, whatever the kind: what takes minutes is not to begin when all else has ended.
SUITES_FIRST=(stress programs load posix files faults locks)
# Those of them that take more than a minute under a sanitizer run under one of the two. Many threads at once are
# TSan's; many kinds of operations and of data are ASan's. docs/testing.md says what the other one has instead.
SUITES_NOT_ASAN=(load stress)
SUITES_NOT_TSAN=(posix programs quickstart)
# What build.bats looks at is the same in every build; these others begin daemons, users and mounts of their own, and
# have been run with the plain build only.
SUITES_PLAIN=(build auto quickstart_bwrap)
# These have engines of their own, or none, or an agent of their own in the place of ours; the rest is run on every engine.
SUITES_ONE_ENGINE=(auto build liar)

# Kinds that are an engine (tests/lib/engine_KIND.bash); all others run on Docker.
SUITES_ENGINES=(podman bwrap bwrap-user)

suites_in() {
  local name=$1
  shift
  [[ " $* " == *" $name "* ]]
}

# suites_engine KIND: the engine that it runs on, for SBX_KIND
suites_engine() {
  if suites_in "$1" "${SUITES_ENGINES[@]}"; then echo "$1"; else echo docker; fi
}

# suites_tags ENGINE: the tags of tests and files that are not for that engine, a line each. only:api is for engines that
# speak Docker's API, only:ENGINE for that one, not:ENGINE for all others. Everything else is for all.
suites_tags() {
  local engine
  for engine in docker "${SUITES_ENGINES[@]}"; do
    [[ $engine == "$1" ]] || echo "only:$engine"
  done
  case $1 in docker | podman) ;; *) echo only:api ;; esac
  echo "not:$1"
}

# suites_excluded ENGINE WHERE FILE: those tags that FILE has, for bats --filter-tags: `!only:a,!only:b`. WHERE is test
# or file.
suites_excluded() {
  local tag list=''
  while read -r tag; do
    ! grep -qE "^# bats $2_tags=(.*,)?$tag(,|\$)" "$3" || list+=",!$tag"
  done < <(suites_tags "$1")
  echo "${list#,}"
}

# suites_of KIND: the files that it runs
suites_of() {
  local file name
  while read -r file; do
    name=$(basename "$file" .bats)
    [[ -z $(suites_excluded "$(suites_engine "$1")" file "$file") ]] || continue
    [[ $(suites_engine "$1") == docker ]] || ! suites_in "$name" "${SUITES_ONE_ENGINE[@]}" || continue
    case $1 in
      asan) ! suites_in "$name" "${SUITES_PLAIN[@]}" "${SUITES_NOT_ASAN[@]}" || continue ;;
      tsan) ! suites_in "$name" "${SUITES_PLAIN[@]}" "${SUITES_NOT_TSAN[@]}" || continue ;;
      valgrind) grep -q 'test_tags=valgrind' "$file" || continue ;;
    esac
    echo "$file"
  done < <(find "$TOP/tests" -maxdepth 1 -name '*.bats' | sort)
}

# queue_add KIND [FILE...]: all that it runs, or just these
queue_add() {
  local kind=$1 files
  shift
  files=("$@")
  (($#)) || mapfile -t files < <(suites_of "$kind")
  printf '%s\n' "${files[@]/#/$kind }" >>"$WORK/queue"
}

# The long ones first; among them in the order of the list, so that the same file's kinds begin together.
queue_sort() {
  local name
  {
    for name in "${SUITES_FIRST[@]}"; do
      grep "/$name\.bats$" "$WORK/queue" || true
    done
    cat "$WORK/queue"
  } | awk '!seen[$0]++' >"$WORK/queue.sorted"
  mv "$WORK/queue.sorted" "$WORK/queue"
}

# queue_next: prints the first item and takes it off
queue_next() {
  (
    flock 9
    head -n 1 "$WORK/queue"
    sed -i 1d "$WORK/queue"
  ) 9>"$WORK/queue.lock"
}

# queue_run LANES: works off all of it, and counts.
queue_run() {
  local n items
  queue_sort
  items=$(wc -l <"$WORK/queue")
  ((items > 0)) || return 0
  : >"$WORK/totals"
  QUEUED=$items
  for ((n = 1; n <= $1 && n <= items; n++)); do
    lane $n $(($1 > 1 && items > 1)) &
    LANES+=($!)
  done
  wait "${LANES[@]}" || true
  LANES=()
  queue_count again
}

# queue_count again|cut: also when it was cut short: what is not in the totals failed.
queue_count() {
  local what ok bad kind file n=0
  [[ -n ${QUEUED:-} ]] || return 0
  while read -r what ok bad kind file; do
    n=$((n + 1))
    if ((bad)); then
      echo "# failed in $what: $bad"
      # With no time left there is none to try again either.
      if [[ $1 == again ]] && unsteady "$what" "$bad" "$kind" "$file"; then
        echo "# passed alone in $what: $bad"
        ok=$((ok + bad)) bad=0
      fi
    fi
    PASSED=$((PASSED + ok)) FAILED=$((FAILED + bad))
  done <"$WORK/totals"
  ((n == QUEUED)) || count "files that did not come to their end" 0 $((QUEUED - n))
  QUEUED=''
}

# lane N SEVERAL: whether there are others, so that output is kept together
lane() {
  local dir=$WORK/$1 item file
  local -A seen=()
  mkdir -p "$dir/tmp"
  export SBX_ENGINE SBX_KIND TMPDIR=$dir/tmp SBX_KEEP_ENGINE=1 SBX_LANE=$1 SBX_RUN=$$
  while item=$(queue_next) && [[ -n $item ]]; do
    SBX_KIND=$(suites_engine "${item%% *}")
    SBX_ENGINE=$dir/engine-$SBX_KIND
    # An engine sees a file once: a second kind's run is not to find what the first has pulled or made.
    file=${item#* }
    if [[ ${seen[$SBX_KIND]:-} == *" $file "* ]]; then
      engine_drop "$SBX_ENGINE"
      seen[$SBX_KIND]=''
    fi
    seen[$SBX_KIND]+=" $file "
    lane_item "$dir" "${item%% *}" "$file" "$2"
  done
  clean_up "$dir"
}

# engine_drop DIR: removes a test's engine, of the kind that its directory's name ends in; in a shell of its own, since
# each kind has functions of the same names.
engine_drop() {
  local kind=${1##*/engine-}
  [[ -d $1 ]] || return 0
  [[ $kind != "$1" ]] || kind=docker # that of a scripts/up
  SBX_KIND=$kind bash -c 'source "$1/tests/lib/engine.bash" && sbx_engine_remove "$2"' - "$TOP" "$1"
}

# lane_item DIR KIND FILE SEVERAL
lane_item() {
  local dir=$1 kind=$2 file=$3 name log start=$SECONDS status totals
  name=$kind-$(basename "$file" .bats)
  log=$LOGS/$name.log
  echo 1 >"$dir/status"
  {
    kind_run "$kind" "$file" </dev/null || status=$?
    echo "${status:-0}" >"$dir/status"
  } 2>&1 | if (($4)); then cat >"$log"; else tee "$log"; fi &
  wait $! || true
  status=$(cat "$dir/status")
  # Of a bats that was killed nothing is to stay, its engine neither.
  ((status <= 1)) || clean_up "$dir"
  totals=$(tap_totals "$log")
  (
    flock 9
    ! (($4)) || cat "$log"
    echo "# $name: ${totals% *} passed, ${totals#* } failed ($((SECONDS - start)) s)"
    echo "$name $totals $kind $file" >>"$WORK/totals"
  ) 9>"$WORK/print.lock"
}
