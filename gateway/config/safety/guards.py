"""Guards in the configuration: filters that call a model, a service or foreign code."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.secrets import SecretSource
from gateway.config.tenants import END

Roles = Annotated[
    tuple[Literal["system", "developer", "user", "assistant", "tool", "function"], ...],
    Meta(
        min_length=1,
        description="Of prompts: messages that are looked at, by their role. Definitions of tools and of answers' "
        "formats are `system`'s, retrieved documents `tool`'s.",
    ),
]
#: Parts of a request that guards scan by default: all but instructions.
GUARDED: Final = ("user", "assistant", "tool", "function")


class Asking(Record, frozen=True, kw_only=True):
    """The bounds of asking."""

    timeout_seconds: Annotated[
        float, Meta(ge=0.01, le=120, description="Longest wait for a verdict, in seconds; then the guard has failed.")
    ] = 5.0
    concurrency: Annotated[
        int, Meta(ge=1, le=4096, description="Questions of one worker under way at once; others wait in their time.")
    ] = 32
    cache_size: Annotated[
        int, Meta(ge=0, le=1_000_000, description="Verdicts that a worker remembers, by a hash of the text.")
    ] = 4096
    cache_seconds: Annotated[float, Meta(gt=0, le=86_400, description="How long it remembers them, in seconds.")] = (
        300.0
    )
    parallel: Annotated[
        bool,
        Meta(
            description="Of prompts: the model begins to compute while the guard is asked, and nothing of its answer "
            "is sent before the verdict. Off: the model begins after it."
        ),
    ] = True
    window_characters: Annotated[
        int,
        Meta(
            ge=16,
            le=1_000_000,
            description="Of streamed answers: so many characters are gathered before the guard is asked about the "
            "answer so far, and are sent after its verdict.",
        ),
    ] = 512
    roles: Roles = GUARDED


class ModelGuard(Asking, frozen=True, kw_only=True):
    """A model that this gateway serves, such as Llama Guard, asked about each text."""

    name: Annotated[str, Meta(min_length=1, max_length=128, description="Name of the model, one of `models`.")]
    unsafe: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=256,
            description="An answer that begins with this means a match, whatever its case: Llama Guard says `unsafe`, "
            "ShieldGemma and Granite Guardian `Yes`.",
        ),
    ] = "unsafe"
    safe: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=256,
            description="An answer that begins with this means none. Any other answer is a failure of the guard.",
        ),
    ] = "safe"
    instruction: Annotated[
        Annotated[str, Meta(min_length=1, max_length=16_384)] | None,
        Meta(
            description="The question, with `{text}` where the text goes, for models whose chat template does not ask "
            "it. Unset: the text is sent as a user's message, an answer as an assistant's after its prompt, which "
            "Llama Guard's template takes and others may refuse."
        ),
    ] = None
    max_tokens: Annotated[int, Meta(ge=1, le=1024, description="Longest answer of the guard, in tokens.")] = 32
    categories: Annotated[
        tuple[Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_./-]{{1,64}}{END}")], ...],
        Meta(
            max_length=256,
            description="Categories that count, as the guard names them after its verdict (`S1`); empty: all. An "
            "unsafe text without a category counts in any case.",
        ),
    ] = ()


class HttpGuard(Asking, frozen=True, kw_only=True):
    """A service with OpenAI's moderation API, asked about each text."""

    url: Annotated[
        str,
        Meta(
            pattern=rf"^https?://[^\s@]{{1,2000}}{END}",
            description="Address of the endpoint, as `https://HOST/v1/moderations`.",
        ),
    ]
    model: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | None, Meta(description="Model that it is asked for.")
    ] = None
    api_key: Annotated[SecretSource | None, Meta(description="Where its key is.")] = None
    ca: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="PEM file of the authorities that its certificate is checked with; unset: the system's."),
    ] = None
    threshold: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None,
        Meta(description="Score of a category from which on it counts; unset: as the service flags it."),
    ] = None
    categories: Annotated[
        tuple[Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_./-]{{1,64}}{END}")], ...],
        Meta(max_length=256, description="Categories that count; empty: all."),
    ] = ()


class Threads(Asking, frozen=True, kw_only=True):
    """Code that is not ours runs in threads of its own, because nobody knows how long it takes."""

    threads: Annotated[
        int,
        Meta(ge=1, le=64, description="Threads of one worker. One that hangs is lost; when all are, the filter fails."),
    ] = 4


class PresidioFilter(Threads, frozen=True, kw_only=True):
    """Microsoft Presidio's analyzer (`pip install presidio-analyzer` and a model of spaCy)."""

    language: Annotated[str, Meta(pattern=rf"^[a-z]{{2,3}}{END}", description="Language of the texts.")] = "en"
    entities: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...],
        Meta(max_length=128, description="Entities that are looked for, as Presidio names them; empty: all."),
    ] = ()
    threshold: Annotated[float, Meta(ge=0, le=1, description="Score from which on a finding counts.")] = 0.5
    model: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=256,
            description="Model of spaCy in that language, which must be installed: a package's name, or a folder.",
        ),
    ] = "en_core_web_lg"


class OnnxGuardSettings(Threads, frozen=True, kw_only=True):
    """A classifier of texts that ONNX Runtime runs in the worker (`pip install penstock[onnx]`), such as Prompt Guard 2
    or ProtectAI's models of prompt injection.
    """

    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=4096,
            description="Folder with the model, its `tokenizer.json`, and its `config.json`, whose `id2label` names "
            "the labels; relative to this file's folder.",
        ),
    ]
    model: Annotated[str, Meta(min_length=1, max_length=256, description="File of the model in that folder.")] = (
        "model.onnx"
    )
    labels: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...],
        Meta(min_length=1, max_length=64, description="Labels that count, as the model names them: `INJECTION`."),
    ]
    threshold: Annotated[
        float, Meta(gt=0, le=1, description="Probability of a label from which on a text is a match.")
    ] = 0.5
    max_tokens: Annotated[
        int,
        Meta(ge=16, le=8192, description="Tokens that the model sees at once; longer texts are looked at in windows."),
    ] = 512
    overlap_tokens: Annotated[
        int, Meta(ge=0, le=4096, description="Tokens that a window shares with the one before it.")
    ] = 64
    batch: Annotated[int, Meta(ge=1, le=256, description="Windows that the model is given at once.")] = 8
    threads: Annotated[
        int,
        Meta(ge=1, le=64, description="Texts of one worker that are looked at at once, each on one core."),
    ] = 1


class PluginFilter(Threads, frozen=True, kw_only=True):
    """A class of your own. Its `scan(text)` gives tuples of start, end (in characters), label and score."""

    target: Annotated[
        str,
        Meta(
            pattern=rf"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*{END}",
            description="Where it is, as `package.module:Class`.",
        ),
    ]
    settings: Annotated[dict[str, Any], Meta(description="Keyword arguments that it is made with.")] = msgspec.field(
        default_factory=dict
    )
