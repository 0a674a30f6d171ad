"""The expression in a Python file, which is read and never run."""

from pathlib import Path

import pytest

from gateway.text.tokens.tiktoken_files.named_expression import expression_in
from gateway.text.tokens.tokenizer import TokenizerError


@pytest.mark.parametrize(
    ("source", "expression"),
    [
        ("pat_str = r'\\s+'", r"\s+"),
        ("PAT_STR: str = 'a' 'b' + 'c'", "abc"),
        ("class X:\n    def __init__(self):\n        self.pat_str = '|'.join(('a', 'b' + 'c'))", "a|bc"),
        ("Encoding(name, pat_str='x', mergeable_ranks=ranks)", "x"),
        ("pat_str = 'x'\nEncoding(pat_str=pat_str)\npat_str = 'x'", "x"),
    ],
)
def test_how_it_may_be_written(tmp_path: Path, source: str, expression: str) -> None:
    path = tmp_path / "tokenization_x.py"
    path.write_text(source)
    assert expression_in(path) == expression


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("pat_str = make()", "no different texts"),
        ("pat_str = f'{x}'", "no different texts"),
        ("pat_str = '|'.join(['a', x])", "no different texts"),
        ("pat_str = 'a'\nother.pat_str = 'b'", "2 different texts"),
        ("pat_str = (", "not a Python file that can be read: SyntaxError"),
        ("pat_str = 'a\0'", "not a Python file that can be read"),
        ("x = " + "(" * 5000, "not a Python file that can be read"),
        ("x = " + "-" * 100_000 + "1", "not a Python file that can be read"),
        ("# " + "x" * (1 << 20), "more than 1048576 bytes"),
    ],
)
def test_what_is_no_text_is_none(tmp_path: Path, source: str, fault: str) -> None:
    path = tmp_path / "tokenization_x.py"
    path.write_text(source)
    with pytest.raises(TokenizerError, match=fault):
        expression_in(path)
    with pytest.raises(TokenizerError, match="cannot be read"):
        expression_in(tmp_path / "not_there.py")
