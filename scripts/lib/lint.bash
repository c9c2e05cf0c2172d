# shellcheck shell=bash
# What is checked without running anything. Sourced by scripts/test; TOP is the tree.

lint_sources() {
  find "$TOP"/{agent,bwrap,common,docker,fs,sandbox,tools,tests} -name '*.[ch]' | sort
}

lint_format() {
  local files
  mapfile -t files < <(lint_sources)
  clang-format --dry-run --Werror "${files[@]}"
}

# Commands for a sandbox stand in single quotes (SC2016), `ls` is what is tested (SC2010, SC2012), and
# that a @test is a subshell is what keeps tests apart (SC2030, SC2031).
lint_shell() {
  local scripts tests
  mapfile -t scripts < <(find "$TOP"/{scripts,.ci} -type f; find "$TOP/tests" -name '*.*sh')
  mapfile -t tests < <(find "$TOP/tests" -name '*.bats')
  shellcheck -x -P "$TOP" "${scripts[@]}" &&
    shellcheck -x -P "$TOP" -e SC2016,SC2010,SC2012,SC2030,SC2031 "${tests[@]}"
}

# Who may include what: the layout is the design, so it is checked.
lint_layers() {
  local bad=0
  layer_forbids() {
    local why=$1 pattern=$2
    shift 2
    ! (cd "$TOP" && grep -rnE --include='*.[ch]' "^#include [<\"]$pattern" "$@") || {
      echo "^ $why"
      bad=1
    }
  }
  layer_forbids 'only fs/ knows FUSE' '(fuse|fuse3/|fuse_)' agent bwrap common docker sandbox
  layer_forbids 'only docker/ knows curl' 'curl/' agent bwrap common fs sandbox
  layer_forbids 'the agent has libc and common/ only' '(bwrap|docker|fs|sandbox|cjson|archive)' agent
  layer_forbids 'the tools use files only' '(agent|bwrap|docker|fs|sandbox|fuse|curl|cjson|archive)' tools
  layer_forbids 'common/ is below everything' '(agent|bwrap|docker|fs|sandbox)/' common
  layer_forbids 'a sandbox knows neither engine nor mount' '(agent|bwrap|docker|fs)/' sandbox
  layer_forbids 'an engine knows no mount' '(agent|fs)/' bwrap docker
  layer_forbids 'an engine knows no other' 'bwrap/' docker
  layer_forbids 'an engine knows no other' 'docker/' bwrap
  return $bad
}

lint_headers() {
  local header bad=0 flags
  read -ra flags < <(pkg-config --cflags fuse3 libcurl libcjson libarchive)
  while read -r header; do
    gcc -std=gnu17 -D_GNU_SOURCE -DFUSE_USE_VERSION=314 -Wall -Wextra -Werror -Wno-unused-parameter -fsyntax-only \
      -I"$TOP" "${flags[@]}" -include "$header" -x c /dev/null || bad=1
  done < <(find "$TOP"/{agent,bwrap,common,docker,fs,sandbox,tools} -name '*.h')
  return $bad
}

# lint_tidy BUILD
lint_tidy() {
  # With a configuration that it cannot read it would go on with its own and succeed.
  (cd "$TOP" && ! clang-tidy --dump-config 2>&1 | grep -A 3 'error:') || return 1
  run-clang-tidy -quiet -j "$(nproc)" -p "$TOP/$1" \
    "^$TOP/(agent|bwrap|common|docker|fs|sandbox|tools)/" 2>&1 | sed 's/\x1b\[[0-9;]*m//g'
}
