"""Everything this package raises.

    HermesPgvectorError
    +-- ConfigurationError        a setting, a file or an argument of a command is wrong
    +-- InvalidArgument           a tool or a command was called with arguments it cannot use
    |   +-- WrongUsage            ... whatever the database contains: a command's options do not go together
    |   +-- NothingToUndo         ... to undo a change that is undone already, or not kept any more
    +-- StoreUnavailable          Postgres cannot be reached, or cannot be used at the moment
    |   +-- StoreConflict         ... because another transaction was in the way
    |   +-- StoreReplaced         ... because another server answers than a moment ago
    |   +-- StoreReadOnly         ... for writing: it still answers questions
    |   +-- StoreUnsettled        ... because what this connection knew of the server is outdated
    |   +-- StoreMisconfigured    ... or refuses us until somebody changes something
    |       +-- SchemaNotApplied  the migrations have not been run there
    |       |   +-- UpgradeNeeded ... because the tables are another program's, or half taken over from it
    |       +-- StrangeTables     tables of an unknown program have the names of ours
    |       +-- TablesOutOfSight  the tables are there, and this role does not see them, or no row of them
    |       +-- StatementLost     prepared statements are not kept there
    |       +-- DimensionMismatch the database holds vectors of another size
    +-- SpaceChanged              the embedding model of the database was changed
    +-- OperationRejected         Postgres will never accept this write as it is
    +-- EmbedderError             the embedding endpoint or model gave no usable vectors
    |   +-- EmbedderUnavailable   ... for now: worth another try
    |   +-- InputTooLong          ... because a text exceeds the model's context
    +-- SpoolError                the write-ahead spool on disk cannot be used
    |   +-- SpoolFull             ... because it is at its limit
    |   +-- SpoolBusy             ... while another program holds a lock on it
    |   +-- SpoolGone             ... because somebody deleted, cut or overwrote it
    +-- EmbeddedServerError       the private Postgres cannot be started
    +-- DeadlineExceeded          an answer did not come in time

The docstring of a class is its message when none is given, and says what to do.
"""

from __future__ import annotations

from .commandline import typed


class HermesPgvectorError(Exception):
    """Something in hermes-memory-pgvector failed; run `hermes-pgvector doctor`."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or type(self).__doc__ or type(self).__name__)

    def __str__(self) -> str:
        return typed(super().__str__())


class ConfigurationError(HermesPgvectorError):
    """A setting is wrong; run `hermes-pgvector doctor` to see which."""


class InvalidArgument(HermesPgvectorError):
    """An argument is wrong; see the tool's schema."""


class WrongUsage(InvalidArgument):
    """The options of this command do not go together; see its --help."""


class NothingToUndo(InvalidArgument):
    """This can no longer be undone: it was undone already, is too old or one of many, or the page was started anew."""


class StoreUnavailable(HermesPgvectorError):
    """Postgres cannot be reached; run `hermes-pgvector doctor`."""


class StoreConflict(StoreUnavailable):
    """Another transaction was in the way; this is tried again."""


class StoreReplaced(StoreUnavailable):
    """Another server answers than a moment ago; what it lacks of acknowledged writes goes there first."""


class StoreReadOnly(StoreUnavailable):
    """Postgres takes no writes; recall goes on, and what is written waits until it does."""


class StoreUnsettled(StoreUnavailable):
    """Postgres answers with an error that is not about the content of a write; this is tried on a new connection."""


class StoreMisconfigured(StoreUnavailable):
    """Postgres refuses us; check `dsn`, the role and its rights: hermes-pgvector doctor."""


class SchemaNotApplied(StoreMisconfigured):
    """The memory tables are missing; run `hermes-pgvector migrate --admin-dsn ...` as a database admin."""


class UpgradeNeeded(SchemaNotApplied):
    """The memory tables are another program's; run `hermes-pgvector migrate --admin-dsn ...` as a database admin."""


class StrangeTables(StoreMisconfigured):
    """Tables of another program have the names of ours; use another database, or rename them."""


class TablesOutOfSight(StoreMisconfigured):
    """The role does not see the memory tables; check its search_path and rights: hermes-pgvector doctor."""


class StatementLost(StoreMisconfigured):
    """The server does not know what was prepared in it; set plugins.pgvector.pooler: transaction."""


class DimensionMismatch(StoreMisconfigured):
    """The database holds vectors of another size than the setting `dims`; make the two agree."""


class SpaceChanged(HermesPgvectorError):
    """The embedding model of the database was changed; set embed_model and dims to the new one and restart."""


class OperationRejected(HermesPgvectorError):
    """Postgres rejects this write for what it holds; `hermes-pgvector doctor` shows it."""


class EmbedderError(HermesPgvectorError):
    """The embedding endpoint gave no usable vectors; check `embed_url` and `embed_model`."""


class EmbedderUnavailable(EmbedderError):
    """The embedding endpoint does not answer; it is tried again by itself.

    `retry_after_s` is what the endpoint asked for, in seconds, or None.
    """

    def __init__(self, message: str = "", *, retry_after_s: float | None = None) -> None:
        super().__init__(message or "the embedding endpoint does not answer; it is tried again by itself")
        self.retry_after_s = retry_after_s


class InputTooLong(EmbedderError):
    """A text is longer than the embedding model's context; it is shortened and tried again."""


class SpoolError(HermesPgvectorError):
    """The spool cannot be written; check that $HERMES_HOME/pgvector/spool is writable and the disk has room."""


class SpoolFull(SpoolError):
    """The spool reached `spool_max_mb`; bring Postgres back or raise the bound."""


class SpoolBusy(SpoolError):
    """Another program holds a lock on the spool; writes go to another file meanwhile."""


class SpoolGone(SpoolError):
    """The spool's file was deleted, cut or overwritten; keep other programs out of $HERMES_HOME/pgvector/spool."""


class EmbeddedServerError(HermesPgvectorError):
    """The embedded Postgres cannot be started; see its server.log, or set `dsn` to a server of your own."""


class DeadlineExceeded(HermesPgvectorError):
    """The answer did not come in time; the memory backend is slow or out of reach."""


class StatementCancelled(DeadlineExceeded):
    """Postgres worked on a statement for all of its time."""
