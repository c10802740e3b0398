"""What `migrate` refuses before it speaks to any server."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.admin.migrate.command import migrate_database
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.errors import ConfigurationError


def no_server() -> str:
    raise AssertionError("nothing was to be started")


def test_trap_13_a_runtime_role_without_an_admin_is_refused_and_not_ignored() -> None:
    with pytest.raises(ConfigurationError, match="--admin-dsn"):
        migrate_database(Settings(), admin_dsn="", runtime_role="hermes", dims=768, locate=no_server)


@pytest.mark.parametrize("dims", [0, -1, 2001])
def test_a_dimension_that_no_index_takes_is_refused(dims: int) -> None:
    with pytest.raises(ConfigurationError, match="1 to 2000"):
        migrate_database(Settings(), admin_dsn="dbname=x", runtime_role="", dims=dims, locate=no_server)
