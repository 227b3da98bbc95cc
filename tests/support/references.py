"""Whether the garbage collector sees the references that there are.

The collector takes an object for garbage if the objects that it has visited hold as many references to it as there are.
So a class that shows a reference twice can make it clear an object that is still in use.
"""

import gc
import sys
from collections import Counter

__all__ = ["overcounted"]


def overcounted() -> Counter[str]:
    """Return the types of the objects to which those of the package show more references than there are."""
    objects = gc.get_objects()
    shown: dict[int, int] = {}
    for one in objects:
        if str(type(one).__module__).startswith("apf_middleware."):  # some types have a property there
            for referent in gc.get_referents(one):
                shown[id(referent)] = shown.get(id(referent), 0) + 1
    found = Counter[str]()
    for one in objects:
        own = 3  # of the list, the variable and the argument
        if sys.getrefcount(one) - own < shown.get(id(one), 0):
            found[type(one).__qualname__] += 1
    return found
