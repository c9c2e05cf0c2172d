#!/usr/bin/env bats
# bats file_tags=only:bwrap
# The embedded engine's own: what it refuses, broken images, a full disk, what it must find on the machine, several daemons
# on one directory, a sandbox that has changed the places where things are mounted.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

teardown() {
  local status=0
  sbx_teardown || status=1
  [[ -z ${SMALL:-} ]] || sbx_engine_remove "$SMALL" || status=1
  return $status
}

# left: what is in the engine's directory of this namespace, and of roots that are not whole
left() {
  find "$SBX_ENGINE/data/boxes/$NS" -mindepth 1 -maxdepth 1 ! -name .lock ! -name .names
  find "$SBX_ENGINE/data/boxes/$NS/.names" "$SBX_ENGINE/data/volumes" -mindepth 1
  find "$SBX_ENGINE/data/roots" -mindepth 1 -maxdepth 1 -name '.*' ! -name .lock
}

nothing_left() {
  [[ -z $(left) ]]
}

# refused NAME WORDS JSON: a template of that name cannot be used, and the reason says WORDS
refused() {
  template "$1" "$3"
  fails_with "Operation not supported" mkdir "$MNT/$1@x"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "EOPNOTSUPP $2"
}

@test "what it cannot do is refused by the name of the key, and leaves nothing behind" {
  mkdir "$BATS_TEST_TMPDIR/dir"
  template ok '{}'
  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
  refused build build: '{"build": {"context": "'"$BATS_TEST_TMPDIR"'/dir"}}'
  refused ports ports: '{"network_mode": "bridge", "ports": ["80"]}'
  refused gpus gpus: '{"gpus": "all"}'
  refused devices devices: '{"devices": ["/dev/fuse"]}'
  refused runtime runtime: '{"runtime": "runc"}'
  refused storage storage_opt: '{"storage_opt": {"size": "1g"}}'
  refused bridge network_mode: '{"network_mode": "bridge"}'
  refused systempaths security_opt: '{"security_opt": ["systempaths=unconfined"]}'
  refused seccomp security_opt: '{"security_opt": ["seccomp:unconfined"]}'
  refused newpriv security_opt: '{"security_opt": ["no-new-privileges:false"]}'
  refused platform platform: '{"platform": "linux/s390x"}'
  refused tmpfs tmpfs: '{"tmpfs": ["/t:noexec"]}'
  refused inodes tmpfs: '{"tmpfs": ["/t:size=1m,nr_inodes=9"]}'
  refused percent tmpfs: '{"tmpfs": ["/t:size=50%"]}'
  refused readonly tmpfs: '{"tmpfs": ["/t:ro"]}'
  refused gateway extra_hosts: '{"extra_hosts": ["near:10.0.0.1", "d:host-gateway"]}'
  refused driver volumes.driver: '{"volumes": ["v:/v"], "x-sandboxfs": {"volumes": {"v": {"driver": "nfs"}}}}'
  refused options volumes.driver_opts: \
    '{"volumes": ["v:/v"], "x-sandboxfs": {"volumes": {"v": {"driver": "local", "driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}}}}}'
  refused labels volumes.labels: '{"volumes": ["v:/v"], "x-sandboxfs": {"volumes": {"v": {"labels": {"a": "b"}}}}}'
  refused subpath volumes.volume.subpath: \
    '{"volumes": [{"type": "volume", "source": "v", "target": "/v", "volume": {"subpath": "s"}}]}'
  refused shared volumes.bind.propagation: \
    '{"volumes": [{"type": "bind", "source": "'"$BATS_TEST_TMPDIR"'/dir", "target": "/v", "bind": {"propagation": "shared"}}]}'
  # Ids that its namespace has not.
  refused user user: '{"user": "65536"}'
  refused group user: '{"user": "1000:65536"}'
  refused groups group_add: '{"group_add": ["games", 70000]}'
  refused owner x-sandboxfs.files: '{"x-sandboxfs": {"files": {"/f": {"content": "x", "owner": "0:70000"}}}}'
  refused users x-sandboxfs.users: '{"x-sandboxfs": {"users": ["a", {"name": "b", "uid": 65536}]}}'
  refused hook x-sandboxfs.post_start: '{"x-sandboxfs": {"post_start": [{"command": ["true"], "user": "70000"}]}}'
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" 'a sandbox has the ids 0 to 65535'
  nothing_left
  # And what is no size, no mode, no limit, or no capability.
  local n=0 value
  for value in size=lots size=1.5g size= size=-1 size=1mb size=99999999999g size=16e mode=abc mode=8 mode=17777 mode=; do
    template "value$n" '{"tmpfs": "/t:'"$value"'"}'
    fails_with "Invalid argument" mkdir "$MNT/value$n@x"
    has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "EINVAL tmpfs: $value is no "
    n=$((n + 1))
  done
  template little '{"mem_limit": "1m"}'
  template cap '{"cap_add": ["SYS_EVERYTHING"]}'
  fails_with "Invalid argument" mkdir "$MNT/little@x"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" mem_limit
  fails_with "Invalid argument" mkdir "$MNT/cap@x"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" 'key cap_add[0]: '
  nothing_left
  sandbox ok@x
  chown 65535:65535 "$MNT/ok@x/workspace"
  fails_with "Invalid argument" chown 65536 "$MNT/ok@x/workspace"
  # What is always so may be said: a volume begins empty.
  template nocopy '{"volumes": ["v:/etc:nocopy"], "x-sandboxfs": {"volumes": {"v": {}}}}'
  sandbox nocopy@x
  is "$(out nocopy@x 'ls -A /etc')" ''
}

@test "a tmpfs has the size and mode that it was given, and is read-only where it is to be" {
  template t '{"tmpfs": ["/a:size=0x10000,mode=0750", "/b:size=2M"], "volumes": [
    {"type": "tmpfs", "target": "/c", "read_only": true, "tmpfs": {"size": "1m"}}, {"type": "tmpfs", "target": "/d"}]}'
  mount_sbx "templates=$TEMPLATES"
  sandbox t@x
  is "$(out t@x 'sed -n "s,^[^ ]* /\([abcd]\) tmpfs \(r[ow]\).*\(size=[0-9]*k\).*,\1 \2 \3,p" /proc/mounts | sort; stat -c %a:%u /a /b /c
    touch /c/f 2>/dev/null || echo held; touch /d/f && echo fine')" \
    $'a rw size=64k\nb rw size=2048k\nc ro size=1024k\n750:0\n1777:0\n1777:0\nheld\nfine'
  rmdir "$MNT/t@x"
}

@test "docs/bwrap.md lists what is copied of /etc" {
  is "$(tr '\n' ' ' <"$SBX_TOP/docs/bwrap.md" | sed -n 's,.*Copied from `/etc` is[^`]*`\([^`]*\)`.*,\1,p' | tr ' ' '\n' | sort)" \
    "$(sed -n '/^static const char \*const etc\[\]/,/NULL}/s/[^"]*"\([^"]*\)"[^"]*/\1\n/gp' "$SBX_TOP/bwrap/make_root.c" | grep . | sort)"
}

@test "the host's network has the host's nameservers; labels are in config.json" {
  template host '{"network_mode": "host", "labels": ["color=blue"]}'
  template none '{}'
  mount_sbx "templates=$TEMPLATES"
  sandbox host@x
  sandbox none@x
  is "$(out host@x 'tail -n +2 /etc/resolv.conf')" "$(cat /etc/resolv.conf)"
  is "$(jq -r .config.labels.color "$MNT/host@x/ctl/config.json")" blue
  is "$(out none@x 'grep -v ^# /etc/resolv.conf || echo none')" none
  rmdir "$MNT"/*@x
}

@test "every namespace is the sandbox's own, and .sandboxfs/engine says so" {
  local ns said
  mount_sbx
  sandbox demo
  said=$(sed -n 's/^isolation: //p' "$MNT/.sandboxfs/engine")
  for ns in mnt pid net ipc uts user cgroup; do
    has "$(out demo "readlink /proc/self/ns/$ns")" "$ns:["
    [[ $(out demo "readlink /proc/self/ns/$ns") != $(readlink "/proc/self/ns/$ns") ]]
    is "$(out demo "readlink /proc/1/ns/$ns")" "$(out demo "readlink /proc/self/ns/$ns")"
  done
  is "$said" "a user namespace with 65536 ids, mount, pid, net (unless network_mode is host), ipc, uts and cgroup namespaces, no-new-privileges, few capabilities; shares the host's kernel"
  rmdir "$MNT/demo"
}

# unpacked: how many archives have been
unpacked() {
  find "$SBX_ENGINE/data/roots" -maxdepth 1 -name '*.from' | wc -l
}

@test "an image by its path: a template's only below allow_binds, unpacked once, -o image's always" {
  local archive=$BATS_TEST_TMPDIR/rootfs.tar before
  cp "$SBX_ENGINE/data/images/busybox:test.tar" "$archive"
  template path '{"image": "'"$archive"'"}'
  before=$(unpacked)
  mount_sbx "templates=$TEMPLATES"
  fails_with "Operation not permitted" mkdir "$MNT/path@x"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" 'key image: '
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" allow_binds
  nothing_left
  is "$(unpacked)" "$before"
  umount_sbx

  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
  sandbox path@x
  is "$(out path@x 'echo changed >/etc/passwd; ls /bin/busybox')" /bin/busybox
  is "$(unpacked)" $((before + 1))
  sandbox path@y
  is "$(out path@y 'head -n 1 /etc/passwd | cut -d : -f 1')" root
  is "$(unpacked)" $((before + 1))
  rmdir "$MNT"/path@?
  umount_sbx

  # As the mount's own image, for templates that name it too.
  mount_sbx "templates=$TEMPLATES,image=$archive"
  sandbox demo
  is "$(out demo 'ls /bin/busybox')" /bin/busybox
  sandbox path@x
  is "$(unpacked)" $((before + 1))
  rmdir "$MNT/demo" "$MNT/path@x"
}

# bad_image NAME: its archive on stdin; a sandbox of it fails, and WORDS has why
bad_image() {
  sbx_import "bad-$1:test"
  template "$1" '{"image": "bad-'"$1"':test"}'
  mkdir "$MNT/$1@x"
  wait_for 90 state_is "$1@x" failed
  WORDS=$(cat "$MNT/$1@x/ctl/error")
  rmdir "$MNT/$1@x"
  rm "$SBX_ENGINE/data/images/bad-$1:test.tar"
}

# tar_with NAME [TYPE]: an archive with one good member and one that is called NAME
tar_with() {
  python3 - "$@" <<'PY'
import io, sys, tarfile
t = tarfile.open(fileobj=sys.stdout.buffer, mode="w|")
good = tarfile.TarInfo("good"); good.size = 5
t.addfile(good, io.BytesIO(b"good\n"))
bad = tarfile.TarInfo(sys.argv[1])
bad.type = {"file": tarfile.REGTYPE, "device": tarfile.CHRTYPE}[sys.argv[2] if len(sys.argv) > 2 else "file"]
bad.devmajor, bad.devminor = 1, 3
t.addfile(bad)
t.close()
PY
}

@test "a broken image fails its sandbox, in words that name the member, and nothing of it stays" {
  mount_sbx "templates=$TEMPLATES"
  before=$(ls -A "$SBX_ENGINE/data/roots")
  head -c 1000000 "$SBX_ENGINE/data/images/busybox:test.tar" >"$BATS_TEST_TMPDIR/cut"
  bad_image cut <"$BATS_TEST_TMPDIR/cut"
  has "$WORDS" 'cut off or damaged'
  has "$WORDS" 'copy or export it again'
  bad_image device < <(tar_with dev/null device)
  has "$WORDS" 'member dev/null is a device'
  has "$WORDS" '--exclude=./dev/*'
  bad_image absolute < <(tar_with /etc/absolute)
  has "$WORDS" /etc/absolute
  has "$WORDS" 'tar -C DIR -c .'
  bad_image climbing < <(tar_with ../../climbing)
  has "$WORDS" ../../climbing
  has "$WORDS" 'tar -C DIR -c .'
  bad_image text < <(echo this is no archive)
  has "$WORDS" 'not a tar archive'
  bad_image nothing </dev/null
  has "$WORDS" empty
  wait_for 90 nothing_left
  is "$(ls -A "$SBX_ENGINE/data/roots")" "$before"
  [[ ! -e $SBX_ENGINE/data/climbing && ! -e /etc/absolute ]]
}

# small_engine SIZE: an engine's directory of that size, for the rest of the test
small_engine() {
  SMALL=$BATS_TEST_TMPDIR/engine-bwrap
  mkdir -p "$SMALL/data"
  mount -t tmpfs -o "size=$1,mode=755" none "$SMALL/data"
  mkdir "$SMALL/data/images"
  cp "$SBX_ENGINE/data/images/busybox:test.tar" "$SMALL/data/images/"
  SBX_ENGINE=$SMALL
  ROOM="free space in $SMALL/data, or name another place with -o engine=bwrap,host=DIRECTORY"
}

@test "a full disk: in words, nothing half made, and all goes on when there is room" {
  small_engine 16m
  mount_sbx
  # No room for the image.
  fill=$SMALL/data/fill
  dd if=/dev/zero of="$fill" bs=64k 2>/dev/null || true
  mkdir "$MNT/demo"
  wait_for 90 state_is demo failed
  has "$(cat "$MNT/demo/ctl/error")" "No space left on device; $ROOM"
  rmdir "$MNT/demo"
  wait_for 90 nothing_left
  truncate -s 1m "$fill"
  sandbox demo
  is "$(out demo 'echo fine')" fine
  # None for a sandbox, whose image is there; the one that runs is told too, and one that is paused wakes.
  echo paused >"$MNT/demo/ctl/state"
  dd if=/dev/zero of="$fill" bs=4k 2>/dev/null || true
  echo running >"$MNT/demo/ctl/state"
  is "$(state demo)" running
  fails_with 'No space left on device' mkdir "$MNT/other"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" ENOSPC
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "No space left on device; $ROOM"
  not_listed other
  fails_with 'No space left on device' dd if=/dev/zero of="$MNT/demo/workspace/f" bs=1M count=2 conv=fsync
  rm "$fill" "$MNT/demo/workspace/f"
  is "$(out demo 'echo fine again')" 'fine again'
  sandbox other
  rmdir "$MNT/demo" "$MNT/other"
  wait_for 90 nothing_left
}

@test "a disk that is full before the mount: what is there can be used, a new sandbox is refused in words" {
  small_engine 16m
  mount_sbx image=/
  sandbox old
  umount_sbx
  # Nothing of the host's system is ready, as after an update of the host.
  rm -rf "$SMALL"/data/roots/host-*
  dd if=/dev/zero of="$SMALL/data/fill" bs=4k 2>/dev/null || true
  sbx_start "$MNT"
  fails_with 'No space left on device' mkdir "$MNT/new"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "No space left on device; $ROOM"
  not_listed new
  rmdir "$MNT/old"
  rm "$SMALL/data/fill"
  sandbox new
  rmdir "$MNT/new"
  wait_for 90 nothing_left
}

@test "a disk that has not even room for the first directories: no mount, in words, and none of them stays" {
  local dir
  small_engine 16m
  mount -o remount,nr_inodes=6 "$SMALL/data" # three are left
  dir=$(sbx_new_dir)
  fails "$SANDBOXFS" -f -o "engine=bwrap,host=$SMALL/data/a" "$dir"
  has "$FAIL_WORDS" "No space left on device (free space there, or name another place with XDG_DATA_HOME or -o engine=bwrap,host=DIRECTORY)"
  is "$(ls -A "$SMALL/data")" images
  run ! sbx_is_mounted "$dir"
}

@test "what it must find here: bwrap, and user namespaces; a directory that it may write to" {
  fails env PATH=/nonexistent "$SANDBOXFS" -f -o "$(engine_options)" "$(sbx_new_dir)"
  has "$FAIL_WORDS" 'apt-get install bubblewrap'
  # Forbidden in a namespace of its own, not on this machine. Nothing is left of the attempt.
  local dir
  dir=$(sbx_new_dir)
  fails unshare --user --map-root-user --mount sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"' - \
    "$SANDBOXFS" -f -o "engine=bwrap,host=$BATS_TEST_TMPDIR/made/data" "$dir"
  has "$FAIL_WORDS" 'user namespaces are forbidden here'
  has "$FAIL_WORDS" 'user.max_user_namespaces='
  [[ $FAIL_WORDS != *'install bubblewrap'* ]] # it is
  run ! sbx_is_mounted "$dir"
  [[ ! -e $BATS_TEST_TMPDIR/made ]]
  fails "$SANDBOXFS" -f -o engine=bwrap,host=/proc/nowhere "$(sbx_new_dir)"
  has "$FAIL_WORDS" /proc/nowhere
  fails "$SANDBOXFS" -f -o engine=bwrap,host=relative "$(sbx_new_dir)"
  has "$FAIL_WORDS" 'is a directory'
}

@test "a directory that others own or may write to is refused, and links in it lead no sweep out" {
  local data=$BATS_TEST_TMPDIR/data dir
  dir=$(sbx_new_dir)
  install -d -o 1000 "$data"
  fails "$SANDBOXFS" -f -o "engine=bwrap,host=$data" "$dir"
  has "$FAIL_WORDS" "$data belongs to user 1000: sandboxes' files must be in a directory of your own (you are user 0)"
  chown 0 "$data"
  chmod 775 "$data"
  fails "$SANDBOXFS" -f -o "engine=bwrap,host=$data" "$dir"
  has "$FAIL_WORDS" "$data can be written by others"
  is "$(find "$data" -mindepth 1)" ''
  run ! sbx_is_mounted "$dir"
  # What is called as if it had been left half removed.
  victim
  mkdir -p "$SBX_ENGINE/data/boxes/$NS"
  ln -s "$VICTIM" "$SBX_ENGINE/data/boxes/$NS/.rm-x"
  mount_sbx
  umount_sbx
  unchanged
  fails "${SANDBOXFS%/fs/sandboxfs}/bwrap/launch" remove "$SBX_ENGINE/data/boxes/$NS/.rm-x"
  unchanged
  rm "$SBX_ENGINE/data/boxes/$NS/.rm-x"
}

# It may be empty for the moment in which it is written.
counted() {
  local n
  n=$(cat "/proc/$1/root/workspace/count")
  echo "${n:-0}"
}

@test "a killed daemon: its sandboxes and their jobs go on, and the next one has them" {
  mount_sbx
  sandbox demo
  job=$MNT/demo/ctl/jobs/long
  mkdir "$job"
  echo 'i=0; while [ ! -e stop ]; do i=$((i + 1)); echo $i >count; sleep 0.05; done; echo ended; exit 7' >"$job/exec"
  pid=$(box_pid demo)
  wait_for 90 test -s "$MNT/demo/workspace/count"
  kill_daemon
  before=$(counted "$pid")
  wait_for 90 eval '(($(counted "$pid") > before))'
  sbx_start "$MNT"
  is "$(box_pid demo)" "$pid"
  is "$(cat "$job/result")" running
  touch "$MNT/demo/workspace/stop"
  is "$(cat "$job/wait")" 7
  is "$(cat "$job/stdout")" ended
}

@test "a sandbox whose record cannot be read is listed, says so when it is used, and can be removed" {
  local box
  mount_sbx
  sandbox demo
  sandbox other
  box=$(box_dir demo)
  echo stopped >"$MNT/demo/ctl/state"
  umount_sbx
  echo '{"name": "demo", "mark"' >"$box/box.json"
  sbx_start "$MNT"
  listed demo
  fails ls "$MNT/demo/workspace"
  wait_for 90 state_is demo failed
  has "$(cat "$MNT/demo/ctl/error")" "the sandbox's record is no JSON"
  fails_with 'File exists' mkdir "$MNT/demo"
  rmdir "$MNT/demo"
  wait_for 90 test ! -e "$box"
  is "$(out other 'echo fine')" fine
  sandbox demo
  rmdir "$MNT/demo" "$MNT/other"
  wait_for 90 nothing_left
}

@test "a sandbox that is killed is not told as killed for memory because something was in an earlier run" {
  local dirs
  template small '{"mem_limit": "32m"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox small@x
  ex small@x 'tail /dev/zero' || true
  mapfile -t dirs < <(bwrap_cgroups "$(box_dir small@x)")
  grep -qs '^oom_kill [1-9]' "${dirs[@]/%//memory.oom_control}" "${dirs[@]/%//memory.events}"
  echo restart >"$MNT/small@x/ctl/state"
  is "$(out small@x 'echo on')" on
  box_kill small@x
  wait_for 90 grep -q 'exit code 137' "$MNT/small@x/ctl/error"
  run ! grep OOM "$MNT/small@x/ctl/error"
  rmdir "$MNT/small@x"
}

# An image of one file that says which it is.
numbered() {
  local dir=$BATS_TEST_TMPDIR/numbered
  rm -rf "$dir"
  mkdir "$dir"
  echo "$NS $1" >"$dir/number"
  tar -C "$dir" -xf "$SBX_ENGINE/data/images/busybox:test.tar"
  tar -C "$dir" -c . | sbx_import "numbered-$NS:test"
}

# roots: the numbers of those that are unpacked
roots() {
  sed -n "s/^$NS //p" "$SBX_ENGINE"/data/roots/*/number | sort | tr '\n' ' '
}

@test "an image that has changed is another; the old one goes when no sandbox of any daemon stands on it" {
  template n '{"image": "numbered-'"$NS"':test"}'
  mount_sbx "templates=$TEMPLATES"
  ONE=$MNT
  mount_sbx "templates=$TEMPLATES"
  TWO=$MNT
  numbered 1
  MNT=$ONE sandbox n@one
  numbered 2
  MNT=$TWO sandbox n@two
  is "$(roots)" '1 2 '
  wait_for 90 listed n@one "$TWO"
  is "$(MNT=$TWO out n@one 'cut -d " " -f 2 /number')" 1
  is "$(MNT=$ONE out n@two 'cut -d " " -f 2 /number')" 2
  # Stopped and started again it has its own.
  rmdir "$TWO/n@two"
  echo restart >"$TWO/n@one/ctl/state"
  is "$(MNT=$TWO out n@one 'cut -d " " -f 2 /number')" 1
  numbered 3
  MNT=$TWO sandbox n@three
  is "$(roots)" '1 3 '
  rmdir "$ONE/n@one" "$ONE/n@three"
  wait_for 90 no_containers
  numbered 4
  MNT=$ONE sandbox n@four
  is "$(roots)" '4 '
  rmdir "$ONE/n@four"
  rm "$SBX_ENGINE/data/images/numbered-$NS:test.tar"
}

@test "after an update of the host its old system goes when the new one is made, at a mount or by a sandbox" {
  local old
  small_engine 16m
  old=$SMALL/data/roots/host-0123456789abcdef
  mkdir -p "$old/etc"
  mount_sbx image=/
  [[ ! -e $old ]]
  mv "$SMALL"/data/roots/host-* "$old"
  sandbox demo
  [[ ! -e $old ]]
  is "$(find "$SMALL/data/roots" -mindepth 1 -maxdepth 1 -name 'host-*' | wc -l)" 1
  rmdir "$MNT/demo"
}

# What a link in a sandbox could lead to; unchanged is whether it is as it was.
victim() {
  VICTIM=$BATS_TEST_TMPDIR/victim
  mkdir -p "$VICTIM"/{bin,state,fs/cgroup,pts,shm}
  for f in hosts hostname resolv.conf null; do
    echo precious >"$VICTIM/$f"
  done
  AS_IT_WAS=$(seen_victim)
}

seen_victim() {
  find "$VICTIM" -printf '%p %U:%G %m %n %T@ %C@\n' | sort
  find "$VICTIM" -type f -exec sha256sum {} + | sort
}

unchanged() {
  is "$(seen_victim)" "$AS_IT_WAS"
}

@test "an image whose /etc, /dev, /proc, /sys and /.sandboxfs are links out of it touches nothing there" {
  victim
  local tree=$BATS_TEST_TMPDIR/tree kind name target
  for kind in absolute climbing; do
    target=$VICTIM
    [[ $kind == absolute ]] || target=../../../../../../../../../..$VICTIM
    rm -rf "$tree"
    mkdir "$tree"
    tar -C "$tree" -xf "$SBX_ENGINE/data/images/busybox:test.tar"
    for name in etc dev proc sys .sandboxfs tmp workspace; do
      rm -rf "${tree:?}/$name"
      ln -s "$target" "$tree/$name"
    done
    tar -C "$tree" -c . | sbx_import "links-$kind-$NS:test"
    template $kind '{"image": "links-'"$kind-$NS"':test", "tmpfs": ["/tmp/t"], "volumes": ["/etc/v"]}'
  done
  mount_sbx "templates=$TEMPLATES"
  for kind in absolute climbing; do
    mkdir "$MNT/$kind@x"
    wait_for 90 sbx_settled "$MNT/$kind@x"
    [[ $(state "$kind@x") != running ]] || out "$kind@x" 'echo x >/etc/hosts; echo y >/dev/null; ls /sys/fs/cgroup' >/dev/null
    unchanged
    rmdir "$MNT/$kind@x"
    rm "$SBX_ENGINE/data/images/links-$kind-$NS:test.tar"
  done
  wait_for 90 no_containers
  unchanged
}

@test "a sandbox that has put links in the places of its mounts is started again: nothing outside is touched" {
  victim
  template t '{"image": "busybox:test", "tmpfs": ["/some/where"], "volumes": ["/vol/ume"]}'
  mount_sbx "templates=$TEMPLATES"
  local target names
  for target in "$VICTIM" "/oldroot$VICTIM" "../../../../../../..$VICTIM" "/proc/1/root$VICTIM"; do
    for names in '.sandboxfs sys dev proc' 'some vol etc workspace' tmp; do
      sandbox t@x
      is "$(out t@x "for n in $names; do mv /\$n /was-\$n 2>/dev/null; ln -s '$target' /\$n 2>/dev/null; done
        readlink /${names%% *}")" "$target"
      echo stopped >"$MNT/t@x/ctl/state"
      # Of our own directory nothing is taken as it lies there; other places are the sandbox's, to break too: in words.
      if echo running >"$MNT/t@x/ctl/state" 2>/dev/null; then
        ex t@x 'echo x >/etc/hosts; echo x >/some/where/f; echo x >/vol/ume/f; ls /sys/fs/cgroup'
      else
        [[ $names != .sandboxfs* ]]
        has "$(cat "$MNT/t@x/ctl/error")" 'in the sandbox'
      fi
      unchanged
      rmdir "$MNT/t@x"
    done
  done
  wait_for 90 no_containers
  unchanged
}

@test "places of mounts that are links to nowhere, as /etc/resolv.conf is in many an image, are made anew" {
  local tree=$BATS_TEST_TMPDIR/tree dir=$BATS_TEST_TMPDIR/share root
  mkdir -p "$tree" "$dir"
  tar -C "$tree" -xf "$SBX_ENGINE/data/images/busybox:test.tar"
  ln -sf ../run/systemd/resolve/stub-resolv.conf "$tree/etc/resolv.conf"
  ln -s /nowhere "$tree/data"
  ln -s nowhere "$dir/link"
  tar -C "$tree" -c . | sbx_import "dangling-$NS:test"
  template d '{"image": "dangling-'"$NS"':test", "dns": ["10.1.2.3"], "volumes": ["/data/v"]}'
  template bound '{"image": "dangling-'"$NS"':test", "volumes": ["'"$dir"':/share"], "tmpfs": ["/share/link/t"]}'
  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
  sandbox d@x
  is "$(out d@x 'tail -n 1 /etc/resolv.conf; touch /data/v/f && grep -c " /data/v " /proc/mounts; test ! -e /nowhere')" $'nameserver 10.1.2.3\n1'
  # The image keeps its links, and so does a directory of the host's.
  root=$(grep -zxA 1 lower "$(box_dir d@x)/plan" | tail -zn 1 | tr -d '\0')
  is "$(readlink "$(box_dir d@x)/$root/data")" /nowhere
  mkdir "$MNT/bound@x"
  wait_for 90 state_is bound@x failed
  has "$(cat "$MNT/bound@x/ctl/error")" '/share/link cannot be made in the sandbox'
  is "$(readlink "$dir/link")" nowhere
  rmdir "$MNT"/*@x
  rm "$SBX_ENGINE/data/images/dangling-$NS:test.tar"
}

@test "what PID 1 prints has an end in the engine, and the newest of it in ctl/log" {
  mount_sbx
  sandbox demo
  ex demo 'i=0; while [ $i -lt 40000 ]; do i=$((i + 1)); echo "line $i of what is printed to the log, again and again"; done >/proc/1/fd/1'
  wait_for 60 grep -q 'line 40000 ' "$(box_dir demo)/log"
  (($(stat -c %s "$(box_dir demo)/log") <= 1 << 20))
  has "$(tail -n 1 "$MNT/demo/ctl/log")" 'line 40000 '
  run ! grep -q 'line 1 ' "$MNT/demo/ctl/log"
  # Each line is whole, in order, with a time.
  is "$(grep -o 'line [0-9]*' "$(box_dir demo)/log" | awk '$2 != was + 1 && NR > 1 { print } { was = $2 }')" ''
  run ! grep -vE '^[0-9-]{10}T[0-9:]{8}\.[0-9]{6}Z ' "$(box_dir demo)/log"
}

@test "ulimits hold the sandbox, not what starts it and writes its log" {
  template low '{"ulimits": {"nofile": 40, "fsize": 65536, "nproc": 30}}'
  mount_sbx "templates=$TEMPLATES"
  sandbox low@x
  is "$(out low@x 'ulimit -n; ulimit -Hn; grep "Max file size" /proc/self/limits | tr -s " "')" $'40\n40\nMax file size 65536 65536 bytes '
  ex low@x 'i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); echo "line $i of what is printed, again and again and again"; done >/proc/1/fd/1'
  wait_for 90 grep -q 'line 2000 ' "$(box_dir low@x)/log"
  (($(stat -c %s "$(box_dir low@x)/log") > 65536))
  rmdir "$MNT/low@x"
}

@test "its files are nobody else's to read, and secrets stand on no command line" {
  export SBX_TEST_SECRET=hush-hush
  template s '{"environment": {"SBX_TEST_SECRET": null}}'
  mount_sbx "templates=$TEMPLATES"
  sandbox s@x
  is "$(out s@x 'echo $SBX_TEST_SECRET')" hush-hush
  is "$(stat -c %a "$SBX_ENGINE/data/boxes" "$(box_dir s@x)" "$(box_dir s@x)/plan" | tr '\n' ' ')" '700 700 600 '
  run ! grep -qs 'hush-[h]ush' /proc/[0-9]*/cmdline
}

@test "a bound directory: a link that the sandbox has put in its place is not followed, later mounts are not seen" {
  local dir=$BATS_TEST_TMPDIR/share
  mkdir -p "$dir"/{cache,later}
  chown -R 1893728256:1893728256 "$dir" # bwrap/ids.h
  template two "{\"volumes\": [\"$dir:/share\", \"$dir/cache:/cache\"]}"
  mount_sbx "templates=$TEMPLATES,allow_binds=$BATS_TEST_TMPDIR"
  sandbox two@demo
  mount -t tmpfs none "$dir/later"
  touch "$dir/later/secret"
  is "$(out two@demo 'ls /share/later; touch /cache/here; ls /share/cache')" here
  umount "$dir/later"
  ex two@demo 'mv /share/cache /share/x && ln -s / /share/cache'
  fails_with 'Too many levels' bash -c "echo restart >'$MNT/two@demo/ctl/state'"
  is "$(state two@demo)" failed
  has "$(cat "$MNT/two@demo/ctl/error")" "$dir/cache for /cache: it is, or lies behind, a link now"
  rm "$dir/cache"
  mv "$dir/x" "$dir/cache"
  echo restart >"$MNT/two@demo/ctl/state"
  is "$(out two@demo 'ls /cache')" here
}

@test "one data directory by two names is one: what one daemon pauses the other wakes" {
  local other
  mount_sbx
  sandbox demo
  echo paused >"$MNT/demo/ctl/state"
  ln -s "$SBX_ENGINE" "$BATS_TEST_TMPDIR/link"
  other=$MNT
  mount_sbx "host=$BATS_TEST_TMPDIR/link/data/"
  echo running >"$MNT/demo/ctl/state"
  is "$(out demo 'echo on')" on
  MNT=$other
  wait_for 90 state_is demo running
  rmdir "$MNT/demo"
}

@test "pull_policy always on the machine's own system: that is always new" {
  template host '{"image": "/", "pull_policy": "always"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox host@x
  is "$(out host@x 'echo on')" on
}

@test "the unpacking of an image is told as a pull, with per cent and bytes" {
  local size
  cp "$SBX_ENGINE/data/images/busybox:test.tar" "$BATS_TEST_TMPDIR/fresh.tar"
  template fresh "{\"image\": \"$BATS_TEST_TMPDIR/fresh.tar\"}"
  mount_sbx "templates=$TEMPLATES" "allow_binds=$BATS_TEST_TMPDIR"
  sandbox fresh@x
  size=$(stat -c %s "$BATS_TEST_TMPDIR/fresh.tar")
  jq -r 'select(.event == "pull") | "\(.percent) \(.bytes) \(.total)"' "$MNT/.sandboxfs/events" >"$BATS_TEST_TMPDIR/told"
  cat "$BATS_TEST_TMPDIR/told"
  is "$(tail -n 1 "$BATS_TEST_TMPDIR/told")" "100 $size $size"
  (($(head -n 1 "$BATS_TEST_TMPDIR/told" | cut -d ' ' -f 1) < 100))
}
