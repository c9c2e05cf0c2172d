#!/usr/bin/env bats
# What a sandbox from the default template can do, seen from inside.

load lib/mount
load lib/assert

@test "the default sandbox: only lo, the listed capabilities, no new privileges" {
  mount_sbx
  sandbox demo
  is "$(networks demo)" lo
  is "$(out demo 'wc -l < /proc/net/route')" 1 # the heading
  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SYS_CHROOT, SETFCAP: of the agent, and of a
  # command by root.
  caps=$(printf '%016x' $((1 << 0 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 18 | 1 << 31)))
  is "$(out demo "sed -n 's/^CapBnd:\t//p' /proc/1/status")" "$caps"
  is "$(out demo "sed -n 's/^CapPrm:\t//p' /proc/1/status")" "$caps"
  is "$(out demo "sed -n 's/^CapEff:\t//p' /proc/self/status")" "$caps"
  is "$(out demo "sed -n 's/^CapInh:\t//p' /proc/self/status")" 0000000000000000
  is "$(out demo "sed -n 's/^NoNewPrivs:\t//p' /proc/1/status /proc/self/status")" "$(printf '1\n1')"
  is "$(out demo 'ping -c 1 -W 1 127.0.0.1 > /dev/null 2>&1 || echo no raw socket')" \
    'no raw socket'
  fails_with 'Operation not permitted' sh -c "echo 'mknod node c 1 3' > $MNT/demo/ctl/exec; cat $MNT/demo/ctl/stderr; false"
  fails sh -c "echo 'mount -t tmpfs none /tmp' > $MNT/demo/ctl/exec; grep -qx 0 $MNT/demo/ctl/exit_code"
}
