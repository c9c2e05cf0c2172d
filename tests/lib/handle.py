#!/usr/bin/env python3
"""handle.py FILE...: the (node, generation) pair by which the host's kernel knows each, a line a file."""
import ctypes
import os
import struct
import sys

AT_FDCWD = -100


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_uint8 * 128)]


libc = ctypes.CDLL(None, use_errno=True)
for path in sys.argv[1:]:
    h, mount = Handle(bytes=128), ctypes.c_int()
    if libc.name_to_handle_at(AT_FDCWD, os.fsencode(path), ctypes.byref(h), ctypes.byref(mount), 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    high, low, generation = struct.unpack("=III", bytes(h.data)[:12])
    print(f"{high << 32 | low:x}", generation)
