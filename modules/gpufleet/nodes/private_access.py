"""SSH to nodes without a public address: through AWS Session Manager and Google's Identity-Aware Proxy. Pure.

Whether a node is reached that way is the operator's word (``ssh.access: private`` in its stack), never a report's. What
comes from a cloud, an instance id or name, must match a strict pattern, because it becomes part of a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpufleet import fleet
from gpufleet.nodes.model import Node

_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")
_INSTANCE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")

SshArguments = Callable[[Node], str | None]


def build_private_ssh_arguments(declared: fleet.Fleet, node: Node) -> str | None:
    """Return ssh's arguments for a node of a private stack; None if it is reached directly, or cannot be.

    Azure Bastion has no such path: ``az network bastion tunnel`` listens on a port of its own (docs/cloud.md).
    """
    declared = declared.find_account_part(node.pool)
    pool = declared.find_pool(node.pool or "")
    if declared.ssh.access != "private" or pool is None or pool.cloud != node.cloud:
        return None
    if pool.cloud == "aws" and _INSTANCE_ID.fullmatch(node.instance_id or ""):
        # AWS Systems Manager user guide, "Allow and control permissions for SSH connections through Session Manager"
        command = (
            f"aws ssm start-session --region {pool.region} --target {node.instance_id} "
            "--document-name AWS-StartSSHSession --parameters portNumber=%p"
        ) + (f" --profile {declared.aws.profile}" if declared.aws else "")
    elif (
        pool.cloud == "gcp" and declared.gcp and len(pool.zones) == 1 and _INSTANCE_NAME.fullmatch(node.name)
    ):
        # cloud.google.com/sdk/gcloud/reference/compute/start-iap-tunnel
        command = (
            f"gcloud compute start-iap-tunnel {node.name} %p --listen-on-stdin --verbosity=warning "
            f"--project={declared.gcp.project} --zone={pool.zones[0]}"
        )
    else:
        return None
    return f"-o ProxyCommand='{command}'"


def make_private_access_lookup(
    stack_of: Callable[[Node], str | None], load: Callable[[str], fleet.Fleet]
) -> SshArguments:
    """Return what gives a node's arguments; ``stack_of`` names the project's stack of a node."""

    def look_up(node: Node) -> str | None:
        stack = stack_of(node) if node.cloud and node.pool else None
        return build_private_ssh_arguments(load(stack), node) if stack else None

    return look_up
