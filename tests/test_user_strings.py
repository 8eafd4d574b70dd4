"""Texts that users read follow the rules of style that a program can check."""

import re

import pytest

from user_strings import UserString, strings_of_module, user_strings

TEXTS = user_strings()

# Words and phrases that are not the plain technical English of the Python data ecosystem.
FORBIDDEN = {
    r"\bwhoever\b": "users",
    r"\b(everybody|nobody|somebody)\b": "all users, no user",
    r"\b(lie|lies) in\b": "is in",
    r"\bis had\b": "is available",
    r"\bnever what comes out\b": "does not change results",
    r"\bwhat (users|they) wanted\b": "ground truth",
    r"\bwhat was (found|gathered|offered)\b": "values, state, candidates",
    r"\bof everything random\b": "random seed",
    r"\blook whether\b": "check whether",
    r"\bput together\b": "merged",
    r"\bone by one\b": "separately",
    r"\bclose(s)? up\b": "move up",
    r"\bof one's own\b": "custom",
    r"\bwhole numbers?\b": "integer",
    r"\bfrom (\d|n) up\b": "of at least 1",
    r"(?<!there )\b(is|are) no (?!longer)\w": "is not a",
    r"\babsorbs?\b": "is merged with",
    r"\blook(s|ed)? up\b": "reads",
    r"\bcannot be gathered\b": "cannot be synchronized",
    r"\bcannot take\b": "cannot load, cannot use",
    r"\bas many\b": "the same number",
    r"\btell whether\b": "is unknown",
    r"\binside of\b|\boutside of\b": "inside, outside, nested",
    r"[;,] leave (it|them) out\b": "remove it",
    r"[;,] keep one\b": "remove one",
    r"\bof (its|their|your) own\b": "its own",
    r"\basked for\b": "is empty, is missing",
    r"\bas of a\b": "a valid Python identifier",
    r"\bhas no meaning\b": "is not supported, is ignored, has no effect",
    r"\bswallow": "ignore",
    r"\bnot here\b": "not on this machine",
}
# Packages with descriptions of settings; those of inputs of metrics are parts of sentences.
_MODELS = ("cli/", "config/", "evaluation/")
# Titles of generated films, which are data.
_DATA = ("cli/demo/demo_data.py",)


def find_faults(text: UserString) -> list[str]:
    """Return the rules that a text breaks."""
    faults = [
        f"{word} (write: {better})"
        for word, better in FORBIDDEN.items()
        if re.search(word, text.text, re.IGNORECASE)
    ]
    prose = re.sub(r"\{[^{}]*\}", "x", text.text)
    is_sentence = text.kind in ("error", "description") and " " in prose.strip()
    # Alternatives inside an error, and messages that end with another message, have no stop.
    if text.kind == "description" and is_sentence and text.path.startswith(_MODELS):
        faults += [] if text.text.endswith((".", "}")) else ["no full stop at the end"]
        faults += [] if re.match(r"[A-Z{'\[]", text.text) else ["no capital letter"]
    is_layout = text.kind in ("help", "text")
    if not is_layout and re.search(r"\S  +\S", prose):
        faults.append("two spaces")
    if text.kind != "text" and re.search(r" [,;:](\s|$)", prose):
        faults.append("a space before punctuation")
    if text.kind != "help" and re.search(r"\b(\w{2,}) \1\b", prose):  # examples of commands
        faults.append("a word twice")
    return faults


def test_texts_follow_the_style():
    faults = [
        f"{text.place}: {fault}: {text.text!r}"
        for text in TEXTS
        if text.path not in _DATA
        for fault in find_faults(text)
    ]
    assert not faults, "\n".join(faults)


def test_error_messages_are_sentences_or_parts_of_one():
    ends = (".", "}", ":", ")", "'", "...", "?", " ")
    faults = [
        f"{text.place}: {text.text!r}"
        for text in TEXTS
        if text.kind == "error" and text.path.startswith(("cli/", "config/", "data/"))
        if " " in text.text and not text.text.endswith(ends)
    ]
    # Reasons that another message completes.
    assert {fault.partition(":")[0] for fault in faults} <= {"data/readers/json_text.py"}, faults


@pytest.mark.parametrize(
    ("code", "kind", "fault"),
    [
        ('raise InputError(f"{a}: whoever has it.")', "error", "whoever"),
        ('Field(description="number of users")', "description", "no full stop"),
        ('Field(description="number of users.")', "description", "no capital letter"),
        ('typer.Option(help="Files lie in a folder.")', "help", "in"),
        ('raise InputError("two  spaces.")', "error", "two spaces"),
        ('raise InputError("the the item.")', "error", "a word twice"),
        ('warn_about_input("Nobody is there.")', "warning", "nobody"),
    ],
)
def test_faults_are_found(code, kind, fault):
    (text,) = strings_of_module(code, "cli/x.py")
    assert text.kind == kind and any(fault in one for one in find_faults(text))


def test_all_kinds_of_texts_are_extracted():
    code = '''
def split(path: Annotated[str, typer.Argument(help="File.")] = "a", n: int = 1):
    """Split a file.

    Examples: weft split
    """
    """Not a text."""
    assert n, "not a text either"
    raise SettingError(f"got {n + 1} and " f"{'no one' if n else 'a few'} files.")


TITLE = "Results of models"
TABLE["not a text"]
'''
    found = {(text.kind, text.text) for text in strings_of_module(code, "cli/split_command.py")}
    assert found == {
        ("help", "File."),
        ("help", "Split a file.\n\nExamples: weft split"),
        ("error", "got {n + 1} and {'no one' if n else 'a few'} files."),
        ("text", "no one"),
        ("text", "a few"),
        ("text", "Results of models"),
    }
    kinds = {text.kind for text in TEXTS}
    assert kinds >= {"error", "warning", "help", "description", "heading", "text"}
    assert len(TEXTS) > 2000
