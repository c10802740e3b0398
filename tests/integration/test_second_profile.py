"""A further profile on a database that holds vectors already: it takes their model, or says what it lacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.host.session_context import load_settings
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import DIMS, MakeProvider
from tests.support.local_models import link_model
from tests.support.memory import landed
from tests.support.model_files import MODEL_NAME
from tests.support.ollama import FakeOllama

Install = Callable[[], dict[str, Any]]


@pytest.fixture
def profile(home: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new profile of the home, on the same database, with nothing in its configuration."""
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    path = home / "profiles" / "coder"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def install(profile: Path, capsys: pytest.CaptureFixture[str]) -> Install:
    """What `install`, the command of the documents, says."""

    def run() -> dict[str, Any]:
        assert main(["install", "--json", "--hermes-home", str(profile)]) == 0
        told = json.loads(capsys.readouterr().out)
        assert isinstance(told, dict)
        return told

    return run


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = FakeOllama({"fits": DIMS})
    yield f"http://{server.host}"
    server.close()


def configure(home: Path, **settings: object) -> None:
    (home / "config.yaml").write_text(yaml.safe_dump({"plugins": {"pgvector": settings}}), encoding="utf-8")


def hold(admin_dsn: str, model: str) -> None:
    """Have the database hold one vector of a model."""
    with psycopg.connect(admin_dsn) as conn:
        conn.execute("UPDATE hermes_embedding SET model = %s, document_prefix = ''", (model,))
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content, embedding) "
            "VALUES ('coder', 'memory', 'The spare key is behind the pot', array_fill(0.1, ARRAY[%s])::vector)",
            (DIMS,),
        )


def doctor(profile: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    main(["doctor", "--json", "--hermes-home", str(profile)])
    return {check["name"]: check["state"] for check in json.loads(capsys.readouterr().out)["checks"]}


def test_need_40_a_second_profile_without_the_server_of_the_first_is_told_that_it_is_apart(
    home: Path, profile: Path, dsn: str, tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERMES_PGVECTOR_DSN")
    monkeypatch.setenv("HERMES_PGVECTOR_EMBEDDED_DIR", str(tmp_path / "no-server"))
    configure(home, dsn=make_conninfo(dsn, password="hunter2hunter2"))
    note = install()["note"]
    assert f"setup --hermes-home {profile} --dsn DSN" in note and "hunter2" not in note
    configure(profile, dsn=dsn)
    assert "note" not in install()


def test_need_40_a_second_profile_takes_the_endpoint_of_the_first(
    home: Path, profile: Path, admin_dsn: str, endpoint: str, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(home, embed_url=endpoint, embed_model="fits", dims=DIMS)
    hold(admin_dsn, "fits")

    assert install()["recall"]["mode"] == "endpoint"

    used = load_settings(None, profile).settings
    assert (used.embed_url, used.embed_model, used.dims) == (endpoint, "fits", DIMS)
    assert doctor(profile, capsys)["vectors"] == "ok"


def test_need_40_a_second_profile_takes_the_local_model_of_the_first_with_its_files(
    home: Path, profile: Path, make_provider: MakeProvider, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(home, embed_url=f"local:{MODEL_NAME}", dims=DIMS)
    link_model(home)
    first = make_provider({"embed_url": f"local:{MODEL_NAME}"})
    first.on_memory_write("add", "memory", "The spare key is behind the pot")
    landed(first)
    close_all()

    assert install()["recall"]["mode"] == "local"

    used = load_settings(None, profile).settings
    assert (used.embed_url, used.dims) == (f"local:{MODEL_NAME}", DIMS)
    states = doctor(profile, capsys)
    assert states["vectors"] == states["embedding"] == "ok"


@pytest.mark.parametrize(
    ("model", "advice"),
    [("bge-small-en-v1.5", "hermes-pgvector model choose"), ("nobody-knows", "plugins.pgvector.embed_url")],
)
def test_need_40_a_second_profile_that_cannot_have_the_model_says_so_and_recalls_by_words(
    profile: Path, admin_dsn: str, install: Install, capsys: pytest.CaptureFixture[str], model: str, advice: str
) -> None:
    hold(admin_dsn, model)

    told = install()["recall"]

    assert told["mode"] == "lexical" and model in told["said"] and advice in told["advice"]
    assert load_settings(None, profile).settings.dims == DIMS
    assert doctor(profile, capsys)["vectors"] == "ok"
    main(["search", "spare key", "--theme", "coder", "--hermes-home", str(profile)])
    assert "behind the pot" in capsys.readouterr().out


@pytest.mark.parametrize("local", [True, False])
def test_need_40_a_second_profile_takes_the_model_of_the_first_before_that_has_stored_anything(
    home: Path, profile: Path, endpoint: str, install: Install, capsys: pytest.CaptureFixture[str], local: bool
) -> None:
    """As where both are set up one after the other: it recalled by words, without a word about it."""
    url = f"local:{MODEL_NAME}" if local else endpoint
    configure(home, embed_url=url, embed_model="fits", dims=str(DIMS))
    link_model(home)

    assert install()["recall"]["mode"] == ("local" if local else "endpoint")

    used = load_settings(None, profile).settings
    assert (used.embed_url, used.dims) == (url, DIMS)
    assert doctor(profile, capsys)["embedding"] == "ok"


def test_need_40_a_model_of_another_length_than_the_database_has_is_not_taken(
    home: Path, profile: Path, endpoint: str, install: Install
) -> None:
    configure(home, embed_url=endpoint, embed_model="fits", dims=2 * DIMS)
    assert "recall" not in install()
    assert not load_settings(None, profile).settings.embed_url


def test_need_40_a_length_without_a_vector_yet_is_taken_too(profile: Path, install: Install) -> None:
    assert "recall" not in install()
    assert load_settings(None, profile).settings.dims == DIMS


def test_what_is_configured_stays(profile: Path, admin_dsn: str, install: Install) -> None:
    configure(profile, embed_url="http://embed.example/v1", dims=1024)
    hold(admin_dsn, "other")
    assert "recall" not in install()
    assert load_settings(None, profile).settings.dims == 1024
