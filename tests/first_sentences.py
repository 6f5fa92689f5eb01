"""The first sentence of every docstring, by folder, to be read in one go.

`python -m tests.first_sentences [FOLDER] [--private]` prints a line for each module, class and
public function under FOLDER (`mdtensor` unless told): where it is, its name, its first sentence.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A full stop ends a sentence where a capital, a quotation or a piece of code follows it.
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'*]|>>>|\Z)|\n\s*\n|(?<=[.!?])\s*\Z")
NAMED = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class FirstSentence:
    """What a module, a class or a function says of itself first."""

    path: Path
    line: int
    name: str
    text: str

    @property
    def public(self) -> bool:
        """Whether no part of the dotted name begins with an underscore."""
        return not any(part.startswith("_") for part in self.name.split("."))


def first_sentence(docstring: str) -> str:
    """The text up to the end of its first sentence or paragraph, on one line.

    >>> first_sentence("Sum `x`, e.g. over `i`. Errors: none.")
    'Sum `x`, e.g. over `i`.'
    """
    return " ".join(END.split(docstring.strip(), maxsplit=1)[0].split())


def first_sentences(path: Path) -> Iterator[FirstSentence]:
    """Of a file of Python: the module's sentence, then those of what it defines, in order."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = ast.get_docstring(tree)
    if module:
        yield FirstSentence(path, 1, "", first_sentence(module))
    yield from _defined(path, tree, "")


def _defined(path: Path, node: ast.AST, prefix: str) -> Iterator[FirstSentence]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, NAMED):
            yield from _defined(path, child, prefix)
            continue
        name = prefix + child.name
        docstring = ast.get_docstring(child)
        if docstring:
            yield FirstSentence(path, child.lineno, name, first_sentence(docstring))
        yield from _defined(path, child, f"{name}.")


def by_folder(folder: Path, *, private: bool = False) -> Iterator[tuple[Path, list[FirstSentence]]]:
    """Each folder that holds Python, with the sentences of its files."""
    paths = sorted(folder.rglob("*.py"), key=lambda path: (path.parent, path.name))
    sentences: dict[Path, list[FirstSentence]] = {}
    for path in paths:
        for sentence in first_sentences(path):
            if private or sentence.public:
                sentences.setdefault(path.parent, []).append(sentence)
    yield from sentences.items()


def main() -> None:
    """Print the sentences that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "mdtensor")
    parser.add_argument("--private", action="store_true", help="names with an underscore, too")
    options = parser.parse_args()
    for folder, sentences in by_folder(options.folder.resolve(), private=options.private):
        print(f"\n{folder.relative_to(ROOT)}/")
        for sentence in sentences:
            place = f"{sentence.path.name}:{sentence.line}"
            print(f"  {place:<34} {sentence.name:<32} {sentence.text}")


if __name__ == "__main__":
    main()
