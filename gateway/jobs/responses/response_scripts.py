"""Load the Lua scripts of responses and conversations."""

from importlib.resources import files
from typing import Final

from gateway.store.lua_script import Script


def _script(name: str) -> Script:
    folder = files("gateway.jobs.responses") / "lua"
    return Script("\n".join((folder / f"{part}.lua").read_text(encoding="utf-8") for part in ("space", name)))


PUT: Final = _script("put")
GET: Final = _script("get")
CHAIN: Final = _script("chain")
DELETE: Final = _script("delete")
PROGRESS: Final = _script("progress")
FINISH: Final = _script("finish")
CANCEL: Final = _script("cancel")
FOLLOW: Final = _script("follow")
CREATE_CONVERSATION: Final = _script("create_conversation")
CONVERSATION: Final = _script("conversation")
ADD_ITEMS: Final = _script("add_items")
LIST_ITEMS: Final = _script("list_items")
ITEM: Final = _script("item")
