"""`hermes-pgvector` in processes that are forked from one that has imported it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .forked import Forked, run_to_its_end, standing_for
from .forked import prepared as prepare

_PREPARATION = """
import psycopg, yaml
from hermes_memory_pgvector import cli

for verbs in cli.command_groups().values():
    for verb in verbs:
        verb.load()
"""
_PROGRAM = """
sys.argv = ["hermes-pgvector", *arguments]
sys.exit(cli.main())
"""


def forked(*arguments: str, prepared: Sequence[str] = ()) -> list[str]:
    """Return the command line for `hermes-pgvector ARGUMENTS`, in a process that has imported these modules as well."""
    return standing_for(prepare(_PREPARATION, _PROGRAM, *prepared), *arguments)


class ForkedCli(Forked):
    """`hermes-pgvector ARGUMENTS` in a process that has imported `prepared` as well; `more` is as for `Forked`."""

    def __init__(
        self,
        *arguments: str,
        environment: Mapping[str, str],
        folder: Path | None = None,
        prepared: Sequence[str] = (),
        **more: Any,
    ) -> None:
        place = prepare(_PREPARATION, _PROGRAM, *prepared)
        super().__init__(place, *arguments, environment=environment, folder=folder or Path.cwd(), **more)


def run_forked(
    *arguments: str, folder: Path | None = None, prepared: Sequence[str] = (), timeout_s: float = 150.0, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run `hermes-pgvector ARGUMENTS` to its end in such a process; `more` is as for `Forked`."""
    place, where = prepare(_PREPARATION, _PROGRAM, *prepared), folder or Path.cwd()
    return run_to_its_end(place, *arguments, name="hermes-pgvector", timeout_s=timeout_s, folder=where, **more)
