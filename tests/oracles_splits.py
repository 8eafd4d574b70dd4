"""Splits in plain Python, written from their definitions: a row is (user, item, time)."""

import hashlib
from collections import defaultdict
from fractions import Fraction

MASK = 2**64 - 1


def id_key(value):
    """Return the number of an id, from the digest of its text."""
    return int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=8).digest(), "little")


def mix(*numbers):
    """Return the hash of some numbers."""
    mixed = 0x9E3779B97F4A7C15
    for number in numbers:
        mixed = ((mixed ^ (number & MASK)) * 0xBF58476D1CE4E5B9) & MASK
        mixed ^= mixed >> 29
    mixed = (mixed * 0x94D049BB133111EB) & MASK
    return mixed ^ (mixed >> 32)


def pair_key(seed, row):
    return mix(seed, id_key(row[0]), id_key(row[1]))


def floor_share(share, number):
    """Return a share of a number, rounded down; the share is meant as it is written."""
    return int(Fraction(str(share or 0)) * number)


def by_user(rows):
    users = defaultdict(list)
    for row in rows:
        users[row[0]].append(row)
    return users


def take_last_groups(rows, key, number):
    """Return the latest rows, at most `number`, so that rows with the same key stay together."""
    taken = []
    for value in sorted({key(row) for row in rows}, reverse=True):
        group = [row for row in rows if key(row) == value]
        if len(taken) + len(group) > number:
            break
        taken += group
    return taken


def hold_out(rows, take, num_test, num_validation):
    """Return {row: part}, where `take(number)` gives the last rows, at most this number."""
    test, held_out = take(num_test), take(num_test + num_validation)
    parts = dict.fromkeys(rows, "train")
    parts |= dict.fromkeys(held_out, "validation")
    return parts | dict.fromkeys(test, "test")


def timeline(rows, *, test_share, validation_share=None):
    numbers = (floor_share(share, len(rows)) for share in (test_share, validation_share))
    return hold_out(
        rows, lambda number: take_last_groups(rows, lambda row: row[2], number), *numbers
    )


def timeline_at(rows, *, test_from, validation_from=None):
    parts = {}
    for row in rows:
        parts[row] = "train"
        if validation_from is not None and row[2] >= validation_from:
            parts[row] = "validation"
        if row[2] >= test_from:
            parts[row] = "test"
    return parts


def last_of_users(rows, count, *, seed, ties):
    """Split each user's rows by time; `count(size)` is (number of test, of validation) rows."""
    parts = {}
    for own in by_user(rows).values():
        if ties == "together":

            def take(number, own=own):
                return take_last_groups(own, lambda row: row[2], number)
        else:
            ordered = sorted(own, key=lambda row: (row[2], pair_key(seed, row)))

            def take(number, ordered=ordered):
                return ordered[len(ordered) - number :]

        parts |= hold_out(own, take, *count(len(own)))
    return parts


def user_timeline(rows, *, test_share, validation_share=None, seed=0, ties="break"):
    shares = (test_share, validation_share)
    return last_of_users(
        rows, lambda size: [floor_share(share, size) for share in shares], seed=seed, ties=ties
    )


def leave_last_out(rows, *, n, validation_n=0, seed=0, ties="break"):
    return last_of_users(
        rows,
        lambda size: (n, validation_n) if size >= n + validation_n + 1 else (0, 0),
        seed=seed,
        ties=ties,
    )


def random_per_user(rows, *, test_share, validation_share=None, seed=0):
    parts = {}
    for own in by_user(rows).values():
        numbers = [floor_share(share, len(own)) for share in (test_share, validation_share)]
        ordered = sorted(own, key=lambda row: pair_key(seed, row))
        parts |= hold_out(
            own, lambda number, ordered=ordered: ordered[-number:] if number else [], *numbers
        )
    return parts


def random_global(rows, *, test_share, validation_share=None, seed=0):
    test = Fraction(str(test_share))
    held_out = test + Fraction(str(validation_share or 0))
    parts = {}
    for row in rows:
        place = Fraction(pair_key(seed, row), 2**64)
        parts[row] = "test" if place < test else "validation" if place < held_out else "train"
    return parts


def folds_per_user(rows, *, folds, seed=0):
    parts = {}
    for user, own in by_user(rows).items():
        start = mix(seed, id_key(user)) % folds
        for rank, row in enumerate(sorted(own, key=lambda row: pair_key(seed, row))):
            parts[row] = (start + rank) % folds + 1
    return parts


def folds_global(rows, *, folds, seed=0):
    return {row: (pair_key(seed, row) >> 32) * folds // 2**32 + 1 for row in rows}


def core(rows, *, users, items):
    """Return the rows of the largest set in which every user and item has enough rows."""
    while True:
        kept = [
            row
            for row in rows
            if sum(other[0] == row[0] for other in rows) >= users
            and sum(other[1] == row[1] for other in rows) >= items
        ]
        if kept == rows:
            return kept
        rows = kept
