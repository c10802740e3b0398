"""Turns and memories worth storing, and what is stored of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider

from .stored import Database

ANSWER = "Noted, the harbour office opens at half past seven on weekdays."


def turn(number: int) -> str:
    """What a user says in turn `number`: long enough to be stored, and found by its number alone."""
    return f"Please note that the harbour crane number{number:04d} was greased and inspected today."


def question(number: int) -> str:
    """What turn `number` answers."""
    return f"Was the harbour crane number{number:04d} greased and inspected?"


def user_turns(database: Database) -> list[str]:
    """What users said, in the order of the rows."""
    return database.column("SELECT content FROM conversations WHERE role = 'user' ORDER BY id")


def memories(database: Database) -> list[str]:
    """The durable memories, in the order of the rows."""
    return database.column("SELECT content FROM memory_entries ORDER BY id")


def ask(provider: PgvectorMemoryProvider, query: str, tool: str = "recall_conversation") -> dict[str, Any]:
    """The decoded answer of a recall tool."""
    answer: dict[str, Any] = json.loads(provider.handle_tool_call(tool, {"query": query}))
    return answer


def finds(provider: PgvectorMemoryProvider, query: str, content: str, tool: str = "recall_conversation") -> bool:
    """Whether a recall tool's answer holds exactly this text."""
    return any(hit["content"] == content for hit in ask(provider, query, tool).get("results", []))


def seconds(call: Callable[[], object]) -> float:
    """How long the call takes."""
    started = time.monotonic()
    call()
    return time.monotonic() - started
