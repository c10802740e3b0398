"""What the command line says to somebody who mistypes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hermes_memory_pgvector import cli
from hermes_memory_pgvector.admin.common.commands import EXIT_USAGE


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("them", "there is no command 'them'; did you mean: themes?"),
        ("exprot", "there is no command 'exprot'; did you mean: export?"),
        ("quux", "there is no command 'quux', only setup, doctor,"),
        ("themes renam a b", "themes: error: there is no action 'renam'; did you mean: rename?"),
        ("setup nonsense", "hermes-pgvector setup: error: unknown arguments: nonsense"),
        ("migrate postgresql://me:geheim@db/x", "unknown arguments: postgresql://me:***@db/x"),
        ("themes log --limit 0", "--limit: write a whole number, 1 or more"),
        ("prune --theme x --keep-rows many", "--keep-rows: write a whole number, 1 or more"),
    ],
)
def test_what_was_mistyped_is_told_with_what_was_probably_meant(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(line.split())
    printed = capsys.readouterr()
    assert stopped.value.code == EXIT_USAGE
    assert said in printed.err and not printed.out


def test_help_that_nobody_reads_to_its_end_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "hermes_memory_pgvector.cli", "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0
