"""Options for what a memory records about itself besides its text."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any

from ...capture.sanitize import Sanitizer
from ...domain.facts import KINDS, STATES, structure_of
from .commands import argument, between

FACT_KINDS = tuple(kind for kind in KINDS if kind not in ("procedure", "reflection"))
_GIVEN = (
    "kind", "subject", "scope", "when", "state", "expires_at", "confidence", "sources", "replaces", "pinned",
)  # fmt: skip


def _number_of(what: str, letter: str, text: str) -> str:
    """Return an option that names a row by its number, or is empty, which clears it."""
    if text.strip() and not re.fullmatch(rf"\s*{letter}?\d{{1,18}}\s*", text, re.ASCII | re.IGNORECASE):
        raise argparse.ArgumentTypeError(f"{text!r} names no {what}; write {letter}123")
    return text


_TURN, _MEMORY = partial(_number_of, "turn", "t"), partial(_number_of, "memory", "m")
_ROW_OPTIONS = (
    argument("--kind", "what kind of memory it is", choices=KINDS),
    argument("--subject NAME", "what it is about, such as srv.prod: of one subject, one is current"),
    argument("--scope NAME", "the project or task it belongs to"),
    argument("--when TEXT", "the situation that a procedure or reflection is for"),
    argument("--expires-at WHEN", "not recalled from then on: 2026-12-24, or 7d or '3 months' from now"),
    argument("--confidence SHARE", "how sure it is, 0 to 1", type=between(0, 1)),
    argument("--source-turn ID", "a turn that says it: t123; repeatable", dest="sources", action="append", type=_TURN),
    argument("--replaces ID", "the memory whose place it takes: m123", type=_MEMORY),
)
ADD_OPTIONS = (
    *_ROW_OPTIONS,
    argument("--pinned", "it belongs before every session of the theme", action="store_const", const=True),
)
EDIT_OPTIONS = (
    *_ROW_OPTIONS,
    argument("--state", "close it, archive it, or make it active again", choices=STATES),
    argument("--pin", "put it before every session of the theme", dest="pinned", action="store_const", const=True),
    argument("--unpin", "do not put it there any more", dest="pinned", action="store_const", const=False),
)


def said_in(args: argparse.Namespace, keep: Sanitizer) -> dict[str, Any]:
    """Return what the options say; see `said_of`."""
    return said_of({name: value for name in _GIVEN if (value := getattr(args, name, None)) is not None}, keep)


def said_of(given: Mapping[str, Any], keep: Sanitizer) -> dict[str, Any]:
    """Return the given properties of a memory by the names of `Structure`, secrets masked; None where "" clears one.

    A date or time without a zone is one of this machine's. Raises InvalidArgument.
    """
    given = keep.structure(given, Counter())
    if "sources" in given:
        given["sources"] = [each.strip().lower().removeprefix("t") for each in given["sources"] if each.strip()]
    if "replaces" in given:
        given["replaces"] = given["replaces"].strip().lower().removeprefix("m")
    said = structure_of(given, zone=None).said()
    return {name: said.get(name) for name in given}
