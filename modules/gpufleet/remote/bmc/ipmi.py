"""IPMI 2.0 (RMCP+) through pyghmi: standard commands only, none of a vendor."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from pyghmi.exceptions import PyghmiException
from pyghmi.ipmi import command, fru
from pyghmi.ipmi.oem import generic
from pyghmi.ipmi.private.util import get_ipmi_error

from gpufleet.remote.bmc.machine import MachineIdentity
from gpufleet.remote.bmc.model import PowerRequest, PowerState
from gpufleet.remote.bmc.sequence import BmcBusyError, BmcError, BmcUnavailableError, Order, SentOrder

DEFAULT_PORT = 623
# Get FRU Inventory Area Info and Read FRU Data: IPMI 2.0 specification, sections 34.1 and 34.2.
STORAGE, GET_FRU_AREA, READ_FRU = 0x0A, 0x10, 0x11
FRU_READ_BYTES = 16
MAX_FRU_BYTES = 1024
# Get System GUID: section 22.14. Chassis Control: section 28.3.
APPLICATION, GET_SYSTEM_GUID, GUID_BYTES = 0x06, 0x37, 16
CHASSIS, CHASSIS_CONTROL = 0x00, 0x02
NODE_BUSY = 0xC0
ANSWER_SECONDS = 10
ORDERS: dict[Order, tuple[str, int]] = {
    "on": ("on", 0x01),
    "resume": ("on", 0x01),
    "shutdown": ("shutdown", 0x05),
    "force_off": ("off", 0x00),
    "force_restart": ("reset", 0x03),
}


class StandardCommand(command.Command):  # type: ignore[misc]  # the library has no types
    """pyghmi's commands without its handlers for vendors, which would open further connections."""

    def oem_init(self) -> None:
        self._oem = generic.OEMHandler(None, None)
        self._oemknown = True


class IpmiClient:
    """One BMC's session."""

    def __init__(self, request: PowerRequest) -> None:
        self._request = request
        self._command = self._connect()

    def _connect(self) -> StandardCommand:
        return StandardCommand(
            bmc=self._request.bmc.address,
            userid=self._request.user.get_secret_value(),
            password=self._request.password.get_secret_value(),
            port=self._request.bmc.port or DEFAULT_PORT,
            keepalive=False,
        )

    def close(self) -> None:
        """End the session on the BMC: it has few of them."""
        self._command.ipmi_session.logout()

    def read_identity(self) -> MachineIdentity:
        try:
            values = fru.FRU(rawdata=self._read_fru()).info or {}
        except Exception:  # noqa: BLE001 - no FRU, which is allowed, or one that cannot be parsed
            values = {}
        return MachineIdentity.from_values(
            manufacturer=values.get("Manufacturer"),
            model=values.get("Product name"),
            serial=values.get("Serial Number"),
            board_serial=values.get("Board serial number"),
            chassis_serial=values.get("Chassis serial number"),
            guid=self._read_guid(),
        )

    def _read_guid(self) -> str:
        """Return the GUID of the system as the bytes came; empty if the BMC has none, which is allowed."""
        with suppress(PyghmiException):
            answer = self._command.raw_command(netfn=APPLICATION, command=GET_SYSTEM_GUID)
            if "error" not in answer and len(answer["data"]) == GUID_BYTES:
                return bytes(answer["data"]).hex()
        return ""

    def _read_fru(self) -> bytes:
        """Return the first bytes of FRU 0. pyghmi's own reader asks for more at once than some BMCs send."""
        size_answer = self._command.raw_command(netfn=STORAGE, command=GET_FRU_AREA, data=[0])["data"]
        size = min(size_answer[0] | size_answer[1] << 8, MAX_FRU_BYTES)
        content = bytearray()
        while len(content) < size:
            place = [0, len(content) & 0xFF, len(content) >> 8, min(FRU_READ_BYTES, size - len(content))]
            answer = self._command.raw_command(netfn=STORAGE, command=READ_FRU, data=place)
            if "error" in answer or not answer["data"][0]:
                break
            content += bytes(answer["data"][1:])
        return bytes(content)

    def read_power_state(self) -> PowerState:
        try:
            if self._command.ipmi_session.broken:
                self._command = self._connect()
            state = self._command.get_power().get("powerstate")
        except PyghmiException as error:
            raise BmcUnavailableError(describe_error(error)) from None
        return "on" if state == "on" else "off" if state == "off" else "unknown"

    def send_order(self, order: Order) -> SentOrder:
        """Send one packet. pyghmi itself sends a command again in a new session: a machine would be reset twice."""
        name, code = ORDERS[order]
        try:
            answer = self._send_packet(code)
        except PyghmiException as error:
            raise BmcBusyError(f"{name} was not sent: {describe_error(error)}") from None
        if answer is None:
            return SentOrder(name, "and its answer was lost")
        if problem := get_ipmi_error(answer):
            refusal = f"the BMC refused {name}: {problem}"
            raise BmcBusyError(refusal) if answer.get("code") == NODE_BUSY else BmcError(refusal)
        return SentOrder(name)

    def _send_packet(self, code: int) -> dict[str, Any] | None:
        """Send Chassis Control once; return the answer, None if none comes."""
        session, answers = self._command.ipmi_session, []  # type: ignore[var-annotated]
        session.raw_command(
            netfn=CHASSIS, command=CHASSIS_CONTROL, data=[code], retry=False, callback=answers.append
        )
        deadline = time.monotonic() + ANSWER_SECONDS
        while not answers and time.monotonic() < deadline:
            session.wait_for_rsp(timeout=0.5)
        # What pyghmi leaves to the caller of a command with a callback.
        session.incommand = False
        while session.evq:
            session.evq.popleft().set()
        return answers[0] if answers else None


def describe_error(error: Exception) -> str:
    """Return why a command failed, in few words."""
    text = str(error)
    if text in ("", "None") or "timeout" in text.lower():
        return "the BMC does not answer"
    if "password" in text.lower() or "username" in text.lower():
        return "the BMC refused user or password"
    return text
