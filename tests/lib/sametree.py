#!/usr/bin/env python3
"""Are two trees the same? Prints the differences; exits 1 if there are any.

  sametree.py A B        each a directory, or a file that --list has written
  sametree.py --list DIR prints what DIR is, a JSON line an entry

Compared: names, types, modes, owners, mtimes to the nanosecond, sizes, bytes, link counts, which names are
one file, texts of symlinks, extended attributes user.*, ACLs, and where the holes are. A list made inside of a
sandbox can so be compared with a tree outside.
"""
import errno
import hashlib
import json
import os
import stat
import sys

TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
         stat.S_IFSOCK: "socket", stat.S_IFCHR: "character device", stat.S_IFBLK: "block device"}
ACLS = ("system.posix_acl_access", "system.posix_acl_default")
NONE = (errno.ENODATA, errno.EOPNOTSUPP)
SLACK = 32  # KiB: a file system may need a block for attributes or a map of extents


def walk(top):
    yield "."
    for parent, dirs, files in os.walk(top):
        for name in dirs + files:
            yield os.path.relpath(os.path.join(parent, name), top)


def attributes(path, type_):
    found = {}
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError as e:
        if e.errno not in NONE:
            raise
        names = []
    if type_ != "symlink":
        names = set(names) | set(ACLS)
    for name in names:
        if name.startswith("user.") or name in ACLS:
            try:
                found[name] = os.getxattr(path, name, follow_symlinks=False).hex()
            except OSError as e:
                if e.errno not in NONE:
                    raise
    return found


def data_map(fd, size):
    """The stretches that are no hole: [[start, end], ...]"""
    found, at = [], 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as e:
            if e.errno == errno.ENXIO:
                break
            raise
        at = os.lseek(fd, start, os.SEEK_HOLE)
        found.append([start, at])
    os.lseek(fd, 0, os.SEEK_SET)
    return found


def entry(path):
    st = os.lstat(path)
    type_ = TYPES[stat.S_IFMT(st.st_mode)]
    e = {"type": type_, "mode": oct(stat.S_IMODE(st.st_mode)), "owner": [st.st_uid, st.st_gid],
         "mtime": st.st_mtime_ns, "xattrs": attributes(path, type_)}
    if type_ != "directory":
        e["size"] = st.st_size
        e["nlink"] = st.st_nlink
    if type_ == "symlink":
        e["text"] = os.readlink(path)
    if type_ == "file":
        fd = os.open(path, os.O_RDONLY)
        try:
            e["data"] = data_map(fd, st.st_size)
            digest = hashlib.sha256()
            while chunk := os.read(fd, 1 << 20):
                digest.update(chunk)
            e["sha256"] = digest.hexdigest()
        finally:
            os.close(fd)
        e["allocated"] = st.st_blocks // 2
    return e, (st.st_dev, st.st_ino)


def load(source):
    """{name: entry} of a directory or of a list."""
    if not os.path.isdir(source):
        with open(source) as f:
            return {name: e for name, e in map(json.loads, f)}
    tree, groups = {}, {}
    for name in sorted(walk(source)):
        tree[name], identity = entry(os.path.join(source, name))
        if tree[name]["type"] != "directory":
            tree[name]["same file as"] = groups.setdefault(identity, name)
    return tree


def differences(a, b):
    for name in sorted(a.keys() | b.keys()):
        if name not in a or name not in b:
            yield f"{name!r}: only in {'B' if name not in a else 'A'}"
            continue
        for field in sorted(a[name].keys() | b[name].keys()):
            x, y = a[name].get(field), b[name].get(field)
            if x != y and not (field == "allocated" and None not in (x, y) and abs(x - y) <= SLACK):
                yield f"{name!r}: {field}: {x} != {y}"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--list":
        for item in load(sys.argv[2]).items():
            print(json.dumps(item))
        return 0
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(differences(load(sys.argv[1]), load(sys.argv[2])))
    for line in found[:100]:
        print(line if len(line) < 400 else line[:400] + "...")
    if found:
        print(f"{len(found)} differences between A {sys.argv[1]} and B {sys.argv[2]}")
    return 1 if found else 0


sys.exit(main())
