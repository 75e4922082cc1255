"""How much of a part's nominal rates is really had: factors learned from published measurements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

from gpufleet.sizing.tables import rows

ANY = "*"
Key = tuple[str, str, str]  # parameter, device class, engine; ANY where the factor holds for all


@dataclass(frozen=True)
class Efficiency:
    """Factors by parameter, device class and engine. What holds for all is corrected by what is special.

    A class or engine without measurements of its own is left with what holds for all.
    """

    factors: dict[Key, float]

    def of(self, parameter: str, device: str, engine: str) -> float:
        """Return the parameter's value for that class of device and that engine."""
        value = 1.0
        for key in product((parameter,), {ANY, device}, {ANY, engine}):
            value *= self.factors.get(key, 1.0)
        return value


@cache
def learned() -> Efficiency:
    """Return the factors that ship with the package."""
    return Efficiency({(r["parameter"], r["device"], r["engine"]): float(r["value"]) for r in rows("efficiency.csv")})
