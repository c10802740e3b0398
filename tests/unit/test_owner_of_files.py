"""Whose the files are that root makes in another user's home, as `sudo hermes` does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hermes_memory_pgvector.admin.common.file_replacing import replace_file
from hermes_memory_pgvector.capture.spool_directory import SpoolDirectory, spool_folder
from hermes_memory_pgvector.capture.spool_format import cannot_use
from hermes_memory_pgvector.domain.files import replace_text
from tests.support.left_spool import operation

NOBODY = 65534


@pytest.fixture
def anothers(tmp_path: Path) -> Path:
    """A home of another user's; of this one's where only root could give it away."""
    home = tmp_path / "home"
    spool_folder(home).mkdir(parents=True, mode=0o700)
    if os.geteuid() == 0:
        for folder in (home, home / "pgvector", spool_folder(home)):
            os.chown(folder, NOBODY, NOBODY)
    return home


def owners(folder: Path) -> set[int]:
    return {path.stat().st_uid for path in folder.rglob("*")}


def test_need_03_what_root_accepts_in_another_users_home_is_there_for_that_users_agents(anothers: Path) -> None:
    directory = SpoolDirectory(spool_folder(anothers), max_bytes=1 << 30)
    spool = directory.open_own()
    said = {"target": "memory", "content": "The quay is closed on Sundays", "metadata": {}}
    spool.append(operation("add", "default", said, time.time()))

    names = {path.name.removeprefix(spool.path.name) for path in spool_folder(anothers).iterdir()}
    assert {"", ".lock"} < names
    assert owners(anothers) == {anothers.stat().st_uid}

    spool.close()
    directory.release(spool.path)


def test_need_27_what_root_writes_into_another_users_home_can_be_read_there(anothers: Path) -> None:
    replace_file(anothers / "config.yaml", b"plugins: {}\n")
    replace_text(anothers / "pgvector" / "embedded.json", "{}\n")

    assert owners(anothers) == {anothers.stat().st_uid}


def test_need_40_a_spool_file_of_another_user_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "1-2-3.db"
    path.touch()
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    said = str(cannot_use(path, PermissionError("unable to open database file")))

    assert f"belongs to another user (uid {owner})" in said
    assert f"chown {owner + 1} {path}*" in said
