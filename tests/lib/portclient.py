"""Clients of a forwarded port: portclient.py WHAT HOST:PORT ARGS... Each prints what it got, or dies with why."""

import hashlib
import socket
import struct
import sys
import threading


def connect(at):
    host, port = at.rsplit(":", 1)
    s = socket.create_connection((host, int(port)), timeout=120)
    return s


def get(s, path):
    """The body of an HTTP answer."""
    s.sendall(f"GET /{path} HTTP/1.0\r\n\r\n".encode())
    answer = b""
    while chunk := s.recv(1 << 16):
        answer += chunk
    head, body = answer.split(b"\r\n\r\n", 1)
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise ValueError(f"{path}: {head!r}")
    return body


def many(at, n):
    """n requests at once, for the files 0 .. n-1: each must contain its own name, many times."""
    good, gate = set(), threading.Barrier(int(n))

    def one(k):
        with connect(at) as s:
            gate.wait(120)  # all are connected before any asks
            if get(s, str(k)) == (f"{k}\n" * 1000).encode():
                good.add(k)

    threads = [threading.Thread(target=one, args=(k,)) for k in range(int(n))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    missing = sorted(set(range(int(n))) - good)
    print("all" if not missing else f"missing: {missing}")


def upload(at, size):
    """Sends, says that this is all, and then reads: the answer and our own hash of what was sent."""
    block = hashlib.sha256(b"seed").digest() * 2048
    left, mine, answer = int(size), hashlib.sha256(), b""
    with connect(at) as s:
        while left:
            part = block[: min(left, len(block))]
            s.sendall(part)
            mine.update(part)
            left -= len(part)
        s.shutdown(socket.SHUT_WR)
        while chunk := s.recv(1 << 16):
            answer += chunk
    print(answer.split()[0].decode(), mine.hexdigest())


def ended(at):
    """How a connection ends of which nobody wants anything: eof, reset, refused."""
    try:
        with connect(at) as s:
            print("eof" if s.recv(1) == b"" else "data")
    except ConnectionResetError:
        print("reset")
    except ConnectionRefusedError:
        print("refused")


def hold(at, path):
    """Asks for a large file and reads nothing, until a line comes on stdin; then says how it ended."""
    with connect(at) as s:
        s.sendall(f"GET /{path} HTTP/1.0\r\n\r\n".encode())
        s.recv(1)
        print("holding", flush=True)
        sys.stdin.readline()
        try:
            while s.recv(1 << 20):
                pass
            print("eof", flush=True)
        except ConnectionResetError:
            print("reset", flush=True)


def abort(at):
    """Sends a line and resets the connection."""
    s = connect(at)
    s.sendall(b"half a line")
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


globals()[sys.argv[1]](*sys.argv[2:])
