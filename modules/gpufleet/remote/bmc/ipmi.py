"""IPMI 2.0 (RMCP+) through pyghmi: standard commands only, none of a vendor."""

from __future__ import annotations

from pyghmi.exceptions import PyghmiException
from pyghmi.ipmi import command, fru
from pyghmi.ipmi.oem import generic

from gpufleet.remote.bmc.model import PowerRequest, PowerState
from gpufleet.remote.bmc.sequence import BmcError, MachineIdentity, Order

DEFAULT_PORT = 623
# Get FRU Inventory Area Info and Read FRU Data: IPMI 2.0 specification, sections 34.1 and 34.2.
STORAGE, GET_FRU_AREA, READ_FRU = 0x0A, 0x10, 0x11
FRU_READ_BYTES = 16
MAX_FRU_BYTES = 1024
ORDERS: dict[Order, str] = {
    "on": "on",
    "shutdown": "shutdown",
    "force_off": "off",
    "force_restart": "reset",
}


class StandardCommand(command.Command):  # type: ignore[misc]  # the library has no types
    """pyghmi's commands without its handlers for vendors, which would open further connections."""

    def oem_init(self) -> None:
        self._oem = generic.OEMHandler(None, None)
        self._oemknown = True


class IpmiClient:
    """One BMC's session."""

    def __init__(self, request: PowerRequest) -> None:
        self._command = StandardCommand(
            bmc=request.bmc.address,
            userid=request.user.get_secret_value(),
            password=request.password.get_secret_value(),
            port=request.bmc.port or DEFAULT_PORT,
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
            values.get("Manufacturer"), values.get("Product name"), values.get("Serial Number")
        )

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
        state = self._command.get_power().get("powerstate")
        return "on" if state == "on" else "off" if state == "off" else "unknown"

    def send_order(self, order: Order) -> str:
        try:
            self._command.set_power(ORDERS[order], wait=False)
        except PyghmiException as error:
            raise BmcError(f"the BMC refused {ORDERS[order]}: {describe_error(error)}") from None
        return ORDERS[order]


def describe_error(error: Exception) -> str:
    """Return why a command failed, in few words."""
    text = str(error)
    if text in ("", "None") or "timeout" in text.lower():
        return "the BMC does not answer"
    if "password" in text.lower() or "username" in text.lower():
        return "the BMC refused user or password"
    return text
