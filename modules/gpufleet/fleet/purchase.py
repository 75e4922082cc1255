"""How capacity is bought. Each kind lists every attribute, so that readers need no isinstance."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpufleet.catalog import Purchase as PriceKind
from gpufleet.fleet.frozen_model import FrozenModel, PositiveFloat, StrictFloat, build_spec_error

Band = Literal["<5%", "5-10%", "10-15%", "15-20%"]


class SpotInterruptions(FrozenModel):
    """How interruptions affect the work on a pool; gives the cost of a useful hour of spot."""

    interruptions_per_month: Annotated[
        StrictFloat | None,
        Field(ge=0, description="interruptions of one node that runs all month, observed or assumed"),
    ] = None
    band: Annotated[
        Band | None,
        Field(
            description="or the range in AWS's Spot Instance Advisor; above 20 % give interruptions_per_month"
        ),
    ] = None
    checkpoint_minutes: Annotated[PositiveFloat, Field(description="work between checkpoints")]
    restart_minutes: Annotated[
        StrictFloat, Field(ge=0, description="minutes until a replacement works again; billed, but lost")
    ]
    checkpoint_cost_minutes: Annotated[
        StrictFloat, Field(ge=0, description="minutes to write one checkpoint")
    ] = 0.0
    fallback_share: Annotated[
        StrictFloat | None, Field(ge=0, le=1, description="share of the work that runs on demand")
    ] = None

    @model_validator(mode="after")
    def _check_one_rate(self) -> Self:
        if (self.interruptions_per_month is None) == (self.band is None):
            raise build_spec_error(
                "exactly one of interruptions_per_month and band must be set",
                "give interruptions_per_month or band",
            )
        return self


class OnDemandPurchase(FrozenModel):
    """Pay as you go: no commitment, no eviction, capacity if there is any."""

    kind: Literal["on_demand"]

    on_eviction: ClassVar[None] = None
    fallback: ClassVar[None] = None
    max_usd_per_hour: ClassVar[None] = None
    work: ClassVar[None] = None
    reservation: ClassVar[None] = None
    term: ClassVar[None] = None
    price_kind: ClassVar[PriceKind] = "on_demand"
    tag_value: ClassVar[str] = "on_demand"


class SpotPurchase(FrozenModel):
    """Spare capacity that the cloud may take back."""

    kind: Literal["spot"]
    on_eviction: Annotated[
        Literal["delete", "stop"], Field(description="what the cloud does to a node it takes back")
    ] = "delete"
    fallback: Annotated[
        Literal["on_demand"] | None, Field(description="what to use while there is not enough spot capacity")
    ] = None
    max_usd_per_hour: Annotated[
        PositiveFloat | None, Field(description="highest price per node; AWS and Azure only")
    ] = None
    work: Annotated[
        SpotInterruptions | None,
        Field(description="interruptions and the work that each one loses; for the cost of a useful hour"),
    ] = None

    reservation: ClassVar[None] = None
    term: ClassVar[None] = None
    price_kind: ClassVar[PriceKind] = "spot"
    tag_value: ClassVar[str] = "spot"


class ReservedPurchase(FrozenModel):
    """Reserved capacity. It bills around the clock, used or not."""

    kind: Literal["reserved"]
    reservation: Annotated[
        str, Field(min_length=1, description="create, or the id of a reservation that exists")
    ] = "create"
    term: Annotated[
        Literal["1y", "3y"] | None,
        Field(
            description="a commitment that the owner already has: it sets the price; gpufleet buys nothing"
        ),
    ] = None

    on_eviction: ClassVar[None] = None
    fallback: ClassVar[None] = None
    max_usd_per_hour: ClassVar[None] = None
    work: ClassVar[None] = None

    @property
    def price_kind(self) -> PriceKind:
        """Return the price that applies: without a term, reserved capacity costs as much as on-demand."""
        kinds: dict[str | None, PriceKind] = {None: "on_demand", "1y": "reserved_1y", "3y": "reserved_3y"}
        return kinds[self.term]

    @property
    def tag_value(self) -> str:
        """Return the purchase as tags spell it: reserved, reserved-1y, reserved-3y."""
        return "reserved" if self.term is None else f"reserved-{self.term}"


Purchase = Annotated[OnDemandPurchase | SpotPurchase | ReservedPurchase, Field(discriminator="kind")]
