#!/usr/bin/env bats
# The operations that few programs use, but those need them: extended attributes, space and holes, copies
# inside, access, odd kinds of files and flags. What a local file system says, the mount says too.

load lib/mount
load lib/assert

setup() {
  template user '{"image": "busybox:test", "user": "user"}'
  template closed '{"image": "busybox:test", "read_only": true, "tmpfs": ["/workspace"]}'
  mount_sbx "templates=$TEMPLATES"
}

# begin NAME: a sandbox, its workspace in W, the same directory as the container has it in IN.
begin() {
  sandbox "$1"
  W=$MNT/$1/workspace
  ROOT=/proc/$(box_pid "$1")/root
  IN=$ROOT/workspace
}

# py [ARGS...] <<'PY': in the workspace; `inside` is the container's own view, err(f) f's errno.
py() {
  local text
  text=$(cat)
  (cd "$W" && PYTHONPATH=$SBX_TOP/tests/lib PYTHONDONTWRITEBYTECODE=1 timeout 120 python3 -c '
import ctypes, errno, fcntl, mmap, os, stat, struct, sys, time
from inside import enter
inside = sys.argv[1]
enter(inside)
libc = ctypes.CDLL(None, use_errno=True)
names = {**errno.errorcode, errno.EOPNOTSUPP: "EOPNOTSUPP"}
def err(f, *a, **k):
    try:
        f(*a, **k)
    except OSError as e:
        return names[e.errno]
    return None
def c_err(r):
    return names[ctypes.get_errno()] if r < 0 else None
def opener(path, flags):
    return os.open(path, flags, 0o666)
def put(path, data):
    with open(path, "wb", opener=opener) as f:
        f.write(data)
def get(path):
    with open(path, "rb", opener=opener) as f:
        return f.read()
'"$text" "$IN" "$@")
}

@test "extended attributes are the container's, with all their rules" {
  begin demo
  py <<'PY'
put("f", b"x"); os.mkdir("d")
for o in "f", "d":
    i = inside + "/" + o
    assert os.listxattr(o) == []
    assert err(os.getxattr, o, "user.none") == "ENODATA"
    value = bytes(range(256)) * 4
    os.setxattr(o, "user.bin", value)
    os.setxattr(o, "user.empty", b"")
    assert os.getxattr(i, "user.bin") == value and os.getxattr(i, "user.empty") == b""
    os.setxattr(i, "user.inside", b"in")
    assert os.getxattr(o, "user.bin") == value and os.getxattr(o, "user.empty") == b""
    assert os.getxattr(o, "user.inside") == b"in"
    assert sorted(os.listxattr(o)) == ["user.bin", "user.empty", "user.inside"]
    assert err(os.setxattr, o, "user.bin", b"y", os.XATTR_CREATE) == "EEXIST"
    assert err(os.setxattr, o, "user.new", b"y", os.XATTR_REPLACE) == "ENODATA"
    os.setxattr(o, "user.bin", b"y", os.XATTR_REPLACE)
    assert os.getxattr(i, "user.bin") == b"y"
    os.removexattr(o, "user.bin")
    assert err(os.getxattr, i, "user.bin") == "ENODATA"
    assert err(os.removexattr, o, "user.bin") == "ENODATA"
# Sizes, as the system call has them.
os.setxattr("f", "user.ten", b"0123456789")
b = ctypes.create_string_buffer(64)
assert libc.getxattr(b"f", b"user.ten", None, 0) == 10
assert libc.getxattr(b"f", b"user.ten", b, 10) == 10 and b.raw[:10] == b"0123456789"
assert libc.getxattr(b"f", b"user.ten", b, 9) == -1 and ctypes.get_errno() == errno.ERANGE
n = libc.listxattr(b"f", None, 0)
assert n == sum(len(x) + 1 for x in os.listxattr("f"))
assert libc.listxattr(b"f", b, n - 1) == -1 and ctypes.get_errno() == errno.ERANGE
assert err(os.setxattr, "f", "user.big", b"x" * 65537) == "E2BIG"
assert err(os.setxattr, "f", "user." + "n" * 251, b"") == "ERANGE"
os.setxattr("f", "user." + "n" * 250, b"")
assert os.listxattr("f").count("user." + "n" * 250) == 1
# A link has none of its own, and is not followed unasked.
os.symlink("f", "l")
assert err(os.setxattr, "l", "user.x", b"x", follow_symlinks=False) == "EPERM"
assert os.listxattr("l", follow_symlinks=False) == []
assert os.getxattr("l", "user.ten") == b"0123456789"
os.symlink("nothing", "dangling")
assert os.listxattr("dangling", follow_symlinks=False) == []
# Open, but without a name.
fd = os.open("f", os.O_RDWR)
os.unlink("f")
os.setxattr(fd, "user.ghost", b"boo")
assert os.getxattr(fd, "user.ghost") == b"boo" and "user.ghost" in os.listxattr(fd)
os.removexattr(fd, "user.ghost")
assert err(os.getxattr, fd, "user.ghost") == "ENODATA"
os.close(fd)
# A FIFO cannot have user attributes, a space of names that nobody knows is not supported.
os.mkfifo("p")
assert err(os.setxattr, "p", "user.x", b"x") == err(os.setxattr, inside + "/p", "user.x", b"x") == "EPERM"
assert err(os.setxattr, "d", "nonsense.x", b"x") == "EOPNOTSUPP"
assert err(os.getxattr, "d", "nonsense.x") == "EOPNOTSUPP"
os.setxattr("d", "user.last", b"still works")
PY
}

@test "many extended attributes, and tools that carry them" {
  begin demo
  mkdir "$W/a"
  py <<'PY'
put("a/f", b"x")
for n in range(60):
    os.setxattr("a/f", "user.%d" % n, b"%d" % n)
assert len(os.listxattr("a/f")) == 60
os.setxattr("a", "user.dir", b"d")
PY
  cp -a "$W/a" "$BATS_TEST_TMPDIR/out"
  cp -a "$BATS_TEST_TMPDIR/out" "$W/b"
  py "$BATS_TEST_TMPDIR/out" <<'PY'
for top in sys.argv[2], "b", inside + "/b":
    assert {x: os.getxattr(top + "/f", x) for x in os.listxattr(top + "/f")} == {
        "user.%d" % n: b"%d" % n for n in range(60)}, top
    assert os.getxattr(top, "user.dir") == b"d"
PY
}

# bats test_tags=only:bwrap-user
@test "file capabilities are not shown to a user, and the host's own kernel refuses to set them" {
  begin demo
  py <<'PY'
put("f", b"x")
cap = struct.pack("<IIIII", 0x02000000, 1 << 10, 0, 0, 0)
assert err(os.setxattr, "f", "security.capability", cap) == "EPERM"
assert err(os.getxattr, "f", "security.capability") == "ENODATA"
assert os.listxattr("f") == []
put("f", b"y")
PY
}

# bats test_tags=not:bwrap-user
@test "file capabilities are not shown, not set, and in nobody's way" {
  begin demo
  py <<'PY'
put("f", b"x")
cap = struct.pack("<IIIII", 0x02000000, 1 << 10, 0, 0, 0)
os.setxattr(inside + "/f", "security.capability", cap)
os.setxattr(inside + "/f", "user.x", b"x")
assert os.listxattr("f") == ["user.x"]
assert err(os.getxattr, "f", "security.capability") == "ENODATA"
assert err(os.removexattr, "f", "security.capability") == "ENODATA"
assert err(os.setxattr, "f", "security.capability", cap) == "EOPNOTSUPP"
assert os.getxattr(inside + "/f", "security.capability") == cap
# A write takes them away, as everywhere.
put("f", b"y")
assert err(os.getxattr, inside + "/f", "security.capability") == "ENODATA"
assert get(inside + "/f") == b"y"
PY
}

@test "what is no file of a sandbox has no attributes, and switches nothing off" {
  begin demo
  W=$MNT py <<'PY'
for p in ".", "README", ".sandboxfs", "demo", "demo/ctl", "demo/ctl/state", "demo/ctl/exec", ".sandboxfs/rootfs/demo/proc":
    assert os.listxattr(p) == [], p
    assert err(os.getxattr, p, "user.x") == "ENODATA", p
    assert err(os.getxattr, p, "security.capability") == "ENODATA", p
    assert err(os.setxattr, p, "user.x", b"") == "EOPNOTSUPP", p
    assert err(os.removexattr, p, "user.x") == "EOPNOTSUPP", p
f = os.open("README", os.O_RDONLY)
assert err(os.lseek, f, 0, os.SEEK_DATA) == "EINVAL"
w = "demo/workspace/f"
put(w, b"x")
os.setxattr(w, "user.x", b"y")
assert os.getxattr(w, "user.x") == b"y" and os.listxattr(w) == ["user.x"]
assert os.lseek(os.open(w, os.O_RDONLY), 0, os.SEEK_DATA) == 0
PY
  cp "$MNT/README" "$BATS_TEST_TMPDIR/readme"
  same "$MNT/README" "$BATS_TEST_TMPDIR/readme"
}

@test "extended attributes go by the rights of the sandbox's user" {
  begin user@u
  py <<'PY'
put(inside + "/r", b"x"); os.chmod(inside + "/r", 0o640)
put(inside + "/g", b"x"); os.chown(inside + "/g", 0, 2000); os.chmod(inside + "/g", 0o060)
os.setxattr(inside + "/r", "user.x", b"root's")
assert err(os.setxattr, "r", "user.y", b"") == "EACCES"
assert err(os.getxattr, "r", "user.x") == "EACCES"
assert err(os.removexattr, "r", "user.x") == "EACCES"
assert os.getxattr(inside + "/r", "user.x") == b"root's"
os.setxattr("g", "user.y", b"by the extra group")
assert os.getxattr(inside + "/g", "user.y") == b"by the extra group"
assert err(os.setxattr, "g", "trusted.y", b"") == "EPERM"
PY
}

@test "access lists pass as values, and hold inside" {
  begin user@u
  py <<'PY'
def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)
NONE = 0xffffffff
put("f", b"x"); os.chmod("f", 0o600)
a = acl((1, 6, NONE), (2, 4, 4242), (4, 0, NONE), (16, 4, NONE), (32, 0, NONE))
os.setxattr("f", "system.posix_acl_access", a)
assert os.getxattr("f", "system.posix_acl_access") == a
assert os.getxattr(inside + "/f", "system.posix_acl_access") == a
assert stat.S_IMODE(os.stat("f").st_mode) == 0o640
os.mkdir("d")
d = acl((1, 7, NONE), (4, 5, NONE), (8, 7, 2000), (16, 7, NONE), (32, 0, NONE))
os.setxattr("d", "system.posix_acl_default", d)
assert os.getxattr(inside + "/d", "system.posix_acl_default") == d
put("d/g", b"")
got = os.getxattr("d/g", "system.posix_acl_access")
assert got == os.getxattr(inside + "/d/g", "system.posix_acl_access")
assert struct.pack("<HH", 8, 7) + struct.pack("<I", 2000) in got
os.removexattr("f", "system.posix_acl_access")
assert err(os.getxattr, inside + "/f", "system.posix_acl_access") == "ENODATA"
# What only the list allows, or forbids, is what access(2) says.
put(inside + "/of_root", b""); os.chmod(inside + "/of_root", 0o600)
assert not os.access("of_root", os.R_OK)
os.setxattr(inside + "/of_root", "system.posix_acl_access",
    acl((1, 6, NONE), (2, 4, 1000), (4, 0, NONE), (16, 4, NONE), (32, 0, NONE)))
assert os.access("of_root", os.R_OK) and not os.access("of_root", os.W_OK)
assert get("of_root") == b""
PY
}

@test "fallocate: reserve, keep the size, punch, zero" {
  begin demo
  py <<'PY'
KEEP, PUNCH, COLLAPSE, ZERO = 1, 2, 8, 16
M = 1 << 20
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
def fa(fd, mode, off, n):
    return c_err(libc.fallocate(fd, mode, off, n))
fd = os.open("f", os.O_RDWR | os.O_CREAT)
def sizes():
    st, i = os.fstat(fd), os.stat(inside + "/f")
    assert (st.st_size, st.st_blocks) == (i.st_size, i.st_blocks)
    return st.st_size, st.st_blocks * 512
os.posix_fallocate(fd, 0, 4 * M)
assert sizes()[0] == 4 * M and sizes()[1] >= 4 * M
assert fa(fd, KEEP, 4 * M, 4 * M) is None
assert sizes()[0] == 4 * M and sizes()[1] >= 8 * M
os.pwrite(fd, b"x" * 3 * M, 0)
assert get(inside + "/f")[:3 * M] == b"x" * 3 * M
before = sizes()[1]
assert fa(fd, KEEP | PUNCH, M, M) is None
assert sizes() == (4 * M, before - M)
assert os.pread(fd, 3 * M, 0) == b"x" * M + bytes(M) + b"x" * M
assert get(inside + "/f") == b"x" * M + bytes(M) + b"x" * M + bytes(M)
assert fa(fd, ZERO, 2 * M + 10, 100) is None
assert os.pread(fd, 200, 2 * M) == b"x" * 10 + bytes(100) + b"x" * 90
assert get("f") == get(inside + "/f")
assert fa(fd, ZERO, 4 * M, M) is None and sizes()[0] == 5 * M
assert fa(fd, COLLAPSE, 0, M) == "EOPNOTSUPP"
assert fa(fd, PUNCH, 0, M) == "EOPNOTSUPP"
assert fa(fd, 0, 0, 0) == "EINVAL"
assert fa(os.open("f", os.O_RDONLY), 0, 0, M) == "EBADF"
assert fa(fd, 0, 0, 1 << 62) in ("ENOSPC", "EFBIG")
os.unlink("f")
assert fa(fd, 0, 0, 6 * M) is None and os.fstat(fd).st_size == 6 * M
PY
}

@test "holes are found where they are" {
  begin demo
  py <<'PY'
M = 1 << 20
i = os.open(inside + "/s", os.O_RDWR | os.O_CREAT)
os.pwrite(i, b"a" * 65536, M)
os.pwrite(i, b"b", 5 * M)
os.ftruncate(i, 8 * M)
f = os.open("s", os.O_RDWR)
def both(off, whence):
    got = []
    for fd in f, i:
        try:
            got.append(os.lseek(fd, off, whence))
        except OSError as e:
            got.append(errno.errorcode[e.errno])
    assert got[0] == got[1], (off, whence, got)
    return got[0]
for off in 0, 1, M - 1, M, M + 1, M + 65535, M + 65536, 5 * M - 1, 5 * M, 6 * M, 8 * M - 1, 8 * M, 9 * M:
    both(off, os.SEEK_DATA), both(off, os.SEEK_HOLE)
assert both(0, os.SEEK_DATA) == M and both(M, os.SEEK_HOLE) == M + 65536
assert both(6 * M, os.SEEK_DATA) == "ENXIO" and both(9 * M, os.SEEK_HOLE) == "ENXIO"
# The other places of lseek are as before, and reading goes on from where it was put.
assert os.lseek(f, M + 3, os.SEEK_DATA) == M + 3 and os.read(f, 3) == b"aaa"
assert os.lseek(f, 0, os.SEEK_CUR) == M + 6 and os.lseek(f, -1, os.SEEK_END) == 8 * M - 1
# Data written by the host is data at once.
os.pwrite(f, b"c", 7 * M)
assert both(6 * M, os.SEEK_DATA) == 7 * M
PY
  cp --sparse=auto "$W/s" "$W/copy"
  same "$W/s" "$W/copy"
  is "$(stat -c %b "$IN/copy")" "$(stat -c %b "$IN/s")"
}

@test "a copy inside a sandbox does not cross the stream" {
  begin demo
  local before after
  head -c 50000001 /dev/urandom >"$IN/big"
  before=$(awk '/^(rchar|wchar)/ { n += $2 } END { print n }' "/proc/$(daemon_pid)/io")
  py <<'PY'
f, t = os.open("big", os.O_RDONLY), os.open("copy", os.O_RDWR | os.O_CREAT)
left = os.fstat(f).st_size
calls = 0
while left:
    n = os.copy_file_range(f, t, left)
    assert 0 < n <= left
    left -= n
    calls += 1
assert os.copy_file_range(f, t, 10) == 0
assert calls < 10, calls
PY
  after=$(awk '/^(rchar|wchar)/ { n += $2 } END { print n }' "/proc/$(daemon_pid)/io")
  ((after - before < 1000000)) || { echo "$((after - before)) bytes went through the daemon"; return 1; }
  same "$IN/big" "$IN/copy"
  same "$IN/big" "$W/copy"
  cp "$W/big" "$W/by_cp"
  same "$IN/big" "$IN/by_cp"
}

@test "copy_file_range: offsets, what was cached, its errors, other places" {
  begin demo
  sandbox other
  py "$MNT/other/workspace" "$BATS_TEST_TMPDIR" <<'PY'
other, host = sys.argv[2:4]
put("a", b"0123456789"); put("b", b"abcdefghij")
assert get("b") == b"abcdefghij" # in the page cache, if there is one
a, b = os.open("a", os.O_RDWR), os.open("b", os.O_RDWR)
assert os.copy_file_range(a, b, 2, 4, 1) == 2
assert get("b") == b"a45defghij" == get(inside + "/b")
assert os.copy_file_range(a, b, 100, 6, 20) == 4
assert get("b") == b"a45defghij" + bytes(10) + b"6789" == get(inside + "/b")
assert os.copy_file_range(a, a, 3, 0, 5) == 3 and get("a") == b"0123401289"
assert err(os.copy_file_range, a, a, 5, 0, 3) == "EINVAL"
assert err(os.copy_file_range, a, os.open("b", os.O_RDONLY), 1) == "EBADF"
assert err(os.copy_file_range, a, os.open("b", os.O_WRONLY | os.O_APPEND), 1) == "EBADF"
os.unlink("a")
assert os.copy_file_range(a, b, 2, 0, 0) == 2 and get("b")[:2] == b"01"
# Into another sandbox and to the host: by whatever way, the bytes arrive.
put("c", os.urandom(3000000))
for to in other + "/c", host + "/c":
    f, t = os.open("c", os.O_RDONLY), os.open(to, os.O_RDWR | os.O_CREAT)
    try:
        while os.copy_file_range(f, t, 1 << 20):
            pass
    except OSError as e:
        assert e.errno == errno.EXDEV, e
        while d := os.read(f, 1 << 20):
            os.write(t, d)
    assert get(to) == get("c"), to
PY
}

@test "access is what the sandbox's kernel says: groups, owner, root's files, read-only" {
  umount_sbx
  mount_sbx "templates=$TEMPLATES" exec # or the host's kernel says no to x
  begin user@u
  py <<'PY'
def make(name, uid, gid, mode, d=False):
    p = inside + "/" + name
    os.mkdir(p) if d else put(p, b"")
    os.chown(p, uid, gid); os.chmod(p, mode)
def may(name):
    return "".join(c for c, m in (("r", os.R_OK), ("w", os.W_OK), ("x", os.X_OK)) if os.access(name, m))
for name, uid, gid, mode, want in (
    ("own", 1000, 1000, 0o640, "rw"), ("own_none", 1000, 1000, 0o077, ""), ("own_x", 1000, 0, 0o100, "x"),
    ("extra", 0, 2000, 0o060, "rw"), ("extra_r", 0, 2000, 0o747, "r"), ("main", 0, 1000, 0o710, "x"),
    ("others", 0, 0, 0o664, "r"), ("none", 0, 0, 0o770, "")):
    make(name, uid, gid, mode)
    assert may(name) == want, (name, may(name), want)
    make("d_" + name, uid, gid, mode, True)
    assert may("d_" + name) == want, ("d_" + name, may("d_" + name), want)
assert os.access("none", os.F_OK) and not os.access("missing", os.F_OK)
os.chdir("d_own_x"); os.chdir("..")
assert err(os.chdir, "d_none") == "EACCES"
fd = os.open("own", os.O_RDONLY)
os.unlink("own")
assert os.access("/proc/self/fd/%d" % fd, os.R_OK | os.W_OK)
PY
  begin closed@ro
  W=$MNT/.sandboxfs/rootfs/closed@ro py <<'PY'
libc.access.argtypes = [ctypes.c_char_p, ctypes.c_int]
assert c_err(libc.access(b".", os.W_OK)) == "EROFS" and libc.access(b".", os.R_OK | os.X_OK) == 0
assert c_err(libc.access(b"etc/passwd", os.W_OK)) == "EROFS" and libc.access(b"etc/passwd", os.R_OK) == 0
assert c_err(libc.access(b"etc/passwd", os.X_OK)) == "EACCES" # root too: no x bit
assert err(open, "etc/passwd", "r+b") == "EROFS"
assert err(os.setxattr, "etc/passwd", "user.x", b"") == "EROFS"
PY
}

@test "FIFOs and sockets can be made, devices cannot" {
  begin demo
  py <<'PY'
os.umask(0)
os.mkfifo("p", 0o640)
os.mknod("s", 0o600 | stat.S_IFSOCK)
os.mknod("f", 0o604 | stat.S_IFREG)
for top in ".", inside:
    assert os.lstat(top + "/p").st_mode == stat.S_IFIFO | 0o640
    assert os.lstat(top + "/s").st_mode == stat.S_IFSOCK | 0o600
    assert os.lstat(top + "/f").st_mode == stat.S_IFREG | 0o604
for kind in stat.S_IFCHR, stat.S_IFBLK:
    assert err(os.mknod, "dev", 0o600 | kind, os.makedev(1, 3)) == "EPERM"
assert not os.path.lexists("dev")
assert err(os.mkfifo, "p") == "EEXIST"
# Joined by the host's kernel, between host processes.
if os.fork() == 0:
    put("p", b"through")
    os._exit(0)
assert get("p") == b"through"
os.wait()
# A server's socket.
import socket
l = socket.socket(socket.AF_UNIX); l.bind("listen"); l.listen()
c = socket.socket(socket.AF_UNIX); c.connect("listen"); c.send(b"hi")
assert l.accept()[0].recv(2) == b"hi"
PY
  is "$(out demo 'ls -l p s f | cut -c1-10 | sort')" $'-rw----r--\nprw-r-----\nsrw-------'
}

@test "flags that are not for us say so: O_TMPFILE, RENAME_WHITEOUT" {
  begin demo
  py <<'PY'
assert err(os.open, ".", os.O_TMPFILE | os.O_RDWR) == "EOPNOTSUPP"
put("a", b"a"); put("b", b"b")
assert c_err(libc.renameat2(-100, b"a", -100, b"c", 4)) == "EINVAL"
assert c_err(libc.renameat2(-100, b"a", -100, b"b", 3)) == "EINVAL"
assert c_err(libc.renameat2(-100, b"a", -100, b"b", 1)) == "EEXIST"
assert libc.renameat2(-100, b"a", -100, b"b", 2) == 0 and get("a") == b"b"
assert libc.renameat2(-100, b"a", -100, b"c", 1) == 0 and get("c") == b"b"
import tempfile
with tempfile.TemporaryFile(dir=".") as t: # falls back
    t.write(b"x")
PY
}

# runs_inside PID, ended_inside PID: is it our program that it runs by now; and no longer
runs_inside() {
  is "$(out demo "readlink /proc/$1/exe")" /workspace/busybox
}

ended_inside() {
  out demo "! readlink /proc/$1/exe"
}

@test "a program that runs inside is not written to from the host: ETXTBSY" {
  local pid
  begin demo
  cp "$(host_busybox)" "$W/busybox"
  cp "$W/busybox" "$BATS_TEST_TMPDIR/program"
  ex demo './busybox sleep 1000 </dev/null >/dev/null 2>&1 & echo $!'
  pid=$(cat "$MNT/demo/ctl/stdout")
  wait_for 60 runs_inside "$pid"
  py <<'PY'
for flags in os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_CREAT:
    assert err(os.open, "busybox", flags) == "ETXTBSY", flags
for size in 0, 100, 1 << 30:
    assert err(os.truncate, "busybox", size) == "ETXTBSY", size
# What is no write is done: a read, a mode, another name.
os.chmod("busybox", 0o700)
os.rename("busybox", "moved")
assert err(os.open, "moved", os.O_WRONLY) == "ETXTBSY"
os.link("moved", "busybox")
PY
  cmp "$W/busybox" "$BATS_TEST_TMPDIR/program"
  out demo "kill -9 $pid"
  wait_for 60 ended_inside "$pid"
  py <<'PY'
os.truncate("busybox", 100)
os.close(os.open("busybox", os.O_WRONLY))
assert os.stat("moved").st_size == 100
PY
}

@test "times: given to the nanosecond, now, left alone; of links too" {
  begin demo
  py <<'PY'
NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2
def utimens(path, *times, flags=0):
    ts = (ctypes.c_long * 4)(*times)
    return c_err(libc.utimensat(-100, path, ts, flags))
def times(path):
    a, b = os.lstat(path), os.lstat(inside + "/" + path)
    assert (a.st_atime_ns, a.st_mtime_ns, a.st_ctime_ns) == (b.st_atime_ns, b.st_mtime_ns, b.st_ctime_ns)
    return a.st_atime_ns, a.st_mtime_ns
G = 10 ** 9
put("f", b"x"); os.symlink("f", "l")
assert utimens(b"f", 1, 2, 3, 4) is None and times("f") == (G + 2, 3 * G + 4)
assert utimens(b"f", 0, OMIT, 5, 6) is None and times("f") == (G + 2, 5 * G + 6)
assert utimens(b"f", 7, 8, 0, OMIT) is None and times("f") == (7 * G + 8, 5 * G + 6)
ctime = os.stat("f").st_ctime_ns
assert utimens(b"f", 0, OMIT, 0, OMIT) is None and times("f") == (7 * G + 8, 5 * G + 6)
assert os.stat("f").st_ctime_ns == ctime
assert utimens(b"f", 0, OMIT, 0, NOW) is None
assert times("f")[0] == 7 * G + 8 and abs(times("f")[1] - time.time_ns()) < 60 * G
assert utimens(b"f", 0, NOW, 9, 10) is None
assert times("f")[1] == 9 * G + 10 and abs(times("f")[0] - time.time_ns()) < 60 * G
assert utimens(b"l", 11, 12, 13, 14, flags=0x100) is None and times("l") == (11 * G + 12, 13 * G + 14)
assert times("f")[1] == 9 * G + 10
assert utimens(b"f", -5, 3, 1 << 33, 999999999) is None
assert times("f") == (-5 * G + 3, (1 << 33) * G + 999999999)
assert utimens(b"f", 0, G, 0, 0) == "EINVAL"
assert utimens(b"none", 0, 0, 0, 0) == "ENOENT"
assert libc.utimensat(-100, b"f", None, 0) == 0 and abs(times("f")[0] - time.time_ns()) < 60 * G
PY
}

@test "O_DIRECT reads and writes what is there, aligned or not" {
  begin demo
  py <<'PY'
import random
rnd = random.Random(1)
M = 1 << 20
want = bytearray(os.urandom(3 * M + 777))
put("f", want)
d = os.open("f", os.O_RDWR | os.O_DIRECT)
c = os.open("f", os.O_RDWR)
page = mmap.mmap(-1, 4 * M)
view = memoryview(page)
def dread(off, n, skew=0):
    got = os.preadv(d, [view[skew:skew + n]], off)
    return bytes(view[skew:skew + got])
for off, n in (0, 4096), (4096, M), (3 * M, 4096), (1, 1), (511, 3000), (0, 4 * M - 8), (3 * M + 776, 10), (3 * M + 777, 5), (5 * M, 5):
    for skew in 0, 5:
        assert dread(off, n, skew) == want[off:off + n], (off, n, skew)
for _ in range(60):
    off, n = rnd.randrange(3 * M), rnd.choice((1, 77, 512, 4096, 65536, 70001))
    if rnd.random() < .5:
        off = off & ~4095
    data = os.urandom(n)
    how = rnd.randrange(3)
    if how == 0: # direct, seen through the cache and inside
        view[:n] = data
        assert os.pwritev(d, [view[:n]], off) == n
    elif how == 1: # cached, seen directly
        assert os.pwrite(c, data, off) == n
    else: # inside, seen directly
        i = os.open(inside + "/f", os.O_WRONLY); os.pwrite(i, data, off); os.close(i)
    want[off:off + n] = data.ljust(0)
    assert dread(off & ~4095, 8192) == want[off & ~4095:(off & ~4095) + 8192]
    if how < 2:
        assert os.pread(c, n, off) == data
assert get(inside + "/f") == want
a = os.open("f", os.O_WRONLY | os.O_APPEND | os.O_DIRECT)
assert os.write(a, b"tail") == 4
assert get(inside + "/f") == want + b"tail"
n = os.open("new", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
view[:4096] = b"z" * 4096
assert os.pwritev(n, [view[:4096]], 0) == 4096 and get(inside + "/new") == b"z" * 4096
m = mmap.mmap(n, 4096)
assert m[:] == b"z" * 4096
m[0:1] = b"y"; m.flush()
assert get(inside + "/new")[:2] == b"yz"
PY
  dd if="$W/f" of="$W/g" bs=64k iflag=direct oflag=direct status=none
  same "$IN/f" "$IN/g"
}

@test "a file that is appended to can be mapped, and stop or begin to append" {
  begin demo
  py <<'PY'
put("f", b"x" * 5000)
fd = os.open("f", os.O_RDWR | os.O_APPEND)
m = mmap.mmap(fd, 5000)
assert m[:3] == b"xxx"
m[0:3] = b"abc" # stays where it was stored
m.flush()
assert os.pread(fd, 3, 0) == b"abc" and get(inside + "/f") == b"abc" + b"x" * 4997
os.write(fd, b"tail")
other = os.open("f", os.O_RDONLY)
assert os.pread(other, 9999, 4999) == b"xtail" and os.fstat(other).st_size == 5004
assert mmap.mmap(other, 5004, prot=mmap.PROT_READ)[4999:] == b"xtail"
m[0:1] = b"Z"
assert os.pread(other, 2, 0) == b"Zb"
m.close()
flags = fcntl.fcntl(fd, fcntl.F_GETFL)
fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_APPEND)
assert os.pwrite(fd, b"in", 10) == 2
assert get(inside + "/f") == b"Zbc" + b"x" * 7 + b"in" + b"x" * 4988 + b"tail"
plain = os.open("f", os.O_WRONLY)
fcntl.fcntl(plain, fcntl.F_SETFL, os.O_APPEND)
i = os.open(inside + "/f", os.O_WRONLY | os.O_APPEND)
for k in range(20): # what the sandbox appends is not written over
    os.write(i, b"i")
    os.write(plain, b"o")
assert get(inside + "/f")[5004:] == b"io" * 20, get(inside + "/f")[5004:]
w = os.open("f", os.O_WRONLY | os.O_APPEND)
assert os.write(w, b"y" * 3000000) == 3000000 and os.fstat(w).st_size == 3005044
PY
}

@test "statfs is the container's, in workspace and rootfs" {
  template small '{"image": "busybox:test", "tmpfs": ["/workspace:size=3m"]}'
  begin small@demo
  py "$MNT/.sandboxfs/rootfs/small@demo" "$ROOT" <<'PY'
for mine, real in ((".", inside), (sys.argv[2], sys.argv[3]), (sys.argv[2] + "/etc", sys.argv[3] + "/etc")):
    a, b = os.statvfs(mine), os.statvfs(real)
    for k in "f_bsize", "f_frsize", "f_blocks", "f_files", "f_namemax":
        assert getattr(a, k) == getattr(b, k), (mine, k, a, b)
a = os.statvfs(".")
assert a.f_blocks * a.f_frsize == 3 << 20
free = a.f_bfree
put("x", b"x" * (1 << 20))
assert (free - os.statvfs(".").f_bfree) * a.f_frsize == 1 << 20
PY
}

@test "fsync and fsyncdir are the agent's answer" {
  begin demo
  py <<'PY'
fd = os.open("f", os.O_RDWR | os.O_CREAT)
os.write(fd, b"x")
os.fsync(fd); os.fdatasync(fd)
r = os.open("f", os.O_RDONLY)
os.fsync(r)
d = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
os.listdir(d)
os.fsync(d); os.fdatasync(d)
os.unlink("f")
os.fsync(fd)
PY
  # Not answered by somebody else: without the sandbox neither ends.
  exec 7<"$W" 8>"$W/g"
  box_pause demo
  fails timeout -s KILL 3 python3 -c 'import os; os.fsync(7)'
  fails timeout -s KILL 3 python3 -c 'import os; os.fsync(8)'
  box_unpause demo
  timeout 60 python3 -c 'import os; os.fsync(7); os.fsync(8)'
  exec 7<&- 8>&-
}

# strace_has PATTERN: in what the agent was seen to do
strace_has() {
  grep -qE "$1" "$BATS_TEST_TMPDIR/strace"
}

# To look at somebody else's process is root's.
# bats test_tags=not:bwrap-user
@test "the fsync of a directory, and of a file, is one in the container" {
  local tracer
  begin demo
  mkdir -p "$W/some/dir"
  : >"$W/some/file"
  strace -f -y -e trace=fsync,fdatasync -o "$BATS_TEST_TMPDIR/strace" -p "$(box_pid demo)" </dev/null >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
  tracer=$!
  wait_for 60 grep -q attached "$BATS_TEST_TMPDIR/said"
  sync "$W/some/dir"
  wait_for 60 strace_has '^[0-9]+ +fsync\([0-9]+</workspace/some/dir>\) += 0'
  run ! strace_has 'some/file'
  sync "$W/some/file"
  wait_for 60 strace_has '^[0-9]+ +fsync\([0-9]+</workspace/some/file>\) += 0'
  sync -d "$W/some/dir"
  wait_for 60 strace_has '^[0-9]+ +fdatasync\([0-9]+</workspace/some/dir>\) += 0'
  kill -INT $tracer
  wait $tracer || true
}

# In a directory that others can walk through: a user who is not root is to use the mount.
shared_dir() {
  chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
  SBX_AT=$(mktemp -d "$BATS_TEST_TMPDIR/mnt.XXXX")
  chmod 755 "$SBX_AT"
}

# as UID: sets AS, words that run a command as that user.
as() {
  AS=(setpriv --reuid "$1" --regid "$1" --clear-groups)
}

# bats test_tags=only:bwrap-user
@test "allow_other of an ordinary user: no mount where the machine does not allow it, and words" {
  fails "$SANDBOXFS" -f -o "$(engine_options),allow_other" "$BATS_TEST_TMPDIR"
  has "$FAIL_WORDS" "'user_allow_other' is set in /etc/fuse.conf"
}

# bats test_tags=only:bwrap-user
@test "an ordinary user's mount: what is the sandbox user's is theirs, other ids are those inside" {
  begin user@u
  py <<'PY'
me = os.getuid(), os.getgid()
def ids(p):
    s = os.stat(p)
    return s.st_uid, s.st_gid
put("f", b"x"); put(inside + "/r", b"x")
assert ids(".") == ids("f") == me and ids(inside + "/f") == (1000, 1000)
assert ids("r") == ids(inside + "/r") == (0, 0)
assert {e.name: e.stat().st_uid for e in os.scandir(".")} == {"f": me[0], "r": 0}
os.chown("f", *me)
assert ids(inside + "/f") == (1000, 1000)
assert err(os.chown, "r", *me) == "EPERM"
PY
  begin demo
  py <<'PY'
me = os.getuid(), os.getgid()
def ids(p):
    s = os.stat(p)
    return s.st_uid, s.st_gid
put("f", b"x")
assert ids("f") == me and ids(inside + "/f") == (0, 0)
os.chown("f", 1000, 2000)
assert ids("f") == ids(inside + "/f") == (1000, 2000)
os.chown("f", me[0], -1)
assert ids("f") == (me[0], 2000) and ids(inside + "/f") == (0, 2000)
PY
}

@test "uid=, gid= and umask= show everything as one user's" {
  umount_sbx
  mount_sbx "templates=$TEMPLATES" uid=4242,gid=4343,umask=027
  begin user@u
  is "$(stat -c %u:%g "$MNT" "$MNT/README" "$MNT/user@u" "$MNT/user@u/ctl" "$MNT/user@u/ctl/state" "$W" |
    sort -u)" 4242:4343
  is "$(stat -c %a "$MNT/user@u" "$W" | tr '\n' ' ')" "700 750 "
  py <<'PY'
put("f", b"x")
i = os.stat(inside + "/f")
assert (i.st_uid, i.st_gid) == (1000, 1000)
os.mkdir(inside + "/d"); os.chmod(inside + "/d", 0o1777); os.symlink("f", inside + "/l")
def shown(p):
    s = os.lstat(p)
    return s.st_uid, s.st_gid, stat.filemode(s.st_mode)
assert shown("f") == (4242, 4343, "-rwxr-x---"), shown("f")
assert shown("d") == (4242, 4343, "drwxr-x---") and shown("l")[:2] == (4242, 4343)
assert {(e.stat().st_uid, e.stat().st_gid) for e in os.scandir(".")} == {(4242, 4343)}
# A chmod is real, though not shown.
os.chmod("f", 0o604)
assert stat.S_IMODE(os.stat(inside + "/f").st_mode) == 0o604 and shown("f")[2] == "-rwxr-x---"
# A chown to what is shown is one; to another it is refused. Neither changes anything inside.
os.chown("f", 4242, 4343); os.chown("f", 4242, -1); os.chown("f", -1, 4343)
os.chown("l", 4242, 4343, follow_symlinks=False)
for uid, gid in (0, -1), (-1, 0), (1000, 1000), (4242, 1), (1, 4343):
    assert err(os.chown, "f", uid, gid) == "EPERM", (uid, gid)
i = os.stat(inside + "/f")
assert (i.st_uid, i.st_gid) == (1000, 1000)
# The rights are the sandbox user's, whoever is shown.
put(inside + "/secret", b"x"); os.chmod(inside + "/secret", 0o600)
assert err(open, "secret", "rb") == "EACCES" and not os.access("secret", os.R_OK)
PY
}

# bats test_tags=not:bwrap-user
@test "uid= with allow_other: that user works as the sandbox's, others stay out" {
  umount_sbx
  shared_dir
  mount_sbx "templates=$TEMPLATES" allow_other,uid=4242,gid=4242,umask=077
  begin user@u
  as 4242
  "${AS[@]}" bash -c "echo mine > '$W/f' && mkdir '$W/d' && chown 4242:4242 '$W/f' && chmod 600 '$W/f'"
  is "$(box_exec user@u stat -c %u:%g /workspace/f /workspace/d | sort -u)" 1000:1000
  is "$("${AS[@]}" cat "$W/f")" mine
  "${AS[@]}" bash -c "echo 'id -u > who' > '$MNT/user@u/ctl/exec'"
  is "$("${AS[@]}" cat "$W/who")" 1000
  "${AS[@]}" ls "$MNT/.sandboxfs/rootfs/user@u" >/dev/null
  # What only who mounted may do stays theirs: templates are root's word, events hold all users' commands.
  local dot=$MNT/.sandboxfs f
  echo '{}' >"$dot/templates/draft"
  for f in templates templates/user.json templates/draft events; do
    is "$(stat -c %u:%g "$dot/$f")" 0:0
  done
  for f in new.json user.json draft; do
    fails_with "Permission denied" "${AS[@]}" bash -c "echo '{}' > '$dot/templates/$f'"
  done
  "${AS[@]}" bash -c "echo '{}' > '$dot/mine'"
  fails_with "Permission denied" "${AS[@]}" mv "$dot/mine" "$dot/templates/user.json"
  fails_with "Permission denied" "${AS[@]}" rm -f "$dot/templates/user.json"
  fails_with "Permission denied" "${AS[@]}" cat "$dot/events"
  has "$(cat "$dot/events")" '"exec-start"'
  as 5555
  fails_with "Permission denied" "${AS[@]}" cat "$W/f"
  fails_with "Permission denied" "${AS[@]}" ls "$MNT/.sandboxfs/rootfs/user@u"
}

@test "uid=, gid= and umask= that are no numbers are refused" {
  local bad
  for bad in uid=bob uid= uid=-1 uid=4294967295 gid=12x gid=99999999999999999999 umask=8 umask=1000 umask=0x7; do
    fails "$SANDBOXFS" -f -o "$(engine_options),$bad" "$BATS_TEST_TMPDIR"
    has "$FAIL_WORDS" "${bad%%=*}="
    has "$FAIL_WORDS" number
  done
}

# resident FILE BYTES: so many are kept after it was read.
resident() {
  cat "$1" >/dev/null
  is "$(fincore --bytes --raw --noheadings --output RES "$1")" "$2"
}

@test "what the kernel has been told it does not ask for again: names, absent names, attributes, bytes" {
  begin demo
  out demo 'head -c 100000 /dev/zero >f; mkdir d; echo in >d/in'
  py "$(box_pid demo)" <<'PY'
import signal
agent = int(sys.argv[2])
top = os.open(".", os.O_RDONLY)
fd = os.open("f", os.O_RDONLY)
def look():
    return (os.stat("f", dir_fd=top).st_size, err(os.stat, "none", dir_fd=top),
            os.stat("d/in", dir_fd=top).st_size, len(os.pread(fd, 1 << 20, 0)))
def look_alone():
    os.kill(agent, signal.SIGSTOP) # nobody is there to answer
    child = os.fork()
    if child == 0:
        signal.alarm(1) # who has to ask ends by this
        os._exit(look() != (100000, "ENOENT", 3, 100000))
    status = os.waitpid(child, 0)[1]
    os.kill(agent, signal.SIGCONT)
    return status == 0
for k in range(30):
    look() # what was just made may still be told of
    if look_alone():
        break
else:
    sys.exit("it asks every time")
for k in range(5): # another test may have the kernel drop all meanwhile
    look()
    time.sleep(3)
    if look_alone():
        break
else:
    sys.exit("it asks again after 3 s")
PY
  # A name that was absent is there, all the same, when a command has made it.
  out demo 'echo now >none'
  is "$(cat "$W/none")" now
  # Bytes stay over a close and an open; but those of a file that the sandbox wrote, which may be mapped there, do not.
  head -c 100000 /dev/zero >"$W/ours"
  wait_for 90 resident "$W/ours" 102400 # another test may have the kernel drop all
  resident "$W/f" 0
}

@test "what a directory was read with is not asked for again" {
  begin demo
  py "$(box_pid demo)" <<'PY'
import signal
agent = int(sys.argv[2])
names = ["f%d" % k for k in range(100)]
def look_alone(dir):
    os.kill(agent, signal.SIGSTOP) # nobody is there to answer
    child = os.fork()
    if child == 0:
        signal.alarm(1) # who has to ask ends by this
        os._exit([os.stat(dir + "/" + n).st_size for n in names] != list(range(100)))
    status = os.waitpid(child, 0)[1]
    os.kill(agent, signal.SIGCONT)
    return status == 0
for k in range(30): # another test may have the kernel drop all
    dir = "d%d" % k
    os.mkdir(inside + "/" + dir)
    for n in names:
        put(inside + "/" + dir + "/" + n, b"x" * int(n[1:]))
    # Never looked at before but in this way; the changes inside have been told by now, or the next will do.
    if sorted(os.listdir(dir)) == sorted(names) and look_alone(dir):
        break
else:
    sys.exit("it asks every time")
PY
}

@test "a file that is gone is not taken for the one that has its inode number now" {
  begin demo
  py <<'PY'
again = None
for turn in range(50): # a file system gives a number to the next who asks; that may be somebody else
    put(f"old{turn}", b"old bytes")
    fd = os.open(f"old{turn}", os.O_PATH)
    ino = os.stat(f"{inside}/old{turn}").st_ino
    os.unlink(f"{inside}/old{turn}")
    for k in range(20):
        name = f"new{turn}-{k}"
        put(f"{inside}/{name}", b"another's")
        if os.stat(f"{inside}/{name}").st_ino == ino:
            again = name
            break
    if again:
        break
    os.close(fd)
assert again, "this file system does not use a number again"
os.chmod(f"{inside}/{again}", 0o600)
assert os.stat(again).st_mode & 0o777 == 0o600 and get(again) == b"another's"
try:
    st = os.fstat(fd)
    assert st.st_nlink == 0, st
except OSError as e:
    assert e.errno in (errno.ESTALE, errno.ENOENT), e
assert err(os.open, f"/proc/self/fd/{fd}", os.O_RDONLY) in ("ESTALE", "ENOENT")
PY
}
