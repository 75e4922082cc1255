"""Runs in shards: parts of a run on other machines, through ansible-runner's own transmit, worker and process.

In come a plan, the place of each host (its rack or pool) and the workers, hosts that this machine reaches over SSH.
Out come the same progress, artifacts and outcome as of a run from here. A worker needs Python of this machine's
version and OpenSSH: the rest is a copy of this environment, brought there once (``bundle``). What a run leaves on a
worker is nothing (``worker``): its folder is in memory and goes when the run ends or the connection is lost.
"""

from gpufleet.remote.shards.bundle import Bundle, make_bundle
from gpufleet.remote.shards.destination import Destination, destinations, unwrap_unsafe
from gpufleet.remote.shards.pack import write_run_folder
from gpufleet.remote.shards.pipeline import Pipeline
from gpufleet.remote.shards.plan import Shard, assign_shards, make_shards

__all__ = [
    "Bundle",
    "Destination",
    "Pipeline",
    "Shard",
    "assign_shards",
    "destinations",
    "make_bundle",
    "make_shards",
    "unwrap_unsafe",
    "write_run_folder",
]
