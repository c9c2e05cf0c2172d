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

# What the Debian image has beside a minimal system: what real programs in a sandbox need.
IMAGE_DEBIAN_PACKAGES=(gcc libc6-dev make sqlite3 python3 python3-venv git rsync attr acl)

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
# not in CACHE yet, or was made from other packages.
image_debian() {
  local cache=$1 suite mirror key tree status=0
  suite=$(image_debian_suite)
  key=$(printf '%s\n' "$suite" "${IMAGE_DEBIAN_PACKAGES[@]}" | sha256sum)
  key=${key:0:12}
  if [[ ! -s $cache/$key.tar ]]; then
    mirror=$(image_debian_mirror "$suite") || {
      say "apt has no source for Debian $suite"
      return 1
    }
    say "making a Debian $suite image in $cache by debootstrap, once; this takes minutes"
    mkdir -p "$cache"
    tree=$(mktemp -d)
    image_debian_tree "$tree" "$suite" "$mirror" >"$cache/$key.log" 2>&1 &&
      tar -C "$tree" -cf "$cache/part.$$" --one-file-system . &&
      mv "$cache/part.$$" "$cache/$key.tar" || status=1
    rm -rf --one-file-system "$tree" "$cache/part.$$"
    ((status == 0)) || {
      tail -n 20 "$cache/$key.log" >&2
      return 1
    }
  fi
  echo "$cache/$key.tar"
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
