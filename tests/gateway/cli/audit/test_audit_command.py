"""`penstock audit`."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from observability.journal.entries import request_lines
from observability.journal.signer import Signer, create_key
from observability.outcome import Outcome
from tests.observability.journal.journals import chain_of, files, record_of

CONFIG = """
state: state
models: [{name: m, tokenizer: penstock-mini, context: 1000, pools: [{name: p, engine: simulated, replicas: 1}]}]
"""
ALL = ("--since", "2025-01-01")


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A configuration whose journal has six requests, and a key."""
    path = tmp_path / "penstock.yaml"
    path.write_text(CONFIG)
    signer = Signer(create_key(tmp_path / "state" / "journal.key"))
    chain = chain_of(tmp_path / "state" / "journal" / "worker-0", signer)
    for tenant in ("acme", "<b>\x1b[31m"):
        records = [
            record_of(number, tenant=tenant, outcome=Outcome.TIMEOUT if number else Outcome.OK, cached_tokens=4)
            for number in range(3)
        ]
        lines = request_lines(records)
        chain.append(lines.data, lines.entries)
        chain.seal()
    chain.close()
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    assert main(["audit", *arguments]) == status
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_verify(capsys: pytest.CaptureFixture[str], config: str, tmp_path: Path) -> None:
    out, _ = said(capsys, "verify", "--config", config)
    assert "1 chains, 2 segments, 2 blocks (2 with a key), 8 entries; 0 records were lost" in out
    assert out.endswith("the journal is whole and unchanged\n")
    folder, key = tmp_path / "state" / "journal", tmp_path / "state" / "journal.key"
    assert said(capsys, "verify", "--folder", str(folder), "--key-file", str(key)) == (out, "")
    path = files(folder)[0]
    path.chmod(0o600)
    content = path.read_bytes()
    path.write_bytes(content[:300] + bytes([content[300] ^ 1]) + content[301:])
    out, _ = said(capsys, "verify", "--config", config, status=1)
    assert f"PROBLEM: {path}: block 1 at byte 0: a block's lines are not what was written" in out
    assert out.endswith("the journal is NOT what was written\n")
    report = json.loads(said(capsys, "verify", "--config", config, "--json", status=1)[0])
    assert (report["segments"], report["problems"][0]["offset"]) == (2, 0)


def test_verify_what_cannot_be_read(capsys: pytest.CaptureFixture[str], config: str, tmp_path: Path) -> None:
    assert "there is no such folder" in said(capsys, "verify", "--folder", str(tmp_path / "no"), status=2)[1]
    assert (
        "journal.key" in said(capsys, "verify", "--folder", str(tmp_path), "--key-file", "/no/journal.key", status=2)[1]
    )
    assert "no.yaml" in said(capsys, "verify", "--config", str(tmp_path / "no.yaml"), status=2)[1]


def test_query_shows_a_table_that_no_tenant_can_spoil(capsys: pytest.CaptureFixture[str], config: str) -> None:
    out, err = said(capsys, "query", "--config", config, *ALL)
    header, *rows = out.splitlines()
    assert header.split()[:4] == ["TIME", "ID", "TENANT", "MODEL"]
    assert len(rows) == 6
    assert "\\x1b[31m" in out
    assert ("\x1b" in out, err) == (False, "")
    assert len(said(capsys, "query", "--config", config, *ALL, "--tenant", "acme")[0].splitlines()) == 4
    out, err = said(capsys, "query", "--config", config, *ALL, "--limit", "2")
    assert (len(out.splitlines()), err) == (3, "penstock audit query: there is more; --limit says how much is shown\n")
    assert said(capsys, "query", "--config", config)[0] == "nothing was found\n"


def test_query_as_json_and_csv(capsys: pytest.CaptureFixture[str], config: str) -> None:
    asked = ("query", "--config", config, *ALL, "--where", "outcome = 'timeout' and tenant like '<%'")
    selected = ("--select", "time, id, tenant, verdicts, cost_nano_usd / 1e9 as usd")
    rows: list[dict[str, Any]] = json.loads(said(capsys, *asked, *selected, "--format", "json")[0])
    assert [row["id"] for row in rows] == ["req_2", "req_1"]
    assert (rows[0]["time"], rows[0]["tenant"]) == ("2025-06-15T15:06:42.500000Z", "<b>\x1b[31m")
    text = said(capsys, *asked, *selected, "--format", "csv")[0]
    read = list(csv.DictReader(io.StringIO(text)))
    assert [(row["id"], row["usd"]) for row in read] == [("req_2", "1e-06"), ("req_1", "1e-06")]


def test_what_happened_to_the_journal(capsys: pytest.CaptureFixture[str], config: str) -> None:
    rows = json.loads(said(capsys, "query", "--config", config, "--of", "journal", "--format", "json")[0])
    assert [row["event"] for row in rows] == ["opened"] * 2
    assert said(capsys, "query", "--config", config, "--of", "changes")[0] == "nothing was found\n"
    assert (
        "only requests have"
        in said(capsys, "query", "--config", config, "--of", "changes", "--tenant", "a", status=1)[1]
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["query", "--where", "tenat = 'x'"], '--where: Referenced column "tenat" not found'),
        (["query", "--select", "foo"], '--select: Referenced column "foo" not found'),
        (["query", "--where", "EXISTS (FROM read_text('/etc/passwd'))"], "--where: Cannot access file"),
        (["query", "--since", "7q"], '--since: expected a duration such as 24h, 30d or 0s, got "7q"'),
        (["query", "--until", "x\n"], "--until: expected a duration"),
        (["usage", "--by", "tenant,shoe"], "--by: expected some of tenant, model, key,"),
        (["usage", "--folder", "/no/such"], "/no/such: there is no such folder"),
    ],
)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], config: str, arguments: list[str], problem: str
) -> None:
    out, err = said(capsys, *arguments, "--config", config, status=1)
    assert (out, err.count("\n")) == ("", 1)
    assert problem in err


def test_usage(capsys: pytest.CaptureFixture[str], config: str) -> None:
    out = said(capsys, "usage", "--config", config, *ALL, "--by", "tenant, day")[0]
    assert [line.split() for line in out.splitlines()] == [
        ["TENANT", "DAY", "REQUESTS", "FAILED", "INPUT", "CACHED", "OUTPUT", "REJECTED", "USD"],
        ["<b>\\x1b[31m", "2025-06-15", "3", "2", "18", "12", "9", "0", "3e-06"],
        ["acme", "2025-06-15", "3", "2", "18", "12", "9", "0", "3e-06"],
    ]
    rows = json.loads(said(capsys, "usage", "--config", config, *ALL, "--by", "month", "--format", "json")[0])
    assert rows == [
        {
            "month": "2025-06",
            "requests": 6,
            "failed": 4,
            "input": 36,
            "cached": 24,
            "output": 18,
            "rejected": 0,
            "usd": 6e-06,
        }
    ]
    for by in ("key", "tier", "endpoint", "pool", "replica", "outcome", "hour", "model"):
        assert len(said(capsys, "usage", "--config", config, *ALL, "--by", by)[0].splitlines()) >= 2


def test_a_damaged_segment_is_said_and_the_rest_is_shown(
    capsys: pytest.CaptureFixture[str], config: str, tmp_path: Path
) -> None:
    path = files(tmp_path / "state" / "journal")[0]
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[50:])
    out, err = said(capsys, "query", "--config", config, *ALL)
    assert len(out.splitlines()) == 4
    assert err.startswith(f"penstock audit query: {path}: damaged at byte 0: no block begins here; the rest is read")


def test_bench(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = said(capsys, "bench", "--folder", str(tmp_path), "--records", "1000", "--rate", "100000")[0]
    assert "1,000, of which 1,000 are durable and 0 were lost" in out
    assert list(tmp_path.iterdir()) == []
    assert "No such file" in said(capsys, "bench", "--folder", str(tmp_path / "no"), status=1)[1]
