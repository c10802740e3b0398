"""A busy machine: what takes a multiple of its usual time and gets on is waited for, what stands still is not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_memory_pgvector.domain.errors import EmbeddedServerError
from hermes_memory_pgvector.server import cluster
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.server.waiting import exclusive, fixed_timeout
from tests.support.embedded import ask, postmaster_of
from tests.support.waiting import until

_SHORT_S = 1.0  # for a wait without progress


@contextmanager
def frozen(server: EmbeddedServer) -> Iterator[int]:
    """The server's first process gets no time in the block, as little as on a machine with much too much to do."""
    pid = postmaster_of(server)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def show_progress(server: EmbeddedServer, lines: int) -> None:
    """Have the server's log grow, by so many lines a tenth of a wait apart."""
    beat = threading.Event()
    with (server.root / "server.log").open("ab", buffering=0) as log:
        for _ in range(lines):
            log.write(b"LOG:  checkpoint: still writing\n")
            beat.wait(_SHORT_S / 10)


def test_a_first_start_may_take_longer_than_its_wait_as_long_as_it_gets_on(new_server: EmbeddedServer) -> None:
    """Making a cluster and starting it takes more than a wait that short; each of its steps takes less."""
    ready = new_server.ensure(timeout_s=1.5 * _SHORT_S)
    assert ask(ready.runtime, "SELECT 1") == 1


def test_a_stop_that_gets_on_is_waited_for_and_not_forced(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.ensure()
    monkeypatch.setattr(cluster, "FAST_STOP_S", _SHORT_S)
    stopping = threading.Thread(target=server.stop)
    with frozen(server):
        stopping.start()
        show_progress(server, 30)
    stopping.join()
    assert not server.running()
    log = (server.root / "server.log").read_text()
    assert "received fast shutdown request" in log and "immediate shutdown" not in log


def test_a_stop_that_stands_still_is_forced(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.ensure()
    monkeypatch.setattr(cluster, "FAST_STOP_S", _SHORT_S)
    monkeypatch.setattr(cluster, "HARD_STOP_S", _SHORT_S)
    with frozen(server), pytest.raises(EmbeddedServerError, match=r"does not stop: `kill -9 \d+ .*` ends it"):
        server.stop()
    until(lambda: not server.running(), what="its end, once it runs again")


def test_a_start_that_another_process_holds_up_ends_and_says_how_to_find_that_one(tmp_path: Path) -> None:
    """As one that was stopped while it started the server."""
    lock = tmp_path / "lock"
    said = pytest.raises(EmbeddedServerError, match=rf"end it: `fuser {lock}`")
    with exclusive(lock, fixed_timeout(1)), said, exclusive(lock, fixed_timeout(0.2)):
        pass
