"""`penstock replica`: the command of replicas/cli, with the gateway's tokenizers and store."""

import argparse

from gateway.cli.replica_registration import StoreRegistration
from gateway.text.tokens import loader
from gateway.text.tokens.identity import tokenizer_hash
from gateway.text.tokens.tokenizer import TokenizerError
from replicas.cli import replica_command
from replicas.cli.model_tokenizer import ModelTokenizer, NoTokenizer


def register(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `replica`."""
    replica_command.register(subparsers, load_tokenizer, StoreRegistration())


def load_tokenizer(source: str) -> ModelTokenizer:
    """Load the tokenizer of a bundled name or a path, for engines. Raises NoTokenizer."""
    try:
        loaded = loader.load_tokenizer(source)
    except TokenizerError as error:
        raise NoTokenizer(str(error)) from error
    tokenizer = loaded.tokenizer
    return ModelTokenizer(
        vocab_size=tokenizer.vocab_size,
        eos_ids=tokenizer.eos_ids,
        specials=tokenizer.specials,
        token_bytes=tokenizer.token_bytes,
        encode=lambda text, special: tokenizer.encode(text, special=special),
        identity=tokenizer_hash(loaded),
    )
