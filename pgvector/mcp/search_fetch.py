"""The tools `search` and `fetch`, as connectors expect them: one finds ids, the other gives the whole text of one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ..domain.errors import InvalidArgument
from ..domain.text import clean
from ..store import memories
from ..store import sessions as stored_sessions
from .client_memory import ClientMemory
from .tools import RECALL_TOOLS, TEXT, Tool, searched

_FOUND = 10  # of memories, and as many turns
_TITLE_CHARS = 80
_ID = re.compile(r"([mt])(\d{1,18})")  # m12 is a memory, t34 a turn: as the command line has it


def _search(memory: ClientMemory, args: Mapping[str, Any]) -> Mapping[str, Any]:
    asked = {"query": args["query"], "limit": _FOUND, "scope": "current"}
    found, failed = searched(memory, RECALL_TOOLS, asked)
    results: list[dict[str, Any]] = []
    for store, answer in found.items():
        for hit in answer["results"]:
            ref = f"{store[0]}{hit['id']}"
            results.append({"id": ref, "title": _title(hit["content"]), "url": _url(ref)})
    return {"results": results} | ({"note": "; ".join(failed.values())} if failed else {})


def _fetch(memory: ClientMemory, args: Mapping[str, Any]) -> Mapping[str, Any]:
    memory.check_reading()
    ref = clean(args["id"]).strip()
    if (parts := _ID.fullmatch(ref)) is None:
        raise InvalidArgument("`id` must be one that search gave: m12 is a memory, t34 a turn")
    runtime, context = memory.opened()
    letter, number = parts[1], int(parts[2])
    with runtime.backend.connection(memory.patience_s) as conn:
        if letter == "m":
            found = memories.entries(conn, context.place.memories.name, [number])
            known = [(each.content, {"target": each.target, "date": each.at.isoformat()}) for each in found]
        else:
            turn = stored_sessions.turn(conn, context.theme.name, number)
            known = [] if turn is None else [(turn.pop("content"), turn | {"date": turn.pop("ts").isoformat()})]
    if not known:
        raise InvalidArgument(f"this theme has no {'memory' if letter == 'm' else 'turn'} {ref}: search again")
    (text, metadata), *_ = known
    return {"id": ref, "title": _title(text), "text": text, "url": _url(ref), "metadata": metadata}


def _title(content: str) -> str:
    line = " ".join(content.split())
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"


def _url(ref: str) -> str:
    return f"memory://row/{ref}"


_ROW = {"id": TEXT, "title": TEXT, "url": TEXT}
SEARCH: Final = Tool(
    "search",
    "Search",
    "Search memories and earlier conversations; `fetch` gives the whole text of a result.",
    {"query": {"type": "string", "description": "what to look for, in plain words"}},
    _search,
    gives={"results": {"type": "array", "items": {"type": "object", "properties": _ROW}}, "note": TEXT},
    required=("query",),
    reads=True,
)
FETCH: Final = Tool(
    "fetch",
    "Fetch",
    "Give the whole text of what `search` found.",
    {"id": {"type": "string", "description": "the id of a result"}},
    _fetch,
    gives={**_ROW, "text": TEXT, "metadata": {"type": "object"}},
    required=("id",),
    reads=True,
)
