"""A copy of the binaries for an account that cannot reach them: root's own files are often in a closed directory."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ..domain.errors import EmbeddedServerError
from .binaries import Binaries, version_in
from .layout import SYSTEM_DIR, Account, make_public_dir
from .run_as import run
from .waiting import exclusive, fixed_timeout

# What programs need to run; headers and static libraries are a third of the size.
TREES = ("bin", "lib", "share")
UNNEEDED = (".a", ".h", ".pc", ".mk")

COPY_TIMEOUT_S = 120.0


def within_reach(binaries: Binaries, account: Account) -> Binaries:
    """Return the binaries, or a root-owned copy below SYSTEM_DIR when `account` cannot execute them where they are.

    No permission of an existing file or directory is changed. Raises: EmbeddedServerError.
    """
    if not account.switched or _runs(binaries, account):
        return binaries
    try:
        copy = _copied(binaries)
    except OSError as error:
        raise EmbeddedServerError(
            f"the account {account.name!r} cannot execute {binaries['postgres']}, and they cannot be copied to "
            f"{SYSTEM_DIR} for it: {error}; install the package where all users can read it, or set `dsn`"
        ) from error
    if not _runs(copy, account):
        raise EmbeddedServerError(
            f"the account {account.name!r} can execute neither {binaries['postgres']} nor the copy in "
            f"{copy.directory}; is {SYSTEM_DIR} mounted noexec? Install the package where all users can read it, or "
            "set `dsn`"
        )
    return copy


def _runs(binaries: Binaries, account: Account) -> bool:
    try:
        done = run(account, [binaries["postgres"], "--version"])
    except EmbeddedServerError:
        return False
    return done.code == 0 and version_in(done.output) == (binaries.version, binaries.major)


def _copied(binaries: Binaries) -> Binaries:
    prefix = binaries.directory.parent
    package = prefix.parent
    # A repaired wheel has its bundled libraries beside its package (Linux) or in it (macOS), at a relative path.
    sources = [prefix / tree for tree in TREES]
    sources += [place for place in (package.parent / f"{package.name}.libs", package / ".dylibs") if place.is_dir()]
    files = sorted((path, path.relative_to(package.parent)) for source in sources for path in _files(source))
    target = SYSTEM_DIR / f"bin-{binaries.version}-{_digest(files)}"
    make_public_dir(SYSTEM_DIR)
    with exclusive(SYSTEM_DIR / ".bin.lock", fixed_timeout(COPY_TIMEOUT_S)):
        if not target.is_dir():
            _copy(files, target)
    return replace(binaries, directory=target / binaries.directory.relative_to(package.parent))


def _copy(files: list[tuple[Path, Path]], target: Path) -> None:
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        for source, relative in files:
            destination = unfinished / relative
            make_public_dir(destination.parent)
            shutil.copyfile(source, destination)
            destination.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
        # Without this a power cut could leave a finished directory with empty files, which nothing would notice.
        os.sync()
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _files(tree: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(tree):
        yield from (Path(directory, name) for name in names if not name.endswith(UNNEEDED))


def _digest(files: list[tuple[Path, Path]]) -> str:
    total = hashlib.sha256()
    for source, relative in files:
        with source.open("rb") as stream:
            total.update(os.fsencode(relative) + b"\0" + hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()[:12]
