"""A Postgres that is killed and started again while a provider uses it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS, MakeProvider
from tests.support.embedded import BIN_DIR, postmaster_of
from tests.support.limits import LATE_S, NOT_WAITED_S
from tests.support.stored import Database
from tests.support.turns import ANSWER, finds, question, seconds, turn, user_turns
from tests.support.waiting import until


@pytest.fixture
def mortal(place: Path) -> Iterator[EmbeddedServer]:
    """A server of this test alone."""
    server = EmbeddedServer(place / "pg", bin_dir=BIN_DIR, settings={"fsync": "off"})
    yield server
    server.stop()
    server.release()


def kill(server: EmbeddedServer) -> None:
    os.kill(postmaster_of(server), signal.SIGKILL)
    until(lambda: not server.running(), what="the end of the server")


def test_need_01_a_killed_server_that_comes_back_is_used_again(
    mortal: EmbeddedServer, make_provider: MakeProvider
) -> None:
    conninfo = mortal.ensure()
    migrate(conninfo.admin, dims=DIMS, runtime_role="hermes")
    provider = make_provider({"dsn": conninfo.runtime})
    provider.sync_turn(turn(1), ANSWER)
    until(lambda: finds(provider, "number0001", turn(1)), 30, "recall")

    kill(mortal)
    assert seconds(lambda: provider.sync_turn(turn(2), ANSWER)) < NOT_WAITED_S
    assert seconds(lambda: provider.prefetch(question(1))) < 1.5 + LATE_S
    mortal.ensure()

    until(lambda: finds(provider, "number0002", turn(2)), 30, "recall")
    assert user_turns(Database(conninfo.runtime)) == [turn(1), turn(2)]


def test_need_01_a_killed_embedded_server_is_started_again_unattended(
    mortal: EmbeddedServer, make_provider: MakeProvider
) -> None:
    provider = make_provider({"dsn": "", "embedded_dir": str(mortal.root), "embedded_bin_dir": BIN_DIR})
    provider.sync_turn(turn(1), ANSWER)
    until(lambda: finds(provider, "number0001", turn(1)), 60, "the server's first start")

    kill(mortal)
    assert seconds(lambda: provider.sync_turn(turn(2), ANSWER)) < NOT_WAITED_S

    until(lambda: finds(provider, "number0002", turn(2)), 60, "recall")
    assert user_turns(Database(mortal.ensure().runtime)) == [turn(1), turn(2)]
