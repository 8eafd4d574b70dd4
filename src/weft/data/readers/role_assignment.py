"""Assignment of roles (user, item, score, ...) to the columns of a file or a frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weft._input_kinds import BUILT_IN_INPUTS, SIDE_INPUTS
from weft.data.readers.layouts import FileLayout
from weft.data.readers.paths import PartFile
from weft.data.readers.roles import (
    COLUMNS,
    ID_ROLES,
    SYNONYMS,
    check_unique_columns,
    find_column,
    find_column_name,
)
from weft.errors import InputError, SettingError, agree, did_you_mean, setting_ref

# The roles of each kind of data, in the order of columns without names. More columns may follow.
ROLES_OF_USE = {
    "lists": ("user", "item", "score"),
    "truth": ("user", "item", "rating"),
    "train": ("user", "item", "rating"),
    "candidates": ("user", "item"),
    "timed": ("user", "item", "rating", "timestamp"),  # truth and train with their order in time
    "items": ("item",),
    "users": ("user",),
}
# The role of the values of an input by its form. Vectors may also have a column per dimension.
_ROLE_OF_FORM = {"label": "label", "features": "label", "number": "value", "vector": "vector"}
_ROLES_OF_INPUTS = {
    f"{axis} {form}": (axis, role) for axis in ID_ROLES for form, role in _ROLE_OF_FORM.items()
}
ROLES_OF_USE |= _ROLES_OF_INPUTS
ROLES_OF_USE |= {name: ROLES_OF_USE[BUILT_IN_INPUTS[name].use] for name in SIDE_INPUTS}
ID_LISTS = ("items", "users")
_VALUE_ROLES = ("label", "value", "vector")  # of which a file of an input has one
REQUIRED_ROLES = (*ID_ROLES, *_VALUE_ROLES)
_TREC_USES = {"run": ("lists", "candidates"), "qrels": ("truth", "train", "timed", "candidates")}

Assignment = tuple[dict[str, str], tuple[str, ...]]


def assign_roles(
    layout: FileLayout, declared: Mapping[str, str | int], use: str, where: str, name: str = ""
) -> Assignment:
    """Return {role: column name} for a use, and the names of columns without a role.

    `declared` maps roles to names or positions of columns (`File.columns`). The values of an input
    may be in the column with its `name`.
    """
    _check_trec_use(layout, use, where)
    names, wanted = list(layout.names), ROLES_OF_USE[use]
    roles = _assign_declared(layout, declared, use, where)
    if layout.format == "json" and ("rank" in roles or not set(ID_ROLES) <= set(wanted)):
        raise InputError(
            f"{where} is JSON {{query: {{document: number}}}}, which contains scores or ratings; "
            f"expected a table with {', '.join(roles or wanted)} here."
        )
    if layout.has_header or layout.trec:
        _assign_by_name(roles, layout, use, where, name)
    elif not roles:
        roles = _assign_by_position(layout, wanted, where)
    if wanted[-1] == "vector" and not _is_list(layout, roles.get("vector")):
        roles = _assign_dimensions(names, roles, wanted[0], where)
    _check_complete(roles, wanted, where)
    known = set(roles.values())
    if use != "lists":
        known |= {str(find_column_name(names, role, where)) for role in COLUMNS}
    return roles, tuple(name for name in names if name not in known)


def _check_complete(roles: Mapping[str, str], wanted: tuple[str, ...], where: str) -> None:
    """Raise `InputError` if a column that a use requires was not found."""
    for role in wanted:
        found = "value 0" if role == "vector" and role not in roles else role
        if role in REQUIRED_ROLES and found not in roles:
            raise InputError(
                f"{where}: {setting_ref('columns')} does not name the column of the {role}; "
                f"expected {', '.join(map(repr, wanted))} in a file without header."
            )


def _check_trec_use(layout: FileLayout, use: str, where: str) -> None:
    """Raise `InputError` for qrels in the place of a run, and the other way round."""
    if layout.trec and use not in _TREC_USES[layout.trec]:
        is_run = layout.trec == "run"
        actual, expected = ("a TREC run", "qrels") if is_run else ("TREC qrels", "a run")
        raise InputError(
            f"{where} is {actual}; expected {expected} here, or another table. Were the two files "
            "swapped?"
        )


def assign_frame_roles(
    columns: list[str], declared: Mapping[str, str | int], use: str, where: str
) -> Assignment:
    """Return the roles and the unused columns of a table that is not a file."""
    check_unique_columns(columns, where)
    part = PartFile(Path("table"), Path("table"))
    return assign_roles(FileLayout(part, "parquet", tuple(columns)), declared, use, where)


def _assign_declared(
    layout: FileLayout, declared: Mapping[str, str | int], use: str, where: str
) -> dict[str, str]:
    """Return the columns of the roles that the caller declares."""
    wanted = ROLES_OF_USE[use]
    usable = (*wanted, "rank") if use == "lists" else wanted
    # Options for all files declare columns that some of them lack; which ids a file of an input has
    # depends on its metric.
    id_roles = ID_ROLES if use in _ROLES_OF_INPUTS else ()
    ignored = ("timestamp", "rank", "score", "rating", *id_roles)
    roles = {}
    for given, column in declared.items():
        role = given if given in (*wanted, "rank") else SYNONYMS.get(given, given)
        if role in usable:
            roles[role] = _resolve_column(layout, column, given, where)
        elif role not in ignored:
            raise SettingError(
                f"{where}: {setting_ref('columns')} names the role {given!r}; expected "
                f"{', '.join(map(repr, wanted))} here."
            )
    return roles


def _resolve_column(layout: FileLayout, column: str | int, role: str, where: str) -> str:
    """Return the name of a column that is declared by name or by position."""
    names = list(layout.names)
    if isinstance(column, int):
        if column >= len(names):
            raise InputError(
                f"{where} has {agree(len(names), '{n} column{s}')}, numbered from 0; "
                f"{setting_ref('columns')} gives number {column} for the {role}."
            )
        return names[column]
    if column in names:
        return column
    if not layout.has_header:
        raise InputError(
            f"{where} has no header, so there is no column {column!r}; give positions: "
            f"{setting_ref('columns', {role: 0})}."
        )
    raise InputError(
        f"{where} has no column {column!r} for the {role}; it has "
        f"{names}.{did_you_mean(column, names)}"
    )


def _assign_by_position(layout: FileLayout, wanted: tuple[str, ...], where: str) -> dict[str, str]:
    """Return the roles of columns without names, in the usual order."""
    width = len(layout.names)
    if width < len([role for role in wanted if role in REQUIRED_ROLES]):
        raise InputError(
            f"{where} has {width} column{'s' * (width > 1)} and no header; expected "
            f"{', '.join(wanted)}."
        )
    if wanted == ROLES_OF_USE["lists"]:
        _check_no_ranks(layout, where)
    return dict(zip(wanted, layout.names))


def _check_no_ranks(layout: FileLayout, where: str) -> None:
    """Raise if the third column, which would be read as scores, counts 0, 1, ... or 1, 2, ..."""
    lists: dict[str, list[str]] = {}
    for row in layout.sample:
        if len(row) >= 3:
            lists.setdefault(row[0], []).append(row[2])
    counts = [str(rank) for rank in range(len(layout.sample) + 1)]
    are_ranks = all(
        values in (counts[: len(values)], counts[1 : len(values) + 1]) for values in lists.values()
    )
    if are_ranks and any(len(values) > 1 for values in lists.values()):
        raise InputError(
            f"{where} has no header, and its third column counts 1, 2, 3, ... in each list, like "
            "ranks. Specify its role: "
            f"{setting_ref('columns', {'user': 0, 'item': 1, 'rank': 2})}, or 'score' instead of "
            "'rank'."
        )


def _assign_by_name(
    roles: dict[str, str], layout: FileLayout, use: str, where: str, name: str
) -> None:
    """Add the roles of columns with known names to `roles`."""
    names, wanted = list(layout.names), ROLES_OF_USE[use]
    others = [name for name in names if name not in roles.values()]
    may_have_rank = use == "lists" and not layout.trec
    for role in (*wanted, "rank") if may_have_rank else wanted:
        if role in roles or role in _VALUE_ROLES:
            continue
        hint = (
            f"Name the column with the {role} ids in the setting "
            f"{setting_ref('columns', {role: 'NAME'})} of the file."
        )
        if role in ID_ROLES and len(names) == 1:
            _check_one_column(layout, use, where)
            roles[role] = names[0]
        elif (found := find_column(others, role, where, hint=hint)) is not None:
            roles[role] = found
    value = wanted[-1]
    if value in _VALUE_ROLES and value not in roles:
        column = _value_column(names, roles, value, where, name)
        if column is not None:
            roles[value] = column


def _check_one_column(layout: FileLayout, use: str, where: str) -> None:
    """Raise `InputError` for text of one column, unless it is a list of ids."""
    if layout.format == "text" and use not in ID_LISTS:
        raise InputError(
            f"{where} has one column, {layout.names[0]!r}; expected "
            f"{', '.join(ROLES_OF_USE[use])}. If the columns have an unusual separator, specify "
            f"it: {setting_ref('separator')}."
        )


def _value_column(
    names: list[str], roles: dict[str, str], role: str, where: str, name: str
) -> str | None:
    """Return the column with the labels, numbers or vectors of ids: the only other one, the one
    with the name of the input, or one with a known name; None for one column per dimension."""
    others = [column for column in names if column not in roles.values()]
    if len(others) == 1 or name in others:
        return name if name in others else others[0]
    found = find_column_name(others, role, where)
    if found is None and role != "vector":
        (id_column,) = roles.values()
        raise InputError(
            f"{where} has the columns {names}; expected {id_column!r} and one with the {role}s. "
            f"Name it with {setting_ref('columns', {role: 'NAME'})}."
        )
    return found


def _is_list(layout: FileLayout, column: str | None) -> bool:
    """Return whether a column holds lists, as files with types may."""
    types = None if column is None else layout.types.get(column)
    return types == {list} or type(types).__name__ in ("List", "Array")


def _assign_dimensions(
    names: list[str], roles: dict[str, str], axis: str, where: str
) -> dict[str, str]:
    """Return the roles of vectors with one column per dimension: all columns but the ids."""
    id_column = roles.get(axis)
    others = [name for name in names if name != id_column]
    if id_column is None or not others:
        raise InputError(
            f"{where} has the columns {names}; expected one of {axis} ids and one per dimension."
        )
    return {axis: id_column} | {f"value {number}": name for number, name in enumerate(others)}
