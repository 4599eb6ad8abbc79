"""The commands `rmqlab fault FAMILY`, made from the options of the fault kinds."""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, get_args

import attrs
import click

from rmqlab.cluster.cli.number import Number
from rmqlab.cluster.cli.terms import json_option, name_option
from rmqlab.cluster.supervisor.plan.targets import join_targets
from rmqlab.faults.specification import flag_of, is_required, meaning_of, option_of
from rmqlab.faults.table import Family, Field, description_of, own_fields, summary_of

Apply = Callable[..., None]


class FamilyCommand(click.Command):
    """A command that recognises a kind given as an option, such as `--latency`."""

    kinds: tuple[str, ...] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does; suggest a kind, where click would suggest `--late`."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as exc:
            kind = exc.option_name.lstrip("-")
            if kind not in self.kinds:
                raise
            text = f"No such option '{exc.option_name}'. Did you mean '--kind {kind}'?"
            raise click.NoSuchOption(exc.option_name, text, ctx=ctx) from None


def family_command(family: Family, apply: Apply) -> click.Command:
    """Return the command of a family, with the options of all its kinds.

    It calls `apply(name, values, as_json=...)`. The values are checked by the supervisor, as those of scenarios are.
    """

    @name_option
    @json_option
    def run(*, name: str, as_json: bool, **values: Any) -> None:
        if isinstance(values.get("target"), tuple):
            values["target"] = join_targets(values["target"])
        apply(name, {"type": family.name, **values}, as_json=as_json)

    made = click.command(family.name, cls=FamilyCommand, params=_parameters(family), help=help_of(family))(run)
    made.kinds = tuple(family.kinds) if family.has_kinds else ()
    return made


def invalid_options(family: Family, values: Mapping[str, Any]) -> str:
    """Return which options are missing or not accepted; empty if all are valid.

    They are named as on the command line. The supervisor's error would name the keys of scenarios.
    """
    cls = family.kinds.get(values.get("kind", "")) if family.has_kinds else None
    if cls is None:
        return ""
    own, said = own_fields(cls), f"fault {family.name} --kind {cls.kind}"
    missing = [
        f"{flag_of(field)}: {_help(field)}" for key, field in own.items() if is_required(field) and key not in values
    ]
    if missing:
        return f"{said} needs {'; '.join(missing)}"
    accepted = {"type", "kind", *attrs.fields_dict(cls)}
    others = [flag_of(field) for key, field in family.fields.items() if key in values and key not in accepted]
    if not others:
        return ""
    known = f"its options: {', '.join(map(flag_of, own.values()))}" if own else "it has no options"
    return f"{said} does not accept {', '.join(others)}; {known}"


def help_of(family: Family) -> str:
    """Return what a family does, and a line for each of its kinds."""
    if not family.has_kinds:
        return description_of(family.base)
    kinds = "\n".join(f"{kind}: {summary_of(cls)}" for kind, cls in family.kinds.items())
    return f"{description_of(family.base)}\n\n\b\n{kinds}"


def _parameters(family: Family) -> list[click.Parameter]:
    arguments = [field for field in attrs.fields(family.base) if option_of(field).is_argument]
    parameters: list[click.Parameter] = [_argument(field, is_only=len(arguments) == 1) for field in arguments]
    if family.has_kinds:
        parameters.append(_kind_option(family))
    parameters += [_option(family, field) for field in family.fields.values() if not option_of(field).is_argument]
    return parameters


def _argument(field: Field, *, is_only: bool) -> click.Argument:
    if field.name == "target" and is_only:
        return click.Argument([field.name], metavar="TARGET...", nargs=-1, required=True, help=_help(field))
    return click.Argument([field.name], help=_help(field))


def _kind_option(family: Family) -> click.Option:
    default = family.base.default_kind or None
    return click.Option(
        ["--kind", "-k"], metavar="KIND", required=default is None, default=default, help=" | ".join(family.kinds)
    )


def _option(family: Family, field: Field) -> click.Option:
    """Return the option of a value.

    Without it the value is None, and the kind's default applies.
    """
    names = [field.name, flag_of(field)]
    by_kind = family.own_fields(field.name) if family.has_kinds else {}
    meaning = " ".join(f"{kind}: {_help(own)}" for kind, own in by_kind.items()) or _help(field)
    if field.type is bool:
        return click.Option(names, is_flag=True, default=None, help=meaning)
    return click.Option(names, type=_type_of(field.type), required=is_required(field) and not by_kind, help=meaning)


def _type_of(annotation: Any) -> Any:
    """Return the type that a value has if it is given: a number for `float | None`."""
    given = next((one for one in get_args(annotation) if one is not NoneType), annotation)
    return Number() if given is float else given


def _help(field: Field) -> str:
    unit = option_of(field).unit
    return f"{meaning_of(field)} In {unit}." if unit else meaning_of(field)
