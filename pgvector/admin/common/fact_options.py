"""Options that say of a memory what it says of itself besides its text."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...capture.sanitize import Sanitizer
from ...domain.facts import KINDS, STATES, structure_of
from .commands import argument

_GIVEN = (
    "kind", "subject", "scope", "when", "state", "expires_at", "confidence", "sources", "replaces", "pinned",
)  # fmt: skip

_ROW_OPTIONS = (
    argument("--kind", choices=KINDS, help="what kind of memory it is"),
    argument("--subject", metavar="NAME", help="what it is about, such as srv.prod: of one subject, one is current"),
    argument("--scope", metavar="NAME", help="the project or task it belongs to"),
    argument("--when", metavar="TEXT", help="the situation that a procedure or reflection is for"),
    argument("--expires-at", metavar="WHEN", help="not recalled from then on: 2026-12-24, or 7d for in seven days"),
    argument("--confidence", type=float, metavar="SHARE", help="how sure it is, 0 to 1"),
    argument(
        "--source-turn", dest="sources", action="append", metavar="ID", help="a turn that says it: t123; repeatable"
    ),
    argument("--replaces", metavar="ID", help="the memory whose place it takes: m123"),
)
ADD_OPTIONS = (
    *_ROW_OPTIONS,
    argument("--pinned", action="store_const", const=True, help="it belongs before every session of the theme"),
)
EDIT_OPTIONS = (
    *_ROW_OPTIONS,
    argument("--state", choices=STATES, help="close it, archive it, or make it active again"),
    argument("--pin", dest="pinned", action="store_const", const=True, help="put it before every session of the theme"),
    argument("--unpin", dest="pinned", action="store_const", const=False, help="do not put it there any more"),
)


def said_in(args: argparse.Namespace, keep: Sanitizer) -> dict[str, Any]:
    """Return what the options say; see `said_of`."""
    return said_of({name: value for name in _GIVEN if (value := getattr(args, name, None)) is not None}, keep)


def said_of(given: Mapping[str, Any], keep: Sanitizer) -> dict[str, Any]:
    """Return what is said of a memory, by the names of `Structure`, secrets masked; None where "" takes it away.

    Raises InvalidArgument.
    """
    given = keep.structure(given, Counter())
    if "sources" in given:
        given["sources"] = [each.strip().lower().removeprefix("t") for each in given["sources"] if each.strip()]
    if "replaces" in given:
        given["replaces"] = given["replaces"].strip().lower().removeprefix("m")
    said = structure_of(given).said()
    return {name: said.get(name) for name in given}
