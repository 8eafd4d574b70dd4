"""Column names that Weft knows, and the role (user, item, score, ...) of each name."""

from __future__ import annotations

import re

from weft.errors import InputError, did_you_mean

# Known names by role, first the one that messages recommend. Upper and lower case, `_`, `-`, spaces
# and dots make no difference.
_NAMES = {
    "user": "user user_id uid query query_id qid session session_id visitor visitor_id customer "
    "customer_id",
    "item": "item item_id iid doc doc_id docno document document_id product product_id movie "
    "movie_id article article_id track track_id book book_id artist artist_id sku asin",
    "rating": "rating relevance rel value weight score",
    "score": "score prediction predicted_rating pred rating relevance value weight",
    "rank": "rank ranking position",
    "timestamp": "timestamp time date datetime ts",
    "value": "value",
    "vector": "vector vectors embedding embeddings",
    "label": "label group cluster feature user_group item_cluster item_feature",
}
COLUMNS = {role: tuple(names.split()) for role, names in _NAMES.items()}
ID_ROLES = ("user", "item")
NUMBER_ROLES = ("score", "rating", "rank")
VALUE_ROLE = "value"  # a number of an item or user; "value 0", "value 1", ... are dimensions
MAIN_ROLES = (*ID_ROLES, *NUMBER_ROLES, "timestamp", "label", VALUE_ROLE, "vector")
# Roles that a caller may declare, by the role that is meant if a kind of data lacks the first.
SYNONYMS = {
    "score": "rating",
    "rating": "score",
    "group": "label",
    "cluster": "label",
    "feature": "label",
}
ROLES = tuple(dict.fromkeys((*MAIN_ROLES, *SYNONYMS)))
_RECBOLE_TYPE = re.compile(r":(token|token_seq|float|float_seq)$")  # suffix of RecBole's headers
_IGNORED = re.compile(r"[\s_.\-]+")


def is_number_role(role: str) -> bool:
    """Return whether the column of a role holds numbers."""
    return role in NUMBER_ROLES or role.partition(" ")[0] == VALUE_ROLE


def fold(name: str) -> str:
    """Return a column's name in lower case, without characters and suffixes that do not matter."""
    return _IGNORED.sub("", _RECBOLE_TYPE.sub("", name.strip())).casefold()


_FOLDED = {role: tuple(dict.fromkeys(map(fold, names))) for role, names in COLUMNS.items()}
KNOWN = frozenset(name for names in _FOLDED.values() for name in names)


def find_column_name(columns: list[str], role: str, where: str) -> str | None:
    """Return the column with one of the names of a role; None if there is none."""
    by_folded: dict[str, list[str]] = {}
    for name in columns:
        by_folded.setdefault(fold(name), []).append(name)
    for folded in _FOLDED[role]:
        matches = by_folded.get(folded, [])
        if len(matches) > 1:
            raise InputError(
                f"{where} has the columns {matches[0]!r} and {matches[1]!r}, both for the {role}; "
                "rename or remove one."
            )
        if matches:
            return matches[0]
    return None


def find_column(columns: list[str], role: str, where: str, *, hint: str = "") -> str | None:
    """Return the column of a role; None for an optional role, `InputError` for a missing id.

    `hint` replaces the advice at the end of the message.
    """
    name = find_column_name(columns, role, where)
    if name is not None or role not in ID_ROLES:
        return name
    hint = hint or f"Rename the column with the {role} ids."
    others = (name for name in columns if fold(name) not in KNOWN)  # no names of other roles
    similar = next(filter(None, (did_you_mean(name, COLUMNS[role]) for name in others)), "")
    raise InputError(
        f"{where} has the columns {columns}; expected one named {COLUMNS[role][0]!r}"
        f" (or {', '.join(map(repr, COLUMNS[role][1:]))}).{similar} {hint}"
    )


def check_unique_columns(names: list[str], where: object) -> None:
    """Raise `InputError` if two columns have the same name."""
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise InputError(f"{where} has the column {duplicate!r} twice; rename or remove one.")
