"""The forms of the host's dashboard and desktop: one source, and what they save is what the agent uses."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from hermes_memory_pgvector.admin.doctor.check_home import check_forms
from hermes_memory_pgvector.config.settings import FIELDS
from hermes_memory_pgvector.host.session_context import load_settings
from tests.conftest import DIMS
from tests.support.hermes import HermesHome, describe

# The host's own code behind its two pairs of GET and PUT, in a process of its own.
PROGRAM = """
import json, sys
from hermes_cli import web_server as web
from plugins.memory import load_memory_provider
from plugins.memory.config_schema import get_provider_config_schema

def form(surface, values):
    try:
        if surface == "desktop":
            declared = get_provider_config_schema("pgvector")
            if values:
                web._update_memory_provider_config(declared, web._stringify_submitted_values(values))
            return web._declared_provider_payload(declared)["fields"]
        if values:
            web._write_memory_provider_config_values("pgvector", load_memory_provider("pgvector"), values)
        return web._memory_provider_payload("pgvector", load_memory_provider("pgvector"))["fields"]
    except ValueError as error:
        return [{"key": "refused", "value": str(error)}]

print("ANSWER" + json.dumps([form(*step) for step in json.loads(sys.argv[1])]))
"""


@pytest.fixture
def home(bare_home: HermesHome) -> HermesHome:
    bare_home.copy_plugin()
    bare_home.config_path.write_text(
        "# mine\nmemory: {provider: pgvector}\n"
        "plugins:\n  pgvector:\n    embed_model: bge-m3  # large\n    dims: 1024\n",
        encoding="utf-8",
    )
    return bare_home


Step = tuple[str, dict[str, object]]


def submit(home: HermesHome, *steps: Step) -> dict[str, Any]:
    """Submit to the forms, one after the other, and return what the last one shows then, by key; or `refused`."""
    done = home.host_code(PROGRAM, json.dumps(steps))
    assert "ANSWER" in done.stdout, describe(done)
    return {field["key"]: field for field in json.loads(done.stdout.split("ANSWER")[1])[-1]}


def used(home: HermesHome) -> Any:
    """The settings that an agent of this home uses."""
    return load_settings(None, home.path).settings


@pytest.mark.parametrize("surface", ["desktop", "dashboard"])
def test_both_forms_show_the_settings_that_have_a_label(home: HermesHome, surface: str) -> None:
    shown = submit(home, (surface, {}))
    expected = {field.key: (field.label, field.doc) for field in FIELDS if field.label}
    if surface == "desktop":  # nothing of ours can refuse what it saves, and what is empty there says nothing
        del expected["dims"]
        expected = {key: (label, doc.partition("; empty ")[0]) for key, (label, doc) in expected.items()}
    assert {key: (entry["label"], entry["description"]) for key, entry in shown.items() if key in expected} == expected
    assert set(shown) == {*expected, "embed_api_key"}
    assert shown["dsn"]["kind"] == shown["embed_api_key"]["kind"] == "secret"


def test_what_the_desktop_saves_counts_over_the_file_and_blank_says_nothing(home: HermesHome) -> None:
    shown = submit(
        home, ("desktop", dict(prefetch_limit="7", sync_turns="false", embed_model="", dsn="host=db password=geheim"))
    )
    assert shown["prefetch_limit"]["value"] == "7" and shown["sync_turns"]["value"] == "false"
    assert shown["dsn"]["is_set"] and shown["dsn"]["value"] == ""

    now = used(home)

    assert (now.prefetch_limit, now.sync_turns) == (7, False)
    assert (now.embed_model, now.dims) == ("bge-m3", 1024), "what was not touched stays as config.yaml has it"
    assert now.dsn == "host=db password=geheim"
    assert "geheim" not in home.config_path.read_text(encoding="utf-8")

    submit(home, ("desktop", dict(prefetch_limit="", embed_model="nomic-embed-text")))
    assert (used(home).prefetch_limit, used(home).embed_model) == (5, "nomic-embed-text")


def test_the_dashboard_shows_what_holds_and_saves_only_what_was_changed(home: HermesHome) -> None:
    shown = submit(home, ("dashboard", {}))
    assert (shown["embed_model"]["value"], shown["dims"]["value"]) == ("bge-m3", "1024")

    submit(home, ("dashboard", dict(prefetch_limit="7", sync_turns=False)))

    assert (used(home).prefetch_limit, used(home).sync_turns, used(home).embed_model) == (7, False, "bge-m3")
    text = home.config_path.read_text(encoding="utf-8")
    assert text.startswith("# mine\n") and "# large\n" in text and "min_similarity" not in text


def test_the_form_that_was_saved_last_counts(home: HermesHome) -> None:
    submit(home, ("desktop", dict(prefetch_limit="7", embed_model="a")), ("dashboard", dict(prefetch_limit="9")))
    assert (used(home).prefetch_limit, used(home).embed_model) == (9, "a")
    submit(home, ("desktop", dict(prefetch_limit="3")))
    assert used(home).prefetch_limit == 3


def test_a_value_that_cannot_be_used_is_refused_with_what_it_must_be(home: HermesHome) -> None:
    refused = submit(home, ("dashboard", dict(prefetch_limit="many")))
    assert "Memories recalled before a turn: expected an integer from 0 to 50" in refused["refused"]["value"]
    home.config_path.write_text("memory: [\n", encoding="utf-8")
    assert "not valid YAML" in submit(home, ("dashboard", dict(prefetch_limit="6")))["refused"]["value"]


def test_need_40_a_field_that_was_emptied_is_empty(home: HermesHome) -> None:
    submit(home, ("dashboard", dict(embed_url="http://gpu.example/v1", prefetch_limit="7")))
    assert used(home).embed_url == "http://gpu.example/v1"

    shown = submit(home, ("dashboard", dict(embed_url="", prefetch_limit="", embed_model="bge-m3")), ("dashboard", {}))

    assert (shown["embed_url"]["value"], shown["prefetch_limit"]["value"]) == ("", "5")
    now = used(home)
    assert (now.embed_url, now.prefetch_limit, now.embed_model) == ("", 5, "bge-m3")


def test_need_40_what_the_desktop_saved_is_emptied_by_the_dashboard_too(home: HermesHome) -> None:
    submit(home, ("desktop", dict(embed_url="http://gpu.example/v1")), ("dashboard", dict(embed_url="")))
    assert used(home).embed_url == ""


def test_need_22_an_address_with_a_password_survives_a_form_that_does_not_show_it(home: HermesHome) -> None:
    address = "http://me:geheim@gpu.example/v1"
    home.config_path.write_text(f"plugins:\n  pgvector:\n    embed_url: {address}\n", encoding="utf-8")
    submit(home, ("dashboard", dict(embed_url="", prefetch_limit="7")))
    assert (used(home).embed_url, used(home).prefetch_limit) == (address, 7)


def test_need_40_the_length_of_an_embedding_is_the_databases(home: HermesHome, dsn: str) -> None:
    home.config_path.write_text(yaml.safe_dump({"plugins": {"pgvector": {"dsn": dsn, "dims": DIMS}}}), encoding="utf-8")
    refused = submit(home, ("dashboard", dict(dims="768")))["refused"]["value"]
    assert f"the database has vectors of {DIMS} dimensions" in refused and "reembed" in refused
    assert used(home).dims == DIMS

    submit(home, ("dashboard", dict(dims="")))
    assert used(home).dims == DIMS, "emptied, it is what the database has"


@pytest.mark.parametrize("damage", ["{", "[1]", "\x00"])
def test_a_damaged_file_of_the_form_is_passed_over(home: HermesHome, damage: str) -> None:
    path = home.path / "pgvector" / "config.json"
    path.parent.mkdir()
    path.write_text(damage, encoding="utf-8")
    assert used(home).embed_model == "bge-m3"


def test_doctor_says_where_the_form_overrules_the_file(home: HermesHome) -> None:
    submit(home, ("desktop", {"embed_model": "another", "prefetch_limit": "5", "dims": "1024"}))
    (note,) = check_forms(home.path)
    assert note.state == "note" and note.said.endswith("embed_model")
    submit(home, ("desktop", {"embed_model": ""}))
    assert not list(check_forms(home.path))
