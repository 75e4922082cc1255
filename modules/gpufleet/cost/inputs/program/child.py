"""The child of ``evaluation``: run Pulumi programs under mocks and record their resources.

Run as a script: the first line of standard input says which SDKs to import, the second line has the jobs. Each job
runs in a fork that ``sandbox`` confines before any code or file of its project is read. It imports nothing of gpufleet,
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
import re
import runpy
import subprocess
import sys
from contextlib import suppress
from functools import cache, partial
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
PROVIDER_VARIABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "aws": {"region": ("AWS_REGION", "AWS_DEFAULT_REGION")},
    "gcp": {
        "region": ("GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION"),
        "zone": ("GOOGLE_ZONE", "GCLOUD_ZONE", "CLOUDSDK_COMPUTE_ZONE"),
    },
    "azure-native": {"location": ("ARM_LOCATION",)},
}
WITHOUT_ENGINE = "GPUFLEET_WITHOUT_ENGINE"  # tells gpufleet's components that nothing is built
PYTHON = "python"
MARKED_SECRET = "[secret]"  # noqa: S105 - what stands for a secret, which needs a passphrase to read
MAX_LISTED_STACKS = 10  # in an error
# The SDKs' errors: Python and Go, Node, this interpreter of YAML.
MISSING_SETTING = re.compile(r"""[Mm]issing required configuration variable:? ['"]?([\w.:-]+)""")
REFERENCES_FILE = "gpufleet-lookups.yaml"  # values that only a cloud or another stack knows
LOOKUP_KEYS = {"token", "args", "result"}
PROJECT_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")  # the engine's rule
Job = dict[str, Any]


class InputError(Exception):
    """An error that this script finds itself; it is reported like gpufleet's InputError."""

    def __init__(self, problem: str, where: Path | str, key: str = "", remedy: str = "") -> None:
        super().__init__(problem)
        self.problem, self.where, self.key, self.remedy = problem, where, key, remedy


def main() -> None:
    """Import once, then evaluate each job confined; or, as a job's own Python, the one that was given."""
    own_folder = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != own_folder]  # our files are not the program's modules
    if len(sys.argv) > 1:
        job: Job = json.loads(sys.argv[1])
        if job["is_lazy"]:
            load_sibling_module("lazy_sdk").install()
        evaluate_and_write_result(job)
        return
    sandbox = load_sibling_module("sandbox")
    imports: dict[str, Any] = json.loads(sys.stdin.readline())
    if imports["is_lazy"]:
        load_sibling_module("lazy_sdk").install()
    gc.disable()  # the SDKs make a million long-lived objects; collecting among them takes a third of the time
    if imports["clouds"] is not None:
        import_cloud_sdks(imports["clouds"])
    gc.freeze()
    jobs: list[Job] = json.loads(sys.stdin.readline() or "[]")  # no line: the parent has ended
    start = sandbox.start_sandboxed_call
    supervisors = [start(job["bounds"], partial(run_evaluation_job, job), report_confinement) for job in jobs]
    null = os.open(os.devnull, os.O_RDWR)
    for job in jobs:  # only the confined processes keep them
        os.dup2(null, job["output"])
        os.dup2(null, job["result"])
    for supervisor in supervisors:
        os.waitpid(supervisor, 0)


def load_sibling_module(name: str) -> Any:
    """Load a module or a package of this folder by its file, because the folder is not on the path."""
    path = Path(__file__).with_name(name)
    file, folder = (path / "__init__.py", [str(path)]) if path.is_dir() else (path.with_suffix(".py"), None)
    load: Any = partial(importlib.util.spec_from_file_location, submodule_search_locations=folder)
    spec = load(f"gpufleet_{name}", file)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report_confinement(report: dict[str, Any]) -> None:
    """Write to the parent whether a job is confined, as one line."""
    os.write(1, f"{json.dumps(report)}\n".encode())


def import_cloud_sdks(clouds: list[str]) -> None:
    """Import the SDKs of clouds. This process is not confined, so it reads nothing of a project."""
    import pulumi.runtime  # noqa: F401 - every program needs it

    for cloud in SDKS.keys() & set(clouds):
        for module, name in SDKS[cloud]:
            try:
                getattr(importlib.import_module(module), name)
            except (ImportError, AttributeError):
                continue  # the program reports it if it needs it


def run_evaluation_job(job: Job) -> None:
    """Evaluate a job in this confined process, or in the Python of the project's virtual environment."""
    null = os.open(os.devnull, os.O_RDONLY)
    for source, descriptor in ((null, 0), (job["output"], 1), (job["output"], 2), (job["result"], 3)):
        os.dup2(source, descriptor)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    if job.get("command"):
        run_command(job)
        return
    job["bounds"].pop("project", None)  # the job is an argument of what may run next
    if not job["bounds"]["trusted"]:
        folder = job["bounds"]["folder"]
        os.environ.update(HOME=f"{folder}/home", TMPDIR=f"{folder}/tmp")  # noqa: S108 - its own
    if job["python"]:
        os.execv(job["python"], [job["python"], __file__, json.dumps(job)])  # noqa: S606 - no shell is meant
    evaluate_and_write_result(job)


def run_command(job: Job) -> None:
    """Run the command of a job, such as a build, and write its exit code to descriptor 3."""
    completed = subprocess.run(
        job["command"], cwd=job["folder"], env=job["variables"], stdin=subprocess.DEVNULL, check=False
    )
    os.write(3, f"{completed.returncode}\n".encode())


def evaluate_and_write_result(job: Job) -> None:
    """Evaluate a job, and write its records or its error to descriptor 3, after a line that says that it starts."""
    os.write(3, b"\n")
    failure = load_sibling_module("failure")
    document: dict[str, Any]
    try:
        document = {"resources": evaluate_job(job)}
    except BaseException as error:  # noqa: BLE001 - any exception is reported to the parent
        if type(error).__name__ == "ProgramEndedError":
            return
        if job["is_lazy"] and failure.read_input_error_parts(error) is None:
            repeat_with_whole_sdks(job)
        error = explain_missing_setting(error, job)
        document = {"error": failure.describe_error(error, job, is_input_error=isinstance(error, InputError))}
    with open(3, "w", encoding="utf-8") as result:
        json.dump(document, result)
    sys.stdout.flush()


def explain_missing_setting(error: BaseException, job: Job) -> BaseException:
    """Return an error that says where a missing setting may come from: an environment of Pulumi ESC."""
    match = MISSING_SETTING.search(str(error))
    with suppress(Exception):  # the first error stands where the stack's file cannot be read
        path = find_stack_file(job)
        if match and read_settings_file(path).get("environment"):
            problem = "the program needs it, and Pulumi ESC is not asked here"
            remedy = "give a stack's file with the value: --config-file"
            return InputError(problem, find_line(path, "environment"), match[1], remedy)
    return error


def repeat_with_whole_sdks(job: Job) -> None:
    """Start this process again, confined as it is, without lazy imports: they may be why the program failed."""
    sys.stdout.flush()
    python = job["python"] or sys.executable
    os.execv(python, [python, __file__, json.dumps({**job, "is_lazy": False})])  # noqa: S606 - no shell is meant


def evaluate_job(job: Job) -> list[dict[str, Any]]:
    """Run the program of one job, and return the records of its resources."""
    if job["may_be_absent"] and not is_stack_declared(job):
        return []
    runtime = read_runtime(job)
    os.environ[WITHOUT_ENGINE] = "1"
    configuration, secret_keys = read_stack_configuration(job)
    name = read_project_name(job)
    monitor = load_sibling_module("monitor")
    values = read_values_file(job)
    monitor.ANSWERS[:] = read_lookup_answers(job, values)
    job["unanswered_lookups"] = monitor.UNANSWERED
    recorder = monitor.RecordingMonitor(name, job["stack"], read_provider_settings(job))
    recorder.stack_outputs = read_stack_reference_outputs(job, values)
    monitor.install_mock_monitor(recorder, name, job["stack"])
    if runtime == PYTHON:
        load_sibling_module("transform").install_transforms(recorder)
        program = run_python_program(job, configuration, secret_keys)
    else:
        program = run_language_program(job, runtime, recorder, configuration, secret_keys)
    for urn, place in recorder.duplicates:
        problem = f"Duplicate resource URN {urn!r}: the engine refuses a second resource with this name"
        raise InputError(problem, place or program, remedy="give each resource its own name")
    records: list[dict[str, Any]] = list(recorder.records.values())
    return records


def read_values_file(job: Job) -> dict[str, Any]:
    """Return the project's file of values that only a cloud or another stack knows; empty without it."""
    path = Path(job["root"]) / REFERENCES_FILE
    refuse_link_to_nowhere(job, path)
    return read_settings_file(path) if path.is_file() else {}


def read_lookup_answers(job: Job, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the project's file of values answers look-ups with."""
    path, answers = Path(job["root"]) / REFERENCES_FILE, values.get("lookups") or []
    remedy = "give a list of {token: PACKAGE:MODULE/FUNCTION:FUNCTION, args: {...}, result: {...}}"
    if not isinstance(answers, list):
        raise InputError("is not a list of look-ups", path, "lookups", remedy)
    for each in answers:
        parts = each if isinstance(each, dict) else {}
        is_named = isinstance(parts.get("token"), str) and isinstance(parts.get("result"), dict)
        if not is_named or not isinstance(parts.get("args") or {}, dict) or parts.keys() - LOOKUP_KEYS:
            raise InputError(f"{each!r} is not a look-up", path, "lookups", remedy)
    return answers


def run_python_program(job: Job, configuration: dict[str, str], secret_keys: list[str]) -> Path:
    """Run a Python program in this process, and return its file."""
    from pulumi.runtime import set_all_config
    from pulumi.runtime.stack import run_in_stack

    program = enter_program_folder(job)
    redirect_editable_installs(job)
    set_all_config(configuration, secret_keys)
    asyncio.run(
        run_in_stack(lambda: discard_program_globals(runpy.run_path(str(program), run_name="__main__")))
    )
    return program


def run_language_program(
    job: Job, runtime: str, recorder: Any, configuration: dict[str, str], secret_keys: list[str]
) -> Path:
    """Run a program of another language in its own process, and return its folder."""
    language = load_sibling_module("language")
    program = language.LanguageProgram(
        root=Path(job["root"]),
        project=recorder.name,
        stack=job["stack"],
        main=read_project_folder(job, "main"),
        options=read_runtime_options(job),
        configuration=configuration,
        secret_keys=secret_keys,
        tools=job["tools"],
    )
    language.evaluate_program(runtime, program, recorder, read_settings_file)
    return Path(job["root"])


def read_runtime(job: Job) -> str:
    """Return the language of a program; refuse one that only the engine can run."""
    runtime_setting = read_project_file(job).get("runtime", PYTHON)
    runtime = runtime_setting.get("name") if isinstance(runtime_setting, dict) else runtime_setting
    path = Path(job["root"]) / "Pulumi.yaml"
    if not isinstance(runtime, str):
        raise InputError("names no language", find_line(path, "runtime"), "runtime", "give python")
    if runtime != PYTHON and runtime not in load_sibling_module("language").LANGUAGES:
        problem = f"the program is in {runtime}, which is not evaluated without an engine: use --preview"
        raise InputError(problem, path)
    return runtime


def read_runtime_options(job: Job) -> dict[str, Any]:
    """Return the options of ``runtime`` in Pulumi.yaml."""
    runtime_setting = read_project_file(job).get("runtime")
    options = runtime_setting.get("options") if isinstance(runtime_setting, dict) else None
    return options if isinstance(options, dict) else {}


def read_project_name(job: Job) -> str:
    """Return the project's name; the engine refuses a project without one."""
    name = read_project_file(job).get("name")
    if not isinstance(name, str) or not PROJECT_NAME.fullmatch(name):
        problem = "is missing" if name is None else f"{name!r} is not a project's name"
        remedy = "give letters, digits, hyphens, underscores and periods, as the engine requires"
        raise InputError(problem, Path(job["root"]) / "Pulumi.yaml", "name", remedy)
    return name


def discard_program_globals(_: object) -> None:
    """Discard a program's globals: run_in_stack expects None."""


def enter_program_folder(job: Job) -> Path:
    """Change to the program's folder, put the project's packages first on the path, and return the program's file.

    ``main`` of Pulumi.yaml is a folder with ``__main__.py``, or the file itself.
    """
    root = Path(job["root"])
    main = root / read_project_folder(job, "main")
    program = main if main.is_file() else main / "__main__.py"
    if not program.is_file():
        refuse_link_to_nowhere(job, program)
        remedy = "write the Pulumi program there, or set main in Pulumi.yaml"
        raise InputError("not found", program, remedy=remedy)
    os.chdir(program.parent)
    sys.path[:0] = [str(program.parent), str(root / "modules")]
    sys.dont_write_bytecode = job["may_be_absent"] or not job["bounds"]["trusted"]
    importlib.invalidate_caches()
    return program


def redirect_editable_installs(job: Job) -> None:
    """Import packages that are installed as editable from the repository as they are at the job's commit.

    Only where that commit is not shown in the repository's place: unconfined.
    """
    if not job["moved"]:
        return
    old, new = job["moved"]

    def move(path: Any) -> str:
        text = str(path)
        return new + text.removeprefix(old) if f"{text}/".startswith(f"{old}/") else text

    sys.path[:] = [move(path) for path in sys.path]
    for finder in sys.meta_path:  # what setuptools writes for a project whose folder is not on the path
        mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(mapping, dict):
            mapping.update({name: move(path) for name, path in mapping.items()})


def read_project_file(job: Job) -> dict[str, Any]:
    """Return Pulumi.yaml. The engine (3.258.0) takes the first of a folder's project files: a Pulumi.json before it."""
    path = Path(job["root"]) / "Pulumi.yaml"
    other = path.with_suffix(".json")
    if os.path.lexists(other):
        raise InputError(
            "is read by the engine in place of Pulumi.yaml", other, remedy="keep Pulumi.yaml alone"
        )
    refuse_link_to_nowhere(job, path)
    return read_settings_file(path) if path.is_file() else {}


def refuse_link_to_nowhere(job: Job, path: Path) -> None:
    """Refuse a path through a link of the project that finds nothing: no file outside of the project is shown."""
    for place in () if path.exists() else (path, *path.parents):
        if place.is_symlink() and place.is_relative_to(job["root"]):
            problem = "is a symbolic link, and links are not followed out of the project's files"
            raise InputError(problem, place, remedy="put the file itself there")


def find_stack_file(job: Job) -> Path:
    """Return the stack's file: the given one, else the project's."""
    if job["config_file"]:
        return Path(job["config_file"])
    return Path(job["root"]) / read_project_folder(job, "stackConfigDir") / f"Pulumi.{job['stack']}.yaml"


def read_project_folder(job: Job, key: str) -> str:
    """Return a folder that the project's file names, the project's own by default."""
    folder = read_project_file(job).get(key)
    if folder is None and key == "stackConfigDir":  # its old name, where that is no mapping of settings
        old = read_project_file(job).get("config")
        folder = old if isinstance(old, str) else None
    if folder is not None and not isinstance(folder, str):
        path, remedy = Path(job["root"]) / "Pulumi.yaml", "give a folder of the project"
        raise InputError(f"{folder!r} is not a text", find_line(path, key), key, remedy)
    return folder or "."


@cache
def read_settings_file(path: Path) -> dict[str, Any]:
    """Return a YAML file of settings; what is wrong is an error with its line."""
    try:
        text = path.read_text(encoding="utf-8")
        document = parse_yaml(text)
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", path) from None
    except Exception as error:
        mark = getattr(error, "problem_mark", None)
        if mark is None:
            raise
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(f"is not YAML: {problem}", f"{path}:{mark.line + 1}") from error
    if not isinstance(document, dict):
        remedy = "for example config: {aws:region: us-east-1}"
        raise InputError("must be a mapping of keys", f"{path}:1", remedy=remedy)
    return document


def parse_yaml(text: str) -> Any:
    """Return a YAML text as plain values."""
    try:
        from ruamel.yaml import YAML
    except ImportError:  # another virtual environment has at least Pulumi's own reader
        import yaml

        return yaml.safe_load(text) or {}
    return YAML(typ="safe", pure=True).load(text) or {}


def find_line(path: Path, key: str) -> str:
    """Return a file with the line of a key, without the line if the key is not at a line's start."""
    pattern = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*:""")
    lines = path.read_text(encoding="utf-8").splitlines()
    places = (f"{path}:{number}" for number, line in enumerate(lines, 1) if pattern.match(line))
    return next(places, str(path))


def is_stack_declared(job: Job) -> bool:
    """Return whether a stack exists: it has a file, or no stack of the project has one."""
    path = find_stack_file(job)
    if not (Path(job["root"]) / "Pulumi.yaml").is_file():
        return False
    return path.is_file() or (not job["config_file"] and not any(path.parent.glob("Pulumi.*.yaml")))


def read_stack_configuration(job: Job) -> tuple[dict[str, str], list[str]]:
    """Return the stack's configuration as the engine passes it: text, objects as JSON."""
    refuse_link_to_nowhere(job, find_stack_file(job))
    if job["config_file"] and not find_stack_file(job).is_file():
        raise InputError("file not found", find_stack_file(job), remedy="give the path of a stack's file")
    if not (Path(job["root"]) / "Pulumi.yaml").is_file():
        raise InputError("not found", Path(job["root"]) / "Pulumi.yaml", remedy="write the project's file")
    if not is_stack_declared(job):
        path = find_stack_file(job)
        stacks = sorted(file.stem.partition(".")[2] for file in path.parent.glob("Pulumi.*.yaml"))
        remedy = f"stacks here: {', '.join(stacks[:MAX_LISTED_STACKS])}" if stacks else ""
        raise InputError(f"stack {job['stack']!r} not found", path, remedy=remedy)
    values = read_stack_settings(job)
    secrets = [key for key, value in values.items() if is_encrypted_setting(value)]
    return {key: format_setting(value) for key, value in values.items()}, secrets


def read_stack_settings(job: Job) -> dict[str, Any]:
    """Return the project's defaults with the stack's settings over them; keys carry their namespace."""
    path, project_file = find_stack_file(job), read_project_file(job)
    namespace = str(project_file.get("name", "project"))
    values: dict[str, Any] = {}
    if isinstance(project_file.get("config"), str):  # an old name of stackConfigDir
        project_file = {}
    project_settings = read_config_section(Path(job["root"]) / "Pulumi.yaml", project_file)
    for key, declared_value in project_settings.items():
        default = (
            declared_value.get("value", declared_value.get("default"))
            if isinstance(declared_value, dict)
            else declared_value
        )
        if default is not None:
            values[qualify_setting_key(key, namespace)] = default
    document = read_settings_file(path) if path.is_file() else {}
    stack_settings = {**read_inline_environment(document), **read_config_section(path, document)}
    require_text_regions(path, stack_settings)
    return values | {qualify_setting_key(key, namespace): value for key, value in stack_settings.items()}


def read_inline_environment(document: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a stack's file itself writes for Pulumi ESC, as far as they are plain values.

    What it imports, and what its functions give (``fn::open``), is a service's: it stays unknown.
    """
    environment = document.get("environment")
    values = environment.get("values") if isinstance(environment, dict) else None
    settings = values.get("pulumiConfig") if isinstance(values, dict) else None
    plain = settings.items() if isinstance(settings, dict) else ()
    return {
        str(key): value
        for key, value in plain
        if not any(mark in json.dumps(value, default=str) for mark in ("fn::", "${"))
    }


def read_stack_reference_outputs(job: Job, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the outputs of other stacks by name, from the project's file of values."""
    path, stacks = Path(job["root"]) / REFERENCES_FILE, values.get("stackReferences") or {}
    if not isinstance(stacks, dict) or not all(isinstance(outputs, dict) for outputs in stacks.values()):
        remedy = "give the outputs of each stack: {organization/project/stack: {name: value}}"
        raise InputError(
            "is not a mapping of stacks", find_line(path, "stackReferences"), "stackReferences", remedy
        )
    return {str(name): outputs for name, outputs in stacks.items()}


def read_config_section(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Return the section ``config`` of a file; anything but a mapping is an error with its line."""
    section = document.get("config") or {}
    if not isinstance(section, dict):
        remedy = "for example config: {aws:region: us-east-1}"
        raise InputError("must be a mapping of settings", find_line(path, "config"), "config", remedy)
    return {str(key): value for key, value in section.items()}


def require_text_regions(path: Path, settings: dict[str, Any]) -> None:
    """Refuse a region, zone or location that is not a text."""
    for key in (f"{package}:{name}" for package, names in PROVIDER_VARIABLES.items() for name in names):
        value = settings.get(key, "")
        if not isinstance(value, str) and not is_encrypted_setting(value):
            problem = "is empty" if value is None else f"{value!r} is not a text"
            raise InputError(problem, find_line(path, key), key, "give a region, for example us-east-1")


def qualify_setting_key(key: str, namespace: str) -> str:
    """Return a setting's key with its namespace; one without is the project's own."""
    return key if ":" in key else f"{namespace}:{key}"


def read_provider_settings(job: Job) -> dict[str, dict[str, str]]:
    """Return the settings of each default provider, such as ``aws:region``, from stack and environment."""
    settings_by_package: dict[str, dict[str, str]] = {}
    for package, variables in PROVIDER_VARIABLES.items():
        for name, names in variables.items():
            value = next((os.environ[each] for each in names if os.environ.get(each)), None)
            if value:
                settings_by_package.setdefault(package, {})[name] = value
    for key, value in read_stack_settings(job).items():
        package, _, name = key.partition(":")
        if not is_encrypted_setting(value):
            settings_by_package.setdefault(package, {})[name] = format_setting(value)
    return settings_by_package


def format_setting(value: Any) -> str:
    """Return one setting as text; a YAML date is written as in the file."""
    plain = mask_secrets(value)
    return plain if isinstance(plain, str) else json.dumps(plain, default=str)


def mask_secrets(value: Any) -> Any:
    """Replace every secret by a mark."""
    if is_encrypted_setting(value):
        return MARKED_SECRET
    if isinstance(value, dict):
        return {key: mask_secrets(item) for key, item in value.items()}
    return [mask_secrets(item) for item in value] if isinstance(value, list) else value


def is_encrypted_setting(value: Any) -> bool:
    """Return whether a setting is encrypted."""
    return isinstance(value, dict) and set(value) == {"secure"}


if __name__ == "__main__":
    main()
