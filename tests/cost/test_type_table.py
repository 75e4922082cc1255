"""Test the docs' table of priced resource types, which is written from the registry of pricers."""

from __future__ import annotations

import pytest

from gpufleet.cost.pricing.billing import load_free_resource_types
from gpufleet.cost.pricing.pricers import PRICERS
from tools import type_page


def test_docs_list_every_priced_type():
    page = type_page.format_page(PRICERS, load_free_resource_types())
    assert type_page.PAGE.read_text() == page, "run: python -m tools.type_page"


@pytest.mark.parametrize(("prefix", "least"), [("aws:", 150), ("gcp:", 30), ("azure", 50)])
def test_each_cloud_has_enough_priced_types(prefix, least):
    assert sum(type_.startswith(prefix) for type_ in PRICERS) >= least


def test_every_type_belongs_to_a_listed_cloud():
    known = tuple(prefix for prefixes in type_page.CLOUDS.values() for prefix in prefixes)
    assert [type_ for type_ in PRICERS if not type_.startswith(known)] == []
