"""Read a configuration file with everything that it refers to on this machine."""

from pathlib import Path

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.server.machine_checks import resolve
from gateway.text.tokens.loader import BUNDLED, load_tokenizer
from gateway.text.tokens.shared_tokenizers import SharedTokenizers
from gateway.text.tokens.tokenizer import TokenizerError


def checked_configuration(file: Path, *, variables: bool = True) -> Config:
    """Read it and load its tokenizers.

    `variables`: whether those of the environment must be set, which another process may have. Raises ConfigError.
    """
    source, tokenizers = str(file), SharedTokenizers()
    config = load_config(file)
    resolve(config, source, BUNDLED, variables=variables)
    for index, model in enumerate(config.models):
        try:
            load_tokenizer(model.tokenizer, tokenizers)
        except TokenizerError as error:
            raise ConfigError(source, f"models[{index}].tokenizer", str(error)) from error
    return config
