"""A template and its blueprint: the resolved hardware, software, application and burn-in of a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Tag, model_validator

from gpufleet.fleet.application import Application, ApplicationVolume
from gpufleet.fleet.container_file import ContainerFile, ContainerFilePath, required_engine
from gpufleet.fleet.frozen_model import FrozenModel, Name, build_spec_error
from gpufleet.fleet.profile import GpuDriverSettings, HardwareProfile, SoftwareProfile

Profile = Literal["quick", "standard", "soak"]
STEPS = {"hardware": "hardware_profiles", "software": "software_profiles", "application": "applications"}
"""The steps that a template takes by name or inline, and where the named ones are declared."""
SHORT_FORM_KEYS = {"software": ("driver", "container_toolkit"), "application": ("volumes", "container_files")}
"""The keys of the short form, by the step that they are short for."""


def _discriminate_step(value: Any) -> str:
    return "name" if isinstance(value, str) else "inline"


_STEP_DISCRIMINATOR = Discriminator(_discriminate_step)
NamedHardware = Annotated[
    Annotated[Name, Tag("name")] | Annotated[HardwareProfile, Tag("inline")], _STEP_DISCRIMINATOR
]
NamedSoftware = Annotated[
    Annotated[Name, Tag("name")] | Annotated[SoftwareProfile, Tag("inline")], _STEP_DISCRIMINATOR
]
NamedApplication = Annotated[
    Annotated[Name, Tag("name")] | Annotated[Application, Tag("inline")], _STEP_DISCRIMINATOR
]


class Blueprint(FrozenModel):
    """A template with every step looked up, and with the container files that a loaded fleet has read."""

    hardware: HardwareProfile = HardwareProfile()
    software: SoftwareProfile = SoftwareProfile()
    application: Application = Application()
    burn_in: Profile = "quick"
    container_files: tuple[ContainerFile, ...] = ()

    @property
    def container_engine(self) -> Literal["podman", "docker", "none"]:
        """Return the container engine: the chosen one, that of the container files, or podman for the toolkit."""
        chosen = self.software.container_engine
        if chosen != "auto":
            return chosen
        if self.application.container_files:
            return required_engine(self.application.container_files[0])
        return "podman" if self.software.container_toolkit else "none"


class NodeTemplate(FrozenModel):
    """A blueprint by steps, each named or inline; or short, with the keys of software and application in it."""

    hardware: NamedHardware | None = None
    software: NamedSoftware | None = None
    application: NamedApplication | None = None
    driver: GpuDriverSettings | None = None
    container_toolkit: bool | None = None
    volumes: tuple[ApplicationVolume, ...] | None = None
    container_files: tuple[ContainerFilePath, ...] | None = None
    burn_in: Profile = "quick"

    @model_validator(mode="after")
    def _check_one_form(self) -> Self:
        for step, keys in SHORT_FORM_KEYS.items():
            short = [key for key in keys if getattr(self, key) is not None]
            if short and getattr(self, step) is not None:
                raise build_spec_error(
                    f"the template has both {step} and {short[0]}", f"put {short[0]} into {step}"
                )
        return self

    def resolve_steps(self, profiles: Mapping[str, Mapping[str, Any]]) -> Blueprint:
        """Return it with its steps looked up in ``profiles``, by step and name."""
        steps = {step: self._resolve_step(step, profiles.get(step, {})) for step in STEPS}
        return Blueprint(
            **{step: profile for step, profile in steps.items() if profile is not None}, burn_in=self.burn_in
        )

    def _resolve_step(self, step: str, profiles: Mapping[str, Any]) -> Any:
        declared = getattr(self, step)
        if isinstance(declared, str):
            return profiles[declared]
        if declared is not None or step not in SHORT_FORM_KEYS:
            return declared
        short_form = {
            key: getattr(self, key) for key in SHORT_FORM_KEYS[step] if getattr(self, key) is not None
        }
        return {"software": SoftwareProfile, "application": Application}[step](**short_form)
