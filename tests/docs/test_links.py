"""Links between the project's documents, and to its files and headings, lead somewhere."""

import re
import string
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
#: Folders with documents of the project; what else lies in the root was installed or made.
FOLDERS = sorted(path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
DOCUMENTS = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(found for folder in FOLDERS for found in folder.rglob("*.md"))]
    if "node_modules" not in path.parts
)
CODE_BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
#: What GitHub leaves out of a heading's anchor.
PUNCTUATION = str.maketrans("", "", string.punctuation.replace("-", "").replace("_", "") + "’“”…")


def anchors(markdown: str) -> set[str]:
    """The anchors that GitHub gives to a document's headings."""
    seen: Counter[str] = Counter()
    found = set()
    for title in HEADING.findall(CODE_BLOCK.sub("", markdown)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        anchor = words.lower().translate(PUNCTUATION).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def broken_links(document: Path) -> list[str]:
    """The links of a document that lead to no file of the project, or to no heading of it."""
    text = CODE.sub("", CODE_BLOCK.sub("", document.read_text(encoding="utf-8")))
    broken = []
    for link in LINK.findall(text):
        path, _, anchor = unquote(link).partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = (document.parent / path).resolve() if path else document
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


def test_the_documents_are_found() -> None:
    assert {"README.md", "docs/architecture.md", "safety/sets/README.md"} <= {
        path.relative_to(ROOT).as_posix() for path in DOCUMENTS
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    assert broken_links(document) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "# What it costs (us)\n## Twice\n## Twice\n[a](#what-it-costs-us) [b](#twice-1) [c](#twice-2) [d](gone.md)\n"
        "[e](page.md#twice) [f](page.md#nowhere) [g](https://example.com/gone) `[h](gone.md)`\n",
        encoding="utf-8",
    )
    assert broken_links(document) == ["#twice-2", "gone.md", "page.md#nowhere"]
