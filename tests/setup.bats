#!/usr/bin/env bats
# x-sandboxfs in a template: what is there before a sandbox serves, and what runs at its start and end.
# shellcheck disable=SC2016

load lib/mount
load lib/assert

# told NAME EVENT [KEY]: that value (or the name) of each such event of one sandbox.
told() {
  jq -r --arg s "$1" --arg e "$2" --arg k "${3:-event}" \
    'select(.sandbox == $s and .event == $e) | .[$k]' "$MNT/.sandboxfs/events" | xargs
}

@test "files, users and groups of a template are there before anything runs" {
  local host=$BATS_TEST_TMPDIR/host
  mkdir -p "$host/tree/sub"
  printf 'from the host\n' >"$host/file"
  head -c 3000000 /dev/urandom >"$host/tree/sub/big"
  ln -s sub/big "$host/tree/link"
  chmod 751 "$host/tree/sub"
  chmod 640 "$host/file"
  template dev '{"image": "busybox:test", "user": "dev", "x-sandboxfs": {
    "groups": [{"name": "crew", "gid": 3000}, "user"],
    "users": [{"name": "dev", "uid": 1500, "groups": ["crew", "2000"]}, {"name": "user", "uid": 1000}, "robot",
      {"name": "op", "uid": 1600, "gid": 3000, "home": "/srv/op", "shell": "/bin/ash"}],
    "files": {
      "/etc/motd": "hello\n",
      "/home/dev/.config/tool/rc": {"content": "x = 1\n", "mode": "0600", "owner": "dev"},
      "/workspace/empty": {"content": "", "mode": "4711", "owner": "1000:3000"},
      "/etc/hostname": "renamed\n",
      "/opt/file": {"source": "'"$host"'/file"},
      "/opt/tree": {"source": "'"$host"'/tree", "owner": "robot"}}}}'
  mount_sbx "templates=$TEMPLATES,allow_binds=$host"
  sandbox dev@demo
  is "$(out dev@demo 'id -un; id -u; id -G; echo $HOME; id -u robot; grep -c ^user: /etc/passwd')" \
    $'dev\n1500\n1500 2000 3000\n/home/dev\n1001\n1'
  is "$(out dev@demo 'grep ^op: /etc/passwd; stat -c "%U %g" /srv/op')" $'op:x:1600:3000::/srv/op:/bin/ash\nop 3000'
  is "$(out dev@demo 'cat /etc/motd /etc/hostname ~/.config/tool/rc; stat -c "%a %U %n" ~ ~/.config ~/.config/tool/rc')" \
    $'hello\nrenamed\nx = 1\n755 dev /home/dev\n755 dev /home/dev/.config\n600 dev /home/dev/.config/tool/rc'
  is "$(out dev@demo 'stat -c "%a %u:%g %s" /workspace/empty; stat -c "%a %U %n" /workspace /opt/file')" \
    $'4711 1000:3000 0\n755 dev /workspace\n640 root /opt/file'
  is "$(out dev@demo 'stat -c "%a %U" /opt/tree/sub /opt/tree/sub/big; readlink /opt/tree/link')" \
    $'751 robot\n644 robot\nsub/big'
  same "$host/tree/sub/big" "$MNT/.sandboxfs/rootfs/dev@demo/opt/tree/sub/big"
}

@test "what cannot be set up is told: at mkdir, or in ctl/error, and nothing runs" {
  local host=$BATS_TEST_TMPDIR/host
  mkdir "$host"
  mkfifo "$host/fifo"
  template fifo '{"image": "busybox:test", "x-sandboxfs": {"files": {"/x": {"source": "'"$host"'/fifo"}}}}'
  template closed '{"image": "busybox:test", "x-sandboxfs": {"files": {"/proc/x": ""}}}'
  template ro '{"image": "busybox:test", "read_only": true, "command": ["touch", "/workspace/ran"],
    "x-sandboxfs": {"users": ["dev"]}}'
  template owner '{"image": "busybox:test", "x-sandboxfs": {"files": {"/x": {"content": "", "owner": "nobody-here"}}}}'
  mount_sbx "templates=$TEMPLATES,allow_binds=$host"
  fails_with "Invalid argument" mkdir "$MNT/fifo@a"
  has "$(tail -n 1 "$MNT/.sandboxfs/errors")" "neither a file nor a directory"
  fails_with "Invalid argument" mkdir "$MNT/closed@a"
  no_containers
  mkdir "$MNT/ro@a" "$MNT/owner@a"
  wait_for 60 state_is ro@a failed
  has "$(cat "$MNT/ro@a/ctl/error")" "cannot write /etc/"
  has "$(cat "$MNT/ro@a/ctl/error")" "Read-only"
  wait_for 60 state_is owner@a failed
  has "$(cat "$MNT/owner@a/ctl/error")" "nobody-here"
  fails ls "$MNT/ro@a/workspace"
}

@test "post_start runs in order and once, pre_stop at each orderly stop" {
  template hooks '{"image": "busybox:test", "user": "user", "x-sandboxfs": {
    "post_start": ["echo one $(id -un) >> /workspace/log",
      {"command": ["sh", "-c", "echo $WHAT $(id -un) in $PWD >> /workspace/log"],
       "user": "root", "working_dir": "/tmp", "environment": {"WHAT": "two"}}],
    "pre_stop": ["echo stop $(id -un) >> /workspace/log; sleep 0.2; echo stopped >> /workspace/log"]}}'
  mount_sbx "templates=$TEMPLATES"
  sandbox hooks@demo
  is "$(cat "$MNT/hooks@demo/workspace/log")" $'one user\ntwo root in /tmp'
  is "$(told hooks@demo post-start result)" success
  echo stopped >"$MNT/hooks@demo/ctl/state"
  echo running >"$MNT/hooks@demo/ctl/state"
  is "$(cat "$MNT/hooks@demo/workspace/log")" $'one user\ntwo root in /tmp\nstop user\nstopped'
  is "$(told hooks@demo post-start)" post-start
}

@test "a post_start that fails makes the sandbox failed, with its output; a restart tries again" {
  template bad '{"image": "busybox:test", "x-sandboxfs": {
    "post_start": ["test -e /once && exit 0; touch /once; echo out of luck >&2; exit 3", "touch /last"]}}'
  template missing '{"image": "empty:test", "x-sandboxfs": {"post_start": [{"command": ["/no/such/program"]}]}}'
  mount_sbx "templates=$TEMPLATES"
  mkdir "$MNT/bad@demo" "$MNT/missing@demo"
  wait_for 60 state_is bad@demo failed
  fails_with "Input/output error" ls "$MNT/bad@demo/workspace"
  has "$(cat "$MNT/bad@demo/ctl/error")" "op: post_start"
  has "$(cat "$MNT/bad@demo/ctl/error")" "exit code 3: out of luck"
  is "$(told bad@demo post-start exit_code)" 3
  has "$(box_log bad@demo)" "out of luck"
  has "$(cat "$MNT/bad@demo/ctl/log")" "out of luck"
  wait_for 60 state_is missing@demo failed
  has "$(cat "$MNT/missing@demo/ctl/error")" "/no/such/program: not found"
  echo restart >"$MNT/bad@demo/ctl/state"
  is "$(out bad@demo 'ls /last')" /last
  is "$(told bad@demo post-start result)" "failed success"
}

# bats test_tags=only:bwrap
@test "many that take their time to end keep nobody else waiting" {
  local i start
  template slow '{"image": "busybox:test", "x-sandboxfs": {"pre_stop": ["sleep 9"]}}'
  mount_sbx "templates=$TEMPLATES"
  for i in {1..36}; do
    mkdir "$MNT/slow@$i"
  done
  for i in {1..36}; do
    is "$(out "slow@$i" 'echo up')" up
  done
  rmdir "$MNT"/slow@*
  start=$SECONDS
  is "$(out_of_new)" new
  ((SECONDS - start < 8))
}

out_of_new() {
  mkdir "$MNT/new" && out new 'echo new'
}

# result_is NAME WORD
result_is() {
  [[ $(cat "$MNT/$1/ctl/result") == "$2" ]]
}

@test "timeout, max_wait and output_limit of a template are those of its commands" {
  local f
  template limits '{"image": "busybox:test", "x-sandboxfs": {"timeout": 1, "output_limit": "256k"}}'
  template wait '{"image": "busybox:test", "x-sandboxfs": {"max_wait": "100ms"}}'
  mount_sbx "templates=$TEMPLATES"
  sandbox wait@demo
  ex wait@demo 'until [ -e go ]; do sleep 0.05; done; echo over' # the close does not wait for it
  is "$(cat "$MNT/wait@demo/ctl/result")" running
  touch "$MNT/wait@demo/workspace/go"
  wait_for 90 result_is wait@demo success
  is "$(cat "$MNT/wait@demo/ctl/stdout")" over
  sandbox limits@demo
  ex limits@demo 'echo begun; sleep 600'
  is "$(cat "$MNT/limits@demo/ctl/result" "$MNT/limits@demo/ctl/exit_code")" $'timeout\n124'
  echo 0 >"$MNT/limits@demo/ctl/timeout" # the next may take its time
  ex limits@demo 'yes 0123456789abcde | head -c 4000000'
  f=$MNT/limits@demo/ctl/stdout
  is "$(stat -c %s "$f")" 4000000
  is "$(head -c 16 "$f")" 0123456789abcde
  is "$(tail -c 16 "$f")" 0123456789abcde
  is "$(tr -d '\0' <"$f" | wc -c | awk '{print ($1 >= 250000 && $1 < 800000)}')" 1
}
