"""The real PgBouncer of the tests: the machine's own, or Debian's package unpacked, which needs no right of root's.

Fetch it with `python tests/support/pooler_files.py DIR`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_PACKAGE = "pgbouncer"
_PLACES = "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin", "/opt/homebrew/sbin"
_ADVICE = (
    "install pgbouncer (Debian: apt-get install pgbouncer, macOS: brew install pgbouncer), or name the program in "
    "PGVECTOR_TEST_PGBOUNCER"
)
_FETCH_TIMEOUT_S = 300
_TRIES = 3  # a mirror may be away for a moment


@cache
def pooler_program() -> tuple[Path, Mapping[str, str]]:
    """PgBouncer, and the environment that it runs in; fetched to .cache/pgbouncer where the machine has none.

    Raises RuntimeError when it cannot be had.
    """
    default = Path(__file__).resolve().parents[2] / ".cache" / _PACKAGE
    return find_pooler(default)


def find_pooler(folder: Path) -> tuple[Path, Mapping[str, str]]:
    """What PGVECTOR_TEST_PGBOUNCER names, else the machine's own, else the one in `folder`, fetched if need be."""
    search = os.pathsep.join((os.environ.get("PATH", ""), *_PLACES))
    if found := os.environ.get("PGVECTOR_TEST_PGBOUNCER") or shutil.which(_PACKAGE, path=search):
        return Path(found), os.environ
    for attempt in range(_TRIES):
        if _works(folder):
            break
        try:
            _fetch(folder)
        except RuntimeError:
            if attempt == _TRIES - 1:
                raise
    else:
        if not _works(folder):
            raise RuntimeError(f"the pgbouncer in {folder} does not run; {_ADVICE}")
    return _program(folder), _environment(folder)


def _program(folder: Path) -> Path:
    return folder / "usr" / "sbin" / _PACKAGE


def _environment(folder: Path) -> Mapping[str, str]:
    libraries = os.pathsep.join(str(path) for path in sorted(folder.glob("usr/lib/*-linux-gnu*")))
    return os.environ | {"LD_LIBRARY_PATH": libraries}


def _works(folder: Path) -> bool:
    try:
        return not subprocess.run(
            [_program(folder), "--version"], env=_environment(folder), capture_output=True, check=False
        ).returncode
    except OSError:
        return False


def _fetch(folder: Path) -> None:
    """Unpack the package, and those of its libraries that the machine lacks, into `folder`."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise RuntimeError(f"there is no pgbouncer on this machine; {_ADVICE}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as made:
        scratch = Path(made)
        # Lists and cache of our own: the machine's may be empty, and are not ours to renew.
        places = [("State::Lists", scratch / "lists"), ("Cache", scratch / "cache")]
        for _, place in places:
            (place / "partial").mkdir(parents=True)
        (scratch / "cache" / "archives" / "partial").mkdir(parents=True)
        options = [word for name, place in places for word in ("-o", f"Dir::{name}={place}")]
        options += ["-o", "Acquire::Retries=5", "-o", "APT::Sandbox::User="]
        _run(scratch, "apt-get", *options, "-qq", "update")
        depends = _run(scratch, "apt-cache", *options, "depends", _PACKAGE)
        named = [line.split()[1] for line in depends.splitlines() if line.strip().startswith("Depends: lib")]
        _run(scratch, "apt-get", *options, "-qq", "download", _PACKAGE, *(name for name in named if _lacks(name)))
        for package in sorted(scratch.glob("*.deb")):
            _run(scratch, "dpkg-deb", "-x", str(package), str(scratch / "unpacked"))
        shutil.rmtree(folder, ignore_errors=True)
        (scratch / "unpacked").replace(folder)


def _lacks(package: str) -> bool:
    done = subprocess.run(["dpkg-query", "-W", "-f=${Status}", package], capture_output=True, text=True, check=False)
    return not done.stdout.endswith(" installed")


def _run(scratch: Path, *command: str) -> str:
    try:
        done = subprocess.run(
            command, cwd=scratch, capture_output=True, text=True, check=False, timeout=_FETCH_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as exc:
        raise RuntimeError(f"pgbouncer cannot be fetched: {command[0]} takes too long; {_ADVICE}") from exc
    if done.returncode:
        raise RuntimeError(f"pgbouncer cannot be fetched: {done.stderr.strip() or done.stdout.strip()}; {_ADVICE}")
    return done.stdout


def main() -> None:
    """Have PgBouncer, in the folder given on the command line where the machine has none."""
    parser = argparse.ArgumentParser(description="Find or fetch the PgBouncer that the tests use.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    program, _ = find_pooler(parser.parse_args().folder.absolute())
    print(program)


if __name__ == "__main__":
    main()
