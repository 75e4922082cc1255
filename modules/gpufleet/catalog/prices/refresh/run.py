"""Run a refresh: one source after the other, one batch per region; a complete source becomes visible.

A run has a source and a day. A killed run resumes on the same day and does not read its regions again. A region without
a response is left for the next call; three in a row stop the source, and its staged rows remain. Staged rows of an
earlier day are deleted, since prices carry the day on which they were read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from gpufleet.catalog.prices.check import PriceCheckContext
from gpufleet.catalog.prices.refresh.source import (
    MissingCredentials,
    PriceSource,
    RefreshScope,
    RequestRejected,
    SourceUnavailable,
)
from gpufleet.catalog.prices.row import PriceRow
from gpufleet.catalog.prices.store import ImportRun, ImportRunSummary, PriceStore
from gpufleet.errors import EnvironmentFault, InputError

MAX_CONSECUTIVE_FAILURES = 3  # after this many regions without a response, the network or the service is down
RELATIVE_TOLERANCE = 1e-9
Report = Callable[[str], None]
State = Literal["stored", "known", "unfinished", "skipped"]


@dataclass(frozen=True)
class PriceChange:
    """A price that differs from the previous one."""

    row: PriceRow
    usd_before: float

    @property
    def relative_price_change(self) -> float:
        """Return the relative change: 0.1 is ten percent more."""
        return self.row.usd_per_hour / self.usd_before - 1 if self.usd_before else 0.0


@dataclass
class SourceRefreshOutcome:
    """The result of one source. ``failed`` regions may succeed later, ``rejected`` ones will not."""

    source: str
    cloud: str
    state: State = "stored"
    reason: str = ""
    hint: str | None = None
    regions: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    new: int = 0
    unchanged: int = 0
    changes: tuple[PriceChange, ...] = ()
    summary: ImportRunSummary | None = None


def refresh_prices(
    store: PriceStore,
    sources: Iterable[PriceSource],
    scope: RefreshScope,
    *,
    force: bool = False,
    accept: Sequence[str] = (),
    report: Report = lambda _: None,
) -> list[SourceRefreshOutcome]:
    """Read every source into the store; a failing source does not stop the others."""
    return [
        _refresh_source(store, source, scope, again=force, accept=accept, report=report) for source in sources
    ]


def _refresh_source(
    store: PriceStore,
    source: PriceSource,
    scope: RefreshScope,
    *,
    again: bool,
    accept: Sequence[str],
    report: Report,
) -> SourceRefreshOutcome:
    run, finished_regions = _open_run(store, source.source_name, scope, again=again)
    outcome = SourceRefreshOutcome(source.source_name, source.cloud_name)
    missing_regions = [
        region
        for region in scope.list_cloud_regions(source.cloud_name)
        if region not in finished_regions | run.batches
    ]
    if not missing_regions and not run.batches:
        store.delete_unfinished_run(run)
        return replace(outcome, state="known", reason="already read on this day")
    if run.batches:
        report(f"{source.source_name}: resumed, {len(run.batches)} regions are stored")
    for region, fault_recorder in _iterate_regions(missing_regions, outcome):
        report(
            f"{source.source_name}: {region} ({missing_regions.index(region) + 1} of {len(missing_regions)})"
        )
        with fault_recorder:
            batch = source.fetch_region_prices(region, scope)
            run = store.stage_batch(region, batch.rows, run)
            outcome.left_out += batch.left_out
            outcome.regions += (region,)
    if outcome.state == "skipped" and run.batches:  # the token expired during the run: staged rows remain
        outcome.state = "unfinished"
    if outcome.state == "unfinished":
        return outcome
    if not run.batches:
        store.delete_unfinished_run(run)
        return outcome if outcome.state == "skipped" else _skip_source(outcome)
    return _commit_run(store, run, outcome, accept)


def _open_run(
    store: PriceStore, name: str, scope: RefreshScope, *, again: bool
) -> tuple[ImportRun, frozenset[str]]:
    """Return the run to write to, and the regions that finished runs of the day have read."""
    day, finished_regions = scope.day.isoformat(), frozenset[str]()
    while (open_run := store.find_unfinished_run(name)) and not open_run.key.startswith(f"{day}#"):
        store.delete_unfinished_run(open_run)
    for number in count(1):
        run = store.begin_or_resume_run(name, f"{day}#{number}")
        if run.finished_at is None:
            return run, finished_regions
        finished_regions = frozenset() if again else finished_regions | run.batches
    raise AssertionError  # count() is infinite


def _iterate_regions(
    missing_regions: list[str], outcome: SourceRefreshOutcome
) -> Iterator[tuple[str, AbstractContextManager[None]]]:
    """Yield each region with a context that records its faults; stop when the source is down."""
    consecutive_failures = 0
    for region in missing_regions:
        failures_before = len(outcome.failed)
        yield region, _record_faults(region, outcome)
        if outcome.state == "skipped":
            return
        consecutive_failures = consecutive_failures + 1 if len(outcome.failed) > failures_before else 0
        if consecutive_failures >= min(MAX_CONSECUTIVE_FAILURES, len(missing_regions)):
            outcome.state, outcome.reason = "unfinished", outcome.failed[region]
            return


@contextmanager
def _record_faults(region: str, outcome: SourceRefreshOutcome) -> Iterator[None]:
    """Record a region's fault in the outcome and continue."""
    try:
        yield
    except MissingCredentials as fault:
        outcome.state, outcome.reason, outcome.hint = "skipped", fault.message, fault.hint
    except RequestRejected as fault:
        outcome.rejected[region] = fault.message
    except SourceUnavailable as fault:
        outcome.failed[region] = fault.message
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        outcome.failed[region] = f"a response of unexpected structure ({type(error).__name__}: {error})"


def _skip_source(outcome: SourceRefreshOutcome) -> SourceRefreshOutcome:
    reasons = list((outcome.failed | outcome.rejected).values())
    return replace(outcome, state="skipped", reason=reasons[0] if reasons else "no region to read")


def _commit_run(
    store: PriceStore, run: ImportRun, outcome: SourceRefreshOutcome, accept: Sequence[str]
) -> SourceRefreshOutcome:
    if store.begin_or_resume_run(run.source, run.key).finished_at:
        return replace(outcome, state="known", reason="another process committed this run first")
    if not store.count_staged_rows(run):
        store.delete_unfinished_run(run)
        return replace(outcome, state="skipped", reason="the response has no usable price")
    changes = list[PriceChange]()
    counts = Counter[str]()

    def compare_with_known_prices(rows: list[PriceRow], context: PriceCheckContext) -> None:
        for row in rows:
            if row.upfront != "none":
                continue
            price_before = context.prices.get(row.price_key)
            if price_before is None:
                counts["new"] += 1
            elif _is_same_price(price_before[0], row.usd_per_hour):
                counts["unchanged"] += 1
            else:
                changes.append(PriceChange(row, price_before[0]))

    summary = store.commit_run(run, accept, compare_with_known_prices)
    changes.sort(key=lambda change: -abs(change.relative_price_change))
    return replace(
        outcome, new=counts["new"], unchanged=counts["unchanged"], changes=tuple(changes), summary=summary
    )


def _is_same_price(usd: float, other_usd: float) -> bool:
    return abs(usd - other_usd) <= RELATIVE_TOLERANCE * max(usd, other_usd)


def find_refresh_failure(
    outcomes: Sequence[SourceRefreshOutcome], *, sources_named: bool
) -> EnvironmentFault | None:
    """Return the fault to exit with if a requested source could not be read.

    ``sources_named``: the user named the sources, so missing credentials are a fault.
    """
    failed_outcomes = [outcome for outcome in outcomes if outcome.failed or outcome.state == "unfinished"]
    if failed_outcomes:
        description = ", ".join(
            f"{outcome.source} ({f'{len(outcome.failed)} regions' if outcome.failed else outcome.reason})"
            for outcome in failed_outcomes
        )
        return EnvironmentFault(
            f"not all sources were read: {description}",
            hint="the store is consistent; run it again to resume",
        )
    skipped = [outcome for outcome in outcomes if outcome.state == "skipped"]
    if skipped and (sources_named or len(skipped) == len(outcomes)):
        first_skipped = skipped[0]
        return EnvironmentFault(f"{first_skipped.source}: {first_skipped.reason}", hint=first_skipped.hint)
    return None
