"""The real `hermes dashboard`, started as a subprocess."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from types import TracebackType
from typing import Self

import httpx

from .hermes import HermesHome
from .ports import free_port
from .waiting import until

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
API = "/api/plugins/pgvector"
SCHEMES = {"dark": "default", "light": "nous-blue"}  # the host's names of them
_TOKEN = re.compile(r'window\.__HERMES_SESSION_TOKEN__="([^"]+)"')


class HostDashboard:
    """A dashboard process of one home; `start` returns when it serves its page.

    Leaving the `with` block stops the process and everything it started.
    """

    def __init__(self, home: HermesHome) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = ""
        self._output_path = home.root / "dashboard-output.log"
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
        """Start the process and wait for its page. Raises AssertionError with the log when it does not come."""
        with self._output_path.open("ab") as output:
            options = ("--skip-build", "--no-open", "--port", str(self.port))
            self._process = self.home.start("dashboard", *options, output=output)
        try:
            until(lambda: self._serves() or not self.is_running, START_TIMEOUT_S, "the dashboard's page")
            assert self.is_running, f"the dashboard ended while starting\n{self.log()}"
        except BaseException as error:
            error.add_note(self.log())
            self.stop()
            raise

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End the process, after a minute with SIGKILL, and what it started with SIGKILL."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_TIMEOUT_S)

    def http(self, *, token: bool = True) -> httpx.Client:
        """Return a client of the plugin's API, with the session token or without it."""
        headers = {"X-Hermes-Session-Token": self.token} if token else {}
        return httpx.Client(base_url=self.url + API, headers=headers, timeout=60)

    def wear(self, scheme: str) -> None:
        """Have the host show its pages in a light or a dark scheme of colour."""
        headers = {"X-Hermes-Session-Token": self.token}
        theme = {"name": SCHEMES[scheme]}
        answer = httpx.put(f"{self.url}/api/dashboard/theme", json=theme, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text

    def log(self, limit_chars: int = 12_000) -> str:
        """Return the end of what the process printed and of the home's log files."""
        printed = self._output_path.read_text(encoding="utf-8", errors="replace") if self._output_path.exists() else ""
        return f"--- dashboard output\n{printed[-limit_chars:]}\n{self.home.logs(limit_chars)}"

    def _serves(self) -> bool:
        try:
            answer = httpx.get(self.url + "/", timeout=5)
        except httpx.HTTPError:
            return False
        if found := _TOKEN.search(answer.text):
            self.token = found[1]
        return bool(found)
