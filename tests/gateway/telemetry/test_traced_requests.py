"""A request from a client's header to the engine, and its spans as a collector gets them."""

from protos.types import Submit
from tests.asgi import CHAT, gateway_of
from tests.harness import MODEL, engine_of
from tests.loops import until
from tests.observability.tracing.collector import attributes_of, collector
from tests.observability.tracing.records import PARENT, TRACE

STAGES = [
    *("authenticate", "read and filter", "tokenize", "reserve limits", "wait for turn", "route"),
    "replica request",
]


async def test_from_the_client_to_the_engine(store_url: str) -> None:
    engine = engine_of()
    heard: list[Submit] = []
    submit = engine.submit

    def hear(handle: int, request: Submit) -> None:
        heard.append(request)
        submit(handle, request)

    engine.submit = hear  # type: ignore[method-assign]
    with collector() as made:
        traces = {"enabled": True, "endpoint": made.endpoint, "sample": 0.0}
        off = {"enabled": False}
        sections = {"traces": traces, "metrics": off, "journal": off}
        async with gateway_of(store_url, engine, observability=sections) as client:
            for model in client.gateway.models.values():
                await until(model.fleet.candidates)
            headers = [
                (b"authorization", b"Bearer " + client.key.encode()),
                (b"traceparent", f"00-{TRACE.hex()}-{PARENT.hex()}-01".encode()),
                (b"tracestate", b"a=1"),
            ]
            body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
            answer = await client.request("POST", CHAT, body, headers)
            assert answer.status == 200
            assert (await client.request("POST", CHAT, body)).status == 200
        root, *rest = made.spans
        assert (root.trace_id, root.parent_span_id) == (TRACE, PARENT)
        assert [each.trace for each in heard[-2:]] == [f"00-{TRACE.hex()}-{root.span_id.hex()}-01 a=1", ""]
        names = [span.name for span in rest]
        assert names[:7] == STAGES
        assert "engine prefill" in names
        assert attributes_of(root)["penstock.request.id"] == answer.headers["x-request-id"]
        times = [(span.start_time_unix_nano, span.end_time_unix_nano) for span in (root, *rest)]
        assert all(times[0][0] <= start <= end <= times[0][1] for start, end in times)
