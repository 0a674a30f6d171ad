"""Pure: how many tokens providers count for images, sound, video and pages, by the size of these.

The rules are documented: OpenAI "Images and vision" (tiles or patches), Anthropic "Vision" (width x height / 750),
Gemini "Understand and count tokens" (258 a tile or page, 32 a second of sound, 263 of video). OpenAI and Anthropic
document no exact figures for sound and pages; those here are a guess of what they count as a rule.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from gateway.config.models.settings import Model

#: The size that is assumed of an image that only its provider fetches.
UNSEEN_IMAGE: Final = (1024, 1024)


@dataclass(frozen=True, slots=True)
class MediaRule:
    """One provider's rule. `image` takes width and height in pixels, and whether low detail was asked for.

    `sound` and `video` are tokens a second, `page` those of a page of a PDF.
    """

    name: str
    image: Callable[[int, int, bool], int]
    sound: float
    video: float
    page: int


def _tiles(base: int, tile: int, width: int, height: int, low: bool) -> int:
    """OpenAI: scaled into 2048 x 2048, then to a shorter side of 768; `base`, and `tile` for each 512 x 512."""
    if low:
        return base
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height)) if min(width, height) * scale > 768 else scale
    return base + tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def _patches(factor: float, width: int, height: int, low: bool) -> int:
    """OpenAI's small models: patches of 32 x 32, at most 1536 of them; in low detail those of 512 x 512."""
    patches = math.ceil(width / 32) * math.ceil(height / 32)
    return math.ceil(factor * min(patches, 256 if low else 1536))


def _area(width: int, height: int, low: bool) -> int:
    """Anthropic: scaled to a longer side of 1568, and to 1600 tokens at most."""
    del low
    scale = min(1.0, 1568 / max(width, height))
    return max(1, min(1600, math.ceil(width * scale * height * scale / 750)))


def _gemini_tiles(width: int, height: int, low: bool) -> int:
    """Gemini: one tile up to 384 x 384, else one for each 768 x 768."""
    if low or (width <= 384 and height <= 384):
        return 258
    return 258 * math.ceil(width / 768) * math.ceil(height / 768)


def _openai(name: str, image: Callable[[int, int, bool], int]) -> MediaRule:
    return MediaRule(name, image, sound=10.0, video=263.0, page=1200)


ANTHROPIC: Final = MediaRule("anthropic", _area, sound=10.0, video=263.0, page=2250)
GEMINI: Final = MediaRule("gemini", _gemini_tiles, sound=32.0, video=263.0, page=258)
#: The rule of models that are known to have no other.
OPENAI: Final = _openai("openai tiles", partial(_tiles, 85, 170))
#: Beginnings of OpenAI's models with figures of their own, the longer ones first.
_OF_MODELS: Final = (
    ("gpt-4.1-mini", _openai("openai patches", partial(_patches, 1.62))),
    ("gpt-4.1-nano", _openai("openai patches", partial(_patches, 2.46))),
    ("gpt-5-mini", _openai("openai patches", partial(_patches, 1.62))),
    ("gpt-5-nano", _openai("openai patches", partial(_patches, 2.46))),
    ("gpt-4o-mini", _openai("openai tiles", partial(_tiles, 2833, 5667))),
    ("o4-mini", _openai("openai patches", partial(_patches, 1.72))),
    ("gpt-5", _openai("openai tiles", partial(_tiles, 70, 140))),
    ("o1", _openai("openai tiles", partial(_tiles, 75, 150))),
    ("o3", _openai("openai tiles", partial(_tiles, 75, 150))),
)


def media_rule(model: Model) -> MediaRule:
    """Find the rule of a configured model."""
    names = [pool.upstream.model for pool in model.pools if pool.upstream is not None and pool.upstream.model]
    return rule_of([model.name, *names], [address for pool in model.pools for address in pool.addresses])


def rule_of(models: Iterable[str], addresses: Iterable[str]) -> MediaRule:
    """Find the rule by the upstreams' names of the model and their addresses."""
    names = [name.lower() for name in models]
    told = " ".join([*names, *(address.lower() for address in addresses)])
    if "claude" in told or "anthropic" in told:
        return ANTHROPIC
    if "gemini" in told or "googleapis" in told:
        return GEMINI
    for beginning, rule in _OF_MODELS:
        if any(name.rpartition("/")[2].startswith(beginning) for name in names):
            return rule
    return OPENAI
