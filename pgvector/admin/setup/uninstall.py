"""Taking the plugin out of a hermes home: its activation, its directory and, if wanted, what it keeps here."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...config.activation import deactivate, is_active, is_enabled
from ...config.dotenv_file import set_dotenv
from ...config.settings import ENV_PREFIX, Settings
from ...config.sources import read_dotenv
from ...domain.commandline import pip_uninstall
from ...domain.errors import ConfigurationError
from ...runtime.embedded_server import embedded_server
from ..common.installation import DISTRIBUTION, PLUGIN_NAME, is_distributed, is_ours
from ..common.spool_views import inspect_spools

_DROP_SCRIPT = Path(__file__).resolve().parents[2] / "migrations" / "optional" / "drop_everything.sql"
_VENV = "venv"  # what scripts/install.sh made, in which this may be running


@dataclass(frozen=True)
class Removal:
    """What would be removed, or was. `obstacles`: why it should not be; `left`: what stays, and how to remove it."""

    steps: tuple[str, ...]
    obstacles: tuple[str, ...]
    left: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"steps": list(self.steps), "obstacles": list(self.obstacles), "left": list(self.left)}


def plan_removal(home: Path, settings: Settings, *, data: bool) -> Removal:
    """Look what there is, changing nothing. `data`: with the memory, spool and models on this machine."""
    plugin = home / "plugins" / PLUGIN_NAME
    steps, obstacles, left = [], [], []
    if is_active(home) or is_enabled(home):
        steps.append("deactivate the plugin in config.yaml")
    if os.path.lexists(plugin):
        if plugin.is_symlink() or is_ours(plugin):
            steps.append(f"remove the {'link' if plugin.is_symlink() else 'folder'} {plugin}")
        else:
            left.append(f"{plugin} was not put there by this plugin")
    if data:
        obstacles += _unwritten(home)
        steps += [f"remove {path} ({_size(path)})" for path in _own_files(home)]
        server = embedded_server(settings)
        if server.root.is_dir():
            steps.append(
                f"stop the embedded Postgres and remove {server.root} ({_size(server.root)}), with ALL memory in it, "
                "of every home and profile that uses it"
            )
        if names := _variables(home):
            steps.append(f"remove {', '.join(names)} from .env")
    else:
        left.append("memory, spool, models and settings: --data removes those on this machine as well")
    if settings.dsn:
        left.append(
            f"the tables on your server; an admin removes them: psql -d DATABASE -v ON_ERROR_STOP=1 -f {_DROP_SCRIPT}"
        )
    left.append("plugins.pgvector in config.yaml; MEMORY.md and USER.md, which are the host's")
    if data and (venv := home / "pgvector" / _VENV).exists():
        left.append(f"the Python environment {venv}, which the installer made: remove the folder")
    if is_distributed():
        left.append(f"the package: {pip_uninstall(DISTRIBUTION)}")
    return Removal(tuple(steps), tuple(obstacles), tuple(left))


def remove(home: Path, settings: Settings, *, data: bool, force: bool) -> Removal:
    """Do it. `force`: also where writes would be lost or agents run.

    Raises ConfigurationError when something is in the way, before anything was removed, or when it cannot be removed.
    """
    planned = plan_removal(home, settings, data=data)
    if planned.obstacles and not force:
        raise ConfigurationError("; ".join(planned.obstacles) + "; --force removes it all the same, and loses them")
    server = embedded_server(settings)
    if data and server.root.is_dir():
        server.remove(force=force)  # first, since it may refuse
    deactivate(home)
    try:
        if data:
            for path in _own_files(home):
                _delete(path)
            if names := _variables(home):
                set_dotenv(home, dict.fromkeys(names))
        plugin = home / "plugins" / PLUGIN_NAME
        if plugin.is_symlink():
            plugin.unlink()
        elif is_ours(plugin):
            shutil.rmtree(plugin)
    except OSError as error:
        raise ConfigurationError(f"{error.filename or home} cannot be removed: {error.strerror or error}") from error
    return planned


def _unwritten(home: Path) -> list[str]:
    found = []
    views = inspect_spools(home)
    if waiting := sum(view.waiting + len(view.rejected) for view in views):
        found.append(
            f"{waiting} writes in the spool never reached Postgres (hermes-pgvector status; an agent writes them when "
            "the database is there)"
        )
    found += [f"{view.path} cannot be read: {view.problem}" for view in views if view.problem]
    if living := [view.pid for view in views if view.living]:
        found.append(f"agents of this home are running: process {', '.join(living)}; stop them")
    return found


def _own_files(home: Path) -> list[Path]:
    folder = home / "pgvector"
    if not folder.is_dir():
        return []
    venv = folder / _VENV
    if not venv.exists():
        return [folder]
    return sorted(path for path in folder.iterdir() if path != venv)


def _variables(home: Path) -> list[str]:
    return sorted(name for name in read_dotenv(home) if name.startswith(ENV_PREFIX))


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _size(path: Path) -> str:
    if path.is_file():
        total = path.stat().st_size
    else:
        total = 0
        for folder, _, names in os.walk(path):
            for name in names:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_size
                except OSError:  # it was there a moment ago
                    continue
    return f"{total / 1e6:,.1f} MB"
