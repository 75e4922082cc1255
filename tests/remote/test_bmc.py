"""Test power control with real emulators: OpenStack's of Redfish, OpenIPMI's of IPMI; hostile answers come last."""

from __future__ import annotations

import base64
import hashlib
import resource
import shutil
import socket
import ssl
import threading
from pathlib import Path

import pytest

from bmc_emulator import (
    PASSWORD,
    USER,
    ScriptedBmc,
    build_fru,
    find_free_port,
    run_ipmi_simulator,
    run_ipmitool,
    run_redfish_emulator,
)
from gpufleet.boundary import make_values_printable
from gpufleet.fleet import Bmc
from gpufleet.remote.bmc import PowerReport, PowerRequest, run_power_action
from gpufleet.remote.bmc import __main__ as bmc_child
from gpufleet.remote.bmc.__main__ import remove_secrets, run_request
from gpufleet.remote.bmc.machine import MachineIdentity, NodeIdentifiers
from gpufleet.remote.bmc.sequence import BmcError, PowerSequence, SentOrder

missing_simulator = pytest.mark.skipif(
    not (shutil.which("ipmi_sim") and shutil.which("ipmitool")), reason="needs openipmi and ipmitool"
)


@pytest.fixture(scope="module")
def redfish(tmp_path_factory):
    pytest.importorskip("sushy_tools", reason="needs the Python package sushy-tools")
    with run_redfish_emulator(tmp_path_factory.mktemp("redfish")) as declaration:
        yield declaration


@pytest.fixture
def scripted(tmp_path):
    pytest.importorskip("sushy", reason="needs the Python package sushy")
    with ScriptedBmc(tmp_path / "bmc") as bmc:
        yield bmc


def build_request(declaration, action="read", **more):
    fields = {"user": USER, "password": PASSWORD, "shutdown_seconds": 30, **more}
    return PowerRequest(bmc=Bmc(**declaration), action=action, **fields)


def act(declaration, action="read", **more) -> PowerReport:
    """Do what the child process does, in this one: a start of Python for each of 30 requests would take longest."""
    request = build_request(declaration, action, **more)
    return make_values_printable(remove_secrets(run_request(request), request))


def act_in_child(declaration, action="read", **more) -> PowerReport:
    return run_power_action(build_request(declaration, action, **more))


def test_redfish_machine_is_switched_on_cycled_and_off(redfish):
    on = act_in_child(redfish, "on")
    assert (on.was, on.state, on.orders, on.problem) == ("off", "on", ("On",), "")
    assert on.manufacturer == "Sushy Emulator"
    assert act(redfish, "on").orders == ()
    cycled = act(redfish, "cycle")
    assert (cycled.state, cycled.orders, cycled.problem) == ("on", ("GracefulShutdown", "On"), "")
    off = act(redfish, "off")
    assert (off.state, off.orders, off.problem) == ("off", ("GracefulShutdown",), "")


@pytest.mark.parametrize(
    ("change", "more", "problem"),
    [
        ({}, {"password": "wrong"}, "the BMC refused user or password"),
        ({"system": "other"}, {}, "the BMC lists 1 systems"),
        ({"ca_file": None, "certificate_sha256": "0" * 64}, {}, "certificate is not the expected one"),
    ],
)
def test_redfish_refusals_are_one_line(redfish, change, more, problem):
    assert problem in act({**redfish, **change}, **more).problem


def test_certificate_is_verified_by_its_own_fingerprint_or_not_at_all(redfish, tmp_path):
    der = ssl.PEM_cert_to_DER_cert(Path(redfish["ca_file"]).read_text())
    pinned = {**redfish, "ca_file": None, "certificate_sha256": hashlib.sha256(der).hexdigest()}
    assert act(pinned).problem == ""
    with ScriptedBmc(tmp_path / "other") as other:  # the right address with another certificate
        other_authority = {**redfish, "ca_file": other.declaration["ca_file"]}
        assert "certificate is not the expected one" in act(other_authority).problem


@missing_simulator
def test_ipmi_machine_is_switched_on_restarted_and_off(tmp_path):
    fru = build_fru("Example", "X1", "SN-0001")
    with run_ipmi_simulator(tmp_path / "ipmi", fru) as bmc:
        assert "SN-0001" in run_ipmitool(bmc, "fru", "print", "0")
        on = act_in_child(bmc, "on")
        assert (on.was, on.state, on.orders, on.problem) == ("off", "on", ("on",), "")
        assert (on.manufacturer, on.model, on.serial) == ("Example", "X1", "SN-0001")
        assert run_ipmitool(bmc, "chassis", "power", "status") == "Chassis Power is on\n"
        (tmp_path / "ipmi/deaf").touch()
        hung = act_in_child(bmc, "cycle", shutdown_seconds=0)
        assert (hung.state, hung.orders) == ("on", ("shutdown",))
        assert hung.problem == "the system did not shut down within 0 seconds"
        cycled = act_in_child(bmc, "cycle", shutdown_seconds=0, force=True)
        assert (cycled.orders, cycled.problem) == (("shutdown", "reset"), "")
        off = act_in_child(bmc, "off", shutdown_seconds=0, force=True)
        assert (off.state, off.orders, off.problem) == ("off", ("shutdown", "off"), "")
        assert run_ipmitool(bmc, "chassis", "power", "status") == "Chassis Power is off\n"
        assert act_in_child(bmc, password="wrong").problem == "the BMC refused user or password"


def test_silent_bmc_is_given_up_after_the_limit():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        bmc = {"protocol": "redfish", "address": "127.0.0.1", "port": silent.getsockname()[1]}
        report = act_in_child({**bmc, "certificate_sha256": "0" * 64}, contact_seconds=2)
    assert report.problem == "the BMC took longer than 2 seconds"


def test_other_machine_is_never_switched(scripted):
    report = act(scripted.declaration, "off", node=NodeIdentifiers(serial="SN-0002"), force=True)
    assert (report.is_other_machine, report.orders, report.state) == (True, (), "on")
    assert act(scripted.declaration, node=NodeIdentifiers(serial="sn-0001")).is_other_machine is False
    assert not [path for method, path, _ in scripted.requests if path.endswith("ComputerSystem.Reset")]


def test_bmc_cannot_lead_to_another_host(scripted):
    """Test links and redirects: credentials would go where they point."""
    reached = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        threading.Thread(target=lambda: reached.append(other.accept()), daemon=True).start()
        elsewhere = f"https://127.0.0.1:{other.getsockname()[1]}/redfish/v1/Systems/1"
        scripted.answers["/redfish/v1/Systems"]["Members"] = [{"@odata.id": elsewhere}]
        assert "refers to another host" in act(scripted.declaration).problem
        scripted.answers["/redfish/v1/Systems"]["Members"] = [{"@odata.id": "/redfish/v1/Systems/1"}]
        scripted.headers["Location"] = elsewhere
        scripted.statuses["/redfish/v1/Systems/1"] = 307
        assert "redirect" in act(scripted.declaration).problem
        assert not reached


def test_hostile_answers_are_bounded_and_printable(scripted):
    scripted.system.update(Manufacturer="\x1b[31mEvil\n" + "x" * 5000, Model=["X1"], SerialNumber={"a": 1})
    report = act(scripted.declaration)
    assert (report.state, report.model, report.serial) == ("on", "", "")
    assert (report.manufacturer.isprintable(), len(report.manufacturer) < 1000) == (True, True)
    assert report.manufacturer.startswith("\\x1b[31mEvil")
    scripted.answers["/redfish/v1/Systems/1"] = b'{"Name": "' + b"x" * (2 << 20) + b'"}'
    assert "too large" in act(scripted.declaration).problem
    for content in (b"[" * 100_000, b"\xff\xfe", b"null", b"[]", b'{"PowerState": 7}'):
        scripted.answers["/redfish/v1/Systems/1"] = content
        assert act(scripted.declaration).state == "unknown"


def test_credentials_that_the_bmc_sends_back_are_removed(scripted):
    pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    scripted.system.update(Manufacturer=PASSWORD, Model=pair)
    report = act(scripted.declaration)
    assert (report.manufacturer, report.model) == ("***", "***")
    assert PASSWORD not in repr(build_request(scripted.declaration))


def test_order_that_the_bmc_does_not_offer_is_refused_with_its_list(scripted):
    scripted.system["PowerState"] = "Off"
    scripted.system["Actions"]["#ComputerSystem.Reset"]["ResetType@Redfish.AllowableValues"] = ["ForceOff"]
    assert act(scripted.declaration, "on").problem == "the BMC does not offer On; it offers ForceOff"


def test_refused_order_is_reported_with_the_reason(scripted):
    scripted.system["PowerState"] = "Off"
    scripted.statuses["/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"] = 403
    assert act(scripted.declaration, "on").problem == "the BMC refused On: the BMC refused user or password"


@pytest.mark.parametrize(("protocol", "library"), [("redfish", "sushy"), ("ipmi", "pyghmi")])
def test_missing_extra_is_one_line_with_its_command(monkeypatch, protocol, library):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    check = {"certificate_sha256": "0" * 64} if protocol == "redfish" else {}
    report = act_in_child({"protocol": protocol, "address": "127.0.0.1", **check})
    assert report.problem == f"{protocol} needs {library}: pip install 'gpufleet[bmc]'"


def test_bmc_that_nothing_answers_at_is_one_line():
    bmc = {"protocol": "redfish", "address": "127.0.0.1", "port": find_free_port()}
    assert act({**bmc, "certificate_sha256": "0" * 64}).problem == "nothing listens on the BMC's port"


class FakeMachine:
    """A machine whose shutdown and orders do what a test says; for the sequence only."""

    def __init__(self, *states, refuses=()):
        self.states, self.refuses = list(states), refuses

    def read_identity(self):
        return MachineIdentity()

    def read_power_state(self):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def send_order(self, order):
        if order in self.refuses:
            raise BmcError(f"the BMC refused {order}")
        return SentOrder(order)


@pytest.mark.parametrize(
    ("states", "action", "refuses", "orders", "problem"),
    [
        (["changing", "changing", "on"], "on", (), (), ""),
        (["off", "changing", "on"], "on", (), ("on",), ""),
        (["on", "on", "off"], "off", ("shutdown",), ("force_off",), ""),
        (["on", "off"], "off", ("shutdown",), (), ""),  # it went off by itself
        (["on"], "cycle", ("shutdown", "force_restart"), (), "the BMC refused force_restart"),
    ],
)
def test_sequence_waits_and_falls_back(states, action, refuses, orders, problem):
    bmc = {"protocol": "ipmi", "address": "bmc.example"}
    request = build_request(bmc, action, force=True, shutdown_seconds=0)
    report = PowerSequence(FakeMachine(*states, refuses=refuses), request, 0).run()
    assert (report.orders, report.problem) == (orders, problem)


@pytest.mark.parametrize("hard", [1 << 20, -1])
def test_child_keeps_a_lower_hard_limit_and_runs_without_one_of_memory(monkeypatch, hard):
    limits = {}

    def set_limit(kind, bounds):
        if kind == resource.RLIMIT_AS and hard == -1:
            raise ValueError("current limit exceeds maximum limit")  # as on macOS
        limits[kind] = bounds

    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (hard, hard))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    bmc_child.limit_resources()
    memory = {} if hard == -1 else {resource.RLIMIT_AS: (hard, hard)}
    assert limits == {**memory, resource.RLIMIT_CORE: (0, 0)}
