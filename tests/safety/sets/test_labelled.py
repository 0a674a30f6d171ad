import re
from pathlib import Path
from typing import Any

import pytest

from safety.pii.kinds import KINDS, SECRETS
from safety.sets.labelled import SHIPPED, InjectionText, SetError, Span, SpanText, load

LABELLED = load(SHIPPED)


def saved(folder: Path, data: bytes) -> Path:
    path = folder / "set.jsonl"
    path.write_bytes(data)
    return path


def test_a_line_has_spans_or_says_whether_it_is_an_injection(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        b'{"text": "a 10.1.2.3", "spans": [[2, 10, "ip_address"]], "language": "en", "genre": "log"}\n'
        b"\n"
        b'{"injection": false, "text": "hello", "family": "everyday"}\n',
    )
    assert load([path]) == (
        (SpanText(text="a 10.1.2.3", spans=(Span(2, 10, "ip_address"),), language="en", genre="log"),),
        (InjectionText(text="hello", injection=False, family="everyday"),),
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'"' + b"\xff" + b'"', "Expected `object`, got `str`"),
        (b'{"text": "\xff", "spans": []}', "is not UTF-8"),
        (b'{"text": "a"}', "needs either `spans` or `injection` beside `text`"),
        (b'{"text": "a", "spans": [], "injection": true}', "needs either `spans` or `injection` beside `text`"),
        (b'{"spans": []}', "missing required field `text`"),
        (b'{"text": 1, "injection": true}', "Expected `str`, got `int` - at `$.text`"),
        (b'{"text": "a", "injection": "yes"}', "Expected `bool`, got `str` - at `$.injection`"),
        (b'{"text": "a", "injection": true, "famly": ""}', "contains unknown field `famly`"),
        (b'{"text": "a", "spans": [[0, 1]]}', "Expected `array` of length 3 - at `$.spans[0]`"),
        (b'{"text": "a", "spans": [[0, "1", "email"]]}', "Expected `int`, got `str` - at `$.spans[0][1]`"),
        (b'{"text": "ab", "spans": [[0, 1, "x"], [1, 3, "x"]]}', "spans[1]: 1 to 3 is no stretch of a text of 2"),
        (b'{"text": "ab", "spans": [[1, 1, "x"]]}', "spans[0]: 1 to 1 is no stretch"),
        (b'{"text": "ab", "spans": [[-1, 1, "x"]]}', "spans[0]: -1 to 1 is no stretch"),
    ],
)
def test_an_error_names_file_and_line(tmp_path: Path, line: bytes, problem: str) -> None:
    path = saved(tmp_path, b'{"text": "", "spans": []}\n' + line + b"\n")
    with pytest.raises(SetError) as raised:
        load([path])
    assert str(raised.value).startswith(f"{path}:2: ")
    assert problem in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"\n  \n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_file_without_texts_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = saved(tmp_path, data)
    with pytest.raises(SetError, match=f"^{re.escape(str(path))}: is empty$"):
        load([path])


def test_a_byte_order_mark_may_begin_a_file(tmp_path: Path) -> None:
    line = b'\xef\xbb\xbf{"text": "a", "injection": true}\n'
    assert load([saved(tmp_path, line)]).injections == (InjectionText(text="a", injection=True),)
    with pytest.raises(SetError, match=r":2: "):
        load([saved(tmp_path, line + line)])


def test_deeply_nested_json_is_an_error(tmp_path: Path) -> None:
    path = saved(tmp_path, b'{"text": "", "spans": ' + b"[" * 100_000)
    with pytest.raises(SetError, match=re.escape(f"{path}:1: ")):
        load([path])


def test_a_file_that_is_missing_or_empty_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SetError, match=r"none\.jsonl: cannot be read: No such file"):
        load([tmp_path / "none.jsonl"])
    with pytest.raises(SetError, match="cannot be read: Is a directory"):
        load([tmp_path])
    with pytest.raises(SetError, match=r"set\.jsonl: is empty"):
        load([saved(tmp_path, b"")])


def test_the_shipped_sets_have_the_sizes_that_their_description_says() -> None:
    spans, injections = LABELLED
    assert len(spans) >= 600
    assert len(injections) >= 500
    assert 0.4 < sum(not text.spans for text in spans) / len(spans) < 0.5
    assert 0.45 < sum(text.injection for text in injections) / len(injections) < 0.55
    assert len({text.language for text in spans if text.spans}) >= 12
    assert len({text.language for text in injections if text.injection}) >= 10
    assert sum(path.stat().st_size for path in SHIPPED) < 600_000
    for texts in (spans, injections):
        assert len({text.text for text in texts}) == len(texts)
        assert all(text.language and text.genre for text in texts)


def test_the_labels_of_the_shipped_set_are_known_kinds_in_order() -> None:
    kinds = {span.kind for text in LABELLED.spans for span in text.spans}
    assert kinds <= set(KINDS)
    for text in LABELLED.spans:
        ends = [0]
        for start, end, _ in text.spans:
            assert ends[-1] <= start
            assert text.text[start:end] == text.text[start:end].strip()
            ends.append(end)


def luhn(digits: str) -> bool:
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0


def weighted(digits: str, weights: tuple[int, ...], divisor: int) -> bool:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True)) % divisor == 0


CHECKS: dict[str, Any] = {
    "credit_card": luhn,
    "ca_sin": luhn,
    "za_id": luhn,
    "se_personnummer": lambda digits: luhn(digits[-10:]),
    "uk_nhs": lambda digits: weighted(digits, (10, 9, 8, 7, 6, 5, 4, 3, 2, 1), 11),
    "nl_bsn": lambda digits: weighted(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1), 11),
    "pl_pesel": lambda digits: weighted(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), 10),
    "au_tfn": lambda digits: weighted(digits, (1, 4, 3, 7, 5, 8, 6, 9, 10), 11),
    "ch_ahv": lambda digits: weighted(digits, (1, 3) * 6 + (1,), 10),
    "fr_nir": lambda digits: (int(digits[:13]) + int(digits[13:])) % 97 == 0,
    "be_nn": lambda digits: (int(digits[:9]) + int(digits[9:])) % 97 == 0,
}


def iban(text: str) -> bool:
    compact = "".join(text.split()).upper()
    return int("".join(str(int(character, 36)) for character in compact[4:] + compact[:4])) % 97 == 1


@pytest.mark.parametrize("kind", [*CHECKS, "iban"])
def test_numbers_of_the_shipped_set_have_right_check_digits(kind: str) -> None:
    values = [text.text[start:end] for text in LABELLED.spans for start, end, named in text.spans if named == kind]
    assert values
    for value in values:
        assert iban(value) if kind == "iban" else CHECKS[kind](re.sub(r"\D", "", value)), value


def test_no_secret_stands_in_the_file_as_it_is() -> None:
    """Those who host code look for secrets in it, and need not find these."""
    file = SHIPPED[0].read_text(encoding="utf-8")
    secrets = [text.text[start:end] for text in LABELLED.spans for start, end, kind in text.spans if kind in SECRETS]
    assert len(secrets) > 50
    assert not [secret for secret in secrets if secret in file]
    assert "PRIVATE KEY" not in file
