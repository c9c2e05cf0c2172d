#!/usr/bin/env bats
# Symlinks that a hostile sandbox makes touch no host file: contract 3. The canary stands beside the
# mount point, where a link that climbs out of it would find it: MNT/demo/workspace is three below.
# shellcheck disable=SC2012,SC2016

load lib/mount
load lib/assert

SECRET=HOST-SECRET-71423

setup() {
  mkdir "$BATS_TEST_TMPDIR/canary"
  echo "$SECRET" >"$BATS_TEST_TMPDIR/canary/secret"
}

# The sandbox, with a decoy where a link that does not climb would end.
box() {
  mount_sbx "$@"
  sandbox demo
  W=$MNT/demo/workspace
  out demo 'mkdir canary; echo decoy > canary/secret' >/dev/null
}

# attack PATH...: reads and writes through each; nothing of the host may come out or change.
attack() {
  local path got
  for path; do
    got=$(
      timeout 20 cat "$W/$path" 2>&1
      timeout 20 ls -la "$W/$path/" 2>&1
      timeout 20 stat -L "$W/$path" 2>&1
    ) || true
    [[ $got != *"$SECRET"* ]] || {
      echo "$path reads the host's file: $got"
      return 1
    }
    (echo pwned >>"$W/$path") 2>/dev/null || true
    (echo pwned >"$W/$path/pwned") 2>/dev/null || true
    timeout 20 chmod 777 "$W/$path" 2>/dev/null || true
    timeout 20 truncate -s 0 "$W/$path" 2>/dev/null || true
    timeout 20 rm -f "$W/$path/secret" 2>/dev/null || true
    unharmed || return 1
  done
}

unharmed() {
  is "$(cat "$BATS_TEST_TMPDIR/canary/secret")" "$SECRET"
  is "$(ls "$BATS_TEST_TMPDIR/canary")" secret
  is "$(stat -c %a "$BATS_TEST_TMPDIR/canary/secret")" 644
}

@test "the attack is one: symlinks=raw follows it to the host" {
  box symlinks=raw
  out demo 'ln -s ../../../canary/secret climb' >/dev/null
  is "$(readlink "$W/climb")" ../../../canary/secret
  is "$(cat "$W/climb")" $SECRET
}

@test "relative links that stay inside are passed as they are, and work" {
  box
  out demo 'mkdir -p a/b; echo x > a/f; ln -s ../f a/b/up; ln -s a/b/up down; ln -s b a/dir; ln -s gone dangling' >/dev/null
  is "$(readlink "$W/a/b/up")" ../f
  is "$(cat "$W/a/b/up")" x
  is "$(cat "$W/down")" x
  is "$(ls "$W/a/dir/")" up
  is "$(readlink "$W/dangling")" gone
  fails_with "No such file" cat "$W/dangling"
  ln -s a/f "$W/mine"
  is "$(out demo 'readlink mine; cat mine')" $'a/f\nx'
  unharmed
}

@test "an absolute link shows the sandbox's file, under .sandboxfs/rootfs" {
  box
  out demo 'ln -s /etc/passwd pw; ln -s /etc etc; echo x > f; ln -s /workspace/f abs' >/dev/null
  has "$(readlink "$W/pw")" .sandboxfs/rootfs/demo/etc/passwd
  [[ $(readlink "$W/pw") != /* ]]
  is "$(cat "$W/pw")" "$(out demo 'cat /etc/passwd')"
  is "$(ls "$W/etc/")" "$(out demo 'ls /etc')"
  is "$(cat "$W/abs")" x
  ln -s /etc/group "$W/made"
  is "$(out demo 'readlink made')" /etc/group
  cp -P "$W/pw" "$W/copy"
  is "$(out demo 'readlink copy')" /etc/passwd
}

@test "absolute and climbing links reach no host file" {
  box
  out demo "ln -s $BATS_TEST_TMPDIR/canary/secret abs; ln -s $BATS_TEST_TMPDIR/canary absdir
    ln -s ../../../canary/secret climb; ln -s ../../../canary climbdir; ln -s ../.. two; ln -s .. one
    mkdir d; ln -s ../../../../canary/secret d/climb; ln -s ../../../../../../../../../../../../etc/shadow far
    ln -s /proc/self/root$BATS_TEST_TMPDIR/canary/secret proc; ln -s /proc/1/root/etc p1
    ln -s ./../../../canary/secret dot; ln -s .//..//..//../canary/secret slashes" >/dev/null
  attack abs absdir climb climbdir d/climb far proc two/../canary/secret one/../../canary/secret dot \
    slashes two/two p1
}

@test "a link through another link cannot climb" {
  box
  out demo 'mkdir -p a/b; ln -s ../.. a/b/s; ln -s a/b/s/../../../canary/secret t
    ln -s a/b/s/../../.. u; ln -s a/b t1; ln -s t1/s/../../../canary v; ln -s . self; ln -s self/self/../../../canary/secret w
    ln -s canary/../../../../canary/secret x' >/dev/null
  attack t u u/canary/secret v v/secret w x
}

@test "a link that is hard-linked at two depths cannot climb" {
  box
  out demo 'mkdir -p a/b/c; ln -s ../../../canary/secret a/b/c/s; ln a/b/c/s h; ln a/b/c/s a/h
    ln -s ../../../canary a/b/c/d; ln a/b/c/d hd' >/dev/null
  is "$(cat "$W/a/b/c/s")" decoy
  attack h a/h hd/secret a/b/c/s h a/h
  attack a/b/c/d/secret hd/secret
}

@test "a directory that the sandbox moves up during a walk cannot climb" {
  local secs=10
  ! short || secs=3
  box
  out demo 'mkdir -p a/b/c/d; ln -s ../../../../canary/secret a/b/c/d/s; ln -s ../../../../canary a/b/c/d/t
    echo here > a/b/c/d/f' >/dev/null
  box_exec -d demo sh -c 'cd /workspace; while :; do mv a/b/c/d d; mv d a/b/c/d; done'
  for i in 1 2 3; do
    timeout 60 python3 - "$W" $secs $SECRET <<'PY' &
import os, sys, time
w, secs, secret = sys.argv[1], float(sys.argv[2]), sys.argv[3]
end = time.time() + secs
reads = 0
while time.time() < end:
    for p in ("d/s", "a/b/c/d/s", "d/t/secret", "a/b/c/d/t/secret"):
        try:
            text = open(w + "/" + p).read()
            reads += 1
        except OSError:
            continue
        assert secret not in text, p
    for d in ("d", "a/b/c/d"):
        try:
            os.chdir(w + "/" + d)
            text = open("s").read()
            assert secret not in text, "cwd " + d
            open("t/pwned", "w").write("x")
        except OSError:
            pass
    os.chdir("/")
if not reads:
    sys.exit("no read succeeded") # so nothing was attacked
PY
    pids[i]=$!
  done
  for i in 1 2 3; do wait "${pids[i]}"; done
  unharmed
}

# errnos [NAME=ERRNO]...: what readlink(2), and a stat and an open that follow the link, say of each; the link itself is there.
errnos() {
  timeout 60 python3 - "$W" "$@" <<'PY'
import errno, os, stat, sys
os.chdir(sys.argv[1])
def err(f, *args):
    try:
        return repr(f(*args))
    except OSError as e:
        return errno.errorcode[e.errno]
for word in sys.argv[2:]:
    name, want = word.split("=")
    assert stat.S_ISLNK(os.lstat(name).st_mode), name
    for f in (os.readlink, os.stat, lambda n: os.open(n, os.O_RDONLY), lambda n: os.open(n, os.O_WRONLY | os.O_CREAT)):
        assert err(f, name) == want, (name, err(f, name))
    assert err(os.stat, name + "/secret") == want, name
PY
}

@test "a link whose text cannot be made safe is EPERM, and can be removed" {
  box
  out demo 'mkdir -p a/b; echo x >f
    ln -s "a/../../.." up; ln -s "a/../f" through; ln -s "../a/.." back; ln -s "a/b/../../../../canary/secret" far
    ln -s "/etc/../etc/passwd" abs; ln -s "a/./../f" dot; ln -s "../../f/../../../../canary/secret" a/b/deep; ln -s f good' >/dev/null
  errnos up=EPERM through=EPERM back=EPERM far=EPERM abs=EPERM dot=EPERM a/b/deep=EPERM
  is "$(readlink "$W/good")$(cat "$W/good")" fx # it is for no reason else
  fails_with "Operation not permitted" cat "$W/far"
  attack up through back far abs dot a/b/deep
  is "$(ls "$W")" $'a\nabs\nback\ncanary\ndot\nf\nfar\ngood\nthrough\nup'
  rm "$W/far"
  is "$(out demo 'readlink up; ls')" $'a/../../..\na\nabs\nback\ncanary\ndot\nf\ngood\nthrough\nup'
}

@test "what the host moves is a link for where it is then" {
  box
  mkdir -p "$W/a/b/c" "$W/d"
  echo x >"$W/f"
  ln -s ../../../../f "$W/d/far"
  ln -s ../../f "$W/up"
  mv "$W/d" "$W/a/b/c/"
  is "$(readlink "$W/a/b/c/d/far")" ../../../../f
  is "$(cat "$W/a/b/c/d/far")" x
  mv "$W/up" "$W/a/b/"
  is "$(cat "$W/a/b/up")" x
  is "$(readlink "$W/a/b/up")" ../../f
  mv "$W/a/b/c/d" "$W/"
  has "$(readlink "$W/d/far")" .sandboxfs/rootfs/demo/f
  unharmed
}

@test "absolute links work in a directory that the host moved to the other tree, and back" {
  box
  out demo 'mkdir d; ln -s /etc/passwd d/pw; mkdir /elsewhere' >/dev/null
  is "$(cat "$W/d/pw")" "$(out demo 'cat /etc/passwd')"
  mv "$W/d" "$MNT/demo/rootfs/elsewhere/"
  out demo 'test -L /elsewhere/d/pw' >/dev/null
  is "$(cat "$MNT/demo/rootfs/elsewhere/d/pw")" "$(out demo 'cat /etc/passwd')"
  mv "$MNT/demo/rootfs/elsewhere/d" "$W/e"
  is "$(cat "$W/e/pw")" "$(out demo 'cat /etc/passwd')"
  unharmed
}

@test "symlinks=deny follows none" {
  box symlinks=deny
  out demo "echo x > f; ln -s f rel; ln -s $BATS_TEST_TMPDIR/canary/secret abs; ln -s ../../../canary/secret climb" >/dev/null
  errnos rel=EPERM abs=EPERM climb=EPERM
  attack rel abs climb
  is "$(cat "$W/f")" x
  rm "$W/abs"
  is "$(out demo 'ls')" $'canary\nclimb\nf\nrel'
}
