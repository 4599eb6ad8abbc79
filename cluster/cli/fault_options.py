"""The commands `rmqlab fault FAMILY`, made from the options of the fault kinds."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import attrs
import typer

from rmqlab.cluster.cli.terms import DEFAULT_NAME, AsJson, Name
from rmqlab.cluster.supervisor.targets import join_targets
from rmqlab.faults.specification import flag_of, is_required, meaning_of, option_of
from rmqlab.faults.table import Family, Field, description_of, summary_of

Apply = Callable[..., None]


def family_command(family: Family, apply: Apply) -> Callable[..., None]:
    """Return a function for typer with the options of all kinds of a family.

    It calls `apply(name, values, as_json=...)`. The values are checked by the supervisor, as those of scenarios are.
    """

    def run(*, name: str, as_json: bool, **values: Any) -> None:
        if isinstance(values.get("target"), list):
            values["target"] = join_targets(values["target"])
        apply(name, {"type": family.name, **values}, as_json=as_json)

    parameters = [*_parameters(family)]
    run.__doc__ = help_of(family)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


def help_of(family: Family) -> str:
    """Return what a family does, and a line for each of its kinds."""
    if not family.has_kinds:
        return description_of(family.base)
    kinds = "\n".join(f"{kind}: {summary_of(cls)}" for kind, cls in family.kinds.items())
    return f"{description_of(family.base)}\n\n\b\n{kinds}"


def _parameters(family: Family) -> list[inspect.Parameter]:
    parameters = [_parameter(family, field) for field in _arguments_of(family)]
    if family.has_kinds:
        parameters.append(_kind_parameter(family))
    parameters += [_parameter(family, field) for field in family.fields.values() if not option_of(field).is_argument]
    parameters.append(_keyword("name", Name, DEFAULT_NAME))
    parameters.append(_keyword("as_json", AsJson, default=False))
    return parameters


def _arguments_of(family: Family) -> list[Field]:
    return [field for field in attrs.fields(family.base) if option_of(field).is_argument]


def _kind_parameter(family: Family) -> inspect.Parameter:
    declared = typer.Option("--kind", "-k", help=" | ".join(family.kinds), metavar="KIND")
    return _keyword("kind", Annotated[str, declared], family.base.default_kind or inspect.Parameter.empty)


def _parameter(family: Family, field: Field) -> inspect.Parameter:
    if option_of(field).is_argument:
        if field.name == "target" and not _arguments_of(family)[1:]:
            declared = typer.Argument(help=_help(field), metavar="TARGET")
            return _keyword(field.name, Annotated[list[str], declared])
        return _keyword(field.name, Annotated[str, typer.Argument(help=_help(field))])
    by_kind = family.own_fields(field.name) if family.has_kinds else {}
    if not by_kind:
        declared = typer.Option(flag_of(field), help=_help(field), show_default=False)
        return _keyword(field.name, Annotated[field.type, declared], field.default)
    declared = typer.Option(flag_of(field), help=" ".join(f"{kind}: {_help(own)}" for kind, own in by_kind.items()))
    value_type = field.type | None if is_required(field) else field.type  # type: ignore[operator]  # not all kinds need it
    return _keyword(field.name, Annotated[value_type, declared], None)


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _help(field: Field) -> str:
    unit = option_of(field).unit
    return f"{meaning_of(field)} In {unit}." if unit else meaning_of(field)
