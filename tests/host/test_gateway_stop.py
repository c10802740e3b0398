"""What a real gateway had accepted when it ended is stored by the next one, exactly once."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.stored import STORED_TIMEOUT_S, Database
from tests.support.waiting import until

STATEMENT = "The harbour office opens at half past seven on weekdays."


@pytest.fixture
def gateway(active_home: HermesHome) -> Iterator[Gateway]:
    """A gateway that is started as a user's, and so ends as one."""
    with Gateway(active_home, forked=False) as running:
        yield running


def accept_a_turn_that_cannot_be_stored(gateway: Gateway) -> None:
    """Sends a turn and returns when the provider has taken it; the caller keeps the database from storing it."""
    assert gateway.post_chat(STATEMENT, key="marketing").status == 200, gateway.log()
    # The host calls the hook after it has answered, so the answer alone does not mean that the turn was handed over.
    until(lambda: gateway.home.spool_contains(STATEMENT), 10, "the turn in the spool")


def the_next_gateway_stores_it_once(gateway: Gateway, database: Database) -> None:
    assert database.themes_of_turn(STATEMENT) == []
    gateway.start()
    assert gateway.post_chat(f"Afterwards: {STATEMENT}", key="marketing").status == 200, gateway.log()
    database.wait_for_turn(f"Afterwards: {STATEMENT}")
    until(lambda: database.themes_of_turn(STATEMENT), STORED_TIMEOUT_S, "the turn of the gateway before")
    assert database.themes_of_turn(STATEMENT) == ["marketing"]


def test_need_03_what_a_killed_gateway_had_accepted_is_stored_once_by_the_next(
    gateway: Gateway, database: Database
) -> None:
    with database.writes_blocked():
        accept_a_turn_that_cannot_be_stored(gateway)
        gateway.stop(signal.SIGKILL)

    the_next_gateway_stores_it_once(gateway, database)


def test_need_11_sigterm_ends_the_gateway_in_time_while_the_database_hangs_and_loses_nothing(
    gateway: Gateway, database: Database
) -> None:
    with database.writes_blocked():
        accept_a_turn_that_cannot_be_stored(gateway)
        exit_code = gateway.stop(signal.SIGTERM)
    assert exit_code != -signal.SIGKILL, gateway.log()

    the_next_gateway_stores_it_once(gateway, database)
