"""Power control of one node through its BMC: the declaration is checked, the machine compared, the order given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from pydantic import ValidationError

from gpufleet import fleet
from gpufleet.boundary import make_printable, validate_with_pydantic
from gpufleet.errors import InputError
from gpufleet.nodes.identity import normalize_serial
from gpufleet.nodes.inventory import is_rehearsal_address
from gpufleet.remote.bmc import PowerAction, PowerReport, PowerRequest, run_power_action


@dataclass(frozen=True)
class PowerOptions:
    """How to switch: ``serial`` is the node's own, as the registry has it; the rest as in ``PowerRequest``."""

    action: PowerAction
    user: str
    password: str
    serial: str = ""
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
    report = run_power_action(build_request(bmc, options, normalize_serial(options.serial)))
    if not report.is_other_machine:
        return report
    if normalize_serial(report.serial) is None:  # "To be filled by O.E.M." is no evidence of another machine
        return run_power_action(build_request(bmc, options, None))
    problem = (
        f"the BMC {bmc.address} belongs to serial {report.serial}, the node has {options.serial}:"
        " nothing was switched"
    )
    return report.model_copy(update={"problem": make_printable(problem, 500)})


def build_request(bmc: fleet.Bmc, options: PowerOptions, serial: str | None) -> PowerRequest:
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
            serial=serial,
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
    done = f" after {', '.join(report.orders)}" if report.orders else ""
    line = report.problem or f"power {report.state}{done}" + (f" (was {report.was})" if report.orders else "")
    return f"{line}; {who}" if who else line


def build_power_facts(report: PowerReport, protocol: str) -> dict[str, Any]:
    """Return what the registry stores of a report."""
    texts = {
        "state": report.state,
        "protocol": protocol,
        "manufacturer": report.manufacturer,
        "model": report.model,
        "serial": report.serial,
    }
    reasons = [{"code": "bmc", "level": "warning", "message": report.problem}] if report.problem else []
    return {"facts": {key: text for key, text in texts.items() if text}, "reasons": reasons}
