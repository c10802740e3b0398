"""The settings on the dashboard's page: tried before they are saved, and secrets stay where they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common.saving import set_settings
from hermes_memory_pgvector.config.settings import FIELDS, Settings
from hermes_memory_pgvector.host.session_context import load_settings
from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, dashboard_api
from tests.support.mcp_client import mcp_home
from tests.support.ports import free_port
from tests.support.scripted_embedder import ScriptedEmbedder

SECRET = "geheim"


@pytest.fixture
def agent(tmp_path: Path, dsn: str) -> Path:
    return mcp_home(tmp_path / "agent", dsn=dsn, dims=DIMS).path


@pytest.fixture
def api(agent: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardApi]:
    with dashboard_api(agent, monkeypatch) as client:
        yield client


def used(home: Path) -> Settings:
    return load_settings(None, home).settings


def field(api: DashboardApi, key: str) -> dict[str, Any]:
    return next(each for each in api.get("/settings")["fields"] if each["key"] == key)


def files(home: Path) -> dict[str, str]:
    names = ("config.yaml", ".env")
    return {name: (home / name).read_text(encoding="utf-8") for name in names if (home / name).exists()}


def try_and_save(api: DashboardApi, home: Path, **changes: object) -> dict[str, Any]:
    """Try, then save; the trial says the same and changes nothing."""
    before = files(home)
    trial = api.post("/settings/test", changes=changes)
    dry = api.post("/settings", changes=changes, dry_run=True)
    assert files(home) == before
    saved = api.post("/settings", changes=changes)
    assert trial["ok"] == dry["ok"] == saved["ok"], (trial, saved)
    assert trial["problems"] == saved["problems"]
    if not saved["ok"]:
        assert files(home) == before and saved["saved"] == []
    return saved


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_the_settings_of_the_hosts_form_are_shown_with_what_holds(api: DashboardApi, agent: Path) -> None:
    found = api.get("/settings")
    assert [each["key"] for each in found["fields"] if each["key"] != "embed_api_key"] == [
        each.key for each in FIELDS if each.label
    ]
    assert (found["file"], found["mode"]) == (str(agent / "config.yaml"), "server")
    dims = field(api, "dims")
    assert (dims["type"], dims["value"], dims["default"], dims["source"]) == ("number", DIMS, 768, "config.yaml")
    assert field(api, "sync_turns")["type"] == "bool"
    assert (field(api, "min_similarity")["value"], field(api, "min_similarity")["source"]) == ("auto", "")


def test_need_22_secrets_are_never_sent(api: DashboardApi, agent: Path, dsn: str) -> None:
    (agent / ".env").write_text(
        f"HERMES_PGVECTOR_DSN='{make_conninfo(dsn, password=SECRET)}'\nHERMES_PGVECTOR_EMBED_API_KEY={SECRET}\n"
        f"HERMES_PGVECTOR_EMBED_URL=http://me:{SECRET}@gpu.example/v1\n",
        encoding="utf-8",
    )
    assert SECRET not in api.http.get("/api/plugins/pgvector/settings").text
    for key in ("dsn", "embed_api_key", "embed_url"):
        shown = field(api, key)
        assert (shown["type"], shown["value"], shown["set"], shown["source"]) == ("secret", None, True, ".env")


def test_a_variable_that_overrules_is_named(api: DashboardApi, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_PREFETCH_LIMIT", "3")
    assert field(api, "prefetch_limit")["source"] == "the variable HERMES_PGVECTOR_PREFETCH_LIMIT"
    saved = api.post("/settings", changes={"prefetch_limit": 9})
    assert any("HERMES_PGVECTOR_PREFETCH_LIMIT in the environment overrules" in note for note in saved["notes"])


# -- what is saved ---------------------------------------------------------------------------------------------------


def test_what_can_be_used_is_saved_where_it_stands(api: DashboardApi, agent: Path) -> None:
    saved = try_and_save(api, agent, prefetch_limit="7", sync_turns=False, min_similarity=0.4)
    assert saved["saved"] == ["min_similarity", "prefetch_limit", "sync_turns"]
    assert saved["restart"] and saved["says"] == "3 settings saved"
    now = used(agent)
    assert (now.prefetch_limit, now.sync_turns, now.min_similarity) == (7, False, 0.4)
    assert field(api, "prefetch_limit")["value"] == 7, "the next request goes by it"


def test_need_40_a_field_that_was_emptied_has_its_default(api: DashboardApi, agent: Path) -> None:
    try_and_save(api, agent, prefetch_limit=7, min_similarity=0.4)
    assert try_and_save(api, agent, prefetch_limit="", min_similarity=None)["ok"]
    assert (used(agent).prefetch_limit, used(agent).min_similarity) == (5, "auto")


def test_what_holds_already_is_not_written(api: DashboardApi, agent: Path) -> None:
    before = files(agent)
    saved = api.post("/settings", changes={"prefetch_limit": 5, "dims": DIMS})
    assert (saved["ok"], saved["saved"], saved["restart"]) == (True, [], False)
    assert files(agent) == before


def test_what_somebody_else_has_set_meanwhile_is_not_overwritten_unseen(api: DashboardApi, agent: Path) -> None:
    shown = {"prefetch_limit": 5, "sync_turns": True}
    try_and_save(api, agent, prefetch_limit=9)
    before = files(agent)
    refused = api.post("/settings", changes={"prefetch_limit": 7, "sync_turns": False}, shown=shown)
    (problem,) = refused["problems"]
    assert (problem["key"], refused["saved"], refused["now"]) == ("prefetch_limit", [], {"prefetch_limit": 9})
    assert "set it to 9" in problem["says"] and files(agent) == before
    again = api.post("/settings", changes={"prefetch_limit": 7, "sync_turns": False}, shown=shown | refused["now"])
    assert again["saved"] == ["prefetch_limit", "sync_turns"]
    assert again["now"] == {"prefetch_limit": 7, "sync_turns": False}
    assert api.post("/settings", changes={"prefetch_limit": 7}, shown={"prefetch_limit": 3})["ok"], "it is so already"


def test_need_22_what_is_compared_gives_no_secret_away(api: DashboardApi, agent: Path) -> None:
    (agent / ".env").write_text(f"HERMES_PGVECTOR_EMBED_URL=http://me:{SECRET}@gpu.example/v1\n", encoding="utf-8")
    answer = api.post("/settings/test", changes={"embed_url": ""}, shown={"embed_url": "http://guessed.example/v1"})
    assert SECRET not in str(answer) and not answer["now"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("prefetch_limit", 51, "an integer from 0 to 50"),
        ("prefetch_limit", "many", "an integer from 0 to 50"),
        ("prefetch_limit", [5], "an integer"),
        ("prefetch_limit", 10**400, "an integer"),
        ("min_similarity", 1.5, "auto or a number from -1 to 1"),
        ("sync_turns", "perhaps", "true or false"),
        ("embed_model", {"a": 1}, "one line of text"),
    ],
)
def test_a_value_out_of_range_is_named(api: DashboardApi, agent: Path, key: str, value: object, expected: str) -> None:
    saved = try_and_save(api, agent, **{key: value, "sync_turns" if key != "sync_turns" else "prefetch_limit": 0})
    (problem,) = saved["problems"]
    assert (problem["key"], expected in problem["says"]) == (key, True), problem
    assert used(agent).sync_turns, "all of them or none"


@pytest.mark.parametrize("body", [{}, {"changes": []}, {"changes": {}}, {"changes": {"identity_key": "x"}}])
def test_other_settings_are_refused(api: DashboardApi, body: dict[str, Any]) -> None:
    assert api.refused("/settings", body)[0] == 400


# -- the database ----------------------------------------------------------------------------------------------------


def test_another_database_is_tried(api: DashboardApi, agent: Path, second_dsn: str) -> None:
    saved = try_and_save(api, agent, dsn=second_dsn)
    assert saved["ok"], saved
    assert any("tables are there" in note for note in saved["notes"])
    assert any("copy --to" in note for note in saved["notes"]), "what was stored stays where it was"
    assert used(agent).dsn == second_dsn


def test_a_password_goes_into_the_env_file(api: DashboardApi, agent: Path, second_dsn: str) -> None:
    assert try_and_save(api, agent, dsn=make_conninfo(second_dsn, password=SECRET))["ok"]
    assert SECRET in files(agent)[".env"] and SECRET not in files(agent)["config.yaml"]


def test_a_database_out_of_reach_is_not_saved(api: DashboardApi, agent: Path, dsn: str) -> None:
    wrong = make_conninfo(dsn, host="127.0.0.1", port=free_port(), password=SECRET)
    (problem,) = try_and_save(api, agent, dsn=wrong)["problems"]
    assert problem["key"] == "dsn" and "refused" in problem["says"] and SECRET not in problem["says"]


def test_a_database_without_tables_is_not_saved(api: DashboardApi, agent: Path, admin_dsn: str, tmp_path: Path) -> None:
    name = "no_tables_here"
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            (problem,) = try_and_save(api, agent, dsn=make_conninfo(admin_dsn, dbname=name, user="hermes"))["problems"]
        finally:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)")
    assert problem["key"] == "dsn" and "hermes-pgvector migrate --admin-dsn" in problem["says"]


# -- the model -------------------------------------------------------------------------------------------------------


def test_an_endpoint_is_asked_before_it_is_saved(api: DashboardApi, agent: Path, embedder: ScriptedEmbedder) -> None:
    saved = try_and_save(api, agent, embed_url=embedder.url, embed_model="scripted", embed_api_key=SECRET)
    assert saved["ok"], saved
    assert saved["saved"] == ["embed_api_key", "embed_model", "embed_url"]
    assert any(f"vectors of {DIMS} dimensions" in note for note in saved["notes"])
    assert (used(agent).embed_url, used(agent).embed_model) == (embedder.url, "scripted")
    assert f"HERMES_PGVECTOR_EMBED_API_KEY={SECRET}" in files(agent)[".env"]
    assert (field(api, "embed_api_key")["set"], SECRET in str(field(api, "embed_api_key"))) == (True, False)

    assert try_and_save(api, agent, embed_url="", embed_api_key="")["ok"], "by words only"
    assert used(agent).embed_url == "" and SECRET not in files(agent)[".env"]


def test_the_key_of_one_endpoint_is_not_sent_to_another(
    api: DashboardApi, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedEmbedder(dims=DIMS) as old, ScriptedEmbedder(dims=DIMS) as stranger:
        assert try_and_save(api, agent, embed_url=old.url, embed_model="scripted", embed_api_key=SECRET)["ok"]
        (problem,) = try_and_save(api, agent, embed_url=stranger.url)["problems"]
        assert problem["key"] == "embed_api_key" and "another address" in problem["says"]
        assert try_and_save(api, agent, embed_url="")["ok"]
        assert try_and_save(api, agent, embed_url=stranger.url)["problems"], "nor by way of no address"
        assert stranger.texts == []
        assert try_and_save(api, agent, embed_url=stranger.url, embed_api_key="another")["ok"]
        assert try_and_save(api, agent, embed_url=f"{stranger.url}/")["ok"], "the same address"
        assert try_and_save(api, agent, embed_url=old.url, embed_api_key="")["ok"], "and without a key"
        monkeypatch.setenv("HERMES_PGVECTOR_EMBED_API_KEY", SECRET)
        (problem,) = try_and_save(api, agent, embed_url=stranger.url, embed_api_key="")["problems"]
        assert problem["key"] == "embed_api_key", "emptying does not reach the one of the environment"


def test_an_emptied_key_is_not_asked_for_whichever_variable_held_it(
    api: DashboardApi, agent: Path, embedder: ScriptedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_settings(agent, {"embed_api_key_env": "SOME_API_KEY"})
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    wanted = {"embed_url": embedder.url, "embed_model": "scripted", "embed_api_key": ""}
    monkeypatch.setenv("HERMES_PGVECTOR_EMBED_API_KEY", SECRET)
    (problem,) = try_and_save(api, agent, **wanted)["problems"]
    assert problem["key"] == "embed_api_key", "it is the one that would be sent once the other is left"
    monkeypatch.delenv("HERMES_PGVECTOR_EMBED_API_KEY")
    assert try_and_save(api, agent, **wanted)["ok"]
    assert used(agent).embed_api_key_env == "HERMES_PGVECTOR_EMBED_API_KEY"


def test_an_endpoint_that_does_not_answer_is_not_saved(api: DashboardApi, agent: Path) -> None:
    (problem,) = try_and_save(api, agent, embed_url=f"http://127.0.0.1:{free_port()}/v1")["problems"]
    assert problem["key"] == "embed_url" and "start the endpoint" in problem["says"]


def test_vectors_of_another_length_are_not_saved(api: DashboardApi, agent: Path) -> None:
    with ScriptedEmbedder(dims=DIMS // 2) as short:
        (problem,) = try_and_save(api, agent, embed_url=short.url, embed_model="short")["problems"]
    assert f"gives {DIMS // 2} dimensions" in problem["says"] and "reembed" in problem["says"]


def test_need_40_the_length_of_an_embedding_is_the_databases(api: DashboardApi, agent: Path) -> None:
    (problem,) = try_and_save(api, agent, dims=768)["problems"]
    assert problem["key"] == "dims" and f"vectors of {DIMS} dimensions" in problem["says"]
    assert "hermes-pgvector reembed" in problem["fix"]


def test_a_model_that_is_not_installed_is_not_saved(api: DashboardApi, agent: Path) -> None:
    (problem,) = try_and_save(api, agent, embed_url="local:nobody-has-this")["problems"]
    assert problem["key"] == "embed_url" and "hermes-pgvector model" in problem["says"], problem
