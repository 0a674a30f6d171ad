from pathlib import Path

import pytest

from loadtest.simulation.request_traces import TraceError, read_trace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:06.0000000,110,0
"""
MOONCAKE = """{"timestamp": 500, "input_length": 1100, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 1024, "output_length": 7, "hash_ids": [0, 1]}

{"timestamp": 27482, "input_length": 600, "output_length": 1, "hash_ids": [0, 9], "more": "ignored"}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    return path


def test_azures_csv(tmp_path: Path) -> None:
    requests = read_trace(written(tmp_path, AZURE))
    assert [(r.prompt_tokens, r.output_tokens) for r in requests] == [(4808, 10), (3180, 8), (110, 1)]
    assert [r.arrival for r in requests] == pytest.approx([0.0, 0.052, 2.02004], abs=1e-6)
    assert not any(r.chain for r in requests)


def test_mooncakes_json_lines(tmp_path: Path) -> None:
    second, first, third = read_trace(written(tmp_path, MOONCAKE))
    assert (first.arrival, first.prompt_tokens, first.output_tokens) == (0.5, 1100, 500)
    assert (second.arrival, third.arrival) == (0.0, 27.482)
    # 512 tokens of an id are 16 blocks of 32; the last, partial block of a prompt has no name.
    assert [len(r.chain) for r in (first, second, third)] == [34, 32, 18]
    assert first.chain[:32] == second.chain
    assert third.chain[:16] == second.chain[:16]
    assert third.chain[16] not in first.chain
    names = [*first.chain, *third.chain[16:]]
    assert len(set(names)) == len(names)
    assert all(0 <= name < 2**64 for name in names)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: neither JSON lines nor a CSV header with TIMESTAMP"),
        ("TIMESTAMP,ContextTokens\n", "line 1: neither JSON lines nor a CSV header with GeneratedTokens"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no requests in it"),
        (AZURE + "today,1,1\n", "line 5: TIMESTAMP: 'today' is no date"),
        (AZURE + "2023-11-16 18:17:04,many,1\n", "line 5: ContextTokens: 'many' is no whole number"),
        (AZURE + "2023-11-16 18:17:04,1,-1\n", "line 5: GeneratedTokens: -1 is not between"),
        (AZURE + "2023-11-16 18:17:04,1\n", "line 5: 2 fields where the header has 3"),
        (AZURE + "2023-11-16 18:17:04+00:00,1,1\n", "line 5: TIMESTAMP: some have a time zone"),
        (MOONCAKE + "{", "line 5: "),
        (MOONCAKE + "[]", "line 5: expected `object`, got `array`"),
        ('{"timestamp": 0, "input_length": 1, "hash_ids": [1]}', r"line 1: .* missing required field `output_length`"),
        ('{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": [1]}', r"line 1: .*`\$.input_length`"),
        ('{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]}', "line 1: hash_ids: 1 of 512"),
    ],
)
def test_an_error_names_file_line_and_field(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(TraceError, match="(?i)" + problem) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere"):
        read_trace(tmp_path / "nowhere")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(TraceError, match="binary"):
        read_trace(tmp_path / "binary")
