# A sandbox's files as the host sees them, below /proc/PID/root, with the ids and the rights that its root has. The
# embedded engine's sandboxes are in a user namespace: there a process of its own enters that and does what is asked.
#
# enter(inside) changes the functions of os below for paths that begin so, where such a namespace is.
import array, ctypes, os, pickle, socket

NAMES = ("open", "mkdir", "symlink", "chown", "chmod", "stat", "lstat", "getxattr", "setxattr", "listxattr")
CLONE_NEWUSER = 0x10000000


def serve(s, real, namespace):
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWUSER) < 0:
        os._exit(1)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    while True:
        request = s.recv(1 << 20)
        if not request:
            os._exit(0)
        name, a, k = pickle.loads(request)
        fds = []
        try:
            answer = real[name](*a, **k)
            if name == "open":
                fds = [answer]
        except OSError as e:
            answer = e
        s.sendmsg([pickle.dumps(answer)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        for fd in fds:
            os.close(fd)


def enter(inside):
    namespace = os.open("/".join(inside.split("/")[:3]) + "/ns/user", os.O_RDONLY)
    if os.readlink("/proc/self/ns/user") == os.readlink("/proc/self/fd/%d" % namespace):
        return
    real = {name: getattr(os, name) for name in NAMES}
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        serve(theirs, real, namespace)
    theirs.close()

    def ask(name, a, k):
        ours.sendall(pickle.dumps((name, a, k)))
        data, fds, _, _ = socket.recv_fds(ours, 1 << 20, 1)
        answer = pickle.loads(data)
        if isinstance(answer, OSError):
            raise answer
        return fds[0] if fds else answer

    def wrapped(name):
        at = 1 if name == "symlink" else 0

        def f(*a, **k):
            there = isinstance(a[at], str) and a[at].startswith(inside)
            return ask(name, a, k) if there else real[name](*a, **k)

        return f

    for name in NAMES:
        setattr(os, name, wrapped(name))
