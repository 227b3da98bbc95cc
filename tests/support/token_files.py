"""A file of static tokens, and the header that brings one."""

import hashlib
from collections.abc import Callable

__all__ = ["FILE", "HASHED", "Write", "bearer"]

HASHED = hashlib.sha256(b"hidden").hexdigest()

FILE = f"""\
secret-a,alice,1,"staff, admins"
secret-b,bob,2
  sha256:{HASHED} , carol , 3 , one

"quoted,token",dave,4
"""

Write = Callable[[str], None]


def bearer(token: str | bytes) -> tuple[str, bytes]:
    return ("authorization", b"Bearer " + (token if isinstance(token, bytes) else token.encode()))
