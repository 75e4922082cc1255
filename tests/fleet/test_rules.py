"""Test that every rule refuses its invalid specs and accepts similar valid ones."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpufleet import catalog, fleet
from gpufleet.errors import InputError

GCP = {"cloud": "gcp", "region": "us-central1", "zones": ["us-central1-a"], "machine": "a2-megagpu-16g"}
AZURE = {"cloud": "azure", "region": "eastus", "zones": [], "machine": "Standard_ND96amsr_A100_v4"}
SPOT = {"kind": "spot"}
CREATE = {"kind": "reserved", "reservation": "create"}
BLOCK = {"kind": "capacity_block", "reservation": "cr-0123456789abcdef0"}
OFFERING = {"kind": "capacity_block", "offering": "cb-0123456789abcdef0"}
ON_DEMAND = {"kind": "on_demand"}
GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/x"
HELD = {"kind": "reserved", "reservation": "cr-0123456789abcdef0"}
A3 = GCP | {"machine": "a3-highgpu-8g"}
T4_AZURE = AZURE | {"machine": "Standard_NC4as_T4_v3"}
NC_A100 = AZURE | {"machine": "Standard_NC24ads_A100_v4"}
N1 = GCP | {"machine": "n1-standard-8"}
T4 = {"model": "T4", "count": 1}

# rule, what is put into the pool, what the line says
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn you"
ROLE = {"role_arn": "arn:aws:iam::444455556666:role/gpufleet"}
LAB = {"project": "acme-lab"}
NODES = "gpu-nodes@acme-lab.iam.gserviceaccount.com"
PRIVATE = {"authorized_keys": [KEY], "access": "private"}
REFUSED = [
    (
        "spot-reservation",
        {"purchase": SPOT | {"reservation": "cr-1"}},
        "remove 'reservation', or set kind: reserved",
    ),
    ("spot-reservation", GCP | {"purchase": SPOT | {"reservation": "r"}}, "purchase.reservation"),
    ("spot-reservation", AZURE | {"purchase": SPOT | {"reservation": "r"}}, "purchase.reservation"),
    ("term-needs-reserved", {"purchase": SPOT | {"term": "1y"}}, "purchase.term"),
    ("term-needs-reserved", {"purchase": {"kind": "on_demand", "term": "1y"}}, "set kind: reserved"),
    (
        "reservation-needs-reserved",
        {"purchase": {"kind": "on_demand", "reservation": "cr"}},
        "set kind: reserved",
    ),
    ("eviction-needs-spot", AZURE | {"purchase": CREATE | {"on_eviction": "stop"}}, "set kind: spot"),
    ("eviction-needs-spot", {"purchase": {"kind": "on_demand", "on_eviction": "delete"}}, "only spot"),
    ("fallback-needs-spot", {"purchase": {"kind": "on_demand", "fallback": "on_demand"}}, "only spot"),
    ("choice-needs-spot", {"purchase": CREATE | {"allocation": "lowest-price"}}, "describe spot capacity"),
    ("offering-needs-block", {"purchase": SPOT | {"buy": True}}, "set kind: capacity_block"),
    ("run-hours-need-flex-start", GCP | {"purchase": SPOT | {"max_run_hours": 1}}, "set kind: flex_start"),
    ("spot-stop-on-aws", {"purchase": SPOT | {"on_eviction": "stop"}}, "set on_eviction: delete"),
    ("many-nodes-need-group", {"count": 65}, "set group: true"),
    ("machine-sold-so", {"machine": "g5.2xlarge", "purchase": BLOCK}, "g5.2xlarge is not sold so"),
    ("reservation-creatable", AZURE | {"purchase": CREATE}, "write {kind: committed, term: 1y}"),
    ("reservation-id", {"purchase": CREATE | {"reservation": "my-block"}}, "is not a reservation of AWS"),
    (
        "reservation-id",
        NC_A100 | {"purchase": CREATE | {"reservation": "x"}},
        "is not a reservation of Azure",
    ),
    ("reservation-id", GCP | {"purchase": CREATE | {"reservation": "A_B"}}, "is not a reservation of GCP"),
    ("block-id", {"purchase": BLOCK | {"reservation": "my-block"}}, "is 'my-block'"),
    ("block-id", {"purchase": OFFERING | {"offering": "cr-0123456789", "buy": True}}, "like cb-"),
    ("block-bought-on-purpose", {"purchase": OFFERING}, "but buy is false"),
    ("block-bought-on-purpose", {"purchase": BLOCK | {"buy": True}}, "offering is missing, but buy is true"),
    ("block-bought-on-purpose", {"purchase": {"kind": "capacity_block"}}, "exactly one of"),
    ("block-zone", {"purchase": BLOCK, "zones": []}, "name the zone of the block"),
    ("flex-start-hours", GCP | {"purchase": {"kind": "flex_start", "max_run_hours": 169}}, "is 169, but"),
    ("flex-start-hours", GCP | {"purchase": {"kind": "flex_start", "max_run_hours": 0.1}}, "10 minutes"),
    (
        "flex-start-fixed-count",
        GCP | {"purchase": {"kind": "flex_start", "max_run_hours": 1}, "count": {"min": 0, "max": 2}},
        "is 0 to 2, but",
    ),
    ("ladder-kinds", GCP | {"purchase": {"ladder": [SPOT, ON_DEMAND]}}, "make two pools"),
    ("ladder-kinds", AZURE | {"purchase": {"ladder": [SPOT, ON_DEMAND]}}, "purchase.ladder[0].kind"),
    ("ladder-order", {"purchase": {"ladder": [ON_DEMAND, SPOT]}}, "spot comes after on_demand"),
    ("ladder-order", {"purchase": {"ladder": [SPOT, SPOT]}}, "spot is tried twice"),
    ("ladder-existing-reservation", {"purchase": {"ladder": [CREATE, ON_DEMAND]}}, "give its id"),
    ("spot-machines-alike", {"purchase": SPOT | {"machines": ["g5.2xlarge"]}}, "g5.2xlarge has other GPUs"),
    ("spot-machines-alike", {"purchase": SPOT | {"machines": ["p4d.24xlarge"]}}, "is named twice"),
    ("spot-machines-alike", {"purchase": SPOT | {"machines": ["p4"]}}, "unknown aws machine"),
    (
        "spot-machines-supported",
        T4_AZURE | {"purchase": SPOT | {"machines": ["Standard_NC8as_T4_v3"]}},
        "a scale set of Azure has one machine",
    ),
    (
        "spot-machines-supported",
        {"machine": "g5.8xlarge", "purchase": SPOT | {"machines": ["g5.16xlarge"]}, "fabric": "efa"},
        "share a fabric",
    ),
    ("spot-allocation-aws", GCP | {"purchase": SPOT | {"allocation": "lowest-price"}}, "chooses by itself"),
    ("spot-restore", {"purchase": SPOT | {"restore_minutes": 60}}, "AWS restores no evicted nodes"),
    (
        "spot-restore",
        NC_A100 | {"purchase": SPOT | {"restore_minutes": 60}, "count": {"min": 0, "max": 2}},
        "give a fixed count",
    ),
    ("infiniband-one-zone", AZURE | {"fabric": "infiniband", "zones": ["1", "2"]}, "name one zone, or none"),
    ("gpudirect-one-zone", A3 | {"fabric": "gpudirect_tcpx", "zones": []}, "GPUDirect-TCPX needs one zone"),
    (
        "rdma-project",
        GCP | {"machine": "a3-ultragpu-8g", "fabric": "gpudirect_rdma"},
        "gcp.project is missing",
    ),
    (
        "fabric-group-size",
        AZURE | {"fabric": "infiniband", "count": 150, "group": True},
        "connects at most 100",
    ),
    ("gcp-node-zone", GCP | {"zones": []}, "give zones: [us-central1-a]"),
    (
        "machine-in-zone",
        GCP | {"region": "europe-west4", "zones": ["europe-west4-c"]},
        "a2-megagpu-16g is not sold in europe-west4-c",
    ),
    (
        "group-reservation-zone",
        GCP | {"purchase": CREATE | {"reservation": "held"}, "group": True, "zones": []},
        "name the zone of the reservation",
    ),
    (
        "spot-fallback",
        GCP | {"purchase": SPOT | {"fallback": "on_demand"}},
        "purchase.fallback: fallback is set, but GCP does not start other nodes",
    ),
    ("spot-fallback", AZURE | {"purchase": SPOT | {"fallback": "on_demand"}}, "second pool"),
    ("cap-needs-spot", {"purchase": CREATE | {"max_usd_per_hour": 3.0}}, "belongs to spot"),
    (
        "spot-price-cap",
        GCP | {"purchase": SPOT | {"max_usd_per_hour": 3.0}},
        "is 3, but GCP has no spot price cap",
    ),
    ("reservation-fixed-count", {"purchase": CREATE, "count": {"min": 1, "max": 3}}, "is 1 to 3, but"),
    (
        "reservation-zone",
        {"purchase": CREATE, "zones": []},
        "is [], but AWS reserves capacity in exactly one zone",
    ),
    (
        "reservation-zone",
        GCP | {"purchase": CREATE, "zones": ["us-central1-a", "us-central1-b"]},
        "exactly one",
    ),
    ("reserved-hours", {"purchase": CREATE, "hours_per_month": 60}, "bills around the clock"),
    ("machine-known", {"machine": "p4d"}, "did you mean p4d.24xlarge or p4de.24xlarge?"),
    ("machine-known", {"machine": "a2-megagpu-16g"}, "a2-megagpu-16g is a machine of gcp"),
    ("region-known", {"region": "us-east-9", "zones": []}, "did you mean 'us-east-2'?"),
    ("region-known", {"region": "us-central1", "zones": []}, "it is a region of gcp"),
    ("zone-in-region", {"zones": ["us-west-2a"]}, "zones[0]: 'us-west-2a' is not a zone of aws us-east-1"),
    ("zone-in-region", GCP | {"zones": ["us-central1a"]}, "give a zone like 'us-central1-a'"),
    ("zone-in-region", AZURE | {"zones": ["eastus-1"]}, "give a zone like '1'"),
    ("accelerators-attach", {"accelerators": T4}, "it has its own (8x A100 SXM4 40GB)"),
    ("accelerators-attach", GCP | {"accelerators": T4}, "it has its own (16x A100"),
    ("accelerators-attach", N1 | {"accelerators": {"model": "L4"}}, "L4 cannot be attached to"),
    ("accelerators-attach", N1 | {"accelerators": T4 | {"count": 3}}, "give 1, 2 or 4"),
    ("accelerators-missing", N1, "add {model: T4, count: 1}"),
    ("fabric-of-machine", {"machine": "g5.2xlarge", "fabric": "efa"}, "g5.2xlarge has no such fabric"),
    ("fabric-of-machine", {"fabric": "infiniband"}, "only efa"),
    (
        "fabric-of-machine",
        AZURE | {"machine": "Standard_NC24ads_A100_v4", "fabric": "infiniband"},
        "no such fabric",
    ),
    (
        "efa-one-zone",
        {"fabric": "efa", "zones": ["us-east-1a", "us-east-1b"]},
        "EFA traffic does not leave its zone",
    ),
    ("efa-one-zone", {"fabric": "auto", "zones": ["us-east-1a", "us-east-1b"]}, "name one zone"),
    ("image-of-cloud", {"image": {"id": "gpufleet-1"}}, "'gpufleet-1' is not an image of aws"),
    ("image-of-cloud", AZURE | {"image": {"name": "gpufleet-node"}}, "Azure cannot find images by name"),
    ("image-of-cloud", {"image": {"id": "ami-0123456789abcdef0", "owner": "012345678901"}}, "by name"),
    ("image-of-cloud", GCP | {"image": "vendor"}, "gcp has no known image with drivers for a2-megagpu-16g"),
    ("template-exists", {"template": "trainr"}, "template 'trainr' is not declared"),
]
OF_TEMPLATES = {
    "driver-for-cards",
    "engine-for-containers",
    "engine-of-files",
    "gpus-fit",
    "gpus-need-toolkit",
    "hardware-fits",
    "ports-clash",
    "profile-exists",
    "secrets-by-reference",
    "unique-container-files",
    "volumes-fit",
}
OF_REPORTS = {  # test_reported.py
    "boot-disk-size",
    "group-size",
    "image-fits-machine",
    "key-type-of-cloud",
    "machine-in-region",
    "mtu-of-cloud",
    "name-length",
    "networks-count",
    "reserved-word",
    "spot-cap-known-price",
    "user-data-size",
    "volume-count",
    "volume-size",
}
ALLOWED = [
    {"purchase": SPOT | {"max_usd_per_hour": 12.5, "fallback": "on_demand", "on_eviction": "delete"}},
    AZURE | {"purchase": SPOT | {"max_usd_per_hour": 9.0}},
    {"purchase": CREATE | {"term": "3y"}},
    {"purchase": {"kind": "committed", "term": "3y"}},
    GCP | {"purchase": {"kind": "committed", "term": "1y"}},
    AZURE | {"purchase": {"kind": "committed", "term": "1y"}, "fabric": "infiniband"},
    {"purchase": HELD, "count": {"min": 1, "max": 3}, "zones": []},
    AZURE | {"fabric": "infiniband", "zones": ["1"]},
    NC_A100 | {"purchase": CREATE, "zones": ["1", "2"]},
    NC_A100 | {"purchase": {"kind": "reserved", "reservation": GROUP.lower()}},
    GCP | {"purchase": SPOT},
    {"image": "vendor"},
    {"image": {"name": "gpufleet-node", "owner": "012345678901"}},
    GCP | {"image": {"id": "gpufleet-node-20261121-090000"}, "first_boot": "packages"},
    AZURE | {"image": {"id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/images/i"}},
    N1 | {"accelerators": T4},
    {"fabric": "efa"},
    {"machine": "g5.2xlarge", "fabric": "auto", "zones": ["us-east-1a", "us-east-1b"]},  # has no EFA
    {"count": 0},
    {"template": "trainer", "hours_per_month": 60},
]


@pytest.mark.parametrize(
    ("rule", "pool", "message"), REFUSED, ids=[f"{r[0]}-{n}" for n, r in enumerate(REFUSED)]
)
def test_rule_refuses_an_invalid_pool(parse_pool, rule, pool, message):
    with pytest.raises(InputError) as excinfo:
        parse_pool(**pool)
    assert f"(rule {rule})" in str(excinfo.value)
    assert message in str(excinfo.value)
    assert excinfo.value.exit_code == 2


@pytest.mark.parametrize("pool", ALLOWED, ids=[str(pool)[:60] for pool in ALLOWED])
def test_rules_accept_a_valid_pool(parse_pool, pool):
    assert parse_pool(**pool).pools[0].name == "train"


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("unique-names", {"racks": [{"name": "train"}]}),
        ("unique-names", {"workstations": [{"name": "train", "machine": "MacBook Pro M2 16GB"}]}),
        ("ssh-not-public", {"ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["::/0"]}}),
        ("ssh-not-public", {"ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["0.0.0.0/0"]}}),
        (
            "ssh-not-public",
            {"ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["0.0.0.0/1", "128.0.0.0/1"]}},
        ),
        ("key-for-nodes", {"ssh": {"allowed_cidrs": ["10.0.0.0/8"]}}),
        ("workstation-known", {"workstations": [{"name": "m", "machine": "MacBook Air"}]}),
        (
            "accounts-differ",
            {"accounts": {"a": {"gcp": LAB}, "b": {"gcp": LAB | {"service_account": NODES}}}},
        ),
        ("accounts-differ", {"gcp": LAB, "accounts": {"a": {"gcp": LAB}}}),
        ("private-account-profile", {"ssh": PRIVATE, "accounts": {"a": {"aws": ROLE}}}),
        ("private-account-profile", {"ssh": PRIVATE, "aws": ROLE}),
    ],
)
def test_rule_refuses_an_invalid_fleet(spec, tmp_path, rule, change):
    with pytest.raises(InputError, match=rf"\(rule {rule}\)"):
        fleet.parse_fleet(spec | change, root=tmp_path)


@pytest.mark.parametrize(
    ("account", "message"),
    [
        ("research", "account 'research' is not declared (rule account-declared); accounts: lab"),
        (
            "lab",
            "account 'lab' is of gcp, the pool is on aws (rule account-declared); name an account of aws",
        ),
    ],
)
def test_account_of_a_pool_is_declared_for_its_cloud(spec, tmp_path, account, message):
    pool = spec["pools"][0] | {"account": account}
    with pytest.raises(InputError, match=re.escape(f"pools[0].account: {message}")):
        fleet.parse_fleet(spec | {"pools": [pool], "accounts": {"lab": {"gcp": LAB}}}, root=tmp_path)


@pytest.mark.parametrize(
    ("account", "message"),
    [
        ({}, "accounts.a: is of no cloud; give one of aws: {profile: …}"),
        ({"aws": {"profile": "p"}, "gcp": LAB}, "accounts.a: is of aws and gcp"),
        ({"aws": {}}, "accounts.a.aws: has neither profile nor role_arn"),
        ({"aws": {"profile": "a b"}}, "accounts.a.aws.profile: is 'a b'; give a profile of ~/.aws/config"),
        ({"aws": {"role_arn": "gpufleet"}}, "accounts.a.aws.role_arn: is 'gpufleet'; give the ARN of a role"),
        (
            {"aws": ROLE | {"account_id": "111122223333"}},
            "account_id is 111122223333, but the role is in 4444",
        ),
        ({"aws": {"profile": "p", "account_id": 111122223333}}, "accounts.a.aws.account_id: is 111122223333"),
        ({"gcp": {"project": "Lab"}}, "accounts.a.gcp.project: is 'Lab'; give a project id"),
        ({"azure": {"subscription": "lab"}}, "accounts.a.azure.subscription: is 'lab'"),
    ],
)
def test_invalid_account_is_one_line(spec, tmp_path, account, message):
    with pytest.raises(InputError, match=re.escape(message)):
        fleet.parse_fleet(spec | {"accounts": {"a": account}}, root=tmp_path)


def test_pools_of_an_account_are_a_part_with_its_keys(spec, tmp_path):
    own = spec["pools"][0]
    pools = [own, own | {"name": "night", "account": "batch"}]
    accounts = {"batch": {"aws": ROLE}, "lab": {"gcp": LAB}}
    declared = fleet.parse_fleet(spec | {"pools": pools, "accounts": accounts}, root=tmp_path)
    parts = declared.split_by_account()
    assert [(part.account, [pool.name for pool in part.pools]) for part in parts] == [
        ("", [own["name"]]),
        ("batch", ["night"]),
        ("lab", []),
    ]
    assert [part.aws and part.aws.allowed_account_id for part in parts] == [None, "444455556666", None]
    assert [part.clouds for part in parts[1:]] == [{"aws"}, {"gcp"}]
    assert [declared.find_account_part(name).account for name in ("night", own["name"], None)] == [
        "batch",
        "",
        "",
    ]


def test_purchase_that_a_cloud_does_not_sell_is_refused(parse_pool, monkeypatch):
    aws = replace(catalog.CLOUDS["aws"], price_kinds=("on_demand", "reserved_1y"))
    monkeypatch.setitem(catalog.CLOUDS, "aws", aws)
    with pytest.raises(InputError, match=r"is spot, which AWS does not sell \(rule purchase-sold\)"):
        parse_pool(purchase=SPOT)
    assert parse_pool(purchase=CREATE | {"term": "1y"}).pools


@pytest.fixture
def with_facts(monkeypatch):
    """Change facts of every machine, for rules on facts that no machine of the catalogue has yet."""

    def change(**values):
        def get_changed_facts(machine, cloud, accelerator=None):
            facts = catalog.machine_facts.get_machine_facts(machine, cloud, accelerator)
            return facts and replace(facts, **values)

        monkeypatch.setattr(catalog, "get_machine_facts", get_changed_facts)

    return change


def test_infiniband_and_a_reservation_exclude_each_other(parse_pool, with_facts):
    with_facts(purchases=frozenset({"reserved"}))  # as a block reservation of Azure would be
    with pytest.raises(InputError, match=r"\(rule infiniband-without-reservation\)"):
        parse_pool(**AZURE, fabric="infiniband", purchase={"kind": "reserved", "reservation": GROUP})


@pytest.mark.parametrize(
    "pool",
    [
        {"machine": "g5.2xlarge", "purchase": SPOT, "fabric": "efa"},
        NC_A100 | {"machine": "Standard_ND96isr_H100_v5", "purchase": CREATE},
    ],
)
def test_unknown_facts_refuse_nothing(parse_pool, monkeypatch, pool):
    monkeypatch.setattr(catalog, "get_machine_facts", lambda *_: None)
    assert parse_pool(**pool).pools


def test_every_rule_is_tested_and_has_a_reason():
    tested = {rule for rule, *_ in REFUSED} | {
        *OF_TEMPLATES,  # test_templates.py
        "unique-names",
        "ssh-not-public",
        "key-for-nodes",
        "workstation-known",
        "account-declared",
        "accounts-differ",
        "private-account-profile",
        "purchase-sold",
        "infiniband-without-reservation",
        *OF_REPORTS,
    }
    assert set(fleet.RULES) == tested
    assert [rule for rule in fleet.RULES.values() if len(rule.reason) < 20 or len(rule.source) < 8] == []


def test_every_rule_is_in_the_documentation(repo_root):
    page = (repo_root / "docs/spec.md").read_text()
    assert [id_ for id_ in fleet.RULES if f"`{id_}`" not in page] == []
