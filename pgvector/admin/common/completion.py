"""completion."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from .commands import EXIT_OK, Command, add_json, print_json

_SHELLS = ("bash", "zsh", "fish")


def _arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=_SHELLS, help="the shell to complete in")
    add_json(command)


def completion(command_line: Callable[[], argparse.ArgumentParser]) -> Command:
    """Return the verb that completes what `command_line` parses."""

    def run(args: argparse.Namespace, home: Path) -> int:
        import shtab

        script = shtab.complete(command_line(), shell=args.shell)
        if args.json:
            print_json({"shell": args.shell, "script": script})
        else:
            print(script)
        return EXIT_OK

    return Command(
        "completion",
        "print a script that completes our commands in a shell",
        'eval "$(hermes-pgvector completion bash)"      # in ~/.bashrc\n'
        'eval "$(hermes-pgvector completion zsh)"       # in ~/.zshrc, after compinit\n'
        "hermes-pgvector completion fish > ~/.config/fish/completions/hermes-pgvector.fish",
        run,
        _arguments,
    )
