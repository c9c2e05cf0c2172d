# shellcheck shell=bash
# Builds in directories of this tree. Sourced after say.bash; TOP is the tree.

# How a user's build is made, and that of the tests.
# shellcheck disable=SC2034 # used by those who source this
BUILD_RELEASE=(--buildtype=release)

# build_dir DIR COMPILER MESON-OPTIONS...: configured once, and anew when the options are others.
build_dir() {
  local dir=$TOP/$1 cc=$2
  shift 2
  if [[ ! -f $dir/build.ninja || $(cat "$dir/options" 2>/dev/null) != "$cc $*" ]]; then
    rm -rf "$dir"
    CC=$cc meson setup "$dir" "$TOP" "$@" || return 1
    echo "$cc $*" >"$dir/options"
  fi
}

# build_ninja DIR [TARGET...]
build_ninja() {
  local dir=$TOP/$1 status=0
  shift
  ninja -C "$dir" "$@" || status=$?
  # Run by root in somebody's tree: the directory is theirs, as the sources are.
  chown -R --reference="$TOP" "$dir" || true # a file may vanish meanwhile
  return $status
}
