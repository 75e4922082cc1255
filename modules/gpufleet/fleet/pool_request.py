"""Parts of a pool: its cloud, accelerators and number of nodes; and the fleet's budget."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError

from gpufleet import catalog
from gpufleet.catalog import data_file
from gpufleet.errors import InputError
from gpufleet.fleet.frozen_model import FrozenModel, StrictFloat, StrictInt, build_spec_error

MAX_NODES = 1000


def _check_cloud(name: Any) -> Any:
    if name not in tuple(catalog.CLOUDS):
        raise PydanticKnownError("literal_error", {"expected": catalog.join_cloud_names()})
    return name


CloudName = Annotated[
    str, BeforeValidator(_check_cloud), WithJsonSchema({"enum": list(catalog.CLOUDS), "type": "string"})
]


def _check_accelerator(name: str) -> str:
    try:
        return catalog.get_accelerator(name).name
    except InputError as error:
        raise build_spec_error(error.problem, error.remedy) from error


class AcceleratorRequest(FrozenModel):
    """Cards that the machine does not imply; ``model`` ends up as the catalogue's name."""

    model: Annotated[str, AfterValidator(_check_accelerator)]
    count: Annotated[StrictInt, Field(ge=1, le=16)] = 1


def list_machines_with(model: str, cloud: str) -> list[str]:
    """Return the machines of a cloud that come with cards whose name contains ``model``."""
    return [
        name
        for (where, name), machine in data_file.load_machines().items()
        if where == cloud and any(model.lower() in card.model.lower() for card in machine.accelerators)
    ]


def describe_unattachable(model: str, machine: catalog.Machine) -> tuple[str, str]:
    """Return problem and remedy for cards that do not come with a machine that takes others."""
    names = list_machines_with(model, machine.cloud)
    instead = f", or machine: {names[0]} without accelerators" if names else ""
    return (
        f"{model} cannot be attached to {machine.name}",
        f"give {' or '.join(machine.attachable)}{instead}",
    )


def _check_attached_cards(request: Any, info: ValidationInfo) -> Any:
    """Refuse an ambiguous name of cards that the machine does not take: no choice among them would be right."""
    model = request.get("model") if isinstance(request, dict) else None
    pool = info.data or {}  # what is right of it so far
    try:
        machine = catalog.get_machine(pool.get("machine", ""), pool.get("cloud"))
    except InputError:
        return request
    if isinstance(model, str) and machine.attachable and "ambiguous" in _find_name_problem(model):
        raise build_spec_error(*describe_unattachable(model, machine), "model")
    return request


def _find_name_problem(model: str) -> str:
    try:
        catalog.get_accelerator(model)
    except InputError as error:
        return error.problem
    return ""


AttachedAccelerators = Annotated[AcceleratorRequest | None, BeforeValidator(_check_attached_cards)]


class NodeCount(FrozenModel):
    """How many nodes. A plain number is a fixed count; a range is an elastic group."""

    min: Annotated[StrictInt, Field(ge=0, le=MAX_NODES)]
    desired: Annotated[StrictInt, Field(ge=0, le=MAX_NODES)]
    max: Annotated[StrictInt, Field(ge=0, le=MAX_NODES)]

    @property
    def is_elastic(self) -> bool:
        """True if the cloud may change the number of nodes by itself."""
        return self.min != self.max

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, data: Any) -> Any:
        """Fill in a plain number, and a range without ``desired`` (which then starts at ``min``)."""
        if isinstance(data, bool) or not isinstance(data, int | dict):
            raise build_spec_error(f"{data!r} is not a count", "give a whole number, or {min: 1, max: 4}")
        if isinstance(data, int):
            _check_number(data)
            return {"min": data, "desired": data, "max": data}
        return {"desired": data["min"], **data} if "min" in data else data

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if not self.min <= self.desired <= self.max:
            raise build_spec_error(
                f"min {self.min}, desired {self.desired}, max {self.max} are out of order",
                "min <= desired <= max",
            )
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the short forms too: a number, and a range without ``desired``."""
        schema = handler.resolve_ref_schema(handler(core))
        schema["required"] = ["min", "max"]
        return {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MAX_NODES}, dict(schema)]}


def _check_number(count: int) -> None:
    if count < 0:
        raise build_spec_error(f"{count} is negative", f"give 0 to {MAX_NODES} nodes")
    if count > MAX_NODES:
        raise build_spec_error(f"{count} is more than a pool can have", f"give 0 to {MAX_NODES} nodes")


class MonthlyBudget(FrozenModel):
    """What a month may cost: a ceiling, and a floor where less would mean that something is missing."""

    min: Annotated[StrictFloat, Field(ge=0)] = 0.0
    max: Annotated[StrictFloat, Field(gt=0)]

    @model_validator(mode="before")
    @classmethod
    def _expand_ceiling(cls, data: Any) -> Any:
        if isinstance(data, bool) or not isinstance(data, int | float | dict):
            raise build_spec_error(f"{data!r} is not a budget", "give USD a month, or {min: 200, max: 500}")
        if not isinstance(data, dict):
            if data <= 0:
                raise build_spec_error(f"{data} is not a budget", "give more than 0 USD a month")
            return {"max": data}
        return data

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.min > self.max:
            raise build_spec_error(f"min {self.min:g} is over max {self.max:g}", "min <= max")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the short form too: a number is the ceiling."""
        schema = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, dict(schema)]}
