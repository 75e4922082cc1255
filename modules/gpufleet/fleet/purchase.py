"""How capacity is bought. Every kind has every attribute, so that readers need no isinstance.

``rungs`` are the purchases to try in order: one for a plain purchase, several for a ladder.
``tag_value`` is the purchase as tags spell it, ``price_kind`` the list price that applies.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from gpufleet.catalog import Purchase as PriceKind
from gpufleet.fleet.frozen_model import (
    FrozenModel,
    PositiveFloat,
    StrictFloat,
    StrictInt,
    build_spec_error,
)

Band = Literal["<5%", "5-10%", "10-15%", "15-20%"]
CommitmentTerm = Literal["1y", "3y"]
TERM_PRICES: dict[CommitmentTerm, PriceKind] = {"1y": "reserved_1y", "3y": "reserved_3y"}
# The prices that a purchase of each kind can have: a cloud that has none of them does not sell the kind.
PRICES_BY_KIND: dict[str, set[PriceKind]] = {
    "on_demand": {"on_demand"},
    "spot": {"spot"},
    "reserved": {"on_demand"},
    "committed": set(TERM_PRICES.values()),
    "capacity_block": {"capacity_block"},
    "flex_start": {"dws_flex"},
}
# Google, "About Flex-start VMs": between 10 minutes and 7 days.
FLEX_START_MIN_HOURS, FLEX_START_MAX_HOURS = 1 / 6, 168
# EC2 Auto Scaling, InstancesDistribution.SpotAllocationStrategy.
SpotAllocation = Literal[
    "price-capacity-optimized", "capacity-optimized", "capacity-optimized-prioritized", "lowest-price"
]


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


class _WithoutSpotKeys(FrozenModel):
    on_eviction: ClassVar[None] = None
    fallback: ClassVar[None] = None
    max_usd_per_hour: ClassVar[None] = None
    machines: ClassVar[tuple[str, ...]] = ()
    allocation: ClassVar[None] = None
    restore_minutes: ClassVar[None] = None
    work: ClassVar[None] = None


class _WithoutBlockKeys(FrozenModel):
    offering: ClassVar[None] = None
    buy: ClassVar[bool] = False


class _OneRung(FrozenModel):
    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Return the purchase itself: there is nothing else to try."""
        return (self,)  # type: ignore[return-value]  # every subclass is a Rung


class OnDemandPurchase(_WithoutSpotKeys, _WithoutBlockKeys, _OneRung):
    """Pay as you go: no commitment, no eviction, capacity if there is any."""

    kind: Literal["on_demand"]

    reservation: ClassVar[None] = None
    term: ClassVar[None] = None
    max_run_hours: ClassVar[None] = None
    price_kind: ClassVar[PriceKind] = "on_demand"
    tag_value: ClassVar[str] = "on_demand"


class SpotPurchase(_WithoutBlockKeys):
    """Spare capacity that the cloud may take back."""

    kind: Literal["spot"]
    on_eviction: Annotated[
        Literal["delete", "stop"], Field(description="what the cloud does to a node it takes back")
    ] = "delete"
    fallback: Annotated[
        Literal["on_demand"] | None,
        Field(description="what to use while there is not enough spot capacity: short for a ladder"),
    ] = None
    max_usd_per_hour: Annotated[
        PositiveFloat | None, Field(description="highest price per node; AWS and Azure only")
    ] = None
    machines: Annotated[
        tuple[str, ...],
        Field(description="other machines with the same GPUs that will do too, the preferred one first"),
    ] = ()
    allocation: Annotated[
        SpotAllocation | None,
        Field(description="AWS: how a group chooses; price-capacity-optimized when left out"),
    ] = None
    restore_minutes: Annotated[
        StrictInt | None,
        Field(ge=1, description="Azure: how long a scale set tries to restore evicted nodes"),
    ] = None
    work: Annotated[
        SpotInterruptions | None,
        Field(description="interruptions and the work that each one loses; for the cost of a useful hour"),
    ] = None

    reservation: ClassVar[None] = None
    term: ClassVar[None] = None
    max_run_hours: ClassVar[None] = None
    price_kind: ClassVar[PriceKind] = "spot"
    tag_value: ClassVar[str] = "spot"

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Return spot, and on demand after it if that is the fallback."""
        return (self,) if self.fallback is None else (self, OnDemandPurchase(kind="on_demand"))


class ReservedPurchase(_WithoutSpotKeys, _WithoutBlockKeys, _OneRung):
    """An on-demand capacity reservation. It bills around the clock, used or not."""

    kind: Literal["reserved"]
    reservation: Annotated[
        str, Field(min_length=1, description="create, or the id of a reservation that exists")
    ] = "create"
    term: Annotated[
        CommitmentTerm | None,
        Field(
            description="a commitment that the owner already has: it sets the price; gpufleet buys nothing"
        ),
    ] = None

    max_run_hours: ClassVar[None] = None

    @property
    def price_kind(self) -> PriceKind:
        """Return the price that applies: without a term, reserved capacity costs as much as on-demand."""
        return "on_demand" if self.term is None else TERM_PRICES[self.term]

    @property
    def tag_value(self) -> str:
        """Return the purchase as tags spell it: reserved, reserved-1y, reserved-3y."""
        return "reserved" if self.term is None else f"reserved-{self.term}"


class CommittedPurchase(_WithoutSpotKeys, _WithoutBlockKeys, _OneRung):
    """On-demand nodes under a billing commitment that the owner has: it sets the price and holds no capacity.

    AWS calls it Savings Plan or Reserved Instance, Google committed use, Azure reserved VM instance.
    """

    kind: Literal["committed"]
    term: Annotated[
        CommitmentTerm,
        Field(description="of the commitment that the owner already has; gpufleet buys nothing"),
    ]

    reservation: ClassVar[None] = None
    max_run_hours: ClassVar[None] = None

    @property
    def price_kind(self) -> PriceKind:
        """Return the price of the term."""
        return TERM_PRICES[self.term]

    @property
    def tag_value(self) -> str:
        """Return the purchase as tags spell it: committed-1y, committed-3y."""
        return f"committed-{self.term}"


class CapacityBlockPurchase(_WithoutSpotKeys, _OneRung):
    """A Capacity Block of AWS: capacity for some days, paid before it starts.

    The owner has it already (``reservation``), or the stack buys a pinned ``offering``.
    """

    kind: Literal["capacity_block"]
    reservation: Annotated[str | None, Field(description="the cr- id of a Capacity Block that you have")] = (
        None
    )
    offering: Annotated[str | None, Field(description="the cb- id of an offering to buy")] = None
    buy: Annotated[bool, Field(description="true: buy the offering; without it nothing is bought")] = False

    term: ClassVar[None] = None
    max_run_hours: ClassVar[None] = None
    price_kind: ClassVar[PriceKind] = "capacity_block"
    tag_value: ClassVar[str] = "capacity_block"


class FlexStartPurchase(_WithoutSpotKeys, _WithoutBlockKeys, _OneRung):
    """Flex-start of Google's Dynamic Workload Scheduler: nodes start when there is room, for a limited time."""

    kind: Literal["flex_start"]
    max_run_hours: Annotated[
        PositiveFloat, Field(description="10 minutes to 7 days, in hours; then the nodes are deleted")
    ]

    reservation: ClassVar[None] = None
    term: ClassVar[None] = None
    price_kind: ClassVar[PriceKind] = "dws_flex"
    tag_value: ClassVar[str] = "flex_start"


Rung = (
    OnDemandPurchase
    | SpotPurchase
    | ReservedPurchase
    | CommittedPurchase
    | CapacityBlockPurchase
    | FlexStartPurchase
)


class LadderPurchase(FrozenModel):
    """Several purchases, tried in order: each node is bought by the first rung that has capacity for it."""

    kind: Literal["ladder"] = "ladder"
    ladder: Annotated[
        tuple[Annotated[Rung, Field(discriminator="kind")], ...],
        Field(min_length=2, description="purchases in the order in which they are tried"),
    ]

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Return the rungs; the fallback of a spot rung is a rung of its own."""
        return tuple(dict.fromkeys(rung for purchase in self.ladder for rung in purchase.rungs))

    @property
    def spot(self) -> SpotPurchase | None:
        """Return the spot rung, None if there is none."""
        return next((rung for rung in self.ladder if isinstance(rung, SpotPurchase)), None)

    @property
    def on_eviction(self) -> Literal["delete", "stop"] | None:
        return self.spot.on_eviction if self.spot else None

    @property
    def fallback(self) -> Literal["on_demand"] | None:
        """Return on_demand if that is the last rung."""
        return "on_demand" if self.rungs[-1].kind == "on_demand" else None

    @property
    def max_usd_per_hour(self) -> float | None:
        return self.spot.max_usd_per_hour if self.spot else None

    @property
    def machines(self) -> tuple[str, ...]:
        return self.spot.machines if self.spot else ()

    @property
    def allocation(self) -> SpotAllocation | None:
        return self.spot.allocation if self.spot else None

    @property
    def restore_minutes(self) -> int | None:
        return self.spot.restore_minutes if self.spot else None

    @property
    def work(self) -> SpotInterruptions | None:
        return self.spot.work if self.spot else None

    @property
    def reservation(self) -> str | None:
        """Return the reservation of the first rung that names one."""
        return next((rung.reservation for rung in self.ladder if rung.reservation), None)

    @property
    def offering(self) -> str | None:
        return next((rung.offering for rung in self.ladder if rung.offering), None)

    @property
    def buy(self) -> bool:
        return any(rung.buy for rung in self.ladder)

    @property
    def term(self) -> CommitmentTerm | None:
        return next((rung.term for rung in self.ladder if rung.term), None)

    @property
    def max_run_hours(self) -> float | None:
        return next((rung.max_run_hours for rung in self.ladder if rung.max_run_hours), None)

    @property
    def price_kind(self) -> PriceKind:
        """Return the price of the first rung, which is the plan; later rungs are what may happen."""
        return self.ladder[0].price_kind

    @property
    def tag_value(self) -> str:
        """Return the first rung as tags spell it; resources of a later rung have that rung's own."""
        return self.ladder[0].tag_value


def _name_ladder(data: Any) -> Any:
    """Let ``{ladder: [...]}`` do without a kind; refuse one of another kind."""
    if not isinstance(data, dict) or "ladder" not in data:
        return data
    if data.get("kind", "ladder") != "ladder":
        raise build_spec_error(
            f"has kind: {data['kind']} and a ladder", "remove kind, or make it a rung of the ladder"
        )
    return {"kind": "ladder", **data}


Purchase = Annotated[
    OnDemandPurchase
    | SpotPurchase
    | ReservedPurchase
    | CommittedPurchase
    | CapacityBlockPurchase
    | FlexStartPurchase
    | LadderPurchase,
    Field(discriminator="kind"),
    BeforeValidator(_name_ladder),
]
