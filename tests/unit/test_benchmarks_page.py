"""The page of figures says what the measurements beside it say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "benchmarks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page() -> ModuleType:
    """benchmarks/page.py, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("benchmarks_page", REPOSITORY / "benchmarks" / "page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_table_is_the_one_that_was_measured(page: ModuleType) -> None:
    assert page.renewed(PAGE, page.tables_of(REPOSITORY / "benchmarks" / "results")) == PAGE


def test_no_marker_is_without_its_other_half(page: ModuleType) -> None:
    blocks = len(page._BLOCK.findall(PAGE))
    assert blocks == PAGE.count("<!-- table:") == PAGE.count("<!-- end -->") > 0


def test_a_table_that_was_not_measured_is_an_error(page: ModuleType) -> None:
    with pytest.raises(KeyError, match="nobody"):
        page.renewed("<!-- table: nobody -->\n<!-- end -->", {})
    before = "a\n<!-- table: x -->\nold\n<!-- end -->\nb"
    assert page.renewed(before, {"x": page.Table("| new |")}) == "a\n<!-- table: x -->\n| new |\n<!-- end -->\nb"


def test_a_note_of_several_tables_stands_once_and_each_has_its_day(page: ModuleType) -> None:
    blocks = "<!-- table: x -->\n<!-- end -->\n<!-- table: y -->\n<!-- end -->"
    tables = {name: page.Table(f"| {name} |", ("Of both.",), ("1 May",)) for name in "xy"}
    assert page.renewed(blocks, tables) == (
        "<!-- table: x -->\n| x |\n\nOf both.\n\n1 May\n<!-- end -->\n<!-- table: y -->\n| y |\n\n1 May\n<!-- end -->"
    )
