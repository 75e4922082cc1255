"""What the tests of a stack's life on each cloud share: its settings, and the operations of a preview."""

from __future__ import annotations

import json

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
PRIVATE_ACCESS = {"allowed_cidrs": [], "access": "private"}


def format_settings(cloud, region, pools, ssh, *, spec=None, config=None):
    """Return a stack's file with pools of one cloud; a pool of the template ``disks`` has a volume."""
    fleet = {
        "owner": "research",
        "expires": "2027-01-31",
        "ssh": {"authorized_keys": [KEY], **ssh},
        **(spec or {}),
        "pools": [{"name": name, "cloud": cloud, "region": region, **pool} for name, pool in pools.items()],
        "templates": {"disks": {"volumes": [{"name": "data", "size_gib": 500, "kind": "ssd"}]}},
    }
    return json.dumps({"config": {"gpufleet:fleet": fleet, **(config or {})}})  # JSON is YAML


def operations(steps, kind):
    """Return the operation on each resource of a type, by its name."""
    return {step.urn.split("::")[-1]: step.op for step in steps if step.urn.split("::")[-2].endswith(kind)}
