"""Tables of other programs as tests/fixtures recorded them, and runs of `bring`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql

from hermes_memory_pgvector import cli

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def load_tables(admin_dsn: str, file: str, schema: str = "public") -> None:
    """Put the recorded tables into a database."""
    recorded = json.loads((FIXTURES / file).read_text(encoding="utf-8"))
    with psycopg.connect(admin_dsn) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        for name, table in recorded["tables"].items():
            place = sql.Identifier(schema, name)
            columns = sql.SQL(", ").join(
                sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(kind))
                for column, kind in table["columns"].items()
            )
            connection.execute(sql.SQL("CREATE TABLE {} ({})").format(place, columns))
            values = sql.SQL(", ").join(sql.SQL("%s::{}").format(sql.SQL(kind)) for kind in table["columns"].values())
            for row in table["rows"]:
                connection.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(place, values), row)


class Bring:
    """Runs `hermes-pgvector bring` in this process, for a home whose settings lead to the test's database."""

    def __init__(self, home: Path, dsn: str, dims: int, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys
        self._settings: dict[str, Any] = {"dsn": dsn, "dims": dims}
        self.configure()

    def configure(self, **settings: Any) -> None:
        """Write the settings of the home."""
        section = {"plugins": {"pgvector": self._settings | settings}}
        (self.home / "config.yaml").write_text(yaml.safe_dump(section), encoding="utf-8")

    def text(self, *arguments: object, code: int = 0) -> str:
        """What it prints, to stdout and then to stderr."""
        self._capsys.readouterr()
        assert cli.main(["bring", *map(str, arguments), "--hermes-home", str(self.home)]) == code
        said = self._capsys.readouterr()
        return said.out + said.err

    def report(self, *arguments: object, code: int = 0) -> dict[str, Any]:
        """Its report."""
        self._capsys.readouterr()
        assert cli.main(["bring", *map(str, arguments), "--json", "--hermes-home", str(self.home)]) == code
        report: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return report

    def only(self, *arguments: object) -> dict[str, Any]:
        """Its report on its only source."""
        report = self.report(*arguments)
        assert not report["failed"]
        (source,) = report["sources"]
        assert isinstance(source, dict)
        return source
