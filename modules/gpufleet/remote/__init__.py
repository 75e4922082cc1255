"""SSH and Ansible: probe nodes, run playbooks on them.

Input: addresses with a key and a known-hosts file, or a project with a playbook and a limit. Output: typed facts or the
typed reason why a node is unreachable (``probe``), and the typed outcome of an ansible-runner run with progress: from
this machine (``run_playbook``) or in shards on workers (``run_sharded``). Host keys are always checked. Nothing here
uses the registry: Ansible's callback plugin or a subscriber of the events updates it.
"""

from gpufleet.remote.display import fold_names
from gpufleet.remote.facts import ProbedFacts, parse_facts
from gpufleet.remote.next_step import append_next_step
from gpufleet.remote.plan import RunPlan, plan_run, playbook_names
from gpufleet.remote.probe import Reachable, Unreachable, probe_hosts
from gpufleet.remote.progress import HostProgress, RunProgress
from gpufleet.remote.run import RunOutcome, new_run_id, run_playbook
from gpufleet.remote.run_record import RunRecord, find_newest_run, read_record, write_record
from gpufleet.remote.sharded_run import ExecutionMode, run_sharded
from gpufleet.remote.shards import write_run_folder

__all__ = [
    "ExecutionMode",
    "HostProgress",
    "ProbedFacts",
    "Reachable",
    "RunOutcome",
    "RunPlan",
    "RunProgress",
    "RunRecord",
    "Unreachable",
    "append_next_step",
    "find_newest_run",
    "fold_names",
    "new_run_id",
    "parse_facts",
    "plan_run",
    "playbook_names",
    "probe_hosts",
    "read_record",
    "run_playbook",
    "run_sharded",
    "write_record",
    "write_run_folder",
]
