"""What is written in a soak: every text names its theme and its number, and follows from them alone."""

from __future__ import annotations

import random
import re

_THINGS = ("crane", "winch", "gangway", "bollard", "buoy", "pump", "hatch", "anchor", "mast", "潮汐表", "起重機")
_DEEDS = ("greased", "painted", "inspected", "repaired", "measured", "moved", "locked", "replaced", "délivré")
_LONG_SENTENCES = 90
TAG = re.compile(r"\b([a-z]+)-(\d{7})\b")


def tag(theme: str, number: int) -> str:
    """How a text says where it belongs."""
    return f"{theme}-{number:07d}"


def tags_in(text: str) -> list[tuple[str, int]]:
    """The themes and numbers that a text names."""
    return [(found[1], int(found[2])) for found in TAG.finditer(text)]


def turn(theme: str, number: int) -> tuple[str, str]:
    """What the user and the assistant say; one turn in sixty is so long that it is embedded in parts."""
    chosen = random.Random(f"{theme} {number}")
    name, thing, deed, berth = tag(theme, number), chosen.choice(_THINGS), chosen.choice(_DEEDS), chosen.randrange(90)
    user = f"Please note for {name} that the {thing} at berth {berth} was {deed} today, and all is well."
    if chosen.randrange(60) == 0:
        user += "".join(
            f" Then the {chosen.choice(_THINGS)} at berth {chosen.randrange(90)} was {chosen.choice(_DEEDS)} as well."
            for _ in range(_LONG_SENTENCES)
        )
    return user, f"Noted as {name}: the {thing} at berth {berth} is in the harbour log, the office has a copy."


def fact(theme: str, number: int) -> str:
    """A durable memory."""
    chosen = random.Random(f"fact {theme} {number}")
    thing, berth = chosen.choice(_THINGS), chosen.randrange(90)
    return f"Fact {tag(theme, number)} says: the {thing} of berth {berth} has its own place in the store."


def question(theme: str, number: int) -> str:
    """What turn or fact `number` answers."""
    return f"What was noted for {tag(theme, number)} about the berth?"
