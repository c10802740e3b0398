"""The tools with the setting `structure`, by which memories say what they are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ..domain.facts import KINDS, STATES
from ..domain.text import clean
from ..host.recall_tools import one_of, whole
from ..host.tool_registry import STRUCTURE_TAKEN, schemas
from ..store.fact_list import CURRENT, FactFilter, facts
from .client_memory import ClientMemory
from .tools import REMEMBER, TEXT, TOOLS, Tool, paged, plain_row

_DEFAULT = 50
_MOST = 500


def _facts(memory: ClientMemory, args: Mapping[str, Any]) -> Mapping[str, Any]:
    memory.check_reading()
    memory.settle()
    state = one_of(args.get("state"), "state", STATES)
    wanted = FactFilter(
        states=(state,) if state else CURRENT,
        kind=one_of(args.get("kind"), "kind", KINDS),
        scope=_name(args, "scope"),
        subject=_name(args, "subject"),
    )
    limit, offset = whole(args, "limit", 1, _MOST, _DEFAULT), whole(args, "offset", 0, 1_000_000, 0)
    runtime, context = memory.opened()
    theme = context.place.memories.name
    with runtime.backend.connection(memory.patience_s) as conn:
        found = facts(conn, theme, wanted, limit=limit, offset=offset)
    shown, note = paged([plain_row(row) for row in found], limit, offset)
    return {"theme": theme, "facts": shown, "count": len(shown)} | note


def _name(args: Mapping[str, Any], name: str) -> str | None:
    return " ".join(clean(args.get(name) or "").split()) or None


FACTS: Final = Tool(
    "facts",
    "Facts",
    "List what holds in this theme: memories that say what they are about, those said last first. Use it to see all "
    "that was decided on a subject or in a scope, where recall finds what fits a question.",
    {
        "kind": {"type": "string", "enum": list(KINDS)},
        "subject": {"type": "string", "description": "such as auth; those below it, such as auth.tokens, count too"},
        "scope": {"type": "string", "description": "project or task"},
        "state": {"type": "string", "enum": list(STATES), "description": "default: active and closed"},
        "limit": {"type": "integer", "minimum": 1, "maximum": _MOST, "default": _DEFAULT},
        "offset": {"type": "integer", "minimum": 0},
    },
    _facts,
    gives={
        "theme": TEXT,
        "facts": {"type": "array", "items": {"type": "object"}},
        "count": {"type": "integer"},
        "note": TEXT,
    },
    reads=True,
)


def tools_with_structure() -> tuple[Tool, ...]:
    """Return the tools with `facts`, and with a `remember` that takes what a memory says about itself."""
    (told,) = (each for each in schemas(("remember",), structure=True) if each["name"] == "remember")
    also = tuple(name for name in STRUCTURE_TAKEN if name not in told["parameters"]["properties"])
    takes = {**told["parameters"]["properties"], **REMEMBER.takes}
    remember = replace(REMEMBER, takes=takes, also=(*REMEMBER.also, *also))
    return (*(remember if tool is REMEMBER else tool for tool in TOOLS), FACTS)
