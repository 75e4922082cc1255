from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import catalog
from gpufleet.catalog import data_file
from gpufleet.catalog.prices.refresh import MissingCredentials, SourceUnavailable
from gpufleet.catalog.prices.refresh.google import (
    MACHINE_SERIES,
    GoogleBillingSource,
    machine_component_amounts,
)
from gpufleet.catalog.prices.refresh.google_sku import (
    parse_sku_components,
    parse_sku_description,
    parse_unit_usd_per_hour,
)

from .conftest import TODAY, FakeResponse, read_case
from .google_catalog_api import build_catalog_api

SKUS = read_case("gcp_skus.json")["skus"]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "a-secret-key")


def catalogue(skus, size=7):
    """Answer as the billing catalogue does for Compute Engine alone, ``size`` SKUs a page."""
    return build_catalog_api({"Compute Engine": skus}, size)


def read_region(serve, web, skus, region="us-central1"):
    fake_server = serve(catalogue(skus))
    return GoogleBillingSource(web, fake_server.base).fetch_region_prices(region, TODAY)


def find_usd_per_hour(batch, item, purchase="on_demand"):
    usd = [row.usd_per_hour for row in batch.rows if (row.item, row.purchase) == (item, purchase)]
    return usd[0] if usd else None


def test_machine_price_is_the_sum_of_its_components(start_fake_server, http_client):
    batch = read_region(start_fake_server, http_client, SKUS)
    assert find_usd_per_hour(batch, "a2-highgpu-1g") == pytest.approx(12 * 0.03161 + 85 * 0.00424 + 2.933908)
    for machine in ("a2-highgpu-1g", "a3-highgpu-1g", "a3-highgpu-8g"):
        embedded = catalog.find_machine_price("gcp", "us-central1", machine, "on_demand").usd_per_hour
        assert find_usd_per_hour(batch, machine) == pytest.approx(embedded, rel=2e-4), machine
    assert find_usd_per_hour(batch, "a3-megagpu-8g") == pytest.approx(
        93.400712807, rel=2e-4
    )  # Google's price page, 2026
    assert find_usd_per_hour(batch, "a2-highgpu-1g", "spot") == pytest.approx(1.92768, abs=1e-5)


def test_workload_scheduler_prices_are_not_on_demand(start_fake_server, http_client):
    """The mismatch that circulates: 4.20 a card (DWS) taken for on-demand's 9.80."""
    batch = read_region(start_fake_server, http_client, SKUS)
    assert find_usd_per_hour(batch, "a3-highgpu-8g") / 8 == pytest.approx(11.06, abs=0.01)
    assert find_usd_per_hour(batch, "a3-highgpu-8g", "dws_flex") / 8 == pytest.approx(
        4.200761 + 26 * 0.010934 + 234 * 0.000952 + 750 * 0.08 / 730, rel=1e-6
    )
    only_dws = [
        sku for sku in SKUS if "H100 80GB GPU" not in sku["description"] or "DWS" in sku["description"]
    ]
    batch = read_region(start_fake_server, http_client, only_dws)
    assert find_usd_per_hour(batch, "a3-highgpu-8g") is None
    assert any("a3-highgpu-8g on_demand: no SKU of card h100" in reason for reason in batch.left_out)


@pytest.mark.parametrize(
    "description",
    [
        "Reserved Nvidia H100 80GB GPU in Seoul in Calendar Mode",
        "Reserved Nvidia Tesla A100 80GB GPU in Virginia",
        "DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) in Seoul",
        "Nvidia L4 Virtual Workstation GPU running in Netherlands",
        "A2 Sole Tenancy Instance Core running in Americas",
        "N1 Sole Tenancy Premium Instance Core running in Americas",
        "G2 Custom Instance Core running in Americas",
        "Custom Instance Core running in Americas",
        "Capacity Optimized Nvidia H100 80GB GPU running in Americas",
        "Sole Tenancy Premium for A2 Instance Core running in Americas",
        "VM state: preserved local SSD",
        "C4D Local SSD in Americas",
        "Instance Core running in Americas",
        "",
    ],
)
def test_similar_sku_descriptions_are_ignored(description):
    assert parse_sku_description(description, "OnDemand") is None


@pytest.mark.parametrize(
    ("description", "usage", "expected"),
    [
        ("N1 Predefined Instance Core running in Americas", "OnDemand", ("core", "n1", "on_demand")),
        ("A3Plus Instance Ram running in Tokyo", "OnDemand", ("ram", "a3plus", "on_demand")),
        ("A3Ultra Instance Core running in Americas", "OnDemand", ("core", "a3ultra", "on_demand")),
        ("Spot Preemptible G2 Instance Ram running in Paris", "Preemptible", ("ram", "g2", "spot")),
        ("Preemptible N1 Predefined Instance Core running in Americas", "Preemptible", ("core", "n1", "spot")),
        ("DWS Defined Duration A3 Core running in Americas", "OnDemand", ("core", "a3", "dws_flex")),
        ("Commitment v1: A3 Cpu in Americas for 1 Year", "Commit1Yr", ("core", "a3", "reserved_1y")),
        ("Commitment v1: A2 Ram in Frankfurt for 3 Year", "Commit3Yr", ("ram", "a2", "reserved_3y")),
        ("Commitment v1: Cpu in Americas for 3 Years", "Commit3Yr", ("core", "n1", "reserved_3y")),
        ("Commitment v1: Nvidia L4 GPU running in Paris for 1 Year", "Commit1Yr", ("card", "l4", "reserved_1y")),
        ("Commitment v1: Local SSD In Iowa for 1 Year", "Commit1Yr", ("ssd", "", "reserved_1y")),
        ("RTX 6000 96GB running in Oregon", "OnDemand", ("card", "rtx-pro-6000", "on_demand")),
        ("SSD backed Local Storage in Bangkok", "OnDemand", ("ssd", "", "on_demand")),
        ("Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs running in Seoul", "OnDemand",
         ("card", "h100-mega", "dws_flex")),
    ],
)  # fmt: skip
def test_google_sku_descriptions_are_parsed(description, usage, expected):
    assert parse_sku_description(description, usage) == expected
    mispriced = "Preemptible" if usage != "Preemptible" else "OnDemand"
    assert parse_sku_description(description, mispriced) is None  # words and category must agree


def test_machine_with_two_prices_for_one_component_is_left_out(start_fake_server, http_client):
    other = {**SKUS[0], "pricingInfo": SKUS[3]["pricingInfo"]}
    batch = read_region(start_fake_server, http_client, [*SKUS, other])
    assert find_usd_per_hour(batch, "a2-highgpu-1g") is None
    assert "gcp us-central1 a2-highgpu-1g on_demand: two prices of core a2" in batch.left_out
    assert find_usd_per_hour(batch, "a2-highgpu-1g", "spot")


def test_machine_without_its_disk_price_is_left_out(start_fake_server, http_client):
    batch = read_region(
        start_fake_server, http_client, [sku for sku in SKUS if "Local Storage" not in sku["description"]]
    )
    assert find_usd_per_hour(batch, "a3-highgpu-8g") is None
    assert "gcp us-central1 a3-highgpu-8g on_demand: no SKU of ssd" in batch.left_out
    assert find_usd_per_hour(batch, "a2-highgpu-1g")


def test_machine_with_unknown_components_is_reported(start_fake_server, http_client):
    batch = read_region(start_fake_server, http_client, SKUS)
    assert "gcp us-central1 a3-ultragpu-8g: its components are unknown" in batch.left_out
    assert find_usd_per_hour(batch, "a3-ultragpu-8g") is None


def test_region_without_skus_has_no_prices(start_fake_server, http_client):
    assert read_region(start_fake_server, http_client, SKUS, "europe-west4").rows == ()


def test_local_ssd_is_a_part_priced_per_hour(start_fake_server, http_client):
    batch = read_region(start_fake_server, http_client, SKUS)
    (row,) = [row for row in batch.rows if (row.item, row.purchase) == ("local-ssd", "on_demand")]
    assert (row.kind, row.unit, row.usd_per_hour) == ("part", "gib", pytest.approx(0.08 / 730, rel=1e-4))


@pytest.mark.parametrize(
    "change",
    [
        {"usageUnit": "GiBy.mo"},
        {"tieredRates": []},
        {"tieredRates": [{"startUsageAmount": 0, "unitPrice": {"currencyCode": "EUR", "units": "1"}}]},
        {"tieredRates": [{"unitPrice": {"currencyCode": "USD", "units": "many"}}]},
    ],
)
def test_price_in_another_unit_or_currency_is_ignored(change):
    expression = {**SKUS[0]["pricingInfo"][0]["pricingExpression"], **change}
    assert (
        parse_unit_usd_per_hour({**SKUS[0], "pricingInfo": [{"pricingExpression": expression}]}, "h") is None
    )
    assert list(parse_sku_components({**SKUS[0], "pricingInfo": [{"pricingExpression": expression}]})) == []


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.lists(st.text(max_size=4)))


@given(
    st.dictionaries(st.sampled_from(sorted(SKUS[0])), JUNK),
    st.dictionaries(st.sampled_from(sorted(SKUS[0]["category"])), JUNK),
)
def test_skus_with_any_values_give_valid_amounts_or_none(changed, category):
    sku = {**SKUS[0], "category": {**SKUS[0]["category"], **category}, **changed}
    for region, part in parse_sku_components(sku):
        assert isinstance(region, str)
        assert part.usd >= 0


@given(st.text())
def test_any_description_is_parsed_or_ignored(description):
    for usage in ("OnDemand", "Preemptible", "Commit1Yr", "Commit3Yr"):
        component = parse_sku_description(description, usage)
        assert component is None or component[0] in {"core", "ram", "card", "ssd"}


def test_newest_price_is_used():
    sku = {**SKUS[0], "pricingInfo": [*SKUS[3]["pricingInfo"], *SKUS[0]["pricingInfo"]]}
    assert parse_unit_usd_per_hour(sku, "h") == pytest.approx(0.03161)


def test_every_google_machine_of_the_catalogue_has_known_components():
    gcp_machines = {
        name: machine for (cloud, name), machine in data_file.load_machines().items() if cloud == "gcp"
    }
    series = {name: "-".join(name.split("-")[:2]) for name in gcp_machines}
    assert set(series.values()) - set(MACHINE_SERIES) == {"a3-ultragpu", "a4-highgpu"}  # left out and said so
    for name, machine in gcp_machines.items():
        if series[name] not in MACHINE_SERIES:
            assert machine_component_amounts(name, machine) == {}
            continue
        kinds = {kind for kind, _ in machine_component_amounts(name, machine)}
        assert {"core", "ram"} <= kinds, name
        assert ("card" in kinds) == bool(machine.accelerator_count), name


def test_missing_key_is_reported_with_the_variable_to_set(monkeypatch):
    monkeypatch.delenv("GOOGLE_API_KEY")
    with pytest.raises(MissingCredentials) as excinfo:
        GoogleBillingSource().fetch_region_prices("us-central1", TODAY)
    assert "GOOGLE_API_KEY" in excinfo.value.hint


def test_refused_key_raises_missing_credentials_and_is_never_shown(start_fake_server, http_client):
    body = b'{"error": {"code": 403, "message": "API key not valid. Please pass a valid API key."}}'
    fake_server = start_fake_server(catalogue(SKUS), [FakeResponse(body, 403)])
    with pytest.raises(MissingCredentials, match="API key not valid") as excinfo:
        GoogleBillingSource(http_client, fake_server.base).fetch_region_prices("us-central1", TODAY)
    assert "a-secret-key" not in excinfo.value.message
    assert fake_server.headers[0]["X-Goog-Api-Key"] == "a-secret-key"
    assert all("a-secret-key" not in target for target in fake_server.requests)


def test_token_is_preferred_to_a_key(start_fake_server, http_client, monkeypatch):
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "a-token")
    fake_server = start_fake_server(catalogue(SKUS))
    GoogleBillingSource(http_client, fake_server.base).fetch_region_prices("us-central1", TODAY)
    assert fake_server.headers[0]["Authorization"] == "Bearer a-token"
    assert "X-Goog-Api-Key" not in fake_server.headers[0]


def test_sku_list_is_downloaded_once_for_all_regions(start_fake_server, http_client):
    fake_server = start_fake_server(catalogue(SKUS))
    source = GoogleBillingSource(http_client, fake_server.base)
    source.fetch_region_prices("us-central1", TODAY)
    requests = len(fake_server.requests)
    source.fetch_region_prices("us-east4", TODAY)
    assert len(fake_server.requests) == requests == 5  # pages: one of services, four of SKUs


def test_repeated_pages_end_the_reading(start_fake_server, http_client):
    fake_server = start_fake_server(lambda *_: {"skus": SKUS[:1], "nextPageToken": "again"})
    with pytest.raises(SourceUnavailable, match="repeats a page"):
        GoogleBillingSource(http_client, fake_server.base).fetch_region_prices("us-central1", TODAY)
    assert len(fake_server.requests) == 2


def test_number_of_pages_is_bounded(start_fake_server, http_client, monkeypatch):
    monkeypatch.setattr("gpufleet.catalog.prices.refresh.google.MAX_PAGES", 9)
    numbers = iter(range(10**6))
    fake_server = start_fake_server(lambda *_: {"skus": [], "nextPageToken": str(next(numbers))})
    with pytest.raises(SourceUnavailable, match="more than 9 pages"):
        GoogleBillingSource(http_client, fake_server.base).fetch_region_prices("us-central1", TODAY)
