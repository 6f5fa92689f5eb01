"""First sentences are found, listed by folder, and free of the riddles that were there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import children
from tests.first_sentences import by_folder, first_sentence, first_sentences

ROOT = Path(__file__).parents[1]
# Relative clauses that define a thing by what it is not, or before its noun, and beginnings that
# name no subject or lean on the sentence before.
RIDDLES = (
    r"\b(that is none|that are none|what is none|where that can be|of what \w+ by)\b"
    r"|^(What|Who|The same|Whether they|Those|Such|It|Its|They|Their)\b"
)


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("Sum of `x`, e.g. over `i`. Errors: none.", "Sum of `x`, e.g. over `i`."),
        ("Sum over\n    two lines. More.", "Sum over two lines."),
        ("Without an end\n\nMore.", "Without an end"),
        ("The DSL: `md_hom` and views.", "The DSL: `md_hom` and views."),
        ("Of 0.5 or more.", "Of 0.5 or more."),
    ],
)
def test_a_sentence_ends(docstring: str, sentence: str) -> None:
    assert first_sentence(docstring) == sentence


def test_all_that_a_file_defines_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""Module."""\n\nclass A:\n    """Class."""\n\n    def _b(self):\n        """Method."""\n'
        "\n\ndef without(): ...\n",
        encoding="utf-8",
    )
    found = [(each.line, each.name, each.text, each.public) for each in first_sentences(path)]
    assert found == [
        (1, "", "Module.", True),
        (3, "A", "Class.", True),
        (6, "A._b", "Method.", False),
    ]
    (_, sentences), *others = by_folder(tmp_path)
    assert [each.name for each in sentences] == ["", "A"]
    assert not others


@pytest.mark.process
def test_a_folder_is_printed() -> None:
    end = children.run("-m", "tests.first_sentences", "mdtensor/lower/ir")
    assert "mdtensor/lower/ir/" in end.lines
    assert re.search(r"^  index\.py:\d+ +Index +A sum of monomials", end.out, flags=re.MULTILINE)
    assert not re.search(r"^  \S+ +_", end.out, flags=re.MULTILINE)


def test_no_first_sentence_is_a_riddle() -> None:
    found = [
        f"{each.path.relative_to(ROOT)}:{each.line}: {each.text}"
        for _, sentences in by_folder(ROOT / "mdtensor", private=True)
        for each in sentences
        if re.search(RIDDLES, each.text)
    ]
    assert not found
