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
  # Whoever runs a test may not write there.
  [[ -x $cache/bin/busybox ]] || {
    mkdir -p "$cache"
    (
      flock 9
      [[ -x $cache/bin/busybox ]] || image_busybox_fetch "$cache" 9>&-
    ) 9>"$cache/lock" || return 1
  }
  echo "$cache/bin/busybox"
}

image_busybox_fetch() {
  say "downloading Debian's busybox-static into $1 (not installing it)"
  (cd "$1" && packages_fetch download busybox-static) || return 1
  dpkg-deb -x "$1"/busybox-static_*.deb "$1"
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

# image_import SOCKET NAME:TAG: a tar archive on stdin becomes an image. Podman does not read a tag that stands apart.
image_import() {
  engine_api "$1" POST "/images/create?fromSrc=-&repo=$2" \
    -H 'Content-Type: application/x-tar' -H 'Transfer-Encoding: chunked' --data-binary @- >/dev/null
}

image_exists() {
  engine_api "$1" GET "/images/$2/json" >/dev/null 2>&1
}

# image_tar_busybox CACHE: the archive of an image with busybox.
image_tar_busybox() {
  local tree busybox status=0
  busybox=$(image_busybox "$1") || return 1
  tree=$(mktemp -d)
  image_tree "$tree" "$busybox"
  tar -C "$tree" -c . || status=1
  rm -rf "$tree"
  return $status
}

# image_make_busybox SOCKET NAME:TAG CACHE
image_make_busybox() {
  image_tar_busybox "$3" | image_import "$1" "$2"
}

# image_make_empty SOCKET NAME:TAG: nothing in it at all.
image_make_empty() {
  tar -c --files-from /dev/null | image_import "$1" "$2"
}

# What the Debian image has beside a minimal system: what real programs in a sandbox need. It is the tests' image and
# what scripts/make-base-image makes.
IMAGE_DEBIAN_PACKAGES=(gcc libc6-dev make sqlite3 python3 python3-venv git rsync attr acl vim-tiny procps)

# image_debian_suite, image_debian_mirror: this machine's own release, from where its apt has it.
image_debian_suite() {
  (source /etc/os-release && echo "$VERSION_CODENAME")
}

# apt tells only of sources whose lists it has.
image_debian_mirror() {
  image_debian_source "$1" || {
    packages_apt update
    image_debian_source "$1"
  }
}

image_debian_source() {
  # The fields are apt's, not the shell's.
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
    awk -v suite="$1" '$1 == suite && $2 == "main" { print $3; found = 1; exit } END { exit !found }'
}

# image_debian CACHE: prints the path of a tar archive with a small Debian, made by debootstrap when it is
# not in CACHE yet, or was made from other packages. By one at a time: the others wait for it.
image_debian() {
  local cache=$1 suite key
  suite=$(image_debian_suite)
  key=$(printf '%s\n' "$suite" "${IMAGE_DEBIAN_PACKAGES[@]}" | sha256sum)
  key=${key:0:12}
  mkdir -p "$cache"
  (
    flock 9
    for _ in 1 2 3; do # a mirror may fail
      [[ -s $cache/$key.tar ]] || image_debian_make "$cache" "$suite" "$key" 9>&- || sleep 20
    done
    [[ -s $cache/$key.tar ]]
  ) 9>"$cache/lock" || return 1
  echo "$cache/$key.tar"
}

# image_debian_make CACHE SUITE KEY
image_debian_make() {
  local cache=$1 suite=$2 key=$3 mirror tree status=0
  mirror=$(image_debian_mirror "$suite") || {
    say "apt has no source for Debian $suite"
    return 1
  }
  say "making a Debian $suite image in $cache by debootstrap, once; this takes minutes"
  tree=$(mktemp -d)
  image_debian_tree "$tree" "$suite" "$mirror" >"$cache/$key.log" 2>&1 &&
    tar -C "$tree" -cf "$cache/part" --one-file-system . &&
    mv "$cache/part" "$cache/$key.tar" || status=1
  rm -rf --one-file-system "$tree" "$cache/part"
  ((status == 0)) || tail -n 20 "$cache/$key.log" >&2
  return $status
}

# image_debian_tree DIR SUITE MIRROR
image_debian_tree() {
  local dir=$1 include proxy=''
  chmod 755 "$dir"
  include=$(printf ',%s' "${IMAGE_DEBIAN_PACKAGES[@]}")
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  env ${proxy:+"http_proxy=$proxy"} debootstrap --variant=minbase --include="${include:1}" \
    "$2" "$dir" "$3" </dev/null || return 1
  # The machine's mirror is its own affair, and documents and lists are half of the size.
  rm -rf "$dir"/etc/apt/sources.list* "$dir"/var/{cache,lib,log}/apt "$dir"/var/log/*.log \
    "$dir"/var/cache/* "$dir"/usr/share/{doc,man,locale,info}/* "${dir:?}"/dev/* "$dir"/debootstrap
}

# image_make_debian SOCKET NAME:TAG CACHE
image_make_debian() {
  local archive
  archive=$(image_debian "$3") || return 1
  image_import "$1" "$2" <"$archive"
}
