"""The agent processes of a soak, seen from outside: started, listened to, killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from .ledger import Ledger

_AGENT = Path(__file__).with_name("agent.py")
EXIT_TIMEOUT_S = 120.0
NUMBERS = 200_000  # of each agent, or client; texts have room for seven digits


class AgentHandle:
    """One agent over all its lives."""

    def __init__(
        self, index: int, home: Path, themes: list[str], config: Mapping[str, Any], ledger: Ledger, **plan: Any
    ) -> None:
        """`plan`: `seed`, `per_s` (actions a second), `inherits` (whether a life may change facts of earlier ones)."""
        self.name = f"agent{index}"
        self.home = home
        self.themes = themes
        self.life = 0
        self.depth: int | None = None
        self.paused = False
        self.logged: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.memory_mb: list[tuple[float, float, int, int]] = []
        self._config = dict(config)
        self._ledger = ledger
        self._plan = plan
        self._number = NUMBERS * index
        self._begun: dict[str, Any] | None = None
        self._failed_now: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._reader = threading.Thread()
        self._ready = threading.Event()
        self._left = False

    @property
    def pid(self) -> int:
        """Of the living process."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether there is a living process."""
        return self._process is not None and self._process.poll() is None

    @property
    def ready(self) -> bool:
        """Whether it has opened its sessions."""
        return self._ready.is_set()

    def start(self, elsewhere: str = "") -> None:
        """Begin the next life; with the conninfo of another database, one that only waits there."""
        self.life += 1
        self.depth, self.paused, self._left, self._failed_now = None, False, False, {}
        self._ready.clear()
        with self._ledger.lock:
            facts = self._ledger.standing(self.name) if self._plan["inherits"] else {}
        plan = {
            "name": self.name, "life": self.life, "home": str(self.home), "themes": self.themes,
            "config": self._config | ({"dsn": elsewhere} if elsewhere else {}), "waits": bool(elsewhere),
            "seed": self._plan["seed"], "per_s": self._plan["per_s"], "number": self._number, "facts": facts,
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_AGENT), json.dumps(plan)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "HERMES_HOME": str(self.home)},
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), name=f"{self.name}-{self.life}")
        self._reader.start()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            if line.endswith(b"\n"):
                with self._ledger.lock:
                    self._hear(json.loads(line))
        # Only what Python itself says at a death that nobody wanted.
        if said := process.stderr.read().decode(errors="replace").strip():
            with self._ledger.lock:
                self._ledger.accuse(f"{self.name} printed: {said[-2000:]}")

    def _hear(self, said: dict[str, Any]) -> None:
        if "begin" in said:
            if said["do"] != "repeat":
                self._number = max(self._number, said["begin"])
            self._begun = said
            self._ledger.begin(self.name, self.life, said)
        elif "end" in said:
            assert self._begun is not None
            self._ledger.end(self.name, self._begun, said)
            self._begun = None
        elif "log" in said:
            self._ledger.note("log", self.name, said=said["said"])
            self.logged[f"{said['log']} {_generic(said['said'])}"] += 1
        elif "depth" in said:
            self.depth, self.paused, self._failed_now = said["depth"], said["paused"], said["failed"]
            if said["durable"]:
                self._ledger.safe(self.name)
        elif "ready" in said:
            self._ledger.note("ready", self.name, life=self.life, pid=self.pid)
            self._ready.set()
        self._left = self._left or "left" in said

    def order(self, word: str) -> None:
        """Say "pause", "go", "numbers" or "quit"."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        self._process.stdin.flush()

    def end(self, how: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """End this life by the name of a signal or by "quit", and take in all it had said until then.

        `meanwhile` is called again and again, so that what else is wrong does not last until then.
        """
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, BrokenPipeError):
            if how == "quit":
                self.order("quit")
            else:
                os.kill(self.pid, signal.Signals[how])
        started = time.monotonic()
        while self._process.poll() is None and time.monotonic() - started < EXIT_TIMEOUT_S:
            meanwhile()
            time.sleep(0.02)
        if self._process.poll() is None:
            self._ledger.accuse(f"{self.name} did not end within {EXIT_TIMEOUT_S} s of {how}")
            self._process.send_signal(signal.SIGUSR1)  # prints where each thread stands, which is reported as well
            time.sleep(1)
            self._process.kill()
            self._process.wait()
        took_ms = 1000 * (time.monotonic() - started)
        self._reader.join()
        with self._ledger.lock:
            if how != "SIGKILL":
                self._ledger.took_ms[f"end by {how}"].append(took_ms)
            self.failed.update(self._failed_now)
            self._ledger.died(self.name, self._begun)
            self._begun = None
            # Before it is ready it has nothing to bring home, and no handler yet.
            fine = {0} if self.ready else {0, -signal.SIGTERM}
            if how != "SIGKILL" and self._process.returncode not in fine:
                self._ledger.accuse(f"{self.name} ended with {self._process.returncode} after {how}")
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def kill(self) -> None:
        """Make sure that there is none; fine at any time."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def fill_disk(self, full: bool) -> None:
        """Let no file of the process take another byte, or all again."""
        soft = 0 if full else resource.RLIM_INFINITY
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))

    def weigh(self, at_s: float) -> None:
        """Note memory (MB), threads and open files of now."""
        try:
            process = psutil.Process(self.pid)
            self.memory_mb.append((at_s, process.memory_info().rss / 1e6, process.num_threads(), process.num_fds()))
        except psutil.Error:
            return


def _generic(said: str) -> str:
    """A log line without what differs between two of a kind."""
    return "".join("#" if char.isdigit() else char for char in said)[:160]
