"""How capacity is bought. Each kind lists every attribute, so that readers need no isinstance."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gpufleet.catalog import Purchase as PriceKind
from gpufleet.fleet.base import Frozen, Positive


class OnDemand(Frozen):
    """Pay as you go: no commitment, no eviction, capacity if there is any."""

    kind: Literal["on_demand"]

    on_eviction: ClassVar[None] = None
    fallback: ClassVar[None] = None
    max_usd_per_hour: ClassVar[None] = None
    reservation: ClassVar[None] = None
    term: ClassVar[None] = None
    price_kind: ClassVar[PriceKind] = "on_demand"
    label: ClassVar[str] = "on_demand"


class Spot(Frozen):
    """Spare capacity that the cloud may take back."""

    kind: Literal["spot"]
    on_eviction: Annotated[
        Literal["delete", "stop"], Field(description="what the cloud does to a node it takes back")
    ] = "delete"
    fallback: Annotated[
        Literal["on_demand"] | None, Field(description="what to run on while there is no spot capacity")
    ] = None
    max_usd_per_hour: Annotated[
        Positive | None, Field(description="highest price per node; AWS and Azure only")
    ] = None

    reservation: ClassVar[None] = None
    term: ClassVar[None] = None
    price_kind: ClassVar[PriceKind] = "spot"
    label: ClassVar[str] = "spot"


class Reserved(Frozen):
    """Capacity held for us. It bills around the clock, used or not."""

    kind: Literal["reserved"]
    reservation: Annotated[
        str, Field(min_length=1, description="create, or the id of a reservation that exists")
    ] = "create"
    term: Annotated[
        Literal["1y", "3y"] | None,
        Field(description="a commitment that the owner holds: it sets the price, nothing is bought"),
    ] = None

    on_eviction: ClassVar[None] = None
    fallback: ClassVar[None] = None
    max_usd_per_hour: ClassVar[None] = None

    @property
    def price_kind(self) -> PriceKind:
        """Return the price that applies: without a term, held capacity costs what on-demand does."""
        kinds: dict[str | None, PriceKind] = {None: "on_demand", "1y": "reserved_1y", "3y": "reserved_3y"}
        return kinds[self.term]

    @property
    def label(self) -> str:
        """Return the purchase as tags spell it: reserved, reserved-1y, reserved-3y."""
        return "reserved" if self.term is None else f"reserved-{self.term}"


Purchase = Annotated[OnDemand | Spot | Reserved, Field(discriminator="kind")]
