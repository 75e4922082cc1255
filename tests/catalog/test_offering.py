"""Test the tables of where machines are sold, of zones and of limits."""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.catalog.data_file import load_catalog_rows, load_machines


@pytest.mark.parametrize(
    ("cloud", "machine", "region", "card", "sold"),
    [
        ("aws", "g5.xlarge", "us-east-1", None, True),
        ("aws", "g5.xlarge", "us-west-1", None, False),
        ("aws", "g5.xlarge", "us-gov-west-1", None, None),
        ("gcp", "g2-standard-8", "me-west1", None, False),
        ("gcp", "n1-standard-8", "us-east1", "T4", True),
        ("gcp", "n1-standard-8", "europe-north1", "T4", False),
        ("gcp", "n1-standard-8", "europe-north1", None, None),
        ("gcp", "a3-megagpu-8g", "us-east1", None, False),
        ("gcp", "a4-highgpu-8g", "us-central1", None, None),
        ("azure", "Standard_ND96asr_v4", "eastus2", None, False),
        ("azure", "Standard_NC4as_T4_v3", "usgovvirginia", None, True),
        ("azure", "Standard_D2s_v5", "eastus", None, None),
    ],
)
def test_machine_is_sold_where_a_source_says_so(cloud, machine, region, card, sold):
    assert catalog.is_sold_in(cloud, machine, region, card) is sold


def test_every_machine_of_the_list_exists_and_every_row_has_source_and_date():
    listed = [
        (row["cloud"], name) for row in load_catalog_rows("offered.csv") for name in row.get_words("machines")
    ]
    assert set(listed) - set(load_machines()) == set()
    assert len(set(listed)) == len(listed)
    rows = [row for name in ("offered.csv", "zones.csv", "limits.csv") for row in load_catalog_rows(name)]
    assert [row.where for row in rows if len(row["source"]) < 10 or not row["as_of"].startswith("20")] == []


@pytest.mark.parametrize("cloud", catalog.CLOUDS)
def test_zones_are_spelt_as_their_cloud_spells_them(cloud):
    regions = {region for row in load_catalog_rows("zones.csv") for region in row.get_words("regions")}
    known = {region: zones for region in regions if (zones := catalog.list_zones(cloud, region))}
    assert len(known) >= 20
    spelt = catalog.CLOUDS[cloud].is_zone_name
    assert [zone for region, zones in known.items() for zone in zones if not spelt(zone, region)] == []


def test_azure_region_without_zones_is_told_from_an_unknown_one():
    assert catalog.list_zones("azure", "westus") == ()
    assert catalog.list_zones("azure", "usgovarizona") is None


def test_limit_says_its_bounds():
    limit = catalog.find_limit("gcp", "mtu")
    assert (limit.allows(1299), limit.allows(1300), limit.allows(8896), limit.allows(8897)) == (
        False,
        True,
        True,
        False,
    )
    assert limit.text == "1,300 to 8,896"
    assert catalog.find_limit("gcp", "boot_disk_gib") is None
