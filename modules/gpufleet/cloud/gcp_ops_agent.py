"""Google's Ops Agent on the nodes of an elastic pool: the autoscaler reads the GPU load that it reports. Pure.

Sources: Google, "Install the Ops Agent on individual VMs" (the joint installation script) and "Ops Agent metrics, gpu".
The agent looks for NVIDIA's library once, when it starts (opentelemetry-operations-collector, nvmlreceiver/client.go),
and the driver is installed later, by Ansible: so the agent is restarted when the driver's device appears.
"""

from __future__ import annotations

from typing import Any

from gpufleet.cloud.pool_plan import PoolPlan

INSTALLER = "https://dl.google.com/cloudagents/add-google-cloud-ops-agent-repo.sh"
INSTALL = f"curl -fsSL --retry 5 {INSTALLER} -o /run/ops-agent.sh && bash /run/ops-agent.sh --also-install"
UNIT = "gpufleet-ops-agent"
DRIVER_DEVICE = "/dev/nvidiactl"
PATH_UNIT = f"""\
[Unit]
Description=Wait for the NVIDIA driver, whose load the Ops Agent reports

[Path]
PathExists={DRIVER_DEVICE}

[Install]
WantedBy=multi-user.target
"""
# RemainAfterExit: a path unit starts an inactive service again and again while its path exists.
SERVICE_UNIT = """\
[Unit]
Description=Restart the Ops Agent once the NVIDIA driver is loaded

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/systemctl restart google-cloud-ops-agent.service
"""


def build_ops_agent_settings(plan: PoolPlan) -> dict[str, Any]:
    """Return the cloud-init settings that install the agent; none where nothing would read or allow its metric.

    Without a service account a node may not write metrics, and a fixed count needs none.
    """
    account = plan.fleet.gcp.service_account if plan.fleet.gcp else None
    if not (account and plan.pool.count.is_elastic and plan.has_accelerators):
        return {}
    units = {f"{UNIT}.path": PATH_UNIT, f"{UNIT}.service": SERVICE_UNIT}
    return {
        "write_files": [
            {"path": f"/etc/systemd/system/{name}", "permissions": "0644", "content": content}
            for name, content in units.items()
        ],
        "runcmd": [["sh", "-c", INSTALL], ["systemctl", "enable", "--now", f"{UNIT}.path"]],
    }
