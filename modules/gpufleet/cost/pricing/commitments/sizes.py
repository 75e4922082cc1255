"""Size flexibility: how one reservation covers other sizes of its family.

AWS: the EC2 User Guide, "How Reserved Instances are applied" (github.com/awsdocs/amazon-ec2-user-guide,
doc_source/apply_ri.md at 0965564, read 2026-11-21). A regional Linux reservation with default tenancy covers
any size of its family, the smallest first, in proportion to the sizes' normalisation factors. The guide's
current wording excludes the families below; most GPU families are among them. A size without
a factor is not flexible.
"""

from __future__ import annotations

from decimal import Decimal

# size -> factor, as the guide's table lists them. Sizes it does not list (48xlarge, metal) have no factor here.
FACTORS = {
    "nano": Decimal("0.25"),
    "micro": Decimal("0.5"),
    "small": Decimal(1),
    "medium": Decimal(2),
    "large": Decimal(4),
    "xlarge": Decimal(8),
    "2xlarge": Decimal(16),
    "3xlarge": Decimal(24),
    "4xlarge": Decimal(32),
    "6xlarge": Decimal(48),
    "8xlarge": Decimal(64),
    "9xlarge": Decimal(72),
    "10xlarge": Decimal(80),
    "12xlarge": Decimal(96),
    "16xlarge": Decimal(128),
    "18xlarge": Decimal(144),
    "24xlarge": Decimal(192),
    "32xlarge": Decimal(256),
    "56xlarge": Decimal(448),
    "112xlarge": Decimal(896),
}

# A later wording of the same page, as a public file quotes it (read 2026-11-21).
NOT_FLEXIBLE = frozenset(
    "g4ad g4dn g5 g5g g6 g6e g6f gr6 gr6f hpc7a p5 inf1 inf2 u7i-6tb u7i-8tb".split()  # noqa: SIM905 - legible
)


def normalization_factor(machine: str) -> Decimal | None:
    """Return a size's normalisation factor; None if its family or size is not flexible."""
    family, _, size = machine.partition(".")
    return None if family in NOT_FLEXIBLE else FACTORS.get(size)


def share_of_reserved_machine(reserved: str, machine: str) -> Decimal | None:
    """Return how much of one reserved machine another one uses; None if it cannot use it."""
    if reserved == machine:
        return Decimal(1)
    if reserved.partition(".")[0] != machine.partition(".")[0]:
        return None
    reserved_factor, machine_factor = normalization_factor(reserved), normalization_factor(machine)
    return None if reserved_factor is None or machine_factor is None else machine_factor / reserved_factor
