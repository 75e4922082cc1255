"""Test site overrides: looser or stricter, each with a reason, shown in every report that it touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet import burnin
from gpufleet.burnin.check_definition import load_checks
from gpufleet.burnin.override_file import parse_overrides
from gpufleet.burnin.overrides import apply_overrides
from gpufleet.burnin.readings import extract_check_metrics, list_read_checks
from gpufleet.burnin.site_metric import list_metrics
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.errors import InputError

ENTRY = {
    "check": "pi_temperature", "metric": "celsius", "instead_of": 80, "value": 60,
    "reason": "blades of this closet throttle early", "by": "Ada", "date": "2026-11-20",
}  # fmt: skip
NOTE = "(Ada, 2026-11-20: blades of this closet throttle early)"


def write(*entries):
    lines = [
        f"  {'-' if number == 0 else ' '} {key}: {value}"
        for entry in entries
        for number, (key, value) in enumerate(entry.items())
    ]
    return "\n".join(["overrides:", *lines])


def parse(*entries):
    return parse_overrides(write(*entries), "burn-in-thresholds.yaml")


def judge(records_of, overrides, kind="compute_blade", rehearsal=False):
    records = records_of({"base": kind, "change": {"pi_temperature": {"raw.text": "temp=65.0'C"}}})
    return burnin.judge_attempt(records, kind, "quick", rehearsal, overrides=overrides)


def test_stricter_override_changes_the_verdict_and_is_shown(records_of):
    assert judge(records_of, ()).verdict == "healthy"
    report = judge(records_of, parse(ENTRY))
    check = report.find_check_result("pi_temperature")
    assert (report.verdict, check.outcome, check.threshold) == ("degraded", "warn", 60)
    assert check.threshold_source.startswith("site override by Ada, 2026-11-20")
    assert check.reason.endswith(
        f"site override (stricter): celsius below 60 °C instead of below 80 °C {NOTE}"
    )


def test_looser_override_is_shown_on_a_check_that_passes(records_of):
    entry = {**ENTRY, "check": "memory", "metric": "copy_mb_per_s", "instead_of": 2080, "value": 2000}
    check = judge(records_of, parse(entry)).find_check_result("memory")
    assert check.outcome == "pass"
    assert (
        check.reason
        == f"site override (looser): copy_mb_per_s at least 2000 MB/s instead of at least 2080 MB/s {NOTE}"
    )


def test_override_can_change_the_outcome_of_a_miss(records_of):
    report = judge(records_of, parse({**ENTRY, "on_miss": "fail"}))
    assert report.verdict == "faulty"
    assert "below 60 °C, fail on a miss instead of" in report.find_check_result("pi_temperature").reason


def test_override_of_one_kind_leaves_other_kinds_alone(records_of):
    overrides = parse({**ENTRY, "kind": "pi_gpu_bench"})
    assert judge(records_of, overrides).verdict == "healthy"
    assert judge(records_of, overrides, "pi_gpu_bench").verdict == "degraded"


def test_reports_without_a_touched_check_do_not_mention_the_override(records_of):
    report = judge(records_of, parse(ENTRY))
    assert [check.name for check in report.checks if "override" in check.reason] == ["pi_temperature"]


def test_explanation_shows_the_override():
    text = burnin.format_explanation(burnin.explain_check("pi_temperature", "compute_blade", parse(ENTRY)))
    assert f"  site override (stricter): celsius below 60 °C instead of below 80 °C {NOTE}" in text


BAD = [
    ("", "must be a mapping with the key overrides"),
    ("[]", "must be a mapping"),
    ("overrides: 3", "overrides: Input should be a valid list, got 3"),
    ("overrides: [{}]", "overrides.0.check: is missing"),
    ("a: [", "burn-in-thresholds.yaml:2: is not valid YAML"),
    (write({**ENTRY, "extra": 1}), "overrides.0.extra: unknown key"),
    (write({**ENTRY, "reason": "no"}), "overrides.0.reason: String should have at least 10 characters"),
    (write({**ENTRY, "by": "''"}), "overrides.0.by: String should have at least 1 character"),
    (write({**ENTRY, "date": "2999-01-01"}), "overrides.0.date: '2999-01-01' is not a past date"),
    (write({**ENTRY, "date": "soon"}), "overrides.0.date: 'soon' is not a past date"),
    (write({**ENTRY, "value": ".inf"}), "is not a number"),
    (write({**ENTRY, "value": "'1'"}), "overrides.0.value: Input should be a valid number"),
    (write({**ENTRY, "value": 80}), "overrides.0: the override changes nothing"),
    (write({**ENTRY, "value": 86}), "celsius: never warns: below 85 °C fails first"),
    (
        write({**ENTRY, "instead_of": 81}),
        "has no bound of 81; it has: below 85 °C, below 80 °C, at least -40 °C",
    ),
    (write({**ENTRY, "metric": "kelvin"}), "pi_temperature records no metric 'kelvin'; use one of celsius"),
    (write({**ENTRY, "kind": "toaster"}), "overrides.0.kind: unknown node kind 'toaster'"),
    (write(ENTRY, ENTRY), "two overrides replace pi_temperature.celsius below 80 °C"),
    (write(ENTRY, {**ENTRY, "kind": "compute_blade"}), "two overrides replace pi_temperature.celsius"),
    (
        write(
            {
                **ENTRY,
                "check": "gpu_memory",
                "metric": "h200_sxm_read_gb_per_s",
                "instead_of": 3926,
                "value": 3.9,
            }
        ),
        "floor 3.9 GB/s is 0.08% of the peak: it can hardly fail a bad part",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_wrong_file_is_one_line(text, message):
    with pytest.raises(InputError) as caught:
        parse_overrides(text, "burn-in-thresholds.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("burn-in-thresholds.yaml")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60), st.sampled_from(sorted(ENTRY)))
def test_any_text_in_a_field_is_accepted_or_one_line(text, key):
    try:
        parse_overrides(write({**ENTRY, key: text}), "f.yaml")
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize(
    ("change", "direction"),
    [
        ({"value": 60}, "stricter"),
        ({"value": 84}, "looser"),
        ({"value": 80, "on_miss": "fail"}, "stricter"),
        ({"value": 60, "on_miss": "fail"}, "stricter"),
        ({"value": 84, "on_miss": "fail"}, "changed"),
        ({"instead_of": -40, "value": -20}, "stricter"),
        ({"instead_of": -40, "value": -50}, "looser"),
        ({"instead_of": -40, "value": -40, "on_miss": "warn"}, "looser"),
    ],
)
def test_override_says_whether_it_is_looser_or_stricter(change, direction):
    (override,) = parse({**ENTRY, **change})
    assert override.site.override.startswith(f"site override ({direction}): celsius ")


OWN = {
    "check": "nccl", "metric": "all_reduce_gb_per_s", "value": 400, "kind": "gpu_server",
    "reason": "measured on forty nodes of ours", "by": "Ada", "date": "2026-11-20",
}  # fmt: skip
CARD = {
    **OWN,
    "check": "gpu_memory",
    "metric": "copy_gb_per_s",
    "value": 850,
    "card": "NVIDIA GeForce RTX 4090",
}


def test_site_bounds_a_metric_that_no_shipped_threshold_judges():
    (override,) = parse(OWN)
    site = override.site
    assert override.shipped is None
    assert (site.bound, site.value, site.unit, site.on_miss) == ("floor", 400, "GB/s", "fail")
    assert site.override.startswith(
        "site override (added): all_reduce_gb_per_s at least 400 GB/s, fail on a miss"
    )
    rows = apply_overrides(select_thresholds("gpu_server"), (override,), "gpu_server")
    assert site in rows
    assert site not in apply_overrides(select_thresholds("cloud_vm"), (override,), "cloud_vm")
    rehearsed = select_thresholds("gpu_server", rehearsal=True)
    assert site not in apply_overrides(rehearsed, (override,), "gpu_server", rehearsal=True)


def test_every_metric_of_every_check_can_be_bounded():
    for check in load_checks():
        for metric in list_metrics(check):
            kinds = {
                row.applies_to
                for row in burnin.load_thresholds()
                if (row.check, row.metric) == (check, metric)
            }
            entry = {
                **OWN,
                "check": check,
                "metric": metric,
                "value": 1,
                "bound": "floor",
                "kind": "gpu_server",
            }
            try:
                parse(entry)
            except InputError as error:
                shipped = kinds & {"any", "gpu_server", "rehearsal"}
                assert shipped, error  # noqa: PT017 - a shipped bound of its direction, or one that contradicts it


@pytest.mark.parametrize(
    ("change", "metric"),
    [
        ({}, "geforce_rtx_4090_copy_gb_per_s"),
        ({"card": "NVIDIA A10"}, "a10_copy_gb_per_s"),
        ({"card": "a10"}, "a10_copy_gb_per_s"),
        ({"card": "NVIDIA B999", "unlisted_card": "true"}, "b999_copy_gb_per_s"),
        (
            {"check": "gpu_hip", "metric": "read_gb_per_s", "card": "AMD Instinct MI300X"},
            "mi300x_read_gb_per_s",
        ),
        ({"check": "gpu_vulkan", "card": "AMD Radeon RX 7900 XTX"}, "radeon_rx_7900_xtx_copy_gb_per_s"),
        (
            {"check": "nccl", "metric": "all_reduce_gb_per_s", "card": "NVIDIA H100 PCIe", "gpus": 2},
            "h100_pcie_x2_all_reduce_gb_per_s",
        ),
    ],
)
def test_site_bounds_one_kind_of_card(change, metric):
    (override,) = parse(
        {**CARD, **change, "value": 200 if "10" in str(change.get("card")) or change.get("gpus") else 850}
    )
    assert (override.site.metric, override.site.card in metric) == (metric, True)


def test_bound_of_a_card_is_judged_where_the_card_is(records_of):
    name = "NVIDIA GeForce RTX 4090"
    overrides = parse(CARD)

    def judge_rate(rate, card):
        change = {"raw.devices.0.name": card, "raw.devices.1.name": card, "raw.devices.0.copy_gb_per_s": rate}
        records = records_of({"base": "gpu_server", "change": {"gpu_memory": change}})
        report = burnin.judge_attempt(records, "gpu_server", "quick", overrides=overrides)
        return report.find_check_result("gpu_memory")

    assert judge_rate(900.0, name).outcome == "pass"
    result = judge_rate(700.0, name)
    assert (result.outcome, result.threshold) == ("fail", 850)
    assert "site override (added): geforce_rtx_4090_copy_gb_per_s at least 850 GB/s" in result.reason
    other = judge_rate(700.0, "NVIDIA GeForce RTX 3090")
    assert (other.outcome, "site override" in other.reason) == ("pass", False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"metric": "all_reduce_gb_s"},
            "records no metric 'all_reduce_gb_s'; did you mean all_reduce_gb_per_s",
        ),
        ({"check": "ncl"}, "overrides.0.check: unknown check 'ncl'; did you mean nccl?"),
        ({"instead_of": 0}, "has no bound of 0; no bound is shipped: leave out instead_of"),
        ({"instead_of": "''"}, "overrides.0.instead_of: Input should be a valid number"),
        ({"unit": "Gbit/s"}, "overrides.0.unit: expected GB/s, got Gbit/s"),
        ({"kind": "gpu_servers"}, "did you mean gpu_server?"),
        ({"card": "NVIDIA H100 PCI"}, "'NVIDIA H100 PCI' is not a known card; did you mean h100_pcie"),
        ({"gpus": 8}, "overrides.0.gpus: needs the key card"),
        (
            {"check": "cpu", "metric": "wrong_answers", "card": "l4"},
            "cpu records no metric 'wrong_answers' of cards",
        ),
        (
            {"check": "cpu", "metric": "load_celsius", "value": 90},
            "overrides.0.bound: is missing: load_celsius in °C may have either",
        ),
        (
            {"check": "gpu_memory", "metric": "copy_gb_per_s", "card": "h100_sxm", "value": 2800},
            "instead_of: is missing: a bound is shipped; gpu_memory.h100_sxm_copy_gb_per_s has: at least 2523 GB/s",
        ),
        (
            {
                "check": "gpu_memory",
                "metric": "read_gb_per_s",
                "card": "l4",
                "value": 400,
                "kind": "cloud_vm",
            },
            "floor 400 GB/s is 133% of the peak: no part can reach it",
        ),
        (
            {"check": "gpu_compute", "metric": "thermal_margin_c", "value": 0, "bound": "ceiling"},
            "gpu_compute.thermal_margin_c: no value is at least 1 °C and at most 0 °C",
        ),
    ],
)
def test_wrong_bound_of_ones_own_is_one_line(change, message):
    with pytest.raises(InputError) as caught:
        parse({**OWN, **change})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_bounds_of_ones_own_on_one_metric_are_refused():
    with pytest.raises(InputError, match="two overrides bound nccl"):
        parse(OWN, {**OWN, "value": 300, "on_miss": "warn"})


def test_explanation_shows_the_sites_own_bound():
    text = burnin.format_explanation(burnin.explain_check("nccl", "gpu_server", parse(OWN)))
    assert "all_reduce_gb_per_s [gpu_server]: at least 400 GB/s" in text
    assert "  on gpu_server: site override (added): all_reduce_gb_per_s at least 400 GB/s" in text


def test_each_metric_of_recorded_runs_can_be_named_in_the_file():
    folder = Path(__file__).parents[1] / "cases/burnin"
    records = [row for path in folder.glob("bases/*.json") for row in json.loads(path.read_text())["records"]]
    records += [json.loads(line) for path in folder.glob("recorded/**/*.jsonl") for line in path.open()]
    unknown = set()
    for record in records:
        check = record.get("name")
        if check not in list_read_checks() or not isinstance(record.get("raw"), dict):
            continue
        of_cards = tuple(f"_{metric}" for metric in list_metrics(check, only_cards=True))
        metrics = set(extract_check_metrics(check, record["raw"]).metrics) - set(list_metrics(check))
        unknown |= {(check, metric) for metric in metrics if not (of_cards and metric.endswith(of_cards))}
    # Lines of the kernel that mean nothing are counted and cannot be bounded.
    assert unknown <= {("gpu_xid", "recorded")}


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("H100 SXM5 80GB", "h100_sxm"),
        ("h100 sxm5 80gb", "h100_sxm"),
        ("A100 SXM4 40GB", "a100_sxm_40gb"),
        ("A100 PCIe 80GB", "a100_pcie_80gb"),
        ("GB200 (per GPU)", "gb200"),
        ("Instinct MI250X (one GCD)", "mi250x"),
        ("RTX PRO 6000 Blackwell WS", "rtx_pro_6000_workstation"),
    ],
)
def test_card_of_the_catalogue_is_the_one_that_records_have(name, card):
    """The name of a machine's page would else bound a metric that no record has."""
    entry = {key: ENTRY[key] for key in ("reason", "by", "date")} | {
        "check": "gpu_copy", "metric": "both_gb_per_s", "value": 20, "card": name, "kind": "gpu_server",
    }  # fmt: skip
    assert [override.site.card for override in parse(entry)] == [card]


@pytest.mark.parametrize("value", [0, -5])
def test_floor_that_never_fails_is_refused(value):
    entry = {key: ENTRY[key] for key in ("reason", "by", "date")}
    entry |= {"check": "nccl", "metric": "all_reduce_gb_per_s", "value": value, "kind": "gpu_server"}
    with pytest.raises(InputError, match=r"must be above 0, got .*: a rate is never below 0"):
        parse(entry)
