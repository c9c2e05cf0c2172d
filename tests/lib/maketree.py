#!/usr/bin/env python3
"""Makes a tree that has one of everything that a copy can lose.

  maketree.py DIR [all]    all: also what tar does not carry (a socket, FIFOs as links) or what a mount with
                           symlinks=contain shows in another way (links with absolute texts)
"""
import os
import random
import socket
import struct
import sys

rng = random.Random(3)


def write(name, size, mode=0o644):
    with open(name, "wb") as f:
        f.write(rng.randbytes(size))
    os.chmod(name, mode)


def acl(*entries):
    """The kernel's form of an ACL: (tag, rights, id); ids of owner, group, mask, others are -1."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", t, p, i & 0xffffffff) for t, p, i in entries)


def sparse(name, size, islands):
    with open(name, "wb") as f:
        f.truncate(size)
        for at, length in islands:
            f.seek(at)
            f.write(rng.randbytes(length))


top = sys.argv[1]
everything = sys.argv[2:] == ["all"]
os.makedirs(top)
os.chdir(top)
os.umask(0o022)

for d in range(12):
    os.makedirs(f"d{d % 3}/sub{d}/deep", exist_ok=True)
    for i in range(12):
        write(f"d{d % 3}/sub{d}/f{i}", rng.choice((0, 1, 100, 4095, 4096, 4097, 30000)))
write("large", 3 << 20)

os.mkdir("modes")
for mode in (0o000, 0o400, 0o200, 0o111, 0o755, 0o777, 0o4755, 0o2755, 0o1644, 0o6711):
    write(f"modes/{mode:04o}", 10)
    os.mkdir(f"modes/d{mode:04o}")
    os.chmod(f"modes/d{mode:04o}", mode)
os.mkdir("owners")
for n, (uid, gid) in enumerate(((0, 0), (1000, 2000), (12345, 54321), (0, 7), (65534, 65534))):
    write(f"owners/{n}", 5)
    os.mkdir(f"owners/d{n}")
    os.symlink(str(n), f"owners/l{n}")
    for name in (f"owners/{n}", f"owners/d{n}", f"owners/l{n}"):
        os.chown(name, uid, gid, follow_symlinks=False)

os.mkdir("names")
for name in (b"with space", b"new\nline", b"tab\t", b"\xff\xfe not UTF-8", "größe".encode(), b"-rf", b"*", b"quote'\"",
             b"back\\slash", b"n" * 255, b".hidden", b"trailing ", b"%s%n"):
    write(b"names/" + name, 3)

os.mkdir("links")
os.mkdir("links/other")
write("links/a", 1000)
os.link("links/a", "links/b")
os.link("links/a", "links/other/c")
write("links/x", 1000)
os.link("links/x", "d0/x")
os.symlink("a", "links/sym")
os.symlink("../../d0/sub0/f1", "links/other/up")
os.symlink("no/such/target", "links/dangling")
os.symlink("other", "links/dir")
os.symlink("t" * 250, "links/long")
os.link("links/dangling", "links/dangling2", follow_symlinks=False)

os.mkdir("fifos")
os.mkfifo("fifos/one", 0o600)
os.chmod("fifos/one", 0o622)
os.mkfifo("fifos/two", 0o644)

os.mkdir("xattrs")
for name in ("xattrs/f", "xattrs/g", "xattrs"):
    if name != "xattrs":
        write(name, 20)
    os.setxattr(name, "user.text", b"value of " + name.encode())
    os.setxattr(name, "user.binary", bytes(range(256)))
    os.setxattr(name, "user.empty", b"")
os.setxattr("xattrs/g", "user.large", rng.randbytes(1500))

os.mkdir("acls")
write("acls/f", 20, 0o640)
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
access = acl((USER_OBJ, 6, -1), (USER, 4, 1000), (GROUP_OBJ, 4, -1), (GROUP, 6, 2000), (MASK, 6, -1), (OTHER, 0, -1))
os.setxattr("acls/f", "system.posix_acl_access", access)
os.mkdir("acls/d")
os.setxattr("acls/d", "system.posix_acl_access", access)
os.setxattr("acls/d", "system.posix_acl_default", access)
write("acls/d/inherits", 20)

os.mkdir("sparse")
M = 1 << 20
sparse("sparse/all-hole", 10 * M, [])
sparse("sparse/islands", 16 * M, [(2 * M, 256 << 10), (8 * M, M)])
sparse("sparse/head-and-tail", 12 * M, [(0, 64 << 10), (12 * M - (64 << 10), 64 << 10)])
sparse("sparse/ends-in-hole", 5 * M, [(0, 128 << 10)])

if everything:
    os.mkdir("absolute")
    os.symlink("/etc/passwd", "absolute/file")
    os.symlink("/", "absolute/root")
    os.symlink("/no/such", "absolute/dangling")
    os.symlink("../../../../../../etc/passwd", "absolute/climbs")
    os.link("fifos/one", "fifos/same")
    s = socket.socket(socket.AF_UNIX)
    s.bind("fifos/socket")
    s.close()

# Times last, children before parents: each its own, some before 1970, some far ahead.
entries = [os.path.join(p, n) for p, ds, fs in os.walk(".", topdown=False) for n in ds + fs] + ["."]
for n, name in enumerate(entries):
    seconds = rng.choice((-100000, 0, 981173106, 1700000000, 4000000000)) + n
    os.utime(name, ns=(seconds * 10**9, seconds * 10**9 + rng.randrange(10**9)), follow_symlinks=False)
