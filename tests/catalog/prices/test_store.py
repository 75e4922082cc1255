from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from datetime import date
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpufleet import catalog
from gpufleet.catalog.prices import PriceStore, schema
from gpufleet.catalog.prices.imports import import_prices, load_price_file
from gpufleet.catalog.prices.report import format_store_status
from gpufleet.catalog.prices.status import read_price_store_status
from gpufleet.errors import EnvironmentFault, InputError

from .conftest import KEY, build_row, store_rows

EMBEDDED = 1.212
NUMBERS = count()


def test_embedded_price_is_used_without_a_store(store_path, monkeypatch):
    store_path.unlink()
    with pytest.raises(InputError, match="the price store does not exist; gpufleet prices import creates it"):
        catalog.find_machine_price(*KEY)  # a mistyped path must not fall back to old prices
    monkeypatch.setenv("GPUFLEET_PRICES", "embedded")
    assert catalog.find_machine_price(*KEY).usd_per_hour == EMBEDDED
    assert not store_path.exists()


def test_damaged_store_is_reported_in_one_line(store, store_path):
    store_rows(store, build_row(1.3))
    store.close_connection()
    content = bytearray(store_path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)  # its first page, with the tables' names, is whole
    store_path.write_bytes(content)
    with pytest.raises(EnvironmentFault, match=r"prices.db is damaged: .*malformed"):
        catalog.find_machine_price(*KEY)
    with PriceStore(store_path) as broken, pytest.raises(EnvironmentFault, match="is damaged"):
        store_rows(broken, build_row(1.4), key="2")


def test_price_of_a_future_date_is_set_apart_and_not_used_for_comparison(store):
    late = store_rows(store, build_row(1.3, "2031-01-01"))
    assert ([finding.code for finding in late.findings], late.imported) == (["future"], 0)
    store_rows(store, build_row(1.3, "2031-01-01"), key="2", accept=["future"])
    jumped = store_rows(store, build_row(9.0, "2026-11-05"), key="3")
    assert [finding.code for finding in jumped.findings] == ["jump"]


def test_status_never_reports_a_negative_age(store):
    store_rows(store, build_row(1.3, "2031-01-01"), accept=["future"])
    status = read_price_store_status()
    assert status.newest_price_age_days(date(2026, 11, 21)) >= 0
    assert "WARNING   prices dated in the future (up to 2031-01-01)" in format_store_status(
        status, date(2026, 11, 21)
    )


@pytest.mark.parametrize(
    ("key", "code", "reason"),
    [
        (("awz", *KEY[1:]), "unknown-cloud", "unknown cloud awz; did you mean aws?"),
        (
            ("aws", "eu-centrall-1", *KEY[2:]),
            "unknown-region",
            "unknown aws region eu-centrall-1; did you mean eu-central-1?",
        ),
        (
            (*KEY[:2], "g5.2xlrage", KEY[3]),
            "unknown-machine",
            "unknown aws machine g5.2xlrage; did you mean g5.2xlarge?",
        ),
    ],
)
def test_unknown_name_is_set_apart_with_a_suggestion(store, key, code, reason):
    summary = store_rows(store, build_row(1.3, key=key), accept=())
    assert code in {finding.code for finding in summary.findings}
    assert (summary.imported, summary.set_apart) == (0, 1)
    assert any(reason in finding.reason for finding in summary.findings)
    codes = [finding.code for finding in summary.findings]
    assert store_rows(store, build_row(1.3, key=key), key="2", accept=codes).imported == 1
    assert (
        store_rows(store, build_row(1.3, key=key, source="next"), key="3", accept=()).set_apart == 0
    )  # known since


@pytest.mark.parametrize(("item", "unit"), [("ebs:gp3", "month"), ("ebs:gp3", "gb"), ("public_ipv4", "gib")])
def test_part_with_an_unexpected_unit_is_set_apart(store, item, unit):
    part = build_row(0.0001, key=("aws", "us-east-1", item, "on_demand"), kind="part", unit=unit)
    assert "unknown-unit" in {finding.code for finding in store_rows(store, part).findings}


def test_newer_price_takes_precedence_over_the_embedded_one_and_history_is_kept(store):
    store_rows(store, build_row(1.3, "2026-11-01"), build_row(1.1, "2026-09-01", source="older"))
    assert catalog.find_machine_price(*KEY).usd_per_hour == 1.3
    assert catalog.find_machine_price(*KEY, on_date=date(2026, 10, 31)).usd_per_hour == 1.1
    assert catalog.find_machine_price(*KEY, on_date=date(2026, 8, 1)).usd_per_hour == EMBEDDED
    assert catalog.find_machine_price(*KEY, on_date=date(2020, 1, 1)) is None


def test_older_price_does_not_replace_the_embedded_one(store):
    store_rows(store, build_row(1.5, "2026-07-05"))
    assert catalog.find_machine_price(*KEY).usd_per_hour == EMBEDDED
    assert (
        next(catalog.search_offers(machine=KEY[2], region=KEY[1], purchase=KEY[3])).price.usd_per_hour
        == EMBEDDED
    )


def test_imported_price_takes_precedence_on_the_same_day(store):
    store_rows(store, build_row(1.25, "2026-07-06"))
    assert catalog.find_machine_price(*KEY).usd_per_hour == 1.25


def test_undated_price_counts_as_oldest_with_low_confidence(store):
    other = ("aws", "us-east-1", "zz.large", "on_demand")
    store_rows(store, build_row(9.0, ""), build_row(2.0, "", key=other))
    assert catalog.find_machine_price(*KEY).usd_per_hour == EMBEDDED
    price = catalog.find_machine_price(*other, on_date=date(2021, 1, 1))
    assert (price.usd_per_hour, price.as_of, price.confidence) == (2.0, None, "low")


def test_parts_are_stored_separately_from_machines(store):
    store_rows(
        store, build_row(0.0001, key=("aws", "us-east-1", "ebs:gp3", "on_demand"), kind="part", unit="gib")
    )
    assert catalog.find_cloud_part_price("aws", "us-east-1", "ebs:gp3").usd_per_hour == 0.0001
    assert "ebs:gp3" not in {offer.machine.name for offer in catalog.search_offers(region="us-east-1")}


def test_commitment_without_upfront_payment_is_preferred(store):
    reserved = (*KEY[:3], "reserved_1y")
    rows = [build_row(0.7, key=reserved, upfront="all", upfront_usd=6132.0), build_row(0.75, key=reserved)]
    store_rows(store, *rows)
    assert catalog.find_machine_price(*reserved).usd_per_hour == 0.75


def test_uncommitted_prices_are_invisible(store):
    run = store.stage_batch("first", [build_row()], store.begin_or_resume_run("test", "1"))
    assert catalog.find_machine_price(*KEY).usd_per_hour == EMBEDDED
    assert store.find_unfinished_run("test") == run
    store.delete_unfinished_run(run)
    assert store.find_unfinished_run("test") is None
    with pytest.raises(InputError, match="not in the price store"):
        store.commit_run(run)


def test_committed_run_cannot_be_abandoned(store):
    run = store_rows(store, build_row()).run
    store.delete_unfinished_run(run)
    assert catalog.find_machine_price(*KEY).usd_per_hour == 1.3
    assert store.begin_or_resume_run("test", "1").finished_at


def test_repeated_import_stores_nothing(store):
    first = store_rows(store, build_row())
    second_summary = store_rows(store, build_row(99.0))
    assert (first.imported, first.repeated, second_summary.imported, second_summary.repeated) == (
        1,
        False,
        1,
        True,
    )
    assert catalog.find_machine_price(*KEY).usd_per_hour == 1.3


def test_rewritten_batch_replaces_the_earlier_one(store):
    run = store.begin_or_resume_run("test", "1")
    run = store.stage_batch("page", [build_row(1.3)], run)
    run = store.stage_batch("page", [build_row(1.4)], run)
    assert store.commit_run(run).imported == 1
    assert catalog.find_machine_price(*KEY).usd_per_hour == 1.4


def test_unchanged_prices_are_counted(store):
    store_rows(store, build_row())
    assert store_rows(store, build_row(), build_row(1.0, source="another"), key="2").unchanged == 1


def test_suspicious_rows_are_set_apart_until_accepted(store):
    spot = (*KEY[:3], "spot")
    rows = [build_row(), build_row(1.3, key=spot)]
    summary = store_rows(store, *rows)
    assert (summary.imported, summary.set_apart, summary.findings[0].code) == (1, 1, "spot-not-cheaper")
    before = catalog.find_machine_price(*spot)
    assert before.as_of < "2026"
    store_rows(store, *rows, key="2", accept=["spot-not-cheaper"])
    assert catalog.find_machine_price(*spot).usd_per_hour == 1.3
    assert store.connection.execute("SELECT count(*) FROM apart").fetchone() == (0,)
    store_rows(store, *rows, key="3")
    assert catalog.find_machine_price(*spot) == before


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        ({"usd": -1.0}, "price -1.0 is not an amount"),
        ({"usd": float("nan")}, "price nan is not an amount"),
        ({"as_of": "yesterday"}, "'yesterday' is not a date"),
        ({"as_of": "2026-13-01"}, "is not a date"),
        ({"key": (*KEY[:3], "barter")}, "unknown purchase 'barter'"),
        ({"key": ("AWS!", *KEY[1:])}, "not the name of a cloud"),
        ({"key": ("aws", "", *KEY[2:])}, "no region"),
        ({"source": ""}, "no source"),
        ({"upfront": "most"}, "unknown upfront 'most'"),
    ],
)
def test_invalid_price_is_refused_and_nothing_is_staged(store, invalid, message):
    run = store.begin_or_resume_run("test", "1")
    with pytest.raises(InputError, match=message):
        store.stage_batch("all", [build_row(), build_row(**invalid)], run)
    assert store.connection.execute("SELECT count(*) FROM staged").fetchone() == (0,)


def test_database_of_another_program_or_a_newer_version_is_refused(tmp_path):
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as link:
        link.execute("CREATE TABLE songs (title)")
    with pytest.raises(EnvironmentFault, match="the database of another program"):
        PriceStore(foreign)
    (tmp_path / "text.db").write_text("no database at all, but long enough to be read as one" * 20)
    with pytest.raises(EnvironmentFault, match="is not a price store"):
        PriceStore(tmp_path / "text.db")
    with PriceStore(tmp_path / "new.db") as store:
        store.connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    with pytest.raises(EnvironmentFault, match="newer gpufleet"):
        PriceStore(tmp_path / "new.db")


def test_store_path_that_cannot_exist_is_an_environment_fault(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault, match="cannot be"):
        PriceStore(tmp_path / "file" / "prices.db")


KILLED = """
import os, signal, sys
from pathlib import Path
from gpufleet.catalog.prices import PriceStore
from gpufleet.catalog.prices import imports
imports.BATCH_ROWS = 50
batches, kill_at = 0, int(sys.argv[3])
write = PriceStore.stage_batch
def written(self, name, rows, run):
    global batches
    if batches == kill_at:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO batches VALUES (?, 'half', 1)", (run.id,))
        os.kill(os.getpid(), signal.SIGKILL)
    batches += 1
    return write(self, name, rows, run)
PriceStore.stage_batch = written
publish = PriceStore._insert_rows
def published(self, run, rows):
    found = publish(self, run, rows)
    if kill_at < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return found
PriceStore._insert_rows = published
price_file = imports.load_price_file(Path(sys.argv[2]))
with PriceStore(Path(sys.argv[1])) as store:
    imports.import_prices(store, price_file)
"""


def write_price_file(folder, rows=400):
    """Write a price file of our own columns, with so many machines."""
    lines = ["cloud,region,machine,purchase,usd_per_hour,as_of,source,gpu_count"]
    lines += [
        f"aws,us-east-1,zz{n}.large,on_demand,{1 + n / 100},2026-11-01,made for a test,0" for n in range(rows)
    ]
    file = folder / "prices.csv"
    file.write_text("\n".join(lines))
    return file


def count_stored_rows(path):
    with sqlite3.connect(path) as link:
        assert link.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [
            link.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("prices", "current")
        ]


@pytest.mark.parametrize("kill_at", [0, 3, -1], ids=["first batch", "later batch", "while committing"])
def test_killed_import_leaves_prices_complete_and_the_next_one_finishes(store_path, tmp_path, kill_at):
    file = write_price_file(tmp_path)
    arguments = [sys.executable, "-c", KILLED, str(store_path), str(file), str(kill_at)]
    died = subprocess.run(arguments, check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert count_stored_rows(store_path) == [0, 0]
    with PriceStore(store_path) as store:
        unfinished = store.find_unfinished_run("import prices.csv")
        assert len(unfinished.batches) == {0: 0, 3: 3, -1: 8}[kill_at]
        summary = import_prices(store, load_price_file(file))
    assert (summary.imported, summary.set_apart, summary.run.id) == (400, 0, unfinished.id)
    assert count_stored_rows(store_path) == [400, 400]


def test_two_concurrent_imports_succeed(store_path, tmp_path):
    file, other = write_price_file(tmp_path), tmp_path / "other.csv"
    other.write_text(file.read_text().replace("zz", "yy"))
    code = KILLED.replace("kill_at < 0", "False")
    racing = [
        subprocess.Popen([sys.executable, "-c", code, str(store_path), str(import_file), "999"])
        for import_file in (file, other, file)
    ]
    assert [process.wait(timeout=60) for process in racing] == [0, 0, 0]
    assert count_stored_rows(store_path) == [800, 800]


def test_reader_is_not_blocked_by_a_writer(store_path, store):
    store_rows(store, build_row())
    with PriceStore(store_path) as other:
        run = other.begin_or_resume_run("slow", "1")
        other.connection.execute("BEGIN IMMEDIATE")
        assert catalog.find_machine_price(*KEY).usd_per_hour == 1.3
        other.connection.execute("ROLLBACK")
        store_rows(other, build_row(1.35, "2026-11-02"), key="2")
        assert other.find_unfinished_run("slow") == run
    assert catalog.find_machine_price(*KEY).usd_per_hour == 1.35


def test_locked_store_is_an_environment_fault(store_path, store, monkeypatch):
    monkeypatch.setattr("gpufleet.catalog.prices.store.BUSY_TIMEOUT_S", 0.05)
    store.connection.execute("BEGIN IMMEDIATE")
    with PriceStore(store_path) as other, pytest.raises(EnvironmentFault, match="cannot be written"):
        other.begin_or_resume_run("test", "1")


PRICES = st.lists(
    st.tuples(
        st.sampled_from(["", "2025-03-01", "2026-07-05", "2026-07-06", "2026-08-01", "2026-11"]),
        st.floats(1.0, 1.6),
        st.sampled_from(["one", "two"]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(prices=PRICES, on=st.sampled_from([None, date(2025, 1, 1), date(2026, 7, 31), date(2026, 12, 1)]))
def test_newest_price_before_the_date_is_used_for_any_import_order(tmp_path, monkeypatch, prices, on):
    path = tmp_path / f"{time.monotonic_ns()}-{next(NUMBERS)}.db"
    monkeypatch.setenv("GPUFLEET_PRICES", str(path))
    unique = {(day, source): usd for day, usd, source in prices}
    with PriceStore(path) as store:
        store_rows(store, *(build_row(usd, day, source=source) for (day, source), usd in unique.items()))
    days = {f"{day}-01" if len(day) == 7 else day for day, _ in unique} | {"2026-07-06"}
    newest = (
        max(day for day in days if on is None or day <= on.isoformat())
        if on is None or on.year > 2025
        else None
    )
    price = catalog.find_machine_price(*KEY, on_date=on)
    if newest is None:
        assert price is None or price.as_of is None
    else:
        assert price.earliest_price_date.isoformat() == newest
    offers = {
        offer.price
        for offer in catalog.search_offers(machine=KEY[2], region=KEY[1], purchase=KEY[3], on_date=on)
    }
    assert offers == ({price} if price else set())
    path.unlink()


def test_full_disk_is_reported_in_one_line_and_changes_nothing(store):
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite answers as on a full disk
    many = [build_row(key=(KEY[0], f"region-{number}", *KEY[2:])) for number in range(500)]
    run = store.begin_or_resume_run("test", "full")
    with pytest.raises(EnvironmentFault, match=r"prices.db cannot be written: database or disk is full"):
        store.stage_batch("all", many, run)
    assert store.connection.execute("SELECT count(*) FROM staged").fetchone() == (0,)
