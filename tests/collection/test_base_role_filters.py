"""Filters of the base roles, where the recorded values of test_role_values.py have no case."""

import pytest

from ansible_collections.gpufleet.fleet.plugins.filter.hardening import (
    hardening_resources,
    other_rack_node_addresses,
    rack_group_name,
    select_hardening_topics,
    select_sshd_algorithms,
)
from ansible_collections.gpufleet.fleet.plugins.filter.network import WRITERS, plan_persistent_mtu
from ansible_collections.gpufleet.fleet.plugins.filter.time import time_sync_resources
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import merge_not_applied_reasons
from gpufleet.boundary import decode_yaml
from gpufleet.nodes.host import ansible_group_name

SETTINGS = {
    "sysctl_settings": {},
    "upgrades": "unmanaged",
    "upgrades_hold_back": [],
    "disabled_filesystems": [],
    "firewall": "unmanaged",
}
UBUNTU = {
    "hardening_upgrades_tool": "apt",
    "hardening_upgrades_packages": ["unattended-upgrades"],
    "hardening_upgrades_units": [],
    "hardening_upgrades_timers": [],
    "hardening_upgrades_origins": ["origin=Ubuntu"],
}
DEBIAN_TIME = {
    "time_daemon": "timesyncd",
    "time_chrony_unit": "chrony.service",
    "time_chrony_config": "/etc/chrony/chrony.conf",
    "time_chrony_drift": "/var/lib/chrony/chrony.drift",
    "time_chrony_leap_seconds": "leapsectz right/UTC",
    "time_chrony_pools": ["pool pool.example iburst"],
}


@pytest.mark.parametrize("rack", ["a-1", "Rack  B/7", "(c)", "_d_", "blades-1"])
def test_a_rack_has_the_group_that_the_inventory_gives_it(rack):
    assert rack_group_name(rack) == ansible_group_name("rack", rack)


def test_only_addresses_of_other_nodes_of_the_rack_are_peers():
    groups = {"rack_a": ["n1", "n2", "n3", "n4"]}
    hostvars = {
        "n1": {"ansible_host": "10.0.0.1"},
        "n2": {"ansible_host": "fd00::2"},
        "n3": {"ansible_host": "10.0.0.3; drop"},
        "n4": {},
    }
    assert other_rack_node_addresses(groups, hostvars=hostvars, rack="(a)", node="n1") == ["fd00::2"]
    assert other_rack_node_addresses(groups, hostvars=hostvars, rack="", node="n1") == []
    assert other_rack_node_addresses(groups, hostvars=hostvars, rack="b", node="n1") == []


def test_topics_without_settings_are_not_done():
    assert select_hardening_topics(SETTINGS, run_tags=["all"], skip_tags=[]) == ["filesystems"]
    assert select_hardening_topics(SETTINGS, run_tags=["upgrades"], skip_tags=[]) == []


def test_a_held_back_pattern_becomes_an_expression_for_apt():
    settings = {**SETTINGS, "upgrades": "security", "upgrades_hold_back": ["lib*c++", "a.b"]}
    resources = hardening_resources(settings, system=UBUNTU, topics=["upgrades"], firewall_unit="")
    assert resources["packages"] == ["unattended-upgrades"]
    content = resources["files"][0]["content"]
    block = content.partition("Package-Blacklist {\n")[2].partition("};")[0]
    assert block == '  "^lib.*c[+][+]$";\n  "^a[.]b$";\n'


def test_a_setting_of_sshd_counts_instead_of_its_list():
    lists = {"Ciphers": ["aes256-ctr"], "MACs": ["system", "hmac-sha2-256"], "KexAlgorithms": []}
    system_lists = {"Ciphers": ["a"], "MACs": ["b"], "KexAlgorithms": ["c"]}
    settings = {"ciphers": "+aes128-cbc"}
    assert select_sshd_algorithms(lists, sshd_settings=settings, system_lists=system_lists) == {
        "MACs": ["b", "hmac-sha2-256"]
    }


def test_a_cloud_with_a_clock_of_its_own_gets_chrony_unless_servers_are_given():
    clock = {"servers": [], "chrony": ["refclock PHC /dev/ptp"], "smears": False, "needs_chrony": True}
    settings = {
        "daemon": "distribution",
        "source": "ptp",
        "servers": [],
        "makestep_seconds": 1,
        "makestep_updates": 3,
    }
    by_clock = time_sync_resources(settings, cloud_sources={"ptp": clock}, system=DEBIAN_TIME)
    assert by_clock["packages"] == ["chrony"]
    assert "refclock PHC /dev/ptp\n" in by_clock["files"][0]["content"]
    by_servers = time_sync_resources(
        {**settings, "servers": ["ntp.example"]}, cloud_sources={"ptp": clock}, system=DEBIAN_TIME
    )
    assert by_servers["packages"] == ["systemd-timesyncd"]
    assert by_servers["files"][1]["content"].endswith("[Time]\nNTP=ntp.example\n")


def test_netplan_reads_the_mtu_of_every_interface():
    (file,) = WRITERS["netplan"]({"eth1": 9000, "enp1s0": 1500})
    ethernets = decode_yaml(file["content"], "netplan")["network"]["ethernets"]
    assert ethernets == {"eth1": {"mtu": 9000}, "enp1s0": {"mtu": 1500}}


def test_an_mtu_that_no_service_of_the_host_keeps_is_reported():
    plan = plan_persistent_mtu(
        {"eth1": 9000}, keeper="distribution", system_keepers=["netplan"], host_keepers=[]
    )
    assert [file["path"] for file in plan["files"]] == ["/etc/systemd/network/60-gpufleet-eth1.link"]
    assert plan["problem"].startswith("networkd brings up no interface of this host")


def test_reasons_of_several_tasks_are_merged():
    results = [{}, {"skipped": True}, {"not_applied": {"a": "1", "b": "2"}}, {"not_applied": {"b": "3"}}]
    assert merge_not_applied_reasons(results) == {"a": "1", "b": "3"}
