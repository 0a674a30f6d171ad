"""Make the spans of an ended request from its record: stages of the gateway, the replica, its engine's phases.

Names of attributes are OpenTelemetry's semantic conventions where there is one, else `penstock.*`. No attribute holds
text of a prompt or an answer.
"""

import random
from collections.abc import Callable, Mapping
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes import client_attributes as client
from opentelemetry.semconv.attributes import error_attributes as errors
from opentelemetry.semconv.attributes import http_attributes as http
from opentelemetry.semconv.attributes import server_attributes as server
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.status import Status, StatusCode

from observability.outcome import FAILED, Outcome
from observability.printable import printable
from observability.record import RequestRecord

#: The most spans that a request can have.
MOST_SPANS: Final = 12
SERVICE: Final = "penstock"
#: Endpoint names -> GenAI's operations, and HTTP's routes.
_OPERATIONS: Final = {
    "chat": gen_ai.GenAiOperationNameValues.CHAT.value,
    "completions": gen_ai.GenAiOperationNameValues.TEXT_COMPLETION.value,
    "responses": gen_ai.GenAiOperationNameValues.CHAT.value,
    "messages": gen_ai.GenAiOperationNameValues.CHAT.value,
    "embeddings": gen_ai.GenAiOperationNameValues.EMBEDDINGS.value,
}
_ROUTES: Final = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
    "score": "/v1/score",
    "tokenize": "/v1/tokenize",
    "models": "/v1/models",
    "moderations": "/v1/moderations",
    "files": "/v1/files",
    "batches": "/v1/batches",
}
#: Stages in order: the record's field with the moment of its end, and the span's name.
_STAGES: Final = (
    ("identified", "authenticate"),
    ("screened", "read and filter"),
    ("encoded", "tokenize"),
    ("reserved", "reserve limits"),
    ("admitted", "wait for turn"),
    ("sent", "route"),
)
_REPLICA: Final = "replica request"
_WRITING: Final = "write answer"
#: Characters of an error's text.
_MOST_TEXT: Final = 500
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_UNSET: Final = Status(StatusCode.UNSET)
_RANDOM: Final = random.Random()

_Attributes = dict[str, str | int | float | bool | list[str]]


class _Resource(Resource):
    """A resource that is equal only to itself: the SDK compares resources for each span that it encodes."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def process_resource(instance: str, attributes: Mapping[str, str] | None = None) -> Resource:
    """Make this process's resource, with the environment's attributes (`OTEL_RESOURCE_ATTRIBUTES`)."""
    own = {"service.name": SERVICE, "service.instance.id": instance}
    resource = Resource.create({**own, **(attributes or {})})
    return _Resource(resource.attributes, resource.schema_url)


class SpanMaker:
    """Make spans in the form of the SDK's processors, with explicit times and with the ids that were sent out."""

    def __init__(self, resource: Resource, host: str, bits: Callable[[int], int] = _RANDOM.getrandbits) -> None:
        """`host` is this machine's name; `bits` returns random bits."""
        self._resource = resource
        self._host = host
        self._bits = bits
        self._scope = InstrumentationScope(SERVICE)

    def spans(self, record: RequestRecord) -> list[ReadableSpan]:
        """Return the request's spans, the root first."""
        return _Tree(self, record).spans

    def make_span(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        times: tuple[int, int],
        *,
        attributes: _Attributes | None = None,
        events: list[Event] | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        status: Status = _UNSET,
    ) -> ReadableSpan:
        """Make one span; `times` are nanoseconds since 1970."""
        return ReadableSpan(
            name,
            context,
            parent,
            self._resource,
            attributes,
            events or (),
            (),
            kind,
            None,
            status,
            times[0],
            max(times),
            self._scope,
        )

    def new_id(self) -> int:
        """Make a random span id."""
        return self._bits(64) or 1

    def new_trace(self) -> int:
        """Make a random trace id, for a request that was not sampled at its start."""
        return self._bits(128) or 1

    @property
    def host(self) -> str:
        """Return this machine's name."""
        return self._host


class _Tree:
    """The spans of one record."""

    def __init__(self, maker: SpanMaker, record: RequestRecord) -> None:
        self._maker, self._record = maker, record
        self._arrived = round(record.wall * 1e9)
        # A gateway that is shutting down may not have recorded the request's end.
        self._end = max(record.ended, record.arrived)
        context, self._state = record.trace, TraceState()
        parent: SpanContext | None = None
        self._trace = int.from_bytes(context.trace_id, "big") if context is not None else maker.new_trace()
        if context is not None and context.state:
            self._state = TraceState.from_header([context.state])
        if context is not None and context.parent_id:
            parent_id = int.from_bytes(context.parent_id, "big")
            flags = TraceFlags(context.flags)
            parent = SpanContext(self._trace, parent_id, is_remote=True, trace_flags=flags, trace_state=self._state)
        own = int.from_bytes(record.span_id, "big") or maker.new_id()
        self._root = self._context(own)
        self._failed = record.outcome is not Outcome.OK and record.outcome in FAILED
        self._status = _UNSET
        if self._failed:
            self._status = Status(StatusCode.ERROR, printable(record.detail or record.code)[:_MOST_TEXT])
        self.spans = [self._server(parent)]
        self._gateway()

    def _context(self, span_id: int) -> SpanContext:
        return SpanContext(self._trace, span_id, is_remote=False, trace_flags=_SAMPLED, trace_state=self._state)

    def _at(self, moment: float) -> int:
        return self._arrived + round((moment - self._record.arrived) * 1e9)

    def _add(
        self,
        name: str,
        start: float,
        end: float,
        parent: SpanContext | None = None,
        *,
        attributes: _Attributes | None = None,
        events: list[Event] | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        status: Status = _UNSET,
    ) -> SpanContext:
        context = self._context(self._maker.new_id())
        times = self._at(start), self._at(end)
        self.spans.append(
            self._maker.make_span(
                name,
                context,
                parent or self._root,
                times,
                attributes=attributes,
                events=events,
                kind=kind,
                status=status,
            )
        )
        return context

    def _server(self, parent: SpanContext | None) -> ReadableSpan:
        """Add the server span of the client's request."""
        record = self._record
        operation = _OPERATIONS.get(record.endpoint)
        named = [operation or record.endpoint, record.model]
        attributes: _Attributes = {
            http.HTTP_RESPONSE_STATUS_CODE: record.status,
            server.SERVER_ADDRESS: self._maker.host,
            "penstock.request.id": record.id,
            "penstock.outcome": record.outcome.value,
        }
        known = {
            http.HTTP_ROUTE: _ROUTES.get(record.endpoint),
            client.CLIENT_ADDRESS: record.client,
            "penstock.request.client_id": record.client_request_id,
            errors.ERROR_TYPE: record.code or (record.outcome.value if self._failed else ""),
            "penstock.tenant": record.tenant,
            "penstock.tier": record.tier,
            "penstock.key.id": record.key_id,
            "penstock.filter.held_seconds": record.held_seconds,
            "penstock.tokens.rejected": record.rejected_tokens,
        }
        attributes.update({name: value for name, value in known.items() if value})
        if operation:
            attributes.update(self._generation(operation))
        return self._maker.make_span(
            " ".join(filter(None, named)),
            self._root,
            parent,
            (self._at(record.arrived), self._at(self._end)),
            attributes=attributes,
            events=self._verdicts("answer", self._end),
            kind=SpanKind.SERVER,
            status=self._status,
        )

    def _generation(self, operation: str) -> _Attributes:
        """Return the attributes of GenAI's conventions for a request to a model."""
        record = self._record
        known: _Attributes = {
            gen_ai.GEN_AI_REQUEST_MODEL: record.asked_model or record.model,
            gen_ai.GEN_AI_RESPONSE_MODEL: record.model if record.first_token else "",
            gen_ai.GEN_AI_REQUEST_STREAM: record.stream,
            gen_ai.GEN_AI_REQUEST_CHOICE_COUNT: record.sequences if record.sequences != 1 else 0,
            gen_ai.GEN_AI_USAGE_INPUT_TOKENS: record.prompt_tokens,
            gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: record.completion_tokens,
            gen_ai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: record.cached_tokens,
            gen_ai.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: record.reasoning_tokens,
            gen_ai.GEN_AI_RESPONSE_FINISH_REASONS: [record.finish] if record.finish else "",
            "penstock.model.version": record.version,
        }
        if record.first_token:
            known[gen_ai.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = record.first_token - record.arrived
        found: _Attributes = {name: value for name, value in known.items() if value}
        found[gen_ai.GEN_AI_OPERATION_NAME] = operation
        found[gen_ai.GEN_AI_PROVIDER_NAME] = SERVICE
        return found

    def _gateway(self) -> None:
        """Add the stages that the request reached; the one that it ended in lasts until its end."""
        record = self._record
        before = record.arrived
        for field, name in _STAGES:
            moment: float = getattr(record, field)
            if not moment:
                # A request without a model has no further stages.
                if record.outcome is not Outcome.OK:
                    self._add(name, before, self._end, events=self._verdicts_of(name, self._end), status=self._status)
                return
            attributes = self._decision() if field == "sent" else None
            self._add(name, before, moment, attributes=attributes, events=self._verdicts_of(name, moment))
            before = moment
        self._replica()

    def _verdicts_of(self, stage: str, moment: float) -> list[Event] | None:
        return self._verdicts("prompt", moment) if stage == "read and filter" else None

    def _verdicts(self, where: str, moment: float) -> list[Event]:
        """Add the filters' verdicts; their exact times are not known."""
        return [
            Event(
                "filter verdict",
                {
                    "penstock.filter.rule": verdict.rule,
                    "penstock.filter.action": verdict.action,
                    "penstock.filter.label": verdict.label,
                    "penstock.filter.times": verdict.times,
                },
                self._at(moment),
            )
            for verdict in self._record.verdicts
            if verdict.where == where
        ]

    def _decision(self) -> _Attributes:
        record = self._record
        known: _Attributes = {
            "penstock.pool": record.pool,
            "penstock.replica": record.replica,
            "penstock.route.policy": record.policy,
            "penstock.route.reason": record.reason,
            "penstock.route.predicted_tokens": record.predicted_tokens,
        }
        return {name: value for name, value in known.items() if value}

    def _replica(self) -> None:
        """Add the span from the first submit to the last token, over all replicas."""
        record = self._record
        answered = record.last_token or self._end
        events = [
            Event(name, {f"penstock.{name}.count": count}, self._at(moment))
            # A migration happened before these moments; its exact time is not known.
            for name, count, moment in (
                ("retry", record.retries, record.first_token or self._end),
                ("hedge", record.hedges, record.first_token or self._end),
                ("migration", record.migrations, answered),
            )
            if count
        ]
        if record.first_token:
            events.append(Event("first token", None, self._at(record.first_token)))
        events.sort(key=lambda event: event.timestamp)
        attributes: _Attributes = {
            "penstock.pool": record.pool,
            "penstock.replica": record.replica,
            gen_ai.GEN_AI_REQUEST_MODEL: record.model,
        }
        # A failure after the last token is not the replica's.
        status = self._status if not record.last_token else _UNSET
        parent = self._add(
            _REPLICA,
            record.sent,
            answered,
            attributes=attributes,
            events=events,
            kind=SpanKind.CLIENT,
            status=status,
        )
        self._engine(parent, answered)
        if record.last_token:
            self._add(_WRITING, record.last_token, self._end, status=self._status)

    def _engine(self, parent: SpanContext, answered: float) -> None:
        """Add the engine's phases: its clock gives durations only, so they are placed to end with the last token."""
        record = self._record
        phases = (
            ("engine queue", record.engine_queue_us),
            ("engine prefill", record.engine_prefill_us),
            ("engine decode", record.engine_decode_us),
        )
        total = sum(us for _, us in phases) / 1e6
        if not total:
            return
        start = max(record.sent, answered - total)
        for name, us in phases:
            if us:
                end = min(answered, start + us / 1e6)
                self._add(name, start, end, parent, attributes={"penstock.replica": record.replica})
                start = end
