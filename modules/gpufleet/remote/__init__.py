"""SSH and Ansible: probe nodes, run playbooks on them.

Input: addresses with a key and a known-hosts file, or a project with a playbook and a limit. Output: typed facts or the
typed reason why a node is unreachable (``probe``), and the typed outcome of an ansible-runner run with progress: from
this machine (``run_playbook``) or in shards on a Receptor mesh (``run_sharded``). Host keys are always checked.
Nothing here uses the registry: Ansible's callback plugin or a subscriber of the events updates it.
"""

from gpufleet.boundary.name_range import fold_names_to_ranges
from gpufleet.remote.difference import TaskDifference
from gpufleet.remote.facts import ProbedFacts, parse_probe_answer
from gpufleet.remote.host_pattern import parse_host_pattern, parse_host_patterns
from gpufleet.remote.next_step import RESUME, append_next_step
from gpufleet.remote.plan import RunPlan, find_playbook, plan_playbook_run
from gpufleet.remote.probe import MAX_PARALLEL, ReachableHost, UnreachableHost, probe_hosts
from gpufleet.remote.progress import UNDONE, HostProgress, RunProgress
from gpufleet.remote.run import RunOutcome, create_run_id, run_playbook
from gpufleet.remote.run_record import RunRecord, find_newest_run_name, read_run_record, write_run_record
from gpufleet.remote.sharded_run import ShardingOptions, run_sharded
from gpufleet.remote.shards import write_runner_folder
from gpufleet.remote.task_selection import TaskSelection, parse_task_selection

__all__ = [
    "MAX_PARALLEL",
    "RESUME",
    "UNDONE",
    "HostProgress",
    "ProbedFacts",
    "ReachableHost",
    "RunOutcome",
    "RunPlan",
    "RunProgress",
    "RunRecord",
    "ShardingOptions",
    "TaskDifference",
    "TaskSelection",
    "UnreachableHost",
    "append_next_step",
    "create_run_id",
    "find_newest_run_name",
    "find_playbook",
    "fold_names_to_ranges",
    "parse_host_pattern",
    "parse_host_patterns",
    "parse_probe_answer",
    "parse_task_selection",
    "plan_playbook_run",
    "probe_hosts",
    "read_run_record",
    "run_playbook",
    "run_sharded",
    "write_run_record",
    "write_runner_folder",
]
