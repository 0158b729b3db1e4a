"""Options of commands from the structs that hold them.

    @from_structs
    def publishers(run: Run, choice: PublisherOptions, json: output.AsJson = False) -> None: ...

A parameter that is a struct becomes an option for each of its fields: the field's name, default,
and what its `Meta` says about it. A field that is annotated for typer is taken as it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
import typer
from typer.models import ParameterInfo


def from_structs(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer is to see it."""
    hints = get_type_hints(command, include_extras=True)
    structs: dict[str, type[msgspec.Struct]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = hints[parameter.name]
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            structs[parameter.name] = kind
            parameters += _options(kind)
        else:
            parameters.append(
                parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY)
            )

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, kind in structs.items():
            given[name] = kind(**{field: given.pop(field) for field in kind.__struct_fields__})
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _options(struct: type[msgspec.Struct]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        kind = hints[field.name]
        bare, *about = get_args(kind)
        if not any(isinstance(one, ParameterInfo) for one in about):
            kind = Annotated[bare, _option(about[0], field.default)]
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=kind
        )


def _option(meta: msgspec.Meta, default: Any) -> Any:
    more = dict(meta.extra or {})
    names = more.pop("names", None)
    if names is not None:
        more["autocompletion"] = lambda incomplete: [
            name for name in names() if name.startswith(incomplete)
        ]
    more.setdefault("show_default", default is not None)
    return typer.Option(help=meta.description, min=meta.ge, **more)
