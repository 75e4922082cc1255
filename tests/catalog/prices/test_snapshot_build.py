"""Test the command that writes the price snapshot, on small price lists."""

from __future__ import annotations

import gzip

import pytest

from gpufleet.catalog import price_archive
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.snapshot_build import MACHINE_COLUMNS, PART_COLUMNS, main
from gpufleet.errors import InputError

EC2 = "cristim/ec2-instances-info@32acf84f42eb:data/instances.json,2025-05-28"
KARPENTER = "aws/karpenter-provider-aws@1d927085d:pkg/providers/pricing/x.go,2026-07-20"
AZURE = "cristim/ec2-instances-info@32acf84f42eb:data/azure-instances.json,2025-05-28"
GCOSTS = "Cyclenerd/google-cloud-pricing-cost-calculator@fd66b26:pricing.yml,2026-07-30"
RDS = "cristim/ec2-instances-info@32acf84f42eb:data/rds-instances.json,2025-05-28"
MACHINES = [
    f"aws,us-east-1,m9.large,linux,on_demand,0.11,2,8,{EC2}",
    f"aws,us-east-1,m9.large,linux,on_demand,0.1,2,8,{KARPENTER}",
    f"aws,us-east-1,m9.large,linux,spot,0.04,2,8,{EC2}",
    f"aws,us-east-1,m9.large,linux,reserved_1y,0.2,2,8,{EC2}",  # dearer than on demand
    f"aws,us-east-1,m9.large,windows,on_demand,0.19,2,8,{EC2}",
    f"aws,us-east-1,g5.2xlarge,linux,on_demand,9.9,8,32,{KARPENTER}",  # prices.csv has it
    f"aws,eu-west-1,t9g.micro,linux,on_demand,0.01,0.25,1,{EC2}",
    f"azure,eastus,D2s_v9,linux,on_demand,0.1,2,8,{AZURE}",
    f"azure,eastus,S96,linux,on_demand,10,96,768,{AZURE}",
    f"gcp,us-central1,n9-standard-4,linux,on_demand,0.2,4,16,{GCOSTS}",
]
PARTS = [
    f"aws,us-east-1,rds.instance.mysql.db.m9.large.single_az,hour,0.17,{RDS}",
    f"aws,us-east-1,rds.instance.mysql.db.m9.large.reserved_1y_no_upfront,hour,0.12,{RDS}",
    f"aws,us-east-1,opensearch.node.m9.large.search,hour,0.14,{RDS}",
    f"gcp,global,os_license.windows.n9-standard-4,hour,0.184,{GCOSTS}",
    'aws,us-east-1,alb.hour,hour,0.02,"a file, with a comma",2017-12-18',
]


def write_list(path, columns, rows):
    with gzip.open(path, "wt") as file:
        file.write("\n".join([",".join(columns), *rows]) + "\n")
    return str(path)


@pytest.fixture
def build(tmp_path, capsys):
    def run(machines=MACHINES, parts=PARTS, name="snapshot.zip", newer=()):
        target = tmp_path / name
        lists = [
            write_list(tmp_path / "machines.csv.gz", MACHINE_COLUMNS, machines),
            write_list(tmp_path / "parts.csv.gz", PART_COLUMNS, parts),
        ]
        if newer:
            lists.append(write_list(tmp_path / "newer.csv.gz", MACHINE_COLUMNS, newer))
        main([*lists, str(target)])
        return target, capsys.readouterr().out

    return run


CACHES = (
    price_archive._open_archive, price_archive.read_price_member, snapshot._load_origins, snapshot._load_table,
    snapshot._load_column, snapshot.list_region_members, snapshot.list_snapshot_items, snapshot.list_sized_machines,
)  # fmt: skip


@pytest.fixture
def use_snapshot(monkeypatch):
    """Read another snapshot instead of the packaged one."""

    def use(path):
        monkeypatch.setattr(price_archive, "read_packaged_bytes", lambda _package, _name: path.read_bytes())
        for function in CACHES:
            function.cache_clear()

    yield use
    monkeypatch.undo()
    for function in CACHES:
        function.cache_clear()


def find(region, item, purchase="on_demand", cloud="aws", kind="machine"):
    price = snapshot.find_snapshot_price(kind, cloud, region, item, purchase)
    return price and (price.usd_per_hour, price.as_of)


def test_the_same_lists_give_the_same_bytes(build):
    first, _ = build(name="first.zip")
    second, _ = build(name="second.zip")
    reordered, _ = build(MACHINES[::-1], PARTS[::-1], name="third.zip")
    assert first.read_bytes() == second.read_bytes() == reordered.read_bytes()


def test_the_snapshot_has_the_newest_price_of_each_purchase(build, use_snapshot):
    use_snapshot(build(name="price_snapshot.zip")[0])
    assert find("us-east-1", "m9.large") == (0.1, "2026-07-20")
    assert find("us-east-1", "m9.large", "spot") == (0.04, "2025-05-28")
    assert find("us-east-1", "m9.large", "reserved_1y") is None
    assert find("us-east-1", "m9.large:windows") == (0.19, "2025-05-28")
    assert find("us-east-1", "g5.2xlarge") is None
    assert find("eastus", "Standard_D2s_v9", cloud="azure") == (0.1, "2025-05-28")
    assert find("eastus", "S96", cloud="azure") is None
    assert find("us-central1", "n9-standard-4:windows", cloud="gcp") == (0.384, "2026-07-30")
    assert find("us-east-1", "rds:mysql:db.m9.large", kind="part") == (0.17, "2025-05-28")
    assert find("us-east-1", "rds:mysql:db.m9.large", "reserved_1y", kind="part") == (0.12, "2025-05-28")
    assert find("us-east-1", "opensearch:m9.large.search", kind="part") == (0.14, "2025-05-28")
    assert find("us-east-1", "m9.large", kind="part") is None


def test_a_further_list_replaces_older_prices_and_adds_machines(build, use_snapshot):
    newer = [
        f"aws,us-east-1,m9.large,linux,on_demand,0.12,2,8,{EC2}",  # older than karpenter's
        f"aws,eu-west-1,t9g.micro,linux,on_demand,0.011,0.25,1,{KARPENTER}",
        f"aws,eu-west-1,m9.large,linux,on_demand,0.13,2,8,{KARPENTER}",
    ]
    use_snapshot(build(name="price_snapshot.zip", newer=newer)[0])
    assert find("us-east-1", "m9.large") == (0.1, "2026-07-20")
    assert find("eu-west-1", "t9g.micro") == (0.011, "2026-07-20")
    assert find("eu-west-1", "m9.large") == (0.13, "2026-07-20")


BURSTABLE = [
    "azure,westeurope,Standard_B2s_v2,linux,on_demand,0.096,2,8",
    "azure,westeurope,Standard_B4s_v2,linux,on_demand,0.192,4,16",
    "azure,eastus,Standard_B2s_v2,linux,on_demand,0.0924,2,8",  # with Windows; 0.0832 without
    "azure,eastus,Standard_B4s_v2,linux,on_demand,0.166,4,16",
]


def test_a_linux_price_with_windows_in_it_is_left_out(build, use_snapshot):
    path, text = build([f"{row},{AZURE}" for row in BURSTABLE], name="price_snapshot.zip")
    use_snapshot(path)
    assert "licence-included,azure,no,1" in text
    assert find("eastus", "Standard_B2s_v2", cloud="azure") is None
    assert find("eastus", "Standard_B4s_v2", cloud="azure") == (0.166, "2025-05-28")
    assert find("westeurope", "Standard_B2s_v2", cloud="azure") == (0.096, "2025-05-28")


def test_sizes_and_architecture_are_kept(build, use_snapshot):
    use_snapshot(build(name="price_snapshot.zip")[0])
    machine = snapshot.find_sized_machine("aws", "t9g.micro")
    assert (machine.vcpus, machine.memory_gib, machine.arch) == (
        1,
        1,
        "arm64",
    )  # a share of a core counts as one
    assert snapshot.find_sized_machine("aws", "g5.2xlarge") is None
    assert snapshot.list_sized_machines("aws") == {"m9.large", "t9g.micro"}


def test_the_command_prints_what_it_left_out(build):
    _, text = build()
    assert "commitment-not-cheaper,aws,no,1" in text
    assert "not names of machines: S96" in text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("aws,us-east-1,m9.large,linux", "4 cells, expected 10"),
        ("aws,us-east-1,m9.large,linux,on_demand,0.1,2,8,somebody/else@1:file,2026-01-01", "unknown source"),
    ],
)
def test_an_unreadable_list_is_refused(build, row, message):
    with pytest.raises(InputError, match=message):
        build([*MACHINES, row])


def test_other_columns_are_refused(tmp_path):
    path = write_list(tmp_path / "a.csv.gz", [*MACHINE_COLUMNS[:-1], "day"], MACHINES)
    with pytest.raises(InputError, match="the columns must be cloud"):
        main([path, path, str(tmp_path / "x.zip")])
