"""Whatever a client sends: an answer, or a well-formed error object of the 4xx kind; nothing is left running."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.store.embedded import EmbeddedStore
from tests.asgi import CHAT, COMPLETIONS, HELLO, Answer, Client, gateway_of
from tests.harness import MODEL, engine_of, readable_corpus
from tests.loops import BOUND_SECONDS, leftovers, until

pytestmark = pytest.mark.filterwarnings("error")
FUZZ = settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class Bench:
    """One application and one loop for all examples of this module."""

    def __init__(self, runner: asyncio.Runner, client: Client) -> None:
        self._runner = runner
        self.client = client

    def request(self, method: str, path: str, body: bytes, headers: Any = None, *, leave: bool = False) -> Answer:
        async def main() -> Answer:
            async with asyncio.timeout(BOUND_SECONDS):
                call = self.client.call(method, path, headers)
                call.put(body)
                if leave:
                    await asyncio.sleep(0)
                    call.disconnect()
                answer = await call.answer()
                await until(lambda: not self.client.active)
                return answer

        return self._runner.run(main())


@pytest.fixture(scope="module")
def bench(valkey: EmbeddedStore) -> Iterator[Bench]:
    with asyncio.Runner() as runner:
        manager = gateway_of(valkey.url, engine_of(corpus=readable_corpus()))
        client = runner.run(manager.__aenter__())
        yield Bench(runner, client)
        runner.run(manager.__aexit__(None, None, None))

        async def ended() -> None:
            await until(lambda: not leftovers(), lambda: f"left behind: {leftovers()}")

        runner.run(ended())


def check(answer: Answer) -> None:
    """An answer that a client can read, whatever it was to."""
    if answer.status >= 400:
        assert answer.status < 500
        assert answer.error["type"] == "invalid_request_error"
        assert len(answer.body) < 4000
        text = answer.body.decode()
        assert "Traceback" not in text
        assert str(Path(__file__).parents[3]) not in text
    elif answer.headers["content-type"].startswith("text/event-stream"):
        assert answer.events[-1] == "[DONE]"
    else:
        assert answer.json["choices"]
    assert answer.headers["x-request-id"]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.sampled_from([0, 1, 2, -1, 0.5, 1e308, "", "user", "text", MODEL])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "5", "include_usage"]), inner, max_size=3)
    ),
    max_leaves=8,
)
# fmt: off
NAMES = st.sampled_from([
    "model", "messages", "prompt", "stream", "stream_options", "max_tokens", "max_completion_tokens",
    "temperature", "top_p", "n", "stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias",
    "logprobs", "top_logprobs", "user", "top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos",
    "stop_token_ids", "tools", "tool_choice", "response_format", "echo", "suffix", "best_of", "store",
    "metadata", "functions", "modalities", "reasoning_effort", "parallel_tool_calls", "chat_template_kwargs",
    "documents", "verbosity", "zzz",
])
# fmt: on
PATHS = st.sampled_from([CHAT, COMPLETIONS])
VALID: dict[str, Any] = {"model": MODEL, "messages": HELLO, "prompt": "Hello", "max_tokens": 5, "n": 1}
SMALL: dict[str, Any] = {
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0, 1),
    "stop": st.none() | st.text("ae \n", min_size=1, max_size=3) | st.lists(st.just("."), max_size=3),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "presence_penalty": st.floats(-2, 2),
    "logit_bias": st.dictionaries(st.integers(0, 1000).map(str), st.floats(-100, 100), max_size=3),
    "n": st.integers(1, 3),
    "stream": st.booleans(),
    "user": st.text(max_size=5).filter(lambda s: s.isprintable()),
    "max_tokens": st.integers(1, 20),
    "min_tokens": st.integers(0, 30),
    "ignore_eos": st.booleans(),
    "top_k": st.integers(1, 100),
    "stop_token_ids": st.lists(st.integers(0, 1000), max_size=3),
    "tools": st.none() | st.just([]) | st.just([{"type": "function", "function": {"name": "f"}}]),
    "store": st.none() | st.just(False),
}


def own(path: str, fields: dict[str, Any]) -> dict[str, Any]:
    other = "prompt" if path == CHAT else "messages"
    return {name: value for name, value in fields.items() if name != other}


@FUZZ
@given(path=PATHS, fields=st.fixed_dictionaries({}, optional=SMALL))
def test_valid_requests_are_answered(bench: Bench, path: str, fields: dict[str, Any]) -> None:
    if path == COMPLETIONS:
        fields.pop("tools", None)
    answer = bench.request("POST", path, orjson.dumps(own(path, VALID | fields)))
    assert answer.status == 200, answer.body
    check(answer)


@FUZZ
@given(path=PATHS, changes=st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), dropped=st.sets(NAMES, max_size=1))
def test_changed_requests(bench: Bench, path: str, changes: dict[str, Any], dropped: set[str]) -> None:
    fields = own(path, VALID) | changes
    body = orjson.dumps({name: value for name, value in fields.items() if name not in dropped})
    check(bench.request("POST", path, body))


@FUZZ
@given(path=PATHS, body=VALUES)
def test_any_json(bench: Bench, path: str, body: Any) -> None:
    check(bench.request("POST", path, orjson.dumps(body)))


@FUZZ
@given(path=PATHS, at=st.integers(0, 90), damage=st.binary(max_size=4), cut=st.booleans())
def test_damaged_bodies(bench: Bench, path: str, at: int, damage: bytes, cut: bool) -> None:
    body = orjson.dumps(own(path, VALID))
    check(bench.request("POST", path, body[:at] + damage + (b"" if cut else body[at + len(damage) :])))


@FUZZ
@given(path=PATHS, body=st.binary(max_size=100))
def test_random_bytes(bench: Bench, path: str, body: bytes) -> None:
    check(bench.request("POST", path, body))


@FUZZ
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "HEAD", "OPTIONS", "TRACE", "BREW"]) | st.text("ABC", min_size=1),
    path=st.sampled_from(["/", "/v1/models/", CHAT, COMPLETIONS])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=40).map(lambda text: "/" + text)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda text: "/v1/models/" + text),
    headers=st.lists(
        st.tuples(
            st.sampled_from([b"authorization", b"content-length", b"content-type", b"x-request-id", b"accept", b"x"]),
            st.binary(max_size=30) | st.sampled_from([b"9" * 5000, b"-1", b"0", "²".encode(), b"Bearer \xff"]),
        ),
        max_size=5,
    ),
    with_key=st.booleans(),
)
def test_random_paths_methods_and_headers(
    bench: Bench, method: str, path: str, headers: list[tuple[bytes, bytes]], with_key: bool
) -> None:
    if with_key:
        headers.append((b"authorization", b"Bearer " + bench.client.key.encode()))
    answer = bench.request(method, path, b"", headers)
    if method == "OPTIONS":
        assert answer.status in (200, 404)
        return
    assert 400 <= answer.status < 500
    if method != "HEAD":
        check(answer)


@settings(FUZZ, max_examples=25)
@given(path=PATHS, stream=st.booleans(), n=st.integers(1, 3))
def test_clients_that_leave_at_any_moment(bench: Bench, path: str, stream: bool, n: int) -> None:
    fields = VALID | {"stream": stream, "n": n, "max_tokens": 200, "ignore_eos": True}
    bench.request("POST", path, orjson.dumps(own(path, fields)), leave=True)
