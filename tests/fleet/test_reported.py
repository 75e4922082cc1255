"""Test that pools which clouds refused in public reports are refused here, and their neighbours accepted."""

from __future__ import annotations

import base64

import pytest

import cloud_corpus as corpus
from gpufleet import fleet
from gpufleet.errors import InputError

CASES = corpus.REPORTED
CLOUDS = ("aws", "gcp", "azure")


def build_key(kind, number):
    """Return a complete public key: RSA has 4,096 bits, as short-rsa 1,024."""
    size = {"ssh-rsa": 512, "short-rsa": 128}.get(kind, 28)
    kind = kind.replace("short-rsa", "ssh-rsa")
    fields = [kind.encode(), number.to_bytes(4, "big") + bytes(size)]
    body = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return f"{kind} {base64.b64encode(body).decode()} user-{number}"


def build_spec(case):
    """Return the fleet of a case, with one pool."""
    (cloud,) = [name for name in CLOUDS if name in case]
    volumes = case.get("volumes", [])
    if isinstance(volumes, int):
        volumes = [{"name": f"data-{number}", "size_gib": 100} for number in range(volumes)]
    networks = case.get("networks", 1)
    if isinstance(networks, int):
        networks = [f"10.{number}.0.0/16" for number in range(networks)]
    kind, count = case.get("keys", ["ssh-ed25519", 1])
    hardware = {"hardware": {"mtu": case["mtu"]}} if "mtu" in case else {}
    pool = {"name": "train", "count": 1, "purchase": {"kind": "on_demand"}, "template": "plain"}
    return {
        "owner": "research",
        "ssh": {
            "authorized_keys": [build_key(kind, number) for number in range(count)],
            "allowed_cidrs": networks,
        },
        "pools": [{**pool, **CASES["base"][cloud], **case[cloud]}],
        "templates": {"plain": {"volumes": volumes, **hardware}},
    }


def case_id(case):
    (cloud,) = [name for name in CLOUDS if name in case]
    return f"{case.get('rule', 'accepted')}-{cloud}-{case['source'][:40]}"


@pytest.mark.parametrize("case", CASES["refused"], ids=case_id)
def test_pool_that_a_cloud_refused_is_refused_by_its_rule(case, tmp_path):
    with pytest.raises(InputError) as excinfo:
        fleet.parse_fleet(build_spec(case), stack="test", root=tmp_path)
    assert f"(rule {case['rule']})" in str(excinfo.value)
    assert excinfo.value.remedy


@pytest.mark.parametrize("case", CASES["accepted"], ids=case_id)
def test_neighbour_that_a_cloud_accepts_is_accepted(case, tmp_path):
    assert fleet.parse_fleet(build_spec(case), stack="test", root=tmp_path).pools


def test_reports_are_many_and_each_has_a_source():
    assert len(CASES["refused"]) >= 60
    assert len(CASES["accepted"]) >= 30
    cases = [*CASES["refused"], *CASES["accepted"]]
    assert [case for case in cases if len(case["source"]) < 15] == []
