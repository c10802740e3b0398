# Shared by install.sh and test.sh; sourced, so that it sets no options of its own.
# shellcheck shell=bash

# shellcheck disable=SC2034
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
self=$(basename -- "$0")

bold='' red='' plain=''
if [ -t 1 ] && [ -t 2 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
  bold=$'\033[1m' red=$'\033[31m' plain=$'\033[0m'
fi

say() { printf '%s\n' "$*"; }

step() { printf '%s==>%s %s\n' "$bold" "$plain" "$*"; }

# fail WHAT-FAILED WHAT-TO-DO...: each further argument is one line of advice.
fail() {
  printf '%s%s: %s%s\n' "$red" "$self" "$1" "$plain" >&2
  shift
  if [ $# -gt 0 ]; then printf '  %s\n' "$@" >&2; fi
  exit 1
}

# Everything temporary of this run, gone at its end.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hermes-pgvector.XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs a command silently; shows what it printed only when it fails.
quietly() {
  if "$@" >"$scratch/log" 2>&1; then return 0; fi
  cat -- "$scratch/log" >&2
  return 1
}

# version_fits PYTHON BELOW: it runs, is 3.11 or later and, unless BELOW is empty, earlier than 3.BELOW.
version_fits() {
  "$1" -c "import sys; sys.exit(not (sys.version_info >= (3, 11) and sys.version_info < (3, ${2:-999})))" 2>/dev/null
}

# find_python BELOW: prints the path of a Python that fits; $PYTHON decides when it is set.
find_python() {
  local name path range='3.11 or later'
  if [ -n "$1" ]; then range="3.11 to 3.$(($1 - 1))"; fi
  if [ -n "${PYTHON:-}" ]; then
    path=$(command -v -- "$PYTHON") && version_fits "$path" "$1" && printf '%s\n' "$path" && return
    fail "PYTHON=$PYTHON is not a Python $range" "name another one, or leave PYTHON unset"
  fi
  for name in python3 python3.13 python3.12 python3.11 python3.14 python; do
    # Asked, not only found: version managers put up names that lead nowhere.
    path=$(command -v -- "$name") && version_fits "$path" "$1" && printf '%s\n' "$path" && return
  done
  fail "no Python $range found" \
    "Debian, Ubuntu: apt install python3 python3-venv    Fedora: dnf install python3    macOS: brew install python@3.13" \
    "or set PYTHON to the path of one"
}

# make_venv PYTHON DIR: makes the environment, in place of an older one; never in a folder that holds anything else.
make_venv() {
  if [ -e "$2" ] && [ ! -e "$2/pyvenv.cfg" ] && [ -n "$(ls -A -- "$2")" ]; then
    fail "$2 is there and is not a virtual environment" "name another folder, or move this one away"
  fi
  "$1" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$1 cannot make virtual environments" \
      "Debian, Ubuntu: apt install python3-venv (or python3.N-venv for that version)"
  quietly "$1" -m venv --clear "$2" ||
    fail "the environment $2 could not be made" "check that its folder can be written, and that the disk has room"
  # The pip that Python brings may take a minute to choose among the versions of many packages, a newer one seconds.
  "$2/bin/python" -m pip --quiet --disable-pip-version-check --no-input --retries 0 --timeout 10 \
    install --upgrade pip >/dev/null 2>&1 || true
}
