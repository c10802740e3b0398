"""Replaces the halves of characters in a request.

A client that cuts a text within an emoji sends one half of its surrogate pair. Most parsers, that of the MCP SDK among
them, take this for no JSON: the request would not be answered at all.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
# An escaped backslash, so that what follows it is text; a pair; or one half of a pair.
_ESCAPE = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def whole_characters(request: str) -> str:
    """Return JSON text in which each half of a surrogate pair is U+FFFD; its length stays the same."""
    if _SURROGATE.search(request) is None:
        return request
    return _ESCAPE.sub(lambda found: r"\ufffd" if found["half"] else found[0], request)


def whole_characters_in(body: bytes) -> bytes:
    """Return the same of JSON in UTF-8."""
    return whole_characters(body.decode("latin-1")).encode("latin-1")


class WholeLines:
    """The lines of a text file of anyio, each of them a request."""

    def __init__(self, file: Any) -> None:
        self._file = file

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the lines with whole characters."""
        async for line in self._file:
            yield whole_characters(line)
