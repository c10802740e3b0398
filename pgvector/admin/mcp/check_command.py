"""The command `mcp check`."""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ...domain.errors import ConfigurationError, HermesPgvectorError
from ...domain.redaction import mask_dsn
from ...store.backend import NO_ANSWER_YET
from ..common.client_files import CLIENTS, entry_in, entry_of, file_of, without_secrets
from ..common.commands import EXIT_FAILED, EXIT_OK, Command, argument, printed
from ..common.console import remark, say, warn
from .client_command import add_client_options, client_named
from .stdio_client import ServerFailed, StdioClient, part_of

_ANSWERS_S: Final = 60.0  # the first answer may have to wait for the start of an embedded server
_FOUND_S: Final = 15.0
_AGAIN_S: Final = 0.2
State = Literal["ok", "failed", "not called"]


@dataclass(frozen=True)
class Called:
    """The result and duration of one call."""

    name: str
    state: State
    note: str = ""
    ms: int = 0


def _check(args: argparse.Namespace, home: Path) -> int:
    entry = _entry(args, home)
    calls = list(_calls(entry, read_only=args.read_only))
    ok = all(call.state != "failed" for call in calls)
    told = {"ok": ok, "entry": without_secrets(entry), "calls": [asdict(call) for call in calls]}
    printed(args, told, lambda: _show(calls))
    return EXIT_OK if ok else EXIT_FAILED


def _entry(args: argparse.Namespace, home: Path) -> Mapping[str, Any]:
    if args.client is None:
        return entry_of("claude-code", home)
    place = file_of(args.client, home, args.project)
    entry = entry_in(place, args.name)
    if entry is None:
        raise ConfigurationError(
            f"{place.path} has no entry {args.name!r}; make it: hermes-pgvector mcp install {client_named(args)}"
        )
    if not isinstance(entry, Mapping) or not isinstance(entry.get("command"), str):
        raise ConfigurationError(
            f"the entry {args.name!r} in {place.path} starts no program: there is nothing to check"
        )
    return entry


def _show(calls: Sequence[Called]) -> None:
    width = max(len(call.name) for call in calls)
    for call in calls:
        time_taken = f"{call.ms} ms" if call.state == "ok" else ""
        say(f"{call.state:<10}  {call.name:<{width}}  {'; '.join(filter(None, (time_taken, call.note)))}".rstrip())


def _calls(entry: Mapping[str, Any], *, read_only: bool) -> Iterator[Called]:
    """Start the server, call its tools and yield each call; a failed call is the last one."""
    began = time.monotonic()
    name = "start"
    try:
        with StdioClient(entry, answers_s=_ANSWERS_S) as client:
            told = client.open()
            tools, server = client.tools(), told.get("serverInfo")
            named = f"{part_of(server, 'name')} {part_of(server, 'version')}"
            yield Called(name, "ok", f"{named}, {len(tools)} tools", _ms(began))
            for name, arguments in _reading(tools):
                began = time.monotonic()
                _read(client, name, arguments)
                yield Called(name, "ok", ms=_ms(began))
            if not read_only and {"recall", "remember", "forget"} <= tools.keys():
                name = "remember"
                yield from _probe(client)
    except HermesPgvectorError as exc:
        yield Called(name, "failed", mask_dsn(str(exc)), _ms(began))
        return
    called = {"recall", *(read for read, _ in _reading(tools))} | (set() if read_only else {"remember", "forget"})
    for left in tools.keys() - called:
        yield Called(left, "not called", "it would write what cannot be taken back")


def _reading(tools: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the tools that only read, with arguments for them."""
    for name, tool in tools.items():
        needed = part_of(tool.get("inputSchema"), "required") or []
        if part_of(tool.get("annotations"), "readOnlyHint") and needed in ([], ["query"]):
            yield name, dict.fromkeys(needed, "mcp check")


def _read(client: StdioClient, tool: str, arguments: Mapping[str, str]) -> None:
    """Call a tool, and retry while Postgres has not answered yet, as the embedded one while it starts."""
    end = time.monotonic() + _ANSWERS_S
    while True:
        try:
            client.call(tool, arguments)
            return
        except ServerFailed as exc:
            if NO_ANSWER_YET not in str(exc) or time.monotonic() > end:
                raise
        time.sleep(_AGAIN_S)


def _probe(client: StdioClient) -> Iterator[Called]:
    """Write a memory, find it and forget it again, also where that is interrupted; no other memory is forgotten."""
    mark = secrets.token_hex(8)
    try:
        yield from _probed(client, mark)
    except KeyboardInterrupt:
        remark("forgetting what was written for this; Ctrl-C again lets it be")
        try:
            _forget(client, _found(client, mark))
        except HermesPgvectorError:
            warn(f"a probe may have been written and not forgotten: hermes-pgvector forget --query 'probe {mark}'")
        raise


def _probed(client: StdioClient, mark: str) -> Iterator[Called]:
    began = time.monotonic()
    client.call("remember", {"content": f"probe {mark} of hermes-pgvector mcp check, to be forgotten"})
    yield Called("remember", "ok", ms=_ms(began))
    began = time.monotonic()
    memory_id = _found(client, mark)
    yield Called("recall", "ok", "what was written is found", _ms(began))
    began = time.monotonic()
    _forget(client, memory_id)
    yield Called("forget", "ok", ms=_ms(began))


def _forget(client: StdioClient, memory_id: int) -> None:
    if client.call("forget", {"id": memory_id}).get("count") != 1:
        raise ServerFailed(f"the probe was not forgotten; do it: hermes-pgvector forget m{memory_id} --yes")


def _found(client: StdioClient, mark: str) -> int:
    end = time.monotonic() + _FOUND_S
    while True:
        answer = client.call("recall", {"query": f"probe {mark}", "of": "memories"})
        found = part_of(answer.get("memories"), "results")
        for row in found if isinstance(found, list) else ():
            if mark in str(part_of(row, "content")) and isinstance(number := part_of(row, "id"), int):
                return number
        if time.monotonic() > end:
            raise ServerFailed(f"what was written is not recalled within {_FOUND_S:g} s; search for: {mark}")
        time.sleep(_AGAIN_S)


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


CHECK = Command(
    "hermes-pgvector mcp check\nhermes-pgvector mcp check --client codex\nhermes-pgvector mcp check --read-only",
    _check,
    [
        argument(
            "--client",
            "start the server by the entry in this client's file (default: by the one that install would write)",
            choices=CLIENTS,
        ),
        *add_client_options,
        argument("--read-only", "write no memory, not even one that is forgotten again"),
    ],
)
