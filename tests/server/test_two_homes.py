"""Two homes of one user do not mix, unless they did before; the profiles of a home share its server."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.admin.common.embedded_server import borrowed_server, embedded_server
from hermes_memory_pgvector.admin.common.saving import set_settings
from hermes_memory_pgvector.admin.doctor.checklist import examine
from hermes_memory_pgvector.admin.setup.uninstall import plan_removal, remove
from hermes_memory_pgvector.domain.errors import ConfigurationError
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.host.session_context import load_settings
from hermes_memory_pgvector.runtime.process import close_all
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.server.home_record import EMBEDDED_PLACE, copied_from, record
from hermes_memory_pgvector.server.layout import default_root, root_of
from tests.support.embedded import BIN_DIR
from tests.support.forked_cli import run_forked
from tests.support.memory import landed, recalled
from tests.support.told_once import forget_warnings

Run = Callable[..., str]


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch, place: Path) -> Iterator[Path]:
    """The home directory of a user, in reach of the account that runs root's servers; their servers go at the end."""
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HERMES_PGVECTOR_EMBEDDED_BIN_DIR", BIN_DIR)
    roots = {default_root(), *(root_of(place / name) for name in (".hermes", "one", "two"))}
    yield place
    close_all()
    for root in roots:
        if (root / "data").exists():
            EmbeddedServer(root, bin_dir=BIN_DIR).remove(force=True)
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def run(user: Path) -> Run:
    """Runs `hermes-pgvector ARGUMENTS` for a home in a process of its own; returns what it printed."""

    def ran(home: str, *arguments: str) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_", "PG"))}
        own = {"HERMES_HOME": str(user / home), "HERMES_PGVECTOR_EMBEDDED_BIN_DIR": BIN_DIR}
        done = run_forked(*arguments, environment=kept | own, timeout_s=200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return ran


def agent(home: Path, **kwargs: str) -> PgvectorMemoryProvider:
    """A session of the home, as the host begins one at its terminal."""
    home.mkdir(parents=True, exist_ok=True)
    provider = PgvectorMemoryProvider()
    provider.initialize("session-1", hermes_home=str(home), platform="cli", **{"agent_identity": "default"} | kwargs)
    return provider


def test_need_04_two_new_homes_of_a_user_do_not_mix_their_default_themes(user: Path, run: Run) -> None:
    for name in (".hermes", "one"):
        provider = agent(user / name)
        provider.on_memory_write("add", "memory", f"The Atlas budget of the home {name} is secret")
        landed(provider)
    for name in (".hermes", "one"):
        assert recalled(agent(user / name), "atlas", scope="all") == [f"The Atlas budget of the home {name} is secret"]
    profile = agent(user / "one" / "profiles" / "coder", agent_identity="coder")
    assert recalled(profile, "atlas", scope="default") == ["The Atlas budget of the home one is secret"]
    close_all()
    for name in (".hermes", "one"):  # after a restart, and for who looks from the command line
        (row,) = json.loads(run(name, "list", "--json"))
        assert row["content"] == f"The Atlas budget of the home {name} is secret"


@pytest.mark.parametrize("named", [False, True], ids=["", "by a setting"])
def test_need_03_a_profile_that_is_removed_leaves_the_memory_of_its_home(user: Path, named: bool) -> None:
    main, profile = user / ".hermes", user / ".hermes" / "profiles" / "coder"
    for home, name in ((main, "default"), (profile, "coder")):
        home.mkdir(parents=True, exist_ok=True)
        if named:
            (home / "config.yaml").write_text(f"plugins: {{pgvector: {{embedded_dir: {default_root()}}}}}")
        provider = agent(home, agent_identity=name)
        provider.on_memory_write("add", "memory", f"The Atlas budget of {name} is secret")
        landed(provider)
    close_all()
    settings = load_settings(None, profile).settings
    with pytest.raises(ConfigurationError, match=f"holds the memory of {main} as well.*--data"):
        remove(profile, settings, data=True, force=False)
    assert recalled(agent(main), "atlas", scope="default") == ["The Atlas budget of default is secret"]
    close_all()
    whole = plan_removal(main, load_settings(None, main).settings, data=True)
    assert not whole.obstacles
    assert any("ALL memory in it" in step and f"{profile} among them" in step for step in whole.steps)
    remove(profile, settings, data=True, force=True)
    assert not (default_root() / "data").exists()


def test_need_04_homes_that_shared_a_server_go_on_finding_it(user: Path, run: Run) -> None:
    first = agent(user / ".hermes")
    first.on_memory_write("add", "memory", "The Atlas budget is known to both")
    landed(first)
    (user / "one" / "pgvector" / "spool").mkdir(parents=True)  # an agent of this home has run
    (user / "two" / "profiles" / "coder" / "pgvector" / "spool").mkdir(parents=True)
    for name in ("one", "two"):
        assert recalled(agent(user / name), "atlas") == ["The Atlas budget is known to both"]
        assert root_of(user / name) == default_root()


def test_need_04_a_home_that_shares_the_users_server_does_not_take_it_along(user: Path) -> None:
    first = agent(user / ".hermes")
    first.on_memory_write("add", "memory", "The Atlas budget stays")
    landed(first)
    (user / "one" / "pgvector" / "spool").mkdir(parents=True)  # an agent of this home has run
    close_all()
    settings = load_settings(None, user / "one").settings

    with pytest.raises(ConfigurationError, match=f"holds the memory of {user / '.hermes'} as well"):
        remove(user / "one", settings, data=True, force=False)

    assert recalled(agent(user / ".hermes"), "atlas") == ["The Atlas budget stays"]


def test_need_04_a_home_keeps_its_server_where_home_is_another_one(
    user: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """As in a service of root: the user's server is that of another home directory then, and holds its memory."""
    provider = agent(user / "one")
    provider.on_memory_write("add", "memory", "The Atlas budget of the home one is secret")
    landed(provider)
    agent(user / "one")  # the first session that finds a server notes where it is
    close_all()
    own = root_of(user / "one")
    other = user / "other"
    monkeypatch.setenv("HOME", str(other))
    try:
        provider = agent(other / ".hermes")
        provider.on_memory_write("add", "memory", "The Atlas budget of another user is secret")
        landed(provider)
        close_all()
        for _ in range(2):
            (row,) = json.loads(run("one", "list", "--json"))
            assert row["content"] == "The Atlas budget of the home one is secret"
            assert root_of(user / "one") == own != default_root()
    finally:
        close_all()
        EmbeddedServer(default_root(), bin_dir=BIN_DIR).remove(force=True)
        shutil.rmtree(default_root(), ignore_errors=True)
    monkeypatch.setenv("HOME", str(user))
    assert recalled(agent(user / "one"), "atlas", scope="all") == ["The Atlas budget of the home one is secret"]


def test_migrate_makes_the_embedded_database_of_the_length_that_it_is_told(user: Path, run: Run) -> None:
    (user / "one").mkdir()

    first = run("one", "migrate", "--dims", "16")
    assert "applied 001_schema" in first and "in place" not in first
    assert "in place: 001_schema" in run("one", "migrate", "--dims", "16")

    with pytest.raises(AssertionError, match="holds vectors of 16 dimensions, --dims says 17"):
        run("one", "migrate", "--dims", "17")


def test_migrate_brings_back_an_index_of_the_embedded_database_and_doctor_says_so(user: Path, run: Run) -> None:
    home = user / "one"
    home.mkdir()
    run("one", "migrate")
    server = EmbeddedServer(root_of(home), bin_dir=BIN_DIR)
    with psycopg.connect(server.ensure().admin, autocommit=True) as admin:
        admin.execute("DROP INDEX conversations_tsv_idx")
        settings = load_settings(None, home).settings
        with borrowed_server(settings) as locate:
            checks = examine(settings, home, locate=locate)
        assert [each.fix for each in checks if "conversations_tsv_idx" in each.said] == ["hermes-pgvector migrate"]
        run("one", "migrate")
        assert admin.execute("SELECT to_regclass('conversations_tsv_idx')::text").fetchone() != (None,)
    server.release()


def test_need_04_which_server_a_home_has_never_changes_while_it_starts(user: Path) -> None:
    """The first process of a new home leaves signs of it before its server is up; the next one reads the same."""
    (default_root() / "data").mkdir(parents=True)
    first = load_settings(None, user / "one").settings
    assert first.embedded_dir not in ("", str(default_root()))
    embedded_server(first).reserve()
    (user / "one" / "pgvector" / "spool").mkdir(parents=True)
    for home in (user / "one", user / "one" / "profiles" / "coder"):
        assert load_settings(None, home).settings.embedded_dir == first.embedded_dir
    assert load_settings({"embedded_dir": "/elsewhere"}, user / "one").settings.embedded_dir == "/elsewhere"
    assert load_settings(None, user / ".hermes").settings.embedded_dir == ""


def of_atlas(home: Path) -> list[str]:
    """What a new session of the home recalls, once its server is up."""
    provider = agent(home)
    provider.on_memory_write("add", "memory", "The Bolt is red")
    landed(provider)
    return recalled(provider, "atlas")


def test_need_04_a_copy_of_the_users_home_has_a_memory_of_its_own_and_says_so(
    user: Path, records: Callable[[int], list[str]]
) -> None:
    first = agent(user / ".hermes")
    first.on_memory_write("add", "memory", "The Atlas budget is secret")
    landed(first)
    agent(user / ".hermes")  # by now there is something to record
    close_all()
    shutil.copytree(user / ".hermes", user / "two")

    copy = agent(user / "two")
    copy.on_memory_write("add", "memory", "The Atlas of the copy is blue")
    landed(copy)

    assert root_of(user / "two") != default_root()
    assert "The Atlas of the copy is blue" in recalled(copy, "atlas")
    assert [line for line in records(logging.WARNING) if f"this home is a copy of {user / '.hermes'}" in line]
    close_all()
    assert of_atlas(user / ".hermes") == ["The Atlas budget is secret"]
    close_all()
    # Where the first is gone, and another one was made there, this is the home that had that memory.
    shutil.rmtree(user / "two")
    shutil.rmtree(root_of(user / "two"), ignore_errors=True)
    (user / ".hermes").rename(user / "two")
    agent(user / ".hermes")
    assert root_of(user / "two") == default_root()


def test_need_04_a_home_under_a_second_name_is_no_copy(tmp_path: Path) -> None:
    home, mounted, copy = tmp_path / ".hermes", tmp_path / "mounted", tmp_path / "copy"
    (home / "pgvector").mkdir(parents=True)
    (home / "pgvector" / "origin").write_text("0123456789abcdef")
    record(home, tmp_path / "server")
    shutil.copytree(home, copy)
    mounted.symlink_to(home)  # as a second mount of the folder is: the same folder by another path

    assert copied_from(mounted) is None
    assert copied_from(copy) == home


def test_need_34_a_home_that_was_moved_does_not_begin_anew_without_a_word(
    user: Path, run: Run, records: Callable[[int], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server is known by the home's path: memory stays off until somebody has said which it is to be."""
    first = agent(user / "one")
    first.on_memory_write("add", "memory", "The Atlas budget is secret")
    landed(first)
    server = root_of(user / "one")
    agent(user / "one")  # by now there is something to record
    close_all()
    shutil.copytree(user / "one", user / "two")
    assert load_settings(None, user / "two").settings.embedded_dir not in ("", str(server)), "a copy has its own"
    shutil.rmtree(user / "two")

    monkeypatch.setenv("HOME", str(user / "as a service has it"))
    assert of_atlas(user / "one") == ["The Atlas budget is secret"]
    close_all()
    monkeypatch.setenv("HOME", str(user))

    (user / "one").rename(user / "two")
    forget_warnings()
    moved = agent(user / "two")
    assert moved.runtime is None
    (said,) = [line for line in records(logging.WARNING) if "was moved here" in line]
    assert f"embedded_dir {server}" in said
    (user / "two" / "config.yaml").write_text(f"plugins: {{pgvector: {{embedded_dir: '{server}'}}}}\n")
    assert of_atlas(user / "two") == ["The Atlas budget is secret"]
    (user / "two" / "config.yaml").write_text("plugins: {}\n")
    (user / "two" / "pgvector" / "embedded.json").unlink()
    assert load_settings(None, user / "two").settings.embedded_dir == str(root_of(user / "two")) != str(server)


def test_need_34_a_home_that_only_commands_have_used_does_not_begin_anew_without_a_word_either(
    user: Path, run: Run
) -> None:
    """As one that was prepared by `import` or `add` and then got its name."""
    (user / "one").mkdir()
    run("one", "add", "The Atlas budget is secret")
    run("one", "list")  # by now there is something to record
    server = root_of(user / "one")
    (user / "one").rename(user / "two")

    with pytest.raises(ConfigurationError, match=rf"was moved here.*\.embedded_dir {re.escape(str(server))} "):
        load_settings(None, user / "two")


def test_need_34_a_home_that_came_without_its_server_says_so_once(
    user: Path, records: Callable[[int], list[str]]
) -> None:
    folder = user / "one" / "pgvector"
    folder.mkdir(parents=True)
    (folder / "embedded.json").write_text('{"home": "/there/one", "server": "/there/pg"}')
    for _ in range(2):
        provider = agent(user / "one")
        provider.on_memory_write("add", "memory", "Atlas is blue")
        landed(provider)
        close_all()
        forget_warnings()
    (said,) = [line for line in records(logging.WARNING) if "/there/pg" in line]
    assert "hermes-pgvector export" in said


def test_need_40_a_data_folder_that_was_moved_away_is_named_as_such(user: Path) -> None:
    home = user / "one"
    root = root_of(home)
    (home / "pgvector").mkdir(parents=True)
    (home / "pgvector" / "embedded.json").write_text(json.dumps({"home": str(home), "server": str(root)}))

    (said,) = load_settings(None, home).warnings

    assert f"{root / 'data'}, is not there" in said
    assert "put the folder back, or restore a backup" in said
    assert "export there" not in said  # there is here


def test_need_40_a_data_folder_that_was_emptied_is_named_as_such(user: Path) -> None:
    """As where a volume is not mounted on it: the folder is there, and nothing in it."""
    home = user / "one"
    root = root_of(home)
    (home / "pgvector").mkdir(parents=True)
    (home / "pgvector" / "embedded.json").write_text(json.dumps({"home": str(home), "server": str(root)}))
    data = root / "data"
    data.mkdir(parents=True)

    (said,) = load_settings(None, home).warnings

    assert f"{data}, is not there: memory begins anew" in said


def test_need_40_a_data_folder_that_cannot_be_looked_at_is_not_called_gone(user: Path) -> None:
    """As one that belongs to another user by now, or is on a disk with errors."""
    home = user / "one"
    root = root_of(home)
    (home / "pgvector").mkdir(parents=True)
    (home / "pgvector" / "embedded.json").write_text(json.dumps({"home": str(home), "server": str(root)}))
    root.mkdir(parents=True)
    (root / "data").symlink_to(root / "data")

    assert load_settings(None, home).warnings == ()


def test_need_40_doctor_says_that_memory_begins_anew_though_it_starts_the_server(user: Path) -> None:
    first = agent(user / ".hermes")
    first.on_memory_write("add", "memory", "The Atlas budget is secret")
    landed(first)
    agent(user / ".hermes")  # by now there is something to record
    close_all()
    shutil.copytree(user / ".hermes", user / "two")
    settings = load_settings(None, user / "two").settings

    with borrowed_server(settings) as locate:
        checks = examine(settings, user / "two", locate=locate)

    assert [check for check in checks if check.name == "postgres" and check.state == "ok"]
    assert [check for check in checks if f"this home is a copy of {user / '.hermes'}" in check.said]


def test_need_40_a_chosen_directory_that_is_not_mounted_is_named(user: Path) -> None:
    home, volume = user / "one", user / "volume"
    home.mkdir()
    section = f"plugins: {{pgvector: {{embedded_dir: '{volume / 'pg'}'}}}}\n"
    (home / "config.yaml").write_text(section)
    assert load_settings(None, home).warnings == (), "it has had none there"
    (volume / "pg" / "data" / "base").mkdir(parents=True)
    assert load_settings(None, home).warnings == ()
    volume.rename(user / "unmounted")

    (said,) = load_settings(None, home).warnings

    assert f"{volume / 'pg' / 'data'}, is not there" in said
    (home / "config.yaml").write_text(section.replace("/pg'", "/other'"))
    assert load_settings(None, home).warnings == (), "the operator has chosen another"
    (home / "config.yaml").write_text("plugins: {}\n")
    assert root_of(home) != volume / "pg" and load_settings(None, home).warnings == ()


def test_trap_12_a_home_whose_dsn_is_gone_does_not_go_on_elsewhere_without_a_word(
    user: Path, records: Callable[[int], list[str]]
) -> None:
    """As where .env was not copied along, or config.yaml was written anew."""
    home = user / "one"
    folder = home / "pgvector"
    folder.mkdir(parents=True)
    (folder / "databases.json").write_text(f'{{"{EMBEDDED_PLACE}": "7/1", "db.example:5432/memory": "8/2"}}')
    said = "the memory of this home was in db.example:5432/memory, and the settings name no `dsn` any more"
    assert [line for line in load_settings(None, home).warnings if line.startswith(said)]

    provider = agent(home)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert len([line for line in records(logging.WARNING) if said in line]) == 1
    close_all()
    assert load_settings(None, home).warnings == (), "said once: it is in the embedded one by now"
    (home / "config.yaml").write_text("plugins: {pgvector: {dsn: host=db.example}}\n")
    assert load_settings(None, home).warnings == ()


def test_need_40_nobody_is_asked_about_a_dsn_that_an_operator_took_out(user: Path) -> None:
    home = user / "one"
    (root_of(home) / "data" / "base").mkdir(parents=True)
    (home / "pgvector").mkdir(parents=True)
    known = home / "pgvector" / "databases.json"
    known.write_text(f'{{"{EMBEDDED_PLACE}": "7/1", "db.example:5432/memory": "8/2"}}')
    (home / "config.yaml").write_text("plugins: {pgvector: {dsn: host=db.example dbname=memory}}\n")

    assert set_settings(home, {"dsn": ""})

    assert load_settings(None, home).warnings == ()
    assert json.loads(known.read_text()) == {EMBEDDED_PLACE: "7/1", "db.example:5432/memory": "8/2"}


def test_need_40_no_command_saves_settings_with_which_memory_would_be_off(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes `dsn` out would be told nothing of the database of before, which nobody else may know."""
    home = user / "one"
    home.mkdir()
    config = home / "config.yaml"
    config.write_text("plugins: {pgvector: {dsn: host=db.example dbname=memory}}\n")
    monkeypatch.setenv("HERMES_PGVECTOR_DSN_OLD", "host=old.example dbname=memory")

    with pytest.raises(ConfigurationError, match=r"left as they are, since memory would be off .* HERMES_PGVECTOR_DSN"):
        set_settings(home, {"dsn": ""})

    assert config.read_text() == "plugins: {pgvector: {dsn: host=db.example dbname=memory}}\n"
    monkeypatch.delenv("HERMES_PGVECTOR_DSN_OLD")
    assert set_settings(home, {"dsn": ""}) and load_settings(None, home).settings.dsn == ""


@pytest.mark.parametrize("file", ["pgvector/config.json", ".env"])
def test_need_40_nor_where_the_form_or_the_environment_held_what_is_taken_out(
    file: str, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host has loaded the .env of its own home into the environment."""
    home, dsn = user / "one", "host=db.example dbname=memory"
    (home / "pgvector").mkdir(parents=True)
    held = json.dumps({"dsn": dsn}) if file.endswith(".json") else f"HERMES_PGVECTOR_DSN='{dsn}'\n"
    (home / file).write_text(held)
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setenv("HERMES_PGVECTOR_DSN_OLD", "host=old.example dbname=memory")
    if file == ".env":
        monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)

    with pytest.raises(ConfigurationError, match="left as they are, since memory would be off"):
        set_settings(home, {"dsn": ""})

    assert (home / file).read_text() == held and not (home / "config.yaml").exists()
    assert load_settings(None, home).settings.dsn == dsn
    assert os.environ.get("HERMES_PGVECTOR_DSN") == (dsn if file == ".env" else None)


def test_need_04_a_home_that_has_used_a_server_of_its_own_gets_no_part_of_the_users(user: Path, run: Run) -> None:
    first = agent(user / ".hermes")
    first.on_memory_write("add", "memory", "The Atlas budget of the main home is secret")
    landed(first)
    home = user / "one"
    home.mkdir()
    (home / "config.yaml").write_text("plugins: {pgvector: {dsn: host=127.0.0.1 port=1 dbname=d user=u}}")
    elsewhere = agent(home)  # a server that it never reaches
    elsewhere.on_memory_write("add", "memory", "The Atlas budget of the other home is secret")
    close_all()
    (home / "config.yaml").write_text("plugins: {}\n")

    own = agent(home)
    own.on_memory_write("add", "memory", "The Atlas is blue")
    landed(own)

    assert root_of(home) != default_root()
    assert "The Atlas budget of the main home is secret" not in recalled(own, "atlas", scope="all")
    assert recalled(agent(user / ".hermes"), "atlas", scope="all") == ["The Atlas budget of the main home is secret"]


def test_need_36_a_home_that_shared_the_users_server_finds_it_after_it_moved_to_another(user: Path) -> None:
    first = agent(user / ".hermes")
    first.on_memory_write("add", "memory", "The Atlas budget is known to both")
    landed(first)
    home = user / "one"
    (home / "pgvector" / "spool").mkdir(parents=True)  # an agent of this home has run, before homes had their own
    (home / "config.yaml").write_text("plugins: {pgvector: {dsn: host=127.0.0.1 port=1 dbname=d user=u}}")
    agent(home)
    close_all()
    (home / "pgvector" / "databases.json").write_text('{"127.0.0.1:1/d": "7712595034058555217/16385"}')

    assert root_of(home) == default_root()  # from where `copy --from embedded` brings what was there
