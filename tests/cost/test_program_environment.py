"""Test that an evaluated program gets only allowed environment variables."""

from __future__ import annotations

from pathlib import Path

from gpufleet.cost.inputs.program import allowlist


def test_only_allowed_variables_are_passed():
    allowed = {"PATH": "/bin", "LANG": "C.UTF-8", "LC_TIME": "C", "AWS_REGION": "us-east-1", "TZ": "UTC"}
    secret = {
        "AWS_SECRET_ACCESS_KEY": "s", "PULUMI_CONFIG_PASSPHRASE": "s", "GITHUB_TOKEN": "s", "HOME": "/root",
        "SSH_AUTH_SOCK": "s", "GPUFLEET_DATABASE_URL": "s", "XLC_TIME": "s", "PYTHONPATH": "s",
    }  # fmt: skip
    folder = Path("/var/tmp/scratch")
    private = {"HOME": str(folder), "TMPDIR": str(folder)}
    fixed = {"PULUMI_SKIP_UPDATE_CHECK": "true", "PYTHONUNBUFFERED": "1"}
    assert allowlist.build_allowed_environment(allowed | secret, folder) == allowed | private | fixed
