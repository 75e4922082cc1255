# ruff: noqa: INP001 - users copy this folder, it is not a package
"""A Pulumi policy pack that checks the rules of `gpufleet cost diff --policy` (docs/cost-in-ci.md).

The rules are in policy.yaml next to this file, or in the file that GPUFLEET_COST_POLICY names.
"""

import os
from pathlib import Path

from gpufleet.cost.analysis.policy.pack import run_policy_pack

run_policy_pack(Path(os.environ.get("GPUFLEET_COST_POLICY") or Path(__file__).with_name("policy.yaml")))
