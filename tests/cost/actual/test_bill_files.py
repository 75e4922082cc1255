"""Test folders as the providers deliver them, files given twice, archives, and cells of hostile size."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from gpufleet.cost.analysis.actual import sum_billed_charges
from gpufleet.cost.inputs.bill_export import stream_bill_files, stream_billed_charges
from gpufleet.cost.inputs.bill_folder import list_bill_files
from gpufleet.errors import InputError
from small_program import write_small_program

HEADER = "BilledCost,EffectiveCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ServiceName,Tags"
DAY = "2026-10-01T00:00:00Z,2026-10-02T00:00:00Z"


def write(path, usd=1, service="EC2", tags="", rows=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = HEADER + "\n" + f'{usd},{usd},USD,Usage,{DAY},{service},"{tags}"\n' * rows
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def sum_folder(path):
    charges = (each for file in list_bill_files([path]) for each in stream_billed_charges(file))
    return sum_billed_charges(charges, "prod").usd


def test_aws_folder_has_its_parts_of_every_period(tmp_path):
    write(tmp_path / "data/BILLING_PERIOD=2026-10/bill-00001.csv.gz", 1)
    write(tmp_path / "data/BILLING_PERIOD=2026-10/bill-00002.csv.gz", 2)
    write(tmp_path / "data/BILLING_PERIOD=2026-11/bill-00001.csv.gz", 4)
    manifest = tmp_path / "metadata/BILLING_PERIOD=2026-10/bill-Manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"dataFiles": [f"s3://b/data/bill-0000{part}.csv.gz" for part in (1, 2)]}))
    (tmp_path / "_SUCCESS").touch()
    assert sum_folder(tmp_path) == 7


def test_azure_folder_with_a_missing_part_is_refused(tmp_path):
    run = tmp_path / "20261001-20261031/4c9d"
    write(run / "part_0_0001.csv", 1)
    blobs = [{"blobName": f"exports/20261001-20261031/4c9d/part_0_000{part}.csv"} for part in (1, 2)]
    (run / "manifest.json").write_text(json.dumps({"manifestVersion": "2024-04-01", "blobs": blobs}))
    with pytest.raises(InputError, match=r"manifest\.json: part_0_0002\.csv is missing; copy all parts"):
        list_bill_files([tmp_path])
    write(run / "part_0_0002.csv", 2)
    assert sum_folder(tmp_path) == 3


@pytest.mark.parametrize("period", ["BILLING_PERIOD=2026-10", "20261001-20261031"])
def test_two_runs_of_one_period_are_refused(tmp_path, period):
    for run in ("2026-10-02T00:00:00.000Z-a", "2026-10-03T00:00:00.000Z-b"):
        write(tmp_path / period / run / "part-1.csv", len(run))
    with pytest.raises(InputError, match="has 2 runs of one export, each with all rows: 2026-10-02T"):
        list_bill_files([tmp_path])
    assert len(list_bill_files([tmp_path / period / "2026-10-03T00:00:00.000Z-b"])) == 1


@pytest.mark.parametrize(
    "given",
    [["."], ["RUN1", "RUN2"], ["RUN1/part.csv", "RUN2"], ["part2.csv", "RUN1/part.csv"], ["link", "RUN2"]],
)
def test_two_runs_are_refused_however_they_are_given(tmp_path, monkeypatch, given):
    period = tmp_path / "BILLING_PERIOD=2026-10"
    files = ["part2.csv"] if "part2.csv" in given else ["RUN1/part.csv", "RUN2/part.csv"]
    for number, name in enumerate({*files, "RUN1/part.csv"}):
        write(period / name, 10**number)
    (period / "link").symlink_to(period / "RUN1")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    monkeypatch.chdir(period)
    with pytest.raises(
        InputError, match="BILLING_PERIOD=2026-10: has 2 runs of one export, each with all rows: "
    ):
        list_bill_files([Path(each) for each in given])
    assert len(list_bill_files([Path("link"), tmp_path / "loop"])) == 2  # a link to one run is that run


def test_folder_without_exports_is_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match="has no export in it"):
        list_bill_files([tmp_path])


def test_file_given_twice_is_refused_by_any_path(tmp_path):
    one, other = write(tmp_path / "a.csv"), tmp_path / "sub/../a.csv"
    (tmp_path / "sub").mkdir()
    for second in (one, other, tmp_path):
        with pytest.raises(InputError, match=r"a\.csv: is given twice; give each file once"):
            list_bill_files([one, second])


def test_copy_of_a_file_is_refused(tmp_path):
    write(tmp_path / "a.csv")
    write(tmp_path / "b.csv")
    with pytest.raises(InputError, match=r"b\.csv: is a copy of .*a\.csv"):
        list_bill_files([tmp_path])
    write(tmp_path / "b.csv", 2)
    assert len(list_bill_files([tmp_path])) == 2


def test_hostile_manifest_is_one_line(tmp_path):
    write(tmp_path / "a.csv")
    for content in ("[1]", '{"blobs": 3}', '{"blobs": [3, {}, null]}', '{"dataFiles": {"a": 1}}'):
        (tmp_path / "manifest.json").write_text(content)
        assert len(list_bill_files([tmp_path])) == 1
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(InputError, match=r"manifest\.json"):
        list_bill_files([tmp_path])


def test_number_of_files_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("gpufleet.cost.inputs.bill_folder.MAX_FILES", 2)
    for name in "abc":
        write(tmp_path / f"{name}.csv", ord(name))
    with pytest.raises(InputError, match="has more than 2 files"):
        list_bill_files([tmp_path])


def test_zip_is_one_clear_line(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.writestr("a.csv", HEADER)
    with pytest.raises(InputError, match=r"a\.csv\.zip: is a ZIP archive; unpack it"):
        list(stream_billed_charges(tmp_path / "a.csv.zip"))


def test_focus_rows_as_json_lines_are_read(tmp_path):
    row = dict(
        zip(HEADER.split(","), ["1", "2", "USD", "Usage", *DAY.split(","), "Compute Engine"], strict=False)
    )
    row["Tags"] = [{"key": "gpufleet-pool", "value": "tune"}]
    (tmp_path / "focus.json").write_text(json.dumps(row) + "\n")
    (charge,) = stream_billed_charges(tmp_path / "focus.json")
    assert (charge.cost, charge.tags) == (2, {"gpufleet-pool": "tune"})


@pytest.mark.parametrize(
    "tags",
    [
        {"gpufleet-pool": "train", "gpufleet-stack": None},
        [{"key": "gpufleet-pool", "value": "train"}, {"key": "gpufleet-stack", "value": None}],
        {"gpufleet-pool": "train", "gpufleet-stack": ""},
    ],
)
def test_tag_without_a_value_is_no_tag(tmp_path, tags):
    row = dict(zip(HEADER.split(","), ["100", "100", "USD", "Usage", *DAY.split(",")], strict=False))
    every = [tags, {"gpufleet-pool": "train", "gpufleet-stack": "prod"}, {"gpufleet-pool": None}]
    (tmp_path / "focus.json").write_text("\n".join(json.dumps(row | {"Tags": each}) for each in every))
    billed = sum_billed_charges(stream_billed_charges(tmp_path / "focus.json"), "prod")
    assert {name: pool.usd for name, pool in billed.pools.items()} == {"train": 200}
    assert (billed.other_stacks_usd, sum(billed.untagged_usd.values())) == (0, 100)


def test_hostile_cells_are_harmless_in_the_output(tmp_path, gpufleet, project):
    write_small_program(project, "dev")
    services = ["=cmd|' /C calc'!A0", "\x1b[31mred", "##vso[task.setvariable]x", "\u202eabc"]
    paths = [write(tmp_path / f"{number}.csv", service=service) for number, service in enumerate(services)]
    for more in ([], ["--json"]):
        result = gpufleet("cost", "actual", "-s", "dev", *paths, *more, cwd=project)
        assert result.returncode == 0, result.stderr
        assert "red" in result.stdout
        assert not {"\x1b", "\u202e"} & set(result.stdout)
        assert "##vso[" not in result.stdout


def test_cell_of_ten_megabytes_is_one_line(tmp_path):
    path = write(tmp_path / "a.csv", service="x" * (10 << 20))
    with pytest.raises(InputError, match="a line of more than 1,048,576 bytes"):
        list(stream_billed_charges(path))


def test_cell_of_many_lines_is_one_line(tmp_path):
    path = write(tmp_path / "a.csv", tags=("y" * 1000 + "\n") * 1000)
    with pytest.raises(InputError, match="is not CSV: field larger than field limit"):
        list(stream_billed_charges(path))


def copy_with(path, change):
    content = change(path.read_bytes())
    target = path.with_name(f"copy-{path.name}")
    target.write_bytes(content)
    return target


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        gzip.compress,
        lambda data: data.replace(b"1,1,USD", b"1.00,1.00,USD"),
    ],
    ids=["bom", "crlf", "gzip", "digits"],
)
def test_same_rows_in_another_form_are_refused(tmp_path, change):
    path = write(tmp_path / "a.csv", rows=2)
    with pytest.raises(InputError, match=r"has the same rows as .*a\.csv; give each export once"):
        list(stream_bill_files([path, copy_with(path, change)]))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"EC2", b"S3"),
        lambda data: data.replace(b"2026-10-01", b"2026-09-30"),
        lambda data: data + data.splitlines()[-1],
    ],
    ids=["service", "period", "row"],
)
def test_files_with_other_rows_are_added(tmp_path, change):
    path = write(tmp_path / "a.csv")
    paths = [path, copy_with(path, change)]
    assert len(list(stream_bill_files(paths))) == sum(
        len(list(stream_billed_charges(each))) for each in paths
    )


def test_files_without_cost_are_not_taken_for_copies(tmp_path):
    paths = [write(tmp_path / name, usd=0) for name in ("a.csv", "b.csv")]
    assert len(list(stream_bill_files(paths))) == 2


def test_missing_file_is_named_without_the_number_of_the_error(tmp_path):
    with pytest.raises(InputError) as caught:
        list(stream_bill_files([tmp_path / "a.csv"]))
    assert str(caught.value).endswith("a.csv: cannot be read: No such file or directory")
