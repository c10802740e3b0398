"""Conversion of whatever the host passes into text and JSON that Postgres accepts.

Nothing here raises on odd input, and what cannot be kept is replaced by a placeholder.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
import numbers
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from .patterns import late_pattern, ready_pattern

MAX_DEPTH: Final = 20
ENTRY_DELIMITER: Final = "\n§\n"  # what the host puts between the entries of a memory file
ENDS_CHARS: Final = (
    250_000  # kept of each end of a text that is too long; masking and storing more would take a hook too long
)
_SEAM_CHARS: Final = 200  # a cut is moved to a blank within this distance, so that no word or key is split
_KEY_CHARS: Final = 16_500  # of a private key before its END line, at most
_CUT: Final = "[...]"
_MAX_INT_BITS: Final = 4096  # beyond this Python may refuse to print the number
# Normalising a text, also in Postgres, takes time quadratic in the length of a run of combining marks, and cannot be
# interrupted. Unicode allows the same number in stream-safe text; no script needs so many.
_MARKS_MOST: Final = 30
_BETWEEN_MARKS: Final = "\u2060"  # invisible and not a mark: marks before it are not reordered with those after it

QUOTES: Final = late_pattern('["\u201c\u201e\u00ab\u300c\u300e]')  # with which a quoted phrase begins
# Letters that Unicode does not decompose, and the plain ones that they are compared as, also by hermes_lexemes.
PLAIN_LETTERS: Final = str.maketrans("łŁøØđĐıħĦŧŦيىك", "lLoOdDihHtTییک")
_JOINERS: Final = "\u200c\u200d"  # invisible, and part of Persian words, Indic letters and emoji
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text", "refusal"})
_MARKED_PARTS: Final = {
    "image": "image", "image_url": "image", "input_image": "image", "output_image": "image",
    "audio": "audio", "input_audio": "audio", "output_audio": "audio",
    "video": "video", "video_url": "video", "input_video": "video",
    "file": "file", "input_file": "file", "document": "file",
    "tool_use": "tool call", "tool_call": "tool call", "function_call": "tool call",
    "tool_result": "tool result", "function_call_output": "tool result",
}  # fmt: skip
_SILENT_PARTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})

_SCALARS: Final = (
    bool, numbers.Number, str, UUID, PurePath, bytes, bytearray, memoryview, datetime, date, time, timedelta,
)  # fmt: skip

_OTHER_SCRIPT = late_pattern(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")
_OTHER_SHARE = 0.1  # of a text; up to this share, non-Latin letters may be those of names
# Possessive: in an endless run of blanks after a `<`, no blank is scanned twice.
_FENCE = late_pattern(r"<\s*+(/?)\s*+memory-context\s*+>(?=[^\S\n]*+(\S?))", re.IGNORECASE)


def clean(text: object) -> str:
    """Return text that Postgres can store: no NUL, no lone surrogate (but U+FFFD).

    Anything that is not text is flattened first. Line ends are kept. Long runs of marks are separated as by `apart`.
    """
    return _storable(text if type(text) is str else flatten(text))


def flatten(content: object) -> str:
    """Return the text of a message's content: a string, a list of parts, a part, or anything else a host may pass.

    Each part is on its own line; images and files are marked (`[image]`), not dropped; None gives "".
    """
    return _flatten(content, ())


def clean_json(obj: object) -> object:
    """Return a copy of `obj` that `json.dumps(..., allow_nan=False)` and Postgres' jsonb both accept.

    Keys become strings, NaN and infinities None, dates ISO text, durations seconds, bytes and sets text and lists.
    Anything nested deeper than 20 levels, or containing itself, becomes "[...]".
    """
    return _clean_json(obj, ())


def as_object(value: object) -> dict[str, Any]:
    """Return a JSON object; an empty one for any other value, which a column of Postgres may hold in its place."""
    return value if isinstance(value, dict) else {}


def apart(text: str) -> str:
    """Return `text` with a word joiner after every 30 combining marks of a longer run. Idempotent."""
    # So long a run has a mark at one of these positions, where most texts have none.
    if not any(map(_is_mark, set(text[::_MARKS_MOST]))):
        return text
    mark = f"[{''.join(filter(_is_mark, set(text)))}]"
    return re.sub(f"{mark}{{{_MARKS_MOST}}}(?={mark})", rf"\g<0>{_BETWEEN_MARKS}", text)


@functools.lru_cache(maxsize=4096)
def _is_mark(char: str) -> bool:
    """Return whether normalising may reorder a character, or the first one that it decomposes into."""
    return unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) != 0


def harmless(text: str, *, lines: bool = False) -> str:
    """Return text without characters that control a terminal or change the direction of writing.

    Each is replaced by a blank; `lines` keeps line ends and tabs.
    """
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(" " if steers_terminal(each) and each not in kept else each for each in text)


def steers_terminal(char: str) -> bool:
    """Return whether a character controls a terminal, breaks a line or changes the direction of writing."""
    return char not in _JOINERS and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def on_one_line(text: str) -> str:
    """Return the text on one line, without characters that break lines or control a terminal."""
    return " ".join(harmless(text).split())


def is_of_other_script(text: str) -> bool:
    """Return whether a text is written in a script other than Latin, not counting a few names."""
    return len(_OTHER_SCRIPT.findall(text)) > _OTHER_SHARE * len(text)


def has_cjk(text: str, signs: int = 1) -> bool:
    """Return whether a text has so many signs of Chinese, Japanese or Korean in a row."""
    if text.isascii():  # as most are: the pattern takes long to compile
        return False
    return ready_pattern(rf"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{{{signs}}}").search(text) is not None


def digest(text: str) -> bytes:
    """Return the 32 bytes of the sha256 of `text` in UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def entries_in(text: str) -> tuple[str, ...]:
    """Return the entries of a memory file, or of a text the host writes into one, as the host reads them back."""
    parts = io.StringIO(text, newline=None).read().split(ENTRY_DELIMITER)
    return tuple(dict.fromkeys(entry for part in parts if (entry := clean(part).strip())))


def named_uuid(namespace: UUID, name: str) -> UUID:
    """Return the same as `uuid.uuid5` in a tenth of its time: for security use, OpenSSL looks up SHA-1 each time."""
    made = hashlib.sha1(namespace.bytes + name.encode(), usedforsecurity=False).digest()
    return UUID(bytes=made[:16], version=5)


def strip_injected(text: str) -> str:
    """Return `text` without the `<memory-context>` blocks the host put in, including one that was never closed.

    Text without such a block is returned unchanged, otherwise trimmed. If a line only mentions the tag, the text after
    it is kept.
    """
    if "<" not in text:
        return text
    kept: list[str] = []
    tags = list(_FENCE.finditer(text))
    mentions = _mentions(tags)
    depth, position = 0, 0
    for tag in tags:
        if depth == 0:
            kept.append(text[position : tag.start()])
        if tag not in mentions:
            depth = max(depth - 1, 0) if tag.group(1) else depth + 1
        position = tag.end()
    if position == 0:
        return text
    if depth == 0:
        kept.append(text[position:])
    return "".join(kept).strip()


def _mentions(tags: Iterable[re.Match[str]]) -> set[re.Match[str]]:
    """Return the opening tags in the middle of a line that open no block, because no other tag closes them."""
    opened: list[re.Match[str]] = []
    for tag in tags:
        if not tag.group(1):
            opened.append(tag)
        elif opened:
            opened.pop()
    return {tag for tag in opened if tag.group(2) and not _begins_line(tag.string, tag.start())}


def _begins_line(text: str, at: int) -> bool:
    while at and text[at - 1] in " \t":
        at -= 1
    return at == 0 or text[at - 1] == "\n"


def both_ends(text: str, max_chars: int) -> str:
    """Return `text`, or the beginning and the end of a longer one on separate lines, `max_chars` in all."""
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]}\n{text[half - max_chars + 1 :]}"


def flatten_within(content: object, max_chars: int) -> tuple[str, bool]:
    """Return the text as by `flatten`, of more than `max_chars` only both ends, and whether it was cut.

    A line between the ends says how much is missing. The part left out is neither copied nor scanned.
    """
    texts = [content] if isinstance(content, str) else _texts_of(content)
    chars = sum(map(len, texts)) + max(0, len(texts) - 1)
    if chars <= max_chars:
        return "\n".join(map(str, texts)), False
    half = min(ENDS_CHARS, max_chars // 2)
    head, tail = _end(texts, half), _end(texts, half, last=True)
    blank = head.rfind(" ", half - _SEAM_CHARS)
    head = head[:blank] if blank > 0 else head
    # The rest of a private key cannot be recognised without its beginning.
    key = tail.find("-----END ", 0, _KEY_CHARS)
    if key >= 0 and "-----BEGIN " not in tail[:key]:
        tail = tail[key:].partition("\n")[2]
    else:
        tail = tail[max(0, tail.find(" ", 0, _SEAM_CHARS)) :]
    return f"{head}\n[... {chars - len(head) - len(tail):,} characters left out ...]\n{tail}", True


def _texts_of(content: object) -> list[str]:
    """Return the texts of a message's parts, not joined."""
    if isinstance(content, Collection) and not isinstance(content, (bytes, bytearray, memoryview, Mapping)):
        path = (id(content),)
        return [text for text in (_flatten(part, path) for part in content) if text]
    return [flatten(content)]


def _end(texts: Sequence[str], chars: int, *, last: bool = False) -> str:
    """Return the first or last characters of the texts joined by line ends."""
    taken: list[str] = []
    left = chars
    for text in reversed(texts) if last else texts:
        if left <= 0:
            break
        taken.append(text[-left:] if last else text[:left])
        left -= len(taken[-1]) + 1
    return "\n".join(reversed(taken) if last else taken)


def _storable(text: str) -> str:
    if "\0" in text:
        text = text.replace("\0", "")
    if text.isascii():
        return str(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16, so that the two surrogates of one character are joined.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return str(apart(text))


def _flatten(content: object, path: tuple[int, ...]) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return str(content)
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(content).decode("utf-8", "replace")
    if isinstance(content, (bool, numbers.Number)):
        return _number_text(content)
    if len(path) >= MAX_DEPTH or id(content) in path:
        return _CUT
    return _flatten_parts(content, (*path, id(content)))


def _flatten_parts(content: object, path: tuple[int, ...]) -> str:
    if isinstance(content, Mapping):
        return _part_text(content, path)
    if isinstance(content, Collection):
        return "\n".join(text for text in (_flatten(part, path) for part in content) if text)
    inner = getattr(content, "text", None) or getattr(content, "content", None)
    return _flatten(inner, path) if inner else _type_mark(content)


def _part_text(part: Mapping[object, object], path: tuple[int, ...]) -> str:
    kind = part.get("type")
    kind = kind.strip().lower() if isinstance(kind, str) else ""
    if kind in _SILENT_PARTS:
        return ""
    if mark := _MARKED_PARTS.get(kind):
        return _marked(part, mark)
    for key in ("text", "refusal", "value", "content", "parts"):
        if part.get(key) is not None:
            return _flatten(part[key], path)
    return "" if kind in _TEXT_PARTS else _unknown_part(part, kind, path)


def _marked(part: Mapping[object, object], mark: str) -> str:
    name = part.get("filename") or part.get("name") or part.get("transcript")
    return f"[{mark}: {name}]" if isinstance(name, str) and name else f"[{mark}]"


def _unknown_part(part: Mapping[object, object], kind: str, path: tuple[int, ...]) -> str:
    if "image_url" in part:
        return "[image]"
    if kind:
        return f"[{kind}]"
    return "\n".join(f"{_key(key)}: {_flatten(value, path)}" for key, value in part.items())


def _number_text(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
        return f"[integer of {value.bit_length()} bits]"
    return str(value)


def _type_mark(value: object) -> str:
    return f"[{type(value).__name__}]"


def _clean_json(obj: object, path: tuple[int, ...]) -> object:
    if isinstance(obj, Enum):
        return _clean_json(obj.value, path)
    if obj is None or isinstance(obj, _SCALARS):
        return _clean_scalar(obj)
    if len(path) >= MAX_DEPTH or id(obj) in path:
        return _CUT
    return _clean_container(obj, (*path, id(obj)))


def _clean_container(obj: object, path: tuple[int, ...]) -> object:
    if isinstance(obj, Mapping):
        return {_key(key): _clean_json(value, path) for key, value in obj.items()}
    if isinstance(obj, (set, frozenset)):
        items = [_clean_json(item, path) for item in obj]
        return sorted(items, key=lambda item: (type(item).__name__, str(item)))
    if isinstance(obj, (list, tuple)):
        return [_clean_json(item, path) for item in obj]
    return _type_mark(obj)


def _clean_scalar(obj: object) -> object:
    if obj is None or isinstance(obj, bool):
        return obj
    if isinstance(obj, numbers.Number):
        return _json_number(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return _storable(bytes(obj).decode("utf-8", "replace"))
    if isinstance(obj, (datetime, date, time)):
        return obj.isoformat()
    if isinstance(obj, timedelta):
        return obj.total_seconds()
    return _storable(str(obj))


def _json_number(number: numbers.Number) -> object:
    if isinstance(number, Decimal):
        return str(number) if number.is_finite() else None
    if isinstance(number, numbers.Integral):
        whole = int(number)
        return whole if whole.bit_length() <= _MAX_INT_BITS else _number_text(whole)
    if isinstance(number, numbers.Real):
        try:
            real = float(number)
        except OverflowError:
            return None
        return real if math.isfinite(real) else None
    return str(number)


def _key(key: object) -> str:
    if isinstance(key, str):
        return _storable(key)
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    plain = _clean_json(key, ())
    return plain if isinstance(plain, str) else _number_text(plain) if isinstance(plain, (int, float)) else str(plain)
