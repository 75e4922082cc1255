"""From an exporter's text to evidence, hold, quarantine and release: real HTTP, a real registry, a clock of tests."""

from __future__ import annotations

import socket
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from gpufleet.errors import EnvironmentFault
from gpufleet.nodes import PartObservation
from gpufleet.nodes.part import ObservedPart
from gpufleet.operations.watch.scrape import ScrapeOptions, ScrapeTarget, scrape_target

CASES = Path(__file__).parents[2] / "cases/operations/watch"
NODE, DCGM, SMART, AMD = ((CASES / f"{name}.txt").read_text() for name in ("node", "dcgm", "smart", "amd"))
DRIVE = (
    'node_nvme_info{device="nvme0",firmware_revision="1B2QEXP7",model="PM9A3",serial="S1",state="live"} 1\n'
)


def with_xid(code, gpu=0):
    """Return DCGM's text with an XID on a GPU; its labels change with the code, as the exporter's do."""
    lines = DCGM.splitlines()
    numbers = [number for number, line in enumerate(lines) if line.startswith("DCGM_FI_DEV_XID_ERRORS")]
    line = lines[numbers[gpu]].replace('err_code="0",err_msg="No Error"', f'err_code="{code}",err_msg="?"')
    lines[numbers[gpu]] = f"{line.rpartition(' ')[0]} {code}"
    return "\n".join(lines) + "\n"


def test_healthy_recorded_outputs_find_nothing(fleet, exporter):
    fleet.add("gpu01", node=exporter(NODE), dcgm=exporter(DCGM), amd=exporter(AMD))
    report = fleet.cycle(20)
    assert (report.nodes, report.exporters, report.silent, report.findings) == (1, 3, {}, [])
    assert fleet.node("gpu01").is_usable


def test_fatal_xid_quarantines_and_enters_the_ledger_of_its_gpu(fleet, exporter):
    dcgm = exporter(DCGM)
    fleet.add("gpu01", dcgm=dcgm)
    seen = PartObservation(
        (ObservedPart("gpu", uuid="GPU-a8394b51", serial="1321", position="0000:9a:00.0"),)
    )
    fleet.registry.record_burn_in_result("gpu01", "a1", {"verdict": "healthy"}, [{"x": 1}], seen=seen)
    fleet.cycle(2)
    dcgm.say(with_xid(79, gpu=1))
    report = fleet.cycle()
    assert [each.outcome for each in report.findings] == ["quarantined"]
    node = fleet.node("gpu01")
    assert node.state == "quarantined"
    assert node.state_reason.startswith("watch: xid_79 on 0000:9a:00.0: ")
    (entry,) = fleet.findings("gpu01")
    assert entry.actor == "gpufleet watch"
    assert "DCGM_FI_DEV_XID_ERRORS 79" in entry.reason
    assert "dcgm exporter" in entry.reason
    (part,) = [part for part in fleet.registry.list_parts() if part.kind == "gpu"]
    (fault,) = part.entries
    assert (fault.name, fault.check, fault.measured) == ("xid_79", "watch", 79.0)
    assert fleet.cycle(3).nodes == 0  # out of use: not watched


def test_applications_xid_is_recorded_and_twice_in_a_day_it_is_the_hardware(fleet, exporter):
    dcgm = exporter(DCGM)
    fleet.add("gpu01", dcgm=dcgm)
    fleet.cycle(2)
    dcgm.say(with_xid(31))
    assert [each.outcome for each in fleet.cycle().findings] == ["recorded"]
    assert fleet.node("gpu01").is_usable
    dcgm.say(DCGM)
    fleet.cycle(30)
    fleet.start()  # the events of before are still known
    dcgm.say(with_xid(31))
    outcomes = {each.finding.rule: each.outcome for each in fleet.cycle().findings}
    assert outcomes == {"xid_31": "recorded", "xid_31_repeated": "quarantined"}


def test_hold_is_released_by_a_newer_healthy_burn_in_alone(fleet, exporter):
    smart = exporter(
        SMART.replace('nvme0"} 4', 'nvme0"} 0').replace('nvme0"} 0\n# TYPE', 'nvme0"} 1\n# TYPE')
    )
    smart.say('smartctl_device_smart_status{device="/dev/nvme0"} 1\n')
    fleet.add("gpu01", smart=smart)
    fleet.registry.start_attempt("gpu01", "burn_in", "old")
    fleet.cycle()
    smart.say(SMART)
    report = fleet.cycle()
    assert sorted(each.finding.rule for each in report.findings) == [
        "drive_critical_warning",
        "drive_failing",
    ]
    node = fleet.node("gpu01")
    assert (node.state, [hold.kind for hold in node.holds], node.is_usable) == ("ready", ["operator"], False)
    healthy = {"verdict": "healthy"}
    fleet.registry.record_burn_in_result("gpu01", "old", healthy, [{"x": 1}])
    assert fleet.node("gpu01").holds, "an attempt that began before the hold says nothing of it"
    later = node.holds[0].since + timedelta(seconds=1)
    fleet.registry.start_attempt("gpu01", "burn_in", "new", later)
    fleet.registry.record_burn_in_result("gpu01", "new", healthy, [{"x": 2}], started_at=later, when=later)
    assert fleet.node("gpu01").is_usable
    assert fleet.cycle(5).findings == []  # what stood before is no new finding
    assert fleet.node("gpu01").is_usable


def test_persons_hold_stays_a_persons(fleet, exporter):
    node = exporter(NODE + DRIVE)
    fleet.add("gpu01", node=node)
    fleet.cycle()
    fleet.registry.set_node_hold("gpu01", "operator", "moving racks")
    node.say(NODE.replace('mountpoint="/"} 0', 'mountpoint="/"} 1'))
    assert [each.outcome for each in fleet.cycle(6).findings if each.finding.is_open] in (
        [],
        ["held already"],
    )
    assert [hold.reason for hold in fleet.node("gpu01").holds] == ["moving racks"]
    assert len(fleet.findings("gpu01")) == 1


def test_node_with_jobs_drains_and_is_not_quarantined(fleet, exporter):
    node = exporter(NODE + DRIVE)
    fleet.add("gpu01", node=node)
    fleet.registry.move_node("gpu01", "assigned", "a job")
    fleet.cycle()
    node.say(NODE + DRIVE.replace("live", "dead"))
    assert [each.outcome for each in fleet.cycle().findings] == ["draining, held"]
    assert fleet.node("gpu01").state == "draining"


def test_conditions_survive_a_restart_and_not_a_gap(fleet, exporter):
    node = exporter(NODE)
    fleet.add("gpu01", node=node)
    fleet.cycle()
    node.say(NODE.replace('mountpoint="/"} 0', 'mountpoint="/"} 1'))
    fleet.cycle(3)  # seen for 30 s of 60
    fleet.start()
    assert fleet.cycle().findings == []
    assert [each.outcome for each in fleet.cycle().findings] == ["held"]
    fleet.registry.release_node_hold("gpu01", "operator", "seen to")
    fleet.add("gpu02", node=node)
    fleet.cycle(3)
    fleet.stop()
    fleet.hours.pass_by(7200)
    assert fleet.cycle(4).findings == []  # two hours of which nothing is known
    assert [each.finding.node for each in fleet.cycle().findings] == ["gpu02"]


def test_jump_of_the_clock_concludes_nothing(fleet, exporter):
    node = exporter(NODE.replace('mountpoint="/"} 0', 'mountpoint="/"} 1'))
    fleet.add("gpu01", node=node)
    fleet.cycle(2)
    fleet.hours.jump(86_400)
    assert fleet.cycle().findings == []
    fleet.hours.jump(-7 * 86_400)
    assert fleet.cycle().findings == []
    assert len(fleet.cycle().findings) == 1


def test_silence_is_a_finding_after_two_minutes(fleet, exporter):
    lost, good = exporter(NODE), exporter(NODE)
    fleet.add("gpu01", node=lost)
    fleet.add("gpu02", node=good, dcgm=exporter(DCGM))
    fleet.cycle(2)
    lost.stop()
    report = fleet.cycle(8)
    assert list(report.silent) == ["gpu01 node"]
    assert report.findings == []
    (applied,) = fleet.cycle().findings
    assert (applied.finding.rule, applied.finding.node, applied.outcome) == (
        "exporter_silent",
        "gpu01",
        "recorded",
    )
    assert fleet.node("gpu01").is_usable


def test_when_most_are_silent_the_controller_is_cut_off(fleet, exporter):
    both = [exporter(NODE), exporter(NODE)]
    for number, each in enumerate(both):
        fleet.add(f"gpu0{number}", node=each)
    fleet.cycle(2)
    for each in both:
        each.stop()
    report = fleet.cycle(20)
    assert report.findings == []
    assert any("the controller is cut off" in problem for problem in report.problems)


def test_lying_node_cannot_hold_another(fleet, exporter):
    lie = "".join(
        f'smartctl_device_smart_status{{device="nvme0",{label}="{name}"}} 0\n'
        for label in ("instance", "exported_instance", "Hostname", "hostname", "node", "nodename")
        for name in ("gpu02", "GPU02", "gpu02:9633", "gpu02.example.org", "127.0.0.2", "127.0.0.2:9633")
    )
    liar = exporter("smartctl_device_smart_status 1\n")
    fleet.add("gpu01", smart=liar)
    fleet.add("gpu02", smart=exporter('smartctl_device_smart_status{device="nvme0"} 1\n'))
    fleet.cycle()
    liar.say(lie)
    report = fleet.cycle(5)
    assert report.findings == []
    assert report.foreign == {"gpu01 smart": 36}
    assert fleet.node("gpu02").is_usable
    liar.say(
        'smartctl_device_smart_status{device="nvme0",hostname="a1b2c3"} 0\n'
    )  # a container's name is no node's
    assert [each.finding.node for each in fleet.cycle().findings] == ["gpu01"]


def test_fault_of_all_nodes_at_once_takes_few_out_of_use(fleet, exporter):
    smart = exporter("smartctl_device_smart_status 1\n")
    for number in range(10):
        fleet.add(f"gpu{number:02d}", smart=smart)
    fleet.cycle()
    smart.say("smartctl_device_smart_status 0\n")
    outcomes = [each.outcome for each in fleet.cycle().findings]
    assert outcomes.count("held") == 2
    assert outcomes.count("recorded: the limit of nodes out of use is reached") == 8
    assert sum(node.is_usable for node in fleet.registry.list_nodes()) == 8


def test_only_nodes_in_use_are_watched(fleet, exporter):
    fleet.add("gpu01", smart=exporter(SMART))
    fleet.registry.move_node("gpu01", "burn_in", "again")
    assert fleet.cycle().nodes == 0


def test_second_watch_is_refused(fleet):
    fleet.start()
    first = fleet.store
    fleet.store = None
    with pytest.raises(EnvironmentFault, match="a watch runs already"):
        fleet.start()
    fleet.store = first


def scrape(port, **options):
    target = ScrapeTarget("n1", "node", "127.0.0.1", port)
    return scrape_target(target, {"a"}, ScrapeOptions(**{"seconds": 0.5, **options}))


def drip(handler):
    """Send a byte at a time, for as long as anybody reads."""
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.stopped.wait(0.05):
        handler.wfile.write(b"#")


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(b"a 1\n" * 65536)


def redirect(handler):
    handler.send_response(302)
    handler.send_header("Location", f"http://127.0.0.1:{handler.server.other}/metrics")
    handler.end_headers()


def test_hostile_exporters_end_in_one_line(exporter):
    visited = []
    other = exporter(lambda handler: visited.append(handler.path))
    for answer, options, problem in (
        (drip, {}, "no answer in time"),
        (endless, {"seconds": 20.0, "max_bytes": 1 << 20}, "the answer has more than 1,048,576 bytes"),
        (redirect, {}, "HTTP status 302: a redirect, which is not followed"),
        ("a 1", {}, "the answer is cut off: its last line has no end"),
        ("a one\n", {}, "node exporter:1: the value is not a number: 'a one'"),
        ('a{x="1 2\n', {}, "node exporter:1: the labels have no end: 'a{x=\"1 2'"),
        ('a{x="1",x="2"} 2\n', {}, 'node exporter:1: a label comes twice: \'a{x="1",x="2"} 2\''),
        (
            "".join(f'a{{x="{n}"}} 1\n' for n in range(20_001)),
            {"seconds": 20.0},
            "node exporter: has more than 20,000 samples",
        ),
    ):
        server = exporter(answer)
        server.server.stopped, server.server.other = threading.Event(), other.port
        result = scrape(server.port, **options)
        server.server.stopped.set()
        assert (result.samples, result.problem) == (None, problem)
    assert visited == []


def test_closed_port_and_no_http_are_one_line():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def greet():
            connection = listener.accept()[0]
            connection.recv(4096)
            connection.sendall(b"SSH-2.0-OpenSSH\r\n")
            connection.close()

        thread = threading.Thread(target=greet)
        thread.start()
        assert "SSH-2.0-OpenSSH" in scrape(port).problem
        thread.join()
    assert scrape(port).problem == "[Errno 111] Connection refused"
