"""Files that are made to take long take no longer than their length asks for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.scan.scan import scan
from tests.complexity import LINEAR, growth

#: A file's name -> its beginning, and what is repeated in it.
FILES = {
    "comments.js": ("", "/*\n"),
    "models.js": ("import 'openai'\nnew OpenAI({})\n", "model: 'gpt-4o',\n"),
    "clients.js": ("import 'openai'\n", "new OpenAI({\n"),
    "blanks.js": ("", "a.b ( \n"),
    "calls.py": ("from openai import OpenAI\nOpenAI()\nOpenAI()\n", "c.chat.completions.create(model=m)\n"),
    "names.py": ("x(model=m)\n", "m = m + m\n"),
    "clones.sh": ("git clone", " --a"),
    "serving.sh": ("", "vllm serve \\\n"),
    "variables.env": ("", "OPENAI_MODEL=gpt-4o\n"),
    "lists.yaml": ("", "- {model: a}\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_the_time_grows_with_the_length(name: str, tmp_path: Path) -> None:
    start, repeated = FILES[name]

    def work(size: int) -> Callable[[], object]:
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / name).write_text(start + repeated * (size // len(repeated)))
        return lambda: scan(folder)

    assert growth(work, 16_000) < LINEAR


def test_lists_that_name_each_other_are_not_written_out(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "laughs.yaml").write_text("\n".join(lines))
    assert scan(tmp_path).findings == []
