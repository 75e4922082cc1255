"""Read the fabric of `nvidia-smi -q -x`: has the fabric manager registered each GPU, and are its routes healthy.

Drivers from 525 on have state and status, from 550 on the clique and its health, newer ones a summary. GPUs without an
NVSwitch, and virtual machines that share one, print N/A.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element

from gpufleet.burnin.checks.gpu_nvidia.smi_field import quote_field, read_text
from gpufleet.burnin.evidence import NOT_APPLICABLE, Reading

# nvml.h NVML_GPU_FABRIC_STATE_*; NOT_SUPPORTED is printed as N/A or Not Supported.
COMPLETED, UNFINISHED = "Completed", ("Not Started", "In Progress")
# NVML_GPU_FABRIC_HEALTH_MASK_*: rows of the section health with the texts that are faults.
FAULTS = {
    "summary": ("unhealthy",),
    "route_unhealthy": ("true", "yes"),
    "access_timeout_recovery": ("true", "yes"),
}
WARNINGS = {
    "summary": ("limited capacity",),
    "bandwidth": ("degraded",),
    "route_recovery_in_progress": ("true", "yes"),
}
# An error in place of the value says nothing of the fabric: the GPU itself does not answer.
HEALTHY_CONFIGURATIONS = frozenset({"", "none", "false", "no", "unknown error", "err!"})
# Racks of several nodes: the fabric manager runs on the switch trays, and each node has nvidia-imex.
MULTI_NODE = re.compile(r"GB[23]00\b")
EMPTY_CLUSTER = re.compile(r"[0-]*")


def list_fabric_faults(gpu: Element) -> list[str]:
    """Return what is wrong with a GPU's place in the fabric."""
    state, status = read_text(gpu, "fabric/state"), read_text(gpu, "fabric/status")
    if not state:
        return []
    faults = []
    if state in UNFINISHED:
        faults.append(f"state {state}")
    elif state == COMPLETED and status not in ("", "Success"):
        faults.append(f"status {status}")
    configuration = read_text(gpu, "fabric/health/incorrect_configuration")
    if configuration.lower() not in HEALTHY_CONFIGURATIONS:
        faults.append(f"incorrect_configuration {configuration}")
    return [*faults, *list_health_rows(gpu, FAULTS)]


def list_health_rows(gpu: Element, rows: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the rows of the fabric's health that have one of these texts."""
    return [
        f"{name} {text}"
        for name, texts in rows.items()
        if (text := read_text(gpu, f"fabric/health/{name}")).lower() in texts
    ]


def list_fabric_warnings(gpu: Element) -> list[str]:
    """Return what limits a GPU's place in the fabric."""
    if not read_text(gpu, "fabric/state"):
        return []
    warnings = list_health_rows(gpu, WARNINGS)
    if is_multi_node(gpu) and EMPTY_CLUSTER.fullmatch(read_text(gpu, "fabric/clusterUuid") or "0"):
        warnings.append("clusterUuid is zero: the node belongs to no NVLink domain")
    return warnings


def is_multi_node(gpu: Element) -> bool:
    """Return whether the GPU is of a rack with NVLink between nodes."""
    return MULTI_NODE.search(gpu.findtext("product_name") or "") is not None


def lacks_fabric(gpu: Element) -> bool:
    """Return whether a GPU of such a rack has no state at all (leptonai/gpud #1108); one alone may have none."""
    return is_multi_node(gpu) and gpu.find("fabric/state") is not None and not read_text(gpu, "fabric/state")


def read_cluster(gpu: Element) -> str:
    """Return the NVLink domain that took the GPU; empty if none did."""
    cluster = read_text(gpu, "fabric/clusterUuid")
    return "" if EMPTY_CLUSTER.fullmatch(cluster) else cluster


def find_fabric_strangers(clusters: Sequence[str]) -> frozenset[int]:
    """Return the places of GPUs in another NVLink domain than most of the node: all of a node have the same."""
    known = Counter(cluster for cluster in clusters if cluster)
    if len(known) < 2:  # noqa: PLR2004 - one domain
        return frozenset()
    usual = known.most_common(1)[0][0]
    return frozenset(place for place, cluster in enumerate(clusters) if cluster not in ("", usual))


def name_fabric_service(gpu: Element) -> str:
    """Return what registers this GPU in its fabric: where a person looks next."""
    if is_multi_node(gpu):
        return "the fabric manager of the NVLink switch trays, and nvidia-imex on the node"
    return "nvidia-fabricmanager.service (from Blackwell on also nvlsm), in the driver's version"


def read_fabric_failed(gpu: Element) -> Reading:
    """Return 1 if the fabric did not take this GPU, or has no healthy route to it."""
    state, faults = read_text(gpu, "fabric/state"), list_fabric_faults(gpu)
    if state and state not in (COMPLETED, *UNFINISHED) and not faults:
        return quote_field(gpu, "fabric/state")
    return float(bool(faults)) if state else NOT_APPLICABLE


def read_fabric_limited(gpu: Element) -> Reading:
    """Return 1 if the fabric works with less than its capacity."""
    return float(bool(list_fabric_warnings(gpu))) if read_text(gpu, "fabric/state") else NOT_APPLICABLE


def describe_fabric(gpu: Element) -> str:
    """Return all that is wrong, with the service to look at; empty for a healthy GPU."""
    problems = [*list_fabric_faults(gpu), *list_fabric_warnings(gpu)]
    return f"{', '.join(problems)}; look at {name_fabric_service(gpu)}" if problems else ""
