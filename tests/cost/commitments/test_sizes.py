from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.cost.pricing.commitments.sizes import share_of_reserved_machine


@pytest.mark.parametrize(
    ("reserved", "machine", "share"),
    [
        ("m4.xlarge", "m4.xlarge", "1"),
        ("m4.large", "m4.xlarge", "2"),  # 8 / 4
        ("c4.8xlarge", "c4.large", "0.0625"),  # 4 / 64: sixteen c4.large, as the whitepaper says
        ("p4d.24xlarge", "p4d.24xlarge", "1"),
        ("g5.xlarge", "g5.xlarge", "1"),
        ("g5.xlarge", "g5.2xlarge", None),
        ("p5.4xlarge", "p5.48xlarge", None),
        ("m4.large", "m5.large", None),
        ("m5.large", "m5.48xlarge", None),  # the guide's table lists no factor for it
        ("c5.metal", "c5.large", None),
    ],
)
def test_share_of_a_reservation_used_by_a_machine_is_computed(reserved, machine, share):
    assert share_of_reserved_machine(reserved, machine) == (None if share is None else Decimal(share))
