"""`hermes backup` takes the memory of the embedded Postgres along, and what it took comes back."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.support.hermes import HermesHome, describe
from tests.support.model_server import ModelServer

FACT = "The spare key to the greenhouse hangs behind the third flower pot."
DIMS = 384
OURS = ("-m", "hermes_memory_pgvector.cli")


@pytest.fixture
def servers(place: Path) -> Iterator[Path]:
    """A place for embedded servers that other accounts can reach; they are stopped at the end."""
    yield place
    for root in place.iterdir():
        EmbeddedServer(root).stop()


@pytest.fixture
def embedded_home(bare_home: HermesHome, model: ModelServer, servers: Path) -> HermesHome:
    """A home whose agent uses an embedded server."""
    bare_home.copy_plugin()
    bare_home.write_config(
        model.base_url, {"embedded_dir": str(servers / "first"), "dims": DIMS, "shutdown_timeout_s": 30}
    )
    return bare_home


def test_need_16_hermes_backup_takes_the_embedded_memory_along(
    embedded_home: HermesHome, servers: Path, tmp_path: Path
) -> None:
    told = embedded_home.hermes("-z", f"remember: {FACT}")
    assert told.returncode == 0, describe(told)
    archive = tmp_path / "backup.zip"
    killed = embedded_home.path / "pgvector" / "backup" / ".memory.jsonl.gz.x1y2.part"
    killed.write_text("what an export that was killed has left")
    os.utime(killed, (0, 0))
    made = embedded_home.hermes("backup", "-o", str(archive))
    assert made.returncode == 0, describe(made)
    name = "_external/.hermes/pgvector/backup/memory.jsonl.gz"
    with zipfile.ZipFile(archive) as zipped:
        assert name in zipped.namelist(), describe(made)
        assert not any("PG_VERSION" in each for each in zipped.namelist())
    export = embedded_home.path / "pgvector" / "backup" / "memory.jsonl.gz"
    assert stat.S_IMODE(export.stat().st_mode) == 0o600 and not killed.exists()

    shutil.rmtree(embedded_home.path)
    restored = embedded_home.hermes("import", "--force", str(archive))
    assert restored.returncode == 0, describe(restored)
    config = embedded_home.config_path
    config.write_text(config.read_text().replace(str(servers / "first"), str(servers / "second")))
    taken = embedded_home.python(*OURS, "import", str(export), "--json")
    assert taken.returncode == 0, describe(taken)
    assert json.loads(taken.stdout)["memories_added"] == 1


def test_need_16_the_first_backup_of_a_home_outside_home_holds_the_memory(
    model: ModelServer, servers: Path, tmp_path: Path
) -> None:
    # As in our container: HERMES_HOME is a volume, HOME is not.
    home = HermesHome(tmp_path / "user", tmp_path / "data")
    home.copy_plugin()
    home.write_config(model.base_url, {"embedded_dir": str(servers / "first"), "dims": DIMS, "shutdown_timeout_s": 30})
    told = home.hermes("-z", f"remember: {FACT}")
    assert told.returncode == 0, describe(told)
    archive = tmp_path / "backup.zip"
    made = home.hermes("backup", "-o", str(archive))
    assert made.returncode == 0, describe(made)
    assert "outside your home directory" not in made.stdout
    restored = tmp_path / "restored"
    with zipfile.ZipFile(archive) as zipped:
        export = zipped.extract("pgvector/backup/memory.jsonl.gz", restored)
    with gzip.open(export, "rt", encoding="utf-8") as lines:
        assert any(json.loads(line).get("content") == FACT for line in lines), describe(made)
