"""What the journal is asked, and what it must not be asked."""

import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from observability.journal.entries import VERSION, ChangeEntry, RequestEntry, change_lines, request_lines
from observability.journal.query import TABLES, Answer, Period, QueryError, SegmentsRemoved, open_journal
from observability.outcome import Outcome
from observability.record import Verdict
from tests.observability.journal.journals import append, chain_of, files, record_of

ALWAYS = Period(0.0, 4e9)
FIRST = 1_750_000_000.5


@pytest.fixture(scope="module")
def journal() -> Iterator[Path]:
    """Three segments of one chain, the last one open, and one of another with an admin change."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "journal"
        chain = chain_of(folder / "worker-0")
        for start in (0, 10):
            records = [
                record_of(number, tenant=f"t{number % 2}", verdicts=[Verdict("pii", "flag", "prompt", "EMAIL", number)])
                for number in range(start, start + 10)
            ]
            for half in (records[:5], records[5:]):
                lines = request_lines(half)
                chain.append(lines.data, lines.entries)
            chain.seal()
        lines = request_lines([record_of(20, tenant="it's\u2028\x00ev\x1bil", outcome=Outcome.TIMEOUT, status=504)])
        chain.append(lines.data, lines.entries)
        chain.close()
        chain = chain_of(folder / "admin-0")
        change = ChangeEntry(VERSION, "5-0", record_time(), "cli:root", "key.create", "key_1", None, {"name": "x"})
        lines = change_lines([change])
        chain.append(lines.data, lines.entries)
        chain.close()
        yield folder


def record_time() -> Any:
    return datetime.fromtimestamp(FIRST, UTC)


def ask(folder: Path, table: str = "requests", period: Period = ALWAYS, **fields: Any) -> Answer:
    with open_journal(folder, period) as reader:
        assert reader.unreadable == []
        return reader.rows(table, period, **{"select": "id", "limit": 100, **fields})


def test_all_fields_are_there_and_what_a_line_leaves_out_is_empty(journal: Path) -> None:
    answer = ask(journal, select="*", limit=1)
    assert answer.columns == list(RequestEntry.__struct_fields__)
    row = dict(zip(answer.columns, answer.rows[0], strict=True))
    assert (row["id"], row["outcome"], row["status"], row["cost_nano_usd"]) == ("req_20", "timeout", 504, 1000)
    assert (row["finish"], row["cached_tokens"], row["stream"], row["verdicts"]) == ("", 0, False, [])
    assert (row["sent_us"], row["ended_us"], answer.more) == (None, 250_000, True)
    assert ask(journal, "changes", select="actor, after->>'name'").rows == [("cli:root", "x")]
    assert len(ask(journal, "journal", select="*").rows) == 4


def test_the_newest_come_first_and_sums_are_made_by_what_stands_beside_them(journal: Path) -> None:
    assert [row[0] for row in ask(journal, limit=3).rows] == ["req_20", "req_19", "req_18"]
    sums = ask(journal, select="tenant, count(*), sum(cost_nano_usd)::BIGINT").rows
    assert sums == [("it's\u2028\x00ev\x1bil", 1, 1000), ("t0", 10, 10_000), ("t1", 10, 10_000)]
    assert sorted(ask(journal, select="DISTINCT status").rows) == [(200,), (504,)]
    assert ask(journal, select="list_max([v.times for v in verdicts])", limit=2).rows == [(None,), (19,)]


def test_tenants_and_periods(journal: Path) -> None:
    assert len(ask(journal, tenant="t1").rows) == 10
    assert ask(journal, tenant="it's\u2028\x00ev\x1bil").rows == [("req_20",)]
    assert [row[0] for row in ask(journal, period=Period(FIRST + 3, FIRST + 5)).rows] == ["req_4", "req_3"]
    # However an expression tries, it only narrows what was asked for.
    assert len(ask(journal, tenant="t1", where="true) OR (true").rows) == 10


HOSTILE = [
    "EXISTS (SELECT * FROM read_text('/etc/passwd'))",
    "EXISTS (SELECT * FROM read_csv('/etc/passwd'))",
    "EXISTS (SELECT * FROM '/etc/passwd')",
    "EXISTS (SELECT * FROM glob('/etc/*'))",
    "id = getenv('HOME')",
    "true); COPY (SELECT 1) TO '{out}' --",
    "true); COPY (SELECT 1) TO '{segment}' (USE_TMP_FILE false) --",
    "true); ATTACH '{out}' --",
    "true); SET enable_external_access = true --",
    "true); INSTALL httpfs; LOAD httpfs --",
    "true); DROP VIEW requests --",
    "true) UNION SELECT content FROM read_text('/etc/passwd') --",
    "",
    "tenant = 'acme",
    "status >",
]


@pytest.mark.parametrize("option", ["where", "select"])
@pytest.mark.parametrize("words", HOSTILE)
def test_an_expression_reads_and_writes_nothing_else(journal: Path, tmp_path: Path, words: str, option: str) -> None:
    segments = {path: path.read_bytes() for path in files(journal)}
    words = words.format(out=tmp_path / "out", segment=files(journal)[1])
    for text in {words, words.replace("true)", "1"), words.replace("true)", "1 FROM requests")}:
        with pytest.raises(QueryError, match=r"^--(where|select): "):
            ask(journal, where=text) if option == "where" else ask(journal, select=text)
    assert list(tmp_path.iterdir()) == []
    assert {path: path.read_bytes() for path in files(journal)} == segments


def test_a_bad_field_is_named(journal: Path) -> None:
    with pytest.raises(QueryError, match=r'^--where: .*"tenat".*"tenant"'):
        ask(journal, where="tenat = 'x'")
    with pytest.raises(QueryError, match=r'^--select: .*"foo"'):
        ask(journal, select="id, foo")
    with pytest.raises(QueryError, match=r"^--where: .*'abc'"):
        ask(journal, where="status = 'abc'")


def test_of_a_damaged_segment_the_rest_is_read_and_that_is_said(journal: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(journal, copy)
    first, second, third = files(copy)[1:]
    first.chmod(0o600)
    first.write_bytes(first.read_bytes()[:-9])
    second.unlink()
    third.write_bytes(third.read_bytes() + b"torn")
    with open_journal(copy, ALWAYS) as reader:
        assert len(reader.rows("requests", ALWAYS, select="id", limit=100).rows) == 6
        assert [line.partition(": ")[0] for line in reader.unreadable] == [str(first)]
        assert "the rest is read" in reader.unreadable[0]


def test_a_segment_that_cannot_be_opened(journal: Path, tmp_path: Path) -> None:
    chain = chain_of(tmp_path / "worker-0")
    append(chain, 0)
    chain.close()
    (tmp_path / "worker-0" / f"{'0' * 16}-00000001.ndjson.zst").mkdir()
    with open_journal(tmp_path, ALWAYS) as reader:
        assert len(reader.rows("requests", ALWAYS, select="id", limit=9).rows) == 3
        assert ["Is a directory" in line for line in reader.unreadable] == [True]


def test_a_journal_with_nothing_in_it(tmp_path: Path) -> None:
    for table in TABLES:
        assert ask(tmp_path, table, select="*").rows == []
    assert ask(tmp_path, select="count(*)").rows == [(0,)]
    with pytest.raises(FileNotFoundError), open_journal(tmp_path / "nowhere", ALWAYS):
        pass


def test_old_segments_are_not_even_opened(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = Period(3.9e9, 4e9)
    sealed = [path for path in files(journal) if ".open" not in path.name]
    for path in sealed:
        path.chmod(0)
    try:
        assert ask(journal, period=later).rows == []
    finally:
        for path in sealed:
            path.chmod(0o400)


def test_anybody_can_read_segments_as_they_are(journal: Path) -> None:
    with duckdb.connect(":memory:") as connection:
        found = connection.execute(f"SELECT count(*) FROM '{journal}/worker-*/*.ndjson.zst'").fetchall()
    assert found == [(21 + 3,)]


def test_segments_that_are_removed_meanwhile_are_no_riddle(journal: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(journal, copy)
    with open_journal(copy, ALWAYS) as reader:
        files(copy)[1].unlink()
        with pytest.raises(SegmentsRemoved):
            reader.rows("requests", ALWAYS, select="id", limit=1)
