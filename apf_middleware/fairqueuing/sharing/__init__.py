"""Sharing of a server's seats: lent at each dispatch (`Lending`), or adjusted from time to time (`Adjusting`).

Both begin with the limits that follow from shares (`limits`). `borrowing` and `allocation` are Kubernetes' computation,
for `Adjusting`. `proportion` computes the seats that named queues deserve.
"""

from apf_middleware.fairqueuing.sharing.adjusting import Adjusting
from apf_middleware.fairqueuing.sharing.base import Sharing
from apf_middleware.fairqueuing.sharing.lending import Lending
from apf_middleware.fairqueuing.sharing.level import LevelRecord, SharedLevel

__all__ = ["Adjusting", "Lending", "LevelRecord", "SharedLevel", "Sharing"]
