"""Reading and editing config.yaml and .env."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import yaml
from dotenv import dotenv_values
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.admin.common.yaml_file import set_values
from hermes_memory_pgvector.config.sources import dotenv_problem, misplaced_section, read_dotenv, read_section
from hermes_memory_pgvector.domain.errors import ConfigurationError

PROVIDER = ("memory", "provider")
DSN = ("plugins", "pgvector", "dsn")


def _write(home: Path, text: str) -> Path:
    path = home / "config.yaml"
    path.write_bytes(text.encode())
    return path


def test_reading_without_a_file_is_no_warning(tmp_path: Path) -> None:
    assert read_section(tmp_path) == (None, [])
    assert read_section(tmp_path / "absent") == (None, [])


@pytest.mark.parametrize("text", ["", "# nothing\n", "model: x\n", "plugins:\n", "plugins:\n  enabled: []\n", "---\n"])
def test_no_section_is_no_warning(tmp_path: Path, text: str) -> None:
    _write(tmp_path, text)
    assert read_section(tmp_path) == (None, [])


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("plugins: {pgvektor: {dsn: host=db}}", "plugins.pgvektor"),
        ("plugins: {PG-Vector: {dsn: host=db}}", "plugins.PG-Vector"),
        ("plugins: {hermes_memory_pgvector: {embedded_dir: /pg}}", "plugins.hermes_memory_pgvector"),
        ("plugins: {entries: {pgvector: {dsn: host=db}}}", "plugins.entries.pgvector"),
        ("plugins: {memory: {pgvector: {dsn: host=db}}}", "plugins.memory.pgvector"),
        ("plugin: {pgvector: {dsn: host=db}}", "plugin.pgvector"),
        ("plugins: {enabled: [pgvector], dsn: host=db}", "plugins"),
        ("memory: {provider: pgvector, pgvector: {dsn: host=db}}", "memory.pgvector"),
        ("pgvector: {dsn: host=db}", "pgvector"),
        ("memory: {pgvector: {dims: 384}}\nplugins: {pgvetcor: {dsn: host=db}}", "plugins.pgvetcor"),
        ("plugins: {pgvector: {dims: 384}, pgvektor: {dsn: host=db}}", "plugins.pgvektor"),
    ],
)
def test_trap_12_settings_in_a_section_that_nobody_reads_are_found(tmp_path: Path, text: str, where: str) -> None:
    _write(tmp_path, text)
    found = misplaced_section(tmp_path)
    assert found is not None and found.where == where and found.has_place
    assert str(found).endswith("move them to plugins.pgvector, or take them out") and "host=db" not in str(found)


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers: {pgvector: {command: hermes-pgvector, args: [mcp]}}",
        "rag: {pgvector: {dsn: host=db}}",  # another program's
        "plugins: {vector: {dsn: host=db}}",
        "plugins: {pgvecto-rs: {dsn: host=db}}",
        "plugins: {mem0: {pgvector: {dsn: host=db}}}",
        "memory: {provider: pgvector, mem0: {pgvector: {dsn: host=db}}}",
        "plugins: {pgvector_old: {dsn: host=db}}",  # put away
        "plugins: {pgvektor: {dsn: '', dims: }}",
        "plugins: {pgvektor: {colour: blue}, enabled: [pgvector]}",
        "- pgvector\n",
        "plugins: {1: {pgvector: {dsn: host=db}}, pgvector: }",
        "plugins: {pgvector: {dsn: host=db}}",
    ],
)
def test_what_is_no_section_of_ours_is_left_alone(tmp_path: Path, text: str) -> None:
    _write(tmp_path, text)
    assert misplaced_section(tmp_path) is None


def test_settings_that_name_no_database_are_found_as_such(tmp_path: Path) -> None:
    _write(tmp_path, "plugins: {pgvektor: {recall_off: [support]}}")
    found = misplaced_section(tmp_path)
    assert found is not None and not found.has_place


def test_the_section_is_what_the_file_says(tmp_path: Path) -> None:
    _write(tmp_path, "\ufeffplugins:\n  pgvector:\n    dims: 384\n    sync_turns: no\n")
    assert read_section(tmp_path) == ({"dims": 384, "sync_turns": False}, [])
    _write(tmp_path, "plugins:\n  pgvector: [oops]\n")
    assert read_section(tmp_path) == (["oops"], [])


def test_need_02_a_malformed_file_is_one_warning_with_its_line(tmp_path: Path) -> None:
    path = _write(tmp_path, "memory:\n  provider: pgvector\nplugins:\n\tpgvector: {}\n")
    section, warnings = read_section(tmp_path)
    assert section is None
    (warning,) = warnings
    assert str(path) in warning and "line 4" in warning


@pytest.mark.parametrize(
    "text",
    [
        "- a\n", "just text\n", "plugins: [a]\n", "plugins: yes\n", "a: 2020-99-99\n", "a: *nowhere\n", "\0",
        "plugins:\n  pgvector:\n    dsn: 'postgres://u:hunter2@h\n", "a: b\n  dsn: postgres://u:hunter2@h: x\n",
        "dsn: *hunter2\n", "%hunter2\n---\na: !hunter2 b\n",
    ],
)  # fmt: skip
def test_trap_12_a_file_that_cannot_be_used_is_one_warning_without_its_text(tmp_path: Path, text: str) -> None:
    _write(tmp_path, text)
    section, warnings = read_section(tmp_path)
    assert section is None
    assert len(warnings) == 1
    assert "hunter2" not in warnings[0]


def test_bytes_and_directories_are_one_warning(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"a: b\nc: \xff\n")
    assert "line 2" in read_section(tmp_path)[1][0]
    path.unlink()
    path.mkdir()
    assert "cannot be read" in read_section(tmp_path)[1][0]


def test_unchanged_files_are_not_parsed_again(tmp_path: Path) -> None:
    path = _write(tmp_path, "plugins: {pgvector: {dims: 1}}\n")
    first, warnings = read_section(tmp_path)
    warnings.append("a caller's own")
    assert read_section(tmp_path)[0] is first
    assert read_section(tmp_path)[1] == []
    path.write_text("plugins: {pgvector: {dims: 22}}\n")
    assert read_section(tmp_path) == ({"dims": 22}, [])


def test_a_file_that_is_gone_or_empty_says_what_it_said_before(tmp_path: Path) -> None:
    path = _write(tmp_path, "plugins: {pgvector: {dims: 1}}\n")
    for harm in (lambda: None, lambda: path.write_bytes(b""), path.unlink):
        harm()
        assert read_section(tmp_path) == ({"dims": 1}, [])
    _write(tmp_path, "plugins: {}\n")
    assert read_section(tmp_path) == (None, [])


def test_a_link_that_leads_nowhere_is_no_missing_file(tmp_path: Path) -> None:
    """It leads to a volume that is not mounted yet."""
    (tmp_path / "config.yaml").symlink_to(tmp_path / "volume" / "config.yaml")
    (tmp_path / ".env").symlink_to(tmp_path / "volume" / "env")
    section, (warning,) = read_section(tmp_path)
    assert section is None and "config.yaml cannot be read (it is a link that leads nowhere)" in warning
    assert ".env cannot be read (it is a link that leads nowhere)" in dotenv_problem(tmp_path)
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "config.yaml").write_text("plugins: {pgvector: {dims: 1}}\n")
    (tmp_path / "volume" / "env").write_text("HERMES_PGVECTOR_A=1\n")
    assert read_section(tmp_path) == ({"dims": 1}, []) and dotenv_problem(tmp_path) == ""
    (tmp_path / "volume").rename(tmp_path / "away")
    assert read_section(tmp_path) == ({"dims": 1}, [])
    assert read_dotenv(tmp_path) == {"HERMES_PGVECTOR_A": "1"}


def test_dotenv_that_is_gone_or_empty_says_what_it_said_before(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("HERMES_PGVECTOR_A=1\n")
    for harm in (lambda: None, lambda: path.write_bytes(b""), path.unlink):
        harm()
        assert read_dotenv(tmp_path) == {"HERMES_PGVECTOR_A": "1"}
    path.write_text("\n")
    assert read_dotenv(tmp_path) == {}


def test_dotenv_takes_in_what_it_names_as_the_host_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL_WORD", "of the shell")
    monkeypatch.delenv("NOBODY_SET", raising=False)
    path = tmp_path / ".env"
    path.write_text(
        "WORD=first\n"
        "HERMES_PGVECTOR_A=host=h password=${WORD}\n"
        "HERMES_PGVECTOR_B='${HERMES_PGVECTOR_A} ${SHELL_WORD}'\n"
        'HERMES_PGVECTOR_C="${NOBODY_SET:-else}${WORD:-else}$WORD"\n'
        "WORD=last\n"
    )
    found = read_dotenv(tmp_path)
    assert found["HERMES_PGVECTOR_B"] == "host=h password=first of the shell"
    assert found == {name: value for name, value in dotenv_values(path).items() if name in found}
    assert read_dotenv(tmp_path, environ={})["HERMES_PGVECTOR_B"] == "host=h password=first ${SHELL_WORD}"
    path.write_text("HERMES_PGVECTOR_A=a${NOBODY_SET}b${}\n")
    assert read_dotenv(tmp_path) == {"HERMES_PGVECTOR_A": "a${NOBODY_SET}b${}"}, "a password may look like that"


def test_dotenv(tmp_path: Path) -> None:
    assert read_dotenv(tmp_path) == {}
    (tmp_path / ".env").write_bytes(
        "\ufeffHERMES_PGVECTOR_A=1\r\n"
        " export HERMES_PGVECTOR_B = two words # comment\n"
        'HERMES_PGVECTOR_C="with # and \\"quotes\\" \\n" # comment\n'
        "HERMES_PGVECTOR_D='host=h password=''\n"
        "HERMES_PGVECTOR_E='it\\'s $HOME'\n"
        "HERMES_PGVECTOR_F=\n"
        "HERMES_PGVECTOR_G=a#b\n"
        "#HERMES_PGVECTOR_H=1\n"
        "OTHER=1\n"
        "HERMES_PGVECTOR_A=last\n"
        "HERMES_PGVECTOR_I\n".encode()
    )
    expected = {"A": "last", "B": "two words", "C": 'with # and "quotes" \n', "D": "'host=h password=''"}
    expected |= {"E": "it's $HOME", "F": "", "G": "a#b"}
    assert read_dotenv(tmp_path) == {f"HERMES_PGVECTOR_{key}": value for key, value in expected.items()}
    read_dotenv(tmp_path).clear()
    assert read_dotenv(tmp_path)
    (tmp_path / ".env").write_text("HERMES_PGVECTOR_A=changed\n")
    assert read_dotenv(tmp_path) == {"HERMES_PGVECTOR_A": "changed"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "memory:\n  provider: pgvector\n"),
        ("# mine\n", "# mine\nmemory:\n  provider: pgvector\n"),
        ("a: 1", "a: 1\nmemory:\n  provider: pgvector\n"),
        ("---\na: 1\n...\n", "---\na: 1\nmemory:\n  provider: pgvector\n"),
        ("memory:\n  provider: x # why\nb: 2\n", "memory:\n  provider: pgvector # why\nb: 2\n"),
        ("memory:\n  provider: 'x'\n", "memory:\n  provider: pgvector\n"),
        ("memory:\n  provider:\n", "memory:\n  provider: pgvector\n"),
        ("memory:\n  provider:   # none\n", "memory:\n  provider: pgvector # none\n"),
        ("memory:\n  provider: null\n", "memory:\n  provider: pgvector\n"),
        ("memory:\n  provider: >\n    some\n    text\n\nb: 1\n", "memory:\n  provider: pgvector\n\nb: 1\n"),
        ("memory: # m\n# n\nb: 2\n", "memory: # m\n  provider: pgvector\n# n\nb: 2\n"),
        ("memory:\n    x: 1\n\n# b\nb: 2\n", "memory:\n    x: 1\n    provider: pgvector\n\n# b\nb: 2\n"),
        (
            "memory:\n  x:\n  - 1\n  - 2 # two\nb: 2\n",
            "memory:\n  x:\n  - 1\n  - 2 # two\n  provider: pgvector\nb: 2\n",
        ),
        ("memory:\n  x: |\n    # in\nb: 2\n", "memory:\n  x: |\n    # in\n  provider: pgvector\nb: 2\n"),
        ("memory:\n  x: [1,\n    2]\nb: 2\n", "memory:\n  x: [1, 2]\n  provider: pgvector\nb: 2\n"),
        ("a: &a 1\nmemory:\n  x: *a\nb: 2\n", "a: &a 1\nmemory:\n  x: *a\n  provider: pgvector\nb: 2\n"),
        ("memory: {}\n", "memory:\n  provider: pgvector\n"),
        ("memory: { } # m\n", "memory:     # m\n  provider: pgvector\n"),
        ("memory: {x: 1}\n", "memory: {x: 1, provider: pgvector}\n"),
        ("memory: {provider: x, y: 1}\n", "memory: {provider: pgvector, y: 1}\n"),
        ("memory: ~ # m\n", "memory:   # m\n  provider: pgvector\n"),
        ('{"memory": {"provider": ""}, "a": 1}', '{"memory": {"provider": pgvector}, "a": 1}\n'),
        ("{}\n", "memory:\n  provider: pgvector\n"),
        ("a: 1\r\nmemory:\r\n  x: 1\r\n", "a: 1\r\nmemory:\r\n  x: 1\r\n  provider: pgvector\r\n"),
        ("\ufeffa: é\n", "\ufeffa: é\nmemory:\n  provider: pgvector\n"),
        (
            "base: &b {provider: x}\nmemory:\n  <<: *b\n",
            "base: &b {provider: x}\nmemory:\n  <<: *b\n  provider: pgvector\n",
        ),
        ("a: &a x\nmemory:\n  provider: *a\n", "a: &a x\nmemory:\n  provider: pgvector\n"),
        (
            "long: " + "word " * 40 + "end\noff: no\nmode: 0644\nt: 12:30:45\nq: 'a'\n",
            "long: " + "word " * 40 + "end\noff: no\nmode: 0644\nt: 12:30:45\nq: 'a'\nmemory:\n  provider: pgvector\n",
        ),
        (
            "memory:\n    # where\n    list:\n      - a # one\n      # two\n\n# next\nb: 2\n",
            "memory:\n    # where\n    list:\n      - a # one\n    provider: pgvector\n      # two\n\n# next\nb: 2\n",
        ),
    ],
)
def test_one_key_is_set_and_the_rest_kept(tmp_path: Path, before: str, after: str) -> None:
    path = _write(tmp_path, before)
    assert set_values(tmp_path, {PROVIDER: "pgvector"}) is True
    assert path.read_bytes().decode() == after
    assert yaml.safe_load(after.removeprefix("\ufeff"))["memory"]["provider"] == "pgvector"
    assert set_values(tmp_path, {PROVIDER: "pgvector"}) is False
    assert path.read_bytes().decode() == after
    assert sorted(os.listdir(tmp_path)) == ["config.yaml"]


def test_a_missing_home_is_made(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    values = {
        PROVIDER: "pgvector",
        DSN: "host=h password='a: b' # x",
        ("plugins", "pgvector", "write_contexts"): ("a", "b"),
    }
    assert set_values(home, values)
    assert (home / "config.yaml").read_text() == (
        "memory:\n  provider: pgvector\nplugins:\n  pgvector:\n"
        "    dsn: \"host=h password='a: b' # x\"\n    write_contexts: [a, b]\n"
    )
    # What the file holds may be a password.
    assert stat.S_IMODE((home / "config.yaml").stat().st_mode) == 0o600
    assert not set_values(home, values)


def test_mode_and_link_survive(tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    real.write_text("a: 1\n")
    real.chmod(0o640)
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").symlink_to(real)
    assert set_values(home, {PROVIDER: "pgvector"})
    assert (home / "config.yaml").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert yaml.safe_load(real.read_text()) == {"a": 1, "memory": {"provider": "pgvector"}}


@pytest.mark.parametrize(
    "text",
    [
        "memory: [\n", "memory: x\n", "memory: [provider]\n", "- memory\n", "text", "a: 1\n---\nb: 2\n",
        "memory:\n  provider:\n    nested: 1\n", "memory:\n  provider:\n  - a\n", "a: \x00\n", "a: 2020-99-99\n",
        "\tmemory: {}\n", "a: &a [*a]\n",
        "memory: {provider: a}\nmemory: {provider: b}\n", "memory: &m\n  provider: x\nother: *m\n",
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_edited_safely_is_left_alone(tmp_path: Path, text: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        set_values(tmp_path, {PROVIDER: "pgvector", DSN: "postgres://u:hunter2@h/d"})
    assert path.read_bytes().decode() == text
    message = str(caught.value)
    assert "memory:\n  provider: pgvector\n" in message and "by hand" in message
    assert "hunter2" not in message
    assert os.listdir(tmp_path) == ["config.yaml"]


def test_what_cannot_be_read_or_written_is_a_configuration_error(tmp_path: Path) -> None:
    _write(tmp_path, "").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="UTF-8"):
        set_values(tmp_path, {PROVIDER: "pgvector"})
    (tmp_path / "config.yaml").unlink()
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        set_values(tmp_path, {PROVIDER: "pgvector"})
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        set_values(tmp_path / "file" / "home", {PROVIDER: "pgvector"})
    for value in ("a\0b", "\udcff", object()):
        with pytest.raises(ConfigurationError):
            set_values(tmp_path, {PROVIDER: value})


_words = st.text("abcdef", min_size=1, max_size=4)
_values = st.text(max_size=20) | st.integers() | st.booleans() | st.none() | st.floats() | st.lists(st.text(max_size=5))
_configs = st.recursive(
    _values, lambda inner: st.dictionaries(_words, inner, max_size=3) | st.lists(inner, max_size=2), max_leaves=10
)


@settings(deadline=None)
@given(st.dictionaries(_words | st.just("memory"), _configs, max_size=4), _values, st.booleans())
def test_any_file_is_either_changed_exactly_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, config: dict[str, object], value: object, flow: bool
) -> None:
    home = tmp_path_factory.mktemp("home")
    path = home / "config.yaml"
    before = yaml.safe_dump(config, default_flow_style=flow, allow_unicode=True).encode()
    path.write_bytes(before)
    loaded = yaml.safe_load(before)
    try:
        set_values(home, {PROVIDER: value})
    except ConfigurationError:
        assert path.read_bytes() == before
        return
    after = yaml.safe_load(path.read_bytes())
    memory = {**(loaded.get("memory") or {}), "provider": after["memory"]["provider"]}
    assert repr(after) == repr({**loaded, "memory": memory})
    assert repr(after["memory"]["provider"]) == repr(value)
