"""What a cloud still has of a stack, without a state that lists it: listed, priced, and deleted only when confirmed.

Input: the Pulumi state and the registry of a stack, and the clouds' APIs. Output: findings: resources with the stack's
tag that neither knows, each with its price, and resources past their time to live. Only findings are ever deleted, and
only resources with the tag ``gpufleet-stack`` can be findings.
"""

from gpufleet.operations.sweep.finding import CloudResource
from gpufleet.operations.sweep.run import SweepOptions, SweepRun

__all__ = ["CloudResource", "SweepOptions", "SweepRun"]
