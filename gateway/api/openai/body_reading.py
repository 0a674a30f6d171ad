"""From a body to requests: with what the gateway decodes itself, and with what only an upstream of the API can do."""

from functools import partial

import msgspec

from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.guides import take_guide
from gateway.api.openai.sampling_params import SamplingFields
from gateway.api.openai.tools.tool_offer import CallsParser
from gateway.api.server.body_decoder import unsupported
from gateway.inference.generate_request import GenerateRequest, NewParser
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from gateway.text.parsing.parser import OutputParser
from observability.record import RequestRecord
from protos.errors import InvalidRequest, UnsupportedParameter
from protos.types import Guide


class Reading(msgspec.Struct, frozen=True):
    """A body of `size` bytes. `foreign` refuses the first parameter that the gateway cannot honour by itself."""

    api: CompletionApi
    fields: SamplingFields
    size: int
    include_usage: bool
    guide: Guide | None = None
    guide_param: str = ""
    foreign: UnsupportedParameter | None = None

    def request(self, caller: Caller, model: ServedModel, record: RequestRecord) -> GenerateRequest:
        """The request to a model, of which `record` tells. Raises InvalidRequest."""
        make, fields, size, foreign = self.api.request, self.fields, self.size, self.foreign
        if foreign is None:
            try:
                request = make(fields, caller, model, record, size, None)
                return request if self.guide is None else self._guided(request)
            except UnsupportedParameter as refusal:
                foreign = _bare(refusal)
        request = make(fields, caller, model, record, size, foreign)
        return request if self.guide is None else self._guided(request)

    def _guided(self, request: GenerateRequest) -> GenerateRequest:
        """With this guide, which holds for whole answers from their first token on, if they call no tools instead.

        Raises InvalidRequest, or UnsupportedParameter where calls of tools could not come through.
        """
        guide = self.guide
        if request.guide_param == "tool_choice":
            # A forced answer is a call and nothing else, so it has no text that a format could be for.
            if self.guide_param != "response_format":
                raise InvalidRequest(
                    f"'tool_choice' and '{self.guide_param}' exclude each other.", param=self.guide_param
                )
            return request
        if guide is not None and isinstance(request.parser, CallsParser):
            guide = request.parser.guide_beside(guide, self.guide_param)
        parser = None if request.parser is None else partial(_from_the_first_token, request.parser)
        return msgspec.structs.replace(request, guide=guide, guide_param=self.guide_param, parser=parser)


def _from_the_first_token(new_parser: NewParser, prompt_end: str) -> OutputParser | None:
    """What is guided does not go on with a thought that the prompt has opened."""
    del prompt_end
    return new_parser("")


def read_body(api: CompletionApi, body: bytes) -> Reading:
    """Raises InvalidRequest, with `param` where one is at fault."""
    try:
        fields = api.decode(body)
        return Reading(api, fields, len(body), fields.include_usage)
    except UnsupportedParameter:
        # The usual request pays nothing for what follows.
        return _read_all(api, body)


def _read_all(api: CompletionApi, body: bytes) -> Reading:
    fields, extras = api.decode_all(body)
    guide, guide_param = take_guide(extras) or (None, "")
    foreign = unsupported(next(iter(extras))) if extras else None
    try:
        usage = fields.include_usage
    except UnsupportedParameter as refusal:
        foreign = foreign or _bare(refusal)
        options = fields.stream_options
        usage = options is not None and bool(options.include_usage)
    return Reading(api, fields, len(body), usage, guide, guide_param, foreign)


def _bare(refusal: UnsupportedParameter) -> UnsupportedParameter:
    """Without the frames that it was raised in: it may live as long as its request."""
    return refusal.with_traceback(None)
