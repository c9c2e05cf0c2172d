#!/usr/bin/env python3
"""Fills a directory's file system, and keeps account of what was said to have been stored.

  fulldisk.py bytes DIR     prints `sha256  name` of each file that open, write, fsync and close all said yes to
  fulldisk.py inodes DIR    the same, with small files

Fails if an error is not ENOSPC, if no error comes, or if anything that was stored before is not as it was.
"""
import errno
import hashlib
import os
import random
import sys

rng = random.Random(5)
stored = {}  # name -> its bytes
LIMIT = 64 << 20  # more than any test's disk: if that is stored without an error, there is no limit


def store(name, data, flags=os.O_EXCL, chunk=65536, sync=True):
    """True if every call succeeded, False at ENOSPC."""
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    except OSError as e:
        return no_space(e)
    try:
        try:
            at = 0
            while at < len(data):
                at += os.write(fd, data[at:at + chunk])
            if sync:
                os.fsync(fd)
        except OSError as e:
            os.close(fd)
            return no_space(e)
        os.close(fd)
    except OSError as e:
        return no_space(e)
    return True


def no_space(e):
    assert e.errno == errno.ENOSPC, f"not ENOSPC but {e}"
    return False


def expect_full(what, call):
    try:
        call()
    except OSError as e:
        no_space(e)
    else:
        raise AssertionError(f"{what} succeeded on a full disk")


def fill(sizes):
    """Stores files of these sizes in turn until twenty fail one after the other. Returns those that failed."""
    failed, in_a_row, n = {}, 0, 0
    while in_a_row < 20:
        name = f"f{n}"
        data = rng.randbytes(rng.randrange(*sizes) if in_a_row < 10 else 1)
        if store(name, data, chunk=rng.choice((1000, 4096, 65536, 1 << 20)), sync=n % 3 != 0):
            stored[name] = data
            in_a_row = 0
        else:
            failed[name] = data
            in_a_row += 1
        n += 1
        assert sum(map(len, stored.values())) < LIMIT, "there is no end of space"
    assert stored, "not one file could be stored"
    return failed


def intact():
    for name, data in stored.items():
        with open(name, "rb") as f:
            got = f.read()
        assert got == data, f"{name} said to be stored with {len(data)} bytes has {len(got)}, or others"
        assert os.stat(name).st_size == len(data), f"the size of {name}"


def full_of_bytes():
    failed = fill((1, 300000))
    intact()
    for name, data in failed.items():  # not there, or cut off
        if os.path.exists(name):
            with open(name, "rb") as f:
                assert data.startswith(f.read()), f"{name} has bytes that nobody wrote"
    # What is there is not harmed by those who try to add to it.
    name = max(stored, key=lambda n: len(stored[n]))
    assert not store(name, rng.randbytes(1 << 20), os.O_APPEND)
    with open(name, "rb") as f:
        assert f.read(len(stored[name])) == stored[name], "an append that failed changed what was there"
    os.truncate(name, len(stored[name]))
    intact()
    # Bytes that are there already can be written over.
    with open(name, "r+b", buffering=0) as f:
        stored[name] = rng.randbytes(len(stored[name]))
        assert f.write(stored[name]) == len(stored[name])
        os.fsync(f.fileno())
    intact()
    with open("more", "wb") as f:
        expect_full("posix_fallocate", lambda: os.posix_fallocate(f.fileno(), 0, LIMIT))
    os.unlink("more")
    # Room for one is room for one.
    for gone in failed:
        if os.path.exists(gone):
            os.unlink(gone)
    small = sorted((n for n in stored if len(stored[n]) > 8192), key=lambda n: len(stored[n]))[0]
    data = rng.randbytes(len(stored.pop(small)))
    os.unlink(small)
    assert store("again", data), "no room for a file as long as the one that was removed"
    stored["again"] = data
    intact()


def full_of_inodes():
    failed = fill((1, 100))
    intact()
    assert sorted(os.listdir(".")) == sorted(stored), "names that could not be made are listed, or the reverse"
    for name in failed:
        assert not os.path.lexists(name), f"{name} could not be made and is there"
    expect_full("mkdir", lambda: os.mkdir("d"))
    expect_full("symlink", lambda: os.symlink("x", "l"))
    expect_full("mkfifo", lambda: os.mkfifo("p"))
    assert sorted(os.listdir(".")) == sorted(stored)
    # Files that are there can grow.
    name = next(iter(stored))
    more = rng.randbytes(100000)
    assert store(name, more, os.O_APPEND), "a file that is there could not grow"
    stored[name] += more
    os.rename(name, "renamed")
    stored["renamed"] = stored.pop(name)
    name = next(iter(stored))
    del stored[name]
    os.unlink(name)
    assert store("again", b"again"), "no room for a file after one was removed"
    stored["again"] = b"again"
    assert not store("and more", b"x")
    intact()
    assert sorted(os.listdir(".")) == sorted(stored)


os.chdir(sys.argv[2])
{"bytes": full_of_bytes, "inodes": full_of_inodes}[sys.argv[1]]()
for name, data in stored.items():
    print(f"{hashlib.sha256(data).hexdigest()}  {name}")
