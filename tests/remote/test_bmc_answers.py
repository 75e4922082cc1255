"""Test what becomes of orders whose answers are lost, and of readings that fail while the power changes."""

from __future__ import annotations

import shutil
import socket
import threading

import pytest

from bmc_emulator import PASSWORD, USER, SwitchableBmc, find_free_port, run_ipmi_simulator
from gpufleet.fleet import Bmc
from gpufleet.operations.power import describe_power
from gpufleet.remote.bmc import PowerReport, PowerRequest, control, run_power_action
from gpufleet.remote.bmc import sequence as bmc_sequence
from gpufleet.remote.bmc.__main__ import remove_secrets, run_request

SYS518 = {"MessageId": "IDRAC.2.8.SYS518", "Message": "iDRAC is currently unable to display any information"}


@pytest.fixture
def bmc(tmp_path):
    pytest.importorskip("sushy", reason="needs the Python package sushy")
    with SwitchableBmc(tmp_path / "bmc") as server:
        yield server


@pytest.fixture(autouse=True)
def _short_times(monkeypatch):
    monkeypatch.setattr(bmc_sequence, "SETTLE_SECONDS", 3)
    monkeypatch.setattr(bmc_sequence.PowerSequence.__init__, "__defaults__", (0.05, None))


def act(declaration, action, **more):
    fields = {"user": USER, "password": PASSWORD, "shutdown_seconds": 3, **more}
    return run_request(PowerRequest(bmc=Bmc(**declaration), action=action, **fields))


@pytest.mark.parametrize(
    "readings",
    [
        [404, 404],  # device-management-toolkit/console#1069: the system is gone for a while
        [b"", b"{}"],  # console#1051: 200 with an empty body
        [503, 500, "close"],  # iDRAC-Redfish-Scripting#383: 503, then 500, then no connection
        [401],  # the same: single refusals of a session that was accepted before
        [b'{"PowerState": null}', b'{"PowerState": "PoweringOn"}'],  # console#1051; powerman#78
    ],
)
def test_readings_that_fail_after_an_order_are_repeated(bmc, readings):
    bmc.later_readings = readings
    report = act(bmc.declaration, "on")
    assert (report.was, report.state, report.orders, report.problem) == ("off", "on", ("On",), "")
    assert bmc.orders == ["On"]


def test_cycle_goes_on_although_a_reading_fails(bmc):
    bmc.system["PowerState"] = "On"
    bmc.later_readings = [404]
    report = act(bmc.declaration, "cycle")
    assert (report.state, report.orders, report.problem) == ("on", ("GracefulShutdown", "On"), "")


def test_state_that_cannot_be_read_again_leaves_the_orders_in_the_report(bmc):
    bmc.later_readings = [503] * 1000
    report = act(bmc.declaration, "on")
    assert (report.was, report.state, report.orders) == ("off", "unknown", ("On",))
    assert report.problem == "its state cannot be read: HTTP 503 3 seconds after On"


@pytest.mark.parametrize(
    "answer", ["close", 500, 502]
)  # xcat-core#5569: "Connection aborted" as the answer to an order
def test_lost_answer_is_no_refusal(bmc, answer):
    bmc.order_answer = answer
    report = act(bmc.declaration, "on")
    assert (report.state, report.orders, report.problem) == ("on", ("On",), "")
    assert report.notes[0].startswith("On was sent, and ")
    assert "On was sent, and " in describe_power(report)
    assert bmc.orders == ["On"]


def test_order_that_had_neither_answer_nor_effect_is_sent_once(bmc):
    bmc.order_answer, bmc.is_deaf = "close", True
    report = act(bmc.declaration, "on")
    assert (report.state, report.orders, bmc.orders) == ("off", ("On",), ["On"])
    assert report.problem == (
        "the BMC still reports off 3 seconds after On (On was sent, and its answer was lost)"
    )


def test_success_is_not_the_answer_but_the_state(bmc):
    """Test an answer of 204 without effect: flutter_server_box#1316."""
    bmc.is_deaf = True
    report = act(bmc.declaration, "on")
    assert (report.state, report.problem) == ("off", "the BMC still reports off 3 seconds after On")


@pytest.mark.parametrize("action", ["off", "cycle"])
def test_shutdown_that_a_bmc_does_not_offer_is_named(bmc, action):
    """Test a BMC without GracefulShutdown: nothing is sent, and the reason is the BMC's (Redfish-Tacklebox#82)."""
    bmc.system["PowerState"] = "On"
    bmc.action["ResetType@Redfish.AllowableValues"].remove("GracefulShutdown")
    report = act(bmc.declaration, action)
    assert (report.state, report.orders, bmc.orders) == ("on", (), [])
    assert report.problem.startswith(
        "the system was not shut down: the BMC does not offer GracefulShutdown; it offers "
    )


@pytest.mark.parametrize(
    ("states", "problem"),
    [
        (["On", "PoweringOff", "Off", "PoweringOn", "On"], ""),
        (
            ["On"],
            "whether the machine restarted is not known: ForceRestart was sent, and its answer was lost",
        ),
    ],
)
def test_hard_restart_without_an_answer_is_never_repeated(bmc, states, problem):
    bmc.system["PowerState"] = "On"
    bmc.action["ResetType@Redfish.AllowableValues"].remove("GracefulShutdown")
    bmc.order_answer, bmc.transition = "close", ["On", "On", *states]
    report = act(bmc.declaration, "cycle", force=True)
    assert (report.orders, report.problem, bmc.orders) == (("ForceRestart",), problem, ["ForceRestart"])


def test_refusal_of_a_machine_that_is_there_already_is_done(bmc):
    """Test the race that dellemc-openmanage-ansible-modules#132 and ansible-ilo#1 meet: another one was faster."""
    bmc.refusals = [(409, {"MessageId": "IDRAC.1.6.PSU501", "Message": "Server is already powered ON."})]
    bmc.transition = ["Off", "Off", "On"]
    report = act(bmc.declaration, "on")
    assert (report.state, report.problem, bmc.orders) == ("on", "", ["On"])


def test_busy_bmc_gets_the_order_again_if_that_changes_nothing(bmc):
    """Test metal-operator#170: iDRAC answers 503 with SYS518 until it is ready."""
    bmc.refusals = [(503, SYS518), (503, SYS518)]
    assert act(bmc.declaration, "on").problem == ""
    assert bmc.orders == ["On"] * 3
    bmc.requests.clear()
    bmc.refusals = [(503, SYS518)]
    report = act(bmc.declaration, "cycle", force=True)
    assert bmc.orders == ["GracefulShutdown", "ForceRestart"]  # neither is sent a second time
    assert report.problem == ""


def test_refusal_names_the_message_and_not_the_url(bmc):
    message = {"MessageID": "iLO.0.10.InvalidOperationForSystemState", "MessageArgs": ["Power is off"]}
    bmc.refusals = [(400, message)] * 5
    problem = "the BMC refused On: HTTP 400: InvalidOperationForSystemState: Power is off"
    report = act(bmc.declaration, "on")
    assert (report.problem, report.orders) == (problem, ())


def test_paused_machine_is_resumed(bmc):
    bmc.system["PowerState"] = "Paused"
    bmc.action["ResetType@Redfish.AllowableValues"].append("Resume")
    bmc.targets["Resume"] = "On"
    report = act(bmc.declaration, "on")
    assert (report.was, report.state, report.orders, report.problem) == ("paused", "on", ("Resume",), "")


def test_machine_between_two_states_is_waited_for(bmc):
    bmc.transition = ["PoweringOff", "PoweringOff", "PoweringOff", "Off"]
    report = act(bmc.declaration, "on")
    assert (report.was, report.state, report.orders) == ("changing", "on", ("On",))


def test_orders_are_known_although_the_process_is_stopped(bmc, monkeypatch):
    """Test a BMC that is silent after an order: the report of the child that was stopped names it."""
    bmc.is_deaf = True
    monkeypatch.setattr(PowerRequest, "limit_seconds", property(lambda _self: 6))
    request = PowerRequest(bmc=Bmc(**bmc.declaration), action="on", user=USER, password=PASSWORD)
    report = run_power_action(request)
    assert (report.was, report.orders, report.problem) == (
        "off",
        ("On",),
        "the BMC took longer than 6 seconds",
    )


def test_short_password_breaks_no_report(bmc):
    bmc.system["Manufacturer"] = "o" * 300
    request = PowerRequest(bmc=Bmc(**bmc.declaration), action="on", user=USER, password="o")
    report = remove_secrets(run_request(request), request)
    again = control.decode_last_report(f"{report.model_dump_json()}\n".encode())
    assert (again.state, again.orders, set(again.manufacturer)) == ("on", ("On",), {"*"})


def test_only_complete_lines_of_the_child_count():
    first = PowerReport(orders=("On",)).model_dump_json()
    assert control.decode_last_report(f'{first}\n{{"was": "o'.encode()).orders == ("On",)
    assert control.decode_last_report(b"") is None
    assert control.decode_last_report(b"Traceback\n") is None


class UdpRelay:
    """Passes packets between a client and a simulator; drops answers while ``is_deaf``, and counts requests."""

    def __init__(self, port):
        self.port, self.target = find_free_port(socket.SOCK_DGRAM), ("127.0.0.1", port)
        self.is_deaf, self.client, self.stopped = False, None, False
        self.outside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.outside.bind(("127.0.0.1", self.port))
        self.inside.bind(("127.0.0.1", 0))
        for each in (self.outside, self.inside):
            each.settimeout(0.2)

    def pass_requests(self):
        while not self.stopped:
            try:
                packet, self.client = self.outside.recvfrom(4096)
                self.inside.sendto(packet, self.target)
            except TimeoutError:
                continue

    def pass_answers(self):
        while not self.stopped:
            try:
                packet = self.inside.recv(4096)
            except TimeoutError:
                continue
            if not self.is_deaf:
                self.outside.sendto(packet, self.client)

    def __enter__(self):
        self.threads = [threading.Thread(target=each) for each in (self.pass_requests, self.pass_answers)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_error):
        self.stopped = True
        for thread in self.threads:
            thread.join()
        self.outside.close()
        self.inside.close()


@pytest.mark.skipif(not shutil.which("ipmi_sim"), reason="needs openipmi")
def test_ipmi_reset_without_an_answer_is_sent_once(tmp_path, monkeypatch):
    """Test what pyghmi does otherwise: it logs in again and sends the packet, so that a machine is reset twice."""
    from gpufleet.remote.bmc import ipmi

    monkeypatch.setattr(ipmi, "ANSWER_SECONDS", 2)
    with run_ipmi_simulator(tmp_path / "ipmi") as bmc, UdpRelay(bmc["port"]) as relay:
        orders = tmp_path / "ipmi/orders"
        request = PowerRequest(bmc=Bmc(**{**bmc, "port": relay.port}), user=USER, password=PASSWORD)
        client = ipmi.IpmiClient(request)
        assert client.send_order("on") == bmc_sequence.SentOrder("on")
        assert client.read_power_state() == "on"
        before = orders.read_text().count("set reset")
        relay.is_deaf = True
        assert client.send_order("force_restart").doubt == "and its answer was lost"
        relay.is_deaf = False
        assert orders.read_text().count("set reset") == before + 1
        assert client.read_power_state() == "on"
        client.close()
