# shellcheck shell=bash
# Debian packages: installs what is missing, asks apt only if something is. Sourced after say.bash.

# What the daemon and its agent are built from, and what the scripts themselves call.
# shellcheck disable=SC2034 # used by those who source this
PACKAGES_BUILD=(
  gcc libc6-dev meson ninja-build pkg-config musl-tools linux-libc-dev
  libfuse3-dev libcurl4-openssl-dev libcjson-dev libarchive-dev uthash-dev
)
# shellcheck disable=SC2034
PACKAGES_RUN=(fuse3 curl ca-certificates)
# The engine that is built in; newuidmap is for users other than root.
# shellcheck disable=SC2034
PACKAGES_EMBEDDED=(bubblewrap uidmap)
# shellcheck disable=SC2034
PACKAGES_TEST=(
  bats procps clang clang-format clang-tidy libclang-rt-14-dev shellcheck valgrind jq file
  python3 rsync git make util-linux docker-registry fio stress-ng bindfs mergerfs btrfs-progs strace
  debootstrap debian-archive-keyring python3-venv attr acl tmux openssl
  podman runc containernetworking-plugins bubblewrap uidmap
)

packages_missing() {
  local name
  for name; do
    [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$name" 2>/dev/null) == ?i* ]] || echo "$name"
  done
}

# A package may start its service when it is installed. We want the programs, not the services, so
# for that long there is a policy-rc.d that says no. One that is there already is left alone.
packages_apt() {
  local policy=/usr/sbin/policy-rc.d ours='' status=0
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
    ours=1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@" \
    </dev/null >&2 || status=$?
  [[ -z $ours ]] || rm -f $policy
  return $status
}

# packages_fetch CMD...: an apt command; on failure once more with fresh lists, since a new
# machine has none, or old ones that name versions which are gone.
packages_fetch() {
  packages_apt "$@" 2>/dev/null && return
  say "asking for fresh package lists (apt-get update)"
  # A third party's list that cannot be had is no reason to stop: the install will tell.
  packages_apt update || say "apt-get update was not clean; going on"
  packages_apt "$@"
}

packages_need() {
  local missing
  mapfile -t missing < <(packages_missing "$@")
  ((${#missing[@]})) || return 0
  ((EUID == 0)) || die "not root, and these packages are missing: ${missing[*]}"
  say "installing Debian packages (their services are not started now): ${missing[*]}"
  packages_fetch install -y --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}"
}

# An engine's programs, unless some dockerd is there already: Docker's own packages conflict with
# Debian's, and either will do.
packages_need_dockerd() {
  if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
    packages_need docker.io
  fi
  # Where the kernel has AppArmor, dockerd does not start without the parser.
  if [[ $(cat /sys/module/apparmor/parameters/enabled 2>/dev/null) == Y ]] &&
    ! command -v apparmor_parser >/dev/null; then
    packages_need apparmor
  fi
}

# The npm command, unless there is one already: that of Node's own package conflicts with Debian's.
packages_need_npm() {
  command -v npm >/dev/null || packages_need npm
}
