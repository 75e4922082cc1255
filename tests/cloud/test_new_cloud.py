"""Test that a fourth cloud is one descriptor, its data rows and its own modules (docs/architecture.md).

The toy cloud is added to a copy of the package; the command line then runs from that copy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).resolve().parents[1] / "cases/cloud/toy"
DESCRIPTOR = """    Cloud(
        name="toy",
        title="Toy Cloud",
        pulumi_package="toy",
        credentials=CredentialLocation("Toy credentials", ("TOY_TOKEN",), (".toy/token",), "toy login"),
        region_pattern=r"toy-[a-z]+",
        zone_pattern=r"{region}/[0-9]",
        zone_example="{region}/0",
        image_id_pattern=r"toy-image-[0-9]+",
        image_id_example="toy-image-7",
        price_kinds=("on_demand", "spot"),
    ),
"""
ROWS = {
    "machines.csv": "toy-gpu-8,toy,96,1024,x86_64,H100 SXM5 80GB,8,80,1,,2026-11-21,toy price page",
    "regions.csv": "toy,toy-north,2026-11-21,toy price page",
}
PRICE = "toy,toy-north,toy-gpu-8,on_demand,20.5,2026-11-21,medium,toy price page"
STACK = """config:
  gpufleet:fleet:
    owner: research
    ssh: {{authorized_keys: [{key}], allowed_cidrs: [10.0.0.0/8]}}
    pools:
      - {{name: train, cloud: toy, region: toy-north, zones: [toy-north/1], machine: toy-gpu-8, count: 2,
         purchase: {purchase}}}
"""
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn you"


@pytest.fixture
def toy_project(project, repo_root):
    """Add the toy cloud to a project's package as docs/architecture.md describes it; record the changed files."""
    package = project / "modules/gpufleet"
    changed = []

    def write(name, text):
        path = package / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)  # files of the package are hard links that tests share
        path.write_text(text)
        changed.append(name)

    def insert(name, marker, text):
        content = (package / name).read_text()
        assert content.count(marker) == 1
        write(name, content.replace(marker, f"{text}{marker}"))

    insert("catalog/cloud.py", ")\n\nCLOUDS: dict", DESCRIPTOR)
    for name, row in ROWS.items():
        write(f"catalog/data/{name}", (package / f"catalog/data/{name}").read_text() + row + "\n")
    lists = Path("tools/price_lists")
    shutil.copytree(repo_root / lists, project / lists, dirs_exist_ok=True)
    with (project / lists / "prices.csv").open("a") as file:
        file.write(f"{PRICE}\n")
    environment = {**os.environ, "PYTHONPATH": f"{project / 'modules'}{os.pathsep}{project}"}
    subprocess.run([sys.executable, "-m", "tools.price_lists"], cwd=project, check=True, env=environment)
    changed.append("catalog/data/price_tables.zip")
    write("cloud/toy_pool.py", (CASES / "toy_pool.py").read_text())
    write("cost/pricing/pricers/toy.py", (CASES / "toy_pricer.py").read_text())
    subprocess.run(
        ["git", "add", "--", *changed], cwd=package, check=True
    )  # a confined program sees no other files
    return project, changed


@pytest.fixture
def run_toy(toy_project, gpufleet):
    """Return a function that writes a stack with one toy pool and runs gpufleet from the changed package."""
    project, _ = toy_project

    def run(*arguments, purchase="{kind: on_demand}"):
        (project / "stacks/Pulumi.toy.yaml").write_text(STACK.format(key=KEY, purchase=purchase))
        return gpufleet(*arguments, cwd=project, env={"PYTHONPATH": str(project / "modules")})

    return run


def test_adding_a_cloud_changes_at_most_eight_files(toy_project, repo_root):
    _, changed = toy_project
    page = (repo_root / "docs/architecture.md").read_text()
    steps = page.partition("## Adding a cloud")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| \d+ \| `([^`]+)` \|", steps, re.MULTILINE))
    generic = {name.replace("toy", "<cloud>") for name in changed if not name.endswith(".zip")}
    assert generic <= documented
    assert "python -m tools.price_lists" in steps  # writes the zip
    assert len(documented) <= 8


def test_toy_pool_is_declared_and_priced(run_toy):
    finished = run_toy("cost", "estimate", "-s", "toy", "--json")
    assert finished.returncode == 0, finished.stderr
    estimate = json.loads(finished.stdout)
    assert estimate["total"]["usd_per_hour"] == 41.0
    assert [(pool["pool"], pool["machine"], pool["count"]) for pool in estimate["pools"]] == [
        ("train", "toy-gpu-8", 2.0)
    ]
    assert estimate["unpriced"] == []


@pytest.mark.parametrize(
    ("purchase", "message"),
    [
        (
            "{kind: reserved, term: 1y}",
            "purchase: purchase is reserved-1y, which Toy Cloud does not sell (rule purchase-sold)",
        ),
        ("{kind: spot, max_usd_per_hour: 9.0}", "Toy Cloud has no spot price cap (rule spot-price-cap)"),
        ("{kind: spot, fallback: on_demand}", "(rule spot-fallback)"),
    ],
)
def test_rules_accept_the_toy_cloud_from_its_descriptor(run_toy, purchase, message):
    finished = run_toy("cost", "estimate", "-s", "toy", purchase=purchase)
    assert finished.returncode == 2
    assert message in finished.stderr


def test_command_line_lists_the_toy_cloud(run_toy):
    finished = run_toy("prices", "--cloud", "toy", "--json")
    assert finished.returncode == 0, finished.stderr
    assert [offer["machine"] for offer in json.loads(finished.stdout)["offers"]] == ["toy-gpu-8"]
    assert "toy" in run_toy("cost", "budget", "--help").stdout
