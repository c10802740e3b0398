"""Making this plugin the memory provider of a hermes home."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hermes_memory_pgvector.admin.common.activation import activate, enable, find_hermes
from hermes_memory_pgvector.admin.doctor.check_installation import check_installation
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.sources import is_active
from hermes_memory_pgvector.domain.errors import ConfigurationError


def read(home: Path) -> dict[str, dict[str, object]]:
    loaded = yaml.safe_load((home / "config.yaml").read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_where_the_file_cannot_be_edited_hermes_sets_the_provider(tmp_path: Path) -> None:
    hermes = find_hermes()
    assert hermes
    (tmp_path / "config.yaml").write_text("memory: &shared\n  memory_enabled: true\nx: *shared\n", encoding="utf-8")

    assert activate(tmp_path, hermes) == "by hermes config set"

    assert read(tmp_path)["memory"]["provider"] == "pgvector"
    assert activate(tmp_path, hermes) == "already active"


def test_the_file_is_edited_and_the_rest_of_it_kept(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("model: x  # mine\nmemory:\n  memory_enabled: false\n", encoding="utf-8")

    assert activate(tmp_path, None) == "in config.yaml"

    assert "model: x  # mine\n" in (tmp_path / "config.yaml").read_text(encoding="utf-8")
    assert read(tmp_path)["memory"] == {"memory_enabled": False, "provider": "pgvector"}
    assert activate(tmp_path, None) == "already active"


@pytest.mark.parametrize("hermes", ["/nonexistent/hermes", "/bin/false", "/bin/true"])
def test_a_hermes_that_does_not_work_is_done_without(tmp_path: Path, hermes: str) -> None:
    assert activate(tmp_path, hermes) == "in config.yaml"

    assert is_active(tmp_path)


@pytest.mark.parametrize(
    "broken",
    [
        "memory: [\n",
        "model: x\nmemory:\n  provider: pgvector\nplugins:\n  pgvector:\n\tdsn: host=db\n",
        "model: x\nsince: 2026-13-45\n",
        "- model\n- memory\n",
    ],
)
def test_a_broken_file_is_refused_and_left_as_it_is(
    tmp_path: Path, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hermes = find_hermes()
    assert hermes
    path = tmp_path / "config.yaml"
    path.write_text(broken, encoding="utf-8")

    with pytest.raises(ConfigurationError):
        activate(tmp_path, hermes)
    assert not enable(tmp_path, hermes)
    for command in ("install", "deactivate"):
        assert main([command, "--hermes-home", str(tmp_path)]) == 1
    assert "built-in memory" not in capsys.readouterr().out
    main(["doctor", "--hermes-home", str(tmp_path)])

    assert f"active: {path} cannot be read" in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == broken


def test_a_home_that_takes_no_files_keeps_its_provider_and_says_why(tmp_path: Path) -> None:
    text = "memory: {provider: mem0}\n"
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "pgvector").write_text("in the way of the folder", encoding="utf-8")

    with pytest.raises(ConfigurationError, match=r"cannot be written .*; memory\.provider stays mem0"):
        activate(tmp_path, None)

    assert (tmp_path / "config.yaml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("meant", ["another", "true", "5"])
def test_what_is_no_list_of_plugins_is_left_as_it_is(
    tmp_path: Path, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(f"plugins:\n  enabled: {meant}\n", encoding="utf-8")

    assert main(["install", "--hermes-home", str(tmp_path)]) == 0

    assert "run: hermes plugins enable pgvector" in capsys.readouterr().out
    assert f"  enabled: {meant}\n" in (tmp_path / "config.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("enabled", ["[]", "[pgvector]"])
def test_a_plugin_that_somebody_disabled_is_not_said_to_be_loaded(
    tmp_path: Path, enabled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """hermes goes by `disabled`, also where `enabled` names the plugin, too."""
    text = f"memory:\n  provider: pgvector\nplugins:\n  disabled: [pgvector]\n  enabled: {enabled}\n"
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")

    assert main(["install", "--hermes-home", str(tmp_path)]) == 0

    assert "run: hermes plugins enable pgvector" in capsys.readouterr().out
    assert (tmp_path / "config.yaml").read_text(encoding="utf-8") == text
    (found,) = [each for each in check_installation(tmp_path) if each.name == "enabled"]
    assert "plugins.disabled forbids it" in found.said and not found.repair
