"""What `penstock top` draws: figures, at any size, whatever the names are."""

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from gateway.admin.limit_operations import BudgetUse, LimitUse, ScopeLimits
from gateway.admin.live.live_snapshot import snapshot
from gateway.admin.live.view import Live, RecentError, RecentRoute
from gateway.cli.live_gateway import LiveGateway, LiveGatewayError
from gateway.cli.main import main
from gateway.cli.top.top_command import _read_live
from gateway.cli.top.top_screen import Screen, allot, plain
from gateway.cli.top.top_text import count, duration, number
from gateway.fleets.drains import Drain
from tests.gateway.admin.live.samples import replica, seen
from tests.gateway.admin.rollout_samples import live_rollouts, rollout

URL = "http://127.0.0.1:8081"
NAMES = st.text(max_size=20) | st.sampled_from(["[bold]x[/]", "\x1b[2J", "<b>", "a\nb", "\u202e"])


def look(**fields: Any) -> Live:
    budget = BudgetUse(
        period="2026-11",
        limit_usd=500,
        spent_usd=450,
        reserved_usd=1,
        remaining_usd=49,
        alerts_passed=[75],
        resets_in_seconds=9,
        refused=0,
    )
    limit = LimitUse(name="rpm", limit=600, used=594, remaining=6, refused=3)
    scopes = {"acme": [ScopeLimits(tenant="acme", scope="tenant", in_flight=1, limits=[limit], budget=budget)]}
    drain = Drain(model="m", target="p/1", since=1.0, grace_seconds=30, actor="cli:root")
    rows = [
        replica(),
        replica(id="p/1", state="draining", reason="an operator drains it", drain=drain, share=0.0),
        replica(id="p/2", state="connecting", reason="no session", share=0.0),
    ]
    errors = [RecentError(time=1.0, id="req_1", outcome="replica_error", code="replica_failed", detail="engine died")]
    routes = [RecentRoute(time=1.0, id="req_2", replica="p/0", policy="auto", reason="least predicted seconds")]
    return snapshot(seen(**({"scopes": scopes, "replicas": rows, "errors": errors, "routes": routes} | fields)))


def drawn(screen: Screen, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    lines = console.render_lines(screen, console.options.update(height=height), pad=False)
    return ["".join(segment.text for segment in line) for line in lines]


def test_all_of_it_as_text() -> None:
    text = plain(look(), URL, 160)
    assert "\x1b" not in text
    for wanted in (URL, "last 10 s", "req/s   10", "errors/s  1.0", "99% rpm 594/600", "90% of $500", "engine died"):
        assert wanted in text, text
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if "draining" in line)
    assert "an operator drains it; by cli:root" in lines[first]
    assert "connecting" in lines[first + 1]
    assert "ready" in lines[first + 2], "what is in trouble comes first"
    assert "least predicted seconds" in text


def test_a_rollout_that_is_under_way_has_a_line() -> None:
    going = live_rollouts(rollout(problem="31 of 100 requests were answered by v2"))
    text = plain(look(rollouts=going), URL, 200)
    (line,) = [line for line in text.splitlines() if line.startswith("mixtral-8x7b")]
    for wanted in ("v1", "v2", "stage 3 of 5", "50%", "31 of 100 requests were answered by v2"):
        assert wanted in line, line
    assert "no controller acts now" in plain(look(rollouts=live_rollouts(rollout(), controller="")), URL, 200)
    # One that has ended, and a model without any, have none.
    ended = live_rollouts(rollout(phase="done"))
    assert "ROLLOUT" not in plain(look(rollouts=ended), URL, 200)
    lost = [replace(one, versions=replace(one.versions, unreadable=("k",))) for one in ended]
    assert "k cannot be read" in plain(look(rollouts=lost), URL, 200)


def test_a_small_terminal_is_not_overrun() -> None:
    many = [replica(id=f"p/{number}") for number in range(200)]
    lines = drawn(Screen(look(replicas=many), URL), 80, 24)
    assert len(lines) <= 24
    assert any("REPLICA +19" in line for line in lines)
    assert any("acme" in line for line in lines)
    assert any("engine died" in line for line in lines)
    assert not any("least predicted seconds" in line for line in lines), "there is no room for routes"


@settings(deadline=None, max_examples=60)
@given(width=st.integers(20, 250), height=st.integers(3, 80), name=NAMES, problem=NAMES)
def test_any_size_and_any_name(width: int, height: int, name: str, problem: str) -> None:
    live = look(
        tiers={name: name},
        replicas=[replica(id=name, reason=name, version=name)] * 5,
        errors=[RecentError(time=1.0, id=name, outcome=name, detail=name, tenant=name)] * 3,
        problems=[name],
    )
    screen = Screen(live, URL)
    screen.problem = problem
    lines = drawn(screen, width, height)
    assert all("\x1b" not in line and "\r" not in line for line in lines)
    assert len(lines) <= max(height, 10), "besides the figures themselves"


@given(st.lists(st.integers(0, 50), max_size=4), st.integers(-5, 60))
def test_rows_are_allotted(needs: list[int], rows: int) -> None:
    given_ = allot(needs, [4, 2, 2, 1][: len(needs)], rows)
    assert all(0 <= got <= need for got, need in zip(given_, needs, strict=True))
    assert sum(given_) == max(0, min(rows, sum(needs)))


def test_nothing_is_known_yet() -> None:
    live = look(growth=None, errors=[], routes=[], replicas=[], tiers=None, problems=["No worker tells its counts."])
    text = plain(live, URL, 80)
    assert "gathering" in text
    assert "! No worker tells its counts." in text


def test_numbers() -> None:
    assert [number(value) for value in (None, 0, 0.123, 1.26, 12.6, 12345.6)] == [
        "-",
        "0",
        "0.12",
        "1.3",
        "13",
        "12,346",
    ]
    assert [count(value) for value in (None, 5, 12345, 123456, 12345678)] == ["-", "5", "12,345", "123k", "12M"]
    assert [duration(value) for value in (None, 0.0012, 0.5, 2, 60)] == ["-", "1.2 ms", "500 ms", "2.00 s", "60 s"]


def test_an_answer_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = LiveGateway(URL, "key")
    monkeypatch.setattr(gateway, "call", lambda *_: msgspec.json.encode({"object": "live", "new": 1}))
    with pytest.raises(LiveGatewayError, match="no admin API of this version"):
        _read_live(gateway)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--url", URL], "no admin key: set PENSTOCK_ADMIN_KEY"),
        (["--url", "ftp://x", "--key-file", "key"], "expected one such as"),
        (["--key-file", "nothing", "--url", URL], "cannot read the key"),
        (["--config", "nothing.yaml"], "nothing.yaml"),
    ],
)
def test_what_is_missing_is_said(
    arguments: list[str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("PENSTOCK_ADMIN_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key").write_text("sk-penstock-admin-of-a-test")
    assert main(["top", "--once", *arguments]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("penstock top: ")
    assert problem in said.err
