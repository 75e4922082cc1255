"""One refresh: sources one after the other, each region a batch of its own, what is whole becomes visible.

A run is a source and a day. Killed, it is gone on with on the same day: the regions that it has are not read again.
One region that does not answer is left for the next call; three in a row end the source for now, with all that it
has staged kept. What an unfinished run of an earlier day staged is dropped, since prices carry the day they were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from gpufleet.catalog.prices.known import of_store
from gpufleet.catalog.prices.refresh.feed import NoCredentials, Refused, Scope, Source, Unreachable
from gpufleet.catalog.prices.row import PriceRow
from gpufleet.catalog.prices.store import Run, Store, Summary
from gpufleet.errors import EnvironmentFault, InputError

IN_A_ROW = 3  # so many regions without an answer: it is the network, or the service
SAME = 1e-9
Say = Callable[[str], None]
State = Literal["stored", "known", "unfinished", "skipped"]


@dataclass(frozen=True)
class Move:
    """A price that is another than before."""

    row: PriceRow
    before: float

    @property
    def share(self) -> float:
        """Return by how much: 0.1 is ten percent dearer."""
        return self.row.usd_per_hour / self.before - 1 if self.before else 0.0


@dataclass
class Outcome:
    """What one source brought. ``failed`` may succeed the next time, ``refused`` will not."""

    source: str
    cloud: str
    state: State = "stored"
    reason: str = ""
    hint: str | None = None
    regions: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    new: int = 0
    same: int = 0
    moves: tuple[Move, ...] = ()
    summary: Summary | None = None


def refresh(
    store: Store,
    sources: Iterable[Source],
    scope: Scope,
    *,
    again: bool = False,
    accept: Sequence[str] = (),
    say: Say = lambda _: None,
) -> list[Outcome]:
    """Read every source into the store; what one of them lacks does not stop the others."""
    return [_one(store, source, scope, again=again, accept=accept, say=say) for source in sources]


def _one(
    store: Store, source: Source, scope: Scope, *, again: bool, accept: Sequence[str], say: Say
) -> Outcome:
    run, done = _open(store, source.name, scope, again=again)
    outcome = Outcome(source.name, source.cloud)
    missing = [region for region in scope.of(source.cloud) if region not in done | run.batches]
    if not missing and not run.batches:
        store.abandon(run)
        return replace(outcome, state="known", reason="read before on this day")
    if run.batches:
        say(f"{source.name}: goes on, {len(run.batches)} regions are here")
    for region, faults in _unbroken(missing, outcome):
        say(f"{source.name}: {region} ({missing.index(region) + 1} of {len(missing)})")
        with faults:
            batch = source.read(region, scope)
            run = store.write_batch(region, batch.rows, run)
            outcome.left_out += batch.left_out
            outcome.regions += (region,)
    if (
        outcome.state == "skipped" and run.batches
    ):  # a token that ran out on the way: what it gave stays staged
        outcome.state = "unfinished"
    if outcome.state == "unfinished":
        return outcome
    if not run.batches:
        store.abandon(run)
        return outcome if outcome.state == "skipped" else _nothing(outcome)
    return _commit(store, run, outcome, accept)


def _open(store: Store, name: str, scope: Scope, *, again: bool) -> tuple[Run, frozenset[str]]:
    """Return the run to write to, and the regions that finished runs of the day have read."""
    day, done = scope.day.isoformat(), frozenset[str]()
    while (left := store.resume(name)) and not left.key.startswith(f"{day}#"):
        store.abandon(left)
    for number in count(1):
        run = store.begin(name, f"{day}#{number}")
        if run.finished_at is None:
            return run, done
        done = frozenset() if again else done | run.batches
    raise AssertionError  # the numbers do not end


def _unbroken(missing: list[str], outcome: Outcome) -> Iterator[tuple[str, AbstractContextManager[None]]]:
    """Yield the regions and what catches their faults, until the source as a whole proves to be away."""
    in_a_row = 0
    for region in missing:
        before = len(outcome.failed)
        yield region, _caught(region, outcome)
        if outcome.state == "skipped":
            return
        in_a_row = in_a_row + 1 if len(outcome.failed) > before else 0
        if in_a_row >= min(IN_A_ROW, len(missing)):
            outcome.state, outcome.reason = "unfinished", outcome.failed[region]
            return


@contextmanager
def _caught(region: str, outcome: Outcome) -> Iterator[None]:
    """Note a region's fault in the outcome, and go on."""
    try:
        yield
    except NoCredentials as fault:
        outcome.state, outcome.reason, outcome.hint = "skipped", fault.message, fault.hint
    except Refused as fault:
        outcome.refused[region] = fault.message
    except Unreachable as fault:
        outcome.failed[region] = fault.message
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        outcome.failed[region] = f"an answer of another shape ({type(error).__name__}: {error})"


def _nothing(outcome: Outcome) -> Outcome:
    reasons = list((outcome.failed | outcome.refused).values())
    return replace(outcome, state="skipped", reason=reasons[0] if reasons else "no region to read")


def _commit(store: Store, run: Run, outcome: Outcome, accept: Sequence[str]) -> Outcome:
    if store.begin(run.source, run.key).finished_at:
        return replace(outcome, state="known", reason="another process was faster")
    rows = list(store.staged(run))
    if not rows:
        store.abandon(run)
        return replace(outcome, state="skipped", reason="answered, but with no price that we can use")
    before = of_store(store.link, {(row.cloud, row.item) for row in rows}).prices
    summary = store.commit(run, accept)
    apart = {each.row.key for each in summary.findings if each.code not in accept}
    new, same, moves = 0, 0, []
    for row in rows:
        if row.upfront != "none" or row.key in apart:
            continue
        known = before.get(row.key)
        if known is None:
            new += 1
        elif abs(known[0] - row.usd_per_hour) <= SAME * max(known[0], row.usd_per_hour):
            same += 1
        else:
            moves.append(Move(row, known[0]))
    moves.sort(key=lambda move: -abs(move.share))
    return replace(outcome, new=new, same=same, moves=tuple(moves), summary=summary)


def verdict(outcomes: Sequence[Outcome], *, named: bool) -> EnvironmentFault | None:
    """Return what to end with: a fault where something that was asked for could not be read.

    ``named``: the user asked for these sources by name, so one without credentials is a fault, not a note.
    """
    stuck = [each for each in outcomes if each.failed or each.state == "unfinished"]
    if stuck:
        what = ", ".join(
            f"{each.source} ({f'{len(each.failed)} regions' if each.failed else each.reason})"
            for each in stuck
        )
        return EnvironmentFault(
            f"not all was read: {what}", hint="the store is whole; run it again, and it goes on from there"
        )
    skipped = [each for each in outcomes if each.state == "skipped"]
    if skipped and (named or len(skipped) == len(outcomes)):
        first = skipped[0]
        return EnvironmentFault(f"{first.source}: {first.reason}", hint=first.hint)
    return None
