"""Test the comparison of declared hardware with what the kernel lists: agent, metrics and verdict."""

from __future__ import annotations

import pytest

from gpufleet import burnin
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.hardware import measure as agent_hardware
from gpufleet.nodes.declaration import KINDS
from gpufleet.rehearsal.rack.pci import build_pci_sysfs_files

H100, MI300X = "H100 SXM5 80GB", "Instinct MI300X"
DECLARED = {"expect_gpus": 8, "expect_gpu_models": H100}


@pytest.fixture
def measure(tmp_path):
    """Give a function that runs the check on a sysfs with these cards and other files."""

    def run(*cards, files=(), **params):
        for name, text in {**build_pci_sysfs_files(cards), **dict(files)}.items():
            place = "" if name.startswith("/") else "sys/bus/pci/devices/"
            path = tmp_path / (place + name.lstrip("/"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "sys/kernel").mkdir(parents=True, exist_ok=True)
        result = agent_hardware.measure_host(HostAccess(params=params, root=str(tmp_path)))
        return {"type": "check", "name": "hardware", "status": result.status, "raw": result.raw}

    return run


def judge(records_of, record, expected, kind="gpu_server"):
    """Judge a sound node of a kind whose hardware record is replaced."""
    records = [record if entry.get("name") == "hardware" else entry for entry in records_of({"base": kind})]
    return burnin.judge_attempt(records, kind, "quick", expected=expected)


@pytest.mark.parametrize(("present", "outcome"), [(8, "pass"), (9, "pass"), (7, "fail"), (0, "fail")])
def test_gpus_on_the_bus_are_compared_with_the_declared_number(measure, records_of, present, outcome):
    report = judge(records_of, measure((H100, present)), DECLARED)
    result = report.find_check_result("hardware")
    assert result.outcome == outcome
    if outcome == "fail":
        assert report.verdict == "faulty"
        assert f"an NVIDIA GPU is missing on the PCI bus ({8 - present} GPUs)" in result.reason


@pytest.mark.parametrize("claim", [0, 1, "0", -8, None, "8 of 8", [], True])
def test_node_cannot_lower_what_the_registry_declares(measure, records_of, claim):
    record = measure((H100, 7))
    record["raw"] |= {"expect_gpus": claim, "expect_gpu_models": ""}
    report = judge(records_of, record, DECLARED)
    assert report.verdict == "faulty"
    assert report.find_check_result("gpu_nvidia").outcome == "fail"  # its report has two GPUs


def test_operator_can_raise_what_is_expected_by_a_parameter(measure, records_of):
    record = measure((H100, 8), expect_gpus="9")
    assert judge(records_of, record, DECLARED).find_check_result("hardware").outcome == "fail"


@pytest.mark.parametrize(
    ("cards", "wrong"),
    [
        ([(H100, 8)], 0.0),
        ([(H100, 7), ("A100 SXM4 80GB", 1)], 1.0),
        ([("A100 SXM4 80GB", 8)], 8.0),
        ([(H100, 8), ("T4", 1)], 0.0),
    ],
)
def test_another_model_in_the_place_of_a_declared_gpu_fails(measure, records_of, cards, wrong):
    result = judge(records_of, measure(*cards), DECLARED).find_check_result("hardware")
    assert result.outcome == ("fail" if wrong else "pass")
    assert ("a GPU is another model than declared" in result.reason) == bool(wrong)


def test_gpu_without_a_catalogue_entry_is_not_judged_by_its_model(measure, records_of):
    unknown = {
        f"0000:{bus:02x}:00.0/{name}": value
        for bus in range(1, 9)
        for name, value in {"vendor": "0x10de", "device": "0xfffe", "class": "0x030200"}.items()
    }
    assert judge(records_of, measure(files=unknown), DECLARED).find_check_result("hardware").outcome == "pass"


@pytest.mark.parametrize(
    ("sectors", "outcome"), [(976_773_168, "pass"), (500_118_192, "fail"), (None, "fail")]
)
def test_drive_is_compared_with_the_declared_size(measure, records_of, sectors, outcome):
    files = {"/sys/class/nvme/nvme0/model": "A drive", "/sys/class/nvme/nvme0/nvme0n1/size": f"{sectors}"}
    record = measure(files=files if sectors else {})
    expected = {"expect_drive_gib": 465.7}
    result = judge(records_of, record, expected, "compute_blade").find_check_result("hardware")
    assert result.outcome == outcome


@pytest.mark.parametrize(
    ("controllers", "namespaces", "outcome"), [(8, 1, "pass"), (1, 8, "pass"), (7, 1, "fail"), (1, 7, "fail")]
)
def test_drives_of_the_declared_size_are_counted(measure, records_of, controllers, namespaces, outcome):
    files = {
        f"/sys/class/nvme/nvme{number}/nvme{number}n{space}/size": "976773168"
        for number in range(controllers)
        for space in range(1, namespaces + 1)
    }
    boot = {"/sys/class/nvme/nvme9/nvme9n1/size": "209715200"}  # a volume of 100 GiB is not one of them
    record = measure((H100, 8), files=files | boot)
    expected = {**DECLARED, "expect_drive_gib": 465.7, "expect_drives": 8}
    result = judge(records_of, record, expected).find_check_result("hardware")
    assert result.outcome == outcome
    assert ("a drive is missing (1 drives)" in result.reason) == (outcome == "fail")


@pytest.mark.parametrize(("present", "outcome"), [(2, "pass"), (3, "pass"), (1, "fail"), (0, "fail")])
def test_ethernet_interfaces_are_counted_without_ip_over_infiniband(measure, records_of, present, outcome):
    files = {f"/sys/class/net/eth{number}/type": "1" for number in range(present)}
    files |= {f"/sys/class/net/ib{number}/type": "32" for number in range(8)}
    files |= {f"{name.rpartition('/')[0]}/device/driver/module": "" for name in files}
    record = measure((H100, 8), files=files)
    result = judge(records_of, record, {**DECLARED, "expect_interfaces": 2}).find_check_result("hardware")
    assert result.outcome == outcome


@pytest.mark.parametrize(
    ("mtus", "outcome"),
    [((1500, 9000), "pass"), ((1500, 1500), "warn"), ((1500, 9216), "warn"), ((), "pass")],
)
def test_declared_mtu_must_be_that_of_an_interface(measure, records_of, mtus, outcome):
    files = {f"/sys/class/net/eth{number}/mtu": str(mtu) for number, mtu in enumerate(mtus)}
    files |= {f"/sys/class/net/eth{number}/device/driver/module": "" for number in range(2)}
    record = measure((H100, 8), files=files)
    result = judge(records_of, record, {**DECLARED, "expect_mtu": 9000}).find_check_result("hardware")
    assert result.outcome == outcome
    text = (
        f"no interface has the declared MTU (1 MTUs): declared 9000, eth0 1500, eth1 {mtus[-1]}"
        if mtus
        else "-"
    )
    assert (text in result.reason) == (outcome == "warn")


def test_rehearsed_blade_is_judged_by_its_fake_drive_and_a_server_without_one_by_its_cards(records_of):
    drive = {"name": "nvme0", "model": "FAKE NVMe 500GB", "sectors": 976_773_168}
    raw = {"root": "/etc/gpufleet-rehearsal/sys", "devices": [], "drives": [drive]}
    expected = {"expect_drive_gib": 465.7}
    for drives, outcome in (([drive], "pass"), ([], "not_run")):
        records = records_of(
            {"base": "compute_blade", "change": {"hardware": {"raw": {**raw, "drives": drives}}}}
        )
        report = burnin.judge_attempt(records, "compute_blade", "quick", rehearsal=True, expected=expected)
        assert report.find_check_result("hardware").outcome == outcome


def test_sata_and_virtual_drives_are_listed(measure):
    files = {
        "/sys/block/sda/size": "1000",
        "/sys/block/sda/device/model": "HDD",
        "/sys/block/loop0/size": "8",
    }
    drives = measure(files=files)["raw"]["drives"]
    assert drives == [{"name": "sda", "model": "HDD", "sectors": 1000}]


def test_server_without_any_gpu_is_faulty_without_a_declaration(measure, records_of):
    report = judge(records_of, measure(), {})
    assert report.verdict == "faulty"
    assert "a GPU server has no GPU on its PCI bus" in report.list_unhealthy_reasons()[0]


@pytest.mark.parametrize(("card", "checks"), [(H100, {"gpu_nvidia"}), (MI300X, {"gpu_amd"})])
def test_undeclared_gpu_on_the_bus_makes_its_vendors_checks_required(measure, records_of, card, checks):
    report = judge(records_of, measure((card, 1)), {}, "cloud_vm")
    assert checks <= set(report.required)
    assert report.verdict == "incomplete"


def test_declared_memory_is_compared_though_the_record_expects_none(records_of):
    records = records_of({"base": "cloud_vm", "change": {"memory": {"raw.expect_memory_gib": 0}}})
    half = burnin.judge_attempt(records, "cloud_vm", "quick", expected={"expect_memory_gib": 48.0})
    assert half.find_check_result("memory").reason.startswith(
        "less memory than declared (0.490438 of declared"
    )
    assert burnin.judge_attempt(records, "cloud_vm", "quick").verdict == "healthy"


def test_missing_sysfs_is_not_run(tmp_path):
    result = agent_hardware.measure_host(HostAccess(root=str(tmp_path)))
    assert (result.status, result.reason) == ("not_run", "/sys is not there")


def test_invalid_record_is_never_a_pass(records_of):
    for raw in ({}, {"devices": "x", "drives": []}, {"devices": [None, 7, {"vendor": 3}], "drives": [1]}):
        report = judge(
            records_of, {"type": "check", "name": "hardware", "status": "ran", "raw": raw}, DECLARED
        )
        assert report.find_check_result("hardware").outcome != "pass"


@pytest.mark.parametrize(
    ("cards", "required"),
    [
        ([], []),
        ([("Radeon RX 7900 XTX", 1)], ["gpu_amd", "gpu_xid", "gpu_vulkan"]),
        ([("GeForce RTX 4090", 1)], ["gpu_compute", "gpu_memory", "gpu_copy", "gpu_nvidia", "gpu_xid"]),
    ],
)
def test_desktop_must_run_the_checks_of_the_cards_on_its_bus(measure, cards, required):
    record = measure(*cards)
    report = burnin.judge_attempt([record], "workstation", "quick")
    always = {"configuration", "cpu", "memory", "storage", "network"}
    assert report.verdict == "incomplete"
    assert {each.replace("gpu_hip", "gpu_vulkan") for each in report.required} == always | set(required)


def test_desktop_is_judged_as_what_its_bus_shows(measure, records_of):
    sound = [entry for entry in records_of({"base": "cloud_vm"}) if entry.get("name") != "hardware"]
    assert burnin.judge_attempt(sound, "workstation", "quick").verdict == "healthy"
    start = next(place for place, entry in enumerate(sound) if entry["type"] == "start")
    with_untested_card = [*sound[: start + 1], measure(("GeForce RTX 4090", 1)), *sound[start + 1 :]]
    assert burnin.judge_attempt(with_untested_card, "workstation", "quick").verdict == "incomplete"


def test_every_kind_of_the_registry_can_be_judged():
    assert set(KINDS) == set(burnin.KINDS)
