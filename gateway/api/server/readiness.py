"""Whether a worker would serve requests, and what is wrong with it."""

import msgspec


class Readiness(msgspec.Struct, frozen=True):
    """`problems` are for anybody's eyes, one sentence each; with some of them a part of the requests is served."""

    ready: bool
    problems: tuple[str, ...] = ()
