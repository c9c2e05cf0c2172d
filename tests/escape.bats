#!/usr/bin/env bats
# bats file_tags=only:bwrap
#
# What an embedded sandbox can get at, tried from inside by its root: lib/escape.py has the ways. Around it is a machine
# with secrets, listeners and processes, made for this test and seen by it alone: lib/user.bash.

load lib/mount
load lib/assert
load lib/user

setup() {
  CANARY=canary-$RANDOM$RANDOM$RANDOM
  OUTSIDE=()
}

teardown() {
  local pid
  for pid in "${OUTSIDE[@]}"; do
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -f "/tmp/$CANARY"
  user_end
}

# outside CMD...: a process of the daemon's user beside it, until the end of the test
outside() {
  (user_run "$@" </dev/null >/dev/null 2>&1 3>&- 4>&-) &
  OUTSIDE+=($!)
}

# Secrets where they are kept: changes lie over the real directories, in this namespace only.
plant() {
  local dir owner=0
  [[ $UIDS == root ]] || owner=$USER_ID
  FILES=()
  mkdir -p "$U.root/over/etc/upper" # the world's own files would be hidden
  cp -p "$U.root"/{passwd,group} "$U.root/over/etc/upper/"
  for dir in subuid subgid; do cp -p "$U.root/sub" "$U.root/over/etc/upper/$dir"; done
  for dir in /root /home /run /var/lib /var/spool /opt /srv /mnt /etc /tmp; do
    if [[ $dir != /tmp ]]; then
      mkdir -p "$U.root/over$dir"/{upper,work}
      nsenter -t "$UWORLD" -m mount -t overlay -o "lowerdir=$dir,upperdir=$U.root/over$dir/upper,workdir=$U.root/over$dir/work" none $dir
    fi
    FILES+=("$dir/$CANARY")
    nsenter -t "$UWORLD" -m bash -c 'echo "$1" >"$2" && chown "$3" "$2" && chmod 644 "$2"' - "$CANARY" "$dir/$CANARY" "$owner"
  done
  # Such as are nobody else's to read: beside what the engine copies of /etc, and in a directory that it copies.
  for dir in /etc /etc/ssl/certs; do
    FILES+=("$dir/$CANARY.key")
    nsenter -t "$UWORLD" -m bash -c 'echo "$1" >"$2" && chown "$3" "$2" && chmod 600 "$2"' - "$CANARY" "$dir/$CANARY.key" "$owner"
  done
  u 'for f; do [ -s "$f" ] || exit 1; done' "${FILES[@]}"
  nsenter -t "$UWORLD" -m install -d -o "$owner" "/run/$CANARY.d"
  install -d -o "$owner" "$U/bound"
  install -o 0 -m 6755 /usr/bin/id "$U/bound/id-root"
  install -o "$USER_ID" -m 6755 /usr/bin/id "$U/bound/id-user"
}

listen() {
  cat >"$U/listen.py" <<'END'
import socket, sys, time
a = socket.socket(socket.AF_UNIX); a.bind("\0" + sys.argv[1]); a.listen()
p = socket.socket(socket.AF_UNIX); p.bind(sys.argv[2]); p.listen()
r = socket.socket(socket.AF_UNIX); r.bind(sys.argv[3]); r.listen()
t = socket.socket(); t.bind(("127.0.0.1", 0)); t.listen()
open(sys.argv[2] + ".port", "w").write(str(t.getsockname()[1]))
time.sleep(1000)
END
  chmod 644 "$U/listen.py"
  outside python3 "$U/listen.py" "$CANARY" "$U/home/listen" "/run/$CANARY.d/listen"
  wait_for 90 test -s "$U/home/listen.port"
  PORT=$(cat "$U/home/listen.port")
}

# A key in the session keyring that the daemon is started with, by the program keyctl's system calls. Prints its number.
keyed() {
  cat >"$U/keyed.py" <<'END'
import ctypes, os, platform, sys
libc = ctypes.CDLL(None)
join, add = (250, 248) if platform.machine() == "x86_64" else (219, 217)
libc.syscall(join, 1, None)
key = libc.syscall(add, b"user", sys.argv[1].encode(), b"secret", 6, ctypes.c_long(-3))
open(sys.argv[2], "w").write(str(key))
os.execv(sys.argv[3], sys.argv[3:])
END
  chmod 644 "$U/keyed.py"
}

# tried IDS COUNT: all ways, in a sandbox of a daemon with these ids
tried() {
  local facts before
  user_world "$1"
  plant
  listen
  keyed
  outside bash -c 'exec -a "$1" sleep 1000' - "$CANARY"
  # shellcheck disable=SC2034 # lib/user.bash's
  UENV=("SECRET_OF_THE_DAEMON=$CANARY" "HIDDEN=hidden-$CANARY")
  echo '{"volumes": ["'"$U/bound"':/bound"]}' >"$U/templates/default.json"
  chmod 644 "$U/templates/default.json"
  # shellcheck disable=SC2034 # lib/user.bash's
  UWRAP=(python3 "$U/keyed.py" "$CANARY" "$U/home/key")
  user_mount "allow_binds=$U/bound"
  u '[ "$(cat "$U/home/key")" -gt 0 ]'
  user_sandbox a
  before=$(outside_state)
  facts=$(jq -nc --arg canary "$CANARY" --argjson port "$PORT" --argjson key "$(cat "$U/home/key")" --argjson ids "$2" \
    --arg pids "$UPID ${OUTSIDE[*]} $$ 1" --arg sockets "$U/home/listen /run/$CANARY.d/listen" --arg hidden "$(rev <<<"hidden-$CANARY")" --arg setuid "/bound/id-root /bound/id-user" \
    '{canary: $canary, env: "SECRET_OF_THE_DAEMON", abstract: $canary, port: $port, key: $key, ids: $ids,
      pids: ($pids | split(" ") | map(tonumber)), sockets: ($sockets | split(" ")), hidden: $hidden, setuid: ($setuid | split(" ")), files: $ARGS.positional}' --args "${FILES[@]}")
  u 'cp $U/top/tests/lib/escape.py $M/a/workspace/ && echo "$1" >$M/a/workspace/facts && echo "python3 escape.py facts" >$M/a/ctl/exec; cat $M/a/ctl/output' "$facts" | tee "$U/home/said"
  is "$(grep -c '^held' "$U/home/said")" "$(grep -c '^@way' "$SBX_TOP/tests/lib/escape.py")"
  run ! grep ESCAPED "$U/home/said"
  # What the sandbox did to its own system is nobody else's.
  u 'echo "echo x >/etc/ld.so.cache; echo x >>/etc/profile; rm /etc/os-release" >$M/a/ctl/exec'
  user_sandbox b
  u 'echo "test -s /etc/os-release && ! grep -qx x /etc/profile && python3 -c 0" >$M/b/ctl/exec; [ "$(cat $M/b/ctl/exit_code)" = 0 ]'
  is "$(outside_state)" "$before"
  u 'rmdir $M/a $M/b'
}

# What must not change on the host.
outside_state() {
  sha256sum /etc/ld.so.cache /etc/profile /usr/bin/env "${SANDBOXFS%/fs/sandboxfs}/agent/agent"
  cat /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern
  ls -ld /usr /usr/bin /etc
  kill -0 "${OUTSIDE[@]}" && echo alive
}

@test "root's daemon: no way out of a sandbox" {
  tried root 65536
}

@test "a user's daemon with a range of ids: no way out of a sandbox" {
  tried range 65536
}

@test "a user's daemon with one id: no way out of a sandbox" {
  tried one 1
}

@test "what the host mounts below /usr later is not seen in a sandbox that runs" {
  user_world root
  # Its changes are to reach whoever has a copy, as on most machines.
  nsenter -t "$UWORLD" -m bash -c 'mount --bind /usr /usr && mount --make-shared /usr'
  user_mount
  user_sandbox a
  nsenter -t "$UWORLD" -m bash -c 'mount -t tmpfs none /usr/src && touch "/usr/src/$1"' - "$CANARY"
  u '[ -e "/usr/src/$1" ]' "$CANARY"
  u 'echo "ls /usr/src; grep -c /usr/src /proc/mounts" >$M/a/ctl/exec; cat $M/a/ctl/output' >"$U/home/said"
  is "$(tail -n 1 "$U/home/said")" 0
  run ! grep -F "$CANARY" "$U/home/said"
  u 'rmdir $M/a'
}
