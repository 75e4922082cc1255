"""The parsers of outside data, their inputs, and how each result is used."""

from __future__ import annotations

import io
import json
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from gpufleet.cost.analysis.actual import sum_billed_charges
from gpufleet.cost.inputs.bill_export import stream_billed_charges

CASES = Path(__file__).resolve().parents[1] / "cases"
ROOT = Path(__file__).resolve().parents[2]
AT = datetime(2026, 1, 1, tzinfo=UTC)
MOST_SEED = 6000  # bytes: a smaller seed is parsed sooner and mutated where it matters


@dataclass(frozen=True)
class Target:
    """A parser: ``run`` takes an input and either returns or raises a GpufleetError."""

    name: str
    kind: str
    seeds: Callable[[], list[bytes]]
    run: Callable[[bytes], object]
    corpus: Path = field(default=Path(__file__).parent / "corpus")

    def findings(self) -> list[Path]:
        """Return the inputs that once broke this parser."""
        return sorted((self.corpus / self.name.replace(" ", "-")).glob("*"))


@cache
def scratch() -> Path:
    return Path(
        tempfile.mkdtemp(prefix="gpufleet-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    )


def in_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Return a runner for a parser that takes a path."""

    def run(content: bytes) -> object:
        path = scratch() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return read(path)

    return run


def files(pattern: str, limit: int = 12) -> list[bytes]:
    """Return the smallest cases that match."""
    paths = sorted(CASES.glob(pattern), key=lambda path: path.stat().st_size)
    contents = [path.read_bytes() for path in paths if path.stat().st_size <= MOST_SEED]
    return contents[:: max(1, len(contents) // limit)][:limit]


def parts_of(pattern: str, *keys: str, limit: int = 12) -> list[bytes]:
    """Return one part of each JSON case, compact."""
    parts = []
    for path in sorted(CASES.glob(pattern)):
        case = json.loads(path.read_text())
        parts += [json.dumps(case[key]).encode() for key in keys if case.get(key)]
    parts = sorted((part for part in parts if len(part) <= MOST_SEED), key=len)
    return parts[:: max(1, len(parts) // limit)][:limit]


# --- the engine and cost ---------------------------------------------------------------------------------------


def previews() -> list[bytes]:
    return parts_of("cost/*.json", "preview")


def run_preview(content: bytes) -> object:
    from gpufleet import boundary, engine

    text = boundary.decode_text(content, "preview", boundary.ENGINE_DOCUMENT)
    with engine.add_source_to_errors("preview"):
        return engine.parse_pulumi_preview(engine.parse_engine_json(text, "preview"))


def run_priced_preview(content: bytes) -> object:
    from gpufleet import boundary, cost, engine
    from gpufleet.cost.analysis.reports.json_document import build_diff_document

    text = boundary.decode_text(content, "preview", boundary.ENGINE_DOCUMENT)
    with engine.add_source_to_errors("preview"):
        return json.dumps(
            build_diff_document(
                cost.diff_from_preview(engine.parse_engine_json(text, "preview"), None, cost.CostOptions())
            )
        )


def states() -> list[bytes]:
    documents = []
    for step in previews():
        resources = [
            step_record.get("newState") or step_record.get("oldState")
            for step_record in json.loads(step)["steps"]
        ]
        documents.append(
            json.dumps(
                {"version": 3, "deployment": {"resources": [resource for resource in resources if resource]}}
            ).encode()
        )
    for path in sorted(CASES.glob("nodes/state-*.json")):
        state_resources = json.loads(path.read_text())["deployment"]["resources"]
        nodes = [resource for resource in state_resources if "gpufleet-node" in json.dumps(resource)][:1]
        documents.append(
            json.dumps({"version": 3, "deployment": {"resources": [state_resources[0], *nodes]}}).encode()
        )
    return [document for document in documents if len(document) <= MOST_SEED]


def run_state(content: bytes) -> object:
    from gpufleet import boundary, engine, nodes

    text = boundary.decode_text(content, "state", boundary.ENGINE_DOCUMENT)
    with engine.add_source_to_errors("state"):
        return nodes.build_pulumi_state_report(
            engine.parse_stack_state(engine.parse_engine_json(text, "state")), "dev", AT
        )


def event_logs() -> list[bytes]:
    logs = []
    for preview in previews():
        lines = [{"sequence": 0, "preludeEvent": {"config": {}}}]
        for step in json.loads(preview)["steps"]:
            metadata = {
                "op": step["op"],
                "urn": step["urn"],
                "old": step.get("oldState"),
                "new": step.get("newState"),
            }
            lines += [{"resourcePreEvent": {"planning": True, "metadata": metadata}}]
            lines += [{"resOutputsEvent": {"planning": True, "metadata": metadata}}]
        lines.append({"summaryEvent": {"resourceChanges": {"create": 1}}})
        logs.append("\n".join(map(json.dumps, lines)).encode())
    return [log for log in logs if len(log) <= MOST_SEED]


def run_events(content: bytes) -> object:
    from gpufleet import boundary, engine

    return engine.parse_last_phase_of_log(
        boundary.decode_text(content, "log", boundary.ENGINE_DOCUMENT), "log"
    )


COMMITMENTS = b"""commitments:
  - kind: savings_plan
    plan: compute
    usd_per_hour: 12.5
    from: 2026-01-01
    to: 2028-12-31
    term: 3y
    payment: all
  - {kind: reserved_instance, name: b, machine: p4d.24xlarge, region: us-east-1, count: 2, usd_per_hour: 1.5}
"""
POLICY = b"""budget_usd_per_month: 60000
max_increase_percent: 20
max_price_age_days: 400
unpriced: [aws:ec2/vpc:Vpc, "random:*"]
purchases: [spot, on_demand]
rules:
  - name: no large ones
    when: {pool: train*, owner: ml}
    max_resource_usd_per_month: 100.5
"""
USAGE = b"""overlap_hours: 0.5
resources:
  web-*: {schedule: weekdays 8-18, desired: 3, min: 1, max: 4}
  spot: {interruptions_per_month: 2, checkpoint_minutes: 30, restart_minutes: 5, fallback_share: 0.2}
types:
  aws:ec2/natGateway:NatGateway: {processed_gib: 500}
"""


def run_commitments(path: Path) -> object:
    from gpufleet.cost.pricing.commitments.file import read_commitments_file

    return read_commitments_file(path)


def commitments() -> list[bytes]:
    import yaml

    rows = [json.loads(path.read_text()) for path in sorted(CASES.glob("cost/commitments/*.json"))]
    documents = [
        yaml.safe_dump({"commitments": row["commitments"]}).encode() for row in rows if row.get("commitments")
    ]
    return [*documents[::3], COMMITMENTS]


def run_policy(path: Path) -> object:
    from gpufleet import cost

    return cost.load_policy(path)


def run_usage(path: Path) -> object:
    from gpufleet import cost

    return cost.load_usage_file(path)


BILL_EXPORTS = (
    (
        b"BilledCost,EffectiveCost,BillingCurrency,ChargeCategory,ChargePeriodStart,ChargePeriodEnd,ConsumedQuantity,"
        b"ConsumedUnit,ServiceCategory,ServiceName,Tags\n1.5,1.5,USD,Usage,2026-10-01T00:00:00Z,2026-11-01T00:00:00Z,3,Hours,"
        b'Compute,EC2,"{""gpufleet-pool"": ""train""}"\n'
    ),
    (
        b"Date,MeterCategory,Quantity,UnitOfMeasure,CostInBillingCurrency,BillingCurrency,Tags\n"
        b'10/02/2026,Virtual Machines,24,1 Hour,12.6,USD,"""gpufleet-pool"": ""serve"""\n'
    ),
)
GOOGLE_EXPORT = (
    b'{"service": {"description": "Compute Engine"}, "usage_start_time": "2026-10-01 00:00:00 UTC", "usage_end_time": '
    b'"2026-10-01T01:00:00Z", "labels": [{"key": "gpufleet-pool", "value": "a"}], "cost": 2.5, "currency": "USD", '
    b'"credits": [{"amount": -0.5}]}\n'
)
PROJECTS = b"name: acme\npolicy: p.yaml\nprojects:\n- {name: a, path: ., stack: prod, usage: u.yaml}\n"


def run_bill_export(path: Path) -> object:

    return sum_billed_charges(stream_billed_charges(path), "prod")


def parquet_lines() -> list[bytes]:
    """Return what the child that reads Parquet sends: a FOCUS export and one of Google."""
    header, cells = (line.split(b",") for line in BILL_EXPORTS[0].splitlines()[:2])
    names = [name.decode() for name in header]
    columns = [[cell.decode().strip('"').replace('""', '"')] * 2 for cell in cells[: len(names)]]
    record = json.loads(GOOGLE_EXPORT)
    return [
        b"\n".join(map(dump, ({"columns": keys, "names": keys}, {"cells": values}, {"end": True}))) + b"\n"
        for keys, values in ((names, columns), (list(record), [[value] for value in record.values()]))
    ]


def run_parquet_lines(content: bytes) -> object:
    """Read lines as if a hostile file had taken over the child; pyarrow itself may end its process only."""
    from gpufleet.boundary import parquet_file
    from gpufleet.cost.inputs import bill_export

    child = SimpleNamespace(stdout=io.BytesIO(content), wait=lambda _: 0)
    reader = parquet_file.ParquetReader(child, "a.parquet", parquet_file.COST_EXPORT)
    return sum_billed_charges(bill_export._stream_parquet(reader, "a.parquet"), "prod")


def run_projects(path: Path) -> object:
    from gpufleet import cost

    (path.parent / "Pulumi.yaml").write_text("name: p\n")
    return cost.load_project_list(path)


def run_cost_difference(path: Path) -> object:
    from gpufleet.console.report import list_priced_resources
    from gpufleet.console.report_data import read_cost_diff

    return list_priced_resources(read_cost_diff(path))


def cost_differences() -> list[bytes]:
    from gpufleet import cost
    from gpufleet.cost.analysis.reports.json_document import build_diff_document

    documents = (
        build_diff_document(cost.diff_from_preview(json.loads(preview), None, cost.CostOptions()))
        for preview in previews()[:4]
    )
    return [json.dumps(document).encode() for document in documents]


def run_server_answer(content: bytes) -> object:
    from gpufleet.cost.analysis.comment import transport

    status = (200, 301, 401, 403, 404, 422)[len(content) % 6]
    return transport._raise_for_status(
        transport._parse_response(status, {"Retry-After": "3"}, content), "GET", "/x"
    )


def run_program_answer(content: bytes) -> object:
    from gpufleet import engine
    from gpufleet.cost.inputs.program import registration

    answer = registration.decode_program_output(content, "program")
    with engine.add_source_to_errors("program"):
        return [
            engine.parse_stack_state({"deployment": {"resources": [resource.model_dump()]}})
            for resource in answer.resources
        ]


def program_answers() -> list[bytes]:
    answers = [{"error": {"problem": "no", "where": "__main__.py:3", "key": "a", "remedy": "b"}}]
    for state in states():
        resources = json.loads(state)["deployment"]["resources"]
        answers.append(
            {
                "resources": [
                    {"custom": True, "outputs": {}, "inputs": {}} | resource for resource in resources
                ]
            }
        )
    return [dump(answer) for answer in answers]


# --- catalogue -------------------------------------------------------------------------------------------------

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
}  # fmt: skip
MIXTURE = LLAMA | {
    "model_type": "deepseek_v3", "n_routed_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 1024,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128, "q_lora_rank": 0,
    "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4096, "mlp_only_layers": [0],
    "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}, "text_config": {},
}  # fmt: skip


def run_config(path: Path) -> object:
    from gpufleet.catalog import huggingface_config

    return huggingface_config.read_huggingface_model(path)


def run_gguf(path: Path) -> object:
    from gpufleet.catalog import gguf_architecture

    return gguf_architecture.read_gguf_model(path)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def ggufs() -> list[bytes]:
    """Return small but complete files: keys of each type, an array of texts, two tensors."""
    numbers = {
        "block_count": 2, "embedding_length": 32, "feed_forward_length": 64, "context_length": 128,
        "attention.head_count": 4, "attention.head_count_kv": 2, "expert_count": 4, "expert_used_count": 2,
        "attention.kv_lora_rank": 8, "rope.dimension_count": 4, "attention.key_length": 8, "attention.value_length": 8,
    }  # fmt: skip
    seeds = []
    for most in (6, 8, 12):
        keys = [_text("general.architecture") + struct.pack("<I", 8) + _text("llama")]
        keys += [_text("general.name") + struct.pack("<I", 8) + _text("Toy")]
        keys += [
            _text(f"llama.{key}") + struct.pack("<II", 4, value)
            for key, value in list(numbers.items())[:most]
        ]
        keys += [_text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + _text("a") + _text("bc")]
        keys += [_text("llama.heads") + struct.pack("<IIQ3I", 9, 4, 3, 1, 2, 3)]
        shapes = {"token_embd.weight": (32, 10), "blk.0.ffn_up_exps.weight": (32, 2, 2)}
        tensors, offset = [], 0
        for name, shape in shapes.items():
            head = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 1, offset)
            tensors.append(_text(name) + head)
            offset += 640
        content = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys + tensors)
        seeds.append(content + b"\0" * (-len(content) % 32) + b"\0" * 2 * 640)
    return seeds


def run_price_import(path: Path) -> object:
    from gpufleet.catalog.prices.imports import PriceOrigin, load_price_file

    return load_price_file(path, origin=PriceOrigin(cloud="aws", as_of="2026-01-01"))


def price_rows(pattern: str) -> list[bytes]:
    return [b"\n".join(path.read_bytes().splitlines()[:5]) for path in sorted(CASES.glob(pattern))]


def price_dump() -> list[bytes]:
    dump = json.loads((CASES / "catalog/prices/gpuhunt-gcp.json").read_text())
    offers = (
        dump if isinstance(dump, list) else next(value for value in dump.values() if isinstance(value, list))
    )
    return [json.dumps(offers[:2]).encode(), json.dumps({"items": offers[2:4]}).encode()]


def price_archives() -> list[bytes]:
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("aws.csv", price_rows("catalog/prices/gpuhunt-aws.csv")[0])
    return [out.getvalue()]


def run_price_page(content: bytes) -> object:
    from gpufleet.catalog.prices.refresh import http_client

    try:
        return http_client._decode_object(content)
    except http_client._RetryableError:
        return http_client._read_error_message(content)


# --- the fleet -------------------------------------------------------------------------------------------------


def run_rack(path: Path) -> object:
    from gpufleet import fleet

    return fleet.load_rack(path)


def run_container_file(path: Path) -> object:
    from gpufleet.fleet.container_file import load_container_file

    return load_container_file(path.name, path.parent)


def container_files(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "docs/examples/containers").glob(pattern))]


def racks() -> list[bytes]:
    seeds = [path.read_bytes() for path in sorted((ROOT / "inventory").glob("*.yaml"))]
    small = [seed for seed in seeds if b"gpufleet.fleet.rack" in seed and len(seed) < MOST_SEED]
    return [rack.replace(b"name: " + name, b"name: rack", 1) for rack in small for name in [_name_of(rack)]]


def _name_of(rack: bytes) -> bytes:
    line = next(line for line in rack.splitlines() if line.startswith(b"name:"))
    return line.partition(b":")[2].split(b"#")[0].strip()


def run_stack(path: Path) -> object:
    from gpufleet import fleet

    return fleet.load_fleet("dev", ROOT, path)


STACK = b"""config:
  gpufleet:fleet:
    owner: ml
    budget_usd_per_month: 60000
    ssh:
      authorized_keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA x]
      allowed_cidrs: [10.0.0.0/8]
    pools:
      - name: train
        cloud: aws
        region: us-east-1
        zones: [us-east-1a]
        machine: p4d.24xlarge
        count: 2
        purchase: {kind: on_demand}
        template: t
    templates:
      t:
        driver: {vendor: nvidia, branch: auto}
        burn_in: standard
"""


def stacks() -> list[bytes]:
    seeds = [path.read_bytes() for path in sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))]
    return [STACK, *(seed for seed in seeds if len(seed) < MOST_SEED)]


# --- nodes -----------------------------------------------------------------------------------------------------


def run_drives(content: bytes) -> object:
    from gpufleet import boundary
    from gpufleet.nodes import wipe_plan

    return wipe_plan.plan_wipe(boundary.decode_json_object(content, "a node's drives")).as_json()


def run_evidence(content: bytes) -> object:
    from gpufleet import boundary
    from gpufleet.nodes import wipe_evidence

    plan = {"id": "abc", "drives": [{"path": "/dev/sda", "serial": "S1"}]}
    return wipe_evidence.check_wipe_evidence(boundary.decode_json(content, "evidence"), plan, "blade01")


EVIDENCE = {
    "plan": "abc", "complete": True, "refused": [{"path": "/dev/sdb", "reason": "no"}],
    "evidence": [{"path": "/dev/sda", "serial": "S1", "wiped": True, "commands": [], "size": 5}],
}  # fmt: skip


def run_judge(content: bytes) -> object:
    from gpufleet import boundary, burnin

    records = [value for _, value in boundary.decode_json_lines(content, "records")]
    report = burnin.judge_attempt(records, "compute_blade", "quick", rehearsal=len(content) % 2 == 0)
    return json.dumps(report.as_json()), report.list_unhealthy_reasons()


def run_parts(content: bytes) -> object:
    from gpufleet import boundary, burnin

    records = [value for _, value in boundary.decode_json_lines(content, "records")]
    report = burnin.judge_attempt(records, "gpu_server", "quick")
    return burnin.observe_parts(records, "gpu_server", report)


@cache
def passport_key() -> object:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(b"k" * 32)


def passports() -> list[bytes]:
    from gpufleet.burnin.passport import sign_passport

    return [sign_passport({"node": {"name": "n"}, "report": {"x": [1.5, None]}}, passport_key()).encode()]


def run_passport(content: bytes) -> object:
    from gpufleet.burnin.passport import verify_passport

    return verify_passport(content, passport_key().public_key(), "passport")


def run_bug_report(path: Path) -> object:
    from gpufleet.operations.redaction import Redactor
    from gpufleet.operations.rma_bundle import read_bug_report

    text, redactor = read_bug_report(path), Redactor()
    redactor.learn(text)
    return redactor.redact_text(text)


def run_gpu_report(content: bytes) -> object:
    from gpufleet.burnin.checks.gpu_nvidia import read as nvidia_smi

    words = {"text": content.decode("utf-8", "replace")}
    nvidia_smi.read_record({"xml": words, "nvlink": words, "message": words["text"], "code": 1})
    text = nvidia_smi.decompress_text({"text": content.decode("utf-8", "replace")})
    return nvidia_smi.parse_nvidia_smi_report(text or "")


THRESHOLDS = b"""overrides:
  - {check: pi_temperature, metric: celsius, instead_of: 80, value: 75, reason: a warm closet,
     by: Ada, date: 2026-11-20}
  - check: memory
    metric: copy_mb_per_s
    kind: compute_blade
    instead_of: 2080
    value: 2000
    on_miss: warn
    reason: older modules of this rack
    by: Ada
    date: '2026-11-20'
"""


def run_overrides(content: bytes) -> object:
    from gpufleet import boundary
    from gpufleet.burnin.override_file import parse_overrides

    return parse_overrides(boundary.decode_text(content, "f.yaml"), "f.yaml")


def run_burnin_pages(content: bytes) -> object:
    """Judge records, and show them as a page, as JUnit, and as a node's measurements."""
    from gpufleet import boundary
    from gpufleet.burnin import junit, outliers
    from gpufleet.console import burnin_data, burnin_pages
    from gpufleet.nodes import BurnInResult, Node

    records = [value for _, value in boundary.decode_json_lines(content, "records")]
    plain = [record for record in records if isinstance(record, dict)]
    report = run_report(plain)
    node = Node("n-1", "blade01", "compute_blade", "ready", AT, "a reason", rack="blades-1", slot="1")
    result = BurnInResult("n-1", "attempt", report["verdict"], report, plain, AT)
    (entry,) = burnin_data.collect_node_burnins([node], [result])
    pages = burnin_pages.render_node_page(entry), burnin_pages.render_group_page("blades-1", [entry])
    return *pages, junit.render_junit_xml([report]), outliers.measure_records(records)


def run_report(records: list[dict[str, object]]) -> dict[str, object]:
    from gpufleet import burnin

    return burnin.judge_attempt(records, "compute_blade", "quick", node="blade01").as_json()


def packed_reports() -> list[bytes]:
    import base64
    import zlib

    reports = files("burnin/outputs/*.xml")
    packed = [{"zlib_base64": base64.b64encode(zlib.compress(report)).decode()} for report in reports]
    return [json.dumps(report).encode() for report in packed]


def run_packed_report(content: bytes) -> object:
    from gpufleet import boundary, burnin

    raw = boundary.decode_json(content, "record")
    return burnin.judge_attempt(
        [{"type": "check", "name": "gpu_nvidia", "status": "ran", "raw": {"xml": raw}}], "gpu_server", "quick"
    )


@cache
def declared() -> object:
    from gpufleet import fleet

    return fleet.load_fleet("poc", ROOT)


def run_address_book(path: Path) -> object:
    from gpufleet.operations import sync

    notes: list[str] = []
    report = sync._address_report(declared(), path, AT, notes)
    return report, notes


def address_books() -> list[bytes]:
    places = [f"{use.rack.name}/{node.slot}" for use in declared().racks for node in use.rack.nodes]
    return [json.dumps({place: f"10.0.0.{at + 1}" for at, place in enumerate(places[:4])}).encode()]


def run_mig(content: bytes) -> object:
    from gpufleet import boundary
    from gpufleet.drivers import mig

    geometry = boundary.decode_yaml(boundary.decode_text(content, "template"), "template")
    return mig.build_mig_parted_config(mig.resolve_mig_geometry(geometry, ["2330", "0x2330"]))


def migs() -> list[bytes]:
    return [
        b"all-1g.10gb",
        b"{1g.10gb: 2, 2g.20gb: 1}",
        b"- {devices: all, profiles: disabled}\n- {devices: [0], profiles: {3g.40gb: 2}}",
    ]


HOST = {
    "pci": [{"address": "0000:01:00.0", "vendor": "10de", "device": "20b0", "class": "030200", "subsystem": ""}],
    "os": {"id": "debian", "version_id": "12", "codename": "bookworm"}, "kernel": "6.1.0-50-amd64", "arch": "x86_64",
    "packages": {"nvidia-driver": "535.247.01-1"}, "candidates": {"nvidia-driver": ["535.247.01-1"]}, "loaded": {},
    "held": [], "date": "2026-11-21", "secure_boot": False,
}  # fmt: skip


def run_events_of_a_run(path: Path) -> object:
    from gpufleet.operations.task_events import read_artifact_events

    return list(read_artifact_events(path.parent.parent))


def runner_events() -> list[bytes]:
    lines = (CASES / "remote/site-run.jsonl").read_bytes().splitlines()
    chosen = [line for line in lines if b"runner_on_" in line and b"runner_on_start" not in line]
    facts = {
        "node": "blade01",
        "event": "burn_in",
        "attempt": "a-1",
        "records": [{"type": "start"}, {"type": "end"}],
    }
    data = {
        "host": "blade01",
        "task_action": "gpufleet.fleet.report",
        "res": {"gpufleet": facts, "changed": False},
    }
    report = {
        "counter": 9,
        "created": "2026-11-21T11:41:36+00:00",
        "event": "runner_on_ok",
        "event_data": data,
    }
    return [*(line for line in chosen[:12] if len(line) < MOST_SEED), dump(report)]


def run_host_facts(content: bytes) -> object:
    from gpufleet import boundary
    from gpufleet.drivers import HostFacts, RequestedSoftware, plan_drivers

    facts = boundary.decode_json_object(content, "facts")
    return plan_drivers(
        HostFacts.from_json(facts), RequestedSoftware.from_json(facts.get("wanted"))
    ).as_json()


def host_facts() -> list[bytes]:
    ubuntu = HOST | {"os": {"id": "ubuntu", "version_id": "24.04"}, "kernel": "6.8.0-55-generic"}
    amd = {"address": "0000:02:00.0", "vendor": "1002", "device": "74a1", "class": "120000"}
    requested = {
        "driver": {"vendor": "nvidia", "branch": "550", "module": "open"},
        "cuda": "12.4",
        "mig": "all-1g.5gb",
    }
    return [
        json.dumps(facts).encode()
        for facts in (HOST | {"wanted": requested}, ubuntu, ubuntu | {"pci": [amd]})
    ]


def run_probe(content: bytes) -> object:
    from gpufleet.nodes.identity import normalize_serial
    from gpufleet.remote.facts import parse_probe_answer

    facts = parse_probe_answer(content.decode("utf-8", "replace"))
    return facts, normalize_serial(facts.serial)


def run_record(path: Path) -> object:
    from gpufleet.remote.run_record import read_run_record

    return read_run_record(path.parent)


def run_records() -> list[bytes]:
    record = {
        "play": "site", "limit": "", "burn_in": "quick", "check": False, "extra_vars": ["a"], "hosts": ["b1", "b2"],
        "done": ["b1"],
    }  # fmt: skip
    return [json.dumps(record).encode()]


def run_listing(content: bytes) -> object:
    from gpufleet.remote import plan

    text = content.decode("utf-8", "replace")
    entries = (
        plan.parse_listed_hosts(text),
        plan.parse_listed_tasks(text),
        plan.parse_listed_plays(text),
    )
    return entries, plan.find_inventory_error(text), plan.find_ansible_error(text)


def run_limit(content: bytes) -> object:
    from gpufleet.remote import parse_host_pattern, plan

    pattern = parse_host_pattern(content.decode("utf-8", "replace"))
    return len(pattern.ansible_limit), plan.find_unknown_host_patterns(pattern.text, pattern)


def run_faults(path: Path) -> object:
    from gpufleet.rehearsal.rack.faults import load_faults

    return load_faults(path)


FAULTS = b"""faults:
  blades-1/1: [unreachable]
  blades-1/2: apt_locked=20
arm64: [blades-1/3]
disks: {blades-1/4: 2}
systems: {blades-1/4: debian-13}
"""


def run_yaml(content: bytes) -> object:
    from gpufleet import boundary

    text = boundary.decode_text(content, "file")
    return boundary.decode_yaml(text, "file"), boundary.decode_yaml_with_line_numbers(text, "file")


def run_csv(content: bytes) -> object:
    from gpufleet import boundary

    return boundary.decode_csv(boundary.decode_text(content, "file"), "file", required_columns=("cloud",))


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("preview", "json", previews, run_preview),
        Target("priced preview", "json", previews, run_priced_preview),
        Target("state", "json", states, run_state),
        Target("event log", "json lines", event_logs, run_events),
        Target("program answer", "json", program_answers, run_program_answer),
        Target("commitments", "yaml", commitments, in_file("commitments.yaml", run_commitments)),
        Target("policy", "yaml", lambda: [POLICY], in_file("policy.yaml", run_policy)),
        Target("usage", "yaml", lambda: [USAGE], in_file("usage.yaml", run_usage)),
        Target("bill export", "csv", lambda: list(BILL_EXPORTS), in_file("bill.csv", run_bill_export)),
        Target(
            "google bill export",
            "json lines",
            lambda: [GOOGLE_EXPORT],
            in_file("bill.jsonl", run_bill_export),
        ),
        Target("parquet lines", "json lines", parquet_lines, run_parquet_lines),
        Target(
            "project list", "yaml", lambda: [PROJECTS], in_file("projects/gpufleet-cost.yaml", run_projects)
        ),
        Target("cost difference", "json", cost_differences, in_file("diff.json", run_cost_difference)),
        Target(
            "server answer",
            "json",
            lambda: [b'{"message": "no", "errors": [{"message": "b"}]}'],
            run_server_answer,
        ),
        Target(
            "model config", "json", lambda: [dump(LLAMA), dump(MIXTURE)], in_file("m/config.json", run_config)
        ),
        Target("gguf header", "bytes", ggufs, in_file("model.gguf", run_gguf)),
        Target(
            "price csv",
            "csv",
            lambda: price_rows("catalog/prices/*.csv"),
            in_file("aws.csv", run_price_import),
        ),
        Target("price json", "json", price_dump, in_file("aws.json", run_price_import)),
        Target("price archive", "bytes", price_archives, in_file("aws.zip", run_price_import)),
        Target(
            "price page",
            "json",
            lambda: [b'{"Items": [{"a": 1}]}', b'{"error": {"message": "no"}}'],
            run_price_page,
        ),
        Target("rack", "yaml", racks, in_file("rack.yaml", run_rack)),
        Target(
            "compose file",
            "yaml",
            lambda: container_files("*/compose.yaml"),
            in_file("compose.yaml", run_container_file),
        ),
        Target(
            "quadlet",
            "bytes",
            lambda: container_files("*.container"),
            in_file("a.container", run_container_file),
        ),
        Target("stack", "yaml", stacks, in_file("Pulumi.dev.yaml", run_stack)),
        Target("node drives", "json", lambda: parts_of("nodes/wipe/*.json", "seen"), run_drives),
        Target("wipe evidence", "json", lambda: [dump(EVIDENCE)], run_evidence),
        Target("burn-in records", "json lines", lambda: files("burnin/recorded/*.jsonl"), run_judge),
        Target("burn-in pages", "json lines", lambda: files("burnin/recorded/*.jsonl"), run_burnin_pages),
        Target("parts of records", "json lines", lambda: files("burnin/recorded/*.jsonl"), run_parts),
        Target("passport", "json", passports, run_passport),
        Target(
            "bug report", "bytes", lambda: files("burnin/recorded/dmesg/*"), in_file("r.log", run_bug_report)
        ),
        Target("threshold overrides", "yaml", lambda: [THRESHOLDS], run_overrides),
        Target("nvidia-smi xml", "bytes", lambda: files("burnin/outputs/*.xml"), run_gpu_report),
        Target("packed gpu report", "json", packed_reports, run_packed_report),
        Target("address book", "json", address_books, in_file("book.json", run_address_book)),
        Target("mig", "yaml", migs, run_mig),
        Target("driver facts", "json", host_facts, run_host_facts),
        Target("ssh probe", "bytes", lambda: files("remote/probe-*.txt"), run_probe),
        Target("runner event", "json", runner_events, in_file("1/job_events/5-a.json", run_events_of_a_run)),
        Target("run record", "json", run_records, in_file("run/run.json", run_record)),
        Target("ansible listing", "bytes", lambda: files("remote/site-list.txt"), run_listing),
        Target(
            "host pattern",
            "bytes",
            lambda: [b"blade[01-20],!new[3,5-6],&rack-[1-2]-n[1-4],new_blades[0:2]"],
            run_limit,
        ),
        Target("rehearsal faults", "yaml", lambda: [FAULTS], in_file("faults.yaml", run_faults)),
        Target("yaml", "yaml", lambda: [POLICY, USAGE, STACK], run_yaml),
        Target("csv", "csv", lambda: price_rows("catalog/prices/plain.csv"), run_csv),
    )
}


def dump(value: object) -> bytes:
    return json.dumps(value).encode()
