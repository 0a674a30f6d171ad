"""The `Scaler` of one model: its settings, and what it remembers between decisions."""

import msgspec

from replicas.controller.decide import decide
from replicas.controller.decision import Decision
from replicas.controller.memory import Memory
from replicas.controller.scaling_settings import ModelScaling
from replicas.controller.snapshot import Snapshot

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Memory)


class ModelScaler:
    """Decides the size of one model from snapshots; advice and action are decided alike."""

    def __init__(self, settings: ModelScaling) -> None:
        self.settings = settings
        self._memory = Memory()

    def decide(self, snapshot: Snapshot) -> Decision:
        """Return how many replicas each pool shall have."""
        decision, self._memory = decide(self.settings, self._memory, snapshot)
        return decision

    def memory(self) -> bytes:
        """Return what is remembered, as JSON, for the controller that goes on."""
        return _ENCODER.encode(self._memory)

    def restore(self, memory: bytes) -> bool:
        """Go on from another controller's memory; False where it cannot be read, and nothing has changed."""
        try:
            self._memory = _DECODER.decode(memory)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        return True
