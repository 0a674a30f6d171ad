"""What all structs of the configuration and of the store's records share."""

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all structures here share: nothing changes once it is read, nothing unknown is accepted."""
