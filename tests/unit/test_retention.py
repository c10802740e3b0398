"""The setting `retention`: what it says of a theme, and that what cannot be read deletes nothing."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.admin.common.retention_policy import RetentionPeriod, RetentionPolicy
from hermes_memory_pgvector.config.loading import load

GOOD = {"*": 365, "marketing": 90, "audit-*": "forever", "coder": "30d tool"}


def policy(setting: object, **environ: str) -> RetentionPolicy:
    loaded = load({"retention": setting}, environ)
    return RetentionPolicy(loaded.settings.retention)


def test_the_pair_that_names_most_of_a_theme_counts() -> None:
    said = policy({"intra*": 20} | GOOD | {"intraday-*": 10})

    assert said.of("marketing") == RetentionPeriod(90)
    assert said.of("coder") == RetentionPeriod(30, ("tool",))
    assert said.of("audit-2024") is None
    assert said.of("intraday-fx") == RetentionPeriod(10) and said.of("intranet") == RetentionPeriod(20)
    assert said.of("anything") == RetentionPeriod(365)
    assert str(said.of("coder")) == "30 days (tool)"


def test_themes_are_named_as_sessions_name_them() -> None:
    assert policy({" Marketing ": 90, "@Telegram/*": 7}).of("marketing") == RetentionPeriod(90)
    assert policy(["@Telegram/*=7"]).of("@telegram/default/0123") == RetentionPeriod(7)
    assert policy({"a=b": 3}).of("a=b") == RetentionPeriod(3)


def test_of_two_pairs_for_one_theme_the_one_that_keeps_more_counts() -> None:
    assert policy(["sales=30", "Sales=90"]).of("sales") == RetentionPeriod(90)
    assert policy(["sales=forever", "Sales=90"]).of("sales") is None
    assert policy(["sales=30 tool", "Sales=10"]).of("sales") == RetentionPeriod(30, ("tool",))
    assert policy(["sales=30 tool", "Sales=10 user"]).of("sales") is None


@pytest.mark.parametrize("setting", [None, "", [], {}, False])
def test_nothing_is_deleted_by_default(setting: object) -> None:
    assert not policy(setting)
    assert policy(setting).of("marketing") is None


BAD = [
    90, True, "90", "marketing", "marketing=", "=90", {"marketing": 0}, {"marketing": -1}, {"marketing": 1.5},
    {"marketing": "9O"}, {"marketing": "ninety"}, {"marketing": None}, {"marketing": [90]}, {"marketing": "90 tols"},
    {"marketing": "90h"}, {"marketing": "1e2"}, {"marketing": float("inf")}, {"marketing": 1_000_000}, {True: 90},
    {"marketing": False}, {"marketing": "forever tool"}, ["marketing=90", "sales"], {"marketing": "٩٠"},
]  # fmt: skip


@pytest.mark.parametrize("setting", BAD, ids=repr)
def test_trap_12_what_cannot_be_read_deletes_nothing_and_is_told(setting: object) -> None:
    loaded = load({"retention": setting}, {})

    assert loaded.settings.retention == ()
    (warning,) = loaded.warnings
    assert "plugins.pgvector.retention" in warning and "nothing is deleted by it" in warning


def test_trap_12_one_wrong_pair_takes_the_others_with_it() -> None:
    assert not policy(GOOD | {"sales": "9O"})


def test_trap_12_a_wrong_variable_does_not_leave_the_file_in_force() -> None:
    loaded = load({"retention": {"marketing": 30}}, {"HERMES_PGVECTOR_RETENTION": "marketing=9O"})

    assert loaded.settings.retention == () and len(loaded.warnings) == 1
    good = load({"retention": {"marketing": 30}}, {"HERMES_PGVECTOR_RETENTION": "marketing=90, coder=30 tool"})
    assert good.settings.retention == ("marketing=90", "coder=30 tool")


def test_trap_12_a_misspelt_name_deletes_nothing() -> None:
    loaded = load({"retentoin": {"*": 1}}, {})

    assert loaded.settings.retention == () and "did you mean retention?" in loaded.warnings[0]
