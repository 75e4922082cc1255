"""The registry of nodes: identity, values with their sources, state and history.

Input: reports from declared racks, Pulumi state, cloud APIs, address books, facts over SSH, and
burn-in results. Each is matched to a node (board serial first, then cloud instance id, then rack slot),
merged field by field, and stored with its source and time. Output: nodes with their state,
holds, reachability, sources and append-only history, and the model of Ansible's inventory. States
change only as ``STATES`` allows. SQLite by default, PostgreSQL by URL, one schema.
"""

from typing import TYPE_CHECKING

from gpufleet.lazy_names import make_module_getattr
from gpufleet.nodes.identity import NodeIdentity, normalize_serial
from gpufleet.nodes.model import (
    BurnInResult,
    Node,
    NodeHistoryEntry,
    NodeHold,
    NodeObservation,
    SourceConflict,
    SourcedValue,
    latest_values_by_key,
)
from gpufleet.nodes.part import (
    REPAIR_ACTIONS,
    ObservedFault,
    ObservedPart,
    Part,
    PartObservation,
    Placement,
    RecordedAction,
    RepairEntry,
)
from gpufleet.nodes.source_report import ReportOutcome, SourceReport
from gpufleet.nodes.states import (
    ATTENTION_STATES,
    BUSY_STATES,
    HOLDS,
    NEW_STATES,
    STATES,
    USABLE_STATES,
    VERDICT_MOVES,
)

if TYPE_CHECKING:
    from gpufleet.nodes.declaration import build_rack_report, build_workstation_report
    from gpufleet.nodes.expectation import build_expected_hardware
    from gpufleet.nodes.fabric import declare_pool_fabrics, read_stack_fabrics
    from gpufleet.nodes.host import InventoryHost
    from gpufleet.nodes.inventory import (
        AnsibleInventory,
        build_ansible_inventory,
        is_rehearsal_address,
        list_racks_in_use,
    )
    from gpufleet.nodes.pulumi_state import build_pulumi_state_report, list_elastic_groups
    from gpufleet.nodes.registry import Registry

__all__ = [
    "ATTENTION_STATES",
    "BUSY_STATES",
    "HOLDS",
    "NEW_STATES",
    "REPAIR_ACTIONS",
    "STATES",
    "USABLE_STATES",
    "VERDICT_MOVES",
    "AnsibleInventory",
    "BurnInResult",
    "InventoryHost",
    "Node",
    "NodeHistoryEntry",
    "NodeHold",
    "NodeIdentity",
    "NodeObservation",
    "ObservedFault",
    "ObservedPart",
    "Part",
    "PartObservation",
    "Placement",
    "RecordedAction",
    "Registry",
    "RepairEntry",
    "ReportOutcome",
    "SourceConflict",
    "SourceReport",
    "SourcedValue",
    "build_ansible_inventory",
    "build_expected_hardware",
    "build_pulumi_state_report",
    "build_rack_report",
    "build_workstation_report",
    "declare_pool_fabrics",
    "is_rehearsal_address",
    "latest_values_by_key",
    "list_elastic_groups",
    "list_racks_in_use",
    "normalize_serial",
    "read_stack_fabrics",
]

# Imported with the first use: with them comes the declared fleet, which no result of a playbook run needs, or the
# registry's database, an extra.
_LATER = {
    "declaration": ("build_rack_report", "build_workstation_report"),
    "expectation": ("build_expected_hardware",),
    "fabric": ("declare_pool_fabrics", "read_stack_fabrics"),
    "host": ("InventoryHost",),
    "inventory": ("AnsibleInventory", "build_ansible_inventory", "is_rehearsal_address", "list_racks_in_use"),
    "pulumi_state": ("build_pulumi_state_report", "list_elastic_groups"),
    "registry": ("Registry",),
}

__getattr__ = make_module_getattr(__name__, _LATER)
