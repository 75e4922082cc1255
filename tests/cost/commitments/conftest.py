"""Manual prices of machines that commitments cover."""

from __future__ import annotations

import pytest

from gpufleet.catalog import Price
from gpufleet.cost import PriceBook

US, GCP, AZURE = ("aws", "us-east-1"), ("gcp", "us-central1"), ("azure", "eastus")
ON_DEMAND = {
    (*US, "m4.large"): 0.10,
    (*US, "m4.xlarge"): 0.20,
    (*US, "c4.large"): 0.10,
    (*US, "c4.xlarge"): 0.199,
    (*US, "m3.large"): 0.133,
    (*US, "m3.xlarge"): 0.266,
    (*US, "g5.2xlarge"): 1.212,
    (*US, "p4d.24xlarge"): 21.957642,
    ("aws", "us-west-2", "p4d.24xlarge"): 22.5,
    (*GCP, "n1-standard-8"): 0.379998,
    (*GCP, "a2-highgpu-8g"): 29.38,
    (*GCP, "accelerator:nvidia-tesla-t4"): 0.35,
    (*AZURE, "Standard_NC48ads_A100_v4"): 7.346,
}
OTHER = {
    (*US, "g5.2xlarge", "spot"): 0.43632,
    (*US, "g5.2xlarge", "reserved_1y"): 0.76356,
    (*US, "p4d.24xlarge", "spot"): 16.0,
    (*US, "p4d.24xlarge", "reserved_1y"): 14.0,
    (*US, "p4d.24xlarge", "reserved_3y"): 12.0,
}


def find_fake_price(cloud, region, item, purchase):
    usd_by_key = OTHER | {(*key, "on_demand"): usd for key, usd in ON_DEMAND.items()}
    usd = usd_by_key.get((cloud, region, item, purchase))
    return usd and Price(usd, "unit", "2026-07-06", "written by hand", "high", region, purchase)


@pytest.fixture
def book():
    return PriceBook(find_fake_price, find_fake_price)
