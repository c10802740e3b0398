"""Distribution of the tables by theme, for databases with the extension Citus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

from ...domain.errors import ConfigurationError, SchemaNotApplied
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.schema import MIGRATE_COMMAND, applied_versions, missing_migrations
from ...store.sql import query
from ..common.fetching import one
from ..common.pooler import require_session

_query = partial(query, package=__package__)
# Each row of these tables has a theme; the other tables are colocated with the first one.
_THEMED = (
    "memory_entries", "conversations", "memory_chunks", "conversation_chunks", "memory_history", "hermes_operations",
    "hermes_tombstones", "hermes_mirror", "hermes_retention", "hermes_proposals", "hermes_read_turns",
)  # fmt: skip
# Small tables that every node needs: they become reference tables.
_COPIED = ("hermes_embedding", "hermes_migrations", "hermes_maintenance")
_NO_CITUS = (
    "this database has no Citus: install it on the server, add citus to shared_preload_libraries, run CREATE "
    "EXTENSION citus in this database and have it take shards (citus_set_node_property); then run it again"
)


@dataclass(frozen=True)
class Distribution:
    """The statements that distribute the tables; empty if they are distributed. `why_not` says what prevents it."""

    statements: tuple[str, ...]
    why_not: str = ""


def plan_distribution(conninfo: str) -> Distribution:
    """Return what `distribute` would do. Raises StoreUnavailable, UpgradeNeeded or SchemaNotApplied."""
    with connect(conninfo) as conn, translated():
        return _plan(conn)


def distribute(conninfo: str) -> Distribution:
    """Distribute the tables, all or none. Writes wait meanwhile.

    Raises ConfigurationError, which says what to do, StoreUnavailable, UpgradeNeeded or SchemaNotApplied.
    """
    with connect(conninfo) as conn:
        require_session(conn, conninfo)
        with translated():
            plan = _plan(conn)
            if plan.why_not:
                raise ConfigurationError(plan.why_not)
            try:
                with conn.transaction():
                    for statement in plan.statements:
                        conn.execute(statement.encode())
            except psycopg.Error as exc:
                raise ConfigurationError(f"nothing was changed: {exc.diag.message_primary or exc}") from exc
    return plan


def _plan(conn: DeadlineConnection) -> Distribution:
    if missing := missing_migrations(applied_versions(conn)):
        raise SchemaNotApplied(f"the tables lack {', '.join(missing)}; run first: {MIGRATE_COMMAND}")
    state = one(conn, _query("distribution_state"))
    done = {row.name for row in conn.execute(_query("distributed_tables"))} if state.citus else set()
    todo = [table for table in (*_COPIED, *_THEMED) if table not in done]
    if not todo:
        return Distribution(())
    writers = conn.execute(_query("partial_writers")).fetchall()
    return Distribution(tuple(_statements(todo, state.database, writers)), _why_not(conn, state))


def _statements(tables: list[str], database: str, writers: Sequence[Any]) -> Iterator[str]:
    """Yield the statements that distribute these tables and then remove the local data left of each.

    `writers` may insert only some columns of a table.
    """
    # Citus accepts triggers that touch only rows of their own theme, as all of these do.
    yield "SET LOCAL citus.enable_unsafe_triggers = on"
    yield "SET LOCAL citus.multi_shard_modify_mode = 'sequential'"
    for table in tables:
        if table in _COPIED:
            yield f"SELECT create_reference_table('{table}')"
        else:
            beside = "" if table == _THEMED[0] else f", colocate_with => '{_THEMED[0]}'"
            yield f"SELECT create_distributed_table('{table}', 'agent_identity'{beside})"
    # Citus inserts into a shard what a table would fill in, such as the time, for which a role needs a right there.
    for each in writers:
        yield f"GRANT INSERT ({each.columns}) ON {each.name} TO {each.role}"
    # Agents that connect from here on send each theme's statements to one place.
    yield f"ALTER DATABASE {database} SET hermes_pgvector.spread = on"
    # What they tell the triggers of a transaction reaches the server where the row is.
    yield f"ALTER DATABASE {database} SET citus.propagate_set_commands = 'local'"
    # Triggers are off: those of TRUNCATE would also delete distributed rows, of the chunks and the history.
    yield "SET LOCAL session_replication_role = replica"
    for table in tables:
        yield f"SELECT truncate_local_data_after_distributing_table('{table}')"
    yield "SET LOCAL citus.enable_ddl_propagation = off"
    for each in writers:
        yield f"REVOKE INSERT ({each.columns}) ON {each.name} FROM {each.role}"


def _why_not(conn: DeadlineConnection, state: Any) -> str:
    if not state.citus:
        return _NO_CITUS
    if state.row_security:
        return (
            "row-level security is on, whose policies Citus does not take; first: hermes-pgvector tenants disable --yes"
        )
    if state.changing:
        return "a change of the model, or an upgrade, is under way: bring it to its end first"
    return ""
