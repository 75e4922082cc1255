"""Runs in shards: parts of a run on other machines, with ansible-runner's transmit, worker and process.

Input: a plan, the place of each host (its rack or pool) and the workers, hosts that this machine reaches over SSH.
Output: the same progress, artifacts and outcome as without workers. A worker needs the same Python version and OpenSSH;
a copy of this environment (``bundle``) is transferred once. A run leaves nothing on a worker: its folder is
in memory and is deleted when the run ends or the connection is lost.
"""

from gpufleet.remote.shards.bundle import WorkerBundle, build_worker_bundle
from gpufleet.remote.shards.destination import WorkerConnection, build_worker_connections, unwrap_unsafe_value
from gpufleet.remote.shards.pipeline import ShardPipeline
from gpufleet.remote.shards.plan import HostShard, assign_shards_to_workers, group_hosts_into_shards
from gpufleet.remote.shards.run_folder import write_runner_folder

__all__ = [
    "HostShard",
    "ShardPipeline",
    "WorkerBundle",
    "WorkerConnection",
    "assign_shards_to_workers",
    "build_worker_bundle",
    "build_worker_connections",
    "group_hosts_into_shards",
    "unwrap_unsafe_value",
    "write_runner_folder",
]
