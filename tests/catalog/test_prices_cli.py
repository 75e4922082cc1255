"""Test ``gpufleet prices`` as a separate process: exit codes, one-line errors, JSON."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAD = "cloud,region,machine,purchase,usd_per_hour,as_of,source\n"


@pytest.fixture
def run_prices(tmp_path, clean_env):
    """Run ``gpufleet prices`` in a folder of its own, outside any project, with a store of its own."""

    def run(*arguments, stdin=None, store=True):
        if "import" not in arguments:  # an import creates it; reading a missing store is an error
            (tmp_path / "store").mkdir(exist_ok=True)
            (tmp_path / "store/prices.db").touch()
        env = clean_env | ({"GPUFLEET_PRICES": str(tmp_path / "store/prices.db")} if store else {})
        return subprocess.run(
            [sys.executable, "-m", "gpufleet", "prices", *map(str, arguments)],
            cwd=tmp_path, env=env, input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run


def one_line(done, code, message):
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().split("\n\nhint: ")[0].splitlines()) == 1, done.stderr


def test_table_is_sorted_by_price_and_marks_spot_above_a_commitment(run_prices):
    result = run_prices("--gpu", "a100", "--cloud", "gcp", "--region", "europe-west4", "--purchase", "spot")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:3] == ["machine", "accelerators", "cloud"]
    assert "! reserved_3y" in lines[1]
    assert "spot costs more than the commitment" in result.stdout


def test_json_has_price_age_and_source(run_prices):
    result = run_prices("--gpu", "h100", "--count", 16, "--purchase", "on_demand", "--limit", 2, "--json")
    document = json.loads(result.stdout)
    assert (document["currency"], document["more"], len(document["offers"])) == ("USD", True, 2)
    for offer in document["offers"]:
        assert offer["usd_per_hour_of_all"] == pytest.approx(
            offer["usd_per_hour"] * offer["machines"], abs=1e-4
        )
        assert offer["machines"] * offer["accelerators"] >= 16
        assert offer["source"]
        assert offer["age_days"] is None or offer["age_days"] > 0
    totals = [offer["usd_per_hour_of_all"] for offer in document["offers"]]
    assert totals == sorted(totals)


def test_filters_apply_and_limit_0_shows_all(run_prices):
    all_offers = json.loads(run_prices("--cloud", "azure", "--max", 1, "--limit", 0, "--json").stdout)
    assert all_offers["more"] is False
    assert {offer["cloud"] for offer in all_offers["offers"]} == {"azure"}
    assert max(offer["usd_per_hour"] for offer in all_offers["offers"]) <= 1


def test_search_without_matches_exits_with_1(run_prices):
    one_line(
        run_prices("--machine", "p5.48xlarge", "--region", "ap-south-2"), 1, "no machine with a price matches"
    )
    one_line(run_prices("--gpu", "h100", "--max", "0.01"), 1, "no machine with a price matches")
    result = run_prices("--gpu", "h100", "--max", "0.01", "--json")
    assert (result.returncode, json.loads(result.stdout)["offers"]) == (1, [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gpu", "volta 9000"), "unknown accelerator 'volta 9000'"),
        (
            ("--machine", "p4d.24xlarg"),
            "--machine: no price is known for machine 'p4d.24xlarg'; did you mean p4d.24xlarge?",
        ),
        (
            ("--machine", "m5.lrage"),
            "--machine: no price is known for machine 'm5.lrage'; did you mean m5.large?",
        ),
        (
            ("--machine", "m5.large:windws"),
            "--machine: no price is known for machine 'm5.large:windws'; did you mean m5.large:windows?",
        ),
        (
            ("--machine", "ebs:gp33"),
            "--machine: no price is known for machine 'ebs:gp33'; did you mean ebs:gp3?",
        ),
        (
            ("--region", "us-esat-1"),
            "--region: no price is known for region 'us-esat-1'; did you mean us-east-1?",
        ),
        (("--region", "East US"), "--region: no price is known for region 'East US'; did you mean eastus?"),
        (("--cloud", "AWS"), "--cloud: no price is known for cloud 'AWS'; did you mean aws?"),
        (
            ("--machine", "zz"),
            "--machine: no price is known for machine 'zz'; gpufleet prices status lists the prices",
        ),
        (("import", "none.csv"), "none.csv: cannot be read: No such file or directory"),
        (("import", "-", "--accept", "everything"), "no check has the code 'everything'"),
    ],
)
def test_mistakes_are_reported_in_one_line_and_exit_with_2(run_prices, arguments, message):
    one_line(run_prices(*arguments, stdin=HEAD), 2, message)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--purchase", "barter"), ("--count", "0"), ("--date", "soon"), ("--max", "-1"), ("--memory", "nan"),
        ("--max", "inf"), ("--date", "2999-01-01"), ("--machine", ""), ("--region", " "), ("--gpu", "%%"),
    ],
)  # fmt: skip
def test_invalid_options_are_refused_by_name(run_prices, arguments):
    result = run_prices(*arguments)
    assert result.returncode == 2
    assert arguments[0] in result.stderr


def test_imported_file_changes_the_list_and_a_second_import_changes_nothing(run_prices, tmp_path):
    file = tmp_path / "offer.csv"
    file.write_text(HEAD + "aws,us-west-2,g6.xlarge,on_demand,0.79,2026-11-01,our offer\n")
    first, second = run_prices("import", file), run_prices("import", file)
    assert "1 prices imported (0 unchanged), 0 set apart" in first.stdout
    assert "nothing changed" in second.stdout
    assert second.returncode == 0
    offers = run_prices(
        "--machine", "g6.xlarge", "--region", "us-west-2", "--purchase", "on_demand", "--json"
    )
    assert json.loads(offers.stdout)["offers"][0]["usd_per_hour"] == 0.79
    past = run_prices(
        "--machine",
        "g6.xlarge",
        "--region",
        "us-west-2",
        "--purchase",
        "on_demand",
        "--date",
        "2026-10-31",
        "--json",
    )
    assert json.loads(past.stdout)["offers"][0]["usd_per_hour"] > 0.79


def test_set_apart_prices_are_counted_by_check_and_can_be_accepted(run_prices):
    text = HEAD + "".join(
        f"aws,us-west-2,g6.xlarge,{purchase},0.80,2026-11-01,our offer\n"
        for purchase in ("on_demand", "spot")
    )
    looked = run_prices("check", "-", stdin=text)
    one_line(looked, 1, "1 suspicious prices")
    result = run_prices("import", "-", "--json", stdin=text)
    document = json.loads(result.stdout)
    assert (result.returncode, document["imported"], document["set_apart"]) == (0, 1, 1)
    assert document["findings"][0]["code"] == "spot-not-cheaper"
    assert document["findings"][0]["where"] == "standard input:3"
    accepted = run_prices("import", "-", "--accept", "spot-not-cheaper", stdin=text)
    assert "2 prices imported" in accepted.stdout
    one_line(run_prices("check"), 1, "1 suspicious prices")


def test_price_of_a_month_that_is_given_as_one_of_an_hour_names_the_columns(run_prices):
    result = run_prices(
        "import", "-", stdin=HEAD + "aws,us-east-1,ebs:gp3,on_demand,0.08,2026-11-01,our quote\n"
    )
    assert result.returncode == 1
    assert "in the median region; if it is the price of a month, give usd and per" in result.stdout
    outlier = run_prices(
        "import", "-", stdin=HEAD + "aws,us-east-1,ebs:gp3,on_demand,8,2026-11-01,our quote\n"
    )
    assert outlier.returncode == 1
    assert "in the median region\n" in outlier.stdout


def test_missing_store_is_reported_in_one_line(clean_env, tmp_path):
    for arguments in (["--gpu", "t4"], ["status"], ["check"]):
        result = subprocess.run(
            [sys.executable, "-m", "gpufleet", "prices", *arguments], cwd=tmp_path, capture_output=True, text=True,
            env=clean_env | {"GPUFLEET_PRICES": "none.db"}, timeout=60, check=False,
        )  # fmt: skip
        one_line(
            result,
            2,
            "error: GPUFLEET_PRICES=none.db: the price store does not exist; gpufleet prices import creates it",
        )
        assert not (tmp_path / "none.db").exists()


def test_empty_source_is_refused_unless_given_as_an_option(run_prices):
    text = HEAD + "aws,us-west-2,g6.xlarge,on_demand,0.8,2026-11-01,\n"
    one_line(run_prices("import", "-", stdin=text), 2, "standard input:2: source: is empty")
    assert run_prices("import", "-", "--source", "our offer", stdin=text).returncode == 0


def test_set_apart_prices_are_printed_with_the_option_to_accept_them(run_prices):
    text = HEAD + "aws,us-west-2,g6.xlrage,on_demand,0.8,2031-01-01,our offer\n"
    result = run_prices("import", "-", stdin=text)
    assert result.returncode == 1
    assert "error: no price of the file is in use" in result.stderr
    assert "1 set apart; to import them anyway: --accept future --accept unknown-machine" in result.stdout
    assert "unknown aws machine g6.xlrage; did you mean g6.xlarge?" in result.stdout


def test_refused_file_creates_no_store(run_prices, tmp_path):
    text = HEAD + "aws,us-west-2,g6.xlarge,on_demand,-1,2026-11-01,our offer\n"
    one_line(run_prices("import", "-", stdin=text), 2, "standard input:2: usd_per_hour: -1 is negative")
    assert not (tmp_path / "store").exists()


def test_status_shows_age_coverage_sources_and_set_apart_prices(run_prices):
    text = HEAD + "aws,us-west-2,g6.xlarge,on_demand,0.0,2026-11-01,our offer\n"
    run_prices("import", "-", stdin=text)
    result = run_prices("status")
    assert result.returncode == 0
    for expected in ("embedded", "days old", "on_demand", "reserved_3y", "karpenter-azure", "zero-price"):
        assert expected in result.stdout
    document = json.loads(run_prices("status", "--json").stdout)
    assert document["set_apart"] == [["zero-price", 1]]
    assert {entry["cloud"] for entry in document["coverage"]} == {"aws", "azure", "gcp"}
    assert all(0 < entry["spot"] <= entry["on_demand"] <= entry["types"] for entry in document["coverage"])
    assert document["unfinished"] == []


def test_without_a_store_status_uses_embedded_prices_and_import_is_refused(run_prices):
    result = run_prices("status", store=False)
    assert "only the embedded prices are used" in result.stdout
    one_line(
        run_prices("import", "-", stdin=HEAD + "aws,a,b,spot,1,,x1\n", store=False),
        3,
        "the price store has no location",
    )


def test_shipped_prices_pass_every_check(run_prices):
    result = run_prices("check")
    assert (result.returncode, result.stdout) == (0, "nothing found\n")


def test_broken_store_exits_with_3(run_prices, tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store/prices.db").write_text("something else entirely" * 100)
    one_line(run_prices(), 3, "is not a price store")


def test_part_price_has_its_own_period_and_its_tiers(run_prices):
    lines = run_prices(
        "--machine", "s3:standard:storage", "--region", "us-east-1", store=False
    ).stdout.splitlines()
    assert [line.split()[5:9] for line in lines[1:]] == [
        ["0", "0.023", "month", "2025-12-05"],
        ["51,200", "0.022", "month", "2026-02-23"],
        ["512,000", "0.021", "month", "2026-02-23"],
    ]
    result = run_prices("--machine", "egress:gib", "--region", "eastus", "--json", store=False)
    (part,) = json.loads(result.stdout)["parts"]
    assert (part["usd"], part["per"], part["unit"]) == (0.087, "use", "gib_sent")
    assert [tier["from_amount"] for tier in part["tiers"]] == [10_335, 51_295, 153_695]


def test_part_price_is_found_by_the_machine_option(run_prices):
    result = run_prices("--machine", "ebs:gp3", "--region", "us-east-1", store=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1].split()[:5] == ["ebs:gp3", "gib", "aws", "us-east-1", "on_demand"]
    result = run_prices("--machine", "ebs:gp3", "--region", "us-east-1", "--json", store=False)
    (part,) = json.loads(result.stdout)["parts"]
    assert (part["unit"], part["source"][:14]) == ("gib", "AWS price list")
    assert (part["usd"], part["per"], part["tiers"]) == (0.08, "month", [])
    text = HEAD.replace("machine", "part").replace("\n", ",unit\n") + (
        "aws,us-east-1,ebs:io9,on_demand,0.0002,2026-11-01,our offer,gib\n"
    )
    assert run_prices("import", "-", "--accept", "unknown-machine", stdin=text).returncode == 0
    assert "0.0002" in run_prices("--machine", "ebs:io9").stdout
