"""Runs in shards: parts of a run on other machines, with ansible-runner's transmit, worker and process.

Input: a plan, the place of each host (its rack or pool) and the workers, hosts that this machine reaches over SSH.
Output: the same progress, artifacts and outcome as without workers. A worker needs the same Python version and OpenSSH;
a copy of this environment (``bundle``) is transferred once. A run leaves nothing on a worker: its folder is
in memory and is deleted when the run ends or the connection is lost.
"""

from gpufleet.remote.shards.bundle import Bundle, build_bundle
from gpufleet.remote.shards.destination import Destination, build_destinations, unwrap_unsafe
from gpufleet.remote.shards.pipeline import Pipeline
from gpufleet.remote.shards.plan import Shard, assign_shards, make_shards
from gpufleet.remote.shards.run_folder import write_run_folder

__all__ = [
    "Bundle",
    "Destination",
    "Pipeline",
    "Shard",
    "assign_shards",
    "build_bundle",
    "build_destinations",
    "make_shards",
    "unwrap_unsafe",
    "write_run_folder",
]
