"""The installation: whether the host finds the plugin, and whether everything that the plugin needs is there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ...config.sources import CONFIG_NAME, at, host_config, is_active, is_disabled, is_enabled, is_legible
from ...domain.commandline import pip_install
from ..common.installation import (
    IMPORT_NAME,
    PAGE_FOLDER,
    PLUGIN_NAME,
    has_our_page,
    is_ours,
    package_version,
    version_in,
)
from ..common.own_package import DISTRIBUTION, reinstall_requirement
from .check import Check, fail, note, ok

TESTED_HOST = "0.19.0"
_MARKERS = ("register_memory_provider", "MemoryProvider")
_MARKER_WITHIN = 8192  # characters of __init__.py in which the host looks for one of them
_OUR_FILES = frozenset({"__init__.py", "cli.py", "config_schema.py"})
_INSTALL = "hermes-pgvector install --hermes-home "
_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)[^<>=!~;(]*\(?([^;)]*)")
_BOUND = re.compile(r"(>=|<=|==|<|>)\s*([0-9.]+)")
_HOST_TIMEOUT_S = 60.0

# Asked in a separate process, because what the host imports would stay in this one.
_ASK_HOST = """
import json
from plugins.memory import find_provider_dir, load_memory_provider
found = find_provider_dir("pgvector")
loaded = load_memory_provider("pgvector") if found else None
words = [getattr(loaded, name, "") for name in ("cause", "remedy")]
print(json.dumps([str(found or ""), type(loaded).__name__ if loaded else "", *words]))
"""


def check_installation(home: Path) -> Iterator[Check]:
    """Yield checks from the Python version to the host's switch."""
    yield ok("python", f"{sys.version_info.major}.{sys.version_info.minor} at {sys.executable}")
    yield from _packages()
    host = _version("hermes-agent")
    yield _host(host)
    directory = home / "plugins" / PLUGIN_NAME
    plugin = list(_plugin(directory, home))
    yield from plugin
    if host and not any(check.state == "fail" for check in plugin):
        yield from _as_the_host_sees_it(home, directory)
    yield from _switches(home)


def _packages() -> Iterator[Check]:
    """Yield the versions of the packages we need, compared with the required ones."""
    required = list(_required())
    wrong = [(name, wanted) for name, wanted in required if not _fits(_version(name), wanted)]
    if wrong:
        said = "; ".join(f"{name} {_version(name) or 'none'} (wanted: {wanted})" for name, wanted in wrong)
        yield fail("packages", said, pip_install(*(f"{name}{wanted}" for name, wanted in wrong)))
    elif required:
        yield ok("packages", "every package that is needed, in a version that is known to work")
    else:
        yield ok("packages", "there; which versions they should have, only an installed package says")


def _required() -> Iterator[tuple[str, str]]:
    """Yield name and bounds of each package that the installed distribution requires."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from a plugin directory that holds the package itself
        return
    for line in lines:
        found = _REQUIREMENT.match(line)
        if found and "extra ==" not in line:
            yield found[1], found[2].strip()


def _fits(have: str, wanted: str) -> bool:
    if not have[:1].isdigit():
        return False
    version = _numbers(have)
    compare = {
        ">=": version.__ge__, "<=": version.__le__, "==": version.__eq__, "<": version.__lt__, ">": version.__gt__,
    }  # fmt: skip
    return all(compare[sign](_numbers(bound)) for sign, bound in _BOUND.findall(wanted))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _host(version: str) -> Check:
    if not version:
        return note(
            "hermes-agent",
            "not in this Python environment",
            "install hermes-agent, then this package into the environment that runs it",
        )
    if version != TESTED_HOST:
        return note(
            "hermes-agent",
            f"{version}; this version of the plugin was tested with {TESTED_HOST}",
            "hermes-pgvector prove shows whether it works",
        )
    return ok("hermes-agent", version)


def _plugin(directory: Path, home: Path) -> Iterator[Check]:
    """Yield how the host's loader would treat the plugin directory."""
    try:
        yield from _readable_plugin(directory, home)
    except PermissionError as exc:
        place = shlex.quote(str(directory))
        yield fail(
            "plugin",
            f"{exc.filename or directory} cannot be read by this user, so hermes runs without this memory",
            f"let the user of hermes have it; as root: chown -R USER {place} && chmod -R u+rX {place}",
        )


def _readable_plugin(directory: Path, home: Path) -> Iterator[Check]:
    if unusable := _unusable_plugin(directory, home):
        yield unusable
        return
    if strange := sorted(path.name for path in directory.glob("*.py") if path.name not in _OUR_FILES):
        yield note(
            "plugin",
            f"hermes also executes {', '.join(strange)} in {directory}, which is not ours, before the plugin",
            "move it away",
        )
    have, ours = version_in(directory), package_version()
    if have == ours:
        yield ok("plugin", f"in {directory}")
        if not has_our_page(directory):
            yield note(
                "page",
                f"the page that hermes dashboard takes from {directory / PAGE_FOLDER} is not this package's",
                f"{_INSTALL}{home}",
                "install",
            )
        return
    yield note(
        "plugin",
        f"{directory} is of version {have}, this command of {ours}",
        f"{_INSTALL}{home}",
        "" if directory.is_symlink() else "install",
    )


def _unusable_plugin(directory: Path, home: Path) -> Check | None:
    """Return why the host would not load this plugin from the directory; None if it would."""
    first = directory / "__init__.py"
    if not first.is_file():
        return _missing_plugin(directory, home)
    if not is_ours(directory):
        return fail("plugin", f"{directory} holds another plugin", f"move it away, then {_INSTALL}{home}; or --force")
    read = first.read_text(encoding="utf-8", errors="replace")[:_MARKER_WITHIN]
    if any(marker in read for marker in _MARKERS):
        return None
    return fail(
        "plugin",
        f"hermes does not take {directory} for a memory provider: its __init__.py names none of "
        f"{' and '.join(_MARKERS)} in its first {_MARKER_WITHIN} characters",
        f"{_INSTALL}{home}",
        "install",
    )


def _missing_plugin(directory: Path, home: Path) -> Check:
    if directory.is_dir():
        missing = f"{directory / '__init__.py'} is missing"
    else:
        missing = f"{directory} leads nowhere" if directory.is_symlink() else f"{directory} is missing"
    free = not os.path.lexists(directory) or (directory.is_dir() and is_ours(directory))
    return fail("plugin", missing, f"{_INSTALL}{home}", "install" if free else "")


def _as_the_host_sees_it(home: Path, directory: Path) -> Iterator[Check]:
    """Have the host find and load the provider."""
    environment = {**os.environ, "HERMES_HOME": str(home)}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _ASK_HOST],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_HOST_TIMEOUT_S,
            check=False,
        )
        found, provider, cause, remedy = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as exc:
        yield note("discovery", f"hermes could not be asked for its plugins ({type(exc).__name__})")
        return
    if not provider:
        yield fail(
            "discovery",
            f"hermes finds {found or 'no plugin'} and cannot load a provider from it",
            f"{_INSTALL}{home}; then look into $HERMES_HOME/logs for the name of the plugin",
            "" if directory.is_symlink() else "install",
        )
    elif Path(found) != directory and Path(found).resolve() != directory.resolve():
        yield fail("discovery", f"hermes loads {found} instead of {directory}", "remove the other plugin of that name")
    elif provider != "PgvectorMemoryProvider":
        yield fail(
            "discovery",
            f"a stand-in takes the place of {IMPORT_NAME}: {cause or 'hermes cannot import it'}",
            remedy or pip_install(reinstall_requirement()),
        )
    else:
        yield ok("discovery", "hermes finds and loads the plugin")


def _switches(home: Path) -> Iterator[Check]:
    """Yield the state of memory.provider and of plugins.enabled."""
    if not is_legible(home):
        yield fail(
            "active",
            f"{home / CONFIG_NAME} cannot be read, memory.provider in it neither",
            "mend the file by hand; hermes config set would write a new one, without all that it cannot read",
        )
        return
    if not is_active(home):
        other = str(at(host_config(home), "memory", "provider") or "")
        yield fail(
            "active",
            f"memory.provider is {other}: hermes asks that plugin" if other else "memory.provider is not pgvector",
            "hermes config set memory.provider pgvector",
            "" if other else "activate",
        )
        return
    yield ok("active", "memory.provider is pgvector")
    if not is_enabled(home):
        forbidden = is_disabled(home)
        why = (
            "plugins.disabled forbids it"
            if forbidden
            else "the first agent that uses this plugin adds it to plugins.enabled"
        )
        yield note(
            "enabled",
            "not loaded at start-up: of several first requests of a gateway at once, some may run without memory, "
            f"and hermes dashboard does not show it; {why}",
            "hermes plugins enable pgvector",
            "" if forbidden else "enable",
        )
