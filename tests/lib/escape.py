#!/usr/bin/env python3
"""Run inside a sandbox as its root: tries to get out. usage: escape.py FACTS.json

Each function is one way. It prints `held NAME`, or `ESCAPED NAME: how`; an exception from the kernel is a way that is
shut. What is to be found outside was put there by tests/escape.bats, which also looks whether anything changed there.
"""
import ctypes
import errno
import fcntl
import glob
import json
import mmap
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios

libc = ctypes.CDLL(None, use_errno=True)
WAYS = []
with open(sys.argv[1], encoding="utf-8") as facts:
    HOST = json.load(facts)
X86 = os.uname().machine == "x86_64"
NR = dict(add_key=248, request_key=249, keyctl=250, ptrace=101, syslog=103, mount=165, umount2=166, swapon=167,
          reboot=169, settimeofday=164, init_module=175, kexec_load=246, unshare=272, setns=308, bpf=321,
          perf_event_open=298, open_by_handle_at=304, name_to_handle_at=303, pivot_root=155, iopl=172,
          finit_module=313, open_tree=428, fsopen=430, io_uring_setup=425, userfaultfd=323, process_vm_readv=310)
if not X86:
    NR = dict(add_key=217, request_key=218, keyctl=219, ptrace=117, syslog=116, mount=40, umount2=39, swapon=224,
              reboot=142, settimeofday=170, init_module=105, kexec_load=104, unshare=97, setns=268, bpf=280,
              perf_event_open=241, open_by_handle_at=265, name_to_handle_at=264, pivot_root=41,
              finit_module=273, open_tree=428, fsopen=430, io_uring_setup=425, userfaultfd=282, process_vm_readv=270)


class Escaped(Exception):
    pass


def way(f):
    WAYS.append(f)
    return f


def call(name, *args):
    """A system call; what it returns, or OSError."""
    r = libc.syscall(NR[name], *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, f"{name}: {os.strerror(e)}")
    return r


def must_fail(what, f, *args, **more):
    """True if it failed, as it must."""
    try:
        r = f(*args, **more)
    except (OSError, subprocess.CalledProcessError):
        return
    raise Escaped(f"{what} gave {r!r}")


def read(path, n=1 << 20):
    with open(path, "rb") as f:
        return f.read(n)


def write(path, data):
    fd = os.open(path, os.O_WRONLY)
    try:
        return os.write(fd, data)
    finally:
        os.close(fd)


def processes():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def read_of(pid, name):
    """A file of a process; of one that has ended meanwhile nothing."""
    try:
        return read(f"/proc/{pid}/{name}")
    except (FileNotFoundError, ProcessLookupError):
        return b""


# --- files -----------------------------------------------------------------------------------------------------------


@way
def the_host_system_cannot_be_written():
    for d in ("/usr", "/usr/bin", "/usr/lib", "/usr/local"):
        must_fail(f"a file in {d}", os.mknod, f"{d}/escaped")
        must_fail(f"removing in {d}", os.rename, d + "/" + os.listdir(d)[0], d + "/escaped")
    for f in ("/usr/bin/env", "/.sandboxfs/bin/agent"):
        must_fail(f"opening {f}", os.open, f, os.O_WRONLY)
        must_fail(f"chmod of {f}", os.chmod, f, 0o777)
    must_fail("remounting", call, "mount", b"none", b"/usr", None, 0x1020, None)
    must_fail("remounting", subprocess.check_call, ["sh", "-c", "mount -o remount,rw,bind /usr 2>/dev/null"])


@way
def secrets_are_not_there():
    for path in HOST["files"] + ["/etc/shadow", "/etc/gshadow", "/etc/ssh", "/root/.ssh", "/var/run/docker.sock",
                                 "/run/docker.sock", "/run/dbus", "/var/spool", "/boot", "/lost+found"]:
        for p in (path, "/proc/1/root" + path, "/proc/self/cwd/../../.." + path):
            if os.path.lexists(p):
                raise Escaped(f"{p} is there")
    if os.listdir("/home") or set(os.listdir("/run")) - {"mount"}:  # that mount(8) makes
        raise Escaped(f"in /home is {os.listdir('/home')}, in /run {os.listdir('/run')}")


@way
def no_file_has_a_canary():
    mine = os.stat("/").st_dev
    seen = 0
    for top, dirs, files in os.walk("/"):
        dirs[:] = [d for d in dirs if os.path.join(top, d) not in ("/proc", "/usr", "/workspace", "/sys")]
        for name in files:
            path = os.path.join(top, name)
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            seen += 1
            try:
                if HOST["canary"].encode() in read(path):
                    raise Escaped(f"the canary is in {path}")
            except OSError:
                pass
    if seen < 5 or not mine:
        raise Escaped("nothing was looked at")


@way
def files_cannot_be_opened_by_number():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount_id = ctypes.c_int()
    for path in (b"/", b"/usr", b"/.sandboxfs/state"):
        handle[0:4] = struct.pack("I", 128)
        try:
            call("name_to_handle_at", -100, path, handle, ctypes.byref(mount_id), 0)
        except OSError:
            continue
        fd = os.open(path, os.O_RDONLY)
        # The root of an ext4 is inode 2: the well-known way out of a container.
        for raw in (bytes(handle), struct.pack("IiII", 8, 1, 2, 0)):
            must_fail(f"a handle by {path}", call, "open_by_handle_at", fd, raw, os.O_RDONLY)
        os.close(fd)


@way
def links_of_proc_lead_nowhere_else():
    for pid in processes():
        for link in [f"/proc/{pid}/root", f"/proc/{pid}/cwd"] + glob.glob(f"/proc/{pid}/fd/*"):
            try:
                st = os.stat(link)
            except OSError:
                continue
            if stat.S_ISDIR(st.st_mode):
                for path in HOST["files"]:
                    for up in ("", "/..", "/../../../../../.."):
                        if os.path.lexists(link + up + path):
                            raise Escaped(f"{link}{up}{path} is there")


@way
def chroot_is_no_way_out():
    if os.fork() == 0:
        os.makedirs("/tmp/jail", exist_ok=True)
        fd = os.open("/", os.O_RDONLY)
        os.chroot("/tmp/jail")
        os.fchdir(fd)
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
        os._exit(any(os.path.lexists(p) for p in HOST["files"]))
    if os.wait()[1]:
        raise Escaped("a file of the host's is behind a chroot")


@way
def devices_cannot_be_made():
    for kind in (stat.S_IFCHR, stat.S_IFBLK):
        for major, minor in ((1, 1), (1, 11), (8, 0), (254, 0), (10, 229)):
            must_fail(f"device {major}:{minor}", os.mknod, "/tmp/device", kind | 0o666, os.makedev(major, minor))
    for name in ("mem", "kmem", "port", "kmsg", "fuse", "vda", "sda", "kvm", "net/tun", "loop-control", "loop0", "vsock"):
        if os.path.lexists(f"/dev/{name}"):
            raise Escaped(f"/dev/{name} is there")


@way
def no_mount_has_devices_but_those_of_dev():
    own = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts")} | {"/proc/keys"}  # that is null
    for line in open("/proc/mounts", encoding="utf-8"):
        _, place, _, options, *_ = line.split()
        missing = {"nosuid", "nodev"} - set(options.split(",")) - ({"nodev"} if place in own else set())
        if missing:
            raise Escaped(f"{place} is not {missing}: {options}")


@way
def setuid_programs_give_nothing():
    caps = [x for x in open("/proc/self/status") if x.startswith("CapEff")]
    for program in HOST["setuid"]:
        out = subprocess.run([program, "-u"], capture_output=True, check=False).stdout
        if out not in (b"0\n", b""):
            raise Escaped(f"{program} ran as {out!r}")
    own = "/root/id"
    subprocess.check_call(["cp", "/usr/bin/id", own])
    subprocess.check_call(["cp", "/usr/bin/cat", "/root/cat"])
    os.chmod("/root", 0o755)
    os.chmod(own, 0o6755)
    os.chmod("/root/cat", 0o6755)
    if HOST["ids"] > 1:
        for program in HOST["setuid"] + [own]:
            out = subprocess.run([program, "-u"], capture_output=True, check=False, user=1000, group=1000, extra_groups=[]).stdout
            if out not in (b"1000\n", b""):
                raise Escaped(f"{program} ran as {out!r} for user 1000")
    for line in subprocess.check_output(["/root/cat", "/proc/self/status"]).decode().splitlines():
        if line.startswith("CapEff") and line + "\n" not in caps:
            raise Escaped(f"{line} after a set-user-id program, {caps} before")
        if line.startswith("NoNewPrivs") and not line.endswith("1"):
            raise Escaped(line)


# --- processes -------------------------------------------------------------------------------------------------------


@way
def no_process_of_the_host_is_seen():
    for pid in processes():
        cmd = read_of(pid, "cmdline")
        if HOST["canary"].encode() in cmd and str(os.getpid()) != str(pid) and b"escape.py" not in cmd:
            raise Escaped(f"process {pid} is {cmd!r}")
    if len(processes()) > 20:
        raise Escaped(f"{len(processes())} processes")


@way
def no_process_of_the_host_can_be_touched():
    page = ctypes.create_string_buffer(4096)
    iov = struct.pack("QQ", ctypes.addressof(page), 16)
    for pid in HOST["pids"]:
        if pid in processes():
            continue  # a number of our own
        must_fail(f"a signal to {pid}", os.kill, pid, signal.SIGCONT)
        must_fail(f"ptrace of {pid}", call, "ptrace", 16, pid, 0, 0)
        must_fail(f"memory of {pid}", call, "process_vm_readv", pid, iov, 1, iov, 1, 0)
        must_fail(f"pidfd of {pid}", os.pidfd_open, pid)


@way
def pid_1_holds_nothing_of_the_host():
    for fd in os.listdir("/proc/1/fd"):
        try:
            to = os.readlink(f"/proc/1/fd/{fd}")
        except OSError:
            continue
        if not to.startswith(("/.sandboxfs/", "anon_inode:", "socket:", "pipe:", "/dev/", "/workspace", "/sys/fs/cgroup/")) and to != "/":
            raise Escaped(f"descriptor {fd} is {to}")
    if os.listdir("/proc/self/fd") and max(int(x) for x in os.listdir("/proc/self/fd")) > 4:
        raise Escaped(f"a command inherits {os.listdir('/proc/self/fd')}")


def memory(pid):
    """All that can be read of a process's memory, in pieces."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if line.split()[1][0] != "r" or end - start > 1 << 28:
                continue
            try:
                mem.seek(start)
                yield mem.read(end - start)
            except (OSError, OverflowError):  # [vvar], [vsyscall]
                pass


@way
def memory_of_pid_1_has_nothing_of_the_host():
    """It is the sandbox's own, so root inside may look at it; nobody else, and there is nothing of the daemon's in it."""
    hidden = HOST["hidden"][::-1].encode()  # as it went in with the facts, it may be there
    seen = 0
    try:
        for piece in memory(1):
            seen += len(piece)
            if hidden in piece:
                raise Escaped("the daemon's environment is in the memory of PID 1")
    except PermissionError:
        return
    if seen < 1 << 16:
        raise Escaped(f"only {seen} bytes were looked at")
    if HOST["ids"] > 1:
        must_fail("the memory of PID 1, for user 1000", subprocess.check_call, ["sh", "-c", ": </proc/1/mem"],
                  stderr=subprocess.DEVNULL, user=1000, group=1000, extra_groups=[])


@way
def the_environment_is_the_templates():
    names = {e.split(b"=")[0] for e in read("/proc/1/environ").split(b"\0") if e}
    if names - {b"PATH", b"HOSTNAME", b"PWD"}:
        raise Escaped(f"PID 1 has {names}")
    for pid in processes():
        if HOST["env"].encode() in read_of(pid, "environ"):
            raise Escaped(f"the daemon's environment is that of {pid}")


# --- sockets ---------------------------------------------------------------------------------------------------------


@way
def sockets_of_the_host_are_out_of_reach():
    s = socket.socket(socket.AF_UNIX)
    must_fail("the abstract socket", s.connect, "\0" + HOST["abstract"])
    for path in HOST["sockets"]:
        for p in (path, "/proc/1/root" + path):
            must_fail(f"the socket {p}", socket.socket(socket.AF_UNIX).connect, p)
    t = socket.socket()
    t.settimeout(2)
    must_fail("127.0.0.1", t.connect, ("127.0.0.1", HOST["port"]))
    if os.listdir("/proc/sys/net/ipv4/conf") != ["all", "default", "lo"] and set(os.listdir("/proc/sys/net/ipv4/conf")) != {"all", "default", "lo"}:
        raise Escaped(f"interfaces: {os.listdir('/proc/sys/net/ipv4/conf')}")
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    must_fail("a packet out", u.sendto, b"x", ("192.0.2.1", 9))
    must_fail("the machine below", socket.socket, 40, socket.SOCK_STREAM)  # AF_VSOCK knows no namespaces
    must_fail("a raw socket", socket.socket, socket.AF_PACKET, socket.SOCK_RAW)


# --- the kernel ------------------------------------------------------------------------------------------------------


@way
def nothing_can_be_mounted():
    for kind in (b"tmpfs", b"proc", b"sysfs", b"ext4", b"cgroup", b"cgroup2", b"overlay", b"debugfs", b"bpf"):
        must_fail(f"mount of {kind}", call, "mount", b"/dev/vda", b"/mnt", kind, 0, None)
        must_fail(f"fsopen of {kind}", call, "fsopen", kind, 0)
    must_fail("a bind", call, "mount", b"/", b"/mnt", None, 0x1000, None)
    must_fail("umount of /usr", call, "umount2", b"/usr", 2)
    must_fail("umount of /", call, "umount2", b"/", 2)
    must_fail("pivot_root", call, "pivot_root", b"/tmp", b"/tmp")
    must_fail("open_tree", call, "open_tree", -100, b"/", 1)


@way
def no_namespace_can_be_made_or_entered():
    for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("pid", 0x20000000), ("net", 0x40000000),
                       ("ipc", 0x8000000), ("uts", 0x4000000), ("cgroup", 0x2000000)):
        must_fail(f"a new {name} namespace", call, "unshare", flag)
    must_fail("more user namespaces", write, "/proc/sys/user/max_user_namespaces", b"100")
    for pid in processes():
        for ns in ("user", "mnt", "net"):
            try:
                fd = os.open(f"/proc/{pid}/ns/{ns}", os.O_RDONLY)
            except OSError:
                continue
            must_fail(f"setns to {ns} of {pid}", call, "setns", fd, 0)
            os.close(fd)


@way
def the_machine_cannot_be_governed():
    tv = ctypes.create_string_buffer(16)
    must_fail("settimeofday", call, "settimeofday", tv, 0)
    must_fail("reboot", call, "reboot", 0xFEE1DEAD, 672274793, 0, 0)  # CAD off: harmless if it worked
    must_fail("swapon", call, "swapon", b"/tmp/swap", 0)
    must_fail("kexec", call, "kexec_load", 0, 0, 0, 0)
    must_fail("a module", call, "init_module", b"", 0, b"")
    must_fail("a module", call, "finit_module", 0, b"", 0)
    must_fail("priorities", os.setpriority, os.PRIO_PROCESS, 0, -10)
    if X86:
        must_fail("iopl", call, "iopl", 3)


def instances():
    """As many of inotify's as there are for us, still open."""
    fds = []
    while len(fds) < 500:
        fd = libc.inotify_init1(os.O_CLOEXEC)
        if fd < 0:
            break
        fds.append(fd)
    return fds


@way
def inotify_is_left_for_the_host():
    """All that the host's user has would be every other sandbox's too. Each user inside has a count of its own, so two take them."""
    with open("/proc/sys/fs/inotify/max_user_instances", encoding="utf-8") as f:
        all_of_them = int(f.read())
    fds = instances()
    more, end = os.pipe()
    if os.fork() == 0:
        if HOST["ids"] > 1:
            os.setuid(1000)
        os.write(end, bytes([min(len(instances()), 255)]))
        os._exit(0)
    os.wait()
    got = len(fds) + os.read(more, 1)[0]
    for fd in [*fds, more, end]:
        os.close(fd)
    if not 4 <= got <= all_of_them / 4:
        raise Escaped(f"{got} of the {all_of_them} instances of inotify")


@way
def the_kernels_doors_are_shut():
    attr = ctypes.create_string_buffer(128)
    attr[0:8] = struct.pack("II", 1, 128)
    must_fail("perf", call, "perf_event_open", attr, 0, -1, -1, 0)
    must_fail("bpf", call, "bpf", 0, struct.pack("IIIII", 2, 4, 4, 1, 0) + bytes(108), 128)
    must_fail("io_uring", call, "io_uring_setup", 1, ctypes.create_string_buffer(256))
    must_fail("userfaultfd", call, "userfaultfd", 0)
    buf = ctypes.create_string_buffer(4096)
    must_fail("dmesg", call, "syslog", 3, buf, 4096)
    must_fail("dmesg's size", call, "syslog", 10, 0, 0)
    for path in ("/proc/kmsg", "/proc/kcore", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/slabinfo"):
        must_fail(path, read, path, 1)
    for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe",
                 "/proc/sys/kernel/hostname", "/proc/sys/fs/file-max", "/proc/acpi/wakeup", "/proc/mtrr", "/proc/irq/default_smp_affinity"):
        must_fail(f"writing {path}", write, path, b"x")


def strangers(group):
    """Those in a group's file that are no process or thread of the sandbox."""
    seen = {int(x) for x in read(group).split()} - {0}
    return {x for x in seen if not os.path.exists(f"/proc/{x}")}  # a thread is there too, though not listed


@way
def groups_can_be_read_and_no_more():
    """Of /sys there is the sandbox's own cgroup, or nothing."""
    if set(os.listdir("/sys")) - {"fs"} or (os.path.exists("/sys/fs") and set(os.listdir("/sys/fs")) - {"cgroup"}):
        raise Escaped(f"in /sys is {os.listdir('/sys')}")
    for top in [d for d in glob.glob("/sys/fs/cgroup/*") if os.path.isdir(d)] + ["/sys/fs/cgroup"]:
        must_fail(f"a group in {top}", os.mkdir, f"{top}/escaped")
        for name in ("tasks", "cgroup.procs", "release_agent", "notify_on_release", "memory.max", "memory.limit_in_bytes",
                     "cpu.cfs_quota_us", "pids.max", "freezer.state"):
            must_fail(f"{top}/{name}", os.open, f"{top}/{name}", os.O_WRONLY)
        # Its own processes, and nobody else's.
        for name in ("tasks", "cgroup.procs"):
            if os.path.exists(f"{top}/{name}"):
                seen = set.intersection(*(strangers(f"{top}/{name}") for _ in range(3)))  # one may have ended just then
                if seen:
                    raise Escaped(f"{top}/{name} has {seen}")


def call32(nr, a=0, b=0, c=0):
    """By int 0x80, as programs of 32 bits do; where the kernel has no such calls the process is killed."""
    code = (b"\x53\xb8" + struct.pack("i", nr) + b"\xbb" + struct.pack("i", a) + b"\xb9" + struct.pack("i", b) +
            b"\xba" + struct.pack("i", c) + b"\xcd\x80\x5b\xc3")
    m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    m.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()


@way
def old_calls_are_no_other_door():
    if not X86:
        return
    pid = os.fork()
    if pid == 0:
        # The last: socketcall, which hides what it asks for.
        shut = [call32(288, 6, HOST["key"]), call32(103, 10), call32(359, 40, 1), call32(336), call32(357), call32(425, 1)]
        os._exit(0 if call32(20) == os.getpid() and set(shut) == {-errno.EPERM} and call32(102) == -errno.ENOSYS else 1)
    status = os.waitpid(pid, 0)[1]
    if status and not os.WIFSIGNALED(status):
        raise Escaped("a call of 32 bits")


@way
def keys_of_the_host_are_hidden():
    must_fail("keyctl read", call, "keyctl", 11, HOST["key"], ctypes.create_string_buffer(64), 64, 0)
    must_fail("keyctl describe", call, "keyctl", 6, HOST["key"], ctypes.create_string_buffer(64), 64, 0)
    must_fail("the session's keyring", call, "keyctl", 11, -3, ctypes.create_string_buffer(64), 64, 0)
    must_fail("request_key", call, "request_key", b"user", HOST["canary"].encode(), None, 0)
    must_fail("add_key", call, "add_key", b"user", b"x", b"x", 1, -3)
    if HOST["canary"].encode() in read("/proc/keys"):
        raise Escaped("/proc/keys tells of the host's")


@way
def terminals_cannot_be_fed():
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSTI, b"x")
    except OSError:
        pass
    else:
        raise Escaped("TIOCSTI")
    finally:
        os.close(master)
        os.close(slave)
    must_fail("a terminal", os.open, "/dev/tty", os.O_RDWR)


def main():
    bad = 0
    for f in WAYS:
        try:
            f()
            print("held", f.__name__)
        except Escaped as e:
            bad += 1
            print(f"ESCAPED {f.__name__}: {e}")
        except OSError as e:
            bad += 1
            print(f"ESCAPED {f.__name__}: not tried to the end: {errno.errorcode.get(e.errno)} {e}")
    print(f"{len(WAYS)} ways, {bad} open")


main()
