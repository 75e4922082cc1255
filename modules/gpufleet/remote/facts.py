"""What a probe asks a node, and how the answer is read. Pure.

One line of shell runs on the node and prints sections; everything is worked out here, so that a better reading can
be applied to an answer that was kept.
"""

from __future__ import annotations

from dataclasses import dataclass

# Every file may be missing; only a section's heading is certain. NULs end device-tree texts.
SOURCES = {
    "arch": "uname -m",
    "kernel": "uname -r",
    "hostname": "uname -n",
    "os_release": "cat /etc/os-release",
    "machine_id": "cat /etc/machine-id",
    "device_tree_serial": "cat /proc/device-tree/serial-number || cat /sys/firmware/devicetree/base/serial-number",
    "device_tree_model": "cat /proc/device-tree/model || cat /sys/firmware/devicetree/base/model",
    "dmi_serial": "cat /sys/class/dmi/id/product_serial",
    "dmi_board_serial": "cat /sys/class/dmi/id/board_serial",
    "dmi_uuid": "cat /sys/class/dmi/id/product_uuid",
    "dmi_model": "cat /sys/class/dmi/id/product_name",
    "route": "cat /proc/net/route",
    "interfaces": "cd /sys/class/net && grep -H . */address",
}
MARK = "=== gpufleet"

COMMAND = "; ".join(
    f"echo '{MARK} {name}'; {{ {command}; }} 2>/dev/null | tr -d '\\000'" for name, command in SOURCES.items()
)


@dataclass(frozen=True)
class ProbedFacts:
    """What identifies a node. An empty text means that the node did not report it."""

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
    )


def split_probe_sections(text: str) -> dict[str, str]:
    """Split the answer at its headings. Text before the first one (a login's greeting) is ignored."""
    sections_by_name: dict[str, str] = {}
    for part in text.split(f"{MARK} ")[1:]:
        name, _, body = part.partition("\n")
        sections_by_name[name.strip()] = body.strip()
    return sections_by_name


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
