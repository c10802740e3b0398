"""A real streaming replica of a test's server."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hermes_memory_pgvector.domain.errors import EmbeddedServerError
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from hermes_memory_pgvector.server.directories import make_root
from hermes_memory_pgvector.server.layout import Layout, choose_account
from hermes_memory_pgvector.server.run_as import must_run, write

from .embedded import BIN_DIR, ask, postmaster_of
from .own_postgres import OwnPostgres, own_postgres
from .places import server_place
from .waiting import until

# What both servers must be set to.
SETTINGS = {
    "wal_level": "replica",
    "max_wal_senders": "4",
    "wal_keep_size": "256MB",
    "max_standby_streaming_delay": "0",  # a query there that is in the way is cancelled at once
}
_COPY = (
    'cp -a "$1" "$2" && cd "$2" && rm -rf postmaster.pid pg_wal && mkdir -m 700 -p pg_wal/archive_status && '
    "touch standby.signal && cat > postgresql.auto.conf"
)


class Standby:
    """A running replica; `conninfo` is the same role's on the same database there."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        # One that answers for the first time while it is looked at counts as empty, and cannot be filled.
        with suppress(EmbeddedServerError):
            server.ensure()
        self.admin_dsn = server.ensure().admin

    def conninfo(self, of_primary: str) -> str:
        own = conninfo_to_dict(self.admin_dsn)
        return make_conninfo(of_primary, host=own["host"], port=own["port"])

    def tell(self, statement: str) -> object:
        """Has the superuser ask the replica something."""
        return ask(make_conninfo(self.admin_dsn, dbname="postgres"), statement)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Replays nothing for the time of the block."""
        self.tell("SELECT pg_wal_replay_pause()")
        until(lambda: self.tell("SELECT pg_get_wal_replay_pause_state()") == "paused", 20, "replay to pause")
        try:
            yield
        finally:
            self.tell("SELECT pg_wal_replay_resume()")

    def caught_up(self, primary: OwnPostgres) -> None:
        """Returns when the replica has replayed all that the primary has written by now."""
        position = ask(primary.admin_dsn, "SELECT pg_current_wal_flush_lsn()::text")
        until(lambda: self.tell(f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"), 20, "the replica")


@contextmanager
def replicated_postgres(dims: int) -> Iterator[tuple[OwnPostgres, Standby]]:
    """A primary and a replica of it; both end with the block."""
    with own_postgres(dims, **SETTINGS) as primary:
        try:
            with standby_of(primary) as standby:
                yield primary, standby
        finally:
            if primary.server.running():
                primary.stop("immediate")


@contextmanager
def standby_of(primary: OwnPostgres) -> Iterator[Standby]:
    """A replica of a server that was set to have some; it ends with the block."""
    with server_place() as place:
        account = choose_account()
        ours, theirs = Layout.of(place / "pg", account), Layout.of(primary.server.root, account)
        # Our rules for access know of no replicas.
        with (theirs.data / "pg_hba.conf").open("a") as rules:
            rules.write("local replication postgres peer map=embedded\n")
        make_root(ours, account)
        with psycopg.connect(primary.admin_dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("SELECT pg_backup_start('a replica', true)")
            way = conninfo_to_dict(primary.admin_dsn)
            source = make_conninfo("", **{key: way[key] for key in ("host", "port", "user")})
            script = ["/bin/sh", "-c", _COPY, "sh", theirs.data, ours.data]
            must_run(account, script, text=f"primary_conninfo = '{source}'\n")
            row = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchone()
        assert row is not None
        write(account, ours.data / "backup_label", str(row[0]))
        server = EmbeddedServer(place / "pg", bin_dir=BIN_DIR, settings={"fsync": "off"} | SETTINGS)
        try:
            yield Standby(server)
        finally:
            if server.running():
                os.kill(postmaster_of(server), signal.SIGQUIT)  # nothing there is worth a checkpoint
            server.stop()
            server.release()
