"""Test the rendered firewall rules, also with the real nft if it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import nft, nft_host, ssh_session
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

OPERATOR = ("192.0.2.7", 22)
NOTHING = {"ssh_from": [], "peers": [], "open": [], "container_interfaces": [], "chains": []}
WEB = {"name": "web", "protocol": "tcp", "ports": ["80", "8000-8010"], "sources": []}
NFT = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin")


def render_rule_lines(operator=OPERATOR, **settings):
    return [line.strip() for line in nft.render_nft_rules(NOTHING | settings, operator).splitlines()]


def test_established_connections_and_the_current_login_are_accepted():
    lines = render_rule_lines()
    assert "type filter hook input priority filter; policy drop;" in lines
    assert lines.index("ct state established,related accept") < lines.index("ct state invalid drop")
    assert 'ip saddr { 192.0.2.7 } tcp dport { 22 } accept comment "login of the last run"' in lines


def test_port_of_the_current_login_is_accepted():
    assert (
        'ip6 saddr { fe80::1 } tcp dport { 22, 2222 } accept comment "login of the last run"'
        in render_rule_lines(("fe80::1%eth0", 2222))
    )


def test_run_without_ssh_needs_a_declared_ssh_source():
    with pytest.raises(HostError, match="ssh_from is empty"):
        render_rule_lines(None)
    assert 'ip saddr { 10.0.0.0/8 } tcp dport { 22 } accept comment "ssh"' in render_rule_lines(
        None, ssh_from=["10.0.0.0/8"]
    )


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"peers": ["198.18.0.2", "198.18.0.3"]}, 'ip saddr { 198.18.0.2/31 } accept comment "peers"'),
        ({"peers": ["10.1.0.0/16", "10.0.0.0/8"]}, 'ip saddr { 10.0.0.0/8 } accept comment "peers"'),
        ({"peers": ["2001:db8::/32"]}, 'ip6 saddr { 2001:db8::/32 } accept comment "peers"'),
        ({"open": [WEB]}, 'tcp dport { 80, 8000-8010 } accept comment "web"'),
        (
            {"open": [WEB | {"sources": ["192.0.2.0/24"], "protocol": "udp"}]},
            'ip saddr { 192.0.2.0/24 } udp dport { 80, 8000-8010 } accept comment "web"',
        ),
        (
            {"container_interfaces": ["podman*", "docker0"]},
            'iifname { "podman*", "docker0" } meta l4proto { 6, 17 } th dport 53 accept',
        ),
    ],
)
def test_declared_ports_and_sources_are_accepted(settings, line):
    assert line in render_rule_lines(**settings)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ssh_from": ["office"]}, "ssh_from: office is not an address"),
        ({"peers": ["10.0.0.0/40"]}, "peers: 10.0.0.0/40 is not an address"),
        ({"open": [WEB | {"ports": ["http"]}]}, "open: web: http is not a port"),
        ({"open": [WEB | {"ports": ["9000-8000"]}]}, "9000-8000 is not a port"),
        ({"open": [WEB | {"ports": ["65536"]}]}, "65536 is not a port"),
        ({"open": [WEB | {"name": 'a"; accept'}]}, "a name may have letters"),
        ({"container_interfaces": ['lo" accept #']}, "is not the name of an interface"),
    ],
)
def test_invalid_settings_are_refused_before_nft_is_run(settings, reason):
    with pytest.raises(HostError, match=reason):
        render_rule_lines(**settings)


def render_complete_rules():
    settings = {"ssh_from": ["10.0.0.0/8", "2001:db8::/32"], "peers": ["198.18.0.2"], "open": [WEB]}
    chain = "chain early { type filter hook prerouting priority -150; tcp dport 23 drop; }"
    return nft.render_nft_rules(
        NOTHING | settings | {"container_interfaces": ["podman*", "br-*"], "chains": [chain]}, OPERATOR
    )


@pytest.mark.skipif(not NFT or os.geteuid() != 0, reason="needs nft and root")
def test_nft_accepts_the_rules_twice_with_the_same_listing(tmp_path):
    file = tmp_path / "firewall.nft"
    file.write_text(render_complete_rules())
    listing = nft_host.list_rules_of_file(file)
    assert listing is not None
    assert listing == nft_host.list_rules_of_file(file)
    script = f"{NFT} -f $0 && {NFT} -f $0 && {NFT} -s list ruleset"
    result = subprocess.run(
        ["unshare", "-n", "sh", "-c", script, file], capture_output=True, text=True, check=True
    )
    assert result.stdout == listing
    file.write_text(render_complete_rules().replace("policy drop", "policy drip"))
    assert nft_host.list_rules_of_file(file) is None


def test_current_login_is_read_from_the_ssh_session(tmp_path, monkeypatch):
    monkeypatch.setattr(ssh_session.os, "getpid", lambda: 30)
    for pid, parent, session in (
        (30, 20, b"HOME=/root\0"),
        (20, 10, b"SSH_CONNECTION=192.0.2.7 5 192.0.2.1 22\0"),
    ):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "environ").write_bytes(session)
        (folder / "stat").write_text(f"{pid} (a (strange) name) S {parent} 1")
    assert ssh_session.read_ssh_connection(Path(tmp_path)) == "192.0.2.7 5 192.0.2.1 22"
    monkeypatch.setattr(nft_host, "read_ssh_connection", lambda: "192.0.2.7 5 192.0.2.1 2222")
    assert nft_host.find_operator_address() == ("192.0.2.7", 2222)
    monkeypatch.setattr(nft_host, "read_ssh_connection", lambda: "")
    assert nft_host.find_operator_address() is None
