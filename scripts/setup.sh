#!/bin/sh
# Installs what rtopk is built and tested with, on Debian 12, Ubuntu 24.04 and later:
#
#   scripts/setup.sh system   packages of the distribution, where they are missing
#   scripts/setup.sh lint     the same for clang-tidy
#   scripts/setup.sh browser  the same for a browser, in which a test opens the page of `make paper`
#   scripts/setup.sh docs     the same for Doxygen, and a virtual environment in build/docs-venv with requirements-docs.txt
#   scripts/setup.sh python   a virtual environment in .venv with requirements-dev.txt
#
# Where something cannot be installed (no root, no network) it says what is missing and goes on: the build leaves out what
# it cannot make, and only a missing compiler, CMake, Python or Highway stops it.
set -u
cd "$(dirname "$0")/.." || exit 1

say() { printf 'setup: %s\n' "$*" >&2; }

# A tool counts as there if its command is, wherever it came from: "command package" per line.
tools='g++ build-essential
cmake cmake
ninja ninja-build
ccache ccache
pkg-config pkg-config
python3 python3
clang++ clang'

# Headers and libraries, and a graph to train on.
libraries='libhwy-dev libgtest-dev libcli11-dev libfmt-dev nlohmann-json3-dev zlib1g-dev libclang-rt-dev wordnet-base'

missing_packages() {
  echo "$tools" | while read -r command package; do
    command -v "$command" >/dev/null || echo "$package"
  done
  python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
  for package in $libraries; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    # Without a terminal nobody can type a password.
    if [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
  else
    return 1
  fi
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}

setup_system() {
  if ! command -v apt-get >/dev/null; then
    say "not Debian or Ubuntu: going on with what is here (wanted: a C++20 compiler, cmake >= 3.25, Highway, GoogleTest," \
      "CLI11, fmt, nlohmann-json, zlib)"
    return
  fi
  packages=$(missing_packages | tr '\n' ' ')
  [ -n "$packages" ] || return 0
  say "installing $packages"
  log=$(mktemp)
  # One by one where the whole fails, so that a single unknown package does not take the others with it.
  # shellcheck disable=SC2086  # a list of words
  if ! { as_root apt-get update -q && apt_install $packages; } >"$log" 2>&1; then
    for package in $packages; do apt_install "$package" >>"$log" 2>&1; done
  fi
  packages=$(missing_packages | tr '\n' ' ')
  if [ -n "$packages" ]; then
    tail -n 3 "$log" >&2
    say "still missing: $packages- going on without"
  fi
  rm -f "$log"
}

setup_python() {
  if cmp -s requirements-dev.txt .venv/installed; then return; fi
  say "Python packages into .venv (a minute or two; PyTorch is large)"
  python3 -m venv .venv || exit 1
  if [ -t 1 ]; then quiet=''; else quiet='-qq'; fi # progress bars for people, errors alone for logs
  # shellcheck disable=SC2086  # none or one word
  if .venv/bin/python -m pip install $quiet --disable-pip-version-check -r requirements-dev.txt; then
    # Not among them: on some machines pip compiles it, and a compiler that fails must not cost the rest.
    # shellcheck disable=SC2086
    .venv/bin/python -m pip install $quiet --disable-pip-version-check pymetis==2025.2.2 ||
      say "still missing: Python package pymetis - going on without"
    cp requirements-dev.txt .venv/installed
  else
    # What the machine's own Python has is better than nothing.
    python3 -m venv --system-site-packages .venv || exit 1
    for module in numpy torch pytest hypothesis jinja2; do
      .venv/bin/python -c "import $module" 2>/dev/null || say "still missing: Python package $module - going on without"
    done
  fi
}

setup_docs() {
  tools='doxygen doxygen'
  libraries=''
  setup_system
  if cmp -s requirements-docs.txt build/docs-venv/installed; then return; fi
  say "Python packages for the documentation into build/docs-venv"
  if python3 -m venv build/docs-venv &&
    build/docs-venv/bin/python -m pip install -qq --disable-pip-version-check -r requirements-docs.txt; then
    cp requirements-docs.txt build/docs-venv/installed
  else
    rm -rf build/docs-venv
    say "still missing: what the documentation is built with - going on without"
  fi
}

case "${1:-}" in
  system) setup_system ;;
  lint)
    tools='run-clang-tidy clang-tidy'
    libraries=''
    setup_system
    ;;
  browser)
    for browser in chromium chromium-browser google-chrome; do
      if command -v "$browser" >/dev/null; then exit 0; fi
    done
    tools='chromium chromium'
    libraries=''
    setup_system
    ;;
  docs) setup_docs ;;
  python) setup_python ;;
  *) say "usage: scripts/setup.sh system|lint|browser|docs|python"; exit 2 ;;
esac
