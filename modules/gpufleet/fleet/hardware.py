"""The hourly cost of owned hardware: figures, each with its source, and the formula."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from gpufleet.fleet.frozen_model import FrozenModel, StrictFloat, build_spec_error

HOURS_PER_YEAR = 8760
HOURS_PER_MONTH = HOURS_PER_YEAR / 12
PLAIN_NUMBER_SOURCE = "a number in the file, without a source"


class SourcedFigure(FrozenModel):
    """A figure and its source. A figure that was not measured has ``assumption: true``."""

    value: StrictFloat
    source: Annotated[str, Field(min_length=3)]
    as_of: date | None = None
    assumption: bool = False

    @model_validator(mode="after")
    def _check_not_negative(self) -> Self:
        if self.value < 0:
            raise build_spec_error(f"{self.value:g} is negative", "give zero or more")
        return self


def _expand_plain_number(value: Any) -> Any:
    """Accept a plain number as a figure without a source: an assumption."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"value": value, "source": PLAIN_NUMBER_SOURCE, "assumption": True}
    if isinstance(value, str | bool):
        raise build_spec_error(f"is {value!r}", "give a number, or {value: …, source: …}")
    return value


Figure = Annotated[
    SourcedFigure, BeforeValidator(_expand_plain_number, json_schema_input_type=SourcedFigure | float)
]
# figure -> (what it must be, whether it is); pairs that are nothing without each other
BOUNDS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "life_years": ("more than 0", lambda value: value > 0),
    "residual_fraction": ("less than 1", lambda value: value < 1),
    "pue": ("from 1 to 3", lambda value: 1 <= value <= 3),  # noqa: PLR2004 - worse rooms are typing errors
    "utilisation": ("from 0 to 1", lambda value: value <= 1),
}
PAIRS = (("rack_units", "usd_per_unit_month"), ("staff_hours_per_month", "usd_per_staff_hour"))


DEFAULT_ONE = SourcedFigure(value=1.0, source=PLAIN_NUMBER_SOURCE, assumption=True)
DEFAULT_ZERO = SourcedFigure(value=0.0, source=PLAIN_NUMBER_SOURCE, assumption=True)


class HardwareCost(FrozenModel):
    """Capital over the years of use, less what is left at the end; power at the wall; space, people, network.

    Every figure is a fact with its source, or a plain number, which counts as an assumption. What is left
    out is not in the cost: ``missing_cost_parts`` names it.
    """

    needs_capital: ClassVar[bool] = True
    capital_usd: Figure | None = None
    capital_eur: Figure | None = None
    usd_per_eur: Annotated[Figure | None, Field(description="planning rate; needed with capital_eur")] = None
    life_years: Figure
    residual_fraction: Annotated[Figure, Field(description="share of capital left at the end")] = DEFAULT_ZERO
    watts_per_node: Annotated[Figure, Field(description="measured; or of full load, with utilisation")]
    utilisation: Annotated[Figure, Field(description="share of those watts drawn on average")] = DEFAULT_ONE
    usd_per_kwh: Figure
    pue: Annotated[Figure, Field(description="power drawn by the room per power of the rack")] = DEFAULT_ONE
    rack_units: Annotated[Figure | None, Field(description="total height, in rack units")] = None
    usd_per_unit_month: Annotated[Figure | None, Field(description="rent of one rack unit")] = None
    staff_hours_per_month: Annotated[
        Figure | None, Field(description="working hours of people, in total")
    ] = None
    usd_per_staff_hour: Figure | None = None
    network_usd_per_month: Annotated[Figure | None, Field(description="uplink, addresses, traffic")] = None
    colocation_usd_per_month: Annotated[Figure | None, Field(description="what a host bills in one sum")] = (
        None
    )
    maintenance_usd_per_year: Annotated[Figure | None, Field(description="contract, spares")] = None

    @model_validator(mode="after")
    def _check_capital(self) -> Self:
        if (self.capital_usd is None) == (self.capital_eur is None) and (
            self.needs_capital or self.capital_usd is not None
        ):
            raise build_spec_error(
                "exactly one of capital_usd and capital_eur must be set", "give capital_usd or capital_eur"
            )
        if self.capital_eur is not None and self.usd_per_eur is None:
            raise build_spec_error(
                "capital_eur has no exchange rate",
                "add usd_per_eur, such as 1.10",
            )
        return self

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        for name, (meaning, is_valid) in BOUNDS.items():
            value = getattr(self, name).value
            if not is_valid(value):
                raise build_spec_error(f"is {value:g}", f"give {meaning}", name)
        for first, second in PAIRS:
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise build_spec_error(f"{first} and {second} must be given together", "give both or neither")
        return self

    def usd_per_hour(self, node_count: int) -> float:
        """Return the sum of all parts per hour."""
        return sum(self.parts_usd_per_hour(node_count).values())

    def parts_usd_per_hour(self, node_count: int) -> dict[str, float]:
        """Return USD per hour by part; a part that is not declared is not there.

        capital: capital * (1 - residual) / (years * 8,760 h); power: nodes * watts * utilisation / 1000 * PUE
        * tariff; the others by the month or year, 730 hours a month.
        """
        usd_per_hour = {
            "capital": self.capital_in_usd
            * (1 - self.residual_fraction.value)
            / (self.life_years.value * HOURS_PER_YEAR),
            "power": self.average_kilowatts(node_count) * self.usd_per_kwh.value,
        }
        monthly = {
            "space": _product(self.rack_units, self.usd_per_unit_month),
            "staff": _product(self.staff_hours_per_month, self.usd_per_staff_hour),
            "network": _product(self.network_usd_per_month),
            "colocation": _product(self.colocation_usd_per_month),
            "maintenance": _product(self.maintenance_usd_per_year, divisor=12),
        }
        return usd_per_hour | {
            name: usd / HOURS_PER_MONTH for name, usd in monthly.items() if usd is not None
        }

    def average_kilowatts(self, node_count: int) -> float:
        """Return what the room draws for that many nodes on average."""
        return node_count * self.watts_per_node.value * self.utilisation.value / 1000 * self.pue.value

    @property
    def missing_cost_parts(self) -> tuple[str, ...]:
        """Return the parts that are not declared and so not in the cost."""
        declared_parts = set(self.parts_usd_per_hour(1))
        return tuple(
            part for part in ("space", "staff", "network", "maintenance") if part not in declared_parts
        )

    @property
    def capital_in_usd(self) -> float:
        """Return the capital in USD, euros changed at the planning rate."""
        if self.capital_usd is not None:
            return self.capital_usd.value
        if self.capital_eur is None or self.usd_per_eur is None:  # _check_capital rules this out
            raise ValueError("capital without currency")
        return self.capital_eur.value * self.usd_per_eur.value

    @property
    def sourced_figures(self) -> dict[str, SourcedFigure]:
        """Return the figures that have a source, by name."""
        figures = {
            "capital": self.capital_usd or self.capital_eur,
            "usd_per_eur": self.usd_per_eur,
        }
        figures |= {name: getattr(self, name) for name in FIGURES}
        return {
            name: fact
            for name, fact in figures.items()
            if fact is not None and fact.source != PLAIN_NUMBER_SOURCE
        }

    @property
    def oldest_figure_date(self) -> str | None:
        """Return the day of the oldest figure; None while one of them is undated, or none has a source."""
        days = [fact.as_of for fact in self.sourced_figures.values()]
        return None if None in days or not days else str(min(day for day in days if day is not None))

    @property
    def figure_sources_text(self) -> str:
        """Return where the figures are from, assumptions named as such, as one line."""
        sources = (
            f"{name}: {'assumption, ' if fact.assumption else ''}{fact.source}"
            for name, fact in self.sourced_figures.items()
        )
        return "; ".join(sources) or PLAIN_NUMBER_SOURCE

    @property
    def assumed_figure_names(self) -> tuple[str, ...]:
        """Return the names of figures that were not measured: flagged as assumed, or plain numbers in the file."""
        capital = {"capital": self.capital_usd or self.capital_eur, "usd_per_eur": self.usd_per_eur}
        figures = capital | {name: getattr(self, name) for name in FIGURES if name in self.model_fields_set}
        return tuple(name for name, fact in figures.items() if fact is not None and fact.assumption)


# every figure but the capital, in the order of the file
FIGURES = tuple(
    name for name in HardwareCost.model_fields if name not in {"capital_usd", "capital_eur", "usd_per_eur"}
)


def _product(*figures: SourcedFigure | None, divisor: float = 1) -> float | None:
    """Multiply facts; None where one is not declared."""
    product = 1.0
    for fact in figures:
        if fact is None:
            return None
        product *= fact.value
    return product / divisor
