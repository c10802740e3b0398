"""The plugin directory: how it gets into a hermes home, and what it does when its package is away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hermes_memory_pgvector.admin.common import installation
from hermes_memory_pgvector.admin.common.installation import Mode, install_plugin, is_ours
from hermes_memory_pgvector.admin.common.own_package import reinstall_requirement
from hermes_memory_pgvector.admin.setup.uninstall import plan_removal, remove
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import ConfigurationError
from tests.support.hermes import PLUGIN_FOLDER

# The host reads no further when it looks for a provider.
HOST_READS_CHARS = 8192

WITHOUT_PACKAGE = """
import sys
sys.modules["hermes_memory_pgvector"] = None
"""

LOAD = """
import json, logging
records = []
class Keep(logging.Handler):
    def emit(self, record):
        if record.name.startswith("_hermes_user_memory.pgvector"):
            records.append((record.levelname, record.getMessage()))
logging.getLogger().addHandler(Keep())
from agent.memory_provider import MemoryProvider
from plugins.memory import discover_memory_providers, load_memory_provider
providers = [load_memory_provider("pgvector") for _ in range(3)]
print(json.dumps({
    "all": [isinstance(p, MemoryProvider) for p in providers],
    "name": providers[0].name,
    "available": providers[0].is_available(),
    "tools": providers[0].get_tool_schemas(),
    "listed": [entry for entry in discover_memory_providers() if entry[0] == "pgvector"],
    "records": records,
}))
"""

COMMAND = """
import argparse
from plugins.memory import discover_plugin_cli_commands
(command,) = discover_plugin_cli_commands()
parser = argparse.ArgumentParser()
command["setup_fn"](parser)
command["handler_fn"](parser.parse_args(["doctor", "--json"]))
"""


def run_in_host(home: Path, program: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Runs `program` in a Python of the host's, with `home` as its home, and `more` in its environment."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "HERMES_HOME": str(home), "PYTHONSAFEPATH": "1"}
    environment |= more
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def put_a_strangers_plugin(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "__init__.py").write_text("def register(ctx): ctx.register_memory_provider(None)\n", encoding="utf-8")
    (directory / "plugin.yaml").write_text("name: pgvector\nversion: 0.3.0\nauthor: someone else\n", encoding="utf-8")


def test_need_21_a_shim_holds_what_the_host_reads(tmp_path: Path) -> None:
    report = install_plugin(tmp_path)

    assert report.path == tmp_path / "plugins" / "pgvector"
    assert report.action == "created"
    source = (report.path / "__init__.py").read_text(encoding="utf-8")
    assert "register_memory_provider" in source[:HOST_READS_CHARS]
    assert {"cli.py", "plugin.yaml", "after-install.md"} <= set(contents(report.path))
    assert "runtime.py" not in contents(report.path)
    assert is_ours(report.path)


def test_need_21_a_copy_holds_the_whole_package(tmp_path: Path) -> None:
    report = install_plugin(tmp_path, mode="copy")

    assert contents(report.path) == contents(Path(installation.__file__).parents[2])


@pytest.mark.parametrize("mode", ["shim", "copy"])
def test_installing_again_changes_nothing(tmp_path: Path, mode: str) -> None:
    first = install_plugin(tmp_path, mode="copy" if mode == "copy" else "shim")
    before = (first.path.stat().st_ino, contents(first.path))

    again = install_plugin(tmp_path, mode=first.mode)

    assert again.action == "unchanged"
    assert (first.path.stat().st_ino, contents(first.path)) == before
    assert os.listdir(tmp_path / "plugins") == ["pgvector"]


@pytest.mark.parametrize("mode", ["shim", "copy"])
def test_nobody_else_may_write_to_the_code_that_the_agent_runs_whatever_the_umask(tmp_path: Path, mode: Mode) -> None:
    before = os.umask(0)
    try:
        install_plugin(tmp_path, mode=mode)
        for action in ("created", "unchanged"):
            for path in (tmp_path / "plugins" / "pgvector", *(tmp_path / "plugins" / "pgvector").rglob("*")):
                assert not path.stat().st_mode & 0o022, (action, path)
                path.chmod(0o777)
            install_plugin(tmp_path, mode=mode)
    finally:
        os.umask(before)


def test_what_an_agent_compiles_meanwhile_stops_no_install(tmp_path: Path) -> None:
    """Python writes a module's code under another name first."""
    compiled = install_plugin(tmp_path).path / "__pycache__" / "module.pyc"
    compiled.parent.mkdir(exist_ok=True)
    ended = threading.Event()

    def compile_modules() -> None:
        while not ended.is_set():
            for number in range(50):
                first = compiled.with_name(f"module.pyc.{number}")
                first.write_bytes(b"")
                first.replace(compiled)

    agent = threading.Thread(target=compile_modules)
    agent.start()
    try:
        for _ in range(60):
            assert install_plugin(tmp_path).action == "unchanged"
    finally:
        ended.set()
        agent.join()


def test_an_older_install_of_ours_is_replaced_whole(tmp_path: Path) -> None:
    path = install_plugin(tmp_path, mode="copy").path
    (path / "gone_in_this_version.py").write_text("raise RuntimeError\n", encoding="utf-8")

    report = install_plugin(tmp_path, mode="shim")

    assert report.action == "replaced"
    assert "gone_in_this_version.py" not in contents(path)
    assert os.listdir(tmp_path / "plugins") == ["pgvector"]


def test_what_a_killed_install_has_left_goes_with_the_next_one_and_with_uninstall(tmp_path: Path) -> None:
    killed, at_work = (tmp_path / "plugins" / name for name in (".pgvector-killed", ".pgvector-at-work"))
    for each in (killed, at_work):
        (each / "new").mkdir(parents=True)
    os.utime(killed, (0, 0))
    install_plugin(tmp_path)
    assert (killed.exists(), at_work.exists()) == (False, True)
    planned = plan_removal(tmp_path, Settings(), data=False)
    assert f"remove {at_work}, which an interrupted install or removal has left" in planned.steps
    remove(tmp_path, Settings(), data=False, force=False)
    assert not list((tmp_path / "plugins").iterdir())


def test_a_strangers_plugin_is_left_alone_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "plugins" / "pgvector"
    put_a_strangers_plugin(path)
    before = contents(path)

    with pytest.raises(ConfigurationError, match="--force"):
        install_plugin(tmp_path)

    assert contents(path) == before
    assert install_plugin(tmp_path, force=True).action == "replaced"
    assert is_ours(path)


@pytest.mark.parametrize("manifest", [b"\xff\xfe", b"[", b"- a list", b""])
def test_a_directory_with_a_broken_manifest_is_not_ours(tmp_path: Path, manifest: bytes) -> None:
    path = tmp_path / "plugins" / "pgvector"
    path.mkdir(parents=True)
    (path / "plugin.yaml").write_bytes(manifest)

    with pytest.raises(ConfigurationError, match="was not put there by"):
        install_plugin(tmp_path)


def test_a_symlink_to_this_plugin_is_kept(tmp_path: Path) -> None:
    elsewhere = install_plugin(tmp_path / "elsewhere", mode="copy").path
    link = tmp_path / "plugins" / "pgvector"
    link.parent.mkdir()
    link.symlink_to(elsewhere)

    report = install_plugin(tmp_path)

    assert report.action == "kept"
    assert str(elsewhere) in report.note
    assert link.is_symlink()


def test_a_symlink_to_anything_else_is_refused_and_force_replaces_only_the_link(tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    put_a_strangers_plugin(stranger)
    link = tmp_path / "plugins" / "pgvector"
    link.parent.mkdir()
    link.symlink_to(stranger)
    before = contents(stranger)

    with pytest.raises(ConfigurationError, match="symlink"):
        install_plugin(tmp_path)
    assert install_plugin(tmp_path, force=True).action == "replaced"

    assert contents(stranger) == before
    assert not link.is_symlink()
    assert is_ours(link)


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file", encoding="utf-8")

    with pytest.raises(ConfigurationError, match="cannot be written"):
        install_plugin(tmp_path / "home")


def test_the_plugin_is_compiled_for_a_short_first_load(tmp_path: Path) -> None:
    path = install_plugin(tmp_path).path

    assert all((entry.parent / "__pycache__").is_dir() for entry in path.rglob("*.py"))


def test_need_21_a_shim_without_its_package_loads_and_says_once_what_to_do(tmp_path: Path) -> None:
    install_plugin(tmp_path)

    completed = run_in_host(tmp_path, WITHOUT_PACKAGE + LOAD)

    assert completed.returncode == 0, completed.stderr
    seen = json.loads(completed.stdout.splitlines()[-1])
    assert seen["all"] == [True, True, True]
    assert seen["name"] == "pgvector"
    assert seen["available"] is False
    assert seen["tools"] == []
    assert [(name, available) for name, _, available in seen["listed"]] == [("pgvector", False)]
    ((level, message),) = seen["records"]
    assert level == "WARNING"
    assert "hermes_memory_pgvector" in message
    assert f"{sys.executable} -m pip install" in message
    assert reinstall_requirement() in message


@pytest.mark.parametrize("damage", ["cut short", "zeroed", "a part is missing"])
def test_need_02_a_damaged_package_is_no_silent_absence(tmp_path: Path, damage: str) -> None:
    home, package = tmp_path / "home", tmp_path / "environment" / "hermes_memory_pgvector"
    home.mkdir()
    install_plugin(home)
    shutil.copytree(PLUGIN_FOLDER, package, ignore=shutil.ignore_patterns("__pycache__"))
    module = package / "host" / "provider.py"
    match damage:
        case "cut short":
            module.write_bytes(module.read_bytes()[:3000])
        case "zeroed":
            module.write_bytes(b"\0" * 4096)
        case "a part is missing":
            shutil.rmtree(package / "domain")

    completed = run_in_host(home, LOAD, PYTHONPATH=str(package.parent))

    assert completed.returncode == 0, completed.stderr
    seen = json.loads(completed.stdout.splitlines()[-1])
    assert (seen["all"], seen["available"]) == ([True, True, True], False)
    ((level, message),) = seen["records"]
    assert level == "WARNING" and "pgvector memory is off: " in message
    # pip takes a version that is installed already for whole.
    assert f"install --force-reinstall '{reinstall_requirement()}'" in message
    (home / "config.yaml").write_text("memory:\n  provider: pgvector\n", encoding="utf-8")
    if damage == "a part is missing":
        completed = run_in_host(home, COMMAND, PYTHONPATH=str(package.parent))
        assert completed.returncode == 1 and "--force-reinstall" in completed.stderr
        assert "Traceback" not in completed.stderr


def test_need_21_the_command_line_without_its_package_says_what_to_do(tmp_path: Path) -> None:
    install_plugin(tmp_path)
    (tmp_path / "config.yaml").write_text("memory:\n  provider: pgvector\n", encoding="utf-8")

    completed = run_in_host(tmp_path, WITHOUT_PACKAGE + COMMAND)

    assert completed.returncode == 1, completed.stderr
    assert "pip install" in completed.stderr
    assert "Traceback" not in completed.stderr


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, "==9.9"),
        ({"url": "file:///home/me/a%20checkout", "dir_info": {}}, " @ file:///home/me/a%20checkout"),
        (
            {"url": "https://git.example/it.git", "vcs_info": {"vcs": "git", "commit_id": "0123abc"}},
            " @ git+https://git.example/it.git@0123abc",
        ),
    ],
)
def test_the_requirement_names_where_the_package_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, object] | None, requirement: str
) -> None:
    record = tmp_path / "hermes_memory_pgvector-9.9.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Name: hermes-memory-pgvector\nVersion: 9.9\n", encoding="utf-8")
    if origin:
        (record / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    assert reinstall_requirement() == f"hermes-memory-pgvector[embedded,model]{requirement}"
