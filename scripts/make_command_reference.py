#!/usr/bin/env python3
"""Writes docs/commands.md from the command line itself.

Run it after a command or an option was added or changed, in an environment that has the package. `--check` changes
nothing, and exits with 1 when the page is out of date.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from hermes_memory_pgvector.admin.common.commands import EXITS, fill_all
from hermes_memory_pgvector.cli import command_groups, command_line

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
_HEAD = f"""# Commands

<!-- This page is made by scripts/make_command_reference.py: change pgvector/admin/, then run it. -->

`hermes-pgvector ...` and `hermes pgvector ...` are the same; the second works while pgvector is the active memory
provider. Elsewhere than on a terminal tables are plain columns; `--json` gives JSON and nothing else on
stdout, also of an error: `{{"error": "what is wrong and what to do", "type": "StoreUnavailable"}}`. Only where `export`
writes rows to stdout is an error on stderr alone. `NO_COLOR` is honoured. What deletes or replaces memories or turns
shows what it would do until `--yes` is given (`copy` carries removals along); in JSON, `done` (of `setup`: `saved`)
is false then, as with `--dry-run`. Times without a zone are this machine's.
Every command takes `--help` and `--hermes-home DIR` (default: `$HERMES_HOME` or `~/.hermes`). A home that is
not there is refused, except by the commands that make one.

{EXITS}
"""
_EVERYWHERE = {"--help", "--hermes-home"}


def page() -> str:
    """The page, one section a command, one below it for each of its actions."""
    parts = [_HEAD, _contents()]
    whole = command_line()
    fill_all(whole)
    for name, parser in _below(whole):
        parts += _sections(2, name, parser)
    return "\n".join(parts)


def _sections(rank: int, name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield _section(rank, name, parser)
    for action, own in _below(parser):
        yield from _sections(3, f"{name} {action}", own)


def _contents() -> str:
    """Return the groups of the help, with links to their commands."""
    groups = command_groups().items()
    rows = [f"| {heading} | {', '.join(f'[{each.name}](#{each.name})' for each in some)} |" for heading, some in groups]
    return "\n".join(["| To | Commands |", "|---|---|", *rows, ""])


def _below(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _section(rank: int, name: str, parser: argparse.ArgumentParser) -> str:
    lines = [f"{'#' * rank} {name}", "", str(parser.description), ""]
    rows = [row for action in parser._actions if (row := _row(action))]
    if rows:
        lines += ["| Argument | Meaning |", "|---|---|", *rows, ""]
    if not any(_below(parser)) or rank == 2:
        examples = str(parser.epilog).split("\n\n")[0].splitlines()[1:]
        lines += ["```bash", *(line.removeprefix("  ") for line in examples), "```", ""]
    return "\n".join(lines)


def _row(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
        return ""
    if _EVERYWHERE & set(action.option_strings):
        return ""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    value = value if isinstance(value, str) else " ".join(value)
    if action.option_strings:
        takes = action.nargs != 0 and not isinstance(action, argparse.BooleanOptionalAction)
        shown = ", ".join(action.option_strings) + (f" {value or action.dest.upper()}" if takes else "")
    else:
        shown = value or action.dest.upper()
    return f"| `{_cell(shown)}` | {_cell(str(action.help))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("%%", "%")


def main() -> int:
    """Write the page, or only compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    args = parser.parse_args()
    if args.check:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
