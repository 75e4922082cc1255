"""A template's third step: the volumes of an application, and the files that declare its containers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpufleet.fleet.container_file import ContainerFilePath
from gpufleet.fleet.frozen_model import FrozenModel, Name, StrictInt

VOLUMES_FOLDER = "/var/lib/gpufleet/volumes"


class ApplicationVolume(FrozenModel):
    """A folder for data that outlives containers: nvme on the node's own drives.

    ssd is on the boot disk of a machine that we own, and on a disk of its own in a cloud.
    """

    name: Name
    size_gib: Annotated[StrictInt, Field(ge=1, le=65536)]
    kind: Literal["nvme", "ssd"] = "ssd"

    def folder(self, scratch_folder: str) -> str:
        """Return where the volume is on its node; ``scratch_folder`` is where the local drives are mounted."""
        return f"{scratch_folder if self.kind == 'nvme' else VOLUMES_FOLDER}/{self.name}"


class Application(FrozenModel):
    """Step three: what runs on the node."""

    volumes: tuple[ApplicationVolume, ...] = ()
    container_files: Annotated[
        tuple[ContainerFilePath, ...],
        Field(description="compose or quadlet files of the project, installed as they are"),
    ] = ()
