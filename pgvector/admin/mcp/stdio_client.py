"""An MCP client that starts a server and talks to it over the server's stdin and stdout."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self

from ...domain.errors import DeadlineExceeded, HermesPgvectorError
from ..common.installation import package_version

_REVISION: Final = "2025-06-18"
_LEAVES_S: Final = 10.0
_LOG_CHARS: Final = 2000
# The variables that clients pass to a server they start; hermes-agent passes no others.
_PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR")
_ENDED: Final = b""
_SHOWN_CHARS: Final = 200  # of a message that means nothing


def part_of(message: object, name: str) -> Any:
    """Return a part of what a server sent; None where it has none of this name."""
    return message.get(name) if isinstance(message, dict) else None


class ServerFailed(HermesPgvectorError):
    """The MCP server did not answer as it should; run `hermes-pgvector doctor`."""


class StdioClient:
    """A connection to a server started from its entry in a client's file; the block's end stops it. Not thread-safe."""

    def __init__(self, entry: Mapping[str, Any], *, answers_s: float) -> None:
        """Start the server. `answers_s`: the timeout of an answer. Raises ServerFailed if the command cannot be run."""
        self._answers_s = answers_s
        self._last = 0
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed when the block is left
        passed = {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("XDG_")}
        try:
            self._process = subprocess.Popen(
                [entry["command"], *(entry.get("args") or ())],
                env={**passed, **(entry.get("env") or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,  # Ctrl-C is for this process, which may have more to ask then
            )
        except OSError as exc:
            self._log.close()
            raise ServerFailed(f"{entry['command']} cannot be started: {exc.strerror or exc}") from exc
        except (TypeError, ValueError) as exc:  # from an entry that somebody wrote by hand
            self._log.close()
            raise ServerFailed(
                f"{entry['command']!r} cannot be started: {exc}; in an entry `args` is a list of texts, and `env` "
                "gives names of variables a text each"
            ) from exc
        threading.Thread(target=self._read, name="hermes-pgvector-mcp-check", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with suppress(BrokenPipeError):
            stdin.close()
        try:
            self._process.wait(_LEAVES_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        stdout.close()
        self._log.close()

    def open(self) -> dict[str, Any]:
        """Initialize the session; return what the server says about itself."""
        client = {"name": "hermes-pgvector mcp check", "version": package_version()}
        told = self.ask("initialize", {"protocolVersion": _REVISION, "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return told

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool's answer. Raises ServerFailed, also if the answer is an error."""
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        content, structured = answer.get("content"), answer.get("structuredContent")
        if answer.get("isError"):
            parts = content if isinstance(content, list) else ()
            raise ServerFailed(f"{tool}: {' '.join(str(part_of(part, 'text') or '') for part in parts)}")
        return structured if isinstance(structured, dict) else {}

    def tools(self) -> dict[str, dict[str, Any]]:
        """Return the tools that the server lists, by their names. Raises as `ask`."""
        found = self.ask("tools/list", {}).get("tools")
        listed: list[Any] = found if isinstance(found, list) else [None]
        if not all(isinstance(part_of(tool, "name"), str) for tool in listed):
            raise ServerFailed(f"tools/list: the server lists no tools of the protocol: {str(found)[:_SHOWN_CHARS]}")
        return {tool["name"]: tool for tool in listed}

    def ask(self, method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a request. Raises ServerFailed, or DeadlineExceeded if no answer comes in time."""
        self._last += 1
        self._send({"jsonrpc": "2.0", "id": self._last, "method": method, "params": parameters})
        end = time.monotonic() + self._answers_s
        while True:
            message = self._next(method, end)
            if message.get("id") != self._last or "method" in message:
                continue  # a notification, or a request from the server
            if "error" in message:
                error = message["error"]
                raise ServerFailed(f"{method}: {part_of(error, 'message') or error}")
            if not isinstance(result := message.get("result"), dict):
                raise ServerFailed(f"{method}: the server answers with what is no result: {str(result)[:_SHOWN_CHARS]}")
            return result

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _next(self, method: str, end: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise DeadlineExceeded(
                f"the server did not answer {method} within {self._answers_s:g} s{self._said()}"
            ) from None
        if line == _ENDED:
            raise self._ended()
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise ServerFailed(
                f"the server wrote what is no message of the protocol: {line[:_SHOWN_CHARS]!r}{self._said()}"
            )
        return message

    def _ended(self) -> ServerFailed:
        try:
            code = str(self._process.wait(_LEAVES_S))
        except subprocess.TimeoutExpired:
            code = "unknown"
        return ServerFailed(f"the server ended, with exit code {code}{self._said()}")

    def _said(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LOG_CHARS))
        said = self._log.read().decode(errors="replace").strip()
        return f"; it said:\n{said}" if said else ""

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(_ENDED)
