"""Test Parquet exports that pyarrow really wrote, with the providers' column types, and hostile ones."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import parquet

from gpufleet import boundary
from gpufleet.boundary import parquet_file
from gpufleet.cost.analysis.actual import sum_billed_charges
from gpufleet.cost.inputs.bill_export import stream_billed_charges
from gpufleet.errors import InputError

START, END = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)
TIME, TAGS = pa.timestamp("ms", "UTC"), pa.map_(pa.string(), pa.string())
# AWS writes costs as doubles and tags as a map: table dictionary of FOCUS 1.0 with AWS columns.
AWS = pa.schema(
    [
        ("BilledCost", pa.float64()), ("EffectiveCost", pa.float64()), ("BillingCurrency", pa.string()),
        ("ChargeCategory", pa.string()), ("ChargePeriodStart", TIME), ("ChargePeriodEnd", TIME),
        ("ConsumedQuantity", pa.float64()), ("ConsumedUnit", pa.string()), ("ResourceId", pa.string()),
        ("ServiceCategory", pa.string()), ("ServiceName", pa.string()), ("ProviderName", pa.string()),
        ("Tags", TAGS), ("x_ServiceCode", pa.string()),
    ]
)  # fmt: skip
ROW = {
    "BilledCost": 0.1, "EffectiveCost": 748.464, "BillingCurrency": "USD", "ChargeCategory": "Usage",
    "ChargePeriodStart": START, "ChargePeriodEnd": END, "ConsumedQuantity": 744.0, "ConsumedUnit": "Hours",
    "ResourceId": "i-0a", "ServiceCategory": "Compute", "ServiceName": "EC2", "ProviderName": "AWS",
    "Tags": [("user_gpufleet_pool", "train")], "x_ServiceCode": "AmazonEC2",
}  # fmt: skip


def write(path, rows, schema=AWS, **options):
    parquet.write_table(pa.Table.from_pylist(rows, schema), path, **options)
    return path


@pytest.mark.parametrize("compression", ["snappy", "gzip", "none"])
def test_aws_export_is_read(tmp_path, compression):
    rows = [ROW, ROW | {"Tags": None, "ConsumedQuantity": None, "ResourceId": None, "EffectiveCost": None}]
    machine, other = stream_billed_charges(
        write(tmp_path / "a.snappy.parquet", rows, compression=compression)
    )
    assert (machine.cost, machine.hours, machine.machine) == (Decimal("748.464"), 744, "i-0a")
    assert (machine.start, machine.end, machine.tags) == (START, END, {"gpufleet-pool": "train"})
    assert (other.cost, other.hours, other.tags, other.column) == (Decimal("0.1"), None, {}, "BilledCost")


def test_parquet_and_csv_of_the_same_rows_are_the_same(tmp_path):
    (from_parquet,) = stream_billed_charges(write(tmp_path / "a.parquet", [ROW]))
    names = [name for name in AWS.names if name != "Tags"]
    cells = ",".join("" if ROW[name] is None else str(ROW[name]) for name in names)
    text = f'{",".join(names)},Tags\n{cells},"{{""user_gpufleet_pool"": ""train""}}"\n'
    (tmp_path / "a.csv").write_text(text)
    assert list(stream_billed_charges(tmp_path / "a.csv")) == [from_parquet]


def test_azure_cost_details_are_read(tmp_path):
    rows = [
        {
            "date": datetime(2026, 10, 2, tzinfo=UTC), "meterCategory": "Virtual Machines", "quantity": Decimal("24.0"),
            "unitOfMeasure": "1 Hour", "costInBillingCurrency": Decimal("12.620000000000"), "billingCurrency": "USD",
            "tags": '"gpufleet-pool": "serve"', "chargeType": "Usage",
        }
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    parquet.write_table(table, tmp_path / "part_0_0001.snappy.parquet")
    (row,) = stream_billed_charges(tmp_path / "part_0_0001.snappy.parquet")
    assert (row.cost, row.hours, row.tags, row.cloud) == (
        Decimal("12.62"),
        24,
        {"gpufleet-pool": "serve"},
        "azure",
    )


def test_google_export_is_read(tmp_path):
    record = {
        "service": {"id": "6F81", "description": "Compute Engine"}, "usage_start_time": START, "usage_end_time": END,
        "labels": [{"key": "gpufleet-pool", "value": "tune"}], "cost": 2.5, "currency": "USD", "cost_type": "regular",
        "credits": [{"name": "d", "amount": -0.5, "type": "DISCOUNT"}], "export_time": START,
    }  # fmt: skip
    parquet.write_table(pa.Table.from_pylist([record]), tmp_path / "g.parquet")
    (row,) = stream_billed_charges(tmp_path / "g.parquet")
    assert (row.cost, row.tags, row.service) == (2, {"gpufleet-pool": "tune"}, "Compute Engine")


def test_old_96_bit_times_are_read(tmp_path):
    path = write(tmp_path / "a.parquet", [ROW], use_deprecated_int96_timestamps=True)
    assert [row.start for row in stream_billed_charges(path)] == [START]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PAR1", "is not a readable Parquet file"),
        (b"PAR1" + b"\x00" * 100, "is not a readable Parquet file"),
        (b"PAR1\x15\x04\xff\xff\xff\x7fPAR1", "is not a readable Parquet file"),
    ],
)
def test_hostile_file_is_one_line(tmp_path, content, message):
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as excinfo:
        list(stream_billed_charges(path))
    assert "\n" not in str(excinfo.value)


def test_texts_and_tags_without_a_text_type_are_read(tmp_path):
    tags = pa.map_(pa.binary(), pa.string())
    schema = AWS.set(AWS.get_field_index("Tags"), pa.field("Tags", tags))
    schema = schema.set(schema.get_field_index("ResourceId"), pa.field("ResourceId", pa.binary()))
    path = write(
        tmp_path / "a.parquet", [ROW | {"Tags": [(b"gpufleet-pool", "x")], "ResourceId": b"i-0\xff"}], schema
    )
    (row,) = stream_billed_charges(path)
    assert (row.tags, row.resource) == ({"gpufleet-pool": "x"}, "i-0\ufffd")


@pytest.mark.parametrize("cut", [8, 100, 400])
def test_damaged_file_is_one_line(tmp_path, cut):
    path = write(tmp_path / "a.parquet", [ROW] * 50)
    content = path.read_bytes()
    path.write_bytes(content[:cut] + b"\xff" * 16 + content[cut + 16 :])
    with suppress(InputError):  # nothing else, such as an error of the library
        assert len(list(stream_billed_charges(path))) == 50


def test_row_of_another_type_names_its_place(tmp_path):
    schema = AWS.set(AWS.get_field_index("EffectiveCost"), pa.field("EffectiveCost", pa.string()))
    path = write(tmp_path / "a.parquet", [ROW | {"EffectiveCost": each} for each in ("1", "=1+1")], schema)
    with pytest.raises(InputError, match=r"a\.parquet: row 2: EffectiveCost: '=1\+1' is not an amount"):
        list(stream_billed_charges(path))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"rows": 1}, "has 2 rows of"),
        ({"columns": 3}, "has 2 rows of"),
        ({"group_bytes": 10}, "has a row group of"),
        ({"batch_bytes": 10}, "has rows of more than"),
        ({"line_bytes": 200}, "has names of columns of"),
        ({"line_bytes": 400}, "has a row of more than 400 bytes"),
    ],
)
def test_limits_are_refused_in_one_line(tmp_path, limits, message):
    path = write(tmp_path / "a.parquet", [ROW | {"ResourceId": "x" * 400}] * 2)
    fields = [*(name.lower() for name in AWS.names[:3]), "resourceid"]
    with (
        pytest.raises(InputError, match=message),
        boundary.open_parquet_file(path, fields, parquet_file.ParquetLimits(**limits)) as file,
    ):
        list(file.read_rows())


def test_batch_longer_than_a_line_is_split(tmp_path):
    rows = [ROW | {"ResourceId": f"{number:09}" * 30} for number in range(100)]
    limits = parquet_file.ParquetLimits(line_bytes=1000)
    with boundary.open_parquet_file(write(tmp_path / "a.parquet", rows), ["resourceid"], limits) as file:
        read = list(file.read_rows())
    assert [record["ResourceId"] for _, record in read] == [row["ResourceId"] for row in rows]
    assert read[-1][0].endswith("a.parquet: row 100")


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = write(tmp_path / "a.parquet", [ROW] * 6_000)
    sum_billed_charges(stream_billed_charges(path), "prod")  # imports take memory too
    tracemalloc.start()
    billed = sum_billed_charges(stream_billed_charges(path), "prod")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert billed.row_count == 6_000
    assert peak < 4_000_000


def test_command_reads_a_folder_of_parts_and_refuses_a_copy(tmp_path, gpufleet, project):
    folder = tmp_path / "export/data/BILLING_PERIOD=2026-10"
    folder.mkdir(parents=True)
    for number in (1, 2):
        write(folder / f"bill-0000{number}.snappy.parquet", [ROW] * number)
    result = gpufleet("cost", "actual", "-s", "dev", tmp_path / "export", "--json", cwd=project)
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["rows"], document["hours"], document["cost_columns"]) == (3, 744, ["EffectiveCost"])
    assert document["pools"][0]["billed_usd"] == 2245.39
    (folder / "copy.parquet").write_bytes((folder / "bill-00001.snappy.parquet").read_bytes())
    result = gpufleet("cost", "actual", "-s", "dev", tmp_path / "export", cwd=project)
    assert result.returncode == 2
    assert "copy.parquet: is a copy of" in result.stderr
