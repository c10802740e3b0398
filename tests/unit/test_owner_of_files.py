"""Whose the files are that root makes in another user's home, as `sudo hermes` does."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

import pytest

from hermes_memory_pgvector.admin.common.file_replacing import how_to_let_write, locked, replace_file
from hermes_memory_pgvector.admin.common.installation import install_plugin
from hermes_memory_pgvector.admin.common.installed_models import install_model
from hermes_memory_pgvector.capture.mirror import Mirror
from hermes_memory_pgvector.capture.spool_directory import SpoolDirectory, spool_folder
from hermes_memory_pgvector.capture.spool_format import cannot_use
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.files import replace_text
from hermes_memory_pgvector.host.backup import hold_place
from hermes_memory_pgvector.server.home_record import record
from tests.support.left_spool import operation
from tests.support.model_files import MODEL_NAME, model_dir

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


def test_need_03_root_may_be_the_first_in_another_users_home(tmp_path: Path) -> None:
    """As `sudo hermes-pgvector prove` is there: nobody else could use the spool, or anything, in folders of root."""
    home = tmp_path / "home"
    (home / "memories").mkdir(parents=True)
    (home / "memories" / "MEMORY.md").write_text("The quay is closed on Sundays")
    if os.geteuid() == 0:
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY, NOBODY)

    directory = SpoolDirectory(spool_folder(home), max_bytes=1 << 30)
    spool = directory.open_own()
    mirrored = Mirror(home)
    assert mirrored.changed()
    record(home, tmp_path / "server")
    with locked(home / "pgvector" / "models" / ".lock", "busy"):
        pass

    made = {path.name for path in (home / "pgvector").iterdir()}
    assert {"spool", "clock", "had-MEMORY.md", "embedded.json", "models"} <= made
    assert owners(home) == {home.stat().st_uid}
    assert stat.S_IMODE((home / "pgvector" / "spool").stat().st_mode) == 0o700

    spool.close()
    directory.release(spool.path)


def test_need_27_what_root_writes_into_another_users_home_can_be_read_there(anothers: Path) -> None:
    replace_file(anothers / "config.yaml", b"plugins: {}\n")
    replace_text(anothers / "pgvector" / "embedded.json", "{}\n")

    assert owners(anothers) == {anothers.stat().st_uid}


def test_need_21_what_root_installs_in_another_users_home_can_be_replaced_and_removed_there(anothers: Path) -> None:
    """As `sudo hermes-pgvector install` does: after it that user could neither upgrade the plugin nor remove it."""
    install_plugin(anothers)
    assert install_plugin(anothers, mode="copy").action == "replaced"
    install_model(anothers, Settings(), MODEL_NAME, source=model_dir())
    hold_place(anothers)

    assert {"cli.py", MODEL_NAME, "model.onnx", "memory.jsonl.gz"} <= {path.name for path in anothers.rglob("*")}
    assert owners(anothers) == {anothers.stat().st_uid}


def test_need_40_who_may_not_write_in_a_home_is_told_what_lets_them(tmp_path: Path) -> None:
    home = tmp_path / "Anna's home"
    named = str(home).replace("'", "'\"'\"'")

    assert f"""chown -R "$USER" '{named}'""" in how_to_let_write(
        PermissionError(errno.EACCES, "Permission denied"), home
    )
    assert "free space" in how_to_let_write(OSError(errno.ENOSPC, "No space left on device"), home)
    assert "for writing" in how_to_let_write(OSError(errno.EROFS, "Read-only file system"), home)


def test_need_40_a_spool_file_of_another_user_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "1-2-3.db"
    path.touch()
    owner = path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    said = str(cannot_use(path, PermissionError("unable to open database file")))

    assert f"belongs to another user (uid {owner})" in said
    assert f"chown {owner + 1} {path}*" in said
