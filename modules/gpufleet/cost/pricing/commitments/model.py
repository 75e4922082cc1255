"""The kinds of commitment that the clouds sell, as ``commitments.yaml`` lists them.

``usd_per_hour`` is what the commitment costs in each hour of its term, whatever was paid upfront spread over
it: per machine where it has a ``count``, in all otherwise. ``start`` is its first day, ``end`` the day on
which it no longer holds.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpufleet.cost.money import HOURS_PER_MONTH, to_decimal
from gpufleet.fleet.frozen_model import (
    FrozenModel,
    PositiveFloat,
    StrictFloat,
    StrictInt,
    build_pattern_annotations,
    build_spec_error,
)

HOURS_PER_DAY = 24
_id, _id_schema = build_pattern_annotations(
    r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,79}", "up to 80 letters, digits, _ . : / or -"
)
Id = Annotated[str, _id, _id_schema]
Count = Annotated[StrictInt, Field(gt=0)]
Paid = Annotated[StrictFloat, Field(ge=0)]
Percent = Annotated[StrictFloat, Field(gt=0, lt=100)]
Text = Annotated[str, Field(min_length=1)]


class _Commitment(FrozenModel):
    """The fields of every commitment. A lower ``rank`` is more specific and is used first."""

    id: Id
    start: date
    end: date
    source: Annotated[str, Field(min_length=3, description="where the price is from: invoice, offer, list")]

    cloud: ClassVar[str]
    rank: ClassVar[int]
    label: ClassVar[str]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.end <= self.start:
            raise build_spec_error(
                f"end {self.end} is not after start {self.start}", "give the first day after the commitment"
            )
        return self

    @property
    def term_hours(self) -> Decimal:
        """Return the hours of the whole term."""
        return Decimal((self.end - self.start).days * HOURS_PER_DAY)

    @property
    def billed_hours_per_month(self) -> Decimal:
        """Return the hours of a month in which it bills; of a window shorter than that, the window's."""
        return min(HOURS_PER_MONTH, self.term_hours)

    def is_in_force(self, on_date: date) -> bool:
        """Return whether it is in force on a day."""
        return self.start <= on_date < self.end


class _Counted(_Commitment):
    """A number of machines of one type in one region."""

    region: Text
    machine: Text
    count: Count


class _Machines(_Counted):
    """Machines with an hourly price each."""

    usd_per_hour: Annotated[Paid, Field(description="per machine")]

    @property
    def paid_usd_per_hour(self) -> Decimal:
        """Return the dollars that each hour of the term costs, used or not."""
        return to_decimal(self.usd_per_hour) * self.count


class _Dollars(_Commitment):
    """Dollars an hour, spent at discounted rates: one per machine, or one discount."""

    usd_per_hour: Annotated[PositiveFloat, Field(description="the hourly commitment, in all")]
    rates: Annotated[
        dict[str, PositiveFloat],
        Field(default_factory=dict, description="discounted USD per machine and hour, by machine"),
    ]
    discount_percent: Percent | None = None

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        if bool(self.rates) == (self.discount_percent is not None):
            raise build_spec_error(
                "needs either rates or discount_percent",
                "give one of them: rates by machine, or discount_percent",
            )
        return self

    @property
    def paid_usd_per_hour(self) -> Decimal:
        """Return the dollars that each hour of the term costs, used or not."""
        return to_decimal(self.usd_per_hour)

    def discounted_usd_per_hour(self, machine: str, on_demand: Decimal | None) -> Decimal | None:
        """Return what a machine takes of the commitment per hour; None where it is not eligible or unpriced."""
        if self.rates:
            return to_decimal(self.rates[machine]) if machine in self.rates else None
        if on_demand is None or self.discount_percent is None:
            return None
        return on_demand * (1 - to_decimal(self.discount_percent) / 100)

    def covers_machine(self, machine: str, region: str) -> bool:  # noqa: ARG002 - narrower plans look at both
        """Return whether the plan covers a machine in a region."""
        return True


class CapacityBlock(_Counted):
    """EC2 Capacity Block for ML: a window of machines, prepaid, used by instances that target it."""

    kind: Literal["capacity_block"]
    reservation: Annotated[Text, Field(description="the id that instances target: cr-...")]
    usd_total: Annotated[PositiveFloat, Field(description="prepaid, for all machines and the whole window")]

    cloud = "aws"
    rank = 0
    label = "Capacity Block"

    @property
    def paid_usd_per_hour(self) -> Decimal:
        """Return what was prepaid, spread over the window."""
        return to_decimal(self.usd_total) / self.term_hours


class ReservedInstance(_Machines):
    """EC2 Reserved Instance: zonal with a ``zone``, regional without."""

    kind: Literal["reserved_instance"]
    zone: Text | None = None
    platform: Annotated[
        Literal["linux", "other"], Field(description="size flexibility is for linux only")
    ] = "linux"

    cloud = "aws"
    rank = 1
    label = "Reserved Instance"


class AzureReservation(_Machines):
    """Azure reservation. ``ratios`` are Microsoft's, of its size flexibility group: {size: ratio}."""

    kind: Literal["azure_reservation"]
    ratios: Annotated[
        dict[str, PositiveFloat],
        Field(default_factory=dict, description="sizes that share the reservation, with their ratio"),
    ]

    cloud = "azure"
    rank = 1
    label = "Azure reservation"

    @model_validator(mode="after")
    def _own_ratio(self) -> Self:
        if self.ratios and self.machine not in self.ratios:
            raise build_spec_error(
                f"ratios do not include {self.machine}", "add the ratio of the size that was bought"
            )
        return self


class ResourceCommitment(_Commitment):
    """GCP resource-based committed use: vCPUs, memory, cards of one series, in one region."""

    kind: Literal["resource_cud"]
    region: Text
    series: Annotated[Text | None, Field(description="a2-highgpu, g2, n1: the machines it is for")] = None
    vcpus: Count | None = None
    memory_gib: PositiveFloat | None = None
    accelerator: Annotated[Text | None, Field(description="the cloud's name: nvidia-tesla-t4")] = None
    accelerators: Count | None = None
    usd_per_hour: Annotated[Paid, Field(description="of all its resources together")]

    cloud = "gcp"
    rank = 2
    label = "committed use"

    @model_validator(mode="after")
    def _commits_to_resources(self) -> Self:
        if (self.accelerator is None) != (self.accelerators is None):
            raise build_spec_error(
                "accelerator and accelerators must be given together", "give both or neither"
            )
        if self.vcpus is None and self.accelerators is None:
            raise build_spec_error(
                "has neither vcpus nor accelerators", "give vcpus and memory_gib, accelerators, or both"
            )
        if (self.vcpus is None) != (self.memory_gib is None):
            raise build_spec_error("vcpus and memory_gib must be given together", "give both or neither")
        if self.vcpus is not None and self.series is None:
            raise build_spec_error(
                "vcpus is given without series", "name the machine series that they are for"
            )
        return self

    @property
    def paid_usd_per_hour(self) -> Decimal:
        """Return the dollars that each hour of the term costs, used or not."""
        return to_decimal(self.usd_per_hour)


class InstanceSavingsPlan(_Dollars):
    """EC2 Instance Savings Plan: one family in one region, any size."""

    kind: Literal["ec2_instance_savings_plan"]
    region: Text
    family: Annotated[Text, Field(description="p5, g5")]

    cloud = "aws"
    rank = 3
    label = "EC2 Instance Savings Plan"

    def covers_machine(self, machine: str, region: str) -> bool:
        """Return whether a machine is of the plan's family, in its region."""
        return region == self.region and machine.partition(".")[0] == self.family


class ComputeSavingsPlan(_Dollars):
    """AWS Compute Savings Plan: any family, any region."""

    kind: Literal["compute_savings_plan"]

    cloud = "aws"
    rank = 4
    label = "Compute Savings Plan"


class SpendCommitment(_Dollars):
    """GCP spend-based (flexible) committed use: any region, the series that it is for."""

    kind: Literal["spend_cud"]
    series: Annotated[tuple[Text, ...], Field(min_length=1, description="eligible series: n1, n2")]

    cloud = "gcp"
    rank = 4
    label = "flexible committed use"

    def covers_machine(self, machine: str, region: str) -> bool:  # noqa: ARG002 - any region
        """Return whether a machine's series is eligible."""
        return any(machine.startswith(f"{series}-") for series in self.series)


class AzureSavingsPlan(_Dollars):
    """Azure savings plan for compute: any size, any region."""

    kind: Literal["azure_savings_plan"]

    cloud = "azure"
    rank = 4
    label = "Azure savings plan"


Commitment = (
    CapacityBlock
    | ReservedInstance
    | AzureReservation
    | ResourceCommitment
    | InstanceSavingsPlan
    | ComputeSavingsPlan
    | SpendCommitment
    | AzureSavingsPlan
)
Listed = Annotated[Commitment, Field(discriminator="kind")]


class CommitmentFile(FrozenModel):
    """The file: every commitment, each with an id of its own."""

    commitments: tuple[Listed, ...] = ()

    @model_validator(mode="after")
    def _unique(self) -> Self:
        seen: set[str] = set()
        for each in self.commitments:
            if each.id in seen:
                raise build_spec_error(f"two commitments are called {each.id}", "give each an id of its own")
            seen.add(each.id)
        return self
