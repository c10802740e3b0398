"""What a soak holds for lost, twice, or rightly gone: the ledger of scripts/soak.py."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from soaking import texts
from soaking.ledger import Ledger, compare

THEME = "desk"


class Told:
    """A ledger that is told of one client's calls, as its threads tell it."""

    def __init__(self, door: str) -> None:
        self.ledger = Ledger(set())
        self._door = door

    def begun(self, what: str, number: int, **more: object) -> dict[str, Any]:
        said = {"do": what, "theme": THEME, "begin": number, "door": self._door, **more}
        self.ledger.begin("client", 1, said)
        return said

    def call(self, what: str, number: int, *, error: str = "", nothing: bool = False, **more: object) -> None:
        said = self.begun(what, number, **more)
        answer = {"ms": 1.0, "refused": 0, "durable": True, "error": error, "found": True, "nothing": nothing}
        self.ledger.end("client", said, answer)

    def wrong(self, *standing: int) -> list[str]:
        """What is wrong when these memories stand."""
        memories = [(THEME, texts.fact(THEME, number)) for number in standing]
        found = compare(self.ledger, [], memories, alone=set())
        return [*self.ledger.wrong, *(each for some in vars(found).values() for each in some)]


@pytest.fixture
def page() -> Told:
    return Told("page")


def test_what_was_accepted_has_to_stand_once(page: Told) -> None:
    page.call("add", 1)
    assert page.wrong(1) == []
    assert "is lost" in page.wrong()[0]
    assert "2 times" in page.wrong(1, 1)[0]


def test_an_edit_that_was_accepted_leaves_the_new_text_alone(page: Told) -> None:
    page.call("add", 1)
    page.call("edit", 2, gone=1)
    assert page.wrong(2) == []
    assert len(page.wrong(1)) == 2 and len(page.wrong(1, 2)) == len(page.wrong()) == 1


def test_what_was_taken_back_is_as_it_was(page: Told) -> None:
    page.call("add", 1)
    page.call("edit", 2, gone=1)
    page.call("undo", 3, gone=2, stands=1)
    assert page.wrong(1) == [] and page.wrong(2) != []
    page.call("forget", 4, gone=1)
    assert page.wrong() == [] and page.wrong(1) != []


def test_of_a_change_that_may_be_made_or_not_both_count_and_nothing_else(page: Told) -> None:
    page.call("add", 1)
    page.call("edit", 2, gone=1, error="503 no answer to the commit")
    assert page.wrong(1) == page.wrong(2) == []
    assert page.wrong() != [] and page.wrong(1, 2) != []


def test_a_change_whose_server_was_killed_counts_as_either(page: Told) -> None:
    page.call("add", 1)
    page.ledger.died("client", page.begun("edit", 2, gone=1))
    assert page.wrong(1) == page.wrong(2) == [] and page.wrong() != []
    assert page.ledger.unclear["in flight at a kill"] == 1


def test_a_change_that_was_refused_changes_nothing(page: Told) -> None:
    page.call("add", 1)
    page.call("edit", 2, gone=1, error="400 somebody else changed it", nothing=True)
    assert page.wrong(1) == [] and page.wrong(2) != []


def test_an_older_copy_of_the_server_may_lack_what_the_page_did_since() -> None:
    page, mcp = Told("page"), Told("mcp")
    page.call("add", 1)
    since = time.monotonic()
    for client in (page, mcp):
        client.call("add" if client is page else "remember", 2)
        client.ledger.set_back(since)
    assert page.wrong(1) == page.wrong(1, 2) == [] and page.wrong(2) != []
    assert mcp.wrong(2) == [] and mcp.wrong() != [], "it is in a spool and sent again"


def test_another_theme_in_an_answer_is_a_violation(page: Told) -> None:
    begun = page.begun("search", 1)
    page.ledger.end("client", begun, {"ms": 1.0, "refused": 0, "durable": True, "found": True, "strange": ["mole"]})
    assert page.wrong() == ["page search in theme desk told of mole"]
