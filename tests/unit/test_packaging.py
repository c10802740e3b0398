"""What is shipped: the contents and the metadata of wheel and sdist, and the wheel beside the PyPI package pgvector."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.message import Message
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml

from hermes_memory_pgvector.domain.commandline import REQUIRED_MODULES

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "pgvector"
IMPORT_NAME = "hermes_memory_pgvector"

IMPORT_BOTH = f"""
import pathlib, sys
import {IMPORT_NAME}, pgvector, pgvector.psycopg
print(pathlib.Path({IMPORT_NAME}.__file__).parent)
print(pathlib.Path(pgvector.__file__).parent)
print({IMPORT_NAME}.register.__name__)
"""


def run(*command: str, cwd: Path) -> str:
    """Runs a command to its end; fails with its output when it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that was built from that sdist."""
    out = tmp_path_factory.mktemp("dist")
    # In this order by itself: without options `build` makes the sdist, unpacks it and builds the wheel there.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(REPOSITORY), cwd=out)
    return out


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def package_files() -> set[str]:
    """Every file of the package in the repository, relative to it."""
    return {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_whole_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == {f"{IMPORT_NAME}/{name}" for name in package_files()}
    assert f"{IMPORT_NAME}/plugin.yaml" in packaged
    assert f"{IMPORT_NAME}/after-install.md" in packaged
    assert f"{IMPORT_NAME}/py.typed" in packaged
    assert f"{IMPORT_NAME}/migrations/001_schema.sql" in packaged
    assert f"{IMPORT_NAME}/store/queries/recall.sql" in packaged
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_sdist_holds_the_package_the_tests_and_the_scripts(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}

    assert {f"pgvector/{name}" for name in package_files()} <= names
    assert {"pyproject.toml", "LICENSE", "README.md", "scripts/test.sh", "scripts/install.sh", ".ci/run"} <= names
    assert "tests/unit/test_packaging.py" in names
    assert not [name for name in names if name.startswith((".venv", ".cache", ".git/")) or "__pycache__" in name]


def test_whoever_builds_again_from_the_sdist_gets_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "elsewhere", filter="data")
    (source,) = (tmp_path / "elsewhere").iterdir()
    for path in source.rglob("*"):  # neither the time of a checkout nor whose rights it has may tell
        os.utime(path, (1e9, 1e9))
        path.chmod(0o700 if path.is_dir() or path.stat().st_mode & 0o100 else 0o600)

    again = tmp_path / "again"
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(again), str(source), cwd=tmp_path)

    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (dist, again))
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []


def test_the_metadata_says_what_users_need_to_know(wheel: Path, metadata: Message) -> None:
    assert metadata["Name"] == "hermes-memory-pgvector"
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
    extras = {"embedded", "mcp", "metrics", "model", "test", "test-all", "web"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        entry_points = archive.read(name).decode()
    assert f"[console_scripts]\nhermes-pgvector = {IMPORT_NAME}.cli:main" in entry_points
    assert f"[hermes_agent.memory_providers]\npgvector = {IMPORT_NAME}" in entry_points


def test_every_dependency_has_an_upper_bound(metadata: Message) -> None:
    requirements = metadata.get_all("Requires-Dist", [])
    own = {"hermes-memory-pgvector"}

    needed = {re.split(r"[^A-Za-z0-9_-]", text)[0].lower() for text in requirements if "extra ==" not in text}
    assert needed == {
        "psycopg", "psycopg-pool", "pgvector", "pyyaml", "httpx", "rich", "shtab", "ruamel-yaml", "python-dotenv",
    }  # fmt: skip
    for text in requirements:
        name, _, _ = text.partition(";")
        assert "<" in name or "==" in name or re.split(r"[\[ ]", name)[0] in own, text


def test_the_manifest_is_what_the_host_expects(metadata: Message) -> None:
    manifest = yaml.safe_load((PACKAGE / "plugin.yaml").read_text(encoding="utf-8"))

    assert set(manifest) == {"name", "version", "description", "author", "kind", "pip_dependencies", "requires_env"}
    assert manifest["name"] == "pgvector"
    assert manifest["version"] == metadata["Version"]
    assert manifest["requires_env"] == []
    # Of this kind the plugin manager loads us at start-up, where `plugins.enabled` names us.
    assert manifest["kind"] == "standalone"
    needed = {text.partition(";")[0].strip().lower() for text in metadata.get_all("Requires-Dist", [])}
    for dependency in manifest["pip_dependencies"]:
        # The host takes this for the name to import, and installs again at each setup what it cannot import.
        __import__(dependency.replace("-", "_").split("[")[0])
        assert any(text.startswith(dependency.lower()) for text in needed)


def test_what_a_copied_plugin_folder_lacks_the_host_installs_or_has() -> None:
    manifest = yaml.safe_load((PACKAGE / "plugin.yaml").read_text(encoding="utf-8"))
    theirs = {re.split(r"[^A-Za-z0-9._-]", text)[0].lower() for text in requires("hermes-agent") or []}

    # Beside the manifest newer hosts would read this one, in its place.
    assert not (PACKAGE / "pyproject.toml").exists()
    lacking = {name.lower() for name in REQUIRED_MODULES.values()} - set(manifest["pip_dependencies"])
    assert lacking <= theirs


def test_the_wheel_neither_hides_nor_is_hidden_by_the_package_pgvector(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    python = str(environment / "bin" / "python")
    (site,) = environment.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # The dependencies come from the environment of the tests, behind the new one's own packages.
    import pgvector

    dependencies = Path(pgvector.__file__).parents[1]
    (site / "dependencies.pth").write_text(f"{dependencies}\n", encoding="utf-8")
    # As in a checkout of this repository, or in $HERMES_HOME/plugins.
    decoy = tmp_path / "elsewhere" / "pgvector"
    decoy.mkdir(parents=True)
    (decoy / "__init__.py").write_text("raise ImportError('the wrong pgvector')\n", encoding="utf-8")

    ours, theirs, register = run(python, "-P", "-c", IMPORT_BOTH, cwd=decoy.parent).splitlines()

    assert Path(ours) == site / IMPORT_NAME
    assert Path(theirs) == dependencies / "pgvector"
    assert register == "register"
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.startswith("pgvector/")]
