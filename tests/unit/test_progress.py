"""How far a replica must have come for an answer."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hermes_memory_pgvector.domain.errors import StoreMisconfigured
from hermes_memory_pgvector.store.connection import DeadlineConnection
from hermes_memory_pgvector.store.replica import DatabaseIdentity, ReplicaProgress, check_position, look_at_primary


def test_nothing_is_known_before_the_primary_was_asked_or_long_after() -> None:
    progress = ReplicaProgress(10)
    assert progress.needed("sales", 100) is None
    progress.saw(500, at=100, writes=0)
    assert progress.needed("sales", 100) == 500
    assert progress.needed("sales", 110) == 500
    assert progress.needed("sales", 110.1) is None, "the primary may have written since"


def test_what_was_written_longer_ago_than_the_limit_has_to_be_there() -> None:
    progress = ReplicaProgress(10)
    for second in range(30):
        progress.saw(1000 + second, at=second, writes=0)
    assert progress.needed(None, 29) == 1019


def test_own_writes_are_waited_for_in_their_theme_only() -> None:
    progress = ReplicaProgress(10)
    progress.saw(100, at=0, writes=progress.writes())
    progress.wrote({"sales"})
    assert (progress.needed("sales", 1), progress.needed(None, 1), progress.needed("other", 1)) == (None, None, 100)
    assert progress.unplaced()
    progress.saw(300, at=1, writes=progress.writes())
    assert (progress.needed("sales", 1), progress.needed(None, 1), progress.needed("other", 1)) == (300, 300, 100)
    assert not progress.unplaced()
    progress.saw(900, at=11, writes=progress.writes())
    assert progress.needed("sales", 11) == 300
    progress.saw(950, at=20, writes=progress.writes())
    assert progress.needed("sales", 20) == 900, "by now the limit asks for more"


def test_a_position_that_was_asked_for_before_a_write_says_nothing_of_it() -> None:
    progress = ReplicaProgress(10)
    before = progress.writes()
    progress.wrote({"sales"})
    progress.saw(100, at=0, writes=before)
    assert progress.needed("sales", 0) is None
    progress.wrote({"sales"})
    progress.saw(200, at=1, writes=1)
    assert progress.needed("sales", 1) is None, "the second one came after that"


def test_the_lag_is_the_time_since_something_has_been_missing() -> None:
    progress = ReplicaProgress(10)
    assert progress.lag_s(0, 50) == 0
    for second, position in ((10, 100), (20, 100), (30, 200), (40, 300)):
        progress.saw(position, at=second, writes=0)
    assert [progress.lag_s(position, 50) for position in (300, 250, 200, 100, 99)] == [0, 10, 10, 20, 40]


def test_another_primary_counts_anew() -> None:
    progress = ReplicaProgress(10)
    progress.wrote({"sales"})
    progress.saw(900, at=0, writes=1)
    progress.restart()
    assert progress.needed("sales", 1) is None
    progress.saw(50, at=1, writes=1)
    assert progress.needed("sales", 1) == 50


@pytest.mark.parametrize("position", [8192 + 24, 8192 + 40])
def test_a_page_that_only_has_its_header_is_not_waited_for(position: int) -> None:
    """An idle primary names the place where its next record will begin: no replica comes there before there is one."""
    answers = [
        SimpleNamespace(position=position, timeline=1),
        SimpleNamespace(database=1, tables=2, tells_system=True),
        SimpleNamespace(applied="1"),
        SimpleNamespace(system=7),
    ]
    rows = iter(answers)
    conn: Any = SimpleNamespace(
        execute=lambda statement: SimpleNamespace(fetchone=lambda: next(rows)), pipeline=nullcontext
    )
    place = look_at_primary(cast("DeadlineConnection", conn))
    assert (place.position, place.identity) == (8192, DatabaseIdentity(7, 1, 2, "1"))


def test_a_server_that_does_not_follow_or_does_not_tell_is_refused() -> None:
    assert check_position(True, 5) == 5
    for follows, position in ((False, None), (False, 5), (True, None)):
        with pytest.raises(StoreMisconfigured):
            check_position(follows, position)
