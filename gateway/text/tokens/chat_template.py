"""Jinja chat templates: messages to the token ids of a prompt."""

import datetime
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from gateway.text.tokens.chat_format import Messages, TemplateError
from gateway.text.tokens.forms.call_form import PROBE_CALL, PROBE_TOOLS, CallForm, find_call_form
from gateway.text.tokens.forms.instruction_form import INSTRUCTING, InstructionForm, find_instruction_form, missing
from gateway.text.tokens.forms.thought_name import find_thought_name, with_thought
from gateway.text.tokens.forms.turn_form import TurnForm, find_turn_form
from gateway.text.tokens.tokenizer import PartsEncoder, TokenizerError, UnmarkedTemplate
from gateway.text.tokens.trusted_marks import JOIN, ROLES, Marks, pieces, unmarked, written

log = logging.getLogger(__name__)


class _Generation(Extension):
    """The tag `{% generation %}`, which marks answers for training; only its content is rendered here."""

    tags = {"generation"}  # noqa: RUF012 -- jinja2's name and type

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(unmarked(str(message)))


def _strftime_now(form: str) -> str:
    return datetime.datetime.now().strftime(form)  # templates write the local date


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


_DICT_ATTRIBUTES = frozenset(dir(dict))


class _Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox with a fast path for the most frequent lookups, which saves a third of a short chat's rendering."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Look up items of a dict and values of a namespace without inspection: templates may read this data."""
        kind = type(obj)
        if kind is dict and attribute in obj and attribute not in _DICT_ATTRIBUTES:
            return obj[attribute]
        if kind is Namespace and not attribute.startswith("_"):
            try:
                return getattr(obj, attribute)
            except AttributeError:
                return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


# Short chats of every shape, without control tokens: a rewritten template must render them as the original does.
_PROBES: tuple[list[dict[str, Any]], ...] = (
    [{"role": "user", "content": "One"}],
    [{"role": "system", "content": "Two"}, {"role": "user", "content": "Three"}],
    [{"role": "user", "content": "Four"}, {"role": "assistant", "content": "Five"}, {"role": "user", "content": "Six"}],
    [
        {"role": "system", "content": "Seven"},
        {"role": "user", "content": "Eight"},
        {"role": "assistant", "content": "Nine"},
        {"role": "user", "content": "Ten"},
    ],
)

#: Errors of a template that does not expect the messages or tools; JSON may be nested too deeply to encode.
_TEMPLATE_ERRORS = (
    *(jinja2.TemplateError, ArithmeticError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError),
)
#: Names that every template is given.
_GIVEN = frozenset({"messages", "add_generation_prompt"})
#: Names that are None instead of undefined when absent, as in Hugging Face's library.
_ABSENT: Mapping[str, Any] = {"tools": None, "documents": None}
#: Names by which templates read the tools; SmolLM3's has another.
_TOOLS = ("tools", "xml_tools")


def _run(template: jinja2.Template, values: Mapping[str, Any]) -> str:
    try:
        return template.render(values)
    except _TEMPLATE_ERRORS as error:
        if isinstance(error, TemplateError):
            raise
        raise TemplateError("The messages do not fit the model's chat template.") from error


def written_tokens(source: str, tokens: Collection[str]) -> frozenset[str]:
    """Find the tokens that a template itself writes; none where it does not parse."""
    try:
        tree = _environment().parse(source)
    except jinja2.TemplateSyntaxError:
        return frozenset()
    return written(tree, tokens)


def _in_parts(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a message its text as a list of parts."""
    text = message.get("content")
    return {**message, "content": [{"type": "text", "text": text}]} if isinstance(text, str) else message


def _wants_parts(render: Callable[[Messages], str]) -> bool:
    """Whether a template writes no text but that of parts, as those of models for images do."""
    (asked,) = _PROBES[0]

    def writes(message: Mapping[str, Any]) -> bool:
        try:
            return asked["content"] in render([message])
        except TemplateError:
            return False

    return not writes(asked) and writes(_in_parts(asked))


def _writes_results(render: Callable[[Messages], str]) -> bool:
    """Whether a template writes the result of a call that it has not been told of."""
    asked, _, result = PROBE_CALL
    try:
        return result["content"] in render([asked, {"role": "assistant", "content": "Sixteen"}, result])
    except TemplateError:
        return False


class ChatTemplate:
    """A Jinja template of a Hugging Face model, run in Jinja's immutable sandbox.

    The template is the operator's file, the messages are a caller's. Messages are data: they are never compiled, and
    loops of a template run over them or over ranges, which the sandbox holds to 100,000 steps, so time and memory
    grow with the request's size only. A template written to exhaust the machine is not defended against.
    """

    def __init__(
        self,
        source: str,
        *,
        specials: Mapping[str, int],
        variables: Mapping[str, str] | None = None,
        for_tools: bool = False,
    ) -> None:
        """`specials` are the vocabulary's control tokens; `variables`, such as bos_token, are set in every render.

        A template `for_tools` is always rendered with tools. Raises TokenizerError for a template that does not parse,
        or whose control tokens cannot be told from text.
        """
        environment = _environment()
        self._marks = Marks(specials)
        #: The template's name of a message's thought.
        self._thought_name: str | None = None
        variables = variables or {}
        try:
            plain = environment.from_string(source)
            tree = environment.parse(source)
            #: Reserved names: a client's values of these names cannot replace the file's.
            self.reads = frozenset(meta.find_undeclared_variables(tree)) - _GIVEN - variables.keys()
            self._marks.rewrite(tree)
            self._template = jinja2.Template.from_code(
                environment, environment.compile(tree), {**environment.globals, JOIN: self._marks.join}
            )
        except jinja2.TemplateSyntaxError as error:
            raise TokenizerError(f"chat template, line {error.lineno}: {error.message}") from error
        self._tools_name = next((name for name in _TOOLS if name in self.reads), "")
        if self._tools_name:
            self.reads |= {"tools"}
        self._variables = {name: self._marks.add(value) for name, value in variables.items()}
        self._call_form: CallForm | None = None
        #: Whether it writes the result of a call, whatever it does with the call.
        self.results = False
        self._turns: TurnForm | None = None
        #: Whether the template writes no text but that of parts, in a list.
        self._parts = False
        # Samples are rendered as they are.
        self._instructions = InstructionForm(system=True, developer=True, several=True, between=True)
        extras = {"tools": list(PROBE_TOOLS)} if for_tools else {}
        self._parts = _wants_parts(lambda messages: self._plainly(plain, variables, messages, extras))
        renders = [self._renders_alike(plain, variables, probe, extras) for probe in _PROBES]
        if not any(renders):
            raise TokenizerError("chat template: it refuses even the simplest messages")

        def render(messages: Messages) -> str:
            return self._plainly(plain, variables, messages, extras)

        self._instructions = find_instruction_form(render, developer="developer" in source)
        self._learn_tools(plain, variables)

    @property
    def calls(self) -> bool:
        return self._call_form is not None

    def written_call(self) -> str:
        """Render a sample call: what stands where an answer begins; empty where the template writes no calls."""
        if self._call_form is None:
            return ""
        extras = self._sample_tools()
        try:
            asked = self.render(PROBE_CALL[:1], **extras)
            called = self.render(PROBE_CALL[:2], add_generation_prompt=False, **extras)
        except TemplateError:
            return ""
        pairs = enumerate(zip(asked, called, strict=False))
        same = next((at for at, (one, other) in pairs if one != other), min(len(asked), len(called)))
        # What differs may begin like what does not: `<think>` and `<tool_call>`.
        return called[1 + max(called.rfind(end, 0, same) for end in (">", "]", "\n")) :]

    def _learn_tools(self, plain: jinja2.Template, variables: Mapping[str, str]) -> None:
        """Find out whether the template accepts tools, in what form their calls, and the name of thoughts. It may be
        useful without.
        """
        tools = self._sample_tools()

        def render(messages: Messages) -> str:
            return self._plainly(plain, variables, messages, tools)

        form = find_call_form(render)
        self.results = _writes_results(render)
        probe = [*(PROBE_CALL if form is None else map(form.message, PROBE_CALL))]
        self._thought_name = find_thought_name(render, probe)
        try:
            if tools and not self._renders_alike(plain, variables, probe[:1], tools):
                self.reads -= {"tools"}
            if form is not None and self._renders_alike(plain, variables, probe, tools):
                self._call_form = form
            turns = find_turn_form(render, self._call_form, self._thought_name)
            self._turns = turns if any(turns) else None
        except TokenizerError as error:
            log.warning("%s; its models cannot call tools", error)
            self.reads -= {"tools"}

    def _sample_tools(self) -> dict[str, Any]:
        return {self._tools_name: list(PROBE_TOOLS)} if "tools" in self.reads else {}

    def _renders_alike(
        self,
        plain: jinja2.Template,
        variables: Mapping[str, str],
        probe: Sequence[Mapping[str, Any]],
        extras: Mapping[str, Any] | None = None,
    ) -> bool:
        """Whether the template renders such a chat. Raises TokenizerError if it renders differently with marks."""
        try:
            expected = self._plainly(plain, variables, probe, extras)
            marked = self._render(probe, add_generation_prompt=True, **(extras or {}))
        except TemplateError:
            return False  # a chat that the template refuses
        if unmarked(marked) != expected or pieces(marked)[1::2] != self._marks.find(expected):
            raise UnmarkedTemplate("chat template: its control tokens cannot be told from the text of messages")
        return True

    def _plainly(
        self,
        plain: jinja2.Template,
        variables: Mapping[str, str],
        messages: Messages,
        extras: Mapping[str, Any] | None = None,
    ) -> str:
        """Render samples without marks. Raises TemplateError."""
        shown = [_in_parts(message) for message in messages] if self._parts else messages
        fixed = {**variables, "messages": shown, "add_generation_prompt": True}
        return _run(plain, {**_ABSENT, **(extras or {}), **fixed})

    def mark(self, text: str) -> str:
        """Mark the control tokens in a text of the gateway's own, which it puts into a message."""
        return self._marks.add(text)

    def render(self, messages: Messages, *, add_generation_prompt: bool = True, **extras: Any) -> str:
        """Render the prompt as text. It does not tell control tokens from a message's text: use `encode_chat` for ids.

        Raises TemplateError.
        """
        return unmarked(self._render(messages, add_generation_prompt=add_generation_prompt, **extras))

    def encode_chat(
        self, tokenizer: PartsEncoder, messages: Messages, *, add_generation_prompt: bool = True, **extras: Any
    ) -> Sequence[int]:
        """Encode the prompt as token ids; no message can put a control token into it.

        `extras` (tools, documents and the like) are a caller's data as messages are. The encoding releases the GIL,
        the rendering does not. Raises TemplateError.
        """
        marked = self._render(messages, add_generation_prompt=add_generation_prompt, **extras)
        return tokenizer.encode_parts(pieces(marked))

    def _render(self, messages: Messages, *, add_generation_prompt: bool, **extras: Any) -> str:
        instructing = [message for message in messages if message["role"] in INSTRUCTING]
        arranged = messages
        if instructing and not self._instructions.fits(messages, instructing):
            arranged = self._instructions.arranged(messages)
        turns = arranged if self._turns is None else self._turns.arranged(arranged)
        prepared = [self._prepare(message) for message in turns]
        fixed = {**self._variables, "messages": prepared, "add_generation_prompt": add_generation_prompt}
        if "tools" in extras and self._tools_name:
            extras[self._tools_name] = extras.pop("tools")
        rendered = _run(self._template, {**_ABSENT, **extras, **fixed})
        if arranged is not messages and (lost := missing(messages, unmarked(rendered))) is not None:
            raise TemplateError(f"The model's chat template has no place for messages[{lost}], with instructions.")
        return rendered

    def _prepare(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if message["role"] not in ROLES:
            raise TemplateError(f"{message['role']!r} is not a role.")
        if len(message) > 2:
            if self._call_form is not None:
                message = self._call_form.message(message)
            if self._thought_name is not None and "reasoning_content" in message:
                message = with_thought(message, self._thought_name, message["reasoning_content"])
        return _in_parts(message) if self._parts else message
