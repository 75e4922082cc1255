"""The image of a pool's nodes, if it is not the default one."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from gpufleet.fleet.frozen_model import FrozenModel, build_pattern_annotations, build_spec_error

_id, _id_schema = build_pattern_annotations(r"[A-Za-z0-9/._-]{3,300}", "an image's id as its cloud writes it")
_name, _name_schema = build_pattern_annotations(
    r"[A-Za-z0-9][A-Za-z0-9._-]{1,126}", "a name of letters, digits, dots, hyphens"
)
_owner, _owner_schema = build_pattern_annotations(
    r"self|[a-z0-9-]{6,30}", "self, an AWS account, or a GCP project"
)


class CustomImage(FrozenModel):
    """A custom image: by its id, or the newest one with a name. Packer builds them (docs/images.md)."""

    id: Annotated[str, _id, _id_schema] | None = None
    name: Annotated[
        Annotated[str, _name, _name_schema] | None,
        Field(description="AWS: the prefix of image names; GCP: the image family; not on Azure"),
    ] = None
    owner: Annotated[str, _owner, _owner_schema] = "self"

    @model_validator(mode="after")
    def _check_id_or_name(self) -> Self:
        if (self.id is None) == (self.name is None):
            raise build_spec_error(
                "an image needs exactly one of id and name",
                "give an image's id, or the name that several images share",
            )
        return self


def _discriminate_image(value: Any) -> str:
    return "inline" if isinstance(value, dict | CustomImage) else "name"


Image = Annotated[
    Annotated[Literal["auto", "vendor", "base"], Tag("name")] | Annotated[CustomImage, Tag("inline")],
    Discriminator(_discriminate_image),
    Field(
        description="auto: suitable for the machine; vendor: with drivers; base: the plain system; or your own image"
    ),
]
