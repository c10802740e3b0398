"""What the dashboard's page adds, edits, replaces and forgets, as the command line shows it."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.admin.common.adding import NewMemory, add_in, memory_to_add
from hermes_memory_pgvector.admin.common.outcome import Outcome
from hermes_memory_pgvector.admin.edit.row_images import TextKey
from hermes_memory_pgvector.dashboard.change import Plan, Watched, make_change
from hermes_memory_pgvector.dashboard.params import Params
from hermes_memory_pgvector.dashboard.served_homes import served_homes
from hermes_memory_pgvector.domain.errors import StoreUnavailable
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import DIMS
from tests.support.dashboard import DashboardApi, added, dashboard_api
from tests.support.hermes import HermesHome
from tests.support.mcp_client import mcp_home
from tests.support.row_security import tenant_of
from tests.support.table_rows import everything, kept_texts, rows

from .conftest import cli_of

SCRIPT = "<script>alert('m12')</script><img src=x onerror=alert(1)>"


def shown(agent: HermesHome, ref: str) -> dict[str, Any]:
    """What the command line shows of a row."""
    done = cli_of(agent, "show", ref, "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def session_of(dsn: str, session: str, *texts: str, theme: str = "sales") -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for text in texts:
            conn.execute(
                "INSERT INTO conversations (session_id, agent_identity, role, content, metadata) "
                'VALUES (%s, %s, \'user\', %s, \'{"platform": "cli", "size": 1e30}\')',
                (session, theme, text),
            )


# -- add


def test_a_memory_is_added_as_the_command_adds_it(api: DashboardApi, agent: HermesHome, dsn: str) -> None:
    said = {"kind": "value", "subject": "srv.prod", "scope": "api", "expires_at": "2099-01-02", "pinned": True}
    body = {"theme": "sales", "target": "user", "content": "The API listens on 3005", **said}
    before = everything(dsn)
    dry = api.post("/add", dry_run=True, **body)
    assert (dry["done"], dry["undo"]) == (False, None) and dry["says"] == "would add it to the theme 'sales'"
    assert everything(dsn) == before
    done = api.post("/add", **body)
    (row,) = done["rows"]
    assert done["done"] and done["says"] == f"added {row['ref']} to the theme 'sales'" and done["undo"]["token"]
    kept = shown(agent, row["ref"])
    assert (kept["content"], kept["theme"], kept["target"]) == ("The API listens on 3005", "sales", "user")
    assert kept | said == kept | {"expires_at": "2099-01-02"}
    assert kept["state"] == "active" and kept["owners"] == ["add"]
    (event,) = rows(dsn, "memory_history")
    assert (event["who"]["source"], event["who"]["verb"]) == ("operator", "dashboard add")


def test_what_stands_there_already_is_confirmed(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    again = api.post("/add", theme="sales", content="The office is in Paris", pinned=True)
    assert again["says"] == f"{ref} says that already: it was confirmed" and len(rows(dsn)) == 1
    assert rows(dsn)[0]["pinned"]
    api.post("/undo", token=again["undo"]["token"])
    assert not rows(dsn)[0]["pinned"]


def test_secrets_are_masked_as_the_command_masks_them(api: DashboardApi, dsn: str) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 5
    done = api.post("/add", theme="sales", content=f"The key is {secret}", subject=f"key {secret}")
    assert any("masked" in note for note in done["notes"])
    assert secret not in str(everything(dsn)) and secret not in str(done)
    edited = api.post("/edit", ref=done["rows"][0]["ref"], content=f"Now it is {secret}", applies_when=secret)
    assert secret not in str(everything(dsn)) and secret not in str(edited)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"theme": "sales", "content": " "}, "content is missing"),
        ({"theme": "sales", "content": "x", "target": "notes"}, "target must be one of: memory, user"),
        ({"theme": "sales", "content": "x", "kind": "wish"}, "`kind` must be one of"),
        ({"theme": "sales", "content": "x", "expires_at": "soon"}, "expires_at"),
        ({"theme": "sales", "content": ["x"]}, "content must be text"),
        ({"theme": "sales", "content": "x", "pinned": "perhaps"}, "pinned must be true or false"),
    ],
)
def test_what_cannot_be_added_is_said(api: DashboardApi, dsn: str, body: dict[str, Any], says: str) -> None:
    status, error = api.refused("/add", body)
    assert status == 400 and says in error
    assert rows(dsn) == []


def test_a_stored_script_is_text_and_nothing_else(api: DashboardApi, dsn: str) -> None:
    ref = added(api, SCRIPT)
    edited = api.http.post("/api/plugins/pgvector/edit", json={"ref": ref, "subject": "<b>x</b>"})
    assert edited.headers["content-type"].startswith("application/json")
    assert edited.json()["rows"][0]["content"] == SCRIPT
    assert rows(dsn)[0]["content"] == SCRIPT and rows(dsn)[0]["subject"] == "<b>x</b>"


# -- edit, replace


def test_need_16_a_memory_is_edited_as_the_command_edits_it(api: DashboardApi, agent: HermesHome, dsn: str) -> None:
    ref = added(api, "The office is in Paris", subject="office")
    before = everything(dsn)
    dry = api.post("/edit", ref=ref, content="The office is in Nantes", kind="value", dry_run=True)
    assert dry["says"] == f"would change {ref}: its text, kind" and everything(dsn) == before
    done = api.post("/edit", ref=ref, content="The office is in Nantes", kind="value")
    assert done["says"] == f"changed {ref}: its text, kind"
    assert done["rows"][0]["was"] == "The office is in Paris" and done["rows"][0]["changes"]["kind"] == [
        "fact",
        "value",
    ]
    now = shown(agent, ref)
    assert (now["content"], now["kind"]) == ("The office is in Nantes", "value")
    assert now["subject"] == "office", "what is absent stays"
    api.post("/edit", ref=ref, subject=None)
    assert "subject" not in shown(agent, ref), "null takes it away"
    last = rows(dsn, "memory_history")[-1]
    assert (last["action"], last["who"]["verb"], last["old_content"]) == (
        "replaced", "dashboard edit", "The office is in Paris",
    )  # fmt: skip
    same = api.post("/edit", ref=ref, content="The office is in Nantes")
    assert (same["done"], same["undo"]) == (False, None) and "says that already" in same["says"]


def test_whoever_edits_what_another_one_changed_meanwhile_is_told(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    seen = hashlib.sha256(b"The office is in Paris").hexdigest()
    api.post("/edit", ref=ref, content="The office is in Lyon", expected=seen)
    status, error = api.refused(
        "/edit", {"ref": ref, "content": "It is in Nantes", "expected": "The office is in Paris"}
    )
    assert status == 400 and "changed by somebody else" in error and error.endswith("The office is in Lyon")
    assert rows(dsn)[0]["content"] == "The office is in Lyon"
    assert api.refused("/replace", {"ref": ref, "content": "x", "expected": seen})[0] == 400


def test_what_others_changed_since_it_was_shown_is_neither_forgotten_nor_pinned_nor_displaced(
    api: DashboardApi, dsn: str
) -> None:
    ref = added(api, "The office is in Paris", subject="office")
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/forget", {"refs": [ref]}),
        ("/edit", {"ref": ref, "pinned": True}),
        ("/add", {"theme": "sales", "content": "The office is closed", "subject": "office"}),
    ]
    for number, (path, body) in enumerate(bodies):
        seen = api.post(path, **body, dry_run=True)["seen"]
        api.post("/edit", ref=ref, content=f"The office is in Lyon, on floor {number}")
        before = everything(dsn)
        status, error = api.refused(path, body | {"seen": seen})
        assert status == 400 and "somebody else has just changed what this is about" in error
        assert everything(dsn) == before
    again = api.post("/forget", refs=[ref], dry_run=True)
    assert again["rows"][0]["content"] == "The office is in Lyon, on floor 2"
    api.post("/edit", ref=ref, pinned=True)  # which leaves its text
    assert api.post("/forget", refs=[ref], seen=again["seen"])["counts"]["memories"] == 1


def test_a_property_that_another_tab_changed_since_it_was_shown_is_not_changed_unseen(
    api: DashboardApi, dsn: str
) -> None:
    ref = added(api, "The office is in Paris", subject="office", applies_when="booking a train")
    for mine, theirs in (
        ({"subject": "seat"}, {"subject": "address"}),
        ({"applies_when": "booking a flight"}, {"applies_when": "booking a bus"}),
        ({"state": "closed"}, {"state": "archived"}),
        ({"content": "The office is in Lyon", "pinned": True}, {"pinned": True}),
    ):
        shown = api.post("/edit", ref=ref, **mine, dry_run=True)
        api.post("/edit", ref=ref, **theirs)
        before = everything(dsn)
        status, error = api.refused("/edit", {"ref": ref, **mine, "seen": shown["seen"]})
        assert status == 400 and "somebody else has just changed what this is about" in error
        assert everything(dsn) == before

    shown = api.post("/edit", ref=ref, scope="move", dry_run=True)
    api.post("/edit", ref=ref, kind="value")
    api.post("/edit", ref=ref, scope="move", seen=shown["seen"])
    (row,) = rows(dsn)
    assert (row["scope"], row["kind"], row["subject"]) == ("move", "value", "address"), "of other properties both stay"


def test_of_several_who_edit_at_once_one_is_first_and_the_others_are_told(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris", subject="office")
    cities = ("Lyon", "Nantes", "Brest", "Lille")

    def edit(city: str) -> int:
        body = {"ref": ref, "content": f"The office is in {city}", "expected": "The office is in Paris"}
        return api.http.post("/api/plugins/pgvector/edit", json=body).status_code

    with ThreadPoolExecutor(len(cities)) as pool:
        answers = sorted(pool.map(edit, cities))
    assert answers == [200, 400, 400, 400]
    assert len([row for row in rows(dsn, "memory_history") if row["action"] == "replaced"]) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"ref": "m999999", "content": "x"}, "there is no memory m999999"),
        ({"ref": "t1", "content": "x"}, "what was said is not edited"),
        ({"ref": ["m1", "m2"], "content": "x"}, "names one row"),
        ({"ref": "x", "content": "x"}, "names no row"),
        ({"ref": "m1"}, "say what to change"),
        ({"ref": "m1", "content": " "}, "the text is empty"),
        ({"ref": "m1", "content": "The second"}, "m2 says that already"),
    ],
)
def test_what_cannot_be_edited_is_said(api: DashboardApi, dsn: str, body: dict[str, Any], says: str) -> None:
    assert [added(api, "The first"), added(api, "The second")] == ["m1", "m2"]
    before = everything(dsn)
    status, error = api.refused("/edit", body)
    assert status == 400 and says in error
    assert everything(dsn) == before


def test_need_35_what_replaces_a_fact_of_a_chat_belongs_to_that_chat(api: DashboardApi, dsn: str) -> None:
    fact = added(api, "The PIN is 4711", kind="value", subject="pin")
    said = {"platform": "telegram", "profile": "default", "chat": "c1", "chat_type": "dm", "user": "u1"}
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE memory_entries SET metadata = %s", (json.dumps(said | {"source": "remember"}),))
    before = rows(dsn)
    done = api.post("/replace", ref=fact, content="The PIN is 4712")
    new = api.get("/row", ref=done["rows"][0]["ref"])
    assert new["private"] and said.items() <= new["metadata"].items() and new["metadata"]["source"] == "operator"
    api.post("/undo", token=done["undo"]["token"])
    assert rows(dsn) == before


def test_a_fact_is_replaced_by_another_one_and_a_plain_memory_gets_another_text(api: DashboardApi, dsn: str) -> None:
    fact = added(api, "The API listens on 3005", kind="value", subject="srv.prod", scope="api", applies_when="asked")
    plain = added(api, "The office is in Paris")
    before = everything(dsn)
    dry = api.post("/replace", ref=fact, content="The API listens on 4000", dry_run=True)
    assert everything(dsn) == before
    assert any(f"{fact} is current until now" in note for note in dry["notes"])
    done = api.post("/replace", ref=fact, content="The API listens on 4000")
    old, new = (row for row in rows(dsn) if row["subject"] == "srv.prod")
    assert (old["state"], new["state"], new["replaces"]) == ("superseded", "active", old["id"])
    assert [new[name] for name in ("kind", "scope", "applies_when")] == ["value", "api", "asked"]
    assert {event["who"]["verb"] for event in rows(dsn, "memory_history")[-2:]} == {"dashboard replace"}
    assert done["verb"] == "replace"
    api.post("/undo", token=done["undo"]["token"])
    assert rows(dsn) == before["memory_entries"], "the old one is active again"
    assert api.post("/replace", ref=plain, content="The office is in Nantes")["verb"] == "edit"
    assert rows(dsn)[-1]["content"] == "The office is in Nantes" and len(rows(dsn)) == 2


def test_need_40_a_change_whose_answer_was_lost_may_be_sent_again(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    for path, old, new in (("/edit", "Paris", "Lyon"), ("/replace", "Lyon", "Nantes")):
        change = {"ref": ref, "content": f"The office is in {new}", "expected": f"The office is in {old}"}
        seen = api.post(path, **change, dry_run=True)["seen"]
        assert api.post(path, **change, seen=seen)["done"]
        before = everything(dsn)
        again = api.post(path, **change, seen=seen)
        assert again["says"] == f"{ref} says that already; nothing was changed" and not again["undo"]
        assert everything(dsn) == before


def test_need_40_who_edits_what_has_lost_its_place_meanwhile_is_told(api: DashboardApi, dsn: str) -> None:
    """As in a tab that was opened before."""
    old = added(api, "Port 3000", kind="value", subject="srv")
    new = added(api, "Port 3005", kind="value", subject="srv")
    for path in ("/edit", "/replace"):
        (note,) = api.post(path, ref=old, content="Port 4000", dry_run=True)["notes"]
        assert note == f"recall does not find {old}, which was superseded: {new} has its place"
    for ref, said in ((new, {"state": "archived"}), (old, {"state": "active"}), (new, {})):
        notes = api.post("/edit", ref=ref, content="Port 4000", **said, dry_run=True)["notes"]
        assert not any("recall does not find m" in note for note in notes)


def test_what_another_memory_loses_by_a_change_is_said_and_comes_back(api: DashboardApi, dsn: str) -> None:
    old = added(api, "The API listens on 3005", kind="value", subject="srv.prod")
    before = rows(dsn)
    done = api.post("/add", theme="sales", content="V[srv.prod]: 4000")
    assert done["notes"] == [f"{old} was current until now, and stays as what was said before"]
    api.post("/undo", token=done["undo"]["token"])
    assert rows(dsn) == before
    other = added(api, "The API listens on 5000", kind="value", subject="srv.test")
    before = rows(dsn)
    moved = api.post("/edit", ref=other, subject="srv.prod")
    assert any(old in note for note in moved["notes"])
    assert rows(dsn)[0]["state"] == "superseded"
    api.post("/undo", token=moved["undo"]["token"])
    assert rows(dsn) == before
    closed = api.post("/add", theme="sales", content="✓[srv]")
    assert {row["state"] for row in rows(dsn)} == {"closed"} and f"{old}, {other} were current" in closed["notes"][0]
    api.post("/undo", token=closed["undo"]["token"])
    assert rows(dsn) == before


# -- forget


def test_need_16_rows_are_forgotten_as_the_command_forgets_them(api: DashboardApi, agent: HermesHome, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    api.post("/edit", ref=ref, content="The office is in Nantes")
    session_of(dsn, "monday", "where is the office?")
    before = everything(dsn)
    dry = api.post("/forget", refs=[ref, "t1"], dry_run=True)
    assert (dry["done"], dry["undo"]) == (False, None) and dry["says"] == "would forget: 1 memory, 1 turn"
    assert any("1 text in the history) goes as well" in note for note in dry["notes"])
    assert everything(dsn) == before
    done = api.post("/forget", refs=f"{ref},t1")
    assert done["says"] == "forgotten: 1 memory, 1 turn" and done["counts"] == {"memories": 1, "turns": 1}
    assert rows(dsn) == rows(dsn, "conversations") == [] and kept_texts(dsn) == []
    assert rows(dsn, "memory_history")[-1]["who"]["verb"] == "dashboard forget"
    (logged,) = [row for row in rows(dsn, "hermes_maintenance") if row["verb"] == "dashboard forget"]
    assert "Nantes" not in str(logged)
    assert '"removed"' in json.dumps(shown(agent, ref)), "what happened to it, without its text"
    status, error = api.refused("/forget", {"refs": [ref]})
    assert status == 400 and f"there is no {ref}" in error


def test_one_that_is_missing_keeps_all_of_them(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    before = everything(dsn)
    for body in ({"refs": [ref, "m999"]}, {"refs": [ref], "theme": "marketing"}, {"refs": []}, {"refs": "x"}, {}):
        assert api.refused("/forget", body)[0] == 400
    assert everything(dsn) == before


def test_a_thousand_rows_are_forgotten_at_once_and_no_more(api: DashboardApi, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content) "
            "SELECT 'sales', 'memory', 'note ' || n FROM generate_series(1, 1001) AS n"
        )
    before = rows(dsn)
    refs = [f"m{row['id']}" for row in before]
    assert api.refused("/forget", {"refs": refs}) == (400, "at most 1,000 rows are forgotten at once, not 1,001")
    done = api.post("/forget", refs=refs[1:])
    assert len(rows(dsn)) == 1 and done["counts"]["memories"] == 1_000 and len(done["rows"]) == 100
    api.post("/undo", token=done["undo"]["token"])
    assert rows(dsn) == before


def test_who_else_keeps_it_and_what_waits_in_the_spool_is_said_before(
    api: DashboardApi, agent: HermesHome, dsn: str
) -> None:
    ref = added(api, "The office is in Paris")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE memory_entries SET owners = '{add,remember}'")
    spooled = ("add", "The office is in Paris", "--theme", "sales", "--no-wait")
    assert cli_of(agent, *spooled).returncode == 0
    (agent.path / "memories").mkdir()
    (agent.path / "memories" / "MEMORY.md").write_text("The office is in Paris\n")
    said = " / ".join(api.post("/forget", refs=[ref], dry_run=True)["notes"])
    assert f"{ref} (add, remember)" in said and "stands in this host's MEMORY.md" in said
    assert "1 write of the same text waits in the spool and brings it back" in said


def test_a_session_is_forgotten_and_comes_back(api: DashboardApi, dsn: str) -> None:
    session_of(dsn, "monday", *(f"turn {number}" for number in range(150)))
    session_of(dsn, "tuesday", "another day")
    before = everything(dsn)
    dry = api.post("/forget-session", theme="sales", session="monday", dry_run=True)
    assert dry["says"] == "would forget: 150 turns" and everything(dsn) == before
    done = api.post("/forget-session", theme="sales", session="monday")
    assert [row["content"] for row in rows(dsn, "conversations")] == ["another day"]
    api.post("/undo", token=done["undo"]["token"])
    assert rows(dsn, "conversations") == before["conversations"]
    status, error = api.refused("/forget-session", {"theme": "sales", "session": "friday"})
    assert status == 400 and "no session 'friday'" in error


# -- who may


def test_a_change_that_is_written_is_told_whatever_follows(agent: HermesHome, dsn: str) -> None:
    def lost(done: Outcome) -> list[str]:
        raise StoreUnavailable("Postgres is gone")

    home = agent.path
    with served_homes.at(home) as served:
        context = served.context(30)
        op, _ = memory_to_add(context.keep, NewMemory("sales", "memory", "The office is in Paris"))
        keys = [TextKey.of("sales", "memory", op.content)]
        plan = Plan(
            "add",
            "",
            lambda conn: Watched([], keys),
            lambda conn: add_in(conn, context, op),
            lambda done: "added",
            lost,
        )
        answer = make_change(served, context, plan, Params({}))
    served_homes.close()
    assert answer["done"] and answer["undo"] and answer["notes"][-1] == "what follows it was not done: Postgres is gone"
    assert [row["content"] for row in rows(dsn)] == ["The office is in Paris"]


def test_a_get_changes_nothing(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    before = everything(dsn)
    for path in ("/add", "/edit", "/replace", "/forget", "/forget-session", "/restore", "/undo"):
        asked = api.http.get(f"/api/plugins/pgvector{path}", params={"refs": ref, "ref": ref, "content": "x"})
        assert asked.status_code == 405, path
    assert everything(dsn) == before


def test_only_json_and_only_the_page_itself_may_change_anything(api: DashboardApi, dsn: str) -> None:
    ref = added(api, "The office is in Paris")
    before, forget = everything(dsn), "/api/plugins/pgvector/forget"
    assert api.http.post(forget, data={"refs": ref}).status_code == 400
    assert (
        api.http.post(forget, json={"refs": [ref]}, headers={"Origin": "https://elsewhere.example"}).status_code == 400
    )
    assert everything(dsn) == before


def test_a_role_changes_its_own_themes_only_and_is_told(
    tmp_path: Path, postgres: EmbeddedServer, dsn: str, admin_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(admin_dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO memory_entries (agent_identity, target, content) VALUES ('sales', 'memory', 'theirs')"
        )
    tenant = tenant_of(postgres, admin_dsn, "marketing")
    home = mcp_home(tmp_path / "tenant", dsn=tenant, dims=DIMS)
    before = rows(admin_dsn)
    with dashboard_api(home.path, monkeypatch) as api:
        status, error = api.refused("/add", {"theme": "sales", "content": "ours"})
        assert status == 400 and "grant the theme" in error
        for path, body in (
            ("/edit", {"ref": "m1", "content": "ours"}),
            ("/replace", {"ref": "m1", "content": "ours"}),
            ("/forget", {"refs": ["m1"]}),
        ):
            status, error = api.refused(path, body)
            assert status == 400 and "there is no" in error
        assert rows(admin_dsn) == before
        own = api.post("/add", theme="marketing", content="ours")
        edited = api.post("/edit", ref=own["rows"][0]["ref"], content="ours as well")
        api.post("/undo", token=edited["undo"]["token"])
        gone = api.post("/forget", refs=[own["rows"][0]["ref"]])
        api.post("/undo", token=gone["undo"]["token"])
        assert [row["content"] for row in rows(admin_dsn)] == ["theirs", "ours"]
