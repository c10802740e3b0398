"""Options for what a memory records about itself besides its text."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ...capture.sanitize import Sanitizer
from ...domain.facts import KINDS, STATES, structure_of
from .commands import argument

FACT_KINDS = tuple(kind for kind in KINDS if kind not in ("procedure", "reflection"))
_GIVEN = (
    "kind", "subject", "scope", "when", "state", "expires_at", "confidence", "sources", "replaces", "pinned",
)  # fmt: skip

_ROW_OPTIONS = (
    argument("--kind", "what kind of memory it is", choices=KINDS),
    argument("--subject NAME", "what it is about, such as srv.prod: of one subject, one is current"),
    argument("--scope NAME", "the project or task it belongs to"),
    argument("--when TEXT", "the situation that a procedure or reflection is for"),
    argument("--expires-at WHEN", "not recalled from then on: 2026-12-24, or 7d or '3 months' from now"),
    argument("--confidence SHARE", "how sure it is, 0 to 1", type=float),
    argument("--source-turn ID", "a turn that says it: t123; repeatable", dest="sources", action="append"),
    argument("--replaces ID", "the memory whose place it takes: m123"),
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
