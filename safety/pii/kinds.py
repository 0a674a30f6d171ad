"""The known kinds of personal data and secrets. Cheap to import: no expression is compiled here."""

from typing import Final, NamedTuple

from safety.pii.rule_tables import lines


class Kind(NamedTuple):
    """A kind of personal data or secret; its name is the label of its matches."""

    name: str
    description: str
    secret: bool = False


KINDS: Final = {name: Kind(name, description, group == "secret") for name, group, description in lines("kinds.txt")}
ALL: Final = frozenset(KINDS)
SECRETS: Final = frozenset(kind.name for kind in KINDS.values() if kind.secret)
PERSONAL: Final = ALL - SECRETS
