load lib/mount
@test "hangs" {
  SANDBOXFS=/tmp/fk/fs/sandboxfs
  mount_sbx
  dk run -d --network none busybox:test sleep 98765
  exec 7<"$MNT/.sandboxfs/version"
  touch /tmp/fk/ready
  sleep 300
}
