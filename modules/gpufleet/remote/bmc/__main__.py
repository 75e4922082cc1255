"""The child process: one request on standard input, reports on standard output, one a line; the last one counts."""

from __future__ import annotations

import base64
import logging
import resource
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gpufleet.boundary import decode_json_object, validate_with_pydantic
from gpufleet.remote.bmc.machine import LONGEST_TEXT
from gpufleet.remote.bmc.model import LONGEST_PROBLEM, PowerReport, PowerRequest
from gpufleet.remote.bmc.sequence import BmcError, PowerSequence

MEMORY_BYTES = 1 << 30


def run_request(request: PowerRequest, record: Callable[[PowerReport], None] | None = None) -> PowerReport:
    """Carry out a request; whatever a BMC sends, the result is a report. ``record`` gets one with each order."""
    client: Any
    if request.bmc.protocol == "redfish":
        from gpufleet.remote.bmc import redfish as protocol

        connect: Any = protocol.RedfishClient
    else:
        from gpufleet.remote.bmc import ipmi as protocol  # type: ignore[no-redef]

        connect = protocol.IpmiClient  # type: ignore[attr-defined]
    client = None
    try:
        client = connect(request)
        return PowerSequence(client, request, record=record).run()
    except BmcError as error:
        return PowerReport(problem=str(error)[:500])
    except Exception as error:  # noqa: BLE001 - the libraries raise what an unexpected answer makes them raise
        return PowerReport(problem=protocol.describe_error(error)[:500])
    finally:
        if client is not None:
            close_quietly(client)


def close_quietly(client: Any) -> None:
    """End the session; that a BMC does not take the goodbye changes nothing in the report."""
    try:
        client.close()
    except Exception:  # noqa: BLE001
        logging.getLogger(__name__).debug("the session was not ended")


def remove_secrets(report: PowerReport, request: PowerRequest) -> PowerReport:
    """Return a report without the credentials: a BMC may send back what it was sent."""
    user, password = request.user.get_secret_value(), request.password.get_secret_value()
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()

    def clean(text: str, longest: int = LONGEST_PROBLEM) -> str:
        return text.replace(pair, "***").replace(password, "***")[:longest]

    values = report.model_dump(exclude={"was", "state", "match", "orders", "notes"})
    texts = {
        key: clean(value) if key == "problem" else clean(value, LONGEST_TEXT) for key, value in values.items()
    }
    return report.model_copy(update={**texts, "notes": tuple(map(clean, report.notes))})


def print_report(report: PowerReport, request: PowerRequest) -> None:
    """Print a report as one line."""
    sys.stdout.write(f"{remove_secrets(report, request).model_dump_json()}\n")
    sys.stdout.flush()


def limit_resources() -> None:
    """Limit this process, to less where the system's hard limit is lower."""
    limits = {
        resource.RLIMIT_AS: MEMORY_BYTES,
        resource.RLIMIT_CORE: 0,
    }  # a core file would hold the password
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(ValueError, OSError):  # macOS has no limit of the address space
            resource.setrlimit(kind, (bound, bound))


def main() -> None:
    limit_resources()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    values = decode_json_object(sys.stdin.buffer.read(), "request")
    request = validate_with_pydantic(PowerRequest, values, "request")
    print_report(run_request(request, lambda report: print_report(report, request)), request)


if __name__ == "__main__":
    main()
