"""The base class of the configuration's structs and of the store's records."""

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen struct that refuses unknown fields."""
