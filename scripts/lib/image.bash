# shellcheck shell=bash
# Images made on this machine, without a registry. Sourced after engine.bash and packages.bash.

# image_busybox CACHE: prints the path of a static busybox. Debian's package conflicts with the
# ordinary busybox, so where it is not installed its archive is unpacked into CACHE instead.
image_busybox() {
  local cache=$1
  if [[ -z $(packages_missing busybox-static) ]]; then
    command -v busybox
    return
  fi
  if [[ ! -x $cache/bin/busybox ]]; then
    mkdir -p "$cache"
    say "downloading Debian's busybox-static into $cache (not installing it)"
    (cd "$cache" && packages_fetch download busybox-static) || return 1
    dpkg-deb -x "$cache"/busybox-static_*.deb "$cache" || return 1
  fi
  echo "$cache/bin/busybox"
}

# image_tree DIR BUSYBOX: a small root file system: busybox under all its names, and two users.
image_tree() {
  local dir=$1 busybox=$2 applet
  mkdir -p "$dir"/{bin,etc,home/user,root,tmp,var/tmp,usr/bin}
  cp "$busybox" "$dir/bin/busybox"
  chmod 755 "$dir/bin/busybox"
  # Not by splitting words: bats changes IFS when it filters by tags.
  while read -r applet; do
    [[ $applet == busybox ]] || ln -s busybox "$dir/bin/$applet"
  done < <("$busybox" --list)
  # Scripts begin with #!/usr/bin/env
  ln -s /bin/env "$dir/usr/bin/env"
  printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'user:x:1000:1000:user:/home/user:/bin/sh' \
    >"$dir/etc/passwd"
  printf '%s\n' 'root:x:0:' 'user:x:1000:' 'extra:x:2000:user' >"$dir/etc/group"
  chmod 1777 "$dir/tmp" "$dir/var/tmp"
  chown 1000:1000 "$dir/home/user"
  chmod 700 "$dir/root" "$dir/home/user"
}

# image_import SOCKET NAME:TAG: a tar archive on stdin becomes an image.
image_import() {
  local socket=$1 repo=${2%:*} tag=${2##*:}
  engine_api "$socket" POST "/images/create?fromSrc=-&repo=$repo&tag=$tag" \
    -H 'Content-Type: application/x-tar' -H 'Transfer-Encoding: chunked' --data-binary @- >/dev/null
}

image_exists() {
  engine_api "$1" GET "/images/$2/json" >/dev/null 2>&1
}

# image_make_busybox SOCKET NAME:TAG CACHE
image_make_busybox() {
  local tree busybox status=0
  busybox=$(image_busybox "$3") || return 1
  tree=$(mktemp -d)
  image_tree "$tree" "$busybox"
  tar -C "$tree" -c . | image_import "$1" "$2" || status=1
  rm -rf "$tree"
  return $status
}

# image_make_empty SOCKET NAME:TAG: nothing in it at all.
image_make_empty() {
  tar -c --files-from /dev/null | image_import "$1" "$2"
}
