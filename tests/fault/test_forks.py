"""Processes that fork in the middle of something: what a child needs must not be locked in it for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import DIMS
from tests.support.local_models import link_model
from tests.support.waiting import until

# Threads keep SQLite at work, as the drain and an operator's look do at times, two others fork; each child writes one
# operation. One that is caught by a lock of SQLite's, which all files of a process share, is ended by its alarm.
SPOOLS = """
import os, signal, sys, threading
from pathlib import Path
from hermes_memory_pgvector.capture.spool_directory import SpoolDirectory
from hermes_memory_pgvector.domain import fork_safety
from hermes_memory_pgvector.domain.operations import Message, StoreTurn
from hermes_memory_pgvector.domain.gil import yield_gil

fork_safety.PATIENCE_S = 30.0  # of a machine that is busy with other tests
ends = []

def directory():
    return SpoolDirectory(Path(sys.argv[1]), max_bytes=10**8)

def said(text, at):
    return StoreTurn(theme="marketing", at=at, session_id="s", messages=(Message("user", text),))

def look():
    while True:
        own.take(64)
        yield_gil()
        own.recount()

def come_and_go():
    while True:
        there = directory()
        there.discard(there.open_own())

def fork():
    for _ in range(75):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            directory().open_own().append(said("of a child", 0.0))
            os._exit(0)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if any(ends):
            break

own = directory().open_own()
for number in range(200):
    own.append(said("spring budget " * 20, number))
for work in (look, look, look, come_and_go):
    threading.Thread(target=work, daemon=True).start()
forks = [threading.Thread(target=fork) for _ in range(2)]
for each in forks:
    each.start()
for each in forks:
    each.join()
print(len(ends), sum(map(bool, ends)), flush=True)
os._exit(0)
"""

# The first thread to need the model imports what it needs of packages, which takes a while.
MODELS = """
import os, signal, sys, threading
from pathlib import Path
from hermes_memory_pgvector.domain import fork_safety
from hermes_memory_pgvector.embed.onnx import dims_of

fork_safety.PATIENCE_S = 60.0
model, begun = Path(sys.argv[1]), threading.Event()

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            begun.set()

sys.meta_path.insert(0, Watch())
threading.Thread(target=dims_of, args=[model], daemon=True).start()
assert begun.wait(60)
child = os.fork()
if child == 0:
    signal.alarm(60)
    dims_of(model)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""

# A thread takes one of two locks and never lets go of it, as one whose disk does not answer.
STUCK = """
import os, signal, threading
from hermes_memory_pgvector.domain import fork_safety

fork_safety.PATIENCE_S = 0.2
stuck, free = fork_safety.fork_lock(fork_safety.BACKGROUND), fork_safety.fork_lock()
holder = threading.Thread(target=stuck.acquire)
holder.start()
holder.join()  # it is gone, and the lock is not released
child = os.fork()
if child == 0:
    signal.alarm(20)
    with stuck, free, fork_safety.fork_lock():
        grandchild = os.fork()
        os._exit(0 if grandchild == 0 else os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), stuck.locked(), free.locked(), flush=True)
os._exit(0)
"""

# Notes what a thread of ours imports while a fork would not wait for it.
IMPORTS = """
import json, os, sys, threading
from hermes_memory_pgvector.domain import fork_safety
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider

class Watch:
    def find_spec(self, name, path=None, target=None):
        # The thread that sets up a session is not the one that forks meanwhile.
        ours = ready or threading.current_thread() is not threading.main_thread()
        if ours and not fork_safety.at_import.locked():
            unguarded.append(name)

ready, unguarded = False, []
sys.meta_path.insert(0, Watch())
provider = PgvectorMemoryProvider(json.loads(sys.argv[1]))
provider.initialize("s1", hermes_home=os.environ["HERMES_HOME"], platform="api_server", gateway_session_key="marketing")
ready = True
provider.sync_turn("The spring budget is forty thousand", "Noted, forty thousand for spring.")
provider.prefetch("What is the spring budget?")
provider.handle_tool_call("recall_conversation", {"query": "spring budget"})
provider.shutdown()
print(unguarded, flush=True)
os._exit(0)
"""

# An agent that has old turns deleted forks a child, and is killed; the child stays until its standard input ends.
RETENTION = """
import json, os, signal, sys
from hermes_memory_pgvector.capture import housekeeping
from hermes_memory_pgvector.domain.gil import yield_gil
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider

housekeeping.QUIET_S = 0.0
provider = PgvectorMemoryProvider(json.loads(sys.argv[1]))
provider.initialize("s1", hermes_home=os.environ["HERMES_HOME"], platform="api_server", gateway_session_key="marketing")
retention = provider.runtime._retention
while retention._process is None or not retention._is_asked:
    yield_gil()
if os.fork() == 0:
    print(retention._process.pid, flush=True)
    os.read(0, 1)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _printed(program: str, argument: Path | str = "") -> str:
    return subprocess.run(
        _command(program, argument), check=True, capture_output=True, text=True, timeout=200
    ).stdout.strip()


def _command(program: str, argument: Path | str) -> list[str]:
    # A fork beside other threads is what is tested here; newer Pythons warn of it.
    return [sys.executable, "-P", "-W", "ignore:This process:DeprecationWarning", "-c", program, str(argument)]


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_need_03_a_child_forked_while_the_spool_is_read_has_a_spool_of_its_own(tmp_path: Path) -> None:
    assert _printed(SPOOLS, tmp_path) == "150 0"


def test_a_child_forked_while_the_model_is_loaded_loads_it(home: Path) -> None:
    assert _printed(MODELS, link_model(home)) == "0"


def test_a_fork_waits_for_a_stuck_thread_no_longer_than_its_patience_and_the_child_is_free_of_it() -> None:
    assert _printed(STUCK) == "0 True False"


def test_a_child_is_never_forked_beside_a_half_done_import_of_ours(dsn: str, home: Path) -> None:
    assert _printed(IMPORTS, json.dumps({"dsn": dsn, "dims": DIMS, "shutdown_timeout_s": 30})) == "[]"


def test_need_11_what_deletes_old_turns_ends_with_a_killed_agent_whatever_that_has_forked(dsn: str, home: Path) -> None:
    config = json.dumps({"dsn": dsn, "dims": DIMS, "retention": {"marketing": 180}})
    with subprocess.Popen(
        _command(RETENTION, config), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as agent:
        assert agent.stdout is not None
        deleting = int(agent.stdout.readline())
        until(lambda: _has_ended(deleting), what="the process to end beside the child of the agent")
