"""Processes that fork in the middle of something: what a child needs must not be locked in it for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.local_models import link_model

# Four threads keep SQLite at work, as the drain and an operator's look do at times; each child writes one operation.
# One that is caught by a lock of SQLite's, which it shares with all files of the process, is ended by its alarm.
SPOOLS = """
import os, signal, sys, threading
from pathlib import Path
from hermes_memory_pgvector.capture.spool_files import SpoolDirectory
from hermes_memory_pgvector.domain.models import Operation

def spool():
    return SpoolDirectory(Path(sys.argv[1]), max_bytes=10**8).open_own()

def at_work():
    while True:
        own.take(64)
        own.recount()

own = spool()
for number in range(200):
    own.append(Operation("turn", "marketing", {"content": "spring budget " * 20}, number))
for _ in range(4):
    threading.Thread(target=at_work, daemon=True).start()
ends = []
while len(ends) < 150 and not any(ends):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        spool().append(Operation("turn", "marketing", {"content": "of a child"}, 0.0))
        os._exit(0)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(len(ends), sum(map(bool, ends)), flush=True)
os._exit(0)
"""

# The first thread to need the model imports what it needs of packages, which takes a while.
MODELS = """
import os, signal, sys, threading
from pathlib import Path
from hermes_memory_pgvector.embed.onnx import dims_of

model = Path(sys.argv[1])
importing = threading.Thread(target=dims_of, args=[model], daemon=True)
importing.start()
while "numpy" not in sys.modules:
    pass
child = os.fork()
if child == 0:
    signal.alarm(60)
    dims_of(model)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""


def _printed(program: str, argument: Path) -> str:
    # A fork beside other threads is what is tested here; newer Pythons warn of it.
    command = [sys.executable, "-P", "-W", "ignore:This process:DeprecationWarning", "-c", program, str(argument)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=110).stdout.strip()


def test_need_03_a_child_forked_while_the_spool_is_read_has_a_spool_of_its_own(tmp_path: Path) -> None:
    assert _printed(SPOOLS, tmp_path) == "150 0"


def test_a_child_forked_while_the_model_is_loaded_loads_it(home: Path) -> None:
    assert _printed(MODELS, link_model(home)) == "0"
