# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Set the MTU of running interfaces, and find out whether full frames reach the peers."""

from __future__ import annotations

DOCUMENTATION = """
module: frames
short_description: Set the MTU of interfaces and verify that full frames reach peers
description:
  - Sets the MTU of running interfaces until the next restart; the network configuration has to set it permanently.
  - Sends each peer frames of full size that may not be fragmented. A missing interface, an MTU that cannot be set and
    a peer that does not answer are listed in I(not_applied) and do not fail the task.
options:
  mtu: {description: Interface to MTU., type: dict, default: {}}
  peers: {description: Addresses or names., type: list, elements: str, default: []}
  not_persistent: {description: Why the MTU is lost at a restart; returned as C(mtu_kept)., type: str, default: ""}
  size: {description: "Size of the frame, IP header included.", type: int, default: 9000}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Set jumbo frames on the second interface and verify that they arrive
  gpufleet.fleet.frames:
    mtu: {eth1: 9000}
    peers: [198.18.1.11]
"""

RETURN = """
peers: {description: "Peer to C(passes) or the reason why not.", returned: always, type: dict}
not_applied:
  description: C(mtu) and C(frames), each name to reason; C(mtu_kept), a reason.
  returned: always
  type: dict
"""

import ipaddress  # noqa: E402 - Ansible wants its documentation above the imports
import re  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (  # noqa: E402
    HostError,
    first_nonempty_line,
    run_program,
)

NET = Path("/sys/class/net")
# IPv6 asks 1280 of every link; the largest frame that Ethernet and IP over InfiniBand cards take is 65520.
MIN_MTU = 1280
MAX_MTU = 65520
HEADERS = {4: 20 + 8, 6: 40 + 8}


def set_interface_mtu(interface: str, mtu: int, check_mode: bool) -> bool | str:
    """Set the MTU of an interface; return True if it was set, False if it had it already, or why it cannot be set."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,15}", interface) or not MIN_MTU <= mtu <= MAX_MTU:
        raise HostError(f"mtu: {interface}: {mtu}: an MTU must be between {MIN_MTU} and {MAX_MTU}")
    try:
        now = int((NET / interface / "mtu").read_text(encoding="ascii"))
    except OSError:
        return "this host has no such interface"
    if now == mtu or check_mode:
        return now != mtu
    status, out, err = run_program(["ip", "link", "set", "dev", interface, "mtu", str(mtu)])
    return True if status == 0 else first_nonempty_line(err, out)


def peer_ip_version(peer: str) -> int:
    """Return the IP version of a peer's address; 4 for a name."""
    try:
        return ipaddress.ip_address(peer).version
    except ValueError:
        return 4


def parse_ping_failure(ping_output: str) -> str:
    """Return the reason that ping reports for a lost frame; empty if it reports none."""
    match = re.search(
        r"(message too long.*|Frag needed.*|Packet too big.*|.*Unreachable|.*unknown|.*not known)",
        ping_output,
    )
    return match[1].strip() if match else ""


def ping_peer(peer: str, frame_bytes: int) -> tuple[int, str]:
    """Send three frames that may not be fragmented; return ping's status and output."""
    family = peer_ip_version(peer)
    argv = ["ping", f"-{family}", "-M", "do", "-c", "3", "-i", "0.2", "-W", "2", "-n"]
    status, out, err = run_program([*argv, "-s", str(frame_bytes - HEADERS[family]), "--", peer], timeout=30)
    return status, f"{err}\n{out}"


def check_full_frames(peer: str, frame_bytes: int) -> str:
    """Send full frames; if they are lost without a reason, send small ones. Return ``passes`` or the reason."""
    status, text = ping_peer(peer, frame_bytes)
    if status == 0:
        return "passes"
    if explanation := parse_ping_failure(text):
        return explanation
    small = min(frame_bytes // 2, MIN_MTU)
    status, text = ping_peer(peer, small)
    if status == 0:
        return f"frames of {frame_bytes} bytes are lost, those of {small} pass"
    return parse_ping_failure(text) or "no answer, also not to small frames"


def set_mtu_and_check_frames(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Set the MTU of the interfaces, then send frames to the peers; return Ansible's result."""
    outcome = {name: set_interface_mtu(name, int(value), check_mode) for name, value in params["mtu"].items()}
    ready = not check_mode or not any(value is True for value in outcome.values())
    peers = {peer: check_full_frames(peer, params["size"]) for peer in params["peers"]} if ready else {}
    not_applied = {
        "mtu": {name: value for name, value in outcome.items() if isinstance(value, str)},
        "frames": {peer: answer for peer, answer in peers.items() if answer != "passes"},
        "mtu_kept": params["not_persistent"],
    }
    return {
        "changed": True in outcome.values(),
        "peers": peers,
        "not_applied": {key: value for key, value in not_applied.items() if value},
    }


def main() -> None:
    spec = {
        "mtu": {"type": "dict", "default": {}},
        "peers": {"type": "list", "elements": "str", "default": []},
        "not_persistent": {"type": "str", "default": ""},
        "size": {"type": "int", "default": 9000},
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    try:
        module.exit_json(**set_mtu_and_check_frames(module.params, module.check_mode))
    except HostError as error:
        module.fail_json(msg=error.msg, **error.result)


if __name__ == "__main__":
    main()
