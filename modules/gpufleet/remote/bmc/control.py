"""Runs one request in a child process that cannot outlive its time."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from gpufleet.boundary import decode_json_object, make_values_printable, validate_with_pydantic
from gpufleet.errors import InputError
from gpufleet.extra import format_install_command
from gpufleet.remote.bmc.model import PowerReport, PowerRequest

LIBRARIES = {"redfish": "sushy", "ipmi": "pyghmi"}


def run_power_action(request: PowerRequest) -> PowerReport:
    """Return what the BMC reported; everything that goes wrong with it is the report's problem."""
    library = LIBRARIES[request.bmc.protocol]
    if importlib.util.find_spec(library) is None:
        return PowerReport(problem=f"{request.bmc.protocol} needs {library}: {format_install_command('bmc')}")
    try:
        completed = subprocess.run(
            [sys.executable, "-P", "-m", "gpufleet.remote.bmc"],  # -P: no module of the current folder
            input=request.model_dump_json().encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=request.limit_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        problem = f"the BMC took longer than {request.limit_seconds} seconds"
        return (decode_last_report(error.stdout or b"") or PowerReport()).model_copy(
            update={"problem": problem}
        )
    problem = f"the {library} process ended with status {completed.returncode}"
    report = decode_last_report(completed.stdout)
    if report is None or completed.returncode:
        return (report or PowerReport()).model_copy(update={"problem": problem})
    return report


def decode_last_report(output: bytes) -> PowerReport | None:
    """Return the last complete report that the child process printed; None if there is none."""
    lines = output.rpartition(b"\n")[0].splitlines()
    try:
        values = decode_json_object(lines[-1] if lines else b"", "BMC")
        return make_values_printable(validate_with_pydantic(PowerReport, values, "BMC"))
    except InputError:
        return None
