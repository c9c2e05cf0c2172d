#!/usr/bin/env bats
# For tools that can only write files, or that save by rename: scratch files, renames onto control files,
# .sandboxfs/do. Contract 1.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

# errors_have WORDS
errors_have() {
  has "$(cat "$MNT/.sandboxfs/errors")" "$1"
}

@test "a scratch file is a file: made, written, read, cut, renamed, removed, bounded" {
  mount_sbx
  python3 - "$MNT/.sandboxfs" <<'PY'
import errno, os, sys
d = sys.argv[1]
def refused(code, call, *args):
    try:
        call(*args)
    except OSError as e:
        assert e.errno == code, e
    else:
        raise AssertionError("not refused")
a, b = d + "/a b.tmp", d + "/.b.swp"
data = os.urandom(3 << 20)
with open(a, "xb") as f:
    f.write(data)
assert "a b.tmp" in os.listdir(d) and os.stat(a).st_size == len(data)
assert open(a, "rb").read() == data
refused(errno.EEXIST, os.open, a, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
fd = os.open(a, os.O_RDWR)
os.pwrite(fd, b"xyz", 1 << 20)
os.ftruncate(fd, (1 << 20) + 10)
os.ftruncate(fd, (1 << 20) + 20)
want = data[:1 << 20] + b"xyz" + data[(1 << 20) + 3:(1 << 20) + 10] + bytes(10)
assert os.pread(fd, 4 << 20, 0) == want
os.rename(a, b)
refused(errno.ENOENT, os.stat, a)
assert open(b, "rb").read() == want
with open(a, "w") as f:
    f.write("one\n")
with open(a, "a") as f:
    f.write("two\n")
os.replace(a, b) # over it; what was there is still open
assert open(b).read() == "one\ntwo\n" and os.fstat(fd).st_size == len(want)
os.utime(b, (5, 5))
assert os.stat(b).st_mtime == 5
os.unlink(b)
refused(errno.ENOENT, os.unlink, b)
assert os.pread(fd, 3, 1 << 20) == b"xyz"
os.close(fd)
# Bounds: a file, all files, how many.
open(a, "w").close()
refused(errno.EFBIG, os.truncate, a, (64 << 20) + 1)
os.unlink(a)
full = [d + "/full%d" % k for k in range(5)]
for f in full:
    fd = os.open(f, os.O_CREAT | os.O_RDWR)
    if f == full[4]:
        refused(errno.EDQUOT, os.ftruncate, fd, 64 << 20)
    else:
        os.ftruncate(fd, 64 << 20)
    os.close(fd)
for f in full:
    os.unlink(f)
made = [d + "/%d" % k for k in range(1000)]
for f in made:
    os.close(os.open(f, os.O_CREAT | os.O_WRONLY))
refused(errno.ENOSPC, os.open, a, os.O_CREAT | os.O_WRONLY)
for f in made:
    os.unlink(f)
# What is there stays.
refused(errno.EPERM, os.rename, d + "/version", a)
refused(errno.EPERM, os.unlink, d + "/version")
refused(errno.EPERM, os.mkdir, d + "/dir")
open(a, "w").close()
refused(errno.EACCES, os.rename, a, d + "/version")
refused(errno.EXDEV, os.rename, a, d + "/../a")
os.unlink(a)
PY
  errors_have 'EFBIG a scratch file has at most 64 MiB'
  errors_have 'EDQUOT the scratch files of a mount have at most 256 MiB together'
  errors_have 'ENOSPC there are 1000 scratch files'
}

@test ".sandboxfs/do makes, moves and removes, line by line, and nothing outside the mount" {
  local todo outside=$BATS_TEST_TMPDIR/outside
  mount_sbx
  todo=$MNT/.sandboxfs/do
  mkdir "$outside"
  printf '# a sandbox\n\nmkdir demo\r\nmkdir demo/workspace/d\nmkdir "demo/workspace/a b"' >"$todo"
  [[ -d "$MNT/demo/workspace/a b" && -d $MNT/demo/workspace/d ]]
  printf 'one\n' >"$MNT/demo/workspace/d/f"
  printf "mv demo/workspace/d/f 'demo/workspace/a b/g h'\nrm '%s/demo/workspace/a b/g h'\nrmdir 'demo/workspace/a b'\n" \
    "$MNT" >"$todo"
  is "$(ls "$MNT/demo/workspace")" d
  is "$(cat "$todo"; stat -c %s "$todo")" 0
  # The first that fails is the write's error; what stands behind it is not done.
  fails_with 'File exists' sh -c '/usr/bin/printf "mkdir demo/workspace/e\nmkdir demo/workspace/d\nmkdir demo/workspace/f\n" >"$1"' - "$todo"
  errors_have 'do .sandboxfs/do EEXIST mkdir demo/workspace/d: File exists'
  is "$(cd "$MNT/demo/workspace" && echo *)" 'd e'
  fails_with 'No such file' bash -c 'echo "rm demo/workspace/none" >"$1"' - "$todo"
  fails_with 'Invalid argument' bash -c 'echo "mkdir a b" >"$1"' - "$todo"
  fails_with 'Invalid argument' bash -c 'echo "chmod 0 demo" >"$1"' - "$todo"
  fails_with 'Invalid argument' bash -c 'echo "mkdir $2/x" >"$1"' - "$todo" "$outside"
  fails_with 'cross-device' bash -c 'echo "mkdir ../outside/x" >"$1"' - "$todo"
  fails_with 'not permitted' bash -c 'echo "rm .sandboxfs/do" >"$1"' - "$todo"
  fails_with 'not permitted' bash -c 'echo "mv .sandboxfs/do .sandboxfs/done" >"$1"' - "$todo"
  is "$(ls "$outside")" ''
  # By several who share the file, and by rename.
  { /usr/bin/printf 'mkdir demo/work'; /usr/bin/printf 'space/h\n'; } >"$todo"
  echo 'mkdir demo/workspace/i' >"$MNT/.sandboxfs/lines"
  mv "$MNT/.sandboxfs/lines" "$todo"
  wait_for 90 test -d "$MNT/demo/workspace/i"
  is "$(cd "$MNT/demo/workspace" && echo *)" 'd e h i'
  echo 'mv demo other' >"$todo"
  echo 'rmdir other' >"$todo"
  is "$(ls "$MNT")" README
}

# bats test_tags=not:bwrap-user
@test ".sandboxfs/do acts as who opened it, with no more rights" {
  chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$BATS_TEST_TMPDIR"
  SBX_AT=$(mktemp -d "$BATS_TEST_TMPDIR/mnt.XXXX")
  chmod 755 "$SBX_AT"
  mount_sbx allow_other
  python3 - "$MNT" <<'PY'
import errno, os, sys
root = sys.argv[1]
def do(line, opener, writer, want=0):
    os.setegid(opener); os.seteuid(opener)
    fd = os.open(root + "/.sandboxfs/do", os.O_WRONLY)
    os.seteuid(0); os.setegid(0)
    os.setegid(writer); os.seteuid(writer)
    got = 0
    try:
        os.write(fd, line.encode() + b"\n")
    except OSError as e:
        got = e.errno
    os.seteuid(0); os.setegid(0)
    os.close(fd)
    assert got == want, (line, os.strerror(got))
os.setgroups([])
do("mkdir ours", 0, 0)
do("mkdir theirs", 1234, 1234)
assert [os.stat(root + "/" + n).st_uid for n in ("ours", "theirs")] == [0, 1234]
do("rmdir ours", 1234, 1234, errno.EPERM)
do("rmdir ours", 1234, 0, errno.EPERM) # root was handed a descriptor of theirs
do("mkdir ours/workspace/d", 1234, 1234, errno.EACCES)
# Each sees the words of its own failures; root, those of all.
try:
    os.mkdir(root + "/bad name")
except OSError:
    pass
def errors(uid):
    os.seteuid(uid)
    with open(root + "/.sandboxfs/errors") as f:
        text = f.read()
    os.seteuid(0)
    return text
assert "bad name" in errors(0) and errors(0).count(" do ") == 3, errors(0)
assert "bad name" not in errors(1234) and errors(1234).count(" do ") == 2, errors(1234)
do("rmdir theirs", 1234, 1234)
do("rmdir ours", 0, 0)
assert os.listdir(root) == ["README", ".sandboxfs"]
PY
}

@test "an agent that can only read, write and list files edits, runs and fixes, by rename or in place" {
  mount_sbx
  python3 - "$MNT" <<'PY'
import os, sys
root = sys.argv[1]
def read(path):
    with open(root + "/" + path) as f:
        return f.read()
def names(path):
    return sorted(os.listdir(root + "/" + path))
def write(path, text):
    with open(root + "/" + path, "w") as f:
        f.write(text)
def save(path, text): # as most tools do it
    here, name = os.path.split(path)
    write(here + "/." + name + ".tmp", text)
    os.replace(root + "/" + here + "/." + name + ".tmp", root + "/" + path)
for put, name in (write, "one"), (save, "two"):
    put(".sandboxfs/do", "mkdir %s\n" % name)
    while name not in names(""):
        pass # a rename does not wait for what it starts
    c = name + "/ctl/"
    put(name + "/workspace/sum.sh", "#!/bin/sh\necho $((1 + ))\n")
    put(c + "timeout", "30\n")
    assert read(c + "timeout") == "30\n"
    put(c + "exec", "sh sum.sh >result\n")
    assert read(c + "jobs/last/wait") == read(c + "exit_code") == "2\n", read(c + "summary")
    assert read(c + "result") == "exit-code\n" and "arithmetic" in read(c + "stderr")
    put(name + "/workspace/sum.sh", "#!/bin/sh\necho $((1 + 2))\n")
    put(c + "exec", "sh sum.sh >result\n")
    assert read(c + "jobs/last/wait") == "0\n" and read(c + "exec") == "sh sum.sh >result\n"
    assert read(name + "/workspace/result") == "3\n"
    # The control file is what its name means again, and nothing is left beside it.
    assert not [n for n in names(c) if n.startswith(".")], names(c)
    put(c + "state", "stopped\n")
    while read(c + "state") != "stopped\n":
        pass
    put(".sandboxfs/do", "rmdir %s\n" % name)
    while name in names(""):
        pass
PY
}

# as_vim DIR NAME SED: what vim does with a file, call by call; it would rename the file away were the new one like it.
as_vim() {
  python3 - "$1" "$2" "$(sed "$3" "$1/$2")" <<'PY'
import os, sys
os.chdir(sys.argv[1])
name, text = sys.argv[2:]
swap = os.open("." + name + ".swp", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.write(swap, b"b0VIM" * 800)
old = os.stat(name)
os.close(os.open("4913", os.O_CREAT | os.O_WRONLY | os.O_EXCL, old.st_mode & 0o777))
new = os.stat("4913")
os.unlink("4913")
if (new.st_uid, new.st_gid, new.st_mode) == (old.st_uid, old.st_gid, old.st_mode):
    os.rename(name, name + "~")
else:
    with open(name, "rb") as f, open(name + "~", "xb") as to:
        to.write(f.read())
    os.chmod(name + "~", old.st_mode & 0o777)
    os.utime(name + "~", (old.st_atime, old.st_mtime))
with open(name, "w") as f:
    f.write(text + "\n")
os.unlink(name + "~")
os.close(swap)
os.unlink("." + name + ".swp")
PY
}

@test "scratch files in ctl/ and in jobs: editors save there, tools move there, all goes with the job" {
  local C
  mount_sbx
  sandbox demo
  C=$MNT/demo/ctl
  # sed -i renames; vim writes in place, if a file that it tries out is not like the one it saves; mv and cp come
  # from elsewhere.
  echo 'echo one >>log' >"$C/exec"
  sed -i s/one/two/ "$C/exec"
  is "$(cat "$C/jobs/last/wait")" 0
  as_vim "$C" exec s/two/three/
  echo 'echo four >>log' >"$BATS_TEST_TMPDIR/four"
  cp "$BATS_TEST_TMPDIR/four" "$C/exec"
  sed -i s/four/five/ "$BATS_TEST_TMPDIR/four"
  mv "$BATS_TEST_TMPDIR/four" "$C/exec"
  is "$(cat "$C/jobs/last/wait")" 0
  is "$(xargs <"$MNT/demo/workspace/log")" 'one two three four five'
  # Nobody waits for what a rename starts.
  echo 'until [ -e go ]; do sleep 0.1; done; exit 6' >"$C/new"
  timeout 20 mv "$C/new" "$C/exec"
  is "$(cat "$C/result")" running
  touch "$MNT/demo/workspace/go"
  is "$(cat "$C/jobs/last/wait" "$C/result")" $'6\nexit-code'
  # What cannot be: moving a control file, writing a read-only one, a value that is wrong.
  fails_with 'not permitted' mv "$C/exec" "$C/exec.old"
  echo x >"$C/new"
  fails_with 'Permission denied' mv -f "$C/new" "$C/stdout"
  has "$(cat "$C/error")" 'message: stdout cannot be written'
  errors_have 'demo/ctl/stdout EACCES stdout cannot be written'
  is "$(cat "$C/new")" x
  echo tomorrow >"$C/new"
  fails mv -f "$C/new" "$C/timeout" # mv has words of its own for EINVAL
  has "$(cat "$C/error")" tomorrow
  mkdir "$C/jobs/j"
  echo 'exit 3' >"$C/jobs/j/script"
  is "$(ls "$C/jobs/j/script")" "$C/jobs/j/script"
  [[ ! -e $C/script ]]
  mv "$C/jobs/j/script" "$C/jobs/j/exec"
  is "$(cat "$C/jobs/j/wait")" 3
  echo rest >"$C/jobs/j/rest"
  rmdir "$C/jobs/j"
  mkdir "$C/jobs/j"
  [[ ! -e $C/jobs/j/rest ]]
  # rm -rf of a sandbox with scratch files in it.
  echo rest >"$C/rest"
  rm -rf "$MNT/demo"
  sandbox demo
  [[ ! -e $C/rest ]]
}

# acting: the process that acts for do has a child at work.
acting() {
  local process
  process=$(pgrep -P "$(daemon_pid)") && pgrep -P "$process" >/dev/null
}

# act N: so many processes act for `do`.
act() {
  is "$(pgrep -c -P "$(pgrep -P "$(daemon_pid)")")" "$1"
}

@test ".sandboxfs/do goes on whatever a sandbox that does not answer keeps, and whoever leaves takes the rest along" {
  local k todo
  mount_sbx
  sandbox demo
  todo=$MNT/.sandboxfs/do
  box_pause demo
  wait_for 90 state_is demo paused
  # Interrupted: nothing of it stays.
  for k in 1 2; do
    fails timeout --preserve-status 0.3 bash -c 'echo "rm demo/workspace/$2" >"$1"' - "$todo" $k
  done
  wait_for 90 act 0
  # Nobody waits for these, so they stay; others are served all the same.
  for k in 1 2 3 4 5 6; do
    echo "rm demo/workspace/$k" >"$MNT/.sandboxfs/lines"
    mv "$MNT/.sandboxfs/lines" "$todo"
  done
  wait_for 90 act 6
  echo 'mkdir other' >"$todo"
  [[ -d $MNT/other/ctl ]]
  echo 'rmdir other' >"$todo"
  box_unpause demo
  wait_for 90 act 0
}

@test "exec shows the size of what was moved there, or written since it was last looked at" {
  local C J bb at
  mount_sbx
  sandbox demo
  C=$MNT/demo/ctl J=$MNT/demo/ctl/jobs
  bb=$(host_busybox) # its cat believes the size
  ex demo :
  mkdir "$J/moved" "$J/written"
  ls -l "$J"/*/ >/dev/null
  for at in "$C" "$J/moved"; do
    printf 'echo %01000d\n' 7 >"$C/draft"
    mv "$C/draft" "$at/exec"
    is "$("$bb" cat "$at/exec" | wc -c)" 1006
    is "$(stat -c %s "$at/exec")" 1006
  done
  printf 'echo %01000d\n' 7 >"$J/written/exec"
  is "$("$bb" cat "$J/written/exec" | wc -c)" 1006
}

@test "a daemon that is killed leaves nobody hanging in .sandboxfs/do" {
  local writer
  mount_sbx
  sandbox demo
  box_pause demo
  wait_for 90 state_is demo paused
  echo 'mkdir demo/workspace/d' >"$MNT/.sandboxfs/do" 3>&- 4>&- &
  writer=$!
  wait_for 90 acting
  kill_daemon
  wait_for 90 engine_ended "$writer"
  fails wait "$writer"
  sbx_start "$MNT"
  is "$(ls "$MNT")" $'README\ndemo'
}

@test "by rename too: a large input and script, arguments, environment, terminal, signal" {
  local C J sum
  mount_sbx
  sandbox demo
  C=$MNT/demo/ctl J=$C/jobs
  head -c 3000000 /dev/urandom >"$C/s"
  sum=$(sha256sum <"$C/s")
  mv "$C/s" "$C/stdin"
  is "$(out demo 'sha256sum')" "$sum"
  printf 'echo\0a  b\0' >"$C/a"
  mv "$C/a" "$C/argv"
  is "$(cat "$J/last/wait" "$J/last/stdout")" $'0\na  b'
  printf 'X=one\nY=two\n' >"$C/e"
  mv "$C/e" "$C/env"
  is "$(out demo 'echo $X $Y')" 'one two'
  { echo 'n=0'; yes 'n=$((n + 1)) # and words to make it long, and more of them, and still more' | head -n 70000; echo 'echo $n'; } >"$C/t"
  (($(stat -c %s "$C/t") > 5000000))
  mv "$C/t" "$C/exec"
  is "$(cat "$J/last/wait" "$J/last/stdout")" $'0\n70000'
  mkdir "$J/x"
  echo 90x30 >"$J/x/size"
  mv "$J/x/size" "$J/x/tty"
  echo 'stty size; exec sleep 1000' >"$J/x/exec"
  wait_for 90 grep -q '30 90' "$J/x/stdout"
  echo TERM >"$J/x/s"
  mv "$J/x/s" "$J/x/signal"
  is "$(cat "$J/x/wait" "$J/x/result")" $'143\nsignal'
}
