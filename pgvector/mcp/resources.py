"""What a client may read without a tool: resources by their addresses, and the prompt `context`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from ..domain.chunks import estimate_tokens
from ..domain.errors import InvalidArgument
from ..domain.text import clean
from ..domain.theme import is_chat
from ..host.recall_tools import whole
from ..recall.render import HEADING, quoted
from ..store.vector_search import theme_names
from .client_memory import ClientMemory
from .sdk import NOT_FOUND, RequestRefused
from .tools import TURNS_MOST, transcript

JSON: Final = "application/json"
_THEMES: Final = "memory://themes"
_THEMES_MOST = 1000
_CONTEXT_TOKENS = 800
_CONTEXT_MOST = 8000

TEMPLATES: Final = (
    {
        "uriTemplate": "memory://theme/{name}/profile",
        "name": "theme-profile",
        "title": "Profile of a theme",
        "description": "What is known of the user, and the newest notes, in a theme of this session or token.",
        "mimeType": JSON,
    },
    {
        "uriTemplate": "memory://session/{id}",
        "name": "session",
        "title": "Transcript of a session",
        "description": "What was said in a session of this theme, in order.",
        "mimeType": JSON,
    },
)
PROMPTS: Final = (
    {
        "name": "context",
        "title": "What is remembered",
        "description": "What holds, what is known of the user, the newest notes, and what fits a message.",
        "arguments": [
            {"name": "message", "description": "what the session is about", "required": False},
            {"name": "max_tokens", "description": f"at most this long (default {_CONTEXT_TOKENS})", "required": False},
        ],
    },
)


class ResourceAsked(NamedTuple):
    """What a resource's address means: the theme it names, "" for the session's own, and how to read it there."""

    theme: str
    read: Callable[[ClientMemory], Mapping[str, Any]]


def listed(memory: ClientMemory) -> list[dict[str, Any]]:
    """Return the resources of a session by their addresses: the themes, and its own profile."""
    own = memory.opened()[1].place.memories.name
    return [
        {"uri": _THEMES, "name": "themes", "title": "Themes that may be read here", "mimeType": JSON},
        {
            "uri": f"memory://theme/{quote(own, safe='')}/profile",
            "name": "profile",
            "title": f"Profile of the theme {own}",
            "mimeType": JSON,
        },
    ]


def asked(uri: str) -> ResourceAsked:
    """Return what an address means. Raises RequestRefused."""
    scheme, _, rest = uri.partition("://")
    match [clean(unquote(part)) for part in rest.split("/")] if scheme == "memory" else []:
        case ["themes"]:
            return ResourceAsked("", _themes)
        case ["theme", name, "profile"] if name.strip():
            return ResourceAsked(name, lambda memory: memory.keep("memory_profile", {}))
        case ["session", session] if session.strip():
            return ResourceAsked("", lambda memory: _session(memory, session))
    raise RequestRefused(NOT_FOUND, f"there is no resource {clean(uri)[:200]!r} here; see resources/templates/list")


def contents(uri: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resource's contents as `resources/read` gives them."""
    text = json.dumps(answer, ensure_ascii=False, default=str)
    return {"contents": [{"uri": uri, "mimeType": JSON, "text": text}]}


def _themes(memory: ClientMemory) -> dict[str, Any]:
    runtime, context = memory.opened()
    with runtime.backend.connection(memory.patience_s) as conn:
        names = [name for name in theme_names(conn) if not is_chat(name)]
    own = context.place.memories.name
    readable = [name for name in names if name == own or memory.may_read(name)]
    return {"own": own, "themes": readable[:_THEMES_MOST], "count": len(readable)}


def _session(memory: ClientMemory, session: str) -> dict[str, Any]:
    memory.check_reading()
    found = transcript(memory, session, TURNS_MOST)
    if not found["turns"]:
        raise RequestRefused(NOT_FOUND, f"no session {clean(session)[:200]!r} has turns in this theme")
    return found | ({"note": f"only the first {TURNS_MOST} turns are here"} if found["count"] == TURNS_MOST else {})


def prompt(memory: ClientMemory, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the prompt `context`: the hot block, the profile, and what fits the message, within `max_tokens`."""
    most = whole(args, "max_tokens", 100, _CONTEXT_MOST, _CONTEXT_TOKENS)
    hot = memory.hot_block(most)
    fitting = memory.fitting(clean(args.get("message") or ""), most - estimate_tokens(hot))
    left = most - estimate_tokens(hot) - estimate_tokens(fitting)
    parts = [hot, _profile(memory, left, fitting), fitting]
    text = "\n\n".join(filter(None, parts)) or "Nothing is remembered here yet."
    content = {"type": "text", "text": text}
    return {"description": "What is remembered", "messages": [{"role": "user", "content": content}]}


def _profile(memory: ClientMemory, tokens: int, told: str) -> str:
    """Return the lines of the profile that fit and are not among those of `told`, or "" if there are none."""
    if tokens < 100:
        return ""
    known = memory.keep("memory_profile", {"max_tokens": min(tokens, _CONTEXT_MOST)})
    about = {"user": "about the user", "memory": "memory"}
    quotes = [
        (f"- [{line['date'][:10]}, {about[target]}] ", f'"{quoted(line["content"])}"')
        for target in about
        for line in known[target]
    ]
    lines = [begin + quote for begin, quote in quotes if quote not in told]
    return "\n".join([HEADING, *lines]) if lines else ""


def check_prompt(name: object) -> None:
    """Raise InvalidArgument if there is no such prompt."""
    if name != "context":
        raise InvalidArgument("there is no such prompt; the only one is context")
