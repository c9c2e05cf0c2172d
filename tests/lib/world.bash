# shellcheck shell=bash
# A little machine in a mount namespace, in which there is an ordinary user: with a range of ids in /etc/subuid or without,
# and a /dev/fuse that is everybody's. Nothing outside of it changes. Sourced by lib/user.bash, for tests that look at such
# a user from outside, and by scripts/test, for the kind bwrap-user, whose tests are that user's themselves.
#
# What runs at once is of different users, since a test ends what is left of its user's processes: of each lane (SBX_LANE)
# of each scripts/test on this machine (SBX_RUN, its pid).

USER_ID=$((30000 + ${SBX_RUN:-$$} % 3000 * 8 + ${SBX_LANE:-0} % 8))
USER_SUB=$((3000000 + (USER_ID - 30000) * 65536)) # all below those of bwrap/ids.h

# world_files DIR IDS HOME: what the world has otherwise, in DIR. IDS is `range`, or none are granted.
world_files() {
  mkdir -p "$1"
  : >"$1/sub"
  [[ $2 != range ]] || echo "sbxuser:$USER_SUB:65536" >"$1/sub"
  { cat /etc/passwd && echo "sbxuser:x:$USER_ID:$USER_ID::$3:/bin/sh"; } >"$1/passwd"
  { cat /etc/group && echo "sbxuser:x:$USER_ID:"; } >"$1/group"
  chmod 644 "$1"/*
  [[ -e $1/fuse ]] || mknod "$1/fuse" c 10 229
  chmod 666 "$1/fuse"
}

# world_run DIR TREE AT CMD...: becomes CMD in it, as root still; TREE, the sources, is seen at AT too, where the user may come.
# Its mounts are nobody else's; unmounts outside reach it, or it would keep other tests' daemons from ending.
world_run() {
  # shellcheck disable=SC2016 # that shell's own
  exec unshare -m --propagation slave bash -c 'set -e
    mount --bind "$1/fuse" /dev/fuse
    mount --bind "$1/passwd" /etc/passwd
    mount --bind "$1/group" /etc/group
    touch /etc/subuid /etc/subgid
    mount --bind "$1/sub" /etc/subuid
    mount --bind "$1/sub" /etc/subgid
    mount --bind "$2" "$3"
    touch "$1/ready"
    shift 3
    exec "$@"' - "$@"
}

# Words that make a command the user's.
# shellcheck disable=SC2034 # used by those who source this
WORLD_USER=(setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups --inh-caps=-all)
