"""From the configuration of a model behind Triton to what its transport is told."""

from urllib.parse import urlsplit

from gateway.config.models.triton import HOST, TritonModel
from gateway.text.tokens.text_codec import TokenizerText
from gateway.text.tokens.tokenizer import Tokenizer
from routing.transports.triton.settings import TritonSettings


def triton_settings(triton: TritonModel, address: str, tokenizer: Tokenizer | None) -> TritonSettings:
    """How the model at one address is asked; `tokenizer` None: nothing is sent there."""
    kind = triton.template
    ends = sorted(tokenizer.eos_ids) if tokenizer is not None and not kind.takes_text else []
    end_id = triton.end_id if triton.end_id is not None or not ends else ends[0]
    return TritonSettings(
        options=triton,
        codec=TokenizerText(tokenizer, triton.adds_bos) if tokenizer is not None and kind.takes_text else None,
        end_id=end_id,
        other_end_ids=tuple(end for end in ends if end != end_id),
        metrics_url=(triton.metrics or "").replace(HOST, _host(address)),
    )


def _host(address: str) -> str:
    host = urlsplit(address).hostname or ""
    return f"[{host}]" if ":" in host else host
