"""web: the memory page in a browser, without hermes' dashboard."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

from ..admin.common.commands import EXIT_OK, Command, argument, printed
from ..admin.common.repeat import until_ended
from ..domain.commandline import pip_install
from ..domain.errors import ConfigurationError

_PORT = 8767
_PACKAGES = ("fastapi", "uvicorn")


def _web(args: argparse.Namespace, home: Path) -> int:
    try:
        from . import web_server  # of an extra that need not be installed
        from .served_homes import served_homes
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] not in (*_PACKAGES, "starlette"):
            raise
        raise ConfigurationError(
            f"the page needs the packages {' and '.join(_PACKAGES)}, the extra `web` of hermes-memory-pgvector, which "
            f"{sys.executable} lacks; run: {pip_install(*_PACKAGES)}"
        ) from exc
    try:
        listener = web_server.listening(args.port)
    except OSError as exc:
        raise ConfigurationError(
            f"port {args.port} cannot be used ({exc.strerror or exc}); give another with --port, 0 takes any free one"
        ) from exc
    admission = web_server.Admission()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}{web_server.PAGE}#{admission.token}"
    minutes = round(web_server.ADDRESS_VALID_S / 60)
    said = f"{url}\nThis address works once, for {minutes} minutes. Ctrl-C ends the server."
    try:
        with until_ended(), listener, _opened(url, wanted=not args.no_open):
            printed(args, {"url": url}, lambda: print(said))
            sys.stdout.flush()
            web_server.serve(web_server.web_app(admission), listener)
    except KeyboardInterrupt:
        pass  # how it is meant to be ended
    finally:
        served_homes.close()
    return EXIT_OK


@contextmanager
def _opened(url: str, *, wanted: bool) -> Iterator[None]:
    """Open the address in a browser, if there is one with a screen."""
    on_screen = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not (wanted and on_screen):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="hermes-pgvector-", ignore_cleanup_errors=True) as folder:
        # Through a file that nobody else may read: the arguments of commands, also of a browser, are public.
        page = Path(folder) / "memory.html"
        page.write_text(f'<meta http-equiv="refresh" content="0; url={escape(url)}">', encoding="utf-8")
        webbrowser.open(page.as_uri())
        yield


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError("write a port, from 0 to 65535")
    return int(text)


WEB = Command(
    "hermes-pgvector web\nhermes-pgvector web --port 0 --no-open",
    _web,
    [
        argument(
            "--port N",
            f"the port of 127.0.0.1 to serve on, 0 for any free one (default: {_PORT})",
            type=_port,
            default=_PORT,
        ),
        argument("--no-open", "only print the address, and open no browser"),
    ],
)
