"""The settings of a home and a connection to its database, for one command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...config.settings import Settings
from ...domain.errors import DimensionMismatch, StoreReadOnly, StoreUnavailable
from ...domain.theme import ThemeRules
from ...host.session_context import Policy, environment, load_settings, unused_variables
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.schema import ensure_schema
from .console import warn
from .embedded_server import borrowed_server
from .lock_notice import lock_waits_told
from .saving import given_settings


def settings_of(home: Path) -> Settings:
    """Return the settings of a hermes home; problems with them are reported on stderr."""
    loaded = load_settings(None, home)
    for warning in (*loaded.warnings, *unused_variables(home)):
        warn(warning)
    return loaded.settings


class EndpointKeys(NamedTuple):
    """The keys of the endpoints that embed and that rerank; empty where the environment has none."""

    embed: str
    rerank: str

    @classmethod
    def of(cls, settings: Settings, home: Path) -> EndpointKeys:
        """Return the values of the variables that the settings name, from the environment or the home's .env."""
        environ = environment(home)
        return cls(environ.get(settings.embed_api_key_env, ""), environ.get(settings.rerank_api_key_env, ""))


def known_settings(home: Path) -> dict[str, Any]:
    """Return the settings that somebody has set, and Ollama's address (OLLAMA_HOST)."""
    return given_settings(home) | {"OLLAMA_HOST": environment(home).get("OLLAMA_HOST", "")}


@contextmanager
def connection(
    settings: Settings, login: str | None = None, *, named: str = "", any_dims: bool = False
) -> Iterator[DeadlineConnection]:
    """Open a connection to the settings' database, embedded or not, or with another login, and check its tables.

    `named`: the option that gave the DSN, if it was not the setting `dsn`. With `any_dims`, vectors of another length
    than the setting's only cause a warning. A long wait for a lock is explained on stderr. Raises SchemaNotApplied,
    StoreUnavailable, and DimensionMismatch unless `any_dims`; within the block, database errors are translated to ours.
    """
    with borrowed_server(settings) as locate, ExitStack() as stack:
        option = named or ("--admin-dsn" if login else "dsn")
        with naming(option):
            conninfo = login or settings.dsn or locate()
            conn = stack.enter_context(connect(conninfo))
            stack.enter_context(lock_waits_told(conn))
            try:
                ensure_schema(conn, dims=settings.dims)
            except DimensionMismatch as exc:
                if not any_dims:
                    raise
                warn(str(exc))
        with naming(option, partial(_is_of, conn)), translated():
            yield conn


def _is_of(conn: DeadlineConnection, error: StoreUnavailable) -> bool:
    """Return whether an error is of this connection and not of another one: it is lost, or its server is read-only."""
    if conn.closed:
        return True
    told = map(conn.info.parameter_status, ("default_transaction_read_only", "in_hot_standby"))
    return isinstance(error, StoreReadOnly) and "on" in told


@contextmanager
def naming(option: str, is_meant: Callable[[StoreUnavailable], bool] = lambda _: True) -> Iterator[None]:
    """Make errors in the block name the option that gave the DSN instead of the setting `dsn`, if that is meant."""
    try:
        yield
    except StoreUnavailable as exc:
        if not is_meant(exc):
            raise
        raise type(exc)(str(exc).replace("`dsn`", f"`{option}`")) from exc


@contextmanager
def database(
    args: argparse.Namespace, home: Path, *, any_dims: bool = True
) -> Iterator[tuple[DeadlineConnection, Settings, ThemeRules]]:
    """Open a connection for a command with --admin-dsn; yield it with the settings and their rules for theme names.

    Rows can be viewed, moved and removed whatever the length of their vectors, unless `any_dims` is False.
    """
    settings = settings_of(home)
    with connection(settings, args.admin_dsn, any_dims=any_dims) as conn:
        yield conn, settings, Policy.of(settings).rules
