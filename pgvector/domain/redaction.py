"""Masking of passwords, keys, tokens and personal identifiers before a text is stored or shown.

Shapes of secrets whose beginnings share a rare character are searched for together, from one such character to the
next, because a hook has milliseconds for megabytes.

Telephone numbers, e-mail addresses and user ids are never kept in clear; a digest tells them apart.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import re
import time
from typing import Final, NamedTuple
from urllib.parse import unquote

from .patterns import late_pattern, ready_pattern
from .secret_shapes import SHAPES, SecretShape

MAX_PATTERNS = 20
PATTERN_MAX_CHARS = 300
_PROBE_CHARS = (*range(6, 31, 2), 60, 120, 300, 600)  # a pattern whose time doubles with each character is caught early
_PROBE_S = 0.005  # of CPU time, for one length


class _Search(NamedTuple):
    """A search, from one `sign` to the next, for beginnings: each with the position of `sign` in it, and its shape.

    A sign is a rare character, or the whole of a beginning that has none. Where it does not occur, the pattern is not
    compiled: all of them together would take longer than what else a new process does before its first question.
    """

    sign: str
    pattern: str
    begins: tuple[tuple[str, int, SecretShape], ...]


_RARE = "~_=:/.-AJGzxk"  # rarest first, more or less


def _searches(folded: bool) -> tuple[_Search, ...]:
    together: dict[tuple[str, int], list[tuple[str, int, SecretShape]]] = {}
    for shape in SHAPES:
        for begin in shape.begins if shape.folded is folded else ():
            sign = next((char for char in _RARE if char in begin), begin)
            at = begin.rindex(sign) if shape.run else begin.index(sign)
            together.setdefault((sign, shape.run), []).append((begin, at, shape))
    return tuple(_Search(sign, _together(sign, run, begins), tuple(begins)) for (sign, run), begins in together.items())


def _together(sign: str, run: int, begins: list[tuple[str, int, SecretShape]]) -> str:
    """Return the pattern that finds all beginnings with `sign`, which comes first in it: that makes it fast."""

    def after(begin: str, at: int) -> str:
        return re.escape(begin[at + len(sign) :])

    def before(begin: str, at: int, shape: SecretShape) -> str:
        stands = re.escape(begin[: at + 1])
        return f"(?<={stands})" + (f"(?<![A-Za-z0-9_-]{stands})" if shape.is_apart else "")

    at_once = [after(begin, at) + shape.then for begin, at, shape in begins if not at]
    later = [f"{before(*each)}{after(*each[:2])}{each[2].then}" for each in begins if each[1]]
    if later:
        front = "".join(sorted({re.escape(begin[at - 1]) for begin, at, _ in begins if at}))
        at_once.append(f"(?<=[{front}]{re.escape(sign)})(?:{'|'.join(later)})")
    following = rf"(?=[\w-]{{{run}}})" if run else ""
    return f"{re.escape(sign)}{following}(?:{'|'.join(at_once)})"


_EXACT, _FOLDED = _searches(False), _searches(True)


class Masker:
    """Masks the known shapes and an operator's own patterns. Immutable; safe to use from several threads."""

    def __init__(self, patterns: tuple[str, ...] = ()) -> None:
        self._own = tuple(compiled for compiled in map(_compiled, patterns) if isinstance(compiled, re.Pattern))

    def mask(self, text: str) -> tuple[str, int]:
        """Return `text` with each secret replaced by `[masked-<kind>]`, and how many there were. Idempotent."""
        found: list[tuple[int, int, str]] = []
        _look_for(_EXACT, text, text, found)
        # Lower case of the same length, so that positions in one are positions in the other.
        folded = text.lower()
        if len(folded) != len(text):
            folded = text.replace("\u0130", "I").lower()
        _look_for(_FOLDED, text, folded, found)
        for own in self._own:
            found += [(*match.span(), "secret") for match in own.finditer(text) if match[0]]
        return _replaced(text, found) if found else (text, 0)


def masked(text: str) -> str:
    """Return `text` as it may be shown: without passwords of connection strings and without known secrets."""
    return masker(()).mask(mask_dsn(text))[0]


def pattern_problem(pattern: str) -> str:
    """Return why an operator's pattern cannot be used, in words; "" when it can."""
    compiled = _compiled(pattern)
    return compiled if isinstance(compiled, str) else ""


@functools.lru_cache(maxsize=64)
def masker(patterns: tuple[str, ...]) -> Masker:
    """Return the masker with these patterns besides the known shapes."""
    return Masker(patterns)


def _look_for(searches: tuple[_Search, ...], text: str, searched: str, found: list[tuple[int, int, str]]) -> None:
    for search in searches:
        first = searched.find(search.sign)
        ends: dict[str, int] = {}  # of the last match
        for hit in ready_pattern(search.pattern).finditer(searched, first) if first >= 0 else ():
            for begin, at, shape in search.begins:
                start = hit.start() - at
                if start < ends.get(begin, 0) or not searched.startswith(begin, start):
                    continue
                if (match := shape.match(text, start)) is not None:
                    group = match.lastgroup or 0
                    found.append((match.start(group), match.end(group), shape.kind))
                    ends[begin] = match.end()


def _replaced(text: str, found: list[tuple[int, int, str]]) -> tuple[str, int]:
    kept: list[str] = []
    position = count = 0
    for start, end, kind in sorted(found, key=lambda span: (span[0], -span[1])):
        if end <= position:
            continue
        # Text that two shapes share is masked once, by the one that begins first.
        if start >= position:
            kept += [text[position:start], f"[masked-{kind}]"]
            count += 1
        position = end
    return "".join([*kept, text[position:]]), count


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str] | str:
    """Return the pattern ready for use, or what is wrong with it."""
    if len(pattern) > PATTERN_MAX_CHARS:
        return f"longer than {PATTERN_MAX_CHARS} characters"
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return "no regular expression"
    if compiled.search("") is not None:
        return "also found in an empty text"
    return "too slow, with repetitions inside repetitions" if _is_slow(pattern, compiled) else compiled


def _is_slow(pattern: str, compiled: re.Pattern[str]) -> bool:
    """Return whether the time explodes on long runs of what the pattern looks for, tried with growing lengths."""
    letters = dict.fromkeys([*"a0A-_ /.=", *(char for char in pattern if char.isalnum())])
    runs = [*letters, *(re.findall(r"[A-Za-z0-9]{2,}", pattern)[:4]), "a0"]
    for run in runs[:40]:
        for length in _PROBE_CHARS:
            text = (run * length)[:length] + "\x00"
            started = time.thread_time()
            compiled.search(text)
            if time.thread_time() - started > _PROBE_S:
                return True
    return False


_MASK = "***"
_SECRET_KEY = r"(?<![a-z])(?:pg|ssl)?(?:password|passwd|pwd)|oauth_client_secret|scram_(?:client|server)_key"
# Greedy up to the last "@" of the word: people paste passwords with "@", "/" or ":" unescaped.
_URI = late_pattern(r"(://[^\s:/@]*:)(\S*)@")
_NO_PORT = r"(?!\d{1,5}(?:[,/?\s'\"\\)\]}]|$))"
# libpq takes spaces in a URI's password as they are, and people paste slashes as well.
_URI_SPACED = late_pattern(rf"(postgres(?:ql)?(?:\+\w+)?:/{{1,2}}[^\s:/@]*:){_NO_PORT}([^@\n]*)@", re.IGNORECASE)
# Without the scheme, as some paste it.
_LOGIN = late_pattern(r"((?<![^\s'\"({=/])[\w.+-]{1,64}:)(?![/:])(\S{1,256})@(?=[\w\[])")
# Without a host, and with something other than a port in its place.
_CUT_URI = late_pattern(rf"(postgres(?:ql)?://[^\s:/@\[]*:){_NO_PORT}([^@\n]+)$", re.IGNORECASE | re.MULTILINE)
_QUERY = late_pattern(rf"([?&](?:{_SECRET_KEY})=)([^&\s]*)", re.IGNORECASE)
# An unquoted value runs to the next blank and may hold escaped blanks. Each repr around it escapes quotes once more:
# the quote that ends a value has as many backslashes before it as the one that began it, and more mean another quote.
_PAIR = late_pattern(
    rf"(?<![?&])((?:{_SECRET_KEY})\s*[=:]\s*|['\"](?:{_SECRET_KEY})\\*['\"]\s*:\s*)"
    r"((?P<quote>\\*['\"])(?:.*?(?<!\\)(?P=quote)|.*)|(?:[^\s\\]|\\+.)+)",
    re.IGNORECASE | re.DOTALL,
)
# What libpq quotes of a connection string that it cannot parse.
_FRAGMENT = late_pattern(r'(?P<told>"="|(?:option |invalid URI query parameter: )"\w+"$)|".*"', re.DOTALL)


def mask_dsn(text: str, dsn: str = "") -> str:
    """Replace the passwords of libpq URIs and key=value strings in `text` by ***.

    With `dsn`, every piece of that connection string's password is replaced as well, wherever it occurs, and everything
    in quotes but "=" and the name of an option: in its errors libpq quotes fragments of a malformed string without the
    key they came from. Masks too much rather than too little.
    """
    if dsn:
        text = _without_quotes_of(dsn, text)
    lowered = text.lower()
    if ":" in text and "@" in text:
        for pattern in (_URI, _URI_SPACED, _LOGIN):
            text = pattern.sub(rf"\1{_MASK}@", text)
    if "postgres" in lowered:
        text = _CUT_URI.sub(rf"\1{_MASK}", text)
    if any(word in lowered for word in ("pass", "pwd", "secret", "scram")):
        text = _PAIR.sub(rf"\1{_MASK}", _QUERY.sub(rf"\1{_MASK}", text))
    return text


def _without_quotes_of(dsn: str, text: str) -> str:
    """Return the text without the pieces of a password, and other parts of a connection string, that it quotes."""
    text = _FRAGMENT.sub(lambda found: found["told"] or f'"{_MASK}"', text)
    for piece in _secret_pieces(dsn):
        text = text.replace(f'"{piece}"', f'"{_MASK}"') if len(piece) < 3 else text.replace(piece, _MASK)
    return text


def _secret_pieces(dsn: str) -> list[str]:
    """Return the password in `dsn`, whole, decoded and in the fragments a parser may stumble over; longest first."""
    patterns = (_URI, _URI_SPACED, _LOGIN, _CUT_URI, _QUERY, _PAIR)
    found = [match.group(2) for pattern in patterns for match in pattern.finditer(dsn)]
    # An unquoted password with a blank in it: all words up to the next key are part of it.
    found += re.findall(rf"(?i)(?:{_SECRET_KEY})\s*[=:]\s*(.*?)(?=\s+\w+\s*=|$)", dsn, re.DOTALL)
    pieces: set[str] = set()
    for secret in found:
        bare = re.sub(r"\\(.)", r"\1", secret.strip("'\""))
        pieces.update((secret, bare, unquote(secret)))
        pieces.update(re.split(r"[\s'\"@:/?&=]+", secret))
    return sorted((piece for piece in pieces if piece and piece != _MASK), key=len, reverse=True)


# How Postgres and its drivers quote a server's address, who logs in there, and paths on the client's disk.
_PLACE = late_pattern(
    r"\b(server at|on socket|certificate for|file|host name|host|user|database|role|service) "
    r"([\"'])(?:(?!\2).)*\2(?: \([^()]*\))?(?:, port \d+)?"
)
_UNQUOTED_PLACE = late_pattern(r"\b(no such (?:database|user): )[^\s;]+")  # as PgBouncer names it


def mask_places(text: str) -> str:
    """Replace by *** the places, logins and files that an error names, which are no business of a client's."""
    return _UNQUOTED_PLACE.sub(rf"\1{_MASK}", _PLACE.sub(rf'\1 "{_MASK}"', text))


DIGEST_CHARS: Final = 16
_MARK: Final = "~"  # stands before the digest that took an identifier's place; what follows it is never masked again

_EMAIL = r"[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
_ACCOUNT = r"\+?\d{6,20}(?:[:.-]\d{1,3})?@\w{1,32}"  # as messengers write it: 491701234567@lid
_PHONE = r"(?:\+|00(?=[1-9]))[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .()-]{0,2}\d){6,14}(?!\d)"
_SURE = late_pattern(rf"(?<![\w.+%~-])(?:{_EMAIL}|{_ACCOUNT})|(?<![\w+~]){_PHONE}")
# A number alone between separators; a date does not count, nor do 16 digits and more.
_NUMBER = late_pattern(r"(?:(?<=[:/ ])|^)(?!(?:19|20)\d\d-?[01]\d-?[0-3]\d)\(?\d(?:[ .()-]{0,2}\d){8,14}(?=[:/ ]|$)")
_KEY: Final = "agent:"  # how a session key of the host begins
_DIGITS = late_pattern(r"\d{3}|@")


def identity_digest(text: str, key: str = "") -> str:
    """Return 16 hex digits of the text's sha256, or with a `key` of its HMAC-SHA256.

    Without a key, anybody can find a number by trying all telephone numbers; with one, only the key's owner can.
    """
    plain = text.encode("utf-8", "surrogatepass")
    if key:
        return hmac.new(key.encode(), plain, hashlib.sha256).hexdigest()[:DIGEST_CHARS]
    return hashlib.sha256(plain).hexdigest()[:DIGEST_CHARS]


def mask_identifiers(text: str, key: str, *, numbers: bool = False) -> str:
    """Replace each e-mail address, messenger account and telephone number by `~` and a digest.

    A telephone number begins with + or 00; with `numbers`, or in a text with a session key of the host, it may also be
    9 to 15 digits alone or between colons, slashes or blanks. Idempotent.
    """
    if _DIGITS.search(text) is None:
        return text

    def masked(found: re.Match[str]) -> str:
        return _MARK + identity_digest(found[0], key)

    text = _SURE.sub(masked, text)
    return _NUMBER.sub(masked, text) if numbers or _KEY in text else text
