"""A server that goes while doctor looks at it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from hermes_memory_pgvector.admin.doctor.check import DoctorContext
from hermes_memory_pgvector.admin.doctor.check_database import check_database
from hermes_memory_pgvector.config.settings import Settings
from tests.conftest import DIMS
from tests.support.tcp_proxy import TcpProxy


@pytest.mark.parametrize("said", range(1, 11))
def test_need_02_a_server_that_goes_is_a_line_of_the_list(said: int, proxy: TcpProxy, proxied: str, home: Path) -> None:
    checks = check_database(DoctorContext(replace(Settings(), dsn=proxied, dims=DIMS), home))
    assert len(list(islice(checks, said))) == said
    proxy.cut()
    *_, last = checks
    assert (last.name, last.state) == ("postgres", "fail")
