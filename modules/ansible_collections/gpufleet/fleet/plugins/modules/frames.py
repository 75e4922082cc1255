# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Set the MTU of running interfaces, and find out whether full frames reach the peers."""

from __future__ import annotations

DOCUMENTATION = """
module: frames
short_description: Set interfaces' MTU and send full frames to peers
description:
  - Sets the MTU of running interfaces. To keep it over a restart is the network configuration's part, not this one's.
  - Sends each peer frames of full size that may not be split. What is not on this host, can't be set or does not pass
    is named in I(not_applied) and does not fail the task.
options:
  mtu: {description: Interface to MTU., type: dict, default: {}}
  peers: {description: Addresses or names., type: list, elements: str, default: []}
  not_persistent: {description: Why the MTU does not survive a restart. Reported., type: str, default: ""}
  size: {description: "Size of the frame, IP header included.", type: int, default: 9000}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Use jumbo frames on the second card, and know that they arrive
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

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError, first_line, run  # noqa: E402

NET = Path("/sys/class/net")
# IPv6 asks 1280 of every link; the largest frame that Ethernet and IP over InfiniBand cards take is 65520.
LEAST, MOST = 1280, 65520
HEADERS = {4: 20 + 8, 6: 40 + 8}


def set_mtu(name: str, value: int, check_mode: bool) -> bool | str:
    """Bring one interface to its MTU; return True when set, False when it was, or the reason why it can't be."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,15}", name) or not LEAST <= value <= MOST:
        raise HostError(f"refused: mtu: {name}: {value}: an MTU must be between {LEAST} and {MOST}")
    try:
        now = int((NET / name / "mtu").read_text(encoding="ascii"))
    except OSError:
        return "no such interface"
    if now == value or check_mode:
        return now != value
    status, out, err = run(["ip", "link", "set", "dev", name, "mtu", str(value)])
    return True if status == 0 else first_line(err, out)


def ip_version(peer: str) -> int:
    """Return which IP a peer is asked by; a name is left to ping's own choice of IPv4."""
    try:
        return ipaddress.ip_address(peer).version
    except ValueError:
        return 4


def ping_failure(text: str) -> str:
    """Return why no frame came back as ping reports it; empty if ping gives no reason."""
    match = re.search(
        r"(message too long.*|Frag needed.*|Packet too big.*|.*Unreachable|.*unknown|.*not known)", text
    )
    return match[1].strip() if match else ""


def ping(peer: str, size: int) -> tuple[int, str]:
    """Send three frames that may not be split; return ping's status and output."""
    family = ip_version(peer)
    argv = ["ping", f"-{family}", "-M", "do", "-c", "3", "-i", "0.2", "-W", "2", "-n"]
    status, out, err = run([*argv, "-s", str(size - HEADERS[family]), "--", peer], timeout=30)
    return status, f"{err}\n{out}"


def check_frames(peer: str, size: int) -> str:
    """Send full frames; where they are lost without a word, find out whether small ones are too."""
    status, text = ping(peer, size)
    if status == 0:
        return "passes"
    if explanation := ping_failure(text):
        return explanation
    small = min(size // 2, LEAST)
    status, text = ping(peer, small)
    if status == 0:
        return f"frames of {size} bytes are lost on the way, those of {small} pass"
    return ping_failure(text) or "no answer, not even to small frames"


def apply_options(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Do both and return Ansible's result."""
    outcome = {name: set_mtu(name, int(value), check_mode) for name, value in params["mtu"].items()}
    ready = not check_mode or not any(value is True for value in outcome.values())
    peers = {peer: check_frames(peer, params["size"]) for peer in params["peers"]} if ready else {}
    refused = {
        "mtu": {name: value for name, value in outcome.items() if isinstance(value, str)},
        "frames": {peer: answer for peer, answer in peers.items() if answer != "passes"},
        "mtu_kept": params["not_persistent"],
    }
    return {
        "changed": True in outcome.values(),
        "peers": peers,
        "not_applied": {key: value for key, value in refused.items() if value},
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
        module.exit_json(**apply_options(module.params, module.check_mode))
    except HostError as trouble:
        module.fail_json(msg=trouble.msg, **trouble.more)


if __name__ == "__main__":
    main()
