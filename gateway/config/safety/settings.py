"""The section `safety`: filters, policies, and the actions on a match."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from gateway.config.base import Record
from gateway.config.safety.guards import (
    Asking,
    HttpGuard,
    ModelGuard,
    OnnxGuardSettings,
    PluginFilter,
    PresidioFilter,
    Roles,
)
from gateway.config.tenants import END, NAME

#: Filters without settings, referred to by these names.
BUILT_IN: Final = ("pii", "secrets", "injection")

_Name = Annotated[str, Meta(pattern=NAME)]
_Kinds = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...], Meta(max_length=128)]
_Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class PiiFilter(Record, frozen=True, kw_only=True):
    """Personal data and secrets, by their forms and checksums."""

    detect: Annotated[_Kinds, Meta(description="Kinds that are looked for; empty: all (`penstock safety kinds`).")] = ()
    ignore: Annotated[_Kinds, Meta(description="Kinds that are not looked for.")] = ()


class InjectionFilter(Record, frozen=True, kw_only=True):
    """Attempts to override instructions, scored by what they say; of prompts."""

    threshold: Annotated[
        float,
        Meta(gt=0, le=1, description="Score from which on a text is an attempt; lower finds more, and errs more."),
    ] = 0.5
    roles: Roles = ("user", "tool", "function")


class TermsFilter(Record, frozen=True, kw_only=True):
    """A blocklist. Case, full-width forms and invisible characters make no difference."""

    terms: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=63)], ...],
        Meta(max_length=100_000, description="Terms of 1 to 63 characters."),
    ] = ()
    file: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="UTF-8 file with a term on each line, relative to this file's folder; empty lines and those "
            "that begin with `#` are left out."
        ),
    ] = None
    match: Annotated[
        Literal["word", "substring"],
        Meta(description="`word`: a term counts where no letter or digit touches it; `substring`: anywhere."),
    ] = "word"


class ExpressionsFilter(Record, frozen=True, kw_only=True):
    """Regular expressions in RE2's syntax, which takes linear time whatever the text."""

    patterns: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=2048)], ...],
        Meta(
            min_length=1,
            max_length=256,
            description="Expressions. What one can match must be bounded (`{1,40}` and not `+`), for so much of an "
            "answer is held back; but one character or class at an expression's end may repeat without bound.",
        ),
    ]
    ignore_case: Annotated[bool, Meta(description="Whether upper and lower case are the same.")] = False


class CanariesFilter(Record, frozen=True, kw_only=True):
    """Strings that stand in system prompts and must never appear in an answer."""

    tokens: Annotated[
        tuple[Annotated[str, Meta(min_length=8, max_length=63)], ...],
        Meta(max_length=1024, description="Strings of 8 to 63 characters that no answer may have."),
    ] = ()
    prefix: Annotated[
        Annotated[str, Meta(min_length=4, max_length=32, pattern=rf"^[!-~]*{END}")] | None,
        Meta(
            description="A word of a system or developer message that begins with this is a canary of that request's "
            "answers, as in `canary-7f3a9c`; unset: none."
        ),
    ] = None


class FloodsFilter(Record, frozen=True, kw_only=True):
    """Prompts that a tenant sends again and again, the same or almost; counted over all workers. Of prompts."""

    seconds: Annotated[int, Meta(ge=1, le=86_400, description="Time over which is counted, in seconds.")] = 60
    identical: Annotated[_Count | None, Meta(description="Most prompts that are the same; unset: any number.")] = 30
    similar: Annotated[_Count | None, Meta(description="Most prompts that differ a little; unset: any number.")] = None
    characters: Annotated[
        int, Meta(ge=0, le=100_000, description="Prompts shorter than this, in characters, are not counted.")
    ] = 32


class SizesFilter(Record, frozen=True, kw_only=True):
    """Bounds on the text of a request. Of prompts."""

    prompt_characters: Annotated[
        _Count | None,
        Meta(description="Most characters of all text together: messages, definitions of tools and the rest."),
    ] = None
    message_characters: Annotated[
        _Count | None,
        Meta(description="Most characters of one message in all its parts, or of one prompt or input of several."),
    ] = None
    messages: Annotated[_Count | None, Meta(description="Most messages, or prompts or inputs.")] = None


class FilterSettings(Record, frozen=True, kw_only=True):
    """A filter; exactly one field beside `name` says what it is. `pii`, `secrets` and `injection` need no settings."""

    name: Annotated[str, Meta(pattern=NAME, description="Name that policies refer to.")]
    pii: Annotated[PiiFilter | None, Meta(description="Personal data and secrets.")] = None
    injection: Annotated[InjectionFilter | None, Meta(description="Prompt injection and jailbreaks.")] = None
    terms: Annotated[TermsFilter | None, Meta(description="A blocklist.")] = None
    expressions: Annotated[ExpressionsFilter | None, Meta(description="Regular expressions.")] = None
    canaries: Annotated[CanariesFilter | None, Meta(description="Strings that no answer may have.")] = None
    floods: Annotated[FloodsFilter | None, Meta(description="The same prompt again and again.")] = None
    sizes: Annotated[SizesFilter | None, Meta(description="Bounds on the text of a request.")] = None
    model: Annotated[ModelGuard | None, Meta(description="A model that this gateway serves, as a guard.")] = None
    http: Annotated[HttpGuard | None, Meta(description="A moderation service, as a guard.")] = None
    presidio: Annotated[PresidioFilter | None, Meta(description="Microsoft Presidio, if it is installed.")] = None
    onnx: Annotated[OnnxGuardSettings | None, Meta(description="A classifier as an ONNX model, as a guard.")] = None
    plugin: Annotated[PluginFilter | None, Meta(description="A filter of your own, in Python.")] = None

    @property
    def guard(self) -> Asking | None:
        """The guard that the filter calls; None for a filter that calls none."""
        return self.model or self.http or self.presidio or self.onnx or self.plugin


class Use(Record, frozen=True, kw_only=True):
    """A filter in its place."""

    filter: Annotated[_Name, Meta(description="Name of the filter.")]
    action: Annotated[
        Literal["block", "redact", "flag"] | None,
        Meta(
            description="What a match does. `block`: a prompt is refused with 400, an answer ends before the match "
            "with finish_reason `content_filter`. `redact`: the match is replaced by its kind, as in `[EMAIL]`. "
            "`flag`: it is recorded. Unset: `redact` for personal data and secrets, `block` for everything else."
        ),
    ] = None


_Uses = Annotated[tuple[_Name | Use, ...], Meta(max_length=64)]


class Rules(Record, frozen=True, kw_only=True):
    """Which filters look at prompts and at answers."""

    input: Annotated[_Uses, Meta(description="Filters of prompts: names, or `{filter: NAME, action: ACTION}`.")] = ()
    output: Annotated[_Uses, Meta(description="Filters of answers, likewise.")] = ()
    on_failure: Annotated[
        Literal["fail_closed", "fail_open"],
        Meta(
            description="What happens when a filter fails or takes too long: `fail_closed` refuses the request or ends "
            "the answer, `fail_open` goes on without that filter."
        ),
    ] = "fail_closed"
    record_text: Annotated[
        bool,
        Meta(
            description="Whether the log's lines about prompts show the text around a match, with every match "
            "redacted; otherwise their lengths and salted hashes are written, and of answers lengths alone."
        ),
    ] = False


class Policy(Rules, frozen=True, kw_only=True):
    """Rules that tenants and models name."""

    name: Annotated[str, Meta(pattern=NAME, description="Name that tenants and models refer to.")]


class Safety(Rules, frozen=True, kw_only=True):
    """What is looked for in prompts and answers. The rules that stand here are those of tenants that name no policy."""

    filters: Annotated[tuple[FilterSettings, ...], Meta(max_length=256, description="Filters with settings.")] = ()
    policies: Annotated[
        tuple[Policy, ...],
        Meta(max_length=1024, description="Other rules, for the tenants and models that name them."),
    ] = ()
