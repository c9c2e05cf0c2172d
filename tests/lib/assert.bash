# shellcheck shell=bash
# What tests say about outcomes. Each function is true, or prints why not.

export LC_ALL=C # the words of errors, and the order of ls

# is GOT WANT
is() {
  [[ $1 == "$2" ]] || {
    printf 'got  %q\nwant %q\n' "${1:0:2000}" "${2:0:2000}"
    return 1
  }
}

# right GOT WANT: the same where no delay explains another answer, so that the test is not run again
# (scripts/lib/unsteady.bash).
right() {
  is "$@" || {
    echo "WRONG: whatever else this machine does"
    return 1
  }
}

# has TEXT PIECE
has() {
  [[ $1 == *"$2"* ]] || {
    printf 'no %q in: %s\n' "$2" "${1:0:4000}"
    return 1
  }
}

# fails CMD...: it must not succeed, and must end by itself.
fails() {
  local status=0
  FAIL_WORDS=$(timeout 180 "$@" 2>&1) || status=$?
  ((status != 0 && status != 124)) || {
    echo "status $status from: $*; it said: $FAIL_WORDS"
    return 1
  }
}

# fails_with WORDS CMD...: its error is the one that strerror calls WORDS.
fails_with() {
  local words=$1
  shift
  fails "$@" || return 1
  has "$FAIL_WORDS" "$words"
}

# same A B: two files, byte by byte.
same() {
  cmp "$1" "$2"
}

# ex NAME TEXT: runs TEXT in the sandbox, as an agent with a shell would.
ex() {
  printf '%s\n' "$2" >"$MNT/$1/ctl/exec"
}

# out NAME TEXT: runs TEXT and prints its stdout; fails if it did not exit 0.
out() {
  ex "$1" "$2" || return 1
  cat "$MNT/$1/ctl/stdout"
  [[ $(cat "$MNT/$1/ctl/exit_code") == 0 ]] || {
    cat "$MNT/$1/ctl/summary"
    return 1
  }
}

# state NAME, state_is NAME STATE
state() {
  cat "$MNT/$1/ctl/state"
}

state_is() {
  [[ $(state "$1") == "$2" ]]
}

# box_id NAME: the id of its container.
box_id() {
  local id config
  config=$(cat "$MNT/$1/ctl/config.json")
  for id in $(containers); do
    [[ $config != *"$id"* ]] || {
      echo "$id"
      return 0
    }
  done
  echo "no container's id in config.json: $config" >&2
  return 1
}

# networks NAME: the interfaces that it has. Not by /sys, of which the embedded engine shows the cgroups only.
networks() {
  out "$1" 'sed -n "s/^ *\([^ :]*\):.*/\1/p" /proc/net/dev'
}

# listed NAME [MNT], not_listed NAME [MNT]: by ls, not by a lookup.
listed() {
  # shellcheck disable=SC2010 # the names are ours
  ls "${2:-$MNT}" | grep -qxF -- "$1"
}

not_listed() {
  ! listed "$@"
}

# template NAME JSON: a template for mounts made with the option templates=$TEMPLATES.
TEMPLATES=$BATS_TEST_TMPDIR/templates
template() {
  mkdir -p "$TEMPLATES"
  printf '%s\n' "$2" >"$TEMPLATES/$1.json"
}

# host_busybox: a busybox to run on the host.
host_busybox() {
  image_busybox "$SBX_TOP/build-cache/busybox"
}

# short: true where a run is to be quick.
short() {
  [[ -n ${SBX_SHORT:-} ]]
}

# now_ms
now_ms() {
  echo $((${EPOCHREALTIME/[.,]/} / 1000))
}
