"""Test GpuPool, the pool for any Pulumi program, on every cloud."""

from __future__ import annotations

import asyncio
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pulumi
import pytest
from pulumi.runtime import mocks
from pulumi.runtime.stack import run_pulumi_func

from gpufleet.cloud import GpuPool
from tools import pool_args

ROOT = Path(__file__).resolve().parents[2]
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
FLEET = {"owner": "research", "ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["10.0.0.0/8"]}}
MACHINES = {
    "aws": {"region": "us-east-1", "zones": ["us-east-1a"], "machine": "g5.2xlarge"},
    "gcp": {"region": "us-central1", "zones": ["us-central1-a"], "machine": "g2-standard-4"},
    "azure": {"region": "eastus", "machine": "Standard_NC4as_T4_v3"},
}


class UrnMonitor(mocks.MockMonitor):
    """Record the URN of every resource, as the engine identifies it."""

    def __init__(self, recorder):
        super().__init__(recorder)
        self.urns = []

    def RegisterResource(self, request):  # noqa: N802 - Pulumi's name
        registered = super().RegisterResource(request)
        self.urns.append(registered.urn)
        return registered


@pytest.fixture
def declare_pools(recorder, sdks):
    """Declare pools in a program; return the program's nodes, pool by pool, and the URNs."""

    def declare(*pools):
        monitor, declared = UrnMonitor(recorder), []

        async def program():
            mocks.set_mocks(recorder, project="other", stack="dev", monitor=monitor)
            await run_pulumi_func(
                lambda: declared.extend(GpuPool(name, **settings) for name, settings in pools)
            )
            return [await pool.nodes.future() for pool in declared]

        return asyncio.run(program()), monitor.urns

    return declare


def settings_of(cloud, **changes):
    return {
        **FLEET,
        **MACHINES[cloud],
        "cloud": cloud,
        "count": 1,
        "purchase": {"kind": "on_demand"},
        **changes,
    }


@pytest.mark.parametrize("cloud", MACHINES)
def test_two_pools_of_one_program_share_nothing(declare_pools, cloud):
    nodes, urns = declare_pools(("train", settings_of(cloud)), ("serve", settings_of(cloud)))
    assert [node["name"] for pool in nodes for node in pool] == ["dev-train-1", "dev-serve-1"]
    assert len(urns) == len(set(urns))
    components = [urn for urn in urns if urn.split("$")[-1].split("::")[-2].startswith("gpufleet:cloud:")]
    assert len([urn for urn in components if "gpufleet:cloud:GpuPool$" in urn]) == 4


def test_network_of_a_pool_has_its_name(declare_pools, recorder):
    declare_pools(("train", settings_of("gcp")), ("serve", settings_of("gcp")))
    networks = [row.inputs["name"] for row in recorder.resources if row.typ == "gcp:compute/network:Network"]
    assert sorted(networks) == ["gpufleet-dev-serve", "gpufleet-dev-train"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine": "g2-standart-4"}, "g2-standart-4"),
        ({"zones": ["us-east1-b"]}, "zone-in-region"),
        ({"color": "red"}, "color"),
        ({"machine": pulumi.Output.from_input("g2-standard-4")}, "machine: is a Pulumi output"),
        (
            {"ssh": {"authorized_keys": [pulumi.Output.from_input(KEY)]}},
            "ssh.authorized_keys[0]: is a Pulumi output",
        ),
        ({"zones": []}, "zones is [], but a Google node needs a zone"),
    ],
)
def test_wrong_setting_is_one_line_with_the_pools_name(declare_pools, changes, message):
    with pytest.raises(pulumi.RunError, match=re.escape(message)) as caught:
        declare_pools(("train", settings_of("gcp", **changes)))
    assert re.match(r'\S*test_gpu_pool\.py:\d+: GpuPool "train": [a-z]', str(caught.value))
    assert "\n" not in str(caught.value)


MISTAKES = [  # the text in the program, what is written in its place, line and key of the error
    ("p4d.24", "p4dd.24", 7, 'GpuPool "train": machine: unknown aws machine'),
    ('"spot"', '"spott"', 10, 'GpuPool "train": purchase.kind: '),
    ('"on_eviction"', '"reservation"', 11, 'GpuPool "train": purchase.reservation: spot capacity'),
    ('"10.0.0.0/8"', '"0.0.0.0/0"', 16, 'GpuPool "train": ssh.allowed_cidrs[1]: '),
    ("owner=", "ovner=", 13, 'GpuPool "train": ovner: unknown key'),
    ("GpuPool(NAME", "GpuPool('Train'", 4, 'GpuPool "Train": name: '),
    ('"pc"', '"shelf"', 18, 'Rack "shelf": name: inventory/shelf.yaml not found'),
    ("template=None", "inventory='shelf'", 19, 'Rack "pc": inventory: inventory/shelf.yaml not found'),
]
PROGRAM = f"""from gpufleet.cloud import GpuPool, Rack

NAME = "train"
GpuPool(NAME,
    cloud="aws",
    region="us-east-1",
    machine="p4d.24xlarge",
    count=0,
    purchase={{
        "kind": "spot",
        "on_eviction": "delete",
    }},
    owner="research",
    ssh={{
        "authorized_keys": ["{KEY}"],
        "allowed_cidrs": ["192.168.0.0/16", "10.0.0.0/8"],
    }})
Rack("pc",
    template=None)
"""


@pytest.fixture
def run_program(recorder, sdks, tmp_path, monkeypatch):
    """Run a program from a project of its own, in which the rack pc is declared."""
    (tmp_path / "Pulumi.yaml").write_text("{name: own, runtime: python, main: infra}")
    (tmp_path / "inventory").mkdir()
    rack = (ROOT / "inventory/blades-1.yaml").read_text()
    (tmp_path / "inventory/pc.yaml").write_text(rack.replace("blades-1", "pc"))
    file = tmp_path / "infra/__main__.py"
    file.parent.mkdir()
    monkeypatch.chdir(file.parent)

    def run(text):
        file.write_text(text)

        async def program():
            mocks.set_mocks(recorder, project="own", stack="dev")
            await run_pulumi_func(lambda: runpy.run_path(str(file), run_name="__main__") and None)

        asyncio.run(program())

    return run


def test_legal_program_declares_pool_and_rack(run_program, recorder):
    run_program(PROGRAM)
    (rack,) = (row for row in recorder.resources if row.typ == "gpufleet:onprem:Rack")
    assert (rack.name, rack.inputs["machine"]) == ("pc", "Compute Blade CM4 8GB")


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case[1])
def test_mistake_names_the_line_of_the_program(run_program, case):
    text, mistake, line, message = case
    assert PROGRAM.count(text) == 1
    with pytest.raises(pulumi.RunError) as caught:
        run_program(PROGRAM.replace(text, mistake))
    assert str(caught.value).startswith(f"infra/__main__.py:{line}: {message}")


def test_azure_pool_without_a_subscription_is_refused_before_anything_is_registered(
    declare_pools, recorder, monkeypatch
):
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID")
    with pytest.raises(pulumi.RunError, match=re.escape('GpuPool "train": azure.subscription: ')):
        declare_pools(("train", settings_of("azure")))
    assert recorder.resources == []


def test_provider_of_the_program_is_a_named_subscription(recorder, sdks, monkeypatch):
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID")

    async def program():
        from pulumi_azure_native import Provider

        mocks.set_mocks(recorder, project="other", stack="dev")
        own = Provider("mine", subscription_id="00000000-1111-2222-3333-444444444444")
        for number, opts in enumerate(
            (
                pulumi.ResourceOptions(provider=own),
                pulumi.ResourceOptions(providers=[own]),
                pulumi.ResourceOptions(providers={"azure-native": own}),
                pulumi.ResourceOptions(
                    parent=pulumi.ComponentResource(
                        "my:own:Part", "part", opts=pulumi.ResourceOptions(providers=[own])
                    )
                ),
            )
        ):
            await run_pulumi_func(
                lambda n=number, o=opts: GpuPool(f"pool{n}", opts=o, **settings_of("azure")) and None
            )

    asyncio.run(program())
    machines = [row for row in recorder.resources if row.typ.endswith(":VirtualMachine")]
    assert len(machines) == 4
    assert {"::mine::" in row.provider for row in machines} == {True}


WRONG_TYPES = [
    ("region=", "regoin=", 'Unexpected keyword argument "regoin" for "GpuPool"'),
    ('"aws"', '"aw"', 'Argument "cloud" to "GpuPool" has incompatible type'),
    ("count=0", 'count="2"', 'Argument "count" to "GpuPool" has incompatible type'),
    ('"on_eviction"', '"evict"', 'Argument "purchase" to "GpuPool" has incompatible type'),
    ("template=", "tmeplate=", 'Unexpected keyword argument "tmeplate" for "Rack"'),
]


def test_type_checker_accepts_the_program_and_finds_each_wrong_argument(tmp_path):
    programs = {"right": PROGRAM}
    programs |= {f"wrong{n}": PROGRAM.replace(old, new) for n, (old, new, _) in enumerate(WRONG_TYPES)}
    for name, text in programs.items():
        (tmp_path / f"{name}.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--strict",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    environment = {"MYPYPATH": str(ROOT / "modules"), "PATH": ""}
    checked = subprocess.run(
        [*command, *(f"{name}.py" for name in programs)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [line for line in checked.stdout.splitlines() if ": error: " in line]
    assert len(errors) == len(WRONG_TYPES), checked.stdout + checked.stderr
    for n, (_, _, message) in enumerate(WRONG_TYPES):
        assert any(line.startswith(f"wrong{n}.py:") and message in line for line in errors)


def test_typed_arguments_are_those_of_the_spec():
    assert pool_args.MODULE.read_text() == pool_args.format_module(), "run python -m tools.pool_args"


def test_documented_program_is_the_example():
    page = (ROOT / "docs/own-pulumi-program.md").read_text()
    program = (ROOT / "docs/examples/gpu-pool/__main__.py").read_text().partition("\n")[2]
    assert f"```python\n{program}```" in page


@pytest.mark.parametrize(
    ("text", "mistake"),
    [("standard", "standart"), ('"spot"', '"spott"'), (f'["{KEY}"]', f'[pulumi.Output.from_input("{KEY}")]')],
)
def test_documented_mistake_is_the_printed_one(run_program, text, mistake):
    page = (ROOT / "docs/own-pulumi-program.md").read_text()
    program = (ROOT / "docs/examples/gpu-pool/__main__.py").read_text()
    program = program.replace('pulumi.Config().require("key")', f'"{KEY}"')
    with pytest.raises(pulumi.RunError) as caught:
        run_program(program.replace(text, mistake))
    assert str(caught.value).removeprefix("infra/") in page.splitlines()
