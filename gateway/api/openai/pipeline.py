"""The pipeline from a read request to its generation: prompt filters, fallbacks, generation."""

from collections.abc import Coroutine
from typing import Any

import msgspec

from gateway.api.openai.body_reading import Reading
from gateway.api.openai.model_failover import first_to_answer
from gateway.api.openai.prompt_screening import filter_of_answers, passes_prefilter, screen_prompt
from gateway.api.openai.split_keys import conversation, user
from gateway.api.server.intake import IncomingRequest
from gateway.api.server.services import Services
from gateway.filtering.filters.answer_filter import AnswerFilter
from gateway.filtering.filters.filter_policy import Policy
from gateway.inference.fallback_chain import chain
from gateway.inference.generate import generate
from gateway.inference.generate_request import GenerateRequest
from gateway.inference.generation import Generation
from gateway.inference.request_context import RequestContext
from gateway.inference.several_prompts import generate_several
from gateway.models.served_model import ServedModel
from protos.types import Payload
from routing.contracts.explained_policy import ExplainedPolicy


class _Parts(msgspec.Struct, eq=False):
    services: Services
    incoming: IncomingRequest
    reading: Reading
    body: bytes
    request: GenerateRequest
    explained: ExplainedPolicy | None


class Pipeline(_Parts, eq=False, kw_only=True):
    """The pipeline of one request: `request` is to the model that was asked for, `body` is the completion API's, as an
    upstream gets it. `adapted`: the answer goes through an API adapter.
    """

    adapted: bool
    #: Whether the prompt was filtered before, for a model that could not answer.
    screened: bool = False
    #: Made when it is first needed.
    known_context: RequestContext | None = None

    @property
    def context(self) -> RequestContext:
        """The request's limiter, encoder, handle and deadline."""
        context = self.known_context
        if context is None:
            services, incoming = self.services, self.incoming
            context = self.known_context = RequestContext(
                services.limiter,
                services.encoding,
                incoming.exchange.handle,
                incoming.wait_until,
                incoming.deadline,
                self.explained,
                self,
            )
        return context

    @property
    def include_usage(self) -> bool:
        """Whether the reader of a stream wants the counts at its end."""
        return self.adapted or self.reading.include_usage

    def header(self, name: bytes) -> bytes | None:
        """Return a header of the request, by its name in lower case."""
        return self.incoming.exchange.header(name)

    def split_key(self, by: str, header: str) -> bytes:
        """Return what the request has in common with others that one version shall answer."""
        if by == "conversation":
            return conversation(self.reading.fields)
        if by == "header":
            return self.header(header.encode()) or b""
        return user(self.reading.fields) if by == "user" else b""

    def run(self) -> Coroutine[Any, Any, Generation]:
        """Start a generation, of a fallback where the model does not answer. Raises its errors."""
        request, model = self.request, self.request.model
        if model.fallbacks is None:
            return self.start(model)
        models = self.services.catalog.models
        prompt = self.reading.estimate(model)
        candidates = chain(model, models, request.caller, prompt, request.max_tokens, request.sampling.n)
        return first_to_answer(self.incoming.exchange, model, candidates, self.start)

    def start(self, model: ServedModel) -> Coroutine[Any, Any, Generation]:
        """Start a model's generation, with the filters of the tenant and of that model."""
        request, tenant = self.request, self.request.caller.tenant
        if model is request.model:
            policy = self.services.policies.of(tenant, model.name)
            if policy is None:
                if request.prompts or model.relays:
                    return self._launch(model, self.reading, self.body, None)
                return generate(request, self.context, None)
            if passes_prefilter(policy, request, self.body):
                return self._launch(model, self.reading, self.body, filter_of_answers(policy, request))
        else:
            # A fallback is held to the rules of both models.
            policy = self.services.policies.of(tenant, request.model.name, model.name)
            if policy is None:
                return self._launch(model, self.reading, self.body, None)
        return self._screen(model, policy)

    def _screen(self, model: ServedModel, policy: Policy) -> Coroutine[Any, Any, Generation]:
        again, self.screened = self.screened, True
        return screen_prompt(
            self.services.encoding,
            self.incoming.exchange,
            self.request.caller,
            model,
            policy,
            self.reading,
            self.body,
            lambda reading, body, answers: self._launch(model, reading, body, answers),
            again=again,
        )

    def _launch(
        self, model: ServedModel, reading: Reading, body: bytes, answers: AnswerFilter | None
    ) -> Coroutine[Any, Any, Generation]:
        request, context, payload = self.request, self.context, None
        if model is not request.model or reading is not self.reading:
            if model is not request.model:
                context = msgspec.structs.replace(context, explained=None)
            request = reading.request(request.caller, model, request.record)
        if answers is not None:
            request = msgspec.structs.replace(request, filter=answers)
        if request.prompts:
            return generate_several(request, context)
        if model.relays:
            # The gateway names an adapter's output bound, since upstreams name the parameter differently.
            bound = request.max_tokens if self.adapted else None
            path = reading.api.path
            payload = Payload(path, body, request.stream, self.include_usage, model.shown, bound)
        return generate(request, context, payload)
