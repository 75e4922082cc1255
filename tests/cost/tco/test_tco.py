"""Test the total cost of ownership against a rented alternative, each figure with a manual calculation."""

from __future__ import annotations

from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet import fleet
from gpufleet.catalog import Price
from gpufleet.cost import PriceBook
from gpufleet.cost.analysis import tco
from gpufleet.errors import InputError

GPU_SERVER = "docs/examples/gpu-server-1.yaml"


@pytest.fixture(scope="module")
def blades(repo_root):
    return tco.compute_rack_cost(fleet.load_rack(repo_root / "inventory/blades-1.yaml"))


@pytest.fixture(scope="module")
def server(repo_root):
    return tco.compute_rack_cost(fleet.load_rack(repo_root / GPU_SERVER))


def rented_alternative(count=20, usd=0.1, purchase="on_demand", disks=0.0):
    price = Price(usd, "machine", "2026-01-19", "by hand", "high", "r", purchase)
    return tco.CloudAlternative("m", "aws", "r", purchase, count, "by hand", price, disks)


def test_size_of_the_example_rack_is_known(blades):
    assert (blades.nodes, blades.cores, blades.memory_gib) == (20, 80, 160)
    assert blades.storage_gib * 2**30 / 1e12 == pytest.approx(10)  # TB
    assert blades.purchase_price_usd == pytest.approx(3820 * 1.10)


def test_monthly_rack_cost_matches_a_manual_calculation(blades):
    # capital: 4,202 USD / 48 months = 87.5417; power: 20 * 7 W * 0.30 * 730 h / 1000 = 30.66
    assert blades.usd_per_month_by_part == pytest.approx({"capital": 87.541667, "power": 30.66})
    assert blades.total_usd_per_month == pytest.approx(118.201667)
    assert blades.running_cost_usd_per_month == pytest.approx(30.66)


def test_break_even_matches_a_manual_calculation(blades):
    comparison = tco.RackCloudComparison(blades, rented_alternative())
    # rented: 20 * 0.10 * 730 = 1,460; 4,202 / (1,460 - 30.66) = 2.9398 months
    assert comparison.cloud_usd_per_month == pytest.approx(1460)
    assert comparison.break_even_month == pytest.approx(2.939818, abs=1e-5)
    assert comparison.break_even_utilisation == pytest.approx(118.201667 / 1460)
    assert comparison.is_paid_back_within_life
    assert comparison.rack_total_usd == pytest.approx(4202 + 48 * 30.66)
    assert comparison.cloud_total_usd == pytest.approx(48 * 1460)


def test_disks_cost_the_full_month_and_machines_only_their_utilisation(blades):
    comparison = tco.RackCloudComparison(blades, rented_alternative(disks=50.0), utilisation=0.25)
    assert comparison.cloud_usd_per_month == pytest.approx(50 + 1460 / 4)
    assert comparison.break_even_utilisation == pytest.approx((118.201667 - 50) / 1460)


def test_commitment_costs_the_full_month(blades):
    comparison = tco.RackCloudComparison(blades, rented_alternative(purchase="reserved_3y"), utilisation=0.25)
    assert comparison.cloud_usd_per_month == pytest.approx(1460)
    assert comparison.break_even_utilisation is None


def test_rack_never_breaks_even_with_a_cloud_below_its_running_cost(blades):
    comparison = tco.RackCloudComparison(blades, rented_alternative(count=1, usd=0.01))
    assert comparison.break_even_month is None
    assert "never pays for itself" in tco.format_tco_table(comparison, [])


def test_break_even_after_the_end_of_life_is_reported(blades):
    # 20 * 0.005 * 730 = 73: 4,202 / (73 - 30.66) = 99.2 months, of 48
    comparison = tco.RackCloudComparison(blades, rented_alternative(usd=0.005))
    assert comparison.break_even_month == pytest.approx(99.24, abs=0.01)
    assert not comparison.is_paid_back_within_life
    assert "in month 99.2, after its 48" in tco.format_tco_table(comparison, [])


def test_residual_value_counts_only_at_the_end(server):
    rows = tco.RackCloudComparison(server, rented_alternative(count=1, usd=55.04)).cumulative_usd_by_month()
    assert rows[0] == (0, 270000, 0)
    assert rows[-1][1] == pytest.approx(rows[-2][1] - 27000)  # a tenth of 270,000
    assert [month for month, _, _ in rows] == [*range(49), 48]


def test_gpu_server_cost_matches_a_manual_calculation(server):
    # capital: 270,000 * 0.9 / 48 = 5,062.50; power: 10.2 kW * 0.8 * 1.58 * 0.30 * 730 = 2,823.5232
    # space: 8 * 47.60 = 380.80; staff: 4 * 80 = 320; maintenance: 39,800 / 12 = 3,316.666667
    assert server.usd_per_month_by_part == pytest.approx(
        {"capital": 5062.5, "power": 2823.5232, "space": 380.8, "staff": 320.0, "maintenance": 3316.666667}
    )
    cloud = tco.choose_cloud_alternative(server, tco.CloudMachineRequest("p5.48xlarge"))
    comparison = tco.RackCloudComparison(server, cloud)
    # 55.04 * 730 = 40,179.20; 270,000 / (40,179.20 - 6,840.989867) = 8.0988
    assert (cloud.count, cloud.reason) == (1, "8 x H100 SXM5 80GB")
    assert comparison.break_even_month == pytest.approx(8.0988, abs=1e-4)


def test_cheapest_equivalent_machine_is_chosen(blades):
    alternative = tco.choose_cloud_alternative(blades, tco.CloudMachineRequest(storage=False))
    assert (alternative.machine, alternative.count, alternative.price.usd_per_hour) == (
        "a1.xlarge",
        20,
        0.102,
    )
    priced = tco.find_cloud_alternatives(blades, tco.CloudMachineRequest())
    assert [cloud.usd_per_month_at_utilisation(1) for cloud in priced] == sorted(
        cloud.usd_per_month_at_utilisation(1) for cloud in priced
    )


@pytest.mark.parametrize(("machine", "count"), [("a1.xlarge", 20), ("m7g.xlarge", 20), ("g5.xlarge", 20)])
def test_cores_and_memory_determine_the_number_of_machines(blades, machine, count):
    assert (
        tco.choose_cloud_alternative(blades, tco.CloudMachineRequest(machine, usd_per_hour=1.0)).count
        == count
    )


def test_disks_are_rented_if_they_have_a_price(blades):
    def no_price(cloud, region, item, purchase):
        return None

    with_price = tco.choose_cloud_alternative(blades, tco.CloudMachineRequest("a1.xlarge"))
    assert with_price.storage_usd_per_month == pytest.approx(
        10e12 / 2**30 * 0.08, rel=1e-4
    )  # gp3, a GiB a month
    without = tco.choose_cloud_alternative(
        blades, tco.CloudMachineRequest("a1.xlarge"), PriceBook(no_price, no_price)
    )
    assert without.storage_usd_per_month == 0
    assert "are not in the cloud's figure: no price" in without.note


@pytest.mark.parametrize(
    ("cloud_request", "message"),
    [
        (
            tco.CloudMachineRequest("a1.xlarge", region="us-central1"),
            "no on_demand price of a1.xlarge in us-central1",
        ),
        (
            tco.CloudMachineRequest(region="us-central1"),
            "no on_demand price in us-central1 of a machine that does what blades-1 does",
        ),
        (tco.CloudMachineRequest(region="us-esat-1"), "'us-esat-1'; did you mean us-east-1?"),
        (tco.CloudMachineRequest("nosuch.large"), "unknown machine 'nosuch.large'"),
    ],
)
def test_impossible_comparison_is_refused(blades, cloud_request, message):
    with pytest.raises(InputError, match=message):
        tco.choose_cloud_alternative(blades, cloud_request)


def test_rack_without_cost_facts_is_refused(repo_root):
    bare = fleet.load_rack(repo_root / "inventory/blades-1.yaml").model_copy(update={"cost": None})
    with pytest.raises(InputError, match="blades-1: cost: has no cost facts"):
        tco.compute_rack_cost(bare)


def test_sensitivity_analysis_changes_one_figure_at_a_time(blades):
    cases = {
        (case.figure, case.value): case.comparison
        for case in tco.build_sensitivity_cases(tco.RackCloudComparison(blades, rented_alternative()))
    }
    dear = cases[("tariff", "0.60 USD/kWh")]
    assert dear.rack.running_cost_usd_per_month == pytest.approx(2 * 30.66)
    assert dear.rack.purchase_price_usd == pytest.approx(4202)
    assert cases[("life", "6 years")].rack.usd_per_month_by_part["capital"] == pytest.approx(4202 / 72)
    assert cases[("utilisation", "25%")].cloud_usd_per_month == pytest.approx(365)
    assert cases[("cloud price", "-50%")].break_even_month == pytest.approx(4202 / (730 - 30.66))


def test_report_lists_omitted_and_assumed_figures(blades):
    text = tco.format_tco_table(tco.RackCloudComparison(blades, rented_alternative()), [])
    missing_parts = "space, staff, network, maintenance: not declared in the rack file"
    assert f"{missing_parts}; the rack stays cheaper if they cost at most $1,341.80 a month" in text
    assert "usd_per_eur, life_years, usd_per_kwh, pue" in text


def test_json_document_has_figures_and_sources(blades):
    document = tco.build_tco_document(
        tco.RackCloudComparison(blades, rented_alternative()), [rented_alternative(usd=0.2)]
    )
    jsonschema.validate(
        document,
        {
            "type": "object",
            "required": [
                "rack",
                "own",
                "cloud",
                "break_even_month",
                "break_even_utilisation",
                "sensitivity",
                "others",
            ],
        },
    )
    assert document["own"]["usd_per_core_month"] == pytest.approx(118.201667 / 80, abs=1e-4)
    assert document["cloud"]["price"] == {"usd_per_hour": 0.1, "as_of": "2026-01-19", "source": "by hand"}
    assert len(document["others"]) == 1


def test_plot_and_page_are_complete(blades):
    comparison = tco.RackCloudComparison(blades, rented_alternative())
    drawn = tco.draw_cumulative_cost_svg(comparison)
    for texts in ("months since purchase", "cumulated cost (USD)", "own blades-1", "paid for in month 2.9"):
        assert texts in drawn
    html = tco.render_tco_html(comparison, [])
    assert drawn.split(">")[0] in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "<script" not in html


def test_plot_without_break_even_marks_no_month(blades):
    assert "paid for in month" not in tco.draw_cumulative_cost_svg(
        tco.RackCloudComparison(blades, rented_alternative(usd=0.005))
    )


@given(usd=st.floats(0.001, 10), share=st.floats(0.01, 1), years=st.integers(1, 10))
def test_both_alternatives_have_the_same_total_in_the_break_even_month(blades, usd, share, years):
    comparison = tco.RackCloudComparison(
        blades.with_changed_figures(life_years=years), rented_alternative(usd=usd), share
    )
    month = comparison.break_even_month
    if month is not None:
        bought = comparison.rack.purchase_price_usd + month * comparison.rack.running_cost_usd_per_month
        assert bought == pytest.approx(month * comparison.cloud_usd_per_month)


@given(usd=st.floats(0.001, 10), disks=st.floats(0, 100))
def test_both_alternatives_have_the_same_monthly_cost_at_break_even_utilisation(blades, usd, disks):
    comparison = tco.RackCloudComparison(blades, rented_alternative(usd=usd, disks=disks))
    share = comparison.break_even_utilisation
    if share > 0:
        at_break_even = replace(comparison, utilisation=share)
        assert at_break_even.cloud_usd_per_month == pytest.approx(blades.total_usd_per_month)


OWN_SERVER = "machine: our own server\n"
CARDS = "accelerators: [{model: H100 SXM5 80GB, count: 8}]\n"
SIZE = "hardware: {vcpus: 96, memory_gib: 1024}\n"


def own_server(tmp_path, repo_root, description):
    """Load the example server under a name that the catalogue does not have."""
    text = (repo_root / GPU_SERVER).read_text(encoding="utf-8").replace("kind: bench", "kind: servers")
    file = tmp_path / "gpu-server-1.yaml"
    file.write_text(text.replace("machine: DGX H100\n", OWN_SERVER + description), encoding="utf-8")
    return tco.compute_rack_cost(fleet.load_rack(file))


def test_own_server_is_compared_by_its_cards_without_known_cores(tmp_path, repo_root, server):
    rack = own_server(tmp_path, repo_root, CARDS)
    cloud = tco.choose_cloud_alternative(rack, tco.CloudMachineRequest())
    assert (rack.cores, rack.memory_gib) == (None, None)
    assert (cloud.machine, cloud.count, cloud.reason) == ("p5.48xlarge", 1, "8 x H100 SXM5 80GB")
    comparison = tco.RackCloudComparison(rack, cloud)
    assert comparison.break_even_month == pytest.approx(8.0988, abs=1e-4)
    assert tco.build_tco_document(comparison, [])["own"]["usd_per_core_month"] is None
    assert "PER CORE" not in tco.format_tco_table(comparison, [])
    assert "PER CORE" in tco.format_tco_table(tco.RackCloudComparison(server, cloud), [])


def test_own_server_of_unknown_size_names_the_keys_to_declare(tmp_path, repo_root):
    rack, other_cards = own_server(tmp_path, repo_root, CARDS), tco.CloudMachineRequest("p4d.24xlarge")
    with pytest.raises(InputError) as caught:
        tco.choose_cloud_alternative(rack, other_cards)
    assert str(caught.value) == (
        "gpu-server-1: p4d.24xlarge has no H100 SXM5 80GB: it is compared by cores and memory, but the rack file has"
        " no hardware.vcpus and hardware.memory_gib; declare them, or give --cloud-count"
    )
    assert tco.choose_cloud_alternative(rack, replace(other_cards, count=2)).count == 2
    sized = own_server(tmp_path, repo_root, CARDS + SIZE)
    assert (
        tco.choose_cloud_alternative(sized, other_cards).count == 1
    )  # 96 vCPUs and 1,152 GiB against 96 and 1,024


def test_own_server_without_cards_is_compared_by_declared_cores(tmp_path, repo_root):
    rack = own_server(tmp_path, repo_root, SIZE)
    # 96 / 4 = 24 machines by cores; 1,024 / 16 = 64 by memory
    assert tco.choose_cloud_alternative(rack, tco.CloudMachineRequest("m7g.xlarge")).count == 64


def test_machine_without_accelerators_of_the_price_snapshot_can_be_rented(blades):
    # m5.xlarge has 4 vCPUs and 16 GiB: 80 / 4 = 20
    assert tco.choose_cloud_alternative(blades, tco.CloudMachineRequest("m5.xlarge")).count == 20


def test_undescribed_own_server_names_the_keys_to_declare(tmp_path, repo_root):
    with pytest.raises(
        InputError, match=r"declare its accelerators, or hardware\.vcpus and hardware\.memory_gib"
    ):
        own_server(tmp_path, repo_root, "")
