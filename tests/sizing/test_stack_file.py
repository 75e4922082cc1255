"""Plans written as stacks: pools, racks, workstations; atomic writes, comments kept, no overwrite without --merge."""

from __future__ import annotations

import pytest

from gpufleet import fleet
from gpufleet.errors import InputError
from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
from gpufleet.sizing.plans.search import find_plans
from gpufleet.sizing.stack_file import choose_plan_to_write, write_plan_to_stack


@pytest.fixture
def find_best_plan(project):
    """Return the best plan for these arguments in a project of the test's own."""
    return lambda model="llama-3.1-8b", **options: find_plans(
        parse_plan_options(PlanOptions(model, **options), root=project)
    ).plans[0]


@pytest.fixture
def list_stack_files(project):
    """Return the names of the stack files, hidden ones too."""
    return lambda: sorted(path.name for path in (project / "stacks").iterdir())


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
@pytest.mark.parametrize("purchase", ["on_demand", "spot", "reserved_1y"])
def test_every_cloud_and_purchase_gives_a_valid_pool(cloud, purchase, find_best_plan, project):
    plan = find_best_plan(clouds=(cloud,), purchases=(purchase,), engine="vllm")
    write_plan_to_stack(plan, "sized", project)
    (pool,) = fleet.load_fleet("sized", project).pools
    assert (pool.cloud, pool.machine, pool.count.desired) == (cloud, plan.hardware.machine, plan.nodes)
    assert pool.purchase.price_kind == purchase
    assert pool.name == "serve-llama-3-1-8b"


def test_training_pool_has_hours_and_fabric(find_best_plan, project):
    plan = find_best_plan(
        task="pretrain", tokens="20B", on="p4d.24xlarge", deadline="3d", purchases=("on_demand",)
    )
    write_plan_to_stack(plan, "sized", project)
    (pool,) = fleet.load_fleet("sized", project).pools
    assert pool.hours_per_month >= plan.work_hours
    assert pool.hours_per_month - plan.work_hours < 1
    assert (pool.fabric, pool.count.desired > 1) == ("auto", True)


def test_price_for_a_term_is_a_commitment_where_no_capacity_can_be_reserved(find_best_plan, project):
    plan = find_best_plan(on="Standard_ND96isr_H100_v5", devices=8, purchases=("reserved_1y",))
    write_plan_to_stack(plan, "sized", project)
    (pool,) = fleet.load_fleet("sized", project).pools
    assert (pool.purchase.kind, pool.purchase.term, pool.purchase.price_kind) == (
        "committed",
        "1y",
        "reserved_1y",
    )


def test_machine_that_is_not_sold_on_demand_is_refused(find_best_plan, project, list_stack_files):
    plan = find_best_plan(on="a3-highgpu-1g", devices=1, purchases=("on_demand",))
    before = list_stack_files()
    with pytest.raises(
        InputError, match=r"a3-highgpu-1g has a list price for on_demand, but is not sold that way"
    ):
        write_plan_to_stack(plan, "sized", project)
    assert list_stack_files() == before


def test_rack_and_workstation_are_written(find_best_plan, project):
    write_plan_to_stack(find_best_plan("qwen2-0.5b", on="blades-1", devices=2), "racked", project)
    write_plan_to_stack(find_best_plan("qwen2-0.5b", on="m2", devices=1), "desk", project)
    assert [rack.name for rack in fleet.load_fleet("racked", project).racks] == ["blades-1"]
    assert [workstation.machine for workstation in fleet.load_fleet("desk", project).workstations] == [
        "MacBook Pro M2 16GB"
    ]


def test_existing_stack_is_unchanged_without_merge(find_best_plan, project):
    path = project / "stacks/Pulumi.dev.yaml"
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"stacks/Pulumi.dev.yaml exists; give --merge"):
        write_plan_to_stack(find_best_plan(on="g5.xlarge", devices=1), "dev", project)
    assert path.read_bytes() == before


def test_merging_keeps_comments_and_other_pools(find_best_plan, project):
    path = project / "stacks/Pulumi.dev.yaml"
    before = path.read_text()
    write_plan_to_stack(find_best_plan(on="g5.xlarge", devices=1), "dev", project, merge=True)
    after = path.read_text()
    comments = [line.split("#", 1)[1] for line in before.splitlines() if "#" in line]
    assert all(comment in after for comment in comments)
    names = [pool.name for pool in fleet.load_fleet("dev", project).pools]
    assert names == ["train", "serve", "test", "serve-llama-3-1-8b"]


def test_second_write_replaces_the_entry(find_best_plan, project):
    for machine in ("g5.xlarge", "g6.xlarge"):
        write_plan_to_stack(find_best_plan(on=machine, devices=1), "dev", project, merge=True)
    pools = fleet.load_fleet("dev", project).pools
    assert [pool.machine for pool in pools if pool.name.startswith("serve-llama")] == ["g6.xlarge"]


def test_hardware_outside_stacks_is_refused(find_best_plan, project, list_stack_files):
    before = list_stack_files()
    with pytest.raises(InputError, match="is not a machine that a stack can declare"):
        write_plan_to_stack(find_best_plan(on="H100 SXM5 80GB", devices=8), "sized", project)
    assert list_stack_files() == before


def test_plan_that_does_not_fit_is_not_written(find_best_plan, project):
    with pytest.raises(InputError, match="the plan cannot run"):
        write_plan_to_stack(find_best_plan("llama-3.1-70b", on="g5.xlarge", devices=1), "sized", project)


@pytest.mark.parametrize("name", ["../prod", "Prod", "a b", "", "x" * 60])
def test_stack_name_is_validated(name, find_best_plan, project):
    with pytest.raises(InputError, match="is not a stack's name"):
        write_plan_to_stack(find_best_plan(on="g5.xlarge", devices=1), name, project)


def test_invalid_stack_leaves_the_file_unchanged(find_best_plan, project, list_stack_files):
    path = project / "stacks/Pulumi.dev.yaml"
    path.write_text(path.read_text().replace("region: us-east-1\n", "region: us-nowhere-1\n", 1))
    before, files_before = path.read_bytes(), list_stack_files()
    with pytest.raises(InputError, match="us-nowhere-1"):
        write_plan_to_stack(find_best_plan(on="g5.xlarge", devices=1), "dev", project, merge=True)
    assert (path.read_bytes(), list_stack_files()) == (before, files_before)


def test_broken_yaml_is_refused(find_best_plan, project):
    (project / "stacks/Pulumi.dev.yaml").write_text("config: [")
    with pytest.raises(InputError, match="is not valid YAML"):
        write_plan_to_stack(find_best_plan(on="g5.xlarge", devices=1), "dev", project, merge=True)


def test_stack_without_ssh_keys_is_refused(find_best_plan, project):
    plan = find_best_plan(on="g5.xlarge", devices=1)
    for path in (project / "stacks").glob("Pulumi.*.yaml"):
        path.unlink()
    with pytest.raises(InputError, match=r"no stack of this project has ssh\.authorized_keys"):
        write_plan_to_stack(plan, "sized", project)


def test_command_writes_the_stack_and_prints_the_next_command(gpufleet, project):
    completed = gpufleet(
        "size",
        "--model",
        "llama-3.1-8b",
        "--on",
        "g5.xlarge",
        "--devices",
        "1",
        "--emit",
        "sized",
        "--json",
        cwd=project,
    )
    assert completed.returncode == 0, completed.stderr
    assert "next: gpufleet cost estimate -s sized" in completed.stderr
    priced = gpufleet("cost", "estimate", "-s", "sized", "--json", cwd=project)
    assert priced.returncode == 0, priced.stderr
    assert "g5.xlarge" in priced.stdout


SERVED = {"requests_per_s": 20.0, "context": "800/200", "clouds": ("aws",)}


@pytest.mark.parametrize("top", [1, 20])
def test_serving_pool_is_on_demand_by_default(top, project):
    request = parse_plan_options(PlanOptions("qwen2.5-7b", top=top, **SERVED), root=project)
    answer = find_plans(request)
    assert answer.plans[0].offer.purchase != "spot"
    plan, _ = choose_plan_to_write(request, answer)
    assert plan.offer.purchase == "on_demand"


@pytest.mark.parametrize("purchase", ["spot", "reserved_3y"])
def test_requested_purchase_is_written(purchase, project):
    request = parse_plan_options(PlanOptions("qwen2.5-7b", purchases=(purchase,), **SERVED), root=project)
    plan, note = choose_plan_to_write(request, find_plans(request))
    assert (plan.offer.purchase, note) == (purchase, "")


def test_training_pool_may_use_spot_but_no_commitment_by_default(project):
    request = parse_plan_options(
        PlanOptions("llama-3.1-8b", task="pretrain", tokens="1B", on="p4d.24xlarge", clouds=("aws",)),
        root=project,
    )
    plan, _ = choose_plan_to_write(request, find_plans(request))
    assert plan.offer.purchase in ("spot", "on_demand")


def test_attached_cards_are_written_as_accelerators_of_the_pool(find_best_plan, project):
    plan = find_best_plan(
        on="n1-standard-8 + 2x T4",
        devices=2,
        precision="int4",
        purchases=("on_demand",),
        regions=("us-central1",),
    )
    write_plan_to_stack(plan, "sized", project)
    (pool,) = fleet.load_fleet("sized", project).pools
    assert (pool.machine, pool.accelerators.model, pool.accelerators.count) == ("n1-standard-8", "T4", 2)
