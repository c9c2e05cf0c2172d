#!/usr/bin/env bats
# bats file_tags=only:bwrap
#
# The README's quick start on a machine without Docker: line by line as it stands there, and what scripts/up and
# scripts/down do then. On a little machine of its own, in which no engine answers, nor is installed: lib/user.bash.

load lib/mount
load lib/assert
load lib/user

setup() {
  user_world root
  nsenter -t "$UWORLD" -m mount -t tmpfs none /run # no engine's socket is there
  # shellcheck disable=SC2034 # lib/user.bash's
  UENV=("SANDBOXFS_RUN=$U/run" "SANDBOXFS_STATE=$U/state" "SANDBOXFS_OPTIONS=namespace=$NS" "TOP=$SBX_TOP"
    "SANDBOXFS_BUILD=$(realpath --relative-to="$SBX_TOP" "$(dirname "$SANDBOXFS")/..")" TERM=dumb
    "PATH=$(path_without "$U/path" docker dockerd podman containerd)")
}

teardown() {
  u 'cd $TOP && scripts/down --purge' >/dev/null 2>&1 || true
  wait_for 90 no_daemons
  user_end
}

no_daemons() {
  ! grep -qsF " $UMNT fuse" "/proc/$UWORLD/mounts"
}

# The lines of the README between the markers of that name, on our mount point.
block() {
  sed -n "/^<!-- $1 -->\$/,/^<!-- end -->\$/p" "$SBX_TOP/README.md" | grep -vE '^(<!--|```)' | sed "s,/mnt/sbx,$UMNT,g"
}

@test "quick start without Docker: six lines, on the machine's own system" {
  is "$(block quickstart | wc -l)" 6
  u '! command -v docker && ! command -v dockerd && ! command -v podman'
  u "cd \$TOP && set -e && $(block quickstart)" >"$U/home/printed" 2>"$U/home/said"
  cat "$U/home/said"
  has "$(cat "$U/home/said")" 'with the engine bwrap at'
  # The daemon's own line, though it goes into the background: one, that says which engine and why.
  is "$(grep -c '^sandboxfs: ' "$U/home/said")" 1
  has "$(grep '^sandboxfs: ' "$U/home/said")" "sandboxfs: engine bwrap $(bwrap --version | cut -d ' ' -f 2) at $UDATA: "
  is "$(awk '{ print $1, $2 }' "$U/home/printed")" "$(cd "$SBX_TOP" && wc -l docs/*.md | awk '{ print $1, $2 }')"
  u '[ "$(ls $M)" = README ] && cd $TOP && scripts/down --purge'
  u '[ ! -e $U/run ] && [ ! -e $U/state ] && [ ! -e $U/data/sandboxfs ]'
}

@test "scripts/up twice is as good as once; sandboxes go on behind a scripts/down, --purge ends them" {
  u 'cd $TOP && scripts/up $M && scripts/up $M 2>&1 | grep "is mounted already"'
  u 'mkdir $M/kept && echo "echo hello >file; sleep 98761 &" >$M/kept/ctl/exec && cd $TOP && scripts/down'
  u 'cd $TOP && scripts/up $M && [ "$(cat $M/kept/workspace/file)" = hello ] && grep -q "sleep 98761" $M/kept/ctl/ps'
  u 'cd $TOP && scripts/down --purge && [ ! -e $U/data/sandboxfs ]'
  is "$(pgrep -cxf 'sleep 98761')" 0
}

@test "scripts/up -o engine=bwrap, and a job of the README's" {
  u 'cd $TOP && scripts/up -o engine=bwrap $M && mkdir $M/demo'
  is "$(u "set -e; $(block jobs)")" $'0\n1\n2\n3'
  u 'rmdir $M/demo'
}

@test "scripts/down --purge deletes only what the engine made in its directory, and sandboxes of no other engine" {
  u 'mkdir $U/srv && echo precious >$U/srv/file && cd $TOP && scripts/up -o engine=bwrap,host=$U/srv $M && mkdir $M/demo'
  # A mount that says of itself that it is another engine's. It cannot be unmounted so, which does not matter here.
  nsenter -t "$UWORLD" -m bash -c 'echo "engine: docker" >"$1/home/engine" && mount --bind "$1/home/engine" "$2/.sandboxfs/engine"' - "$U" "$UMNT"
  u_fails_with 'is in use' 'cd $TOP && scripts/down --purge'
  u '[ -d $M/demo/ctl ]'
  nsenter -t "$UWORLD" -m umount "$UMNT/.sandboxfs/engine"
  u 'cd $TOP && scripts/down --purge'
  is "$(find "$U/srv" -mindepth 1)" "$U/srv/file"
}
