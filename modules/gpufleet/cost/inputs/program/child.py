"""The child of ``evaluation``: runs Pulumi programs under mocks and writes down what they register.

Run as a script: the jobs are the first line of standard input, the word to run them is the second. Each job runs
in a fork that ``sandbox`` confines before any code or file of its project is read. It imports nothing of gpufleet,
so that each fork takes the package that its own project brings. The project may be anybody's: one whose virtual
environment is not this Python's gets its own Python, inside, with the job as the argument.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import json
import os
import runpy
import sys
from functools import partial
from pathlib import Path
from typing import Any

# What programs of each cloud import, and the name whose access makes the SDK load it.
SDKS = {
    "aws": (("pulumi_aws.ec2", "Instance"), ("pulumi_aws.autoscaling", "Group")),
    "gcp": (("pulumi_gcp.compute", "Instance"),),
    "azure": (
        ("pulumi_azure_native.compute", "VirtualMachine"),
        ("pulumi_azure_native.network", "VirtualNetwork"),
        ("pulumi_azure_native.resources", "ResourceGroup"),
    ),
}
# The variables that tell the providers where to work, where the configuration does not.
PLACES: dict[str, dict[str, tuple[str, ...]]] = {
    "aws": {"region": ("AWS_REGION", "AWS_DEFAULT_REGION")},
    "gcp": {
        "region": ("GOOGLE_REGION", "CLOUDSDK_COMPUTE_REGION"),
        "zone": ("GOOGLE_ZONE", "CLOUDSDK_COMPUTE_ZONE"),
    },
    "azure-native": {"location": ("ARM_LOCATION",)},
}
GO = "go"
STACK = "pulumi:pulumi:Stack"  # the one type that the engine leaves out of its children's URNs
LOOKUPS = Path(__file__).parent / "data" / "lookups.json"
MARKED_SECRET = "[secret]"  # noqa: S105 - what stands for a secret, which needs a passphrase to read
Job = dict[str, Any]


class InputError(Exception):
    """The one mistake that this script finds itself; it is told as gpufleet's own are."""

    def __init__(self, problem: str, where: Path) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where


def main() -> None:
    """Import once, then evaluate each job confined; or, as a job's own Python, the one that was given."""
    here = str(Path(__file__).parent)
    sys.path[:] = [place for place in sys.path if place != here]  # our files are no modules of the program's
    if len(sys.argv) > 1:
        answer(json.loads(sys.argv[1]))
        return
    sandbox = load_module("sandbox")
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    gc.disable()  # the SDKs make a million long-lived objects; collecting among them takes a third of the time
    if order["clouds"] is not None:
        preload(order["clouds"])
    gc.freeze()
    if sys.stdin.readline().strip() != GO:
        return  # the parent has found a mistake meanwhile
    jobs: list[Job] = order["jobs"]
    supervisors = [sandbox.start(job["bounds"], partial(perform, job), report) for job in jobs]
    null = os.open(os.devnull, os.O_RDWR)
    for job in jobs:  # so that only the confined hold them
        os.dup2(null, job["output"])
        os.dup2(null, job["result"])
    for supervisor in supervisors:
        os.waitpid(supervisor, 0)


def load_module(name: str) -> Any:
    """Return a module of this folder, which no name on the path reaches."""
    place = Path(__file__).with_name(f"{name}.py")
    spec: Any = importlib.util.spec_from_file_location(f"gpufleet_{name}", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(missing: list[str]) -> None:
    """Write what could not be confined to the parent, as one line."""
    os.write(1, f"{json.dumps(missing)}\n".encode())


def preload(clouds: list[str]) -> None:
    """Import the SDKs of clouds; nothing of a project is read or run here, where nothing is confined yet."""
    import pulumi.runtime  # noqa: F401 - every program needs it

    for cloud in SDKS.keys() & set(clouds):
        for module, name in SDKS[cloud]:
            try:
                getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError):
                continue  # then the program, if it needs it, says so


def perform(job: Job) -> None:
    """Evaluate a job in this confined process, or in the Python of the project's virtual environment."""
    null = os.open(os.devnull, os.O_RDONLY)
    for source, descriptor in ((null, 0), (job["output"], 1), (job["output"], 2), (job["result"], 3)):
        os.dup2(source, descriptor)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    if not job["bounds"]["trusted"]:
        folder = job["bounds"]["folder"]
        os.environ.update(HOME=f"{folder}/home", TMPDIR=f"{folder}/tmp")  # noqa: S108 - its own
    if job["python"]:
        os.execv(job["python"], [job["python"], __file__, json.dumps(job)])  # noqa: S606 - no shell is meant
    answer(job)


def answer(job: Job) -> None:
    """Evaluate a job, and write its records or its error to descriptor 3."""
    failure = load_module("failure")
    found: dict[str, Any]
    try:
        found = {"resources": evaluate(job)}
    except BaseException as error:  # noqa: BLE001 - whatever a program raises is told to the parent
        found = {"error": failure.describe(error, job, is_ours=isinstance(error, InputError))}
    with open(3, "w", encoding="utf-8") as result:
        json.dump(found, result)
    sys.stdout.flush()


def evaluate(job: Job) -> list[dict[str, Any]]:
    """Run the program of one job, and return the records of its resources."""
    if job["may_be_absent"] and not is_declared(job):
        return []
    check_runtime(job)
    from pulumi.runtime import set_all_config
    from pulumi.runtime.stack import run_in_stack

    folder = enter(job)
    set_all_config(*configuration(job))
    name = str(project(job).get("name", "project"))
    recorder = make_recorder(name, job["stack"], provider_settings(job))
    be_the_engine(recorder, name, job["stack"])
    asyncio.run(run_in_stack(lambda: void(runpy.run_path(str(folder / "__main__.py"), run_name="__main__"))))
    records: list[dict[str, Any]] = list(recorder.records.values())
    return records


def check_runtime(job: Job) -> None:
    """Refuse a program in another language: only the engine can run that."""
    said = project(job).get("runtime", "python")
    runtime = said.get("name") if isinstance(said, dict) else said
    if runtime != "python":
        problem = f"the program is in {runtime}; only Python is evaluated without an engine: use --preview"
        raise InputError(problem, Path(job["root"]) / "Pulumi.yaml")


def be_the_engine(monitor: Any, name: str, stack: str) -> None:
    """Put a monitor in the engine's place; ``set_mocks`` would add a stack resource of its own."""
    from pulumi.runtime import mocks
    from pulumi.runtime.settings import configure

    settings: Any = mocks.MockSettings
    features = set(monitor.GetDeploymentInfo(None).supportedFeatures)
    told = {"project": name, "stack": stack, "dry_run": True, "organization": None}
    configure(settings(monitor=monitor, monitor_features=features, engine=mocks.MockEngine(None), **told))


def void(_: object) -> None:
    """Drop a program's globals: only None says that it has run."""


def enter(job: Job) -> Path:
    """Go where the engine would run the program, with the project's own packages first on the path."""
    root = Path(job["root"])
    folder = root / str(project(job).get("main", "."))
    os.chdir(folder)
    sys.path[:0] = [str(folder), str(root / "modules")]
    sys.dont_write_bytecode = job["may_be_absent"] or not job["bounds"]["trusted"]
    importlib.invalidate_caches()
    return folder


def project(job: Job) -> dict[str, Any]:
    """Return Pulumi.yaml."""
    path = Path(job["root"]) / "Pulumi.yaml"
    return read_yaml(path) if path.is_file() else {}


def stack_file(job: Job) -> Path:
    """Return the stack's file: the one asked for, else where the project keeps it."""
    if job["config_file"]:
        return Path(job["config_file"])
    folder = str(project(job).get("stackConfigDir", "."))
    return Path(job["root"]) / folder / f"Pulumi.{job['stack']}.yaml"


def read_yaml(path: Path) -> Any:
    """Return a YAML file as plain values."""
    text = path.read_text(encoding="utf-8")
    try:
        from ruamel.yaml import YAML
    except ImportError:  # in a virtual environment that is not ours there is Pulumi's own reader
        import yaml

        return yaml.safe_load(text) or {}
    return YAML(typ="safe", pure=True).load(text) or {}


def is_declared(job: Job) -> bool:
    """Tell whether a stack is there: it has a file, or is in a project where no stack has one."""
    path = stack_file(job)
    if not (Path(job["root"]) / "Pulumi.yaml").is_file():
        return False
    return path.is_file() or (not job["config_file"] and not any(path.parent.glob("Pulumi.*.yaml")))


def configuration(job: Job) -> tuple[dict[str, str], list[str]]:
    """Return the stack's configuration as the engine hands it over: text, objects as JSON."""
    if not is_declared(job):
        raise InputError(f"no stack {job['stack']!r}", stack_file(job))
    values = settings(job)
    secrets = [key for key, value in values.items() if is_secret(value)]
    return {key: as_text(value) for key, value in values.items()}, secrets


def settings(job: Job) -> dict[str, Any]:
    """Return the project's defaults with the stack's settings over them; keys carry their namespace."""
    path, whole = stack_file(job), project(job)
    namespace = str(whole.get("name", "project"))
    found: dict[str, Any] = {}
    for key, said in (whole.get("config") or {}).items():
        default = said.get("value", said.get("default")) if isinstance(said, dict) else said
        if default is not None:
            found[qualified(key, namespace)] = default
    stacks: dict[str, Any] = (read_yaml(path).get("config") or {}) if path.is_file() else {}
    return found | {qualified(key, namespace): value for key, value in stacks.items()}


def qualified(key: str, namespace: str) -> str:
    """Return a setting's key with its namespace; one without is the project's own."""
    return key if ":" in key else f"{namespace}:{key}"


def provider_settings(job: Job) -> dict[str, dict[str, str]]:
    """Return what the stack says to each default provider, such as ``aws:region``; the environment may say it too."""
    found: dict[str, dict[str, str]] = {}
    for package, variables in PLACES.items():
        for name, names in variables.items():
            value = next((os.environ[each] for each in names if os.environ.get(each)), None)
            if value:
                found.setdefault(package, {})[name] = value
    for key, value in settings(job).items():
        package, _, name = key.partition(":")
        if not is_secret(value):
            found.setdefault(package, {})[name] = as_text(value)
    return found


def as_text(value: Any) -> str:
    """Return one setting as text; a date that YAML read as one goes back to how it was written."""
    plain = reveal_nothing(value)
    return plain if isinstance(plain, str) else json.dumps(plain, default=str)


def reveal_nothing(value: Any) -> Any:
    """Put a mark in the place of every secret."""
    if is_secret(value):
        return MARKED_SECRET
    if isinstance(value, dict):
        return {key: reveal_nothing(item) for key, item in value.items()}
    return [reveal_nothing(item) for item in value] if isinstance(value, list) else value


def is_secret(value: Any) -> bool:
    """Tell whether a setting is encrypted."""
    return isinstance(value, dict) and set(value) == {"secure"}


def make_recorder(name: str, stack: str, providers: dict[str, dict[str, str]]) -> Any:
    """Return a mock monitor that answers as the engine does in a preview and keeps what it is told."""
    from google.protobuf import empty_pb2  # type: ignore[import-untyped]  # protobuf ships no types
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # the same
    from pulumi.runtime import mocks
    from pulumi.runtime.proto import provider_pb2, resource_pb2

    region = providers.get("aws", {}).get("region", "us-east-1")

    class Answers(mocks.Mocks):
        """Look-ups that would need the network: they answer with their own arguments and a mark."""

        def call(self, args: mocks.MockCallArgs) -> Any:
            return look_up(args.token, args.args, region)

        def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
            return args.resource_id or "", args.inputs

    class Recorder(mocks.MockMonitor):
        """Keeps each registration as the record that an engine's state would hold."""

        def __init__(self) -> None:
            super().__init__(Answers())
            self.records: dict[str, dict[str, Any]] = {}

        def make_urn(self, parent: str, type_: str, resource: str) -> str:
            """Name both: registrations arrive on threads that do not know the settings."""
            above = parent.split("::")[2] if parent else STACK
            types = type_ if above == STACK else f"{above}${type_}"
            return f"urn:pulumi:{stack}::{name}::{types}::{resource}"

        def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the engine's name
            urn = self.make_urn(request.parent, request.type, request.name)
            if request.type != STACK:
                self.records[urn] = record(urn, request, MessageToDict(request.object))
                self.records[urn]["provider"] = request.provider or self.default_provider(request)
            return resource_pb2.RegisterResourceResponse(urn=urn, id="", object=request.object)

        def default_provider(self, request: Any) -> str:
            """Return the reference to a package's default provider, and keep its record: its region counts."""
            package = request.type.split(":")[0]
            if not request.custom or request.type.startswith("pulumi:"):
                return ""
            urn = self.make_urn("", f"pulumi:providers:{package}", "default")
            told = {"urn": urn, "type": f"pulumi:providers:{package}", "custom": True}
            self.records.setdefault(urn, {**told, "inputs": providers.get(package, {}), "outputs": {}})
            return f"{urn}::default"

        def Call(self, request: Any) -> Any:  # noqa: ARG002, N802 - the engine's name; a remote component's method
            return provider_pb2.CallResponse()

        def ReadResource(self, request: Any) -> Any:  # noqa: N802 - the engine's name
            urn = self.make_urn(request.parent, request.type, request.name)
            return resource_pb2.ReadResourceResponse(urn=urn, properties=request.properties)

        def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the engine's name
            if request.urn in self.records:
                self.records[request.urn]["outputs"] = MessageToDict(request.outputs)
            return empty_pb2.Empty()

    return Recorder()


def record(urn: str, request: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return a registration in the words of a state."""
    return {
        "urn": urn,
        "type": request.type,
        "custom": request.custom,
        "inputs": inputs,
        "outputs": {},
        "parent": request.parent,
        "provider": request.provider,
        "protect": request.protect,
        "retainOnDelete": request.retainOnDelete,
        "remote": request.remote,
        "ignoreChanges": list(request.ignoreChanges),
        "propertyDependencies": {
            name: list(dependencies.urns) for name, dependencies in request.propertyDependencies.items()
        },
    }


def look_up(token: str, arguments: dict[str, Any], region: str) -> dict[str, Any]:
    """Answer an invoke: the arguments, a name for what only the cloud could tell, and the shapes of known ones."""
    answer = {"id": f"<{token}>", "name": f"<{token}>", "value": f"<{token}>", **arguments}
    known = json.loads(LOOKUPS.read_text(encoding="utf-8")).get(token, {})
    where = arguments.get("region") or region
    filled = json.loads(json.dumps(known).replace("{region}", str(where)))
    return {**answer, **{key: value for key, value in filled.items() if key not in arguments}}


if __name__ == "__main__":
    main()
