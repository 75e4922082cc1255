from __future__ import annotations

import json
import zipfile

import pytest

from gpufleet import catalog
from gpufleet.catalog.prices import MachineFacts, PriceStore
from gpufleet.catalog.prices.imports import (
    FORMATS,
    PriceOrigin,
    check_finding_codes,
    import_prices,
    load_price_file,
)
from gpufleet.errors import InputError
from tools.price_lists import FOLDER, read_price_list


def load_rows(path, **more):
    return {
        (row.region, row.item, row.purchase, row.upfront): row for row in load_price_file(path, **more).rows
    }


def test_skypilot_aws_price_is_the_median_of_zones_with_a_spot_market(cases_folder):
    rows_by_key = load_rows(cases_folder / "skypilot-aws.csv")
    assert (
        rows_by_key["us-east-2", "a1.2xlarge", "spot", "none"].usd_per_hour == 0.1056
    )  # the other zone asks 99 %
    assert (
        rows_by_key["us-east-1", "a1.2xlarge", "spot", "none"].usd_per_hour == 0.204
    )  # no zone has a market
    assert (
        rows_by_key["ap-east-1", "m6g.2xlarge", "spot", "none"].usd_per_hour == 0.08
    )  # without the tenth of 0.424
    assert rows_by_key["af-south-1", "m6g.4xlarge", "spot", "none"].usd_per_hour == 0.1703
    assert rows_by_key["us-east-1", "p4d.24xlarge", "on_demand", "none"].facts == MachineFacts(
        96, 1152.0, "x86_64", "A100 SXM4 40GB", 8
    )
    assert {row.cloud for row in rows_by_key.values()} == {"aws"}
    assert ("us-east-1", "p4d.24xlarge", "spot", "none") not in rows_by_key


def test_suspicious_skypilot_aws_prices_are_set_apart(store, cases_folder):
    summary = import_prices(store, load_price_file(cases_folder / "skypilot-aws.csv"))
    set_apart = {(finding.code, finding.row.item, finding.row.region) for finding in summary.findings}
    assert set_apart == {("spot-not-cheaper", "a1.2xlarge", "us-east-1")}
    assert summary.set_apart == 1


def test_skypilot_gcp_price_is_the_sum_of_host_and_cards(cases_folder):
    rows_by_key = load_rows(cases_folder / "skypilot-gcp.csv")
    complete_machine = rows_by_key["us-central1", "g2-standard-48", "on_demand", "none"]
    assert complete_machine.usd_per_hour == pytest.approx(1.76066 + 2.24016)
    assert complete_machine.facts == MachineFacts(48, 192.0, "x86_64", "L4", 4, 24)
    assert rows_by_key["us-central1", "g2-standard-48", "spot", "none"].usd_per_hour == pytest.approx(
        0.7 + 0.8924
    )
    card = rows_by_key["us-central1", "accelerator:nvidia-tesla-p100", "on_demand", "none"]
    assert (card.usd_per_hour, card.kind, card.unit) == (1.46, "part", "accelerator")
    tpu = rows_by_key["us-central1", "tpu-v6e-8", "on_demand", "none"]
    assert (tpu.facts.accelerator, tpu.facts.accelerators) == ("TPU v6e", 8)
    assert rows_by_key["us-central1", "a2-highgpu-1g", "on_demand", "none"].usd_per_hour == 0.73948


def test_skypilot_gcp_prices_without_cards_and_placeholders_are_set_apart(store, cases_folder):
    summary = import_prices(store, load_price_file(cases_folder / "skypilot-gcp.csv"))
    findings = {(finding.code, finding.row.item, finding.row.purchase) for finding in summary.findings}
    assert {
        ("host-only", "a2-highgpu-1g", "on_demand"),
        ("host-only", "a2-highgpu-1g", "spot"),
        ("sentinel", "tpu-v6e-8", "on_demand"),
        ("sentinel", "tpu-v6e-8", "spot"),
    } <= findings
    assert catalog.find_machine_price("gcp", "us-central1", "a2-highgpu-1g", "on_demand").usd_per_hour > 3


def test_skypilot_azure_file_is_recognised_by_its_regions(cases_folder):
    rows_by_key = load_rows(cases_folder / "skypilot-azure.csv")
    assert {row.cloud for row in rows_by_key.values()} == {"azure"}
    assert rows_by_key["eastus", "Basic_A0", "spot", "none"].usd_per_hour == 0.0126
    assert ("eastus", "Standard_B12ms", "spot", "none") not in rows_by_key


def test_skypilot_file_without_a_recognisable_cloud_asks_for_it(tmp_path):
    head = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region"
    file = tmp_path / "vms.csv"
    file.write_text(f"{head}\nbox,,,1,1,0.1,,EU WEST 1\n")
    with pytest.raises(InputError, match=r"does not state its cloud.*give --cloud"):
        load_price_file(file)
    assert load_price_file(file, origin=PriceOrigin(cloud="lambda")).rows[0].cloud == "lambda"
    (tmp_path / "aws").mkdir()
    file.rename(tmp_path / "aws/vms.csv")
    assert load_price_file(tmp_path / "aws/vms.csv").rows[0].cloud == "aws"


def test_gpuhunt_csv_needs_a_cloud_unless_the_file_name_has_it(cases_folder, tmp_path):
    rows_by_key = load_rows(
        cases_folder / "gpuhunt-aws.csv", origin=PriceOrigin(cloud="aws", as_of="2026-11-01")
    )
    assert rows_by_key["us-east-1", "g5.2xlarge", "spot", "none"].usd_per_hour == 0.51
    assert rows_by_key["us-east-1", "c6g.large", "on_demand", "none"].facts == MachineFacts(2, 4.0, "arm64")
    assert {row.as_of for row in rows_by_key.values()} == {"2026-11-01"}
    named = tmp_path / "aws.csv"
    named.write_bytes((cases_folder / "gpuhunt-aws.csv").read_bytes())
    assert {row.cloud for row in load_price_file(named).rows} == {"aws"}
    with pytest.raises(InputError, match="does not state its cloud"):
        load_price_file(cases_folder / "gpuhunt-aws.csv")


def test_gpuhunt_json_merges_zones_and_leaves_out_attached_cards(cases_folder):
    rows_by_key = load_rows(cases_folder / "gpuhunt-gcp.json")
    assert rows_by_key["us-central1", "g2-standard-4", "on_demand", "none"].usd_per_hour == pytest.approx(
        0.71
    )
    assert rows_by_key["us-central1", "n1-standard-8", "on_demand", "none"].usd_per_hour == 0.38
    assert rows_by_key["us-central1", "n1-standard-8+1xT4", "on_demand", "none"].usd_per_hour == 0.73


def test_gpuhunt_zip_archive_is_read(cases_folder, tmp_path):
    archive = tmp_path / "catalog.zip"
    with zipfile.ZipFile(archive, "w") as archive_content:
        archive_content.write(cases_folder / "gpuhunt-aws.csv", "aws.csv")
        archive_content.writestr("version", "1")
    price_rows = load_price_file(archive).rows
    assert (len(price_rows), price_rows[0].cloud) == (4, "aws")
    assert price_rows[0].where.endswith("catalog.zip!aws.csv:2")


def test_files_written_by_gpuhunt_are_read(tmp_path):
    storage = pytest.importorskip("gpuhunt._internal.storage")
    from gpuhunt import AcceleratorVendor, CatalogItem

    item = CatalogItem(
        provider="aws", instance_name="p5.48xlarge", location="us-east-1", price=55.04, cpu=192, memory=2048.0,
        gpu_count=8, gpu_name="H100", gpu_memory=80.0, spot=False, disk_size=None,
        gpu_vendor=AcceleratorVendor.NVIDIA,
    )  # fmt: skip
    storage.dump([item], str(tmp_path / "aws.csv"))
    row = load_price_file(tmp_path / "aws.csv").rows[0]
    assert (row.price_key, row.usd_per_hour) == (("aws", "us-east-1", "p5.48xlarge", "on_demand"), 55.04)
    assert row.facts == MachineFacts(192, 2048.0, "x86_64", "H100 SXM5 80GB", 8, 80.0)


def test_plain_csv_supports_months_parts_and_purchase_kinds(cases_folder, store):
    rows_by_key = load_rows(cases_folder / "plain.csv")
    assert rows_by_key["us-east-1", "g5.2xlarge", "on_demand", "none"].usd_per_hour == pytest.approx(1.212)
    assert rows_by_key["us-east-1", "g5.2xlarge", "savings_plan_3y", "none"].usd_per_hour == 0.5
    assert rows_by_key["us-east-1", "g5.2xlarge", "reserved_1y", "all"].upfront_usd == 6132
    assert rows_by_key["us-east-1", "nat_gateway:gib", "on_demand", "none"].usd_per_hour == 0.04
    assert rows_by_key["us-east-1", "ebs:gp3", "on_demand", "none"].kind == "part"
    assert (
        rows_by_key["us-central1", "accelerator:nvidia-tesla-t4", "on_demand", "none"].unit == "accelerator"
    )
    assert import_prices(store, load_price_file(cases_folder / "plain.csv")).imported == 7
    assert catalog.find_cloud_part_price("aws", "us-east-1", "ebs:gp3").usd_per_hour * 730 == pytest.approx(
        0.07
    )
    assert catalog.find_machine_price("aws", "us-east-1", "g5.2xlarge", "reserved_1y").usd_per_hour == 0.75


def test_reviewed_price_lists_can_be_imported(store_path):
    for name in ("prices.csv", "parts.csv"):
        with PriceStore(store_path) as store:
            summary = import_prices(store, load_price_file(FOLDER / name))
        assert (summary.set_apart, summary.imported) == (0, len(read_price_list(name)))
    assert catalog.find_machine_price("aws", "us-east-1", "g5.2xlarge", "on_demand").usd_per_hour == 1.212


HEAD = "cloud,region,machine,purchase,usd_per_hour,as_of,source\n"
GOOD = "aws,us-east-1,g5.2xlarge,on_demand,1.3,2026-11-01,x1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no rows|is not CSV"),
        (HEAD, "contains no rows"),
        ("just words\n", r"prices.csv:1: is not CSV"),
        ("a,b\n1,2\n", r"prices.csv:1: is not a known price catalogue; it needs cloud, region"),
        (HEAD.replace(",usd_per_hour", "") + "a,b,c,spot,d,e\n", r"prices.csv:1: no column usd_per_hour"),
        (HEAD + GOOD + GOOD.replace("1.3", "-1.3"), r"prices.csv:3: usd_per_hour: -1.3 is negative"),
        (HEAD + GOOD.replace("1.3", "cheap"), r"prices.csv:2: usd_per_hour: 'cheap' is not a number"),
        (HEAD + GOOD.replace("1.3", "inf"), r"prices.csv:2: usd_per_hour: 'inf' is not a number"),
        (HEAD + GOOD.replace("1.3", ""), r"prices.csv:2: usd_per_hour: is empty"),
        (HEAD + GOOD.replace("us-east-1", ""), r"prices.csv:2: region: is empty"),
        (HEAD + GOOD.replace("on_demand", "barter"), r"prices.csv:2: unknown purchase 'barter'"),
        (HEAD + GOOD.replace("2026-11-01", "01.11.2026"), r"prices.csv:2: as_of: '01.11.2026' is not a date"),
        (HEAD + GOOD.strip() + ",too,many\n", r"prices.csv:2: has \d+ fields, the header has \d+"),
        (HEAD.replace("source", "unit") + GOOD.replace("x1", "gib"), r"prices.csv:2: unit: unknown 'gib'"),
        (HEAD.replace("usd_per_hour", "usd,per") + GOOD.replace("1.3", "1.3,week"), r"per: unknown 'week'"),
        ("InstanceType,Price,SpotPrice,Region\na,1,1,us-east-1\n", r"no column AcceleratorName"),
        ("[1, 2]", "is not a list of offers"),
        ("[{]", r"prices.csv:1: is not JSON"),
        ('[{"instance_name": "a", "location": "b", "price": 1, "spot": "maybe"}]', "no column cpu"),
    ],
)
def test_invalid_file_is_refused_in_one_line_with_its_place(tmp_path, text, message):
    file = tmp_path / "prices.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as excinfo:
        load_price_file(file)
    assert "\n" not in str(excinfo.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00bytes!", b"a,b\n\0,1\n"])
def test_binary_file_is_refused(tmp_path, content):
    (tmp_path / "picture.png").write_bytes(content)
    with pytest.raises(InputError, match=r"is not UTF-8 text|NUL"):
        load_price_file(tmp_path / "picture.png")


def test_folder_and_missing_file_are_refused(tmp_path):
    with pytest.raises(InputError, match="Is a directory"):
        load_price_file(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        load_price_file(tmp_path / "none.csv")


def test_formats_are_listed_and_unknown_finding_codes_refused():
    assert FORMATS == ("auto", "skypilot", "gpuhunt", "plain")
    with pytest.raises(InputError, match="no check has the code 'all'"):
        check_finding_codes(["jump", "all"])


def test_windows_line_endings_and_byte_order_mark_are_accepted(tmp_path):
    (tmp_path / "unix.csv").write_text(HEAD + GOOD)
    (tmp_path / "windows.csv").write_bytes(b"\xef\xbb\xbf" + (HEAD + GOOD).replace("\n", "\r\n").encode())
    assert [row.price_key for row in load_price_file(tmp_path / "unix.csv").rows] == [
        row.price_key for row in load_price_file(tmp_path / "windows.csv").rows
    ]


def test_json_with_a_nested_list_is_read(cases_folder, tmp_path):
    inner = json.loads((cases_folder / "gpuhunt-gcp.json").read_text())
    (tmp_path / "gcp.json").write_text(json.dumps({"items": inner}))
    assert len(load_price_file(tmp_path / "gcp.json").rows) == 3


@pytest.mark.parametrize(
    "name", ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(A1)", "p4d\x1b[2J", "p4d\u202e", "p4d\u200b"]
)
@pytest.mark.parametrize("column", ["machine", "region", "source"])
def test_formula_or_escape_sequence_in_a_name_is_refused_with_its_place(tmp_path, column, name):
    columns = HEAD.strip().split(",")
    row = dict(zip(columns, GOOD.strip().split(","), strict=True)) | {column: f'"{name}"'}
    path = tmp_path / "prices.csv"
    path.write_text(HEAD + GOOD + ",".join(row.values()) + "\n")
    with pytest.raises(
        InputError,
        match=rf"prices\.csv:3: {column}: .* (is a spreadsheet formula|contains a control character)",
    ) as excinfo:
        load_price_file(path)
    assert str(excinfo.value).isprintable()


def test_formula_in_json_is_refused_with_its_place(tmp_path):
    offer = {"cloud": "aws", "region": "us-east-1", "machine": "=A1", "purchase": "spot", "usd_per_hour": 1}
    path = tmp_path / "prices.json"
    path.write_text(json.dumps([offer | {"source": "x"}]))
    with pytest.raises(InputError, match=r"prices\.json\[0\]: machine: '=A1' is a spreadsheet formula"):
        load_price_file(path)


ORDINARY = "cloud,region,machine,purchase,usd_per_hour,as_of,source,vcpus,memory_gib\n"


def import_text(store, tmp_path, text):
    path = tmp_path / "offer.csv"
    path.write_text(text)
    return import_prices(store, load_price_file(path))


def test_ordinary_machine_with_its_size_is_imported(store, tmp_path):
    text = f"{ORDINARY}aws,us-east-1,zz9.large,on_demand,0.1,2026-11-01,our offer,2,8\n"
    summary = import_text(store, tmp_path, text)
    assert (summary.imported, summary.findings) == (1, ())
    assert catalog.find_machine_price("aws", "us-east-1", "zz9.large", "on_demand").usd_per_hour == 0.1


def test_known_machine_with_a_licence_needs_no_size(store, tmp_path):
    import_text(
        store, tmp_path, f"{ORDINARY}aws,us-east-1,zz9.large,on_demand,0.1,2026-11-01,our offer,2,8\n"
    )
    licensed = f"{ORDINARY}aws,us-east-1,zz9.large:windows,on_demand,0.192,2026-11-01,our offer,,\n"
    assert import_text(store, tmp_path, licensed).findings == ()


def test_ordinary_machine_at_ten_times_its_price_is_set_apart(store, tmp_path):
    rows = "".join(
        f"aws,us-east-1,zz9.{name},on_demand,{usd},2026-11-01,our offer,{vcpus},{4 * vcpus}\n"
        for name, vcpus, usd in (("large", 2, 0.1), ("xlarge", 4, 0.2), ("2xlarge", 8, 4.0))
    )
    summary = import_text(store, tmp_path, f"{ORDINARY}{rows}")
    assert {(finding.code, finding.row.item) for finding in summary.findings} == {
        ("unit-price", "zz9.2xlarge"),
        ("family-outlier", "zz9.2xlarge"),
    }
    assert catalog.find_machine_price("aws", "us-east-1", "zz9.2xlarge", "on_demand") is None


def test_size_alone_does_not_describe_an_accelerated_machine(store, tmp_path):
    """The file does not say that g5.xlarge has no GPU: the catalogue knows one."""
    text = f"{ORDINARY}aws,us-east-1,g5.xlarge,on_demand,1.006,2026-11-01,our offer,4,16\n"
    assert import_text(store, tmp_path, text).findings == ()


def test_control_characters_in_a_machine_name_refuse_the_file(store, tmp_path):
    with pytest.raises(InputError, match="control character"):
        import_text(store, tmp_path, f"{ORDINARY}aws,us-east-1,zz\x1b[2J,on_demand,0.1,2026-11-01,x,2,8\n")


@pytest.mark.parametrize(
    ("place", "machine", "usd"),
    [
        ("aws,us-east-1", "t3.medium", 0.0416),
        ("aws,eu-west-1", "m5.large:windows", 0.199),
        ("gcp,us-central1", "e2-standard-4", 0.134),
        ("azure,eastus", "Standard_D4s_v5", 0.192),
        ("aws,us-east-1", "inf2.xlarge", 0.7582),  # known by its embedded price only
    ],
)
def test_known_ordinary_machine_is_imported_without_facts(store, tmp_path, place, machine, usd):
    """Issue 14, "wrong today" 8: it was set aside as an unknown machine."""
    head = "cloud,region,machine,purchase,usd_per_hour,as_of,source\n"
    summary = import_text(store, tmp_path, f"{head}{place},{machine},on_demand,{usd},2026-11-01,our offer\n")
    assert (summary.imported, summary.findings) == (1, ())
    assert catalog.find_machine_price(*place.split(","), machine, "on_demand").source == "our offer"


def test_known_ordinary_machine_at_a_wrong_price_is_set_apart(store, tmp_path):
    head = "cloud,region,machine,purchase,usd_per_hour,as_of,source\n"
    row = "aws,us-east-1,t3.medium,{},{},2026-11-01,our offer\n"
    summary = import_text(store, tmp_path, head + row.format("on_demand", 4.16) + row.format("spot", 0.05))
    codes = {(finding.code, finding.row.purchase) for finding in summary.findings}
    assert codes == {("jump", "on_demand"), ("unit-price", "on_demand"), ("spot-not-cheaper", "spot")}
    assert (
        summary.imported == 0
    )  # the wrong on-demand price does not make a spot price above 0.0416 plausible
