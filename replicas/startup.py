"""Loads engines, which may take minutes, and stops waiting when the process should end."""

import asyncio
from collections.abc import Iterable

from replicas.engine import Launched


async def started(engines: Iterable[Launched], stop: asyncio.Event) -> bool:
    """Load engines one after the other; return whether all are loaded before `stop`. Raises what one of them raises."""
    stopping = asyncio.ensure_future(stop.wait())
    try:
        for each in engines:
            loading = asyncio.ensure_future(each.start())
            try:
                await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not loading.done():
                    loading.cancel()
                    await asyncio.wait((loading,))
            if not loading.cancelled():
                loading.result()
            if stop.is_set():
                return False
        return True
    finally:
        stopping.cancel()
