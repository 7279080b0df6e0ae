"""Ranges of the arguments of methods, and the check of them that a configuration and a Python call share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

NonNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
InnerShare = Annotated[float, Field(gt=0, lt=1)]
ShareBelowOne = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Index = Annotated[int, Field(ge=0)]

STRICT = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Arguments(BaseModel):
    """The arguments of a method beside its network: no unknown names, no change after they are made."""

    model_config = STRICT


@functools.cache
def arguments_model(init: Callable[..., None]) -> type[Arguments]:
    """Return the arguments of a method's `__init__` as a typed model."""
    hints = get_type_hints(init, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], parameter.default)
        for name, parameter in inspect.signature(init).parameters.items()
        if name not in ("self", "net")
    }
    return create_model("Arguments", __base__=Arguments, **fields)


def explain(error: ValidationError) -> str:
    """Return what is wrong, field by field: what is allowed and what came."""
    return "; ".join(
        f"{'.'.join(map(str, entry['loc']))}: {entry['msg']} (got {entry['input']!r})" for entry in error.errors()
    )


def checked(init: Callable[..., None]) -> Callable[..., None]:
    """Return an `__init__` that refuses arguments outside of their annotated ranges with a ValueError."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def check_then_init(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs).arguments
        model = arguments_model(init)
        try:
            valid = model.model_validate({name: value for name, value in given.items() if name in model.model_fields})
        except ValidationError as error:
            raise ValueError(f"{type(given['self']).__name__} does not take {explain(error)}") from None
        init(**{**given, **dict(valid)})

    return check_then_init
