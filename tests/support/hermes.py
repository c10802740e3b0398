"""A hermes home directory for tests, and the hermes commands run in it as real subprocesses."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

import yaml

from .forked import Forked, run_to_its_end
from .forked_hermes import hermes_place
from .model_server import MODEL_NAME
from .trust import TRUST_NOBODY

PLUGIN_FOLDER = Path(__file__).resolve().parents[2] / "pgvector"

# The rest of the caller's environment stays out: a developer's API keys or HERMES_* settings must not decide a test.
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


class HermesHome:
    """One HERMES_HOME with its own HOME, so that nothing outside of them is read or written.

    HOME is `root`, and HERMES_HOME a folder in it unless `path` is given, as in a container.
    """

    def __init__(self, root: Path, path: Path | None = None) -> None:
        self.root = root
        self.root.mkdir(parents=True, exist_ok=True)
        self.path = path or root / ".hermes"
        self.path.mkdir(parents=True)

    @property
    def config_path(self) -> Path:
        return self.path / "config.yaml"

    @property
    def plugin_path(self) -> Path:
        return self.path / "plugins" / "pgvector"

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a hermes process of this home, with `extra` over it."""
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        return {
            **kept,
            "HOME": str(self.root),
            "HERMES_HOME": str(self.path),
            "PYTHONUNBUFFERED": "1",
            "PYTHONUTF8": "1",
            "TZ": "UTC",
            # A console script never has its caller's directory on the path; `python -m` would.
            "PYTHONSAFEPATH": "1",
            # Without a network each attempt to install an optional tool would cost its time-out.
            "HERMES_DISABLE_LAZY_INSTALLS": "1",
            **TRUST_NOBODY,
            **(extra or {}),
        }

    def write_config(
        self,
        model_base_url: str,
        plugin_settings: Mapping[str, Any],
        *,
        memory: Mapping[str, Any] | None = None,
        enabled: Sequence[str] | None = ("pgvector",),
    ) -> None:
        """Writes config.yaml: the model at `model_base_url`, our provider, and `memory` over the memory section.

        `enabled` is what plugins.enabled holds; None leaves it out.
        """
        config: dict[str, Any] = {
            "model": {
                "default": MODEL_NAME,
                "provider": "custom",
                "base_url": model_base_url,
                "api_key": "scripted",
                # Known in advance, so the host does not go looking for it on the network.
                "context_length": 128_000,
            },
            "memory": {"provider": "pgvector", "memory_enabled": True, "user_profile_enabled": True, **(memory or {})},
            "plugins": ({} if enabled is None else {"enabled": [*enabled]}) | {"pgvector": dict(plugin_settings)},
            # The memory tools are all that the tests call; the other tools only make requests long.
            "platform_toolsets": {name: ["memory"] for name in ("cli", "api_server", "signal")},
            # Else the host starts pip and Python a few times in every process, to tell the model of them.
            "agent": {"environment_probe": False},
        }
        self.config_path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    def read_config(self) -> dict[str, Any]:
        loaded = yaml.safe_load(self.config_path.read_text(encoding="utf-8"))
        assert isinstance(loaded, dict)
        return loaded

    def copy_plugin(self, source: Path = PLUGIN_FOLDER, *, compiled: bool = True) -> None:
        """Puts a copy of the plugin folder into the home, as `hermes plugins install` does.

        With its modules compiled, as they are from the second start on: else each home's first process would do that.
        """
        if compiled:
            _compile(source)
        # Beside this, another process of the tests may be writing what it compiles.
        left_out = "*.pyc.*" if compiled else "__pycache__"
        shutil.copytree(source, self.plugin_path, ignore=shutil.ignore_patterns(left_out))

    def link_plugin(self, source: Path = PLUGIN_FOLDER) -> None:
        """Puts a symbolic link to the plugin folder into the home."""
        self.plugin_path.parent.mkdir(parents=True, exist_ok=True)
        self.plugin_path.symlink_to(source, target_is_directory=True)

    def shim_plugin(self) -> subprocess.CompletedProcess[str]:
        """Puts the shim directory into the home, as the installed package's own command does."""
        return self.python("-m", "hermes_memory_pgvector.cli", "install", "--hermes-home", str(self.path), "--shim")

    def python(self, *arguments: str, timeout_s: float = 150.0) -> subprocess.CompletedProcess[str]:
        """Runs the tests' own interpreter with this home's environment."""
        return self._run([sys.executable, *arguments], timeout_s)

    def hermes(self, *arguments: str, timeout_s: float = 150.0) -> subprocess.CompletedProcess[str]:
        """Runs the hermes command line in this home. Raises: subprocess.TimeoutExpired."""
        return self._run_forked(*_HERMES, *arguments, timeout_s=timeout_s)

    def host_code(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs Python code that uses the host's modules."""
        return self._run_forked("-c", code, *arguments, timeout_s=150.0)

    def start(
        self, *arguments: str, output: IO[bytes], extra: Mapping[str, str] | None = None, forked: bool = True
    ) -> subprocess.Popen[bytes]:
        """Starts the hermes command line in this home, in a session of its own: to stop that stops what it started."""
        environment = self.environment(extra)
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        if forked:
            words = (*_HERMES, *arguments)
            return Forked(
                hermes_place(), *words, environment=environment, folder=self.root, leads_session=True, **streams
            )
        command = [*HERMES_COMMAND, *arguments]
        return subprocess.Popen(command, cwd=self.root, env=environment, start_new_session=True, **streams)

    def spool_contains(self, text: str) -> bool:
        """Whether `text` stands in a file of the provider's queue on disk."""
        files = (self.path / "pgvector" / "spool").rglob("*")
        return any(text.encode() in path.read_bytes() for path in files if path.is_file())

    def logs(self, limit_chars: int = 8_000) -> str:
        """The end of this home's log files, for failure messages and for assertions about warnings."""
        parts = []
        for name in ("agent.log", "errors.log", "gateway.log"):
            path = self.path / "logs" / name
            if path.exists():
                parts.append(f"--- {name}\n{path.read_text(encoding='utf-8', errors='replace')[-limit_chars:]}")
        return "\n".join(parts)

    def _run_forked(self, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        more = {"environment": self.environment(), "folder": self.root, "errors": "replace"}
        return run_to_its_end(hermes_place(), *arguments, name="python", timeout_s=timeout_s, **more)

    def _run(self, command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )


@cache
def _compile(folder: Path) -> None:
    """Compile the modules in `folder` that are not yet."""
    compileall.compile_dir(folder, quiet=2)


# What the `hermes` console script runs; by module, because a test environment's scripts need not be on PATH.
_HERMES = ("-m", "hermes_cli.main")
HERMES_COMMAND = (sys.executable, *_HERMES)


def describe(completed: subprocess.CompletedProcess[str]) -> str:
    """A finished command as text for an assertion's message."""
    head = f"{' '.join(completed.args)}\nexit code {completed.returncode}"
    return f"{head}\n--- stdout\n{completed.stdout}\n--- stderr\n{completed.stderr}"
