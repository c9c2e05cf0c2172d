#!/usr/bin/env bats
# workspace/ is a real file system, seen live from both sides: contract 3.
# shellcheck disable=SC2010,SC2012,SC2016

load lib/mount
load lib/assert

setup() {
  template user '{"image": "busybox:test", "user": "user"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox demo
  W=$MNT/demo/workspace
}

teardown() {
  local status=0
  sbx_teardown || status=1
  engine_unmount "$BATS_TEST_TMPDIR"
  return $status
}

# random SIZE FILE
random() {
  head -c "$1" /dev/urandom >"$2"
}

@test "files of every awkward size go in and come out with the same bytes" {
  local n sum
  for n in 0 1 4095 4096 4097 1048575 1048576 1048577 5000000; do
    random $n "$BATS_TEST_TMPDIR/f"
    sum=$(sha256sum <"$BATS_TEST_TMPDIR/f")
    cp "$BATS_TEST_TMPDIR/f" "$W/in"
    is "$(out demo 'sha256sum <in; wc -c <in')" "$sum"$'\n'"$n"
    out demo 'cp in out' >/dev/null
    is "$(stat -c %s "$W/out")" $n
    is "$(sha256sum <"$W/out")" "$sum"
    same "$BATS_TEST_TMPDIR/f" "$W/out"
  done
}

@test "1 GiB goes in and comes out with the same sha256" {
  local sum n=1073741824
  ! short || n=67108864
  head -c $n /dev/urandom >"$BATS_TEST_TMPDIR/big"
  sum=$(sha256sum <"$BATS_TEST_TMPDIR/big")
  cp "$BATS_TEST_TMPDIR/big" "$W/big"
  is "$(out demo 'sha256sum <big')" "$sum"
  cp "$W/big" "$BATS_TEST_TMPDIR/back"
  is "$(sha256sum <"$BATS_TEST_TMPDIR/back")" "$sum"
  is "$(stat -c %s "$W/big")" $n
  rm "$BATS_TEST_TMPDIR/big" "$BATS_TEST_TMPDIR/back"
}

@test "names may have every byte but / and NUL, from both sides" {
  python3 - "$W" <<'PY'
import os, sys
w = os.fsencode(sys.argv[1])
names = {b"x" + bytes([c]) + b"y" for c in range(1, 256) if c != 0x2f}
for n in names:
    with open(w + b"/" + n, "wb") as f:
        f.write(n)
assert set(os.listdir(w)) == names, set(os.listdir(w)) ^ names
for n in names:
    assert open(w + b"/" + n, "rb").read() == n
PY
  is "$(out demo 'find . -type f -print0 | sort -z | sha256sum')" \
    "$(cd "$W" && find . -type f -print0 | sort -z | sha256sum)"
  out demo 'rm -rf ./* && i=1 && while [ $i -lt 256 ]; do
    [ $i = 47 ] || : > "$(printf "a\\$(printf %o $i)b")"; i=$((i+1)); done; ls | wc -l' >/dev/null
  is "$(python3 -c 'import os,sys; print(len({n for n in os.listdir(os.fsencode(sys.argv[1]))
    if len(n) == 3 and n[:1] == b"a" and n[2:] == b"b"}))' "$W")" 254
}

@test "ten thousand files are listed completely, once each" {
  out demo 'i=0; while [ $i -lt 10000 ]; do : > f$i; i=$((i+1)); done' >/dev/null
  is "$(ls "$W" | wc -l)" 10000
  is "$(ls -U "$W" | sort -u | wc -l)" 10000
  is "$(ls -l "$W" | grep -c '^-')" 10000
  is "$(find "$W" -type f | sort -u | wc -l)" 10000
}

@test "rename: over a file, over a directory, exchange, no replace" {
  echo a >"$W/a"
  echo b >"$W/b"
  mv -f "$W/a" "$W/b"
  is "$(cat "$W/b")" a
  [[ ! -e $W/a ]]
  mkdir -p "$W/d1/x" "$W/d2" "$W/full/y"
  mv -T "$W/d1" "$W/d2"
  [[ -d $W/d2/x && ! -e $W/d1 ]]
  fails_with "Directory not empty" mv -T "$W/d2" "$W/full"
  mv -n "$W/b" "$W/full"
  is "$(out demo 'cat full/b; ls')" $'a\nd2\nfull'
  python3 - "$W" <<'PY'
import ctypes, os, sys
os.chdir(sys.argv[1])
open("p", "w").write("p"); open("q", "w").write("q")
libc = ctypes.CDLL(None, use_errno=True)
assert libc.renameat2(-100, b"p", -100, b"q", 1) == -1 and ctypes.get_errno() == 17
assert libc.renameat2(-100, b"p", -100, b"q", 2) == 0
assert open("p").read() == "q" and open("q").read() == "p"
PY
}

@test "hard links share bytes, count and inode" {
  echo one >"$W/a"
  ln "$W/a" "$W/b"
  is "$(stat -c %h "$W/a")" 2
  is "$(stat -c %i "$W/a")" "$(stat -c %i "$W/b")"
  echo two >>"$W/b"
  is "$(cat "$W/a")" $'one\ntwo'
  rm "$W/a"
  is "$(stat -c %h "$W/b")" 1
  is "$(out demo 'cat b')" $'one\ntwo'
  mkdir "$W/d"
  fails ln "$W/d" "$W/e"
}

@test "an open file with two names that are looked up all the while stays the same file" {
  timeout 60 python3 - "$W" <<'PY'
import os, sys, threading, time
a, b = sys.argv[1] + "/a", sys.argv[1] + "/b"
fd = os.open(a, os.O_CREAT | os.O_RDWR)
os.link(a, b)
end, failed = time.time() + 2, []
def look():
    while time.time() < end:
        os.stat(a)
        os.stat(b)
def act():
    try:
        while time.time() < end: os.fchmod(fd, 0o600)
    except OSError as e:
        failed.append(e)
threads = [threading.Thread(target=f) for f in (look, look, act, act)]
for t in threads: t.start()
for t in threads: t.join()
assert not failed, failed
PY
}

@test "modes, owners, times are kept to the nanosecond" {
  echo x >"$W/f"
  chmod 640 "$W/f"
  is "$(stat -c %a "$W/f")" 640
  is "$(out demo 'stat -c %a f')" 640
  touch -m -d '2001-02-03 04:05:06.123456789 UTC' "$W/f"
  touch -a -d '1969-12-31 23:59:59.5 UTC' "$W/f"
  is "$(stat -c '%.9Y %.9X' "$W/f")" "981173106.123456789 -0.500000000"
  is "$(out demo 'stat -c %Y f')" 981173106
  chown 1000:2000 "$W/f"
  is "$(out demo 'stat -c %u:%g f')" 1000:2000
  is "$(stat -c %u:%g "$W/f")" 1000:2000
  (umask 027 && mkdir "$W/d" && : >"$W/d/g")
  is "$(stat -c %a "$W/d" "$W/d/g" | tr '\n' ' ')" "750 640 "
}

@test "truncate, append, holes, seek" {
  printf 0123456789 >"$W/f"
  truncate -s 5 "$W/f"
  is "$(cat "$W/f")" 01234
  truncate -s 100000 "$W/f"
  is "$(stat -c %s "$W/f")" 100000
  is "$(tail -c 99995 "$W/f" | tr -d '\0' | wc -c)" 0
  printf x >>"$W/f"
  is "$(out demo 'wc -c <f; tail -c 1 f')" $'100001\nx'
  printf y | dd of="$W/f" bs=1 seek=50000 conv=notrunc status=none
  is "$(out demo 'dd if=f bs=1 skip=50000 count=1 2>/dev/null')" y
  : >"$W/f"
  is "$(out demo 'wc -c <f')" 0
}

@test "append from both sides loses nothing" {
  local i
  : >"$W/log"
  ex demo 'for i in $(seq 200); do echo inside >> log; done' &
  for i in {1..200}; do echo outside >>"$W/log"; done
  wait $!
  right "$(grep -c '^inside$' "$W/log")" 200
  right "$(grep -c '^outside$' "$W/log")" 200
}

@test "a file that is unlinked while open stays readable and writable" {
  python3 - "$W" <<'PY'
import os, sys
p = sys.argv[1] + "/f"
f = open(p, "w+b", buffering=0)
f.write(b"first")
os.unlink(p)
assert not os.path.exists(p)
f.write(b" second")
f.seek(0)
assert f.read() == b"first second"
os.ftruncate(f.fileno(), 3)
assert os.fstat(f.fileno()).st_size == 3 and os.fstat(f.fileno()).st_nlink == 0
assert os.listdir(sys.argv[1]) == []
PY
}

@test "errors are the container's own" {
  mkdir -p "$W/d/e"
  : >"$W/f"
  fails_with "Directory not empty" rmdir "$W/d"
  fails_with "File exists" mkdir "$W/d"
  fails_with "File exists" mkdir "$W/f"
  fails_with "No such file" mkdir "$W/no/x"
  fails_with "No such file" cat "$W/none"
  fails_with "No such file" rm "$W/none"
  fails_with "Not a directory" ls "$W/f/x"
  fails_with "Not a directory" rmdir "$W/f"
  fails_with "Is a directory" cat "$W/d"
  fails_with "Is a directory" rm "$W/d"
  fails_with "File name too long" touch "$W/$(printf 'n%.0s' {1..256})"
  touch "$W/$(printf 'n%.0s' {1..255})"
  ln -s loop "$W/loop"
  fails_with "Too many levels" cat "$W/loop"
  template small '{"image": "busybox:test", "tmpfs": "/workspace:size=1m"}'
  sandbox small@full
  fails_with "No space left" cp /dev/zero "$MNT/small@full/workspace/f"
  rmdir "$MNT/small@full"
}

# By btrfs: the quotas of tmpfs and ext4 are options of the kernel that not every machine has. To mount is root's.
# bats test_tags=not:bwrap-user
@test "a quota in the container is EDQUOT, and what was written before it stays" {
  local disk=$BATS_TEST_TMPDIR/disk
  truncate -s 128M "$disk.img"
  mkfs.btrfs -q -m single "$disk.img"
  mkdir "$disk"
  mount -o loop "$disk.img" "$disk"
  btrfs quota enable "$disk"
  btrfs qgroup limit 4M "$disk"
  chmod 777 "$disk"
  template quota '{"image": "busybox:test", "user": "user", "volumes": ["'"$disk"':/workspace"]}'
  mount_sbx "templates=$TEMPLATES,allow_binds=$disk"
  sandbox quota@demo
  timeout 120 python3 - "$MNT/quota@demo/workspace" "$BATS_TEST_TMPDIR/copy" <<'PY'
import errno, os, sys
os.chdir(sys.argv[1])
def err(f, *args):
    try:
        f(*args)
    except OSError as e:
        return errno.errorcode[e.errno]
fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
written = b""
try:
    while len(written) < 16 << 20:
        data = os.urandom(50000)
        written += data[:os.write(fd, data)]
    sys.exit("no limit")
except OSError as e:
    assert e.errno == errno.EDQUOT, e
assert 2 << 20 <= len(written) <= 4 << 20, len(written)
assert err(os.write, fd, b"x" * 50000) == "EDQUOT"
assert err(os.posix_fallocate, fd, 0, 8 << 20) == "EDQUOT"
assert os.fstat(fd).st_size == os.stat("f").st_size == len(written), os.fstat(fd)
os.fsync(fd)
assert os.pread(fd, 16 << 20, 0) == written, "by the same descriptor"
os.close(fd)
with open("f", "rb") as f:
    assert f.read() == written
with open(sys.argv[2], "wb") as f:
    f.write(written)
PY
  is "$(out quota@demo 'sha256sum <f')" "$(sha256sum <"$BATS_TEST_TMPDIR/copy")"
  ex quota@demo 'head -c 9000000 /dev/zero >g'
  has "$(cat "$MNT/quota@demo/ctl/stderr")" 'quota exceeded' # the container says no less
  rmdir "$MNT/quota@demo"
  cmp "$disk/f" "$BATS_TEST_TMPDIR/copy"
}

@test "statfs tells the container's disk" {
  [[ $(stat -f -c %S "$W") -gt 0 ]]
  [[ $(stat -f -c %b "$W") -gt 0 ]]
  is "$(stat -f -c %l "$W")" 255
  df "$W"
}

@test "cp -r, tar and rsync carry a tree both ways" {
  local src=$BATS_TEST_TMPDIR/src
  mkdir -p "$src/a/b" "$src/empty"
  random 100000 "$src/a/one"
  random 7 "$src/a/b/two"
  chmod 755 "$src/a/b/two"
  ln -s b/two "$src/a/rel"
  cp -r "$src" "$W/cp"
  diff -r "$src" "$W/cp"
  tar -C "$src" -c . | tar -C "$(mkdir "$W/tar" && echo "$W/tar")" -x
  diff -r "$src" "$W/tar"
  rsync -a "$src/" "$W/rsync/"
  diff -r "$src" "$W/rsync"
  is "$(readlink "$W/tar/a/rel")" b/two
  [[ -x $(readlink -f "$W/tar/a/b/two") ]] || [[ $(stat -c %a "$W/tar/a/b/two") == 755 ]]
  cp -r "$W/tar" "$BATS_TEST_TMPDIR/back"
  diff -r "$src" "$BATS_TEST_TMPDIR/back"
  is "$(out demo 'cd tar && find . -type f | wc -l')" 2
}

@test "git works on the mount" {
  cd "$W"
  git -c init.defaultBranch=main init -q .
  seq 1000 >file
  mkdir dir && echo x >dir/y
  git add . && git -c user.name=t -c user.email=t@t commit -q -m first
  seq 500 >file
  git -c user.name=t -c user.email=t@t commit -q -a -m second
  is "$(git log --format=%s | tr '\n' ' ')" "second first "
  git checkout -q HEAD~1
  is "$(wc -l <file)" 1000
  git fsck --strict 2>&1
  is "$(git status --short)" ""
  cd /
}

@test "what a command wrote is there when it has ended, and what is written outside is there inside" {
  local i
  for i in {1..20}; do
    ex demo "echo inside$i > f; mkdir -p d$i; rm -rf d$((i - 1))"
    is "$(cat "$W/f")" "inside$i"
    [[ -d $W/d$i && ! -e $W/d$((i - 1)) ]]
    echo "outside$i" >"$W/f"
    is "$(out demo 'cat f')" "outside$i"
  done
}

holds() {
  [[ $(cat "$1" 2>/dev/null) == "$2" ]]
}

# How soon is measured in stress.bats.
@test "changes by a process in the background show, though no command ends" {
  fails cat "$W/f"
  box_exec demo sh -c 'echo one > /workspace/f'
  wait_for 90 holds "$W/f" one
  box_exec demo sh -c 'echo other > /workspace/f; mv /workspace/f /workspace/g'
  wait_for 90 holds "$W/g" other
  is "$(ls "$W")" g
}

@test "with a user in the template the files belong to that user" {
  sandbox user@u
  local u=$MNT/user@u/workspace
  echo x >"$u/f"
  mkdir "$u/d"
  cp -r /etc/hostname "$u/d/"
  is "$(out user@u 'id -un; stat -c %U . f d d/hostname; echo y >> f; rm d/hostname')" \
    $'user\nuser\nuser\nuser\nuser'
  is "$(cat "$u/f")" $'x\ny'
  rmdir "$MNT/user@u"
}

@test "inode numbers differ between sandboxes and stay with a file" {
  sandbox two
  echo x >"$W/f"
  echo x >"$MNT/two/workspace/f"
  [[ $(stat -c %i "$W/f") != "$(stat -c %i "$MNT/two/workspace/f")" ]]
  local ino
  ino=$(stat -c %i "$W/f")
  mv "$W/f" "$W/g"
  is "$(stat -c %i "$W/g")" "$ino"
  remount
  is "$(stat -c %i "$W/g")" "$ino"
  # Over a stop too, though its file system may have another device number then: one that is made meanwhile takes the first.
  echo stopped >"$MNT/demo/ctl/state"
  sandbox three
  echo running >"$MNT/demo/ctl/state"
  is "$(stat -c %i "$W/g")" "$ino"
  # One image: inside it is the same inode of the same device.
  [[ $(stat -c %i "$MNT/demo/rootfs/etc/passwd") != "$(stat -c %i "$MNT/two/rootfs/etc/passwd")" ]]
  rmdir "$MNT/two" "$MNT/three"
}

@test "a listing's inode numbers and types are those of stat" {
  mkdir "$W/d"
  echo x >"$W/f"
  ln -s f "$W/l"
  python3 - "$W" "$MNT/demo/rootfs/" <<'PY'
import os, stat, sys
def listed(dir):
    found = {}
    for e in os.scandir(dir):
        st = os.lstat(e.path)
        kind = stat.S_IFLNK if e.is_symlink() else stat.S_IFDIR if e.is_dir(follow_symlinks=False) else stat.S_IFREG
        assert e.inode() == st.st_ino, (e.path, e.inode(), st.st_ino)
        assert kind == stat.S_IFMT(st.st_mode), (e.path, kind, st.st_mode)
        found[e.name] = kind
    return found
assert len(listed(sys.argv[1])) == 3
root = listed(sys.argv[2])
# Those that we answer ourselves: the sandbox's own are something else.
assert root["workspace"] == stat.S_IFLNK
assert root["proc"] == root["dev"] == root.get("sys", stat.S_IFDIR) == stat.S_IFDIR # not every engine has /sys
PY
}

@test "names that may be listed and not looked at have numbers of this sandbox alone" {
  sandbox user@box
  W=$MNT/user@box/workspace
  out user@box 'mkdir d; : > d/f'
  local seen
  seen=$(stat -c %i "$W/d/f")
  out user@box 'chmod 444 d'
  # Whoever mounted acts as that user; what the kernel has kept makes no difference.
  python3 - "$W/d" "$seen" "$(out user@box 'chmod 755 d; stat -c %i d/f; chmod 444 d')" <<'PY'
import errno, os, sys
dir, seen, inside = sys.argv[1:]
try:
    os.stat(dir + "/f")
    raise AssertionError("it could be searched")
except PermissionError:
    pass
listed = [e.inode() for e in os.scandir(dir)]
assert listed == [int(seen)] and seen != inside, (listed, seen, inside)
PY
  rmdir "$MNT/user@box"
}

@test "in the whole tree the workspace is a link back to workspace/" {
  echo here >"$W/f"
  [[ -L $MNT/demo/rootfs/workspace ]]
  is "$(cat "$MNT/demo/rootfs/workspace/f")" here
  echo there >"$MNT/demo/rootfs/workspace/f"
  is "$(out demo 'cat f')" there
  is "$(stat -L -c %i "$MNT/demo/rootfs/workspace")" "$(stat -c %i "$W")"
}

@test "a directory is read in parts, and by seeks, while the sandbox makes and removes other names" {
  out demo 'mkdir d; i=0; while [ $i -lt 600 ]; do : > d/stays$i; i=$((i+1)); done'
  box_exec -d demo sh -c 'cd /workspace/d; while [ ! -e ../end ]; do
    i=0; while [ $i -lt 50 ]; do : > goes$i; i=$((i+1)); done; rm goes*; done'
  python3 - "$W/d" <<'PY'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
libc.telldir.restype = libc.getdents64.restype = ctypes.c_long
libc.opendir.argtypes = [ctypes.c_char_p]
libc.readdir.argtypes = libc.telldir.argtypes = libc.closedir.argtypes = [ctypes.c_void_p]
libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
stays = sorted(b"stays%d" % k for k in range(600))
others = set() # how many of them each reading saw

def check(names):
    others.add(sum(n.startswith(b"goes") for n in names))
    assert sorted(n for n in names if n.startswith(b"stays")) == stays, len(names)

def parts(size):
    """A system call for some names each."""
    buf, names, fd = ctypes.create_string_buffer(size), [], os.open(sys.argv[1], os.O_RDONLY)
    while (n := libc.getdents64(fd, buf, ctypes.c_size_t(size))) > 0:
        at = 0
        while at < n:
            length = struct.unpack_from("H", buf, at + 16)[0]
            names.append(buf.raw[at + 19:at + length].split(b"\0")[0])
            at += length
    assert n == 0
    os.close(fd)
    return names

def seeks(step):
    """Every step-th time away to the start, and back to the place."""
    names, d = [], libc.opendir(os.fsencode(sys.argv[1]))
    start = libc.telldir(d)
    while e := libc.readdir(d):
        names.append(ctypes.string_at(e + 19))
        if len(names) % step == 0:
            place = libc.telldir(d)
            libc.seekdir(d, start)
            libc.readdir(d)
            libc.seekdir(d, place)
    libc.closedir(d)
    return names

for k in range(1000):
    check(parts(600))
    check(parts(5000))
    check(seeks(37))
    if k >= 2 and len(others) > 1:
        break
else:
    sys.exit("nothing changed meanwhile")
PY
  : >"$W/end"
}

@test "many files at once by many processes come out right" {
  local i pids=()
  for i in {1..16}; do
    (
      for j in {1..25}; do echo "$i.$j" >"$W/f$i.$j"; done
      for j in {1..25}; do [[ $(cat "$W/f$i.$j") == "$i.$j" ]]; done
    ) &
    pids+=($!)
  done
  for i in "${pids[@]}"; do wait "$i"; done
  is "$(ls "$W" | wc -l)" 400
}

@test "a mapping of a file reads and writes its bytes" {
  python3 - "$W" <<'PY'
import mmap, sys
with open(sys.argv[1] + "/m", "w+b") as f:
    f.write(b"a" * 10000)
    f.flush()
    m = mmap.mmap(f.fileno(), 10000)
    assert m[9999:] == b"a"
    m[5000:5004] = b"here"
    m.flush()
PY
  is "$(out demo 'dd if=m bs=1 skip=5000 count=4 2>/dev/null; wc -c <m')" $'here10000'
}

@test "the mount is nosuid, nodev and noexec" {
  has "$(grep " $MNT " /proc/mounts)" nosuid
  has "$(grep " $MNT " /proc/mounts)" nodev
  has "$(grep " $MNT " /proc/mounts)" noexec
}

# handle FILE...: the kernel's own name of each: node and generation
handle() {
  python3 "$SBX_TOP/tests/lib/handle.py" "$@"
}

@test "a file is the same node for its life, and no other is ever taken for it" {
  local first i all=$BATS_TEST_TMPDIR/all
  echo x >"$W/f"
  mkdir "$W/d"
  first=$(handle "$W/f" "$W/d")
  echo more >>"$W/f"
  mv "$W/f" "$W/g"
  ln "$W/g" "$W/h"
  mv "$W/d" "$W/e"
  is "$(handle "$W/g" "$W/e")" "$first"
  is "$(handle "$W/h")" "$(handle "$W/g")"
  for i in {1..30}; do
    echo "$i" >"$W/n"
    mkdir "$W/m"
    handle "$W/n" "$W/m" >>"$all"
    if ((i % 2)); then rm -r "$W/n" "$W/m"; else out demo 'rm -r n m' >/dev/null; fi
  done
  is "$(sort "$all" | uniq -d)" ""
  is "$(wc -l <"$all")" 60
}
