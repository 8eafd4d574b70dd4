"""Tables of values with marks, in every language that a paper, a page or a terminal reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.errors import check_choice
from weft.statistics.markup import (
    escape_html,
    escape_latex,
    escape_markdown,
    escape_typst,
    html_table,
    latex_table,
    markdown_table,
    typst_table,
)


@dataclass(frozen=True)
class TextCell:
    """A value as text, not escaped: `0.1234 ± 0.0012`, its mark (a superscript), and its rank.

    `margin` follows the value: `± 0.0012`, `[0.1, 0.2]`, `(+4.5%)`.
    """

    text: str
    margin: str = ""
    mark: str = ""
    is_best: bool = False
    is_second: bool = False


@dataclass(frozen=True)
class TextTable:
    """A table; all but the first `words` columns are numbers. `notes` explain it."""

    head: Sequence[str]
    rows: Sequence[Sequence[TextCell]]
    notes: Sequence[str] = ()
    words: int = 1

    def render(self, form: str, *, caption: str | None = None, label: str | None = None) -> str:
        """Return the table in one of `LANGUAGES`; `caption` is in that language."""
        language = LANGUAGES[check_choice("format", form, tuple(LANGUAGES))]
        head = [language.escape(title) for title in self.head]
        rows = [[language.format(cell) for cell in row] for row in self.rows]
        return language.write(head, rows, self.notes, self.words, caption=caption, label=label)


@dataclass(frozen=True)
class Language:
    """How a language writes text, bold and underlined numbers, superscripts and tables."""

    escape: Callable[[str], str]
    bold: tuple[str, str]  # before and after the text
    underline: tuple[str, str]
    superscript: tuple[str, str]
    write: Callable[..., str]

    def format(self, cell: TextCell) -> str:
        """Return the text of a cell in this language."""
        text = self.escape(cell.text)
        if cell.is_best:
            text = text.join(self.bold)
        elif cell.is_second:
            text = text.join(self.underline)
        if cell.mark:
            text += self.escape(cell.mark).join(self.superscript)
        return f"{text} {self.escape(cell.margin)}" if cell.margin else text


def _write_markdown(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str],
    words: int,
    *,
    caption: str | None,
    label: str | None,
) -> str:
    """Return a pipe table below its caption; Markdown has no labels."""
    above = "" if caption is None else f"{caption}\n\n"
    below = f"\n{escape_markdown('; '.join(notes))}.\n" if notes else ""
    return above + markdown_table(head, rows, words) + below


LANGUAGES = {
    "markdown": Language(
        escape_markdown, ("**", "**"), ("<ins>", "</ins>"), (" ", ""), _write_markdown
    ),
    "latex": Language(
        escape_latex,
        (r"\textbf{", "}"),
        (r"\underline{", "}"),
        (r"\textsuperscript{", "}"),
        latex_table,
    ),
    "html": Language(
        escape_html, ("<b>", "</b>"), ("<u>", "</u>"), ("<sup>", "</sup>"), html_table
    ),
    "typst": Language(
        escape_typst, ("#strong[", "]"), ("#underline[", "]"), ("#super[", "]"), typst_table
    ),
}
