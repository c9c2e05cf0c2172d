# shellcheck shell=bash
# What the scripts say, and how they give up. Sourced.

# say WORDS: every change outside of this tree is announced by one of these.
say() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die() {
  say "$@"
  exit 1
}

# wait_for SECONDS CMD...: true as soon as CMD is; false when the time is over.
wait_for() {
  local end=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
  shift
  until "$@"; do
    ((${EPOCHREALTIME/[.,]/} < end)) || return 1
    sleep 0.02
  done
}
