"""Removal of the plugin from a hermes home: its activation, its directory and, if wanted, its data on this machine."""

from __future__ import annotations

import argparse
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ...capture.private_folders import is_private
from ...capture.spool_directory import spool_folders
from ...config.settings import ENV_PREFIX, Settings
from ...config.sources import is_active, is_enabled, read_dotenv
from ...domain.errors import ConfigurationError
from ...domain.format import format_bytes, plural
from ...host.session_context import load_settings
from ...server.layout import whole_home
from ..common.activation import deactivate
from ..common.client_files import entries_for
from ..common.commands import Command, add_yes, argument, printed
from ..common.console import say, warn
from ..common.database import settings_of
from ..common.dotenv_file import set_dotenv
from ..common.embedded_server import embedded_server
from ..common.file_replacing import how_to_let_write
from ..common.installation import PLUGIN_NAME, is_distributed, is_ours, left_by_installs, put_aside
from ..common.migrations import DROP_SCRIPT
from ..common.outcome import ADD_YES
from ..common.own_package import DISTRIBUTION, pip_uninstall
from ..common.spool_views import inspect_spools

_VENV = "venv"  # made by scripts/install.sh; this process may run in it


@dataclass(frozen=True)
class Removal:
    """A removal: its steps, `obstacles` (why it should not be done), and `left` (what stays, and how to remove it)."""

    steps: tuple[str, ...]
    obstacles: tuple[str, ...]
    left: tuple[str, ...]


def plan_removal(home: Path, settings: Settings, *, data: bool) -> Removal:
    """Return the plan of a removal, changing nothing. `data`: also memory, spool and models on this machine."""
    plugin = home / "plugins" / PLUGIN_NAME
    steps, left = [], []
    if is_active(home) or is_enabled(home):
        steps.append("deactivate the plugin in config.yaml")
    if _is_removable(plugin):
        steps.append(f"remove the {'link' if plugin.is_symlink() else 'folder'} {plugin}")
    elif os.path.lexists(plugin):
        left.append(f"{plugin} was not put there by this plugin")
    unfinished = left_by_installs(plugin.parent)
    steps += [f"remove {path}, which an interrupted install or removal has left" for path in unfinished]
    if data:
        steps += _data_steps(home, settings)
    left += _left(home, settings, data=data)
    return Removal(tuple(steps), tuple((*_unwritten(home), *_shared(home, settings)) if data else ()), tuple(left))


def _left(home: Path, settings: Settings, *, data: bool) -> list[str]:
    left = []
    if not data:
        left.append("memory, spool, models and settings: --data removes those on this machine as well")
    if settings.dsn:
        left.append(
            f"the tables on your server; an admin removes them: psql -d DATABASE -v ON_ERROR_STOP=1 -f {DROP_SCRIPT}"
        )
    left.append("plugins.pgvector in config.yaml: hermes config unset plugins.pgvector")
    left.append("MEMORY.md and USER.md, which are the host's")
    if data and (others := embedded_server(settings).others_files()):
        left += [
            f"{path} ({_shown_size(path)}), which is not the server's; a copy of its data holds memory"
            for path in others
        ]
    if data and (venv := home / "pgvector" / _VENV).exists():
        left.append(f"the Python environment {venv}, which the installer made: remove the folder")
    left += [
        f"the MCP server {each.name!r} in {each.path}, which {each.client} goes on starting: remove that entry"
        for each in entries_for(home)
    ]
    if is_distributed():
        left.append(f"the package: {pip_uninstall(DISTRIBUTION)}")
    return left


def _is_removable(plugin: Path) -> bool:
    return plugin.is_symlink() or is_ours(plugin)


def _data_steps(home: Path, settings: Settings) -> list[str]:
    steps = [f"remove {path} ({_shown_size(path)})" for path in (*_own_files(home), *_spilled(home))]
    server = embedded_server(settings)
    if own := _size(server.root) - sum(map(_size, server.others_files())):
        steps.append(
            f"stop the embedded Postgres and remove {server.root} ({format_bytes(own)}), with ALL memory in it, "
            f"of every home and profile that uses it{_named(_profiles_at(home, server.root))}"
        )
    if names := _variables(home):
        steps.append(f"remove {', '.join(names)} from .env")
    return steps


def remove(home: Path, settings: Settings, *, data: bool, force: bool) -> Removal:
    """Plan a removal and carry it out. `force`: even if writes would be lost or agents are running.

    Raises ConfigurationError if there are obstacles, before anything is removed, or if a file cannot be removed.
    """
    planned = plan_removal(home, settings, data=data)
    if planned.obstacles and not force:
        found = "; ".join(planned.obstacles)
        raise ConfigurationError(f"{found}; --force removes it all the same, what was not written included")
    server = embedded_server(settings)
    if data and server.root.is_dir():
        server.remove(force=force)  # first, since it may refuse
    deactivate(home)
    try:
        if data:
            _remove_data(home)
        plugin = home / "plugins" / PLUGIN_NAME
        if _is_removable(plugin):
            _delete(put_aside(plugin))
        for path in left_by_installs(plugin.parent):
            _delete(path)
    except OSError as error:
        kept = error.filename if os.path.isabs(error.filename or "") else home / "plugins"
        raise ConfigurationError(
            f"{kept} cannot be removed: {error.strerror or error}; {how_to_let_write(error, home)}"
        ) from error
    return planned


def _remove_data(home: Path) -> None:
    for path in (*_own_files(home), *_spilled(home)):
        _delete(path)
    if names := _variables(home):
        set_dotenv(home, dict.fromkeys(names))


def _unwritten(home: Path) -> list[str]:
    found = []
    views = inspect_spools(home)
    if waiting := sum(view.waiting + len(view.rejected) for view in views):
        found.append(
            f"{plural(waiting, 'write')} in the spool never reached Postgres (hermes-pgvector status; an agent writes "
            "them when the database is there)"
        )
    found += [f"{view.path} cannot be read: {view.problem}" for view in views if view.problem]
    if living := dict.fromkeys(view.pid for view in views if view.living):  # a spool for each state of the settings
        found.append(f"agents of this home are running: process {', '.join(living)}; stop them")
    return found


def _shared(home: Path, settings: Settings) -> list[str]:
    """Return why the server must not be removed with this home: it holds the memory of other homes or profiles.

    Removing a home removes its profiles as well, removing a profile nothing else; any home may share the server of the
    user's own home.
    """
    server = embedded_server(settings).root
    if not server.is_dir():
        return []
    if not (holders := [str(each) for each in _staying(home) if _own_files(each) and _has_server(each, server)]):
        return []
    return [f"the embedded Postgres holds the memory of {', '.join(holders)} as well; to have that stay, omit --data"]


def _profiles_at(home: Path, server: Path) -> list[str]:
    """Return the profiles of a home whose memory goes with the home's."""
    if os.path.realpath(home) != str(whole_home(home)):
        return []
    found = []
    for each in sorted(home.glob("profiles/*")):
        with suppress(ConfigurationError):  # of one whose settings cannot be read nobody knows it
            if each.is_dir() and (is_active(each) or _own_files(each)) and _has_server(each, server):
                found.append(str(each))
    return found


def _named(profiles: list[str]) -> str:
    return f", {', '.join(profiles)} among them" if profiles else ""


def _staying(home: Path) -> list[Path]:
    """Return the known homes and profiles of this user that stay when this one is removed."""
    main, users = whole_home(home), whole_home(Path.home() / ".hermes")
    tops = {users, main} if os.path.realpath(home) != str(main) else {users} - {main}
    found = [each for top in sorted(tops) for each in (top, *sorted(top.glob("profiles/*")))]
    return [each for each in found if each.is_dir() and not each.samefile(home)]


def _has_server(home: Path, server: Path) -> bool:
    settings = load_settings(None, home).settings
    return not settings.dsn and embedded_server(settings).root == server


def _own_files(home: Path) -> list[Path]:
    folder = home / "pgvector"
    if not folder.is_dir():
        return []
    venv = folder / _VENV
    if not venv.exists():
        return [folder]
    return sorted(path for path in folder.iterdir() if path != venv)


def _spilled(home: Path) -> list[Path]:
    """Return this user's spool folders outside the home, used while the home could not be written to."""
    return [folder for folder in spool_folders(home)[1:] if is_private(folder)]


def _variables(home: Path) -> list[str]:
    return sorted(name for name in read_dotenv(home) if name.startswith(ENV_PREFIX))


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _shown_size(path: Path) -> str:
    return format_bytes(_size(path))


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 if there is none."""
    total = path.stat().st_size if path.is_file() else 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # deleted meanwhile
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def _uninstall(args: argparse.Namespace, home: Path) -> int:
    settings = settings_of(home)
    if args.yes:
        removal = remove(home, settings, data=args.data, force=args.force)
    else:
        removal = plan_removal(home, settings, data=args.data)
    return printed(args, {"done": args.yes, **asdict(removal)}, lambda: _show(removal, done=args.yes))


def _show(removal: Removal, *, done: bool) -> None:
    for step in removal.steps:
        say(f"{'done:' if done else 'would'} {step}")
    if not removal.steps:
        say("there is nothing to remove")
    for obstacle in removal.obstacles:
        warn(obstacle)
    for left in removal.left:
        say(f"stays: {left}")
    if removal.steps and not done:
        say(ADD_YES)


UNINSTALL = Command(
    "hermes-pgvector uninstall                # what would go, and what stays\n"
    "hermes-pgvector uninstall --yes          # memory stays\n"
    "hermes-pgvector uninstall --data --yes   # memory on this machine, spool, models and secrets as well",
    _uninstall,
    [
        argument("--data", "also the embedded Postgres with all memory, the spool, models and secrets"),
        argument("--force", "also where writes wait in the spool, agents run, or other profiles keep memory there"),
        add_yes,
    ],
)
