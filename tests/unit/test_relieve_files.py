"""What `relieve` makes of a memory file, whatever stands in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hermes_memory_pgvector.admin.relieve.file_entries import MemoryFile, read_file, rewrite
from hermes_memory_pgvector.domain.text import ENTRY_DELIMITER

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=20)


@contextmanager
def in_home(text: str) -> Iterator[tuple[Path, Path]]:
    """A home whose MEMORY.md holds a text, and that file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memories" / "MEMORY.md"
        path.parent.mkdir()
        path.write_bytes(text.encode())
        yield Path(folder), path


@given(st.lists(TEXTS, max_size=8), st.data())
def test_what_stays_stays_to_the_letter_and_what_went_comes_back_in_its_place(
    parts: list[str], data: st.DataObject
) -> None:
    with in_home(ENTRY_DELIMITER.join(parts)) as (home, path):
        file = read_file(home, "memory")
        gone = data.draw(st.sets(st.sampled_from(file.entries))) if file.entries else set()
        rewrite(home, "memory", lambda now: now.without(gone))
        left = read_file(home, "memory")
        assert left.entries == tuple(entry for entry in file.entries if entry not in gone)
        assert path.read_bytes().decode() == ENTRY_DELIMITER.join(
            part for part in file.parts if part.strip() not in gone
        )
        back = [(place, entry) for place, entry in enumerate(file.entries) if entry in gone]
        rewrite(home, "memory", lambda now: now.with_again(back))
        again = read_file(home, "memory").entries
        assert sorted(again) == sorted(file.entries)
        if len(file.entries) == len([part for part in file.parts if part.strip()]):
            assert again == file.entries


def test_what_was_added_since_stays_and_nothing_stands_twice() -> None:
    now = MemoryFile("memory", ("new", "b", "d"), 0.0)
    assert now.with_again([(0, "a"), (1, "b"), (9, "z")]) == ("a", "new", "b", "d", "z")


def test_the_line_ends_of_another_system_are_read_as_the_host_reads_them() -> None:
    with in_home("red\r\n§\r\nblue\r\n§\r\ngrey") as (home, _):
        assert read_file(home, "memory").entries == ("red", "blue", "grey")
