"""Whether somebody works on this node: load would disturb a job, and the job would falsify the measurement."""

from __future__ import annotations

import os
import time

from .host import HostAccess
from .supervisor import read_process_table

NVIDIA_DRIVER = "/proc/driver/nvidia/version"
NVIDIA_QUERY = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")
KFD_PROCESSES = "/sys/class/kfd/kfd/proc"
QUERY_SECONDS = 20.0
# Above this share of the processor's time something else than the system's own services runs. The load average only
# says whether it is worth looking: it remembers the minute before, in which the node was configured.
MAX_BUSY_SHARE = 0.5
SAMPLE_SECONDS = 0.5
LISTED = 5


def find_busy_reason(host: HostAccess) -> str:
    """Return who uses the node, or nothing."""
    if host.get_parameter("ignore_busy", False):
        return ""
    reasons = (find_gpu_processes(host), find_slurm_steps(host))
    # Rehearsed hosts share one machine, whose load is not theirs.
    load = "" if host.get_parameter("rehearsal", False) else find_processor_load(host)
    return next((reason for reason in (*reasons, load) if reason), "")


def find_gpu_processes(host: HostAccess) -> str:
    """Return which processes compute on a GPU."""
    process_ids = host.list_folder(KFD_PROCESSES)
    if host.read_text_file(NVIDIA_DRIVER) and host.which(NVIDIA_QUERY[0]):
        output = host.run(NVIDIA_QUERY, QUERY_SECONDS)
        process_ids += [word for word in output.out.split() if word.isdigit()] if output.code == 0 else []
    listed = ", ".join(process_ids[:LISTED])
    return f"processes compute on a GPU: {listed}" if process_ids else ""


def find_slurm_steps(host: HostAccess) -> str:
    """Return whether Slurm runs a job step here; its own scope is held by a step daemon called with ``infinity``."""
    steps = [process.pid for process in read_process_table() if process.name.startswith("slurmstepd")]
    jobs = [pid for pid in steps if "infinity" not in (host.read_text_file(f"/proc/{pid}/cmdline") or "")]
    return f"Slurm runs a job step: process {jobs[0]}" if jobs else ""


def find_processor_load(host: HostAccess) -> str:
    """Return whether the processor works for somebody else, by its load and then by half a second of its time."""
    cores = os.cpu_count() or 1
    try:
        load = os.getloadavg()[0]
    except OSError:
        return ""
    if load < MAX_BUSY_SHARE * cores:
        return ""
    before = read_processor_times(host)
    time.sleep(SAMPLE_SECONDS)
    after = read_processor_times(host)
    total = sum(after) - sum(before)
    share = 1 - (sum(after[3:5]) - sum(before[3:5])) / total if total > 0 else 0.0
    if share <= MAX_BUSY_SHARE:
        return ""
    return f"other processes use {share:.0%} of the processor (load {load:.1f} on {cores} cores)"


def read_processor_times(host: HostAccess) -> list[int]:
    """Return the kernel's counts of user, nice, system, idle, waiting for input and so on."""
    text = host.read_text_file("/proc/stat") or "cpu"
    return [int(word) for word in text.splitlines()[0].split()[1:9] if word.isdigit()]
