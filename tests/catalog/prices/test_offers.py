from __future__ import annotations

from datetime import date

import pytest

from gpufleet import catalog
from gpufleet.catalog.offer import check_accelerator_name, find_cheapest_commitments
from gpufleet.catalog.offer_filter import matches_accelerator_name
from gpufleet.catalog.prices import MachineFacts
from gpufleet.errors import InputError

from .conftest import build_row, store_rows

H100 = MachineFacts(8, 64.0, "x86_64", "H100 SXM5 80GB", 2, 80.0)


def list_offers(**options):
    return [
        (offer.machine.name, offer.region, offer.price.usd_per_hour)
        for offer in catalog.search_offers(**options)
    ]


def test_offers_are_sorted_by_machine_or_accelerator_price(store_path):
    by_machine = list(catalog.search_offers(accelerator="a100", purchase="on_demand"))
    prices = [offer.price.usd_per_hour for offer in by_machine]
    assert prices == sorted(prices)
    machines = [
        offer.usd_per_accelerator_hour
        for offer in catalog.search_offers(accelerator="a100", compare_by="accelerator")
    ]
    assert machines == sorted(machines)


def test_machines_with_attached_cards_are_offered_at_the_sum_of_their_prices():
    key = {"region": "us-central1", "purchase": "spot"}
    t4s = list(catalog.search_offers(cloud="gcp", accelerator="t4", **key))
    offers = {(each.machine.name, each.accelerator_count): each.price for each in t4s}
    host = catalog.find_machine_price("gcp", "us-central1", "n1-standard-4", "spot")
    card = catalog.find_cloud_part_price("gcp", "us-central1", "accelerator:nvidia-tesla-t4", "spot")
    for count in (1, 2, 4):
        price = offers["n1-standard-4", count]
        assert price.usd_per_hour == pytest.approx(host.usd_per_hour + count * card.usd_per_hour)
        assert (price.as_of, price.confidence) == (None, "low")  # the card's price has no date
        assert price.source == f"{host.source} + {card.source}"
    plain = list(catalog.search_offers(machine="n1-standard-4", **key))
    assert [each.accelerator_count for each in plain] == [0]
    assert find_cheapest_commitments(t4s) == {}  # there is one for the machine, none for its cards


def test_stored_and_embedded_offers_make_one_sorted_list(store):
    key = ("aws", "mars-1", "zz.large", "on_demand")
    store_rows(
        store,
        build_row(4.0, key=key, facts=H100),
        build_row(0.9, "2024-01-01"),
        build_row(1.3, "2026-11-02", source="newer"),
    )
    offers = list(catalog.search_offers(cloud="aws"))
    prices = [offer.price.usd_per_hour for offer in offers]
    assert prices == sorted(prices)
    keys = [(offer.machine.name, offer.region, offer.purchase) for offer in offers]
    assert len(keys) == len(set(keys))
    assert ("g5.2xlarge", "us-east-1", 1.3) in list_offers(machine="g5.2xlarge")
    machine = next(offer.machine for offer in offers if offer.region == "mars-1")
    assert (machine.vcpus, machine.accelerators[0].model, machine.accelerator_count) == (
        8,
        "H100 SXM5 80GB",
        2,
    )


def test_limit_gives_the_same_first_offers(store):
    store_rows(
        store,
        *(
            build_row(1 + n / 10, key=("aws", "mars-1", f"zz{n}.large", "spot"), facts=H100)
            for n in range(30)
        ),
    )
    for options in (
        {},
        {"accelerator": "h100"},
        {"count": 4, "accelerator": "h100"},
        {"compare_by": "accelerator"},
    ):
        assert list_offers(limit=7, **options) == list_offers(**options)[:7]


def test_requested_count_is_rounded_up_to_complete_machines(store_path):
    eight = next(catalog.search_offers(accelerator="h100", count=8, purchase="on_demand", region="us-east-1"))
    nine = next(catalog.search_offers(accelerator="h100", count=9, purchase="on_demand", region="us-east-1"))
    assert eight.price.usd_per_hour == pytest.approx(55.04)
    assert nine.machine.name == "p5.4xlarge"  # nine single cards are cheaper than two of eight


def test_maximum_price_applies_to_the_compared_price(store_path):
    assert max(usd for _, _, usd in list_offers(accelerator="l4", max_usd_per_hour=0.5)) <= 0.5
    assert list_offers(accelerator="h100", max_usd_per_hour=0.01) == []


def test_offers_of_a_date_exclude_later_prices(store):
    store_rows(store, build_row(1.3, "2026-11-01"), build_row(1.1, "2025-01-01", source="old"))
    options = {"machine": "g5.2xlarge", "region": "us-east-1", "purchase": "on_demand"}
    assert list_offers(**options, on_date=date(2025, 2, 1)) == [("g5.2xlarge", "us-east-1", 1.1)]
    assert list_offers(**options, on_date=date(2026, 10, 1)) == [("g5.2xlarge", "us-east-1", 1.212)]
    assert list_offers(**options) == [("g5.2xlarge", "us-east-1", 1.3)]


@pytest.mark.parametrize(
    ("query", "model", "expected"),
    [
        ("l4", "L4", True),
        ("l4", "L40S", False),
        ("H100", "H100 SXM5 80GB", True),
        ("h100", "GH200 96GB", False),
        ("a100 80gb", "A100 SXM4 80GB", True),
        ("a100-80gb", "A100-80GB", True),
        ("a100 80gb", "A100 SXM4 40GB", False),
        ("A100SXM4", "A100 SXM4 80GB", True),
        ("rtx pro 6000", "RTX PRO 6000 Blackwell Server", True),
        ("H100 SXM5 80GB", "H100 SXM5 80GB", True),
    ],
)
def test_accelerator_is_matched_by_the_words_of_its_name(query, model, expected):
    assert matches_accelerator_name(query, model) is expected


def test_unknown_accelerator_is_refused_and_known_one_without_offers_is_not(store_path):
    with pytest.raises(InputError, match="unknown accelerator 'volta 9000'"):
        check_accelerator_name("volta 9000")
    check_accelerator_name("GeForce RTX 4090")
    assert list_offers(accelerator="GeForce RTX 4090") == []


def test_spot_price_is_compared_with_the_cheapest_commitment(store_path):
    spot = list(
        catalog.search_offers(cloud="gcp", machine="a2-megagpu-16g", purchase="spot", region="europe-west4")
    )
    best = find_cheapest_commitments(spot)["gcp", "europe-west4", "a2-megagpu-16g"]
    assert (best.purchase, best.usd_per_hour < spot[0].price.usd_per_hour) == ("reserved_3y", True)
    assert find_cheapest_commitments(catalog.search_offers(cloud="gcp", purchase="on_demand", limit=3)) == {}


def test_regions_of_a_machine_include_stored_ones(store):
    store_rows(store, build_row(1.3, key=("aws", "mars-1", "g5.2xlarge", "on_demand")))
    assert "mars-1" in catalog.list_machine_regions("aws", "g5.2xlarge")


def test_comparison_by_accelerator_excludes_machines_without_one(store):
    plain = ("aws", "mars-1", "zz.plain", "on_demand")
    store_rows(store, build_row(0.1, key=plain, facts=MachineFacts(8, 64.0, "x86_64")))
    assert [name for name, *_ in list_offers(region="mars-1")] == ["zz.plain"]
    assert list_offers(region="mars-1", compare_by="accelerator") == []
