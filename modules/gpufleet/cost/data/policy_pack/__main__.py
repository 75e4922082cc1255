# ruff: noqa: INP001 - a folder of its own, not a package of ours
"""A Pulumi policy pack that asks the rules of `gpufleet cost diff --policy` (docs/cost-in-ci.md).

policy.yaml beside this file holds the rules; GPUFLEET_COST_POLICY names another file.
"""

import os
from pathlib import Path

from gpufleet.cost.analysis.policy.pack import run_policy_pack

run_policy_pack(Path(os.environ.get("GPUFLEET_COST_POLICY") or Path(__file__).with_name("policy.yaml")))
