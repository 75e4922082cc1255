"""Fixtures: a small valid spec, in which tests change one key at a time."""

from __future__ import annotations

import copy

import pytest

from gpufleet import fleet

POOL = {
    "name": "train",
    "cloud": "aws",
    "region": "us-east-1",
    "zones": ["us-east-1a"],
    "machine": "p4d.24xlarge",
    "count": 2,
    "purchase": {"kind": "on_demand"},
}
SPEC = {
    "owner": "ml",
    "ssh": {
        "authorized_keys": [
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
        ],
        "allowed_cidrs": ["10.0.0.0/8"],
    },
    "pools": [POOL],
    "templates": {"trainer": {"burn_in": "standard"}},
}


@pytest.fixture
def spec():
    """Give a valid spec as plain values."""
    return copy.deepcopy(SPEC)


@pytest.fixture
def parse_pool(spec, tmp_path):
    """Parse the spec after changing keys of its pool."""

    def run(**pool):
        spec["pools"][0].update(pool)
        return fleet.parse_fleet(spec, stack="test", root=tmp_path)

    return run
