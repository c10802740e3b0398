"""What install.sh says before it installs anything."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_port

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "install.sh"
NOBODY = 65534
# A Python whose pip has nothing to do: the network is no part of these tests.
WITHOUT_PIP = """#!/bin/sh
case "$*" in "-m pip "*) exit 0 ;; esac
exec {python} "$@"
"""


@pytest.fixture
def users_home(tmp_path: Path) -> Path:
    """A user's home, which may be another user's for root only."""
    home = tmp_path / "home"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    return home


def install_as_root(tmp_path: Path, home: Path, sudo_uid: int) -> str:
    """What the script says as root; it would stop for want of a Python, before it has made anything."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "id").write_text("#!/bin/sh\necho 0\n")
    (programs / "id").chmod(0o755)
    done = subprocess.run(
        [str(SCRIPT), "--venv", str(tmp_path / "venv")],
        env={
            "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "SUDO_UID": str(sudo_uid),
            "SUDO_USER": "zoe", "PYTHON": "/no/such/python",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    return done.stderr


def test_need_21_sudo_in_the_home_of_the_user_is_refused_before_it_makes_files_of_root(
    tmp_path: Path, users_home: Path
) -> None:
    said = install_as_root(tmp_path, users_home, users_home.stat().st_uid)
    assert "is in the home of zoe, whose hermes could not use what root makes there" in said
    assert "run this again without sudo" in said
    assert list(users_home.iterdir()) == []


def test_a_database_that_cannot_be_used_is_not_put_in_the_place_of_one_that_works(tmp_path: Path) -> None:
    home, program = tmp_path / "hermes", tmp_path / "venv" / "bin" / "python"
    home.mkdir()
    (home / "config.yaml").write_text("plugins: {pgvector: {dsn: 'host=db dbname=memory'}}\n")
    program.parent.mkdir(parents=True)
    program.write_text(WITHOUT_PIP.format(python=shlex.quote(sys.executable)))
    program.chmod(0o755)
    other = f"postgresql://hermes:secret@127.0.0.1:{free_port()}/memory"

    done = subprocess.run(
        [str(SCRIPT), "--no-embedded", "--no-model", "--venv", str(tmp_path / "venv"), "--hermes-home", str(home)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HERMES_PGVECTOR_DSN": other},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1 and "Connection refused" in done.stderr, done.stderr
    assert f"the database cannot be used; the settings of {home} stay as they are" in done.stderr
    assert "secret" not in done.stdout + done.stderr
    assert [path.name for path in home.iterdir()] == ["config.yaml"]
    assert "host=db" in (home / "config.yaml").read_text()


def test_sudo_for_a_home_of_somebody_else_goes_on(tmp_path: Path, users_home: Path) -> None:
    assert "without sudo" not in install_as_root(tmp_path, users_home, users_home.stat().st_uid + 1)
