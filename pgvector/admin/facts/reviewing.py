"""Review of proposed memories: an operator accepts, edits or rejects them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...domain.errors import InvalidArgument, WrongUsage
from ...domain.facts import Structure, structure_of
from ...store.backend import WRITE_TIMEOUT_S
from ..common import stored_rows
from ..common.adding import NewMemory, add_in, embed_added, masked, memory_to_add
from ..common.command_context import CommandContext
from ..common.operators import record_where_allowed
from ..common.outcome import Outcome, fit_for_json
from . import proposal_rows as store
from .proposal_rows import StoredProposal

_REVIEW = "facts review"


def waiting(
    context: CommandContext,
    *,
    theme: str | None,
    ids: Sequence[int] | None = None,
    least: float = 0.0,
    rejected: bool = False,
) -> list[StoredProposal]:
    """Return the proposals that wait for a decision, or the rejected ones. Raises InvalidArgument for an unknown id."""
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        found = store.proposals(conn, theme=theme, ids=ids, least=least, rejected=rejected)
    if missing := set(ids or ()) - {each.id for each in found}:
        names = ", ".join(f"p{number}" for number in sorted(missing))
        raise InvalidArgument(f"there is no proposal {names}; see: hermes-pgvector facts review")
    return found


def as_row(proposal: StoredProposal) -> dict[str, Any]:
    """Return a proposal as a row to show."""
    names = ("theme", "target", "kind", "subject", "scope", "said_at", "proposed_at", "rejected_at", "content")
    row = fit_for_json({name: getattr(proposal, name) for name in names})
    # Rounded, because a Postgres `real` is less precise than it looks.
    known = {"confidence": round(proposal.confidence, 3), "sources": [f"t{each}" for each in proposal.sources]}
    rival = {} if proposal.rival is None else {_verdict(proposal): f"m{proposal.rival}"}
    return {"ref": proposal.ref, **row, **known, **rival, "metadata": dict(proposal.metadata)}


def _verdict(proposal: StoredProposal) -> str:
    return "superseded_by" if proposal.outdated else "replaces"


def said(context: CommandContext, proposal: StoredProposal) -> Iterator[tuple[str, str]]:
    """Yield role and text of the turns that a proposal was taken from."""
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        rows = stored_rows.rows(conn, "turns", proposal.sources)
    yield from ((row.kind, row.content) for row in rows if row.theme == proposal.theme)


def accept(context: CommandContext, proposals: Sequence[StoredProposal]) -> Outcome:
    """Store proposals as memories, each as if the operator had added it when it was said.

    The metadata says where it was said, which decides who may read it. A proposal that is gone, or that was decided on
    or edited since it was shown, is not stored but named in `facts`.
    """
    done = Outcome(_REVIEW, True, {"accepted": 0})
    gone: list[str] = []
    for each in proposals:
        added = _accepted(context, each)
        if added is None:
            gone.append(each.ref)
            done.notes.append(f"{_gone(each)}; nothing was stored of it")
            continue
        done.rows.append(as_row(each) | {"memory": added.rows[0]["ref"], "state": added.rows[0]["state"]})
        done.notes += [f"{each.ref}: {note}" for note in added.notes]
        done.counts["accepted"] += 1
    done.facts |= {"gone": gone} if gone else {}
    _record(context, done)
    return done


def _accepted(context: CommandContext, proposal: StoredProposal) -> Outcome | None:
    """Store a proposal as a memory and remove the proposal; return None if it is not as it was shown."""
    given = NewMemory(
        proposal.theme,
        proposal.target,
        proposal.content,
        _structure(proposal),
        proposal.metadata,
        "facts accept",
        proposal.said_at,
    )
    op, notes = memory_to_add(context.keep, given)
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        if not store.hold(conn, proposal):
            return None
        added = add_in(conn, context, op)
        store.remove(conn, proposal)
    added.notes[:0] = notes
    embed_added(context, added)
    return added


def _gone(proposal: StoredProposal) -> str:
    return f"{proposal.ref} is gone: its turns were deleted, or somebody has decided on it or edited it"


def _structure(proposal: StoredProposal) -> Structure:
    return Structure(
        kind=proposal.kind,
        subject=proposal.subject,
        scope=proposal.scope,
        confidence=round(proposal.confidence, 3),
        sources=tuple(proposal.sources),
    )


def reject(context: CommandContext, proposals: Sequence[StoredProposal]) -> Outcome:
    """Reject proposals, so that the same text is not proposed again."""
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        gone = [each for each in proposals if store.reject(conn, each)]
    done = Outcome(_REVIEW, True, {"rejected": len(gone)}, [as_row(each) for each in gone])
    _record(context, done)
    return done


def edit(
    context: CommandContext, proposal: StoredProposal, text: str | None = None, **names: str | None
) -> StoredProposal:
    """Change a proposal's text, kind, subject or scope, and return the changed proposal.

    None leaves a field as it is, and "" clears a subject or scope. Raises InvalidArgument if the proposal is gone.
    """
    given = {name: value for name, value in names.items() if value is not None}
    changed = {name: structure_of(given).said().get(name) for name in given}
    if text is not None:
        content, _ = masked(context.keep, text)
        if "\n" in content:
            raise WrongUsage("write the new text on one line")
        changed["content"] = content
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        done = store.edit(conn, proposal, changed)
    if not done:
        raise InvalidArgument(_gone(proposal))
    return waiting(context, theme=proposal.theme, ids=[proposal.id])[0]


def _record(context: CommandContext, done: Outcome) -> None:
    """Record the decisions in the operators' log, without any text."""
    if any(done.counts.values()):
        themes = ", ".join(sorted({row["theme"] for row in done.rows}))
        with context.backend.connection(WRITE_TIMEOUT_S) as conn:
            record_where_allowed(conn, done.verb, {"theme": themes}, done.counts)
