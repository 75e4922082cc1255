"""The demo, with the commands of the README: its output agrees with the registry."""

from __future__ import annotations

import re

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.hosts, pytest.mark.slow]

FAULTY = {"blade04", "blade09", "blade13"}


def nodes(demo_project):
    return {node["name"]: node for node in demo_project.read("gpufleet nodes list --json")}


def test_demo_reports_its_three_faults(demo_project):
    assert demo_project.demo.returncode == 0, demo_project.demo.stderr[-3000:]
    assert "17 of 20 blades are ready" in demo_project.demo.stderr
    page = (demo_project.root / ".gpufleet/rehearsal/production/report.html").read_text()
    assert page.count('<div class="bars">') == 1
    assert page.count('<svg class="strip"') > 3  # one for each thing that was measured
    assert "under-voltage now" in page


def test_healthy_blades_are_ready_and_faulty_ones_have_their_expected_state(demo_project):
    nodes_by_name = nodes(demo_project)
    sound = {
        node["state"] for name, node in nodes_by_name.items() if name[:5] == "blade" and name not in FAULTY
    }
    assert sound == {"ready"}
    assert nodes_by_name["blade04"]["reachable"] is False
    assert nodes_by_name["blade09"]["state"] == "quarantined"
    assert (nodes_by_name["blade13"]["state"], nodes_by_name["blade13"]["holds"]) == ("ready", ["operator"])


def test_verdicts_are_stored_with_their_reasons(demo_project):
    reports = demo_project.run_command("gpufleet burnin report --json").stdout
    assert "root filesystem is full" in reports
    assert "under-voltage now" in reports
    assert "0x50005" in reports


def test_ansible_inventory_lists_all_blades_and_cloud_nodes(demo_project):
    hosts = demo_project.read("ansible-inventory -i inventory --list")["_meta"]["hostvars"]
    assert {f"blade{n:02}" for n in range(1, 21)} <= hosts.keys()
    assert {"production-train-1", "production-serve-1", "production-tune-1"} <= hosts.keys()
    assert hosts.keys() == nodes(demo_project).keys()


def test_deployed_stack_has_its_total_cost_and_no_change(demo_project):
    diff = "gpufleet cost diff --preview - --format json"
    priced = demo_project.read(f"pulumi preview -s production --json --show-sames | {diff}")
    assert priced["change"]["usd_per_month"] == 0
    # p4d on demand in a capacity reservation, a2-megagpu on spot, ND96amsr with a one-year commitment;
    # disks and the NAT gateway of the private p4d come on top
    machines = (21.957642 + 29.25568 + 20.97283) * 730
    assert machines < priced["after"]["usd_per_month"] < machines + 500


def test_changed_count_shows_its_cost(demo_project):
    spec = demo_project.root / "stacks/Pulumi.production.yaml"
    original = spec.read_text()
    spec.write_text(original.replace("count: 1", "count: 2", 1))
    result = demo_project.run_command("gpufleet cost diff -s production --base HEAD --format markdown")
    spec.write_text(original)
    assert result.returncode == 0, result.stderr
    first = result.stdout.splitlines()[0]
    raised = float(re.search(r"by \\?\$([\d,.]+\d)", first)[1].replace(",", ""))
    assert 16029.07 <= raised < 16029.07 + 50  # one p4d.24xlarge: 21.957642 x 730, and its disk and address


def test_second_run_on_ready_blades_changes_nothing(demo_project):
    limit = "'rack_blades_1[0:4]:&state_ready'"  # the first five, of which one does not answer
    result = demo_project.run_command(
        f"ansible-runner run . --project-dir playbooks -p site.yml --limit {limit}"
    )
    assert result.returncode == 0, result.stdout[-3000:]
    recap = re.findall(
        r"^(blade\d\d)\s.*changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", result.stdout, re.MULTILINE
    )
    assert len(recap) == 4
    assert {counts[1:] for counts in recap} == {("0", "0", "0")}


def test_rehearsal_changes_no_tracked_file(demo_project):
    status = demo_project.run_command("git status --porcelain")
    assert status.stdout == ""
