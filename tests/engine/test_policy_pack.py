"""Test the policy pack of ``gpufleet cost policy-pack`` with the real engine."""

from __future__ import annotations

import shutil

import pytest

pytestmark = pytest.mark.engine

TIGHT = "budget_usd_per_month: 1\n"
WIDE = "budget_usd_per_month: 100000\nrules:\n- {name: spot only, when: {pool: train}, purchases: [spot]}\n"


@pytest.fixture
def preview_with_policy(build_stack, tmp_path):
    """Preview the development stack under a policy, by the engine's own flag."""

    def run(policy, *, fails):
        shell = build_stack("dev")
        pack = tmp_path / "pack"
        (tmp_path / "policy.yaml").write_text(policy)
        shell.run(f"gpufleet cost policy-pack '{pack}' --policy '{tmp_path}/policy.yaml'")
        try:
            result = shell.run(
                f"pulumi preview -s dev --policy-pack '{pack}/gpufleet-cost.sh' --color never", fails=fails
            )
        finally:
            shutil.rmtree(pack)
        return result.stdout + result.stderr

    return run


def test_violated_rule_stops_the_preview_and_is_named(preview_with_policy):
    output = preview_with_policy(TIGHT, fails=True)
    assert "[mandatory]  cost" in output
    assert "budget_usd_per_month: $" in output
    assert "is over the budget of $1.00" in output


def test_preview_with_a_satisfied_policy_passes(preview_with_policy):
    output = preview_with_policy(WIDE, fails=False)
    assert "gpufleet-cost@v0.1.0" in output
    assert "mandatory" not in output
