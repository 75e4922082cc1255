# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The unit files of an application. A thin adapter: the rendering is gpufleet.operations.units."""

from __future__ import annotations

DOCUMENTATION = """
name: units
short_description: The unit files that run an application
description:
  - Turns the application of a node's template (C(gpufleet_application)) into files for systemd, as quadlets where the
    node's podman makes services of those (4.4 and later), else as plain services for podman or Docker.
  - Reads no host and changes nothing.
positional: _input
options:
  _input: {description: The application., type: dict, required: true}
  engine: {description: "C(podman) or C(docker).", type: str, required: true}
  version: {description: "The engine's version, such as C(4.3.1).", type: str, required: true}
  vendor: {description: Whose cards the node has., type: str, choices: [nvidia, amd, none], default: none}
  cdi: {description: Whether the engine takes CDI names itself., type: bool, default: true}
  scratch: {description: Where the node's fast storage is mounted., type: path, default: /scratch}
author: gpufleet contributors (@gpufleet)
"""

EXAMPLES = """
application_rendered: "{{ gpufleet_application | gpufleet.fleet.units(engine='podman', version='4.9.3') }}"
"""

RETURN = """
_value:
  description: C(units) (path, content, service, quadlet), C(volumes), secrets by file and in store, C(warnings).
  type: dict
"""

from collections.abc import Callable  # noqa: E402 - Ansible wants its documentation above the imports
from typing import Any  # noqa: E402

from ansible.errors import AnsibleFilterError  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.package import (  # noqa: E402
    defer_import_errors,
    require_gpufleet,
)

with defer_import_errors():
    from pydantic import ValidationError

    from gpufleet.errors import InputError


def render_application_units(
    application: dict[str, Any],
    *,
    engine: str,
    version: str,
    vendor: str = "none",
    cdi: bool = True,
    scratch: str = "/scratch",
) -> dict[str, Any]:
    """Return the units of an application as plain values; none for an application without containers."""
    if not application.get("containers"):
        return {"units": [], "volumes": [], "secret_files": [], "secrets_stored": [], "warnings": []}
    require_gpufleet()
    from gpufleet.fleet import Application
    from gpufleet.operations.units import ContainerEngine, render_application_units

    try:
        parsed = Application.model_validate(strip_ansible_tags(application))
        return render_application_units(
            parsed,
            ContainerEngine.from_reported_version(str(engine), str(version), cdi=cdi, vendor=str(vendor)),
            str(scratch),
        ).as_json()
    except InputError as error:
        raise AnsibleFilterError(str(error)) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise AnsibleFilterError(f"gpufleet_application.{where}: {first['msg']}") from None


def strip_ansible_tags(value: Any) -> Any:
    """Return Ansible's tagged values as Python's own, which pydantic tells apart."""
    if isinstance(value, dict):
        return {str(key): strip_ansible_tags(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strip_ansible_tags(item) for item in value]
    for kind in (bool, int, str):
        if isinstance(value, kind):
            return kind(value)
    return value


class FilterModule:
    """Show the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"units": render_application_units}
