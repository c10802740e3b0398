"""One more rule for pytest, where it is asked for with --no-skips: a test that steps aside has failed."""

from __future__ import annotations

from collections.abc import Generator

import pytest

Report = pytest.TestReport | pytest.CollectReport


class NoSkips:
    """Turns skips and expected failures, of tests and of whole modules, into failures."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Judge the report of one phase of a test."""
        report = yield
        refuse(report)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Judge the report of a module's collection."""
        report = yield
        refuse(report)
        return report


def refuse(report: Report) -> None:
    """Make a report that is neither a plain pass nor a failure a failure, keeping its reason."""
    expected = getattr(report, "wasxfail", None)
    if not report.skipped and expected is None:
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else expected or report.longrepr
    report.outcome = "failed"
    report.longrepr = f"no test may be skipped or expected to fail here, but this one was: {reason}"
    if expected is not None:
        del report.wasxfail
