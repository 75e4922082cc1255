"""Collectives between the GPUs of one node: the programs of nccl-tests or rccl-tests, where they are installed."""

from __future__ import annotations

from typing import Any

from ...agent.gpu import AMD, NVIDIA, list_gpu_pci_addresses
from ...agent.gpu_device import show_all_gpus
from ...agent.host import HostAccess, RawCheckResult, build_not_run_result

COMMAND_SECONDS = 300.0
PROGRAMS = {"all_reduce": "all_reduce_perf", "sendrecv": "sendrecv_perf"}
# Where the projects' own Makefiles and NVIDIA's and AMD's images put them, beside PATH.
FOLDERS = (
    "/opt/nccl-tests/build",
    "/usr/local/nccl-tests/build",
    "/opt/rccl-tests/build",
    "/opt/rocm/bin",
    "/root/nccl-tests/build",
)
SMALLEST_MIB = 8
KEPT_CHARACTERS = 12_000


def find_program(host: HostAccess, name: str) -> str | None:
    """Return a program's path: from PATH, the folder in the parameter, or where it usually is."""
    folder = host.get_parameter("nccl_folder", "")
    for candidate in [folder] if folder else FOLDERS:
        path = f"{candidate}/{name}"
        if host.resolve_path(path).is_file():
            return str(path)
    return None if folder else host.which(name)


def measure_host(host: HostAccess) -> RawCheckResult:
    """Run an all-reduce and a ring of sends over all GPUs of the node, each result verified."""
    largest_mib = host.get_parameter("nccl_mib", 0)
    if not largest_mib:
        return build_not_run_result("not requested (nccl_mib)")
    gpus = max(len(list_gpu_pci_addresses(host, vendor)) for vendor in (NVIDIA, AMD))
    if gpus < 2:  # noqa: PLR2004 - a collective has two ends
        return build_not_run_result(f"{gpus} GPUs: a collective needs two of one vendor")
    programs = {kind: find_program(host, name) for kind, name in PROGRAMS.items()}
    if not any(programs.values()):
        return build_not_run_result("neither nccl-tests nor rccl-tests is installed")
    show_all_gpus()
    raw: dict[str, Any] = {"gpus": gpus, "runs": {}}
    for kind, program in programs.items():
        if program is None:
            continue
        # -g: GPUs of this one process; -c 1: verify; sizes double.
        sizes = ["-b", f"{SMALLEST_MIB}M", "-e", f"{max(largest_mib, SMALLEST_MIB)}M", "-f", "2"]
        argv = [program, *sizes, "-g", str(gpus), "-c", "1", "-n", "20"]
        output = host.run(argv, COMMAND_SECONDS)
        raw["runs"][kind] = {
            "command": " ".join(argv),
            "code": output.code,
            "text": output.out[-KEPT_CHARACTERS:],
            "error": output.err[-500:],
        }
    return RawCheckResult("ran", measured=gpus, unit="GPUs", raw=raw)
