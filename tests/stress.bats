#!/usr/bin/env bats
# Coherence and load: what must hold when both sides work on the same files for long (contract 3). The
# short forms here; the long ones are `scripts/test stress` (SBX_LONG=1). A failure prints its seed:
# SBX_SEED=N runs that again.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

STRESS=${SANDBOXFS%/fs/sandboxfs}/tests/stress/stress

# amount SANITIZED USUAL LONG: how much of it, in this run
amount() {
  if short; then
    echo "$1"
  elif [[ -n ${SBX_LONG:-} ]]; then
    echo "$3"
  else
    echo "$2"
  fi
}

teardown() {
  ! mountpoint -q "$BATS_TEST_TMPDIR/lie/outside" || umount -l "$BATS_TEST_TMPDIR/lie/outside"
  sbx_teardown
}

# box: a mount with the sandbox demo, whose workspace is W
box() {
  mount_sbx
  sandbox demo
  W=$MNT/demo/workspace
}

# show CMD...: its output is the test's, and the last lines of it are printed even if it succeeds.
show() {
  local status=0
  "$@" >"$BATS_TEST_TMPDIR/out" 2>&1 </dev/null 3>&- || status=$?
  cat "$BATS_TEST_TMPDIR/out"
  tail -n "${SHOW:-1}" "$BATS_TEST_TMPDIR/out" | sed 's/^/# /' >&3
  return $status
}

# seeded PART ...: the stress program, with the seed of SBX_SEED if there is one
seeded() {
  local part=$1
  shift
  show "$STRESS" "$part" ${SBX_SEED:+--seed "$SBX_SEED"} "$@"
}

# --- the tests of the tests -----------------------------------------------------------------------

# A FUSE file system that caches and never hears of changes beneath it, seen from both sides; each kind of
# cache alone must be enough to be caught.
# lying OPTIONS PART ...: PART must fail, and by finding something wrong. Without renames, in which mergerfs may
# hang for ever when its own idea of the tree is stale.
lying() {
  local dir=$BATS_TEST_TMPDIR/lie log=$BATS_TEST_TMPDIR/out options=$1 server pid status=0
  shift
  rm -rf "$dir"
  mkdir -p "$dir/inside" "$dir/outside"
  mergerfs -f -o "use_ino,cache.attr=0,cache.entry=0,cache.negative_entry=0,cache.files=partial,$options" \
    "$dir/inside" "$dir/outside" </dev/null >"$log" 2>&1 3>&- 4>&- &
  server=$!
  wait_for 60 mountpoint -q "$dir/outside"
  "$STRESS" "$@" --without rename --local "$dir/inside" "$dir/outside" >"$log" 2>&1 </dev/null 3>&- 4>&- &
  pid=$!
  wait_for 300 engine_ended $pid || kill -KILL $server # which ends the other's wait too
  wait $pid || status=$?
  wait_for 90 fusermount3 -q -u "$dir/outside"
  wait $server || true
  # 1, or 2 where the lie was too much for the program's own way about.
  ((status != 0)) && grep -q '^WRONG: ' "$log" && return
  tail -n 5 "$log"
  echo "status $status, not caught: $options $*"
  return 1
}

# bats test_tags=not:bwrap-user
@test "a local directory passes, and a cache that lies does not" {
  local dir=$BATS_TEST_TMPDIR/local
  mkdir -p "$dir"/{coherence,model}
  show "$STRESS" coherence --rounds "$(amount 20 100 1000)" --local "$dir/coherence" "$dir/coherence"
  show "$STRESS" model --ops "$(amount 3000 10000 200000)" --local "$dir/model" "$dir/model"
  lying cache.attr=60 coherence --rounds 300
  lying cache.entry=60 coherence --rounds 300
  lying cache.negative_entry=60 coherence --rounds 300
  lying cache.attr=60,cache.files=full coherence --rounds 300
  lying cache.attr=60,cache.entry=60,cache.files=full model --ops 30000
}

# --- both sides -----------------------------------------------------------------------------------

@test "what a command changes the host sees at once, and the reverse" {
  box
  seeded coherence --rounds "$(amount 150 2000 20000)" "$MNT/demo"
  rmdir "$MNT/demo"
}

# rounds [OPTIONS] DIR: some of it, where most that could differ is the same
rounds() {
  seeded coherence --rounds "$(amount 30 100 2000)" "$@"
}

# The kernel is asked otherwise: it checks rights itself.
# bats test_tags=not:bwrap-user
@test "what a command changes is seen at once with allow_other" {
  mount_sbx allow_other
  sandbox demo
  rounds "$MNT/demo"
  rmdir "$MNT/demo"
}

# A directory like a sandbox's own, whose workspace is a directory of rootfs/, in which commands start.
@test "what a command changes in rootfs/ is seen at once" {
  local dir=$BATS_TEST_TMPDIR/demo
  box
  mkdir "$dir"
  ln -s "$MNT/demo/ctl" "$dir/ctl"
  ln -s "$MNT/.sandboxfs/rootfs/demo/var/place" "$dir/workspace"
  out demo 'mkdir -p /var/place'
  echo /var/place >"$MNT/demo/ctl/cwd"
  rounds "$dir"
  is "$(ls "$W")" ""
  [[ -e $MNT/.sandboxfs/rootfs/demo/var/place/stress.bin ]]
  rmdir "$MNT/demo"
}

# A file system of another kind, which is not the one of the root. It has no FALLOC_FL_ZERO_RANGE, and before Linux 6.6 no
# attributes of users.
@test "what a command changes is seen at once in a workspace that is a tmpfs" {
  template memory '{"image": "busybox:test", "tmpfs": "/workspace:exec,mode=777"}'
  mount_sbx "templates=$TEMPLATES"
  sandbox memory@demo
  is "$(out memory@demo 'stat -f -c %T .')" tmpfs
  rounds --without falloc,setx "$MNT/memory@demo"
  rmdir "$MNT/memory@demo"
}

@test "what a process in the background changes the host sees within 100 ms" {
  box
  SHOW=33 show "$STRESS" lag ${SBX_LONG:+--strict} "$(amount 2 5 60)" "$MNT/demo"
  rmdir "$MNT/demo"
}

@test "random operations by host and sandbox give what the model says" {
  box
  seeded model --ops "$(amount 2000 30000 1000000)" "$MNT/demo"
  rmdir "$MNT/demo"
}

# --- fio, blocks ----------------------------------------------------------------------------------

# fio_verify NAME OPTIONS...: random writes, then every block's checksum
fio_verify() {
  local name=$1
  shift
  fio --name="$name" --directory="$W" --rw=randwrite --size="$(amount 4 16 512)m" --verify=crc32c --verify_fatal=1 \
    --do_verify=1 --verify_state_save=0 --fsync_on_close=1 --fallocate=none --loops="$(amount 1 1 3)" \
    --output-format=normal "$@" </dev/null 3>&- || return 1
}

# inside_blocks WHAT HOW FILE SEED
inside_blocks() {
  out demo "./stress.bin blocks $1 $2 $3 $(amount 1 4 128) $4"
}

@test "fio on the host and blocks in the sandbox, at once: every block is right" {
  local how pid
  box
  cp "$STRESS" "$W/stress.bin"
  for how in buffered direct mmap; do
    { inside_blocks write $how "in.$how" 7 && inside_blocks check $how "in.$how" 7; } \
      >"$BATS_TEST_TMPDIR/inside" 2>&1 3>&- &
    pid=$!
    case $how in
      buffered) fio_verify fio.buffered --ioengine=psync --bsrange=4k-128k ;;
      direct) fio_verify fio.direct --ioengine=psync --bsrange=4k-64k --blockalign=4k --direct=1 ;;
      mmap) fio_verify fio.mmap --ioengine=mmap --bs=4k ;;
    esac
    wait $pid || {
      cat "$BATS_TEST_TMPDIR/inside"
      false
    }
    # Each side's file is the same on the other.
    is "$(out demo "sha256sum <fio.$how.0.0")" "$(sha256sum <"$W/fio.$how.0.0")"
    is "$(sha256sum <"$W/in.$how")" "$(out demo "sha256sum <in.$how")"
  done
  rmdir "$MNT/demo"
}

@test "blocks that one side writes the other checks, by every way to write and to read" {
  local how back mb
  box
  mb=$(amount 1 4 128)
  cp "$STRESS" "$W/stress.bin"
  for how in buffered direct mmap; do
    for back in buffered direct mmap; do
      # Over what was there, so that a page of the round before would be seen.
      "$STRESS" blocks write $how "$W/out" "$mb" $((RANDOM + 1)) </dev/null
      inside_blocks check $back out 5 && false
      "$STRESS" blocks write $how "$W/out" "$mb" 5
      inside_blocks check $back out 5
      inside_blocks write $how in 6
      "$STRESS" blocks check $back "$W/in" "$mb" 6
      inside_blocks write $how in 8
      "$STRESS" blocks check $back "$W/in" "$mb" 8
    done
  done
  rmdir "$MNT/demo"
}

# Where a record goes only the sandbox's kernel knows; the host's may have thought of another place.
@test "both sides append through descriptors that stay open: every record is there once, and whole" {
  box
  cp "$STRESS" "$W/stress.bin"
  timeout 300 python3 - "$MNT/demo" "$(amount 300 600 20000)" <<'PY'
import os, sys, time
box, count = sys.argv[1], int(sys.argv[2])
os.chdir(box + "/workspace")
fd = os.open("log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
def length(i): # as in tests/stress/append.c
    return 20 + i * 7 % 200 if i % 3 else 4097 + i * 311 % 8000
def record(letter, i):
    return (b"%s%06d%06d" % (letter, i, length(i))).ljust(length(i) - 1, letter) + b"\n"
job = box + "/ctl/jobs/append"
os.mkdir(job)
with open(job + "/exec", "w") as f:
    f.write("./stress.bin append log i %d 100" % count)
mine = 0
for i in range(count):
    text = record(b"h", i)
    n = os.write(fd, text)
    assert n == len(text), (i, n)
    mine += n
    size = os.fstat(fd).st_size
    assert size >= mine, "WRONG: size %d after %d bytes of ours" % (size, mine)
    time.sleep(0.0001)
with open(job + "/wait") as f:
    assert f.read() == "0\n"
want = 2 * mine
sizes = os.fstat(fd).st_size, os.stat("log").st_size, os.lseek(fd, 0, os.SEEK_END)
held = b"".join(os.pread(fd, 100000, at) for at in range(0, want + 100000, 100000))
with open("log", "rb") as f:
    anew = f.read()
assert sizes == (want,) * 3, "WRONG: sizes %r, not %d" % (sizes, want)
assert held == anew and len(anew) == want, "WRONG: %d bytes by the descriptor, %d by another" % (len(held), len(anew))
lines = anew.split(b"\n")[:-1]
for letter in b"h", b"i":
    got = [l + b"\n" for l in lines if l.startswith(letter)]
    assert len(got) == count, "WRONG: %d records of %r, not %d" % (len(got), letter, count)
    for i in range(count):
        assert got[i] == record(letter, i), "WRONG: record %d of %r: %r" % (i, letter, got[i][:40])
assert len(lines) == 2 * count, len(lines)
turns = sum(a[:1] != b[:1] for a, b in zip(lines, lines[1:]))
print("%d turns" % turns)
assert turns > 2, "they did not write at once"
PY
  is "$(out demo 'sha256sum <log')" "$(sha256sum <"$W/log")"
  rmdir "$MNT/demo"
}

# --- stress-ng ------------------------------------------------------------------------------------

# Of `stress-ng --class filesystem?` all that work in a directory, and some others that do. Left out:
# - bind-mount binderfs dup eventfd ioprio procfs: not about files in a directory
# - io fanotify: they sync, and mark, every file system of the machine
# - fiemap verity: ioctls that the kernel does not pass to FUSE (on bindfs skipped too)
# - inode-flags: counts nothing as done, on ext4 either
# - fsize: expects fallocate to heed RLIMIT_FSIZE, which the kernel does not do for FUSE (bindfs: the same)
STRESSORS=(
  chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify fallocate fcntl file-ioctl filename
  flock fpunch fstat getdent handle hdd inotify iomix lease link locka lockf lockofd mknod open rename
  sync-file touch utime xattr
  aio aiol mmap msync readahead seek sendfile
)
STRESSOR_OPTIONS=(
  --dirdeep-inodes 500 --fallocate-bytes 8m --hdd-bytes 8m --iomix-bytes 8m --mmap-file --mmap-bytes 4m
  --readahead-bytes 8m --seek-size 8m --sync-file-bytes 8m
)

# stressors SECONDS NAME...: some at once, which must find nothing wrong. Those that did not come to do anything are
# in IDLE. ROUNDS: they end when they have done so much.
stressors() {
  local seconds=$1 name status=0 args=() log=$BATS_TEST_TMPDIR/ng
  shift
  for name; do
    args+=("--$name" 1 ${ROUNDS:+"--$name-ops" "$ROUNDS"})
  done
  stress-ng --temp-path "$W" --verify --timeout "$seconds" --metrics-brief --yaml "$log.yaml" \
    "${STRESSOR_OPTIONS[@]}" "${args[@]}" >"$log" 2>&1 </dev/null 3>&- || status=$?
  ! grep -E ' fail: |skip' "$log" || status=1
  ((status == 0)) || cat "$log"
  for name; do
    awk -v name="$name" '$2 == "stressor:" { this = $3 } $1 == "bogo-ops:" && this == name && $2 > 0 { ok = 1 }
      END { exit !ok }' "$log.yaml" || IDLE+=("$name")
  done
  return $status
}

# It compares with what root may do.
# bats test_tags=not:bwrap-user
@test "stress-ng's file system stressors with --verify" {
  local i name idle failed=0 IDLE=()
  box
  for ((i = 0; i < ${#STRESSORS[@]}; i += 4)); do
    stressors "$(amount 1 2 60)" "${STRESSORS[@]:i:4}" || failed=$((failed + 1))
  done
  # One round of some takes its time, on a machine that is busy: they have it alone.
  idle=("${IDLE[@]}") IDLE=()
  for name in "${idle[@]}"; do
    short || ROUNDS=1 stressors 180 "$name" || failed=$((failed + 1))
  done
  # They expect to run programs, and their links to be what they made: the sandbox is the same.
  mount_sbx exec symlinks=raw
  W=$MNT/demo/workspace
  stressors "$(amount 1 2 60)" access symlink || failed=$((failed + 1))
  idle=("${IDLE[@]}") IDLE=()
  for name in "${idle[@]}"; do
    ROUNDS=1 stressors 180 "$name" || failed=$((failed + 1))
  done
  is "${IDLE[*]}" ""
  is $failed 0
  # They clean up behind them.
  is "$(ls -A "$W")" ""
  rmdir "$MNT/demo"
}

# --- many files -----------------------------------------------------------------------------------

# The agent watches so many files by themselves (agent/watches.c), and here are more. What is written to one of them through
# another name, in a directory that the host never knew, only a watch of the file itself tells: of the others nothing may be kept.
@test "of more files than can be watched, one written to by another name is seen to be at once" {
  local n
  box
  n=$(amount 20000 40000 200000)
  cp "$STRESS" "$W/stress.bin"
  out demo "./stress.bin files many $n"
  is "$(find "$W/many" -type f -size -100 | wc -l)" "$n"
  python3 - "$MNT/demo" "$n" "$(amount 5 12 100)" <<'PY'
import ctypes, os, sys
box, count, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.chdir(box + "/workspace")
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def mapped(fd, n): # not by mmap.mmap, which begins with a stat
    at = libc.mmap(None, 4096, 1, 1, fd, 0)
    assert at != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    text = ctypes.string_at(at, n)
    libc.munmap(at, 4096)
    return text
def opened(name, what):
    fd = os.open(name, os.O_RDONLY)
    try:
        return what(fd)
    finally:
        os.close(fd)
want = {}
wrong = []
def check(name, what, got, right):
    if got != right:
        wrong.append("WRONG: round %d, %s, %s: got %r, want %r" % (r, name, what, got, right))
for r in range(rounds):
    # Of all that there are, evenly; half of them those of the round before.
    files = [(r // 2 * 37 + k * (count // 200)) % count for k in range(200)]
    names = {i: "many/d%d/file%d" % (i // 500, i) for i in files}
    before = {i: os.stat(names[i]) for i in files}
    if r % 3 == 2:
        for name in names.values():
            opened(name, lambda fd: os.read(fd, 4096))
    text = "mkdir unseen%d; cd unseen%d\n" % (r, r)
    text += "".join("ln ../%s %d; echo round %d >>%d\n" % (names[i], i, r, i) for i in files)
    with open(box + "/ctl/exec", "w") as f:
        f.write(text + "cd ..; rm -r unseen%d\n" % r)
    for k, i in enumerate(files):
        name = names[i]
        want[i] = want.get(i, b"%d\n" % i) + b"round %d\n" % r
        new, n = want[i], len(want[i])
        if k % 3 == 0:
            st = os.stat(name)
            check(name, "size", st.st_size, n)
            check(name, "mtime is new", st.st_mtime_ns > before[i].st_mtime_ns, True)
            check(name, "links", st.st_nlink, 1)
        elif k % 3 == 1:
            check(name, "mapped", opened(name, lambda fd: mapped(fd, n)), new)
        check(name, "read", opened(name, lambda fd: os.read(fd, 4096)), new)
        check(name, "size of the open file", opened(name, lambda fd: os.fstat(fd).st_size), n)
    with open(box + "/ctl/exit_code") as f:
        assert f.read() == "0\n"
print("\n".join(wrong[:20]))
print("%d wrong" % len(wrong))
sys.exit(bool(wrong))
PY
  out demo 'rm -rf many'
  rmdir "$MNT/demo"
}

# usage_of PID: resident KiB and open descriptors
usage_of() {
  awk '$1 == "VmRSS:" { printf "%s ", $2 }' "/proc/$1/status"
  find "/proc/$1/fd" -mindepth 1 | wc -l
}

# all_forgotten: no file is known any more, once the kernel has dropped what it can. The agent forgets one when the
# daemon has, and that when the kernel has: one that was missed on either way would stay.
all_forgotten() {
  echo 2 >/proc/sys/vm/drop_caches
  grep -qx 'nodes 0' "$MNT/demo/ctl/stats"
}

# near PID KIB FDS: is it back where it was, but for 10 MB and a few descriptors?
near() {
  local kib fds
  read -r kib fds < <(usage_of "$1")
  # Sanitizers keep what is freed, to see who uses it still.
  [[ -n ${SBX_SANITIZER:-} ]] || ((kib <= $2 + 10240)) || return 1
  ((fds <= $3 + 8))
}

# Caches are root's to drop.
# bats test_tags=not:bwrap-user
@test "walking many files twice leaves neither memory nor descriptors behind" {
  local n daemon agent daemon_before agent_before
  box
  n=$(amount 20000 200000 1000000)
  cp "$STRESS" "$W/stress.bin"
  out demo "./stress.bin files many $n"
  daemon=$(daemon_pid)
  agent=$(box_pid demo)
  # Under a wrapper the daemon may be its child.
  [[ $(cat "/proc/$daemon/comm") == sandboxfs* || -n ${SANDBOXFS_WRAP:-} ]]
  wait_for 60 all_forgotten
  read -ra daemon_before < <(usage_of "$daemon")
  read -ra agent_before < <(usage_of "$agent")
  is "$(find "$W/many" -type f -size -100 | wc -l)" "$n"
  is "$(find "$W/many" -type f -size -100 | wc -l)" "$n"
  (($(awk '$1 == "nodes" { print $2 }' "$MNT/demo/ctl/stats") > 0)) # they are counted
  echo "# before: daemon ${daemon_before[*]}, agent ${agent_before[*]} (KiB, descriptors)" >&3
  echo "# walked: daemon $(usage_of "$daemon"), agent $(usage_of "$agent")" >&3
  # No descriptor for each file that the host knows.
  (($(usage_of "$agent" | cut -d ' ' -f 2) <= 16384))
  (($(usage_of "$daemon" | cut -d ' ' -f 2) <= 16384))
  wait_for "$(amount 300 300 600)" all_forgotten || {
    cat "$MNT/demo/ctl/stats"
    false
  }
  wait_for 60 near "$daemon" "${daemon_before[@]}" || echo "the daemon kept: $(usage_of "$daemon")"
  wait_for 60 near "$agent" "${agent_before[@]}" || echo "the agent kept: $(usage_of "$agent")"
  echo "# dropped: daemon $(usage_of "$daemon"), agent $(usage_of "$agent")" >&3
  near "$daemon" "${daemon_before[@]}"
  near "$agent" "${agent_before[@]}"
  out demo 'rm -rf many' # faster than the engine, for which the daemon would wait
  rmdir "$MNT/demo"
}
