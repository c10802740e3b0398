"""Configurations that are not what we asked for: said once, with what is used instead."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.host.session_context import load_settings
from tests.conftest import DIMS, MakeProvider
from tests.integration.conftest import command_environment
from tests.support.forked_cli import forked
from tests.support.memory import called, landed, recalled, runtime_of
from tests.support.stored import Database

Records = Callable[[int], list[str]]


def _start(home: Path, config: str) -> PgvectorMemoryProvider:
    """A provider of a home whose config.yaml holds `config`, initialised."""
    (home / "config.yaml").write_text(config, encoding="utf-8")
    provider = PgvectorMemoryProvider()
    provider.initialize("session-1", hermes_home=str(home), platform="cli")
    return provider


@pytest.mark.parametrize(
    "config",
    [
        "plugins:\n  pgvector:\n    dsn: 'never closed\n",
        "plugins: [a, b]\n",
        "just words",
        "plugins:\n\tpgvector: {}\n",
        "plugins: {pgvector: {dsn: [1, 2]}}\n",
        "plugins: {pgvector: {dsn: {host: db}}}\n",
        "plugins: {pgvector: {dsn: '  '}}\n",
        "plugins:\n  pgvector:\n    dsn: host=db\n  pgvector:\n    dims: 384\n",
        "plugins:\n  pgvector:\n    dsn: host=db\nplugins:\n  enabled: [pgvector]\n",
        "plugins:\n  pgvector:\n    dsn: host=db\n    dsn:\n",
        "plugins:\n  pgvector:\n    - dsn: host=db\n",
        "plugins:\n  pgvector: 'dsn: host=db'\n",
    ],
)
def test_trap_12_a_broken_file_never_means_another_database(
    home: Path, records: Records, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home))
    provider = _start(home, config)
    assert not provider.is_available()
    provider.on_memory_write("add", "memory", "Atlas is blue")
    assert provider.prefetch("Is Atlas blue?") == ""
    assert provider.runtime is None, "no store is better than another store"
    assert "doctor" in called(provider, "recall_memory", {"query": "atlas"})["error"]
    (said,) = records(logging.WARNING)
    assert "config.yaml" in said or "plugins.pgvector" in said


@pytest.mark.parametrize("harm", ["mkdir", "link", "utf-16"])
def test_trap_12_an_env_file_that_cannot_be_read_never_means_another_database(
    home: Path, dsn: str, records: Records, harm: str
) -> None:
    """`setup` puts a DSN with a password there, and nowhere else."""
    path = home / ".env"
    written = f"HERMES_PGVECTOR_DSN={dsn}\n"
    if harm == "mkdir":
        path.mkdir()
    elif harm == "link":
        path.symlink_to(home / "volume" / "env")
    else:
        path.write_text(written, encoding="utf-16")
    provider = _start(home, f"plugins: {{pgvector: {{dims: {DIMS}}}}}\n")
    assert provider.runtime is None, "no store is better than another store"
    (said,) = records(logging.WARNING)
    assert f"memory is off: {path} cannot be read" in said


@pytest.mark.parametrize(
    "line",
    [
        "HERMES_PGVECTOR_DSN: {}",
        "HERMES_PGVECTOR_DSN {}",
        "hermes_pgvector_dsn={}",
        "HERMES-PGVECTOR-DSN={}",
        "HERMES_PGVECTOR_DSN:={}",
        "set HERMES_PGVECTOR_DSN={}",
        '$env:HERMES_PGVECTOR_DSN="{}"',
    ],
)
def test_trap_12_a_line_of_env_that_only_names_the_dsn_never_means_another_database(
    home: Path, dsn: str, records: Records, line: str
) -> None:
    (home / ".env").write_text(f"A=b\n{line.format('postgresql://hermes:hunter22@db/memory')}\n", encoding="utf-8")
    provider = _start(home, f"plugins: {{pgvector: {{dims: {DIMS}}}}}\n")
    assert provider.runtime is None, "no store is better than another store"
    (said,) = records(logging.WARNING)
    assert "a line names HERMES_PGVECTOR_DSN, but does not set it" in said and "hunter22" not in said
    provider = _start(home, f"plugins: {{pgvector: {{dims: {DIMS}, dsn: '{dsn}'}}}}\n")
    assert provider.runtime is not None, "the database is named elsewhere"


@pytest.mark.parametrize(
    ("config", "environment"),
    [
        ("{{dims: {dims}}}", "HERMES_PGVECTOR_DSN='host=db\nuser=hermes'\n"),
        ("{{dims: {dims}}}", 'HERMES_PGVECTOR_DSN="postgresql://hermes:hunter\\n22@db/memory"\n'),
        ("{{dims: {dims}, dsn: '{dsn}'}}", "HERMES_PGVECTOR_DSN='host=db\nuser=hermes'\n"),
        ("{{dims: {dims}, embedded_dir: /srv/memory}}", "HERMES_PGVECTOR_DSN='host=db\nuser=hermes'\n"),
        ("{{dims: {dims}, embedded_dir: [/srv/memory]}}", ""),
        ("{{dims: {dims}, embedded_dir: /srv/memory}}", "HERMES_PGVECTOR_EMBEDDED_DIR='/srv/a\nb'\n"),
    ],
)
def test_trap_12_a_database_that_is_named_in_a_way_that_cannot_be_used_never_means_another_one(
    home: Path, dsn: str, records: Records, config: str, environment: str
) -> None:
    (home / ".env").write_text(environment, encoding="utf-8")
    provider = _start(home, f"plugins: {{pgvector: {config.format(dims=DIMS, dsn=dsn)}}}\n")
    assert provider.runtime is None, "no store is better than another store"
    (said,) = records(logging.WARNING)
    assert "it names no d" in said and "rather than use another database" in said and "hunter" not in said
    (home / ".env").write_text(f"HERMES_PGVECTOR_DSN='{dsn}'\n", encoding="utf-8")
    assert load_settings(None, home).settings.dsn == dsn, "what has priority is usable"


@pytest.mark.parametrize(
    "misspelt",
    ["dns: '{}'", "DSN: '{}'", "database_url: '{}'", "connection: 'host=db dbname=memory'", "embed_dir: /srv/memory"],
)
def test_trap_12_a_misspelt_name_of_the_database_never_means_another_database(
    home: Path, dsn: str, records: Records, misspelt: str
) -> None:
    line = misspelt.format("postgresql://hermes:hunter22@db/memory")
    provider = _start(home, f"plugins:\n  pgvector:\n    dims: {DIMS}\n    {line}\n")
    assert provider.runtime is None, "no store is better than another store"
    (said,) = records(logging.WARNING)
    assert "memory is off: plugins.pgvector: unknown setting" in said and "hunter22" not in said
    assert f"did you mean {'embedded_dir' if 'embed_dir' in line else 'dsn'}?" in said
    provider = _start(home, f"plugins:\n  pgvector:\n    dims: {DIMS}\n    dsn: '{dsn}'\n    {line}\n")
    assert provider.runtime is not None, "the database is named, too"


@pytest.mark.parametrize(
    "line",
    [
        "embedder: ollama",
        "embedding: BAAI/bge-small",
        "embedded: 'yes'",
        "embedded_port: '5433'",
        "model_dir: /srv/models",
        "note: 'was once on another machine, host=db'",
    ],
)
def test_trap_12_a_name_that_means_no_database_leaves_memory_on(home: Path, line: str) -> None:
    (home / "config.yaml").write_text(f"plugins:\n  pgvector:\n    {line}\n", encoding="utf-8")
    (said,) = load_settings(None, home).warnings
    assert "unknown setting" in said and "did you mean dsn" not in said
    name, _, value = line.partition(": ")
    assert not load_settings({}, home, {f"HERMES_PGVECTOR_{name.upper()}": value.strip("'")}).settings.dsn


def test_trap_12_a_misspelt_variable_never_means_another_database(
    home: Path, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".env").write_text("HERMES_PGVECTOR_DNS=postgresql://hermes:hunter22@db/memory\n", encoding="utf-8")
    assert _start(home, f"plugins: {{pgvector: {{dims: {DIMS}}}}}\n").runtime is None
    (said,) = records(logging.WARNING)
    assert "did you mean HERMES_PGVECTOR_DSN?" in said and "hunter22" not in said
    (home / ".env").write_text("A=b\n")
    monkeypatch.setenv("HERMES_PGVECTOR_BACKUP_DSN", "postgresql://db/memory")
    assert load_settings(None, home).settings.dsn == "", "a script's variable names no database of ours"


def test_trap_12_a_variable_that_the_env_file_overrules_is_told(home: Path, dsn: str) -> None:
    """Who names a database for one command would see, and forget, rows of another one."""
    (home / ".env").write_text(f"HERMES_PGVECTOR_DSN='{dsn}'\nHERMES_PGVECTOR_DIMS={DIMS}\n", encoding="utf-8")

    def told(*arguments: str, **more: str) -> str:
        environment = command_environment(home, **more)
        done = subprocess.run(forked(*arguments), env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    other = {"HERMES_PGVECTOR_DSN": "postgresql://hermes:hunter22@db/memory"}
    sentence = f"HERMES_PGVECTOR_DSN of the environment is not used: {home / '.env'} sets it, too"
    for arguments in (("themes", "list"), ("doctor",)):
        said = told(*arguments, **other)
        assert said.count(sentence) == 1 and "HERMES_PGVECTOR_DIMS" not in said and "hunter22" not in said, said
    assert sentence not in told("themes", "list", HERMES_PGVECTOR_DSN=dsn), "it says the same"


def test_trap_12_an_env_file_that_is_gone_for_a_moment_never_means_another_database(home: Path, dsn: str) -> None:
    """Also where the host has not read it into the environment: for another profile, or a server of MCP."""
    path = home / ".env"
    path.write_text(f"HERMES_PGVECTOR_DSN={dsn}\n", encoding="utf-8")
    assert load_settings(None, home).settings.dsn == dsn
    for harm in (lambda: path.write_bytes(b""), path.unlink):
        harm()
        assert load_settings(None, home).settings.dsn == dsn


def test_trap_12_a_file_may_refer_to_variables_as_the_hosts_other_settings_do(
    home: Path, dsn: str, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also to those of .env that are no settings of ours; what an alias brings in is no second name."""
    (home / ".env").write_text(f'MEMORY_DATABASE="{dsn}"\n')
    monkeypatch.setenv("WORDS", "384")
    provider = _start(
        home,
        "all: &all {dims: 768, sync_turns: false}\n"
        "plugins:\n  pgvector:\n    <<: *all\n    dsn: ${MEMORY_DATABASE}\n    dims: ${WORDS}\n",
    )
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert Database(dsn).themes_of_memory("Atlas is blue") == ["default"]
    assert records(logging.WARNING) == []


@pytest.mark.parametrize("config", ["", "memory: {provider: pgvector}\n", "plugins:\n", "plugins: {pgvector: }\n"])
def test_trap_12_no_section_means_the_environment_or_the_embedded_server(
    home: Path, dsn: str, records: Records, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_DSN", dsn)
    monkeypatch.setenv("HERMES_PGVECTOR_DIMS", str(DIMS))
    provider = _start(home, config)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert Database(dsn).themes_of_memory("Atlas is blue") == ["default"]
    assert records(logging.WARNING) == []
    provider.shutdown()
    monkeypatch.delenv("HERMES_PGVECTOR_DSN")
    (home / "config.yaml").unlink()
    bare = PgvectorMemoryProvider()
    assert bare.get_status_config()["database"].startswith("embedded"), "which store is in use is said"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write_queue_maxsize", ".inf"),
        ("write_queue_maxsize", "many"),
        ("prefetch_limit", "-1"),
        ("prefetch_limit", "1.5"),
        ("prefetch_deadline_s", ".nan"),
        ("min_similarity", "[0.3]"),
        ("min_similarity", "3"),
        ("sync_turns", "maybe"),
        ("scope_default", "everywhere"),
        ("write_contexts", "{primary: true}"),
        ("turn_min_chars", "99999999999999999999"),
        ("pool_max_size", "0"),
        ("default_theme", "[a]"),
        ("spool_max_mb", "null bytes"),
    ],
)
def test_trap_12_a_wrong_value_costs_one_warning_and_nothing_else(
    home: Path, dsn: str, records: Records, key: str, value: str
) -> None:
    provider = _start(home, f"plugins:\n  pgvector:\n    dsn: '{dsn}'\n    dims: {DIMS}\n    {key}: {value}\n")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert recalled(provider, "atlas") == ["Atlas is blue"]
    (said,) = records(logging.WARNING)
    assert f"plugins.pgvector.{key}: expected" in said and "using the default" in said


@pytest.mark.parametrize("value", ["on", "{support: true}", "[[support]]", "[support, no]", "'[support, no]'"])
def test_trap_12_an_agent_for_customers_recalls_nothing_however_that_was_written(
    home: Path, dsn: str, value: str
) -> None:
    """YAML makes truth values of `on` and `no`; a default, or the rest of a list, would have it recall."""
    settings = f"dsn: '{dsn}', dims: {DIMS}, default_theme: 'no', recall_off: {value}"
    provider = _start(home, f"plugins:\n  pgvector: {{{settings}}}\n")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert "recall is off in this theme" in called(provider, "recall_memory", {"query": "atlas"})["error"]
    assert provider.prefetch("Is Atlas blue?") == ""


@pytest.mark.parametrize("value", ["yes", "{sales: true}", "[sales, {support: true}]"])
def test_trap_12_no_other_theme_is_read_where_it_cannot_be_told_which(
    home: Path, dsn: str, records: Records, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HERMES_PGVECTOR_CROSS_THEME", "sales\nsupport")
    provider = _start(home, f"plugins:\n  pgvector: {{dsn: '{dsn}', dims: {DIMS}, cross_theme: {value}}}\n")
    for scope in ("sales", "all"):
        assert "setting `cross_theme`" in called(provider, "recall_memory", {"query": "atlas", "scope": scope})["error"]
    said = records(logging.WARNING)
    assert len(said) == 2 and all("no session reads another theme until it is corrected" in line for line in said)


def test_trap_12_words_of_lists_are_as_they_are_written(home: Path) -> None:
    """Norwegians have the theme `no`, and one that is called as a day is no date."""
    names = "[de, no, 2026-11-25, On]"
    for written in (names, f"'{names}'", "\n" + "".join(f"      - {each}\n" for each in names[1:-1].split(", "))):
        lists = f"    allowed_themes: {written}\n    theme_aliases: {{off: no}}\n"
        (home / "config.yaml").write_text(f"plugins:\n  pgvector:\n{lists}", encoding="utf-8")
        loaded = load_settings(None, home)
        assert loaded.warnings == ()
        assert loaded.settings.allowed_themes == ("de", "no", "2026-11-25", "On")
        assert loaded.settings.theme_aliases == ("off=no",)


@pytest.mark.parametrize("value", ["[1, 2]", "primary", "[primary, primary, cron]"])
def test_trap_12_lists_of_other_things_than_words_are_read_as_words(home: Path, dsn: str, value: str) -> None:
    provider = _start(home, f"plugins:\n  pgvector: {{dsn: '{dsn}', dims: {DIMS}, write_contexts: {value}}}\n")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    landed(provider)
    assert recalled(provider, "atlas") == (["Atlas is blue"] if "primary" in value else [])
    assert bool(runtime_of(provider).stats().get("skipped_context_primary")) is ("primary" not in value)


def test_trap_12_unknown_settings_are_named_with_the_nearest_one(make_provider: MakeProvider, records: Records) -> None:
    for _ in range(3):
        provider = make_provider({"prefetch_limt": 3, "allowed_themes": [1, 2], 7: True})
    landed(provider)
    said = records(logging.WARNING)
    assert len(said) == 3, "once each, however many sessions start"
    assert any("'prefetch_limt'" in line and "did you mean prefetch_limit?" in line for line in said)


def test_trap_12_the_password_stands_in_no_warning(home: Path, records: Records) -> None:
    secret = "s3cr3t-pässword"
    provider = _start(home, f"plugins: {{pgvector: {{dsn: 'postgresql://u:{secret}@127.0.0.1:1/db', dims: many}}}}\n")
    runtime_of(provider)
    answer = provider.handle_tool_call("recall_memory", {"query": "atlas"})
    assert "correct host and port" in answer
    assert provider.is_available(), "a server that is down comes back"
    assert secret not in "\n".join([*records(logging.DEBUG), answer, repr(runtime_of(provider).settings)])
