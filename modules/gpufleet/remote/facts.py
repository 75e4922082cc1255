"""What a probe asks a node, and how the answer is read. Pure.

One line of shell runs on the node and prints sections and files; all is worked out here, so that a better reading can
be applied to an answer that was kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from gpufleet.remote import hardware_facts
from gpufleet.remote.hardware_facts import HardwareFacts

INTERFACES = "/sys/class/net/"

FILES = {
    "os_release": "/etc/os-release",
    "machine_id": "/etc/machine-id",
    "device_tree_serial": "/sys/firmware/devicetree/base/serial-number",  # where /proc/device-tree leads
    "device_tree_model": "/sys/firmware/devicetree/base/model",
    "dmi_serial": "/sys/class/dmi/id/product_serial",
    "dmi_board_serial": "/sys/class/dmi/id/board_serial",
    "dmi_uuid": "/sys/class/dmi/id/product_uuid",
    "dmi_model": "/sys/class/dmi/id/product_name",
    "route": "/proc/net/route",
    "interfaces": f"{INTERFACES}*/address",
    **hardware_facts.FILES,
}
"""What is read as it is, by the name of its answer. Every file may be missing."""
COMMANDS = {
    "arch": "uname -m",
    "kernel": "uname -r",
    "hostname": "uname -n",
    **hardware_facts.COMMANDS,
}
MARK = "=== gpufleet"

# Processes are what an answer costs: one grep reads all files, one tr drops the NULs that end device-tree texts.
COMMAND = (
    "{ "
    + "; ".join(f"echo '{MARK} {name}'; {command}" for name, command in COMMANDS.items())
    + f"; echo '{MARK} files'; grep -asH '' {' '.join(FILES.values())}"
    + "; } 2>/dev/null | tr -d '\\000'"
)
_NAMES = {path: name for name, path in FILES.items()}


@dataclass(frozen=True)
class ProbedFacts:
    """What identifies a node, and its hardware. An empty text means that the node did not report it."""

    arch: str
    kernel: str
    hostname: str
    os: str
    os_version: str
    os_name: str
    machine_id: str
    serial: str
    serial_source: str
    model: str
    mac: str
    board_serial: str = ""
    uuid: str = ""
    hardware: HardwareFacts = field(default_factory=HardwareFacts)

    def list_reported_values(self) -> dict[str, Any]:
        """Return what the node reported, by its key in the registry; the serial is part of its identity."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        del own["serial"], own["hardware"]
        return {key: value for key, value in own.items() if value} | self.hardware.list_reported_values()


def parse_probe_answer(answer_text: str) -> ProbedFacts:
    """Read the answer to COMMAND."""
    answers = split_probe_sections(answer_text)
    system = parse_os_release(answers.get("os_release", ""))
    serial, source = find_board_serial(answers)
    return ProbedFacts(
        arch=answers.get("arch", ""),
        kernel=answers.get("kernel", ""),
        hostname=answers.get("hostname", ""),
        os=system.get("ID", ""),
        os_version=system.get("VERSION_ID", ""),
        os_name=system.get("PRETTY_NAME", ""),
        machine_id=answers.get("machine_id", ""),
        serial=serial,
        serial_source=source,
        model=answers.get("device_tree_model") or answers.get("dmi_model", ""),
        mac=find_main_mac_address(answers.get("route", ""), answers.get("interfaces", "")),
        # What tells nodes of one chassis apart if they report one product serial.
        board_serial=answers.get("dmi_board_serial", ""),
        uuid=answers.get("dmi_uuid", ""),
        hardware=hardware_facts.parse_hardware_facts(answers),
    )


def split_probe_sections(text: str) -> dict[str, str]:
    """Split the answer at its headings. Text before the first one (a login's greeting) is ignored."""
    sections_by_name: dict[str, str] = {}
    for part in text.split(f"{MARK} ")[1:]:
        name, _, body = part.partition("\n")
        sections_by_name[name.strip()] = body.strip()
    return _split_files(sections_by_name.pop("files", "")) | sections_by_name


def _split_files(text: str) -> dict[str, str]:
    """Return the content of each file of ``FILES`` from grep's ``path:line``; interfaces keep their names."""
    lines_by_name: dict[str, list[str]] = {}
    for line in text.splitlines():
        path, _, content = line.partition(":")
        if (name := _NAMES.get(path)) is not None:
            lines_by_name.setdefault(name, []).append(content)
        elif (folder := path.removeprefix(INTERFACES)) != path:
            lines_by_name.setdefault("interfaces", []).append(f"{folder}:{content}")
    return {name: "\n".join(lines).strip() for name, lines in lines_by_name.items()}


def parse_os_release(text: str) -> dict[str, str]:
    """Return the assignments of an os-release file."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def find_board_serial(answers: dict[str, str]) -> tuple[str, str]:
    """Return the serial and where it comes from: a Pi's device tree before a PC's DMI."""
    places = {"device_tree_serial": "device_tree", "dmi_serial": "dmi", "dmi_board_serial": "dmi"}
    return next(((answers[key], source) for key, source in places.items() if answers.get(key)), ("", ""))


def find_main_mac_address(route_table: str, interface_addresses: str) -> str:
    """Return the address of the network card that has the default route, else of the first real one."""
    addresses = dict(
        line.split("/address:", 1) for line in interface_addresses.splitlines() if "/address:" in line
    )
    rows = [line.split() for line in route_table.splitlines()[1:]]
    defaults = [row[0] for row in rows if len(row) > 1 and row[1] == "00000000"]
    routed = [row[0] for row in rows if row]
    for name in (*defaults, *routed, *sorted(addresses)):
        if name in addresses and addresses[name] != "00:00:00:00:00:00":
            return addresses[name]
    return ""
