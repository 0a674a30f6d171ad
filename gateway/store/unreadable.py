"""What reading a record of the store can raise: it may be another version's, or nobody's."""

from typing import Final

import msgspec

#: msgspec says so in three ways: of the form, of bytes that are no text, and of lists within lists.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
