"""What is known of the KV tokens that narrow and wide replicas hold."""

from gateway.scaling.demand.kv_rooms import KvRoom, relaunch_rooms
from tests.gateway.reshaping.relaunched import config_of

LEARNED = {"m narrow local": KvRoom(kv_tokens=60_000, gpus=1), "m wide local": KvRoom(kv_tokens=500_000, gpus=4)}


def test_what_is_configured_goes_over_what_was_learned() -> None:
    def rooms(learned: dict[str, KvRoom], **kv_tokens: int) -> tuple[int, int]:
        return relaunch_rooms(config_of(kv_tokens).models[0], learned)

    assert rooms({}) == (0, 0)
    assert rooms(LEARNED) == (60_000, 500_000)
    assert rooms(LEARNED, wide_kv_tokens=400_000) == (60_000, 400_000)
    # One of two GPUs held less than one of four will.
    assert rooms(LEARNED | {"m wide local": KvRoom(kv_tokens=200_000, gpus=2)}) == (60_000, 0)
