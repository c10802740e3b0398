"""The server's settings, as arguments of the postgres program."""

from __future__ import annotations

from collections.abc import Mapping

from ..domain.errors import EmbeddedServerError
from ..domain.patterns import late_pattern
from .layout import PORT, Layout

DEFAULTS = {
    "max_connections": "100",
    "shared_buffers": "128MB",
    # Compiling takes longer than any query here.
    "jit": "off",
    "autovacuum": "on",
    # Files in the data directory: containers give 64 MB of /dev/shm, and a logout may clear a user's.
    "dynamic_shared_memory_type": "mmap",
    # One server without replicas. Backups are dumps.
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "wal_compression": "on",
    "min_wal_size": "32MB",
    "max_wal_size": "512MB",
    "checkpoint_timeout": "15min",
    # A client that hangs must not keep the vacuum from doing its work.
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    # Statements and details contain what users wrote, which does not belong in a log.
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length_on_error": "0",
    # The log is only rotated at a start, so nothing may write to it all the time.
    "log_checkpoints": "off",
}

# The settings for where the server is and who can connect, which are decided here and nowhere else.
FIXED = frozenset(
    {
        "listen_addresses",
        "unix_socket_directories",
        "unix_socket_permissions",
        "unix_socket_group",
        "port",
        "data_directory",
        "config_file",
        "hba_file",
        "ident_file",
        "external_pid_file",
        "logging_collector",
    }
)

_NAME = late_pattern(r"[A-Za-z_][A-Za-z0-9_.]*")


def arguments(layout: Layout, settings: Mapping[str, str]) -> list[str]:
    """Return the arguments for `settings` over DEFAULTS. No shell interprets them.

    Raises: EmbeddedServerError for an invalid setting, or for one of FIXED.
    """
    chosen = dict(DEFAULTS)
    for name, value in settings.items():
        if not _NAME.fullmatch(name) or "\0" in str(value):
            raise EmbeddedServerError(f"{name!r} cannot be a setting of the embedded Postgres")
        if name.lower() in FIXED:
            raise EmbeddedServerError(
                f"{name!r} of the embedded Postgres cannot be set: it is private, by its socket. "
                "For a server that others reach, run your own and set `dsn`"
            )
        chosen[name.lower()] = str(value)
    chosen |= {
        "listen_addresses": "",
        "unix_socket_directories": str(layout.sockets),
        "unix_socket_permissions": "0700",
        "port": str(PORT),
    }
    return [part for name, value in chosen.items() for part in ("-c", f"{name}={value}")]
