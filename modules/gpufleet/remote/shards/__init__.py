"""Runs in shards: parts of a run on the nodes of a Receptor mesh, with ansible-runner's transmit, worker and process.

Input: a plan, the place of each host (its rack or pool) and the control service of a mesh. Output: the same progress,
artifacts and outcome as on this machine. A node needs ansible-runner, Ansible and gpufleet of the same versions. A run
leaves nothing on a node: its folder is in memory and is deleted when the run ends or is cancelled.
"""

from gpufleet.remote.shards.known_hosts import read_trusted_host_keys, unwrap_unsafe_value
from gpufleet.remote.shards.mesh_control import MeshControl, open_mesh_control
from gpufleet.remote.shards.plan import ShardQueue, group_hosts_into_shards
from gpufleet.remote.shards.run_folder import write_runner_folder
from gpufleet.remote.shards.unit_guard import UnitGuard
from gpufleet.remote.shards.work_unit import ShardUnit

__all__ = [
    "MeshControl",
    "ShardQueue",
    "ShardUnit",
    "UnitGuard",
    "group_hosts_into_shards",
    "open_mesh_control",
    "read_trusted_host_keys",
    "unwrap_unsafe_value",
    "write_runner_folder",
]
