"""The real hermes gateway with its API server, started as a subprocess and driven over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from .hermes import HermesHome
from .ports import free_port
from .waiting import until

API_KEY = "a-long-enough-key-for-the-api-server-0123456789"
START_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_S = 100.0
STOP_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP answer with its decoded JSON body."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def text(self) -> str:
        """What the agent said."""
        return str(self.body["choices"][0]["message"]["content"])


class Gateway:
    """A gateway process of one home; `start` returns when its API server answers.

    Leaving the `with` block stops the process and everything it started. Without `forked` it starts as a user's does.
    """

    def __init__(self, home: HermesHome, *, forked: bool = True) -> None:
        self.home = home
        self._forked = forked
        self.port = free_port()
        self._output_path = home.root / "gateway-output.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(self.log())
        self.stop()

    def start(self) -> None:
        """Starts the process and waits for `/health`. Raises: AssertionError with the log when it does not come."""
        variables = {
            "API_SERVER_ENABLED": "true",
            "API_SERVER_KEY": API_KEY,
            "API_SERVER_HOST": "127.0.0.1",
            "API_SERVER_PORT": str(self.port),
        }
        with self._output_path.open("ab") as output:
            self._process = self.home.start("gateway", "run", output=output, extra=variables, forked=self._forked)
        try:
            until(lambda: self._is_healthy() or not self.is_running, START_TIMEOUT_S, "the gateway's /health")
            assert self.is_running, f"the gateway ended while starting\n{self.log()}"
        except BaseException as error:
            error.add_note(self.log())
            self.stop()
            raise

    @property
    def pid(self) -> int:
        assert self._process is not None, "the gateway was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def thread_count(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def stop(self, stop_signal: signal.Signals = signal.SIGTERM) -> int | None:
        """Ends the process with `stop_signal`, after a minute with SIGKILL, and what it started with SIGKILL.

        Returns the exit code, negative for a signal; None when it was not running.
        """
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(stop_signal)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait(STOP_TIMEOUT_S)

    def post_chat(
        self,
        message: str | Sequence[Mapping[str, Any]],
        *,
        key: str | bytes | None = None,
        session: str | None = None,
        token: str = API_KEY,
        profile: str | None = None,
        history: Sequence[dict[str, str]] = (),
    ) -> HttpAnswer:
        """Sends one user message, or its parts, to a profile by its prefix, and waits for the agent's answer.

        `history`: the messages before it, from a client that keeps them itself.

        `key` is the value of X-Hermes-Session-Key (bytes go onto the wire as they are); `session` that of
        X-Hermes-Session-Id, without which the host derives the session from the first message.
        """
        headers = _headers(token, key)
        if session is not None:
            headers["X-Hermes-Session-Id"] = session
        body = {"model": "hermes-agent", "messages": [*history, {"role": "user", "content": message}]}
        prefix = f"/p/{profile}" if profile is not None else ""
        return self._request("POST", f"{prefix}/v1/chat/completions", body, headers)

    def start_run(self, message: str, *, key: str | None = None) -> HttpAnswer:
        """Starts a run in the background (`/v1/runs`) and returns the host's acknowledgement."""
        return self._request("POST", "/v1/runs", {"input": message}, _headers(API_KEY, key))

    def health(self) -> HttpAnswer:
        """Asks `/health`, which the host answers on its event loop."""
        return self._request("GET", "/health", None, {})

    def log(self, limit_chars: int = 12_000) -> str:
        """The end of what the process printed and of the home's log files."""
        printed = self._output_path.read_text(encoding="utf-8", errors="replace") if self._output_path.exists() else ""
        return f"--- gateway output\n{printed[-limit_chars:]}\n{self.home.logs(limit_chars)}"

    def _is_healthy(self) -> bool:
        try:
            return self.health().status == 200
        except OSError:
            return False

    def _request(
        self, method: str, path: str, body: dict[str, Any] | None, headers: dict[str, str | bytes]
    ) -> HttpAnswer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REQUEST_TIMEOUT_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            response = connection.getresponse()
            return HttpAnswer(response.status, _decoded(response.read()), dict(response.getheaders()))
        finally:
            connection.close()


def _decoded(body: bytes) -> dict[str, Any]:
    """The JSON object; of what the host's HTTP library answers by itself the text, as `text`."""
    try:
        decoded = json.loads(body or b"{}")
    except ValueError:
        return {"text": body.decode("utf-8", "replace")}
    assert isinstance(decoded, dict)
    return decoded


def _headers(token: str, key: str | bytes | None) -> dict[str, str | bytes]:
    headers: dict[str, str | bytes] = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    if key is not None:
        headers["X-Hermes-Session-Key"] = key if isinstance(key, bytes) else key.encode()
    return headers
