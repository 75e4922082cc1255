"""Settings of Pulumi's own providers in a stack's file, as far as the engine demands them for the declared pools.

AWS's provider starts in no preview without a region (pulumi-aws, "Invalid or missing region"), although each pool is
built in its own. Google's builds nothing without a project. A missing subscription of Azure is a planning note.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from gpufleet import catalog
from gpufleet.fleet.account import AzureAccount, GcpAccount
from gpufleet.fleet.document import SpecProblem
from gpufleet.fleet.error_explanation import explain_validation_errors
from gpufleet.fleet.host_name import CONFIG_KEY, only_mappings

ACCOUNT_SETTINGS: dict[str, tuple[str, type[BaseModel]]] = {
    "gcp:project": ("project", GcpAccount),
    "azure-native:subscriptionId": ("subscription", AzureAccount),
}


def find_provider_problems(config: Mapping[str, Any]) -> tuple[list[SpecProblem], list[SpecProblem]]:
    """Return what is wrong with the settings of a stack's ``config``, and what a build will need besides."""
    spec = config.get(CONFIG_KEY)
    spec = spec if isinstance(spec, Mapping) else {}
    # A pool that names an account has a provider of its own.
    pools = [pool for pool in only_mappings(spec.get("pools")) if "account" not in pool]
    needs_region = "aws" not in spec  # otherwise each pool's provider has the pool's
    aws_pools = [pool for pool in pools if pool.get("cloud") == "aws" and needs_region]
    wrong = _check_aws_region(config, aws_pools)
    missing = []
    for setting, (key, model) in ACCOUNT_SETTINGS.items():
        value = config.get(setting)
        if isinstance(value, str):
            try:
                model.model_validate({key: value})
            except ValidationError as error:
                problem = explain_validation_errors(error, model, {key: value})[0]
                wrong.append(SpecProblem(("config", setting), problem.text, problem.remedy))
    names = ", ".join(str(pool.get("name")) for pool in pools if pool.get("cloud") == "gcp")
    if names and "gcp" not in spec and config.get("gcp:project") is None:
        text = f"no project is named, and `pulumi up` builds {names} only with one"
        missing.append(SpecProblem(("config",), text, "set gcp:project, or gcp: {project: …} in the fleet"))
    return wrong, missing


def _check_aws_region(config: Mapping[str, Any], pools: list[Mapping[str, Any]]) -> list[SpecProblem]:
    region = config.get("aws:region")
    if region is None:
        example = next((pool["region"] for pool in pools if isinstance(pool.get("region"), str)), "us-east-1")
        text = "is missing, and Pulumi's AWS provider does not start without it"
        return [SpecProblem(("config", "aws:region"), text, f"add aws:region: {example}")] if pools else []
    if isinstance(region, str) and not catalog.get_cloud("aws").is_region_name(region):
        return [SpecProblem(("config", "aws:region"), f"is {region!r}", "give a region like us-east-1")]
    return []
