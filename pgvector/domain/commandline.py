"""Our commands as they can be typed here, our modules run as programs, and the packages that this Python lacks."""

from __future__ import annotations

import functools
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from .patterns import late_pattern

REQUIRED_MODULES = {  # by module, with their names for pip
    "psycopg": "psycopg[binary]",
    "psycopg_pool": "psycopg-pool",
    "pgvector": "pgvector",
    "httpx": "httpx",
    "yaml": "PyYAML",
    "dotenv": "python-dotenv",
}
_OWN = "hermes-pgvector"
_IN_TEXT = late_pattern(rf"\b{_OWN} (?=[a-z])")
_INSTALLED_AS = "hermes_memory_pgvector"
_PACKAGE_DIR = Path(__file__).resolve().parents[1]
# Loads the package under its own name wherever it is: installed, or copied into a plugin directory.
_LAUNCH = """
import importlib, importlib.util, sys
where, module = sys.argv.pop(1), sys.argv.pop(1)
name, init = "hermes_memory_pgvector", where + "/__init__.py"
spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[where])
sys.modules[spec.name] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
sys.exit(importlib.import_module(name + "." + module).main())
"""


@functools.cache
def own_command() -> str:
    """Return the prefix of our commands: a copied plugin has no program of its own, only `hermes pgvector`."""
    installed = __name__.partition(".")[0] == _INSTALLED_AS
    within_reach = shutil.which(_OWN) is not None or shutil.which("hermes") is None
    return _OWN if installed and within_reach else "hermes pgvector"


def typed(text: str) -> str:
    """Return the text with each `hermes-pgvector VERB` as it can be typed here."""
    return text if own_command() == _OWN else _IN_TEXT.sub(own_command() + " ", text)


def pip_install(*packages: str) -> str:
    """Return the command that installs packages in this Python."""
    return pip_command("install", packages)


def pip_command(verb: str, packages: tuple[str, ...]) -> str:
    """Return the command that does this with packages in this Python."""
    python = shlex.quote(sys.executable or "python3")
    # Environments made by uv have no pip.
    pip = f"{python} -m pip {verb}" if find_spec("pip") is not None else f"uv pip {verb} --python {python}"
    return " ".join([pip, *(shlex.quote(package) for package in packages)])


def command_of(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `main` of a module of ours, named as `admin.common.embedded_server`."""
    return [sys.executable, "-P", "-c", _LAUNCH, str(_PACKAGE_DIR), module, *arguments]


def lacking() -> str:
    """Return what this environment lacks and how to get it, as a sentence; "" when it lacks nothing."""
    missing = [package for module, package in REQUIRED_MODULES.items() if find_spec(module) is None]
    return f"this Python lacks {', '.join(missing)}; run: {pip_install(*missing)}" if missing else ""
