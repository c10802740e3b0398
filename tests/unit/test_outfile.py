"""The file of an export, and what one that was killed has left beside it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hermes_memory_pgvector.admin.transfer.outfile import private_output


def aged(path: Path) -> Path:
    path.touch()
    an_hour_ago = time.time() - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    return path


def test_need_16_what_a_killed_export_left_goes_with_the_next_one_of_that_name(tmp_path: Path) -> None:
    left, of_another = aged(tmp_path / ".a[1].jsonl.x7q.part"), aged(tmp_path / ".b.jsonl.x7q.part")
    just_made = tmp_path / ".a[1].jsonl.y8r.part"
    just_made.touch()

    with private_output(tmp_path / "a[1].jsonl") as out:
        out.write(b"{}\n")

    assert not left.exists()
    assert of_another.exists()
    assert just_made.exists()
    assert (tmp_path / "a[1].jsonl").read_bytes() == b"{}\n"


def test_need_16_an_export_of_that_name_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with private_output(path, replace=True) as slow:
        slow.write(b"slow\n")
        (part,) = tmp_path.glob(".a.jsonl.*.part")
        aged(part)
        with private_output(path, replace=True) as quick:
            quick.write(b"quick\n")
        assert path.read_bytes() == b"quick\n"
    assert path.read_bytes() == b"slow\n"
