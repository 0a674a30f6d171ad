"""The tokenizers of one process: one for each content of files, however many models and folders have it."""

import os
from collections.abc import Callable, Collection, Hashable
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar, cast

from gateway.text.tokens.detokenizer import TokenTable
from gateway.text.tokens.marked import MarkedTokens
from gateway.text.tokens.tokenizer import Tokenizer

T = TypeVar("T")
_DIGEST_BYTES: Final = 32


class SharedTokenizers:
    """Tokenizers, chat formats and token tables by what they are made of; each is kept as long as this is.

    A tokenizer takes 35 MB and half a second, a used table up to 50 MB more, so models with the same files share them.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, object] = {}
        self._digests: dict[tuple[str, int, int, int], bytes] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made for a key, which tells its type, too; `make` it the first time. Errors are not kept."""
        if key not in self._made:
            self._made[key] = make()
        return cast("T", self._made[key])

    def only_of(self, tokenizers: Collection[Tokenizer]) -> "SharedTokenizers":
        """Return another one, with what this one has of some tokenizers; the rest may go with this one."""
        used = {id(tokenizer) for tokenizer in tokenizers}
        kept = SharedTokenizers()
        kept._digests = dict(self._digests)
        kept._made = {
            key: made
            for key, made in self._made.items()
            if id(made) in used or any(id(part) in used for part in (key if isinstance(key, tuple) else ()))
        }
        return kept

    def digest(self, path: Path) -> bytes:
        """Hash a file's content; a file that has not changed is read once. Raises OSError."""
        stat = os.stat(path)
        version = (os.path.realpath(path), stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if version not in self._digests:
            self._digests[version] = blake2b(path.read_bytes(), digest_size=_DIGEST_BYTES).digest()
        return self._digests[version]

    def table(self, tokenizer: Tokenizer) -> TokenTable:
        """Return the table of a tokenizer's tokens."""
        return self.once(("table", tokenizer), lambda: TokenTable(tokenizer))

    def marked_table(self, tokenizer: Tokenizer, marks: Collection[str]) -> TokenTable:
        """Return the table of a tokenizer's tokens in which these control tokens are written out."""
        key = ("marked", tokenizer, frozenset(marks))
        return self.once(key, lambda: TokenTable(MarkedTokens(tokenizer, marks)))
