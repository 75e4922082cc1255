"""What a Terraform provider's Go source says about each property: replaced on change, computed, allowed values.

Pulumi's aws and gcp plugins are built from Terraform's providers, so a change replaces a resource exactly when the
schema there says ``ForceNew``. ``python -m tools.provider_schema --google CHECKOUT`` reads a git
checkout of hashicorp/terraform-provider-google and writes ``data/replacements/gcp.json``.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_KEY = re.compile(r'\s*"(\w+)":\s*(?:&schema\.Schema)?\{')
_SCHEMA = "map[string]*schema.Schema{"
_RESOURCE_SCHEMA = re.compile(r"\n\t\tSchema:\s*map\[string\]\*schema\.Schema\{")  # two tabs: not of a block
_ELEMENT_FUNCTION = re.compile(r"Elem:\s*(\w+)\(\)")
_IAM_SOURCE = "google/tpgiamresource/resource_iam_member.go"
# What the reader above does not see: conditional ForceNew, schemas that a function builds, types of the beta provider.
_BY_HAND: dict[str, dict[str, Any]] = {
    "gcp:compute/instance:Instance": {"replace": ["metadataStartupScript"]},  # CustomizeDiff: ForceNewIf
    "gcp:compute/instanceTemplate:InstanceTemplate": {"replace": ["labels"]},  # ForceNew of effective_labels
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": {"replace": ["labels"]},
    "gcp:compute/futureReservation:FutureReservation": {
        "source": "GoogleCloudPlatform/magic-modules mmv1/products/compute/FutureReservation.yaml",
        "replace": ["name", "project", "zone"],
    },
    "gcp:container/cluster:Cluster": {
        "replace": ["name", "location", "network", "subnetwork", "initialNodeCount", "project"],
    },
    "gcp:container/nodePool:NodePool": {
        "replace": [
            *("name", "cluster", "location", "initialNodeCount", "project"),
            *("nodeConfig.guestAccelerators", "nodeConfig.spot"),
        ],
    },
    "gcp:projects/iAMCustomRole:IAMCustomRole": {
        "source": "google/services/resourcemanager/resource_google_project_iam_custom_role.go",
        "replace": ["project", "roleId"],
    },
    "gcp:projects/iAMMember:IAMMember": {
        "source": _IAM_SOURCE,
        "replace": ["condition", "member", "project", "role"],
    },
    "gcp:serviceaccount/iAMMember:IAMMember": {
        "source": _IAM_SOURCE,
        "replace": ["condition", "member", "role", "serviceAccountId"],
    },
    "gcp:iap/tunnelInstanceIAMMember:TunnelInstanceIAMMember": {
        "source": _IAM_SOURCE,
        "replace": ["condition", "instance", "member", "project", "role", "zone"],
    },
    "gcp:iap/tunnelIamMember:TunnelIamMember": {
        "source": _IAM_SOURCE,
        "replace": ["condition", "member", "project", "role"],
    },
}
_VALUES = re.compile(r"(?:StringInSlice|ValidateEnum)\(\[\]string\{([^}]*)\}")
_LITERAL = re.compile(r"`[^`]*`|//[^\n]*")


@dataclass
class SourceProperty:
    """One property of a Terraform schema, with the properties of its block."""

    name: str
    forces_replacement: bool
    is_computed: bool
    values: list[str]
    children: list[SourceProperty] = field(default_factory=list)


def parse_resource_source(text: str) -> list[SourceProperty]:
    """Return the properties of the first resource schema in a Go file."""
    code = _LITERAL.sub("", text)
    start = _RESOURCE_SCHEMA.search(code)
    return list(_parse_properties(code, start.end())) if start else []


def _parse_properties(code: str, position: int) -> Iterator[SourceProperty]:
    end = _find_closing_brace(code, position)
    while match := _KEY.search(code, position, end):
        body_end = _find_closing_brace(code, match.end())
        yield _parse_property(code, match[1], match.end(), body_end)
        position = body_end


def _parse_property(code: str, name: str, start: int, end: int) -> SourceProperty:
    nested = code.find(_SCHEMA, start, end)
    own = code[start : nested if nested >= 0 else end]
    own += code[_find_closing_brace(code, nested + len(_SCHEMA)) : end] if nested >= 0 else ""
    children: list[SourceProperty] = []
    if nested >= 0:
        children = list(_parse_properties(code, nested + len(_SCHEMA)))
    elif (function := _ELEMENT_FUNCTION.search(own)) and f"func {function[1]}() *schema.Resource" in code:
        body = code.index(f"func {function[1]}() *schema.Resource")
        children = list(_parse_properties(code, code.index(_SCHEMA, body) + len(_SCHEMA)))
    values = _VALUES.search(own)
    return SourceProperty(
        name,
        bool(re.search(r"ForceNew:\s*true", own)),
        bool(re.search(r"Computed:\s*true", own)) and bool(re.search(r"Optional:\s*true", own)),
        sorted(set(re.findall(r'"([^"]+)"', values[1]))) if values else [],
        children,
    )


def _find_closing_brace(code: str, position: int) -> int:
    """Return the index after the brace that closes the block which starts before ``position``."""
    depth, quoted = 1, False
    for index in range(position, len(code)):
        character = code[index]
        if character == '"' and code[index - 1] != "\\":
            quoted = not quoted
        elif not quoted and character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return index + 1
    return len(code)


def find_pulumi_paths(
    properties: list[SourceProperty],
    schema: Mapping[str, Any],
    described: Mapping[str, str],
    owner: str,
    prefix: str = "",
) -> dict[str, Any]:
    """Return the replaced and the computed paths, and enums, by the names of Pulumi's SDK."""
    result: dict[str, Any] = {"replace": [], "computed": [], "enums": {}}
    for item in properties:
        name = _find_sdk_name(item.name, described)
        if name is None:
            continue
        path = f"{prefix}{name}"
        if item.forces_replacement:
            # On a block, ForceNew is about the block as a whole; each property inside has its own.
            result["replace"].append(f"{path}$" if item.children else path)
        if item.is_computed:
            result["computed"].append(path)
        if item.values and "string" in described[name]:
            result["enums"][f"{owner}.{name}"] = item.values
        child = re.search(r"#([\w./]+)", described[name])
        if child and item.children:
            inner = find_pulumi_paths(
                item.children, schema, schema["objects"][child[1]], child[1], f"{path}."
            )
            result["replace"] += inner["replace"]
            result["computed"] += inner["computed"]
            result["enums"].update(inner["enums"])
    return result


def _find_sdk_name(name: str, described: Mapping[str, str]) -> str | None:
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
    candidates = (camel, f"{camel}s", f"{camel}es", camel.removesuffix("s"))
    return next((candidate for candidate in candidates if candidate in described), None)


def read_google_replacements(checkout: Path, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the Google provider's source says about every type of ``schema`` that it has a file for."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(checkout), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    commit = git("rev-parse", "--short=12", "HEAD").strip()
    files = set(git("ls-tree", "-r", "--name-only", "HEAD", "google/services/").split())
    types: dict[str, Any] = {}
    for token, described in schema["types"].items():
        path = find_google_file(token, files)
        by_hand = _BY_HAND.get(token, {})
        if path is None:
            types[token] = dict(by_hand)
            continue
        module, name = token.split(":")[1].split("/")[0], token.split(":")[2]
        paths = find_pulumi_paths(
            parse_resource_source(git("show", f"HEAD:{path}")), schema, described, f"{module}.{name}"
        )
        paths["replace"] += by_hand.get("replace", [])
        types[token] = {"source": path, **paths}
    return {"source": f"hashicorp/terraform-provider-google@{commit}", "types": types}


def find_google_file(token: str, files: set[str]) -> str | None:
    """Return the path of the file that defines a type of ``pulumi_gcp``; None if its name differs."""
    _, module, name = token.split(":")
    service = module.split("/")[0]
    snake = re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()
    services = {"serviceaccount": ("resourcemanager", "google"), "projects": ("resourcemanager", "google")}
    folder, prefix = services.get(service, (service, service))
    candidates = (
        f"google/services/{folder}/resource_{prefix}_{snake}.go",
        f"google/services/{folder}/resource_{prefix}_service_{snake}.go",
        f"google/services/{folder}/resource_{prefix}_project_{snake}.go",
    )
    return next((path for path in candidates if path in files), None)
