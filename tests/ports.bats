#!/usr/bin/env bats
# ctl/ports: TCP ports of a sandbox without a network, on the host's loopback.

load lib/mount
load lib/assert

# A network that a failed test left would leave a bridge on this machine.
teardown() {
  local status=0
  sbx_teardown || status=1
  dk network rm "net-$NS" >/dev/null 2>&1 || true
  return $status
}

# at NAME N: where port N of the sandbox is.
at() {
  cat "$MNT/$1/ctl/ports/$2"
}

client() {
  timeout 200 python3 "$SBX_TOP/tests/lib/portclient.py" "$@"
}

# serve NAME: a web server on port 8080 in the sandbox, of its workspace.
serve() {
  ex "$1" 'httpd -p 127.0.0.1:8080 -h /workspace'
}

# MB: how much is much
MB=100
! short || MB=10

# bats test_tags=valgrind
@test "a web server in a sandbox without a network; 100 requests at once" {
  mount_sbx
  sandbox demo
  out demo 'for i in $(seq 0 99); do yes $i | head -n 1000 > $i; done'
  serve demo
  ports=$MNT/demo/ctl/ports

  is "$(ls "$ports")" ''
  is "$(stat -c %s "$ports/8080")" 16
  is "$(ls "$ports")" ''
  first=$(at demo 8080)
  [[ $first =~ ^127\.0\.0\.1:[0-9]{5}$ ]]
  is "$(at demo 8080)" "$first"
  is "$(stat -c %s "$ports/8080")" 16
  is "$("$(host_busybox)" cat "$ports/8080")" "$first"
  is "$(client many "$first" 100)" all

  [[ $(at demo 65535) != "$first" ]]
  is "$(ls "$ports")" "$(printf '65535\n8080')"
  for name in 0 08080 65536 80a x -1 999999999999; do
    fails_with 'No such file' cat "$ports/$name"
  done
  fails_with 'Permission denied' sh -c "echo 1 > $ports/8080"
  has "$(cat "$MNT/demo/ctl/error")" 'a port cannot be written'

  # Nothing but lo, before and after.
  is "$(networks demo)" lo
  # What there was of it inside is gone with the clients.
  wait_for 90 no_connections demo
}

# no_connections NAME: to or from port 8080 (0x1F90) that is established or half closed
no_connections() {
  [[ $(out "$1" 'awk "\$2 ~ /:1F90$/ && \$4 ~ /0[1458]/" /proc/net/tcp') == '' ]]
}

@test "a large download and upload, and a half-closed connection" {
  mount_sbx
  sandbox demo
  out demo "head -c $((MB << 20)) /dev/urandom > big"
  serve demo
  want=$(out demo 'sha256sum < big')
  is "$(curl -sS "http://$(at demo 8080)/big" | sha256sum)" "$want"

  # Reads to the end of the file, and only then answers.
  ex demo 'nc -l -p 9000 -e sha256sum > /dev/null 2>&1 &'
  wait_for 90 listens demo 9000
  is_twice "$(client upload "$(at demo 9000)" $((MB << 20)))"
}

# is_twice 'A A'
is_twice() {
  is "${1% *}" "${1#* }"
}

# listens NAME PORT
listens() {
  out "$1" "netstat -ltn" | grep -q ":$2 "
}

@test "a client that does not read delays nobody; a server that is not there is told of" {
  mount_sbx
  sandbox demo
  out demo "head -c $((50 << 20)) /dev/zero > big && echo small > small; echo six > six"
  serve demo
  where=$(at demo 8080)
  go=()
  for i in 1 2 3; do
    mkfifo "$BATS_TEST_TMPDIR/go.$i"
    exec {fd}<>"$BATS_TEST_TMPDIR/go.$i"
    go[i]=$fd
    client hold "$where" big <&"$fd" >"$BATS_TEST_TMPDIR/held.$i" &
  done
  for i in 1 2 3; do
    wait_for 90 grep -q holding "$BATS_TEST_TMPDIR/held.$i"
  done
  is "$(curl -sS -m 30 "http://$where/small")" small
  is "$(out demo 'echo still')" still
  echo >&"${go[1]}"
  wait_for 60 grep -q eof "$BATS_TEST_TMPDIR/held.1"

  # An IPv6 server is found; a port that nobody listens on is reset, in words.
  is "$(client ended "$(at demo 7)")" reset
  has "$(cat "$MNT/.sandboxfs/errors")" 'demo/ctl/ports/7 ECONNREFUSED nothing listens on port 7 in the sandbox'
  has "$(cat "$MNT/demo/ctl/error")" 'code: ECONNREFUSED'
  if [[ -n $(out demo 'cat /proc/net/if_inet6 2>/dev/null') ]]; then
    ex demo 'httpd -p [::1]:8006 -h /workspace'
    is "$(curl -sS "http://$(at demo 8006)/six")" six
  fi

  # A client's reset is one inside: what was half sent is no end of a file.
  ex demo '(nc -l -p 9000 > got 2>&1; echo $? > code) > /dev/null 2>&1 &'
  wait_for 90 listens demo 9000
  # One that comes before the connection inside is made makes none: then again.
  for i in {1..9}; do
    client abort "$(at demo 9000)"
    ! wait_for 10 test -s "$MNT/demo/workspace/code" || break
  done
  [[ -s $MNT/demo/workspace/code ]]

  # All go with the sandbox.
  rmdir "$MNT/demo"
  for i in 2 3; do
    echo >&"${go[i]}"
    wait_for 60 grep -q reset "$BATS_TEST_TMPDIR/held.$i"
  done
  is "$(client ended "$where")" refused
}

@test "a port over a stop, a pause, a remount, a killed daemon" {
  mount_sbx
  sandbox demo
  echo hello >"$MNT/demo/workspace/index.html"
  serve demo
  where=$(at demo 8080)
  is "$(curl -sS "http://$where/")" hello

  echo paused >"$MNT/demo/ctl/state"
  is "$(client ended "$where")" reset
  has "$(cat "$MNT/demo/ctl/error")" 'the sandbox is paused'
  echo running >"$MNT/demo/ctl/state"
  is "$(curl -sS "http://$where/")" hello

  echo stopped >"$MNT/demo/ctl/state"
  is "$(client ended "$where")" reset
  echo running >"$MNT/demo/ctl/state"
  is "$(at demo 8080)" "$where"
  serve demo
  is "$(curl -sS "http://$where/")" hello

  remount
  is "$(client ended "$where")" refused
  is "$(ls "$MNT/demo/ctl/ports")" ''
  is "$(curl -sS "http://$(at demo 8080)/")" hello

  kill_daemon
  sbx_start "$MNT"
  is "$(curl -sS "http://$(at demo 8080)/")" hello
  rm -rf "$MNT/demo"
  not_listed demo
}

# bats test_tags=only:api
@test "a port that the engine publishes is shown as the engine's own, on 127.0.0.1 only" {
  dk network create "net-$NS" >/dev/null
  template web "{\"network_mode\": \"net-$NS\", \"ports\": [\"8080\"]}"
  mount_sbx "templates=$TEMPLATES"
  sandbox web@demo
  echo hello >"$MNT/web@demo/workspace/index.html"
  ex web@demo 'httpd -p 8080 -h /workspace'
  where=$(at web@demo 8080)
  is "$where" "$(dk port "$(box_id web@demo)" 8080/tcp)"
  [[ $where == 127.0.0.1:* ]]
  is "$(ls "$MNT/web@demo/ctl/ports")" 8080
  is "$(curl -sS -m 30 "http://$where/")" hello
  # Others are forwarded as ever.
  ex web@demo 'httpd -p 127.0.0.1:9000 -h /workspace'
  is "$(curl -sS -m 30 "http://$(at web@demo 9000)/")" hello
  remount
  is "$(at web@demo 8080)" "$where"
}
