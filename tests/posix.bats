#!/usr/bin/env bats
# POSIX conformance, by the program in tests/posix: what a local disk does, a mount does. The C test
# posix_local shows that the same assertions hold on a local disk.

# It acts as many users, which root can.
# bats file_tags=not:bwrap-user

load lib/mount
load lib/assert

setup() {
  POSIX=${SANDBOXFS%/fs/sandboxfs}/tests/posix/posix
}

# conforms N ARGS...: posix ARGS runs to its end, at least N assertions hold and none fails.
conforms() {
  local least=$1 tap=$BATS_TEST_TMPDIR/tap status=0 held failed
  shift
  case $SBX_KIND in bwrap*) set -- --user-namespace "$@" ;; esac
  "$POSIX" "$@" >"$tap" 2>&1 || status=$?
  held=$(grep -c '^ok ' "$tap" || true)
  failed=$(grep -c '^not ok ' "$tap" || true)
  echo "$held hold, $failed fail, $least expected, status $status"
  if ((status || failed || held < least)) || [[ $(tail -n 1 "$tap") != "# $held assertions, 0 failed" ]]; then
    grep '^not ok ' "$tap" | head -n 200
    echo "its last lines:"
    tail -n 3 "$tap"
    return 1
  fi
}

# For all users, ids as in the container; programs may be run from it.
mount_for_all() {
  mount_sbx allow_other,exec "$@"
  sandbox "${BOX:-demo}"
  W=$MNT/${BOX:-demo}/workspace
}

@test "paths: every call, every wrong path, names of 255 bytes and paths of 4095" {
  mount_for_all
  conforms 2100 --no-devices "$W" paths limits pointers
}

@test "rights: owner, group, supplementary groups and others, with each mode" {
  mount_for_all
  conforms 6050 --no-devices "$W" access open_rights dir_rights
}

@test "new files: owner, group, mode, umask, times; sticky directories" {
  mount_for_all
  conforms 3050 --no-devices "$W" create sticky
}

@test "chmod, chown, and what becomes of set-id bits" {
  mount_for_all
  conforms 2250 --no-devices "$W" chmod chown setid
}

@test "names: link, unlink, rename, mkdir, rmdir, symlink, fifos, sockets, no devices" {
  mount_for_all
  conforms 2050 --no-devices "$W" link unlink rename rename_flags mkdir rmdir symlink special
}

@test "open, running programs, sizes, bytes" {
  mount_for_all
  conforms 460 --no-devices "$W" open busy_text truncate fallocate bytes
}

@test "times: set, and changed by whatever changes a file" {
  mount_for_all
  conforms 980 --no-devices "$W" utimens times
}

@test "extended attributes, access control lists" {
  mount_for_all
  conforms 430 --no-devices "$W" xattr acl
}

@test "directories are read whole while they change; statfs" {
  mount_for_all
  conforms 60 --no-devices "$W" readdir statfs
}

@test "the same where the workspace is a tmpfs" {
  template mem '{"image": "busybox:test", "tmpfs": "/workspace"}'
  BOX=mem@demo mount_for_all "templates=$TEMPLATES"
  conforms 2900 --no-devices "$W" create link rename unlink rmdir symlink times readdir
}

@test "the whole tree of a sandbox: the same; its proc, sys and dev are empty directories" {
  local dir
  mount_for_all
  out demo 'mkdir -m 777 /var/tmp/p'
  conforms 900 --no-devices "$MNT/demo/rootfs/var/tmp/p" link symlink open truncate times
  is "$(out demo 'ls -A /var/tmp/p')" ""
  for dir in proc sys dev; do
    is "$(stat -c %F "$MNT/demo/rootfs/$dir")" directory
    is "$(ls -A "$MNT/demo/rootfs/$dir")" ""
    fails_with "No such file or directory" cat "$MNT/demo/rootfs/$dir/self/root/etc/passwd"
    fails mkdir "$MNT/demo/rootfs/$dir/new"
  done
}

@test "nothing is run from a mount without exec" {
  mount_sbx
  sandbox demo
  conforms 1 --no-exec "$MNT/demo/workspace" busy_text
}

@test "the mounting user has the sandbox user's rights, and nobody else gets in" {
  template user '{"image": "busybox:test", "user": "user"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox user@u
  # As prepare_caller() of tests/posix/places.c: made by root in the sandbox, in the user's directory.
  box_exec -i -u 0 user@u sh -e <<'SH'
cd /workspace
mkdir home && chown user:user home && cd home
thing() { # PATH OWNER MODE
  chown "$2" "$1" && chmod "$3" "$1"
}
mkdir closed shared sticky setgid foreign_setgid
touch root_600 root_644 group_660 group_640 own_000 own_600 foreign_666 closed/f shared/f sticky/f
thing root_600 0:0 600
thing root_644 0:0 644
thing group_660 0:2000 660
thing group_640 0:2000 640
thing own_000 1000:1000 000
thing own_600 1000:1000 600
thing foreign_666 3000:3000 666
thing closed/f 0:0 666
thing closed 0:0 700
thing shared/f 0:0 666
thing shared 0:0 755
thing sticky/f 0:0 666
thing sticky 0:0 1777
thing setgid 0:2000 2775
thing foreign_setgid 3000:3000 2777
SH
  conforms 280 --as=1000:1000:2000 --as-is "$MNT/user@u/workspace/home" caller
  fails_with "Permission denied" setpriv --reuid 65534 --regid 65534 --clear-groups ls "$MNT"
  fails_with "Permission denied" setpriv --reuid 1000 --regid 1000 --clear-groups ls "$MNT/user@u"
}

@test "uid= and gid= show all files as one user's" {
  mount_sbx uid=1234,gid=2345
  sandbox demo
  ex demo 'mkdir d && cd d && touch a b c && mkdir sub && ln -s a l && chown 7:8 a && chown 1000 b &&
    chown -h 9:9 l && chown 1234:2345 c'
  conforms 40 --shown=1234:2345 "$MNT/demo/workspace/d" mapped
  is "$(stat -c %u:%g "$MNT/demo/workspace")" 1234:2345
  is "$(stat -c %u:%g "$MNT/demo/rootfs/etc/passwd")" 1234:2345
  # Only shown: inside they are whose they were, and the new ones the sandbox user's.
  is "$(out demo 'cd d; stat -c %u:%g a b c l new_dir new_dir/moved' | tr '\n' ' ')" \
    "7:8 1000:0 1234:2345 9:9 0:0 0:0 "
}

@test "umask= decides the modes that are shown" {
  mount_sbx umask=027
  sandbox demo
  local w=$MNT/demo/workspace
  ex demo 'touch a && chmod 600 a && mkdir d && chmod 777 d'
  is "$(stat -c %a "$w/a" "$w/d" | tr '\n' ' ')" "750 750 "
  echo x >"$w/new"
  mkdir "$w/new_dir"
  is "$(stat -c %a "$w/new" "$w/new_dir" | tr '\n' ' ')" "750 750 "
  is "$(cat "$w/new")" x
}

@test "a read-only root says EROFS to every change" {
  local tree=$BATS_TEST_TMPDIR/tree
  image_tree "$tree" "$(host_busybox)"
  mkdir -p "$tree/fixed/dir" "$tree/fixed/empty"
  echo file >"$tree/fixed/file"
  echo inside >"$tree/fixed/dir/inside"
  mkfifo "$tree/fixed/fifo"
  ln -s file "$tree/fixed/link"
  tar -C "$tree" -c . | sbx_import fixed:test
  template ro '{"image": "fixed:test", "read_only": true}'
  mount_sbx "templates=$TEMPLATES"
  sandbox ro@demo
  conforms 70 "$MNT/ro@demo/rootfs/fixed" read_only
  is "$(out ro@demo 'find /fixed | sort | tr "\n" " "')" \
    "/fixed /fixed/dir /fixed/dir/inside /fixed/empty /fixed/fifo /fixed/file /fixed/link "
}
