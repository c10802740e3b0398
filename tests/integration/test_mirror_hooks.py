"""The mirror of the built-in memory, as the hooks announce its writes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MakeProvider
from tests.support.memory import DELIMITER, landed, recalled, runtime_of
from tests.support.stored import Database


def test_need_15_an_added_memory_is_recalled_and_a_removed_one_never_again(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "  The Atlas launch is on 3 May\n")
    provider.on_memory_write("add", "user", "Prefers metric units")
    landed(provider)
    assert recalled(provider, "atlas launch") == ["The Atlas launch is on 3 May"]
    assert recalled(provider, "metric units", target="user") == ["Prefers metric units"]
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas"})
    landed(provider)
    assert recalled(provider, "atlas launch") == []
    assert recalled(provider, "metric units") == ["Prefers metric units"]


def test_need_15_a_newer_host_names_the_whole_previous_entry(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas runs on port 5432")
    provider.on_memory_write("add", "memory", "Atlas runs on port 5432 on staging")
    provider.on_memory_write(
        "remove", "memory", "", {"old_text": "5432", "previous_content": "Atlas runs on port 5432 on staging"}
    )
    landed(provider)
    assert recalled(provider, "atlas port") == ["Atlas runs on port 5432"]


def test_need_15_a_replaced_memory_is_recalled_in_its_new_words_only(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "The Atlas launch is on 3 May")
    provider.on_memory_write("replace", "memory", "The Atlas launch is on 9 June", {"old_text": "3 May"})
    landed(provider)
    assert recalled(provider, "atlas launch") == ["The Atlas launch is on 9 June"]


def test_need_15_a_replacement_without_the_old_entry_is_a_fact_all_the_same(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("replace", "memory", "The Atlas launch is on 9 June", {"old_text": "3 May"})
    landed(provider)
    assert recalled(provider, "atlas launch") == ["The Atlas launch is on 9 June"]
    assert runtime_of(provider).stats()["replace_unmatched"] == 1


def test_need_15_a_replaced_entry_that_nobody_has_read_yet_costs_no_other_memory(make_provider: MakeProvider) -> None:
    """A background review or an editor has written "Standup is at nine on Monday" since the session began."""
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas deploys on Monday")
    provider.on_memory_write("replace", "memory", "Atlas deploys on Tuesday", {"old_text": "Monday"})
    provider.on_memory_write("replace", "memory", "Standup is at ten on Wednesday", {"old_text": "Monday"})
    landed(provider)
    assert sorted(recalled(provider, "atlas standup")) == ["Atlas deploys on Tuesday", "Standup is at ten on Wednesday"]


def test_need_15_a_batch_is_applied_in_its_order(make_provider: MakeProvider) -> None:
    """The host expands a batch into one announcement after the other, without a pause."""
    provider = make_provider()
    for number in range(40):
        provider.on_memory_write("add", "memory", f"Entry {number} of the batch")
    for number in range(0, 40, 2):
        provider.on_memory_write("replace", "memory", f"Changed {number}", {"old_text": f"Entry {number} of"})
    for number in range(1, 40, 4):
        provider.on_memory_write("remove", "memory", "", {"old_text": f"Entry {number} of the batch"})
    landed(provider)
    expected = {f"Changed {n}" for n in range(0, 40, 2)} | {f"Entry {n} of the batch" for n in range(3, 40, 4)}
    assert set(recalled(provider, "entry batch changed")) == expected


def test_need_15_a_repeated_add_changes_nothing_but_its_time(make_provider: MakeProvider, dsn: str) -> None:
    provider, database = make_provider(), Database(dsn)
    provider.on_memory_write("add", "memory", "Atlas is blue", {"note": "first"})
    landed(provider)
    (row,) = database.column("SELECT to_jsonb(m) - 'updated_at' FROM memory_entries AS m")
    (before,) = database.column("SELECT updated_at FROM memory_entries")
    provider.on_memory_write("add", "memory", "Atlas is blue", {"note": "second"})
    landed(provider)
    assert database.column("SELECT to_jsonb(m) - 'updated_at' FROM memory_entries AS m") == [row]
    (after,) = database.column("SELECT updated_at FROM memory_entries")
    assert after > before


def test_need_15_removal_works_while_the_add_is_still_queued(make_provider: MakeProvider, dsn: str) -> None:
    provider, database = make_provider(), Database(dsn)
    provider.on_memory_write("add", "memory", "Something to hold the writer up")
    landed(provider)
    with database.writes_blocked():
        provider.on_memory_write("add", "memory", "Atlas is red")
        provider.on_memory_write("add", "memory", "Atlas is green")
        provider.on_memory_write("remove", "memory", "", {"old_text": "is red"})
        provider.on_memory_write("replace", "memory", "Atlas is grey", {"old_text": "is green"})
        assert runtime_of(provider).stats()["queue_depth"] == 4
    landed(provider)
    assert recalled(provider, "atlas") == ["Atlas is grey"]


def test_need_15_an_ambiguous_removal_keeps_both_and_is_counted(
    make_provider: MakeProvider, records: Callable[[int], list[str]]
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas database is on port 5432")
    provider.on_memory_write("add", "memory", "Atlas proxy is on port 5432, too")
    provider.on_memory_write("remove", "memory", "", {"old_text": "port 5432"})
    landed(provider)
    assert len(recalled(provider, "atlas port")) == 2
    assert runtime_of(provider).stats()["remove_ambiguous"] == 1
    (said,) = [line for line in records(logging.WARNING) if "2 entries" in line]
    assert "remove" in said and "marketing" in said


def test_need_15_removing_nothing_in_particular_removes_nothing(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    for metadata in (None, {}, {"old_text": ""}, {"old_text": "  "}, {"old_text": None}, {"old_text": "no such text"}):
        provider.on_memory_write("remove", "memory", "", metadata)
    provider.on_memory_write("add", "memory", "   ")
    provider.on_memory_write("drop", "memory", "Atlas is blue")
    provider.on_memory_write("remove", "user", "", {"old_text": "Atlas"})
    landed(provider)
    assert recalled(provider, "atlas") == ["Atlas is blue"]
    assert runtime_of(provider).stats()["remove_unmatched"] == 2


def test_need_15_wildcards_in_the_old_text_are_plain_characters(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Discount is 100% for Atlas")
    provider.on_memory_write("add", "memory", "Discount is 100 euros for Atlas")
    provider.on_memory_write("remove", "memory", "", {"old_text": "100%"})
    provider.on_memory_write("remove", "memory", "", {"old_text": "D_scount"})
    landed(provider)
    assert recalled(provider, "atlas discount") == ["Discount is 100 euros for Atlas"]


def test_trap_04_the_whole_entry_is_meant_before_a_part_of_one(make_provider: MakeProvider) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", "Atlas is on port 5432 but only on staging")
    provider.on_memory_write("add", "memory", "Atlas is on port 5432")
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas is on port 5432"})
    landed(provider)
    assert recalled(provider, "atlas port") == ["Atlas is on port 5432 but only on staging"]
    provider.on_memory_write("add", "memory", "Atlas is on port 5432")
    provider.on_memory_write("replace", "memory", "Atlas is on port 6543", {"old_text": "Atlas is on port 5432"})
    landed(provider)
    assert set(recalled(provider, "atlas port")) == {
        "Atlas is on port 5432 but only on staging",
        "Atlas is on port 6543",
    }


def test_trap_14_replace_carries_the_new_provenance(make_provider: MakeProvider, dsn: str) -> None:
    first = make_provider(session_id="monday", agent_identity="coder")
    first.on_memory_write("add", "memory", "The Atlas launch is on 3 May", {"tool_name": "memory", "note": "old"})
    landed(first)
    second = make_provider(session_id="tuesday", agent_identity="writer")
    second.on_memory_write("replace", "memory", "The Atlas launch is on 9 June", {"old_text": "3 May", "note": "new"})
    landed(second)
    (metadata,) = Database(dsn).column("SELECT metadata FROM memory_entries")
    assert metadata == {
        "source": "memory_tool",
        "session_id": "tuesday",
        "profile": "writer",
        "platform": "api_server",
        "note": "new",
    }
    assert recalled(second, "atlas launch") == ["The Atlas launch is on 9 June"]


@pytest.mark.parametrize("writer", ["sales", "trading"])
def test_need_15_a_line_that_two_themes_have_is_replaced_for_both(make_provider: MakeProvider, writer: str) -> None:
    """The host announces an entry that its file holds already once more, in the theme that says it again."""
    themes = {name: make_provider(gateway_session_key=name) for name in ("sales", "support", "trading")}
    for name in ("sales", "support"):
        themes[name].on_memory_write("add", "memory", "The Atlas launch is on 3 May")
    themes[writer].on_memory_write("replace", "memory", "The Atlas launch is on 9 June", {"old_text": "3 May"})
    landed(themes[writer])
    told = {name: recalled(provider, "atlas launch") for name, provider in themes.items()}
    assert told == {"sales": [], "support": [], "trading": []} | {writer: ["The Atlas launch is on 9 June"]}


@pytest.mark.parametrize("content", ["Atlas is blue\r\nand tall", "Atlas is blue\nand tall\n§\nBorealis is green"])
def test_need_15_what_a_tool_writes_stays_in_its_theme_when_the_file_is_read(
    make_provider: MakeProvider, home: Path, content: str
) -> None:
    """The host reads an entry with other line ends than were written, and one with its delimiter inside as two."""
    provider = make_provider()
    (home / "memories").mkdir()
    (home / "memories" / "MEMORY.md").write_text(f"Cygnus is red{DELIMITER}{content}", encoding="utf-8", newline="")
    provider.on_memory_write("replace", "memory", content, {"old_text": "Atlas is white"})
    landed(provider)
    entries = content.replace("\r\n", "\n").split(DELIMITER)
    assert sorted(recalled(provider, "atlas borealis")) == entries
    provider = make_provider()
    landed(provider)
    assert sorted(recalled(provider, "atlas borealis")) == entries
    assert recalled(provider, "atlas borealis cygnus", scope="default") == ["Cygnus is red"]
    provider.on_memory_write("remove", "memory", "", {"old_text": entries[0]})
    landed(provider)
    assert recalled(provider, "atlas borealis") == entries[1:]
