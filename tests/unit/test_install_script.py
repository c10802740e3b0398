"""What install.sh says before it installs anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "install.sh"
NOBODY = 65534


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


def test_sudo_for_a_home_of_somebody_else_goes_on(tmp_path: Path, users_home: Path) -> None:
    assert "without sudo" not in install_as_root(tmp_path, users_home, users_home.stat().st_uid + 1)
