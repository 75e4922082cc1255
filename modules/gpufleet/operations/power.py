"""Power control of one node through its BMC: the declaration is checked, the machine compared, the order given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

from pydantic import ValidationError

from gpufleet import fleet
from gpufleet.boundary import make_printable, validate_with_pydantic
from gpufleet.errors import InputError
from gpufleet.nodes.identity import normalize_serial
from gpufleet.nodes.inventory import is_rehearsal_address
from gpufleet.remote.bmc import (
    MachineIdentity,
    NodeIdentifiers,
    PowerAction,
    PowerReport,
    PowerRequest,
    compare_machine,
    describe_identifiers,
    run_power_action,
)

UUID = r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"


@dataclass(frozen=True)
class PowerOptions:
    """How to switch; ``identifiers`` are the node's own as the registry has them, the rest is as in ``PowerRequest``.

    ``serial`` is the node's own too, or another one that a person set: then only that one counts.
    """

    action: PowerAction
    user: str
    password: str
    serial: str = ""
    identifiers: Mapping[str, Any] = field(default_factory=dict)
    force: bool = False
    shutdown_seconds: int = 300
    contact_seconds: int = 60
    rehearsal: bool = False


def control_power(declaration: Mapping[str, Any], options: PowerOptions) -> PowerReport:
    """Carry out an action and return the report; InputError if the declaration or the credentials are unusable."""
    if not declaration:
        remedy = "declare bmc in its rack file or gpufleet_bmc, or leave the node out with --limit"
        raise InputError("the node has no BMC", remedy=remedy)
    bmc = validate_with_pydantic(fleet.Bmc, dict(declaration), "gpufleet_bmc")
    if options.rehearsal and not is_harmless_address(bmc.address):
        raise InputError(
            f"a rehearsal does not contact the BMC {bmc.address}", where="gpufleet_bmc", key="address"
        )
    request = build_request(bmc, options)
    report = run_power_action(request)
    if report.match not in ("other", "unknown"):
        return report
    theirs = describe_identifiers(report.model_dump())
    sides = f"it reports {theirs}; the node has {request.node.describe()}"
    remedy = f"after a look at the machine, set power_serial: {choose_serial(report, options)} for this node"
    if report.match == "unknown" and options.action == "on":
        note = f"the BMC {bmc.address} could not be identified, {report.match_reason}: {sides}; {remedy}"
        return report.model_copy(update={"notes": (*report.notes, make_printable(note, 500))})
    is_other = report.match == "other"
    claim = "belongs to another machine" if is_other else "is not known to belong to this node"
    done = "" if options.action == "read" else ": nothing was switched"
    problem = (
        f"the BMC {bmc.address} {claim}, {report.match_reason}: {sides}{done}; if it is this node's, {remedy}"
    )
    if options.action == "read" and not is_other:
        return report.model_copy(update={"notes": (*report.notes, make_printable(problem, 500))})
    return report.model_copy(update={"problem": make_printable(problem, 500)})


def choose_serial(report: PowerReport, options: PowerOptions) -> str:
    """Return the identifier of a BMC that a person can name as the node's: one with which the node is the same.

    A placeholder is none, and neither is a serial that all nodes of a chassis have.
    """
    names = ("manufacturer", "model", "serial", "sku", "board_serial", "chassis_serial", "uuid", "guid")
    machine = MachineIdentity(**{name: getattr(report, name) for name in names})
    for name in ("serial", "board_serial", "chassis_serial", "uuid"):
        text = str(getattr(machine, name))
        if normalize_serial(text) is None:
            continue
        node = build_identifiers(replace(options, serial=text))
        if compare_machine(node, machine).match == "same":
            return text
    return report.serial or report.uuid or "''"


def build_identifiers(options: PowerOptions) -> NodeIdentifiers:
    """Return what to compare with the BMC: the node's identifiers, or the one that a person set in their place."""
    known = {key: text for key, text in options.identifiers.items() if key in NodeIdentifiers.model_fields}
    registered = normalize_serial(str(known.get("serial") or ""))
    serial = normalize_serial(options.serial)
    if serial == registered:
        return NodeIdentifiers(
            **{key: str(text or "")[:200] for key, text in known.items()} | {"serial": serial or ""}
        )
    if serial is None and options.serial.strip():
        raise InputError(
            f"{make_printable(options.serial, 60)!r} identifies nothing: many machines report it",
            where="power_serial",
            remedy="name the machine's UUID or board serial",
        )
    is_uuid = re.fullmatch(UUID, serial or "") is not None  # a person may name that too
    return NodeIdentifiers(uuid=serial or "") if is_uuid else NodeIdentifiers(serial=serial or "")


def build_request(bmc: fleet.Bmc, options: PowerOptions) -> PowerRequest:
    """Return a request; InputError, which never quotes a credential, if a value is out of range."""
    for name in ("user", "password"):
        if not getattr(options, name):
            remedy = f"set power_{name} from a vault, a file or the environment"
            raise InputError("is empty", where=f"power_{name}", remedy=remedy)
    try:
        return PowerRequest(
            bmc=bmc,
            user=options.user,
            password=options.password,
            action=options.action,
            node=build_identifiers(options),
            force=options.force,
            shutdown_seconds=options.shutdown_seconds,
            contact_seconds=options.contact_seconds,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise InputError(make_printable(first["msg"]), where=f"power_{first['loc'][0]}") from None


def is_harmless_address(address: str) -> bool:
    """Return True if no real BMC can have an address: it is in the range for tests, or of this machine."""
    try:
        return is_rehearsal_address(address) or ip_address(address).is_loopback
    except ValueError:
        return False


def describe_power(report: PowerReport) -> str:
    """Return a report as one line."""
    machine = " ".join(part for part in (report.manufacturer, report.model) if part)
    who = f"{machine}, serial {report.serial}" if report.serial else machine
    orders = ", ".join(report.orders)
    if report.problem:
        line = f"{report.problem} (sent: {orders}; power {report.state})" if orders else report.problem
    else:
        line = f"power {report.state}" + (f" after {orders} (was {report.was})" if orders else "")
    return "; ".join(part for part in (line, *report.notes, who) if part)


def build_power_facts(report: PowerReport, protocol: str) -> dict[str, Any]:
    """Return what the registry stores of a report."""
    texts = {
        "state": report.state,
        "protocol": protocol,
        "manufacturer": report.manufacturer,
        "model": report.model,
        "serial": report.serial,
        "sku": report.sku,
        "uuid": report.uuid,
    }
    messages = [message for message in (report.problem, *report.notes) if message]
    reasons = [{"code": "bmc", "level": "warning", "message": message} for message in messages]
    return {"facts": {key: text for key, text in texts.items() if text}, "reasons": reasons}
