#!/usr/bin/env bats
# Programs that nobody wrote with us in mind, on the mount and in the sandbox: contract 3. Each is
# checked for what it is to achieve. `SBX_LOCAL=1 bats tests/programs.bats` runs the same on a local
# file system, to check the tests.
# shellcheck disable=SC2012,SC2016

load lib/mount
load lib/assert
load lib/local

setup_file() {
  sbx_image_debian
}

setup() {
  LIB=$BATS_TEST_DIRNAME/lib
  TMP=$BATS_TEST_TMPDIR
  template deb '{"image": "debian:test"}'
  unset "${!GIT_@}" "${!PIP_@}" VIRTUAL_ENV
  export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=$TMP/gitconfig
  printf '[user]\nname = t\nemail = t@localhost\n[init]\ndefaultBranch = main\n' >"$GIT_CONFIG_GLOBAL"
}

# box [OPTIONS...]: a mount from which programs may run, a Debian sandbox in it; W is its workspace, whose
# directory lib/ has the python programs of tests/lib.
box() {
  mount_sbx "templates=$TEMPLATES" exec "$@"
  sandbox deb@box
  W=$MNT/deb@box/workspace
  mkdir "$W/lib"
  cp "$LIB"/*.py "$W/lib/"
}

# in_box TEXT: runs it inside, and prints what it printed; fails as it does.
in_box() {
  out deb@box "$1"
}

# same_tree A B: by all that tests/lib/sametree.py compares.
same_tree() {
  python3 "$LIB/sametree.py" "$1" "$2"
}

# same_inside TREE NAME: the workspace's NAME, as seen inside, is TREE.
same_inside() {
  in_box "python3 lib/sametree.py --list '$2'" >"$TMP/inside.list" && same_tree "$1" "$TMP/inside.list"
}

# --- git -----------------------------------------------------------------------------------------

# repository DIR: 20 commits of a tree with a program, a link, and bytes.
repository() {
  local i
  git init -q "$1"
  for i in {1..20}; do
    mkdir -p "$1/dir$((i % 5))/sub"
    seq $((i * 50)) >"$1/dir$((i % 5))/sub/file$i"
    head -c 30000 /dev/urandom >"$1/binary"
    printf '#!/bin/sh\necho %d\n' "$i" >"$1/run"
    chmod 755 "$1/run"
    ln -sfn "dir$((i % 5))" "$1/newest"
    git -C "$1" add -A
    git -C "$1" commit -q -m "source $i"
  done
}

# clean REPO: git finds nothing changed, and the files are those of the commit.
clean() {
  is "$(git -C "$1" status --porcelain)" "" && git -C "$1" diff --quiet HEAD
}

# commits REPO N: N commits on the branch that is there.
commits() {
  local i
  for ((i = 1; i <= $2; i++)); do
    echo "line $i" >>"$1/file$((i % 10))"
    if ((i <= 10 || i % 10 == 0)); then
      echo $i >"$1/new$i"
      git -C "$1" add -A
    fi
    git -C "$1" commit -q -a -m "commit $i"
  done
}

# bats test_tags=not:bwrap-user
@test "scripts/make-base-image: a shell, coreutils, git, python3 and make; words where there is no engine" {
  box
  in_box 'for p in sh ls git python3 make cc; do command -v $p || exit 1; done'
  in_box 'git --version && python3 -c "print(1)" && make --version && ls --version'
  fails "$SBX_TOP/scripts/make-base-image" --host unix:///nonexistent/socket
  has "$FAIL_WORDS" 'no engine answers on unix:///nonexistent/socket'
  fails "$SBX_TOP/scripts/make-base-image" --host nowhere
  has "$FAIL_WORDS" 'neither unix:///PATH nor tcp://NAME:PORT'
  rmdir "$MNT/deb@box"
}

# bats test_tags=only:docker
@test "scripts/make-base-image makes an image that a sandbox starts from" {
  "$SBX_TOP/scripts/make-base-image" --host "unix://$SBX_ENGINE/docker.sock" made:test
  template made '{"image": "made:test", "pull_policy": "never"}'
  mount_sbx "templates=$TEMPLATES"
  is "$(mkdir "$MNT/made@box" && out made@box 'python3 -c "print(6 * 7)"')" 42
  rmdir "$MNT/made@box"
  wait_for 60 no_containers
  dk rmi made:test
}

@test "git: clone, 200 commits, branches, gc, fsck; host and sandbox agree" {
  local n=200 i repo
  ! short || n=40
  box
  repo=$W/repo
  repository "$TMP/src"
  git clone -q --no-local "$TMP/src" "$repo"
  is "$(git -C "$repo" rev-parse HEAD)" "$(git -C "$TMP/src" rev-parse HEAD)"
  clean "$repo"
  diff -r --exclude .git "$TMP/src" "$repo"

  commits "$repo" $n
  is "$(git -C "$repo" rev-list --count HEAD)" $((n + 20))
  clean "$repo"

  git -C "$repo" switch -q -c side HEAD~$((n / 2))
  echo side >"$repo/side"
  git -C "$repo" rm -q -r dir1
  git -C "$repo" add -A
  git -C "$repo" commit -q -m side
  for i in {1..5}; do
    git -C "$repo" switch -q main
    clean "$repo"
    [[ -d $repo/dir1/sub && ! -e $repo/side ]]
    is "$(wc -l <"$repo/file1")" $((n / 10))
    git -C "$repo" switch -q side
    clean "$repo"
    [[ ! -e $repo/dir1 && -e $repo/side ]]
    is "$(wc -l <"$repo/file1")" $((n / 20))
  done
  git -C "$repo" switch -q main
  git -C "$repo" merge -q -m merge side
  clean "$repo"
  [[ ! -e $repo/dir1 && -e $repo/side ]]

  git -C "$repo" gc -q --prune=now
  is "$(git -C "$repo" count-objects)" "0 objects, 0 kilobytes"
  is "$(ls "$repo"/.git/objects/pack/*.pack | wc -l)" 1
  git -C "$repo" fsck --strict --full
  git clone -q --no-local "$repo" "$TMP/back"
  is "$(git -C "$TMP/back" log --format=%H%s)" "$(git -C "$repo" log --format=%H%s)"
  git -C "$TMP/back" fsck --strict --full

  # The same repository, used inside, and then outside again.
  is "$(in_box 'cd repo && git fsck --strict --full 2>&1; git status --porcelain; git rev-list --count HEAD')" $((n + 22))
  in_box 'cd repo && git config user.name t && git config user.email t@localhost && for i in 1 2 3 4 5 6 7 8 9 10; do
    echo $i >> inside; git add -A && git commit -q -m "inside $i" || exit 1; done; git switch -q side'
  clean "$repo"
  is "$(git -C "$repo" symbolic-ref --short HEAD)" side
  [[ ! -e $repo/inside ]]
  git -C "$repo" switch -q main
  clean "$repo"
  is "$(tail -n 1 "$repo/inside")" 10
  is "$(git -C "$repo" rev-list --count HEAD)" $((n + 32))
  git -C "$repo" fsck --strict --full
}

# --- sqlite --------------------------------------------------------------------------------------

# two_sides MODE: a writer outside and a writer inside, at once.
two_sides() {
  local n=300 inside=0 outside=0
  ! short || n=60
  box
  python3 "$LIB/sqlwriter.py" init "$W/db" "$1"
  in_box "python3 lib/sqlwriter.py write db $1 sandbox $n 2" >"$TMP/inside" 2>&1 3>&- &
  python3 "$LIB/sqlwriter.py" write "$W/db" "$1" host $n 2 || outside=$?
  wait $! || inside=$?
  cat "$TMP/inside"
  python3 "$LIB/sqlwriter.py" check "$W/db" host=$n sandbox=$n
  is "$(in_box "sqlite3 db 'pragma integrity_check; select count(*), (select n from total) from row'")" \
    $'ok\n'"$((2 * n))|$((2 * n))"
  in_box "python3 lib/sqlwriter.py check db host=$n sandbox=$n"
  is "$outside $inside" "0 0"
}

@test "sqlite, journal_mode=delete: host and sandbox write at once, no row is lost" {
  two_sides delete
}

@test "sqlite, journal_mode=truncate: host and sandbox write at once, no row is lost" {
  two_sides truncate
}

@test "sqlite, journal_mode=persist: host and sandbox write at once, no row is lost" {
  two_sides persist
}

@test "sqlite, WAL: two writers, both on the host" {
  local n=300 first=0 second=0
  ! short || n=60
  box
  python3 "$LIB/sqlwriter.py" init "$W/db" wal
  python3 "$LIB/sqlwriter.py" write "$W/db" wal one $n 2 >"$TMP/one" 2>&1 3>&- &
  python3 "$LIB/sqlwriter.py" write "$W/db" wal two $n 2 || second=$?
  wait $! || first=$?
  cat "$TMP/one"
  is "$first $second" "0 0"
  python3 "$LIB/sqlwriter.py" check "$W/db" one=$n two=$n
  # Closed outside; now it is the other side's turn.
  in_box "python3 lib/sqlwriter.py check db one=$n two=$n"
}

@test "sqlite, WAL: two writers, both in the sandbox" {
  local n=300
  ! short || n=60
  box
  in_box "python3 lib/sqlwriter.py init db wal
    python3 lib/sqlwriter.py write db wal one $n 2 & p=\$!
    python3 lib/sqlwriter.py write db wal two $n 2 || exit 1
    wait \$p || exit 1
    python3 lib/sqlwriter.py check db one=$n two=$n"
  python3 "$LIB/sqlwriter.py" check "$W/db" one=$n two=$n
}

# --- make ----------------------------------------------------------------------------------------

# built: what make says it did, sorted on one line.
built() {
  sort | tr '\n' ' '
}

# group N: what a change of the header g<N>.h rebuilds.
group() {
  local i
  { for ((i = $1; i < 60; i += 6)); do echo "CC m$i"; done && echo 'LD program'; } | built
}

@test "make -j4 from the host: builds, runs, rebuilds just what must be" {
  local p
  box
  p=$W/project
  python3 "$LIB/cproject.py" new "$p"
  is "$(make -s -C "$p" -j4 | wc -l)" 62
  is "$("$p/program")" "$(cat "$p/expect")"
  is "$(make -s -C "$p" -j4)" ""
  touch "$p/include/m7.h"
  is "$(make -s -C "$p" -j4 | built)" "CC m7 CC m8 CC main LD program "
  python3 "$LIB/cproject.py" set "$p" 2 4711
  is "$(make -s -C "$p" -j4 | built)" "$(group 2)"
  is "$("$p/program")" "$(cat "$p/expect")"
  rm "$p/obj/m30.o"
  is "$(make -s -C "$p" -j4 | built)" "CC m30 LD program "
  touch "$p/include/common.h"
  is "$(make -s -C "$p" -j4 | wc -l)" 62
  # Built outside, run and continued inside; changed inside, continued outside.
  is "$(in_box 'cd project && make -s -j4; ./program')" "$(cat "$p/expect")"
  in_box 'python3 lib/cproject.py set project 5 99'
  is "$(make -s -C "$p" -j4 | built)" "$(group 5)"
  is "$("$p/program")" "$(cat "$p/expect")"
  make -s -C "$p" clean
  is "$(in_box 'ls project')" $'Makefile\nexpect\ninclude\nsrc'
}

@test "make -j4 inside: builds, runs, rebuilds just what must be" {
  local p
  box
  p=$W/project
  in_box 'python3 lib/cproject.py new project'
  is "$(in_box 'make -s -C project -j4' | wc -l)" 62
  is "$(in_box 'project/program')" "$(cat "$p/expect")"
  is "$("$p/program")" "$(cat "$p/expect")"
  is "$(in_box 'make -s -C project -j4')" ""
  is "$(make -s -C "$p" -j4)" ""
  # Changed outside, rebuilt inside.
  touch "$p/include/m7.h"
  is "$(in_box 'make -s -C project -j4' | built)" "CC m7 CC m8 CC main LD program "
  python3 "$LIB/cproject.py" set "$p" 2 4711
  is "$(in_box 'make -s -C project -j4' | built)" "$(group 2)"
  is "$(in_box 'project/program')" "$(cat "$p/expect")"
  is "$("$p/program")" "$(cat "$p/expect")"
  in_box 'rm project/obj/m30.o'
  is "$(make -s -C "$p" -j4 | built)" "CC m30 LD program "
}

# --- trees ---------------------------------------------------------------------------------------

# tar_to FROM TO: a tree by tar, with all that tar knows. It must have nothing to complain of.
tar_to() {
  mkdir -p "$2"
  tar -C "$1" --format=posix --xattrs --acls --numeric-owner -S -c . 2>"$TMP/packing" |
    tar -C "$2" --warning=no-timestamp --xattrs --acls --numeric-owner -p -x 2>"$TMP/unpacking"
  head -n 10 "$TMP/packing" "$TMP/unpacking"
  is "$(cat "$TMP/packing" "$TMP/unpacking" | wc -l)" 0
}

# bats test_tags=not:bwrap-user
@test "tar there and back: the tree is the same on the mount, inside, and at home again" {
  box
  python3 "$LIB/maketree.py" "$TMP/src"
  tar_to "$TMP/src" "$W/tree"
  same_tree "$TMP/src" "$W/tree"
  same_inside "$TMP/src" tree
  tar_to "$W/tree" "$TMP/back"
  same_tree "$TMP/src" "$TMP/back"
}

# rsync_all ARGS...: with all that rsync knows; times are compared to the nanosecond.
rsync_all() {
  rsync -aHAXS --numeric-ids --modify-window=-1 "$@"
}

# bats test_tags=not:bwrap-user
@test "rsync -aHAX there and back: the tree is the same on the mount, inside, and at home again" {
  box symlinks=raw
  python3 "$LIB/maketree.py" "$TMP/src" all
  rsync_all "$TMP/src/" "$W/tree/"
  same_tree "$TMP/src" "$W/tree"
  same_inside "$TMP/src" tree
  # Nothing is left to do, not even for who compares bytes.
  is "$(rsync_all --checksum --delete --itemize-changes "$TMP/src/" "$W/tree/")" ""
  rsync_all "$W/tree/" "$TMP/back/"
  same_tree "$TMP/src" "$TMP/back"
  # A small change goes over alone.
  echo more >>"$TMP/src/large"
  rm "$TMP/src/d1/sub1/f1"
  is "$(rsync_all --delete --out-format='%o %n' "$TMP/src/" "$W/tree/" | grep -v '/$' | sort)" \
    $'del. d1/sub1/f1\nsend large'
  same_tree "$TMP/src" "$W/tree"
}

# bats test_tags=not:bwrap-user
@test "tar and rsync inside make trees that are the same outside" {
  box
  in_box 'python3 lib/maketree.py tree && python3 lib/sametree.py --list tree > list &&
    rsync -aHAXS --numeric-ids --modify-window=-1 tree/ rsynced/ && mkdir tarred && tar -C tree --xattrs --acls -S -c . |
    tar -C tarred --warning=no-timestamp --xattrs --acls -p -x'
  same_tree "$W/list" "$W/tree"
  same_tree "$W/list" "$W/rsynced"
  same_tree "$W/list" "$W/tarred"
}

# bats test_tags=not:bwrap-user
@test "cp -a and mv: within a sandbox, there and back, from one sandbox to another" {
  local src=$TMP/src ino
  box
  sandbox deb@other
  python3 "$LIB/maketree.py" "$src"
  python3 "$LIB/sametree.py" --list "$src" >"$TMP/list"
  cp -a "$src" "$W/copy"
  same_tree "$TMP/list" "$W/copy"
  cp -a "$W/copy" "$W/copy2"
  same_tree "$TMP/list" "$W/copy2"
  same_inside "$TMP/list" copy2
  cp -a "$W/copy2" "$TMP/back"
  same_tree "$TMP/list" "$TMP/back"
  in_box 'cp -a copy copy3'
  same_tree "$TMP/list" "$W/copy3"

  ino=$(stat -c %i "$W/copy/large")
  mkdir "$W/into"
  mv "$W/copy" "$W/into/moved"
  [[ ! -e $W/copy ]]
  is "$(stat -c %i "$W/into/moved/large")" "$ino"
  same_tree "$TMP/list" "$W/into/moved"
  mv "$W/into/moved" "$MNT/deb@other/workspace/arrived"
  is "$(ls "$W/into")" ""
  same_tree "$TMP/list" "$MNT/deb@other/workspace/arrived"
  mv "$MNT/deb@other/workspace/arrived" "$TMP/home"
  is "$(ls -A "$MNT/deb@other/workspace")" ""
  same_tree "$TMP/list" "$TMP/home"
  mv "$TMP/home" "$W/last"
  [[ ! -e $TMP/home ]]
  same_tree "$TMP/list" "$W/last"
}

# bats test_tags=not:bwrap-user
@test "find and du say the same outside and inside" {
  local format='%P|%y|%m|%n|%U:%G|%T@|%l|%b|'
  box
  python3 "$LIB/maketree.py" "$TMP/src"
  cp -a "$TMP/src" "$W/tree"
  is "$(cd "$W" && find tree -printf "$format\n" | sort)" "$(in_box "find tree -printf '$format\n' | sort")"
  is "$(cd "$W" && find tree -type f -size +20k -newermt 2020-01-01 -print0 | sort -z | sha256sum)" \
    "$(cd "$TMP" && find src -type f -size +20k -newermt 2020-01-01 -print0 | sed -z 's/^src/tree/' | sort -z | sha256sum)"
  is "$(find "$W/tree" -xdev -samefile "$W/tree/links/a" -printf '%f\n' | sort | tr '\n' ' ')" "a b c "
  is "$(cd "$W" && du -s tree)" "$(in_box 'du -s tree')"
  is "$(cd "$W" && du -s --apparent-size -B1 tree)" "$(in_box 'du -s --apparent-size -B1 tree')"
  is "$(cd "$W" && du -a --count-links tree | sort -k 2)" "$(in_box 'du -a --count-links tree | sort -k 2')"
  # 43 MiB of size in less than 2 of blocks.
  (($(du -sm "$W/tree/sparse" | cut -f 1) <= 3))
  find "$W/tree" -name 'f*' -type f -delete
  is "$(in_box "find tree -name 'f*' -type f")" ""
  rm -rf "$W/tree"
  is "$(in_box 'ls')" lib
}

# --- npm, python ---------------------------------------------------------------------------------

# online CMD...: up to three times, since a registry may not answer at once.
online() {
  "$@" || { sleep 10 && "$@"; } || { sleep 30 && "$@"; }
}

@test "npm install of real packages on the mount; node runs them from there" {
  local app n
  box
  app=$W/app
  mkdir "$app"
  cd "$app"
  export npm_config_cache=$TMP/npm npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
  export npm_config_prefer_offline=true npm_config_fetch_retries=5
  npm init -y >/dev/null
  online npm install --no-progress chalk@4.1.2 rimraf@3.0.2 semver@7.5.4
  npm ls --all
  n=$(find node_modules -name package.json | wc -l)
  ((n >= 15))
  is "$(node -e 'const c = require("chalk"); console.log(new c.Instance({level: 1}).red("x") === "\x1b[31mx\x1b[39m",
    require("semver").inc("1.2.3", "minor"), require(process.cwd() + "/package.json").dependencies.rimraf)')" \
    "true 1.3.0 ^3.0.2"
  is "$(readlink node_modules/.bin/semver)" ../semver/bin/semver.js
  is "$(node_modules/.bin/semver -i patch 1.2.3)" 1.2.4
  # Again from the lock file: npm removes node_modules and makes it anew.
  online npm ci --no-progress
  is "$(find node_modules -name package.json | wc -l)" "$n"
  mkdir -p victim/deep
  node -e 'require("rimraf").sync("victim")'
  [[ ! -e victim ]]
  is "$(in_box 'ls app/node_modules | sort | tr "\n" " "')" "$(ls node_modules | sort | tr '\n' ' ')"
  npm uninstall --no-progress chalk
  [[ ! -e node_modules/chalk && ! -e node_modules/ansi-styles && -e node_modules/semver ]]
  is "$(in_box 'ls app/node_modules | sort | tr "\n" " "')" "$(ls node_modules | sort | tr '\n' ' ')"
  cd /
}

# wheel DIR: a package to install without a network, with a command.
wheel() {
  python3 - "$1" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + "/greet-1.0-py3-none-any.whl", "w") as z:
    z.writestr("greet/__init__.py", "def main():\n    print('greetings')\n")
    z.writestr("greet-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n")
    z.writestr("greet-1.0.dist-info/WHEEL",
               "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    z.writestr("greet-1.0.dist-info/entry_points.txt", "[console_scripts]\ngreet = greet:main\n")
    z.writestr("greet-1.0.dist-info/RECORD", "")
PY
}

@test "a python venv made on the mount runs on the host; one made inside runs inside" {
  box
  if short; then # pip is a thousand files
    python3 -m venv --copies --without-pip "$W/outer"
    is "$("$W/outer/bin/python" -c 'import sys; print(sys.prefix)')" "$W/outer"
    is "$(in_box 'python3 -m venv --without-pip inner && inner/bin/python -c "import sys; print(sys.prefix)"')" \
      /workspace/inner
    return
  fi
  wheel "$W"
  python3 -m venv --copies "$W/outer"
  is "$("$W/outer/bin/python" -c 'import sys; print(sys.prefix != sys.base_prefix and sys.prefix)')" "$W/outer"
  "$W/outer/bin/python" -m pip install -q --no-index --disable-pip-version-check "$W/greet-1.0-py3-none-any.whl"
  is "$("$W/outer/bin/greet")" greetings
  has "$("$W/outer/bin/pip" list --disable-pip-version-check)" greet
  in_box 'python3 -m venv inner && inner/bin/pip install -q --no-index --disable-pip-version-check ./greet-1.0-py3-none-any.whl'
  is "$(in_box 'inner/bin/greet; inner/bin/python -c "import sys; print(sys.prefix)"')" $'greetings\n/workspace/inner'
  # What python compiled inside is there outside.
  is "$(find "$W/inner/lib" -name '*.pyc' | sed "s|^$W/||" | sort | sha256sum)" \
    "$(in_box "find inner/lib -name '*.pyc' | sort | sha256sum")"
  "$W/outer/bin/pip" uninstall -q -y greet
  [[ ! -e $W/outer/bin/greet ]]
}

# --- editors, logs -------------------------------------------------------------------------------

@test "an editor's save by rename is seen inside at once" {
  local i n=60
  ! short || n=15
  box
  echo start >"$W/text"
  for ((i = 1; i <= n; i++)); do
    python3 - "$W/text" "outer $i" <<'PY'
import os, sys
name, text = sys.argv[1:]
tmp = name + ".tmp"
fd = os.open(tmp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
os.write(fd, text.encode() + b"\n")
os.fsync(fd)
os.close(fd)
if os.path.exists(name + "~"):
    os.unlink(name + "~")
os.link(name, name + "~")  # the backup is the old file itself
assert os.stat(name).st_nlink == 2
os.rename(tmp, name)
assert os.stat(name).st_nlink == 1 and os.stat(name + "~").st_nlink == 1
fd = os.open(os.path.dirname(name), os.O_RDONLY | os.O_DIRECTORY)
os.fsync(fd)
os.close(fd)
PY
    is "$(in_box 'cat text; stat -c %h text text~; ls | tr "\n" " "')" \
      "outer $i"$'\n1\n1\nlib text text~ '
    ((i == 1)) || is "$(in_box 'cat text~')" "inner $((i - 1))"
    # As vim does where it may: the old file is renamed, the new one written in its place, then the old one goes.
    in_box "mv text text.old && echo 'inner $i' > text && sync text && rm text.old text~ && ln text text~"
    is "$(cat "$W/text" "$W/text~")" "inner $i"$'\n'"inner $i"
    is "$(stat -c %h "$W/text")" 2
    is "$(ls "$W" | tr '\n' ' ')" "lib text text~ "
  done
  # sed and perl save in the same way.
  sed -i 's/inner/changed/' "$W/text"
  is "$(in_box 'cat text text~')" "changed $n"$'\n'"inner $n"
  in_box "sed -i 's/changed/changed again/' text"
  is "$(cat "$W/text")" "changed again $n"
  perl -pi.bak -e 's/again/twice/' "$W/text"
  is "$(in_box 'cat text text.bak')" "changed twice $n"$'\n'"changed again $n"
}

# bats test_tags=not:bwrap-user
@test "with allow_other other users' groups count, all thousand, and access lists that setfacl has just changed" {
  local i as
  box allow_other
  as=(env -C "$W" setpriv --reuid 4242 --regid 4242) # into the directory first, which is not theirs to enter
  in_box 'echo text > f; chmod 640 f; cp f g; chown 0:5999 g; chmod 060 g'
  is "$("${as[@]}" --groups "$(seq -s , 5000 5999)" cat g)" text
  fails_with "Permission denied" "${as[@]}" --groups "$(seq -s , 5000 5998)" cat g
  for i in 1 2 3 4 5; do
    in_box 'setfacl -m u:4242:r f'
    is "$("${as[@]}" --clear-groups cat f)" text
    # Nothing that stat shows is different, but for a time.
    in_box 'setfacl -m u:4242:- f'
    fails_with "Permission denied" "${as[@]}" --clear-groups cat f
  done
  is "$(stat -c %a "$W/f")" 640
}

# followed: the middle one of the times, in ms, that tail was behind
followed() {
  : >"$W/log"
  # Each line is the time at which it was written.
  ex deb@box 'for i in 1 2 3 4 5 6 7 8; do sleep 0.37; date +%s.%N >> log; done
    exec >> log; for i in 1 2 3 4 5; do sleep 0.29; date +%s.%N; done; mv log log.1; date +%s.%N > log; sleep 3' 3>&- &
  python3 - "$W/log" <<'PY' || return 1
import subprocess, sys, time
tail = subprocess.Popen(["tail", "-n", "+1", "-F", "--max-unchanged-stats=1", sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
lags = []
try:
    for line in tail.stdout:
        lags.append(time.time() - float(line))
        if len(lags) == 14:
            break
finally:
    tail.kill()
    tail.wait()
print("seconds behind:", " ".join(f"{lag:.2f}" for lag in lags), file=sys.stderr)
assert len(lags) == 14, lags
if max(lags) >= 60: sys.exit("too late")
print(int(1000 * sorted(lags[:13])[6]))
PY
  wait $!
}

@test "tail -f follows what the sandbox writes" {
  local median pid
  box
  # As anybody types it.
  echo 1 >"$W/plain"
  timeout 120 tail -f "$W/plain" >"$TMP/followed" 3>&- &
  pid=$!
  wait_for 90 grep -qx 1 "$TMP/followed"
  in_box 'for i in 2 3 4; do echo $i >> plain; done'
  wait_for 90 grep -qx 4 "$TMP/followed"
  kill $pid
  wait $pid || true
  is "$(tr '\n' ' ' <"$TMP/followed")" "1 2 3 4 "
  # tail looks once a second where it has no inotify, and for a new file of that name in the second after; a busy
  # machine may make them late, but not each time.
  for _ in {1..6}; do
    median=$(followed)
    is "$(wc -l <"$W/log.1") $(wc -l <"$W/log")" "13 1"
    ((median >= 1200)) || break
  done
  ((median < 1200))
}

# --- a full disk, and fsync ----------------------------------------------------------------------

# full KIND OPTIONS: a workspace of that size, filled from the host and from the sandbox.
full() {
  template small "{\"image\": \"debian:test\", \"tmpfs\": \"/workspace:$2\"}"
  box
  sandbox small@full
  local f=$MNT/small@full/workspace
  python3 "$LIB/fulldisk.py" "$1" "$f" >"$TMP/sums"
  (($(wc -l <"$TMP/sums") > 10))
  (cd "$f" && sha256sum --quiet -c "$TMP/sums")
  # By another way than ours, and with no cache of ours: the sandbox's own.
  is "$(out small@full 'sha256sum * | sort')" \
    "$(cd "$f" && sha256sum -- * | sort)"
  is "$(out small@full 'sha256sum * | sort' | comm -13 - <(sort "$TMP/sums"))" ""
  (cd "$f" && rm -f -- *)
  is "$(out small@full 'ls -A')" ""
}

@test "a full disk: ENOSPC, nothing lost without a word, what was there stays" {
  full bytes size=6m
  local f=$MNT/small@full/workspace
  head -c 9000000 /dev/urandom >"$TMP/big"
  # As users meet it.
  fails_with "No space left on device" cp "$TMP/big" "$f/big"
  rm -f "$f/big"
  fails_with "No space left on device" dd if="$TMP/big" of="$f/big" bs=64k conv=fsync
  rm -f "$f/big"
  fails_with "No space left on device" rsync "$TMP/big" "$f/"
  is "$(out small@full 'ls')" "" # rsync removes what it could not finish
  fails tar -C "$f" -xf <(tar -C "$TMP" -c big) # in words of its own
  rm -f "$f/big"
  head -c 4000000 "$TMP/big" >"$f/fits"
  # Filled by the sandbox, met by the host.
  ex small@full 'cat /dev/zero > zero'
  has "$(cat "$MNT/small@full/ctl/stderr")" "No space left on device"
  fails_with "No space left on device" cp "$TMP/big" "$f/big"
  cmp -n 4000000 "$TMP/big" "$f/fits"
  is "$(out small@full 'rm -f zero big; sha256sum <fits')" "$(head -c 4000000 "$TMP/big" | sha256sum)"
  is "$(stat -f -c '%b * %S' "$f" | { read -r e && echo $((e)); })" 6291456
}

# bats test_tags=not:podman,not:bwrap,not:bwrap-user
@test "no inodes left: ENOSPC, nothing half made, what was there stays" {
  full inodes size=6m,nr_inodes=64
}

# place FILE: `memory` while bytes of it wait in the memory of the file system that holds it (it has
# given them no place on its disk yet: that is what FIEMAP's flag DELALLOC says), then `disk`.
place() {
  python3 - "$1" <<'PY'
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
request = bytearray(struct.pack("=QQIIII", 0, 2**64 - 1, 0, 0, 100, 0) + bytes(100 * 56))
fcntl.ioctl(fd, 0xC020660B, request)
count = struct.unpack_from("=I", request, 20)[0]
assert count > 0, "no extents"
flags = [struct.unpack_from("=I", request, 32 + 56 * i + 40)[0] for i in range(count)]
print("memory" if any(f & 4 for f in flags) else "disk")
PY
}

# stored HOW: writes the workspace's file HOW anew, and asks for it to be stored in that way.
stored() {
  rm -f "$W/$1"
  python3 - "$W/$1" "$1" <<'PY'
import mmap, os, sys
name, how = sys.argv[1:]
fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | (getattr(os, how) if how.startswith("O_") else 0), 0o644)
data = os.urandom(300000)
if how == "msync":
    os.ftruncate(fd, len(data))
    m = mmap.mmap(fd, len(data))
    m[:] = data
    m.flush()
else:
    assert os.write(fd, data) == len(data)
if how in ("fsync", "fdatasync"):
    getattr(os, how)(fd)
PY
}

# Where nobody asks, bytes wait; unless somebody else on this machine calls sync just then.
waits() {
  stored none && [[ $(place "$ROOT/none") == memory ]]
}

@test "fsync, fdatasync, O_SYNC, O_DSYNC and msync reach the container's disk" {
  local how
  box
  # The container's own view, not through us.
  ROOT=/proc/$(box_pid deb@box)/root/workspace
  wait_for 120 waits # or the test could not tell
  for how in fsync fdatasync O_SYNC O_DSYNC msync; do
    stored $how
    is "$how: $(place "$ROOT/$how")" "$how: disk"
    same "$W/$how" "$ROOT/$how"
  done
  wait_for 120 waits
  sync "$W/none"
  is "$(place "$ROOT/none")" disk
  mkdir "$W/dir"
  sync "$W/dir"
}

@test "a package is installed and removed with the default capabilities" {
  local pkg=$TMP/pkg
  box
  mkdir -p "$pkg"/{DEBIAN,usr/bin,var/lib/sbxpkg}
  printf '%s\n' 'Package: sbxpkg' 'Version: 1' 'Architecture: all' 'Maintainer: t <t@localhost>' 'Description: t' >"$pkg/DEBIAN/control"
  printf '#!/bin/sh\nset -e\nchown games:mail /var/lib/sbxpkg\nchmod 2750 /var/lib/sbxpkg\n' >"$pkg/DEBIAN/postinst"
  printf '#!/bin/sh\necho installed\n' >"$pkg/usr/bin/sbxpkg"
  chmod 755 "$pkg/DEBIAN/postinst"
  chmod 4755 "$pkg/usr/bin/sbxpkg"
  dpkg-deb --root-owner-group -b "$pkg" "$W/sbxpkg.deb" >/dev/null
  is "$(in_box 'dpkg -i sbxpkg.deb >/dev/null && sbxpkg && stat -c "%U:%G %a" /var/lib/sbxpkg /usr/bin/sbxpkg')" \
    $'installed\ngames:mail 2750\nroot:root 4755'
  is "$(in_box 'dpkg -r sbxpkg >/dev/null && ls /usr/bin/sbxpkg 2>&1 || echo gone')" \
    $'ls: cannot access \'/usr/bin/sbxpkg\': No such file or directory\ngone'
}

@test "a command that has made its pipe larger ends with all that it printed" {
  local i
  box
  for i in 1 2 3; do
    is "$(in_box "python3 -c 'import fcntl, os
fcntl.fcntl(1, 1031, 1 << 20) # F_SETPIPE_SZ
for i in range(5000): os.write(1, b\"%d\\n\" % i)'" | cksum)" "$(seq 0 4999 | cksum)"
  done
}
