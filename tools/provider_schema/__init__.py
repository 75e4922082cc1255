"""Generate what the simulated clouds check from the installed Pulumi SDKs: ``python -m …providers.generation``.

Input: the SDKs ``pulumi_aws``, ``pulumi_gcp``, ``pulumi_azure_native``, botocore's service models, and the resource
types of ``data/<cloud>.json``. Output: ``data/schema/<cloud>.json`` with the name, type, enum and necessity of every
input at every depth. Nothing here runs in a rehearsal.
"""

from __future__ import annotations

from tools.provider_schema.sdk_schema import build_cloud_schema, format_schema

__all__ = ["build_cloud_schema", "format_schema"]
