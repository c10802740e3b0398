"""What verbs print: plain columns into a pipe, a drawn table on a terminal, and nothing that steers it."""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes_memory_pgvector.admin.common.console import Column, say, show_pairs, show_table
from hermes_memory_pgvector.admin.common.progress import ProgressLine
from hermes_memory_pgvector.cli import main, pgvector_command
from hermes_memory_pgvector.domain.errors import StoreUnavailable

COLUMNS = (Column("theme"), Column("turns", right=True), Column("last_words", flexible=True))
ROWS = [
    {"theme": "sales", "turns": 12345, "last_words": "to\nbe\x1b[31m or\u202e not"},
    {"theme": "\u4e2d\u6587", "turns": None, "last_words": "x" * 3000},
]
_PROGRAM = """
from hermes_memory_pgvector.admin.common.console import Column, show_table, say
show_table([Column("theme"), Column("words", flexible=True, style="red")],
           [{"theme": "sales", "words": "[bold]not markup[/bold] \\x1b[2J" + "y" * 300}])
say("done", "green")
"""


def on_a_terminal(program: str, **environment: str) -> str:
    """What a program prints on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    environ = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    environ |= {"TERM": "xterm-256color", "COLUMNS": "80"} | environment
    process = subprocess.Popen([sys.executable, "-P", "-c", program], stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    printed = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        printed += more
    os.close(ours)
    assert process.wait(150) == 0, printed
    return printed.decode()


def test_a_table_in_a_pipe_is_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(COLUMNS, ROWS)

    heading, first, second = capsys.readouterr().out.splitlines()
    assert heading == "theme   turns  last words"
    assert first == "sales  12,345  to be [31m or not"
    assert second.startswith("\u4e2d\u6587           xxx"), "wide characters take two columns"


def test_a_long_cell_does_not_widen_its_column_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(
        (Column("theme"), Column("turns", right=True)), [{"theme": "t" * 200, "turns": 1}, {"theme": "a", "turns": 2}]
    )

    heading, long, short = capsys.readouterr().out.splitlines()
    assert (heading, short) == ("theme  turns", "a          2") and long == "t" * 200 + "      1"


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(COLUMNS, [], empty="no theme yet")

    assert capsys.readouterr().out == "no theme yet\n"


def test_pairs_stand_in_two_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show_pairs({"up": True, "since": datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "share": 0.25, "error": None})
    say("two\nlines\x07")

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "up     yes"
    assert re.fullmatch(r"since  2026-01-0[123] \d\d:\d\d", lines[1])
    assert lines[2:] == ["share  0.25", "error", "two", "lines "]


def test_a_terminal_gets_a_table_that_fits_and_colours() -> None:
    shown = on_a_terminal(_PROGRAM)

    text = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert text != shown, "there are colours"
    assert "\x1b[2J" not in shown, "stored text clears no screen"
    assert "[bold]not markup" in text
    assert max(map(len, text.splitlines())) <= 80


def test_no_color_is_honoured() -> None:
    shown = on_a_terminal(_PROGRAM, NO_COLOR="1")

    assert not re.search(r"\x1b\[(?:[0-9;]*;)?3\d", shown)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_names_every_verb(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell, "--hermes-home", str(tmp_path)]) == 0

    script = capsys.readouterr().out
    assert all(verb in script for verb in ("doctor", "themes", "rename", "--admin-dsn"))


def test_bash_completes_with_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", "bash", "--hermes-home", str(tmp_path)]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out, encoding="utf-8")

    asked = f"""
    source {script}
    COMP_WORDS=(hermes-pgvector themes re); COMP_CWORD=2
    $(complete -p hermes-pgvector | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False, timeout=150)
    assert "rename" in done.stdout.split(), done


def test_the_version_is_that_of_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])

    assert left.value.code == 0
    assert re.fullmatch(r"hermes-pgvector \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


def test_a_work_goes_on_where_nobody_reads_how_far_it_is() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        line = ProgressLine("deleted", 10, stream=stream)
        line.say("begun")
        line.advance(10)
        line.finish()
    assert line.done == 10


def test_rows_that_come_while_it_works_are_part_of_the_total() -> None:
    said = io.StringIO()
    line = ProgressLine("embedded anew", 100, stream=said)
    line.advance(164)
    line.finish()
    assert said.getvalue().startswith("embedded anew: 164 of 164 (100.0 %)")


def test_a_last_figure_that_was_told_just_now_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=60)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    said = io.StringIO()
    line = ProgressLine("copied", 100, stream=said)
    line.advance(50)
    line.advance(50)
    line.finish()
    assert [told.split(" (")[0] for told in said.getvalue().splitlines()] == [
        "copied: 50 of 100",
        "copied: 100 of 100",
    ]


def test_need_02_a_command_that_was_ended_says_so_though_its_connection_fails_afterwards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def logged() -> Iterator[None]:
        try:
            yield
        finally:
            raise StoreUnavailable("another command is already in progress")

    def stopped(args: argparse.Namespace, home: Path) -> int:
        with logged():
            raise KeyboardInterrupt

    args = argparse.Namespace(pgvector_command="prune", pgvector_run=stopped, hermes_home=str(tmp_path), json=True)
    with pytest.raises(SystemExit) as left:
        pgvector_command(args)
    said = capsys.readouterr()
    assert left.value.code == 130 and json.loads(said.out)["error"] == "interrupted before it was done"
    assert "in progress" not in said.err


_ENDED_AT_ITS_START = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.endswith("admin.common.commands"):
            sys.meta_path.remove(self)
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
from hermes_memory_pgvector.cli import main
sys.exit(main(["status", *sys.argv[1:]]))
"""


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_need_02_a_command_that_is_ended_while_it_is_loaded_prints_no_traceback(options: tuple[str, ...]) -> None:
    command = [sys.executable, "-P", "-c", _ENDED_AT_ITS_START, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert (done.returncode, done.stderr) == (130, "")
    told = {"error": "interrupted before it was done", "type": "KeyboardInterrupt"}
    assert (json.loads(done.stdout) if options else done.stdout) == (told if options else "")
