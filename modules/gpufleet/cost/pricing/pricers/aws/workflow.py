"""MWAA: environments of Apache Airflow, with workers and schedulers beyond those that an environment includes."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

DEFAULT_CLASS, SMALLEST_CLASS = "mw1.small", "mw1.micro"  # the smallest has one container that does not scale
# What an environment includes and what the provider takes by default (pulumi-aws, mwaa.Environment; AWS, MWAA pricing).
INCLUDED_WORKERS, INCLUDED_SCHEDULERS = Decimal(1), Decimal(2)
DEFAULT_MIN_WORKERS, DEFAULT_MAX_WORKERS, DEFAULT_SCHEDULERS = 1, 10, 2


@pricer("aws:mwaa/environment:Environment")
def price_airflow_environment(environment: Reader) -> Parts:
    """Yield an environment, its further workers between their bounds, its further schedulers and its database."""
    with environment.of("environment") as own:
        yield own.part(f"mwaa:environment:{_find_class(own)}")
    with environment.of("workers") as workers:
        if (size := _find_class(workers)) != SMALLEST_CLASS:
            least = workers.number("minWorkers", "its least workers", DEFAULT_MIN_WORKERS)
            most = workers.number("maxWorkers", "its most workers", max(least, Decimal(DEFAULT_MAX_WORKERS)))
            beyond = [max(number - INCLUDED_WORKERS, ZERO) for number in (least, most)]
            yield workers.part(f"mwaa:worker:{size}", Range.spanning(beyond[0], beyond[0], beyond[1]))
    with environment.of("schedulers") as schedulers:
        if (size := _find_class(schedulers)) != SMALLEST_CLASS:
            number = schedulers.number("schedulers", "its schedulers", DEFAULT_SCHEDULERS)
            yield schedulers.part(f"mwaa:scheduler:{size}", max(number - INCLUDED_SCHEDULERS, ZERO))
    yield environment.of("meta_database").used("mwaa:storage", "meta_database_gb", stored=True, listed=False)


def _find_class(environment: Reader) -> str:
    return environment.text("environmentClass", "its class", DEFAULT_CLASS)
