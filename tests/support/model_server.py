"""A scripted chat model behind a real OpenAI-compatible HTTP server on loopback.

The agent under test talks the real protocol to it (`/v1/models`, `/v1/chat/completions`, plain and streamed, with tool
calls); only the choice of words comes from a script. Every request is kept, so that a test can look at what the agent
injected into the user message and which tools it offered.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

MODEL_NAME = "scripted-model"

# Long enough to pass the provider's length floor for turns that are worth storing.
PLAIN_ANSWER = "I have read your message and this is a complete answer of a scripted assistant."
AFTER_TOOL_ANSWER = "The tool that you asked for has run, and this sentence closes the turn."

_MEMORY_BLOCK = re.compile(r"<\s*memory-context\s*>(.*?)</\s*memory-context\s*>", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class ToolCall:
    """A call the model makes: the tool's name and its arguments before JSON encoding."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Reply:
    """What the model answers: a text, or tool calls, or both; or the HTTP status with which it refuses.

    `counted`: it says how many tokens that took.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    status: int = 200
    counted: bool = True


@dataclass(frozen=True)
class ChatRequest:
    """One request the model received, as decoded JSON."""

    body: Mapping[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages") or [])

    @property
    def tool_names(self) -> set[str]:
        return {tool["function"]["name"] for tool in self.body.get("tools") or []}

    @property
    def user_message(self) -> str:
        """The last user message as it was sent, injected memory included."""
        index = self._last_user_index()
        return "" if index is None else _flatten(self.messages[index].get("content"))

    @property
    def user_words(self) -> str:
        """The last user message without injected memory."""
        return _MEMORY_BLOCK.sub("", self.user_message).strip()

    @property
    def memory_context(self) -> str:
        """The memory injected into the last user message; empty when there is none."""
        return "\n".join(_MEMORY_BLOCK.findall(self.user_message))

    @property
    def tool_results(self) -> list[str]:
        """Results of the tools that ran since the last user message, oldest first."""
        index = self._last_user_index()
        later = self.messages[index + 1 :] if index is not None else []
        return [_flatten(message.get("content")) for message in later if message.get("role") == "tool"]

    def _last_user_index(self) -> int | None:
        indexes = [index for index, message in enumerate(self.messages) if message.get("role") == "user"]
        return indexes[-1] if indexes else None


Script = Callable[[ChatRequest], Reply]


def command_script(request: ChatRequest) -> Reply:
    """Obeys a command in the user's words, else answers with a plain sentence.

    `remember: X` calls the built-in memory tool (add X to target memory), `search: X` calls recall_memory with the
    query X, `call: NAME {json}` calls any tool. After a tool has answered, the turn ends with a sentence.
    """
    if request.tool_results:
        return Reply(AFTER_TOOL_ANSWER)
    command, _, rest = request.user_words.partition(":")
    rest = rest.strip()
    match command.strip():
        case "remember":
            return Reply(tool_calls=(ToolCall("memory", {"action": "add", "target": "memory", "content": rest}),))
        case "search":
            return Reply(tool_calls=(ToolCall("recall_memory", {"query": rest}),))
        case "call":
            name, _, arguments = rest.partition(" ")
            return Reply(tool_calls=(ToolCall(name, json.loads(arguments or "{}")),))
    return Reply(PLAIN_ANSWER)


class ModelServer:
    """Serves the scripted model on a free loopback port until `close`.

    The script runs on the server's request threads, so it must not keep unprotected state.
    """

    def __init__(self, script: Script = command_script) -> None:
        self.script = script
        self._requests: list[ChatRequest] = []
        self._lock = threading.Lock()
        self._http = _HttpServer(("127.0.0.1", 0), _Handler)
        self._http.model = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="scripted-model")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(30)

    @property
    def base_url(self) -> str:
        """The URL to configure as an OpenAI base URL, `/v1` included."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def requests(self) -> list[ChatRequest]:
        """Every chat request so far, oldest first."""
        with self._lock:
            return list(self._requests)

    def requests_saying(self, words: str) -> list[ChatRequest]:
        """The agent's requests (those that offer tools) whose last user message contains `words`.

        Side requests of the host, such as the one that names a session, offer no tools and are left out.
        """
        return [request for request in self.requests if words in request.user_words and request.tool_names]

    def answer(self, body: Mapping[str, Any]) -> Reply:
        request = ChatRequest(body)
        with self._lock:
            self._requests.append(request)
        return self.script(request)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    # The default backlog of 5 resets connections when many agents start at once.
    request_queue_size = 128
    model: ModelServer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HttpServer

    def do_GET(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            listing = {"id": MODEL_NAME, "object": "model", "created": 0, "owned_by": "tests"}
            self._send_json({"object": "list", "data": [listing]})
        else:
            self._send_json({"error": {"message": f"no such path: {self.path}"}}, status=404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if not self.path.endswith("/chat/completions"):
            self._send_json({"error": {"message": f"no such path: {self.path}"}}, status=404)
            return
        reply = self.server.model.answer(body)
        if reply.status != 200:
            self._send_json({"error": {"message": "scripted refusal"}}, status=reply.status)
        elif body.get("stream"):
            self._send_events(_stream_chunks(reply))
        else:
            self._send_json(_completion(reply))

    def _send_json(self, payload: object, status: int = 200) -> None:
        data = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_events(self, chunks: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the tests' output quiet; the recorded requests say more."""


def _completion(reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in reply.tool_calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return {**_envelope("chat.completion"), "choices": [choice]} | ({"usage": _USAGE} if reply.counted else {})


def _stream_chunks(reply: Reply) -> Iterator[dict[str, Any]]:
    yield _chunk({"role": "assistant", "content": ""})
    half = len(reply.text) // 2
    for part in (reply.text[:half], reply.text[half:]):
        if part:
            yield _chunk({"content": part})
    for index, call in enumerate(reply.tool_calls):
        yield _chunk({"tool_calls": [{**_tool_call(call), "index": index}]})
    yield _chunk({}, _finish_reason(reply))
    yield {**_envelope("chat.completion.chunk"), "choices": [], "usage": _USAGE}


def _chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {**_envelope("chat.completion.chunk"), "choices": [choice]}


def _envelope(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": MODEL_NAME}


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
    # No two of a session have one id: the host would take the second result for the first one told again.
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}


def _finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.tool_calls else "stop"


def _flatten(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


_USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
