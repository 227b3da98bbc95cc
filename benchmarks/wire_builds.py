"""The build of our package that a server runs, as the server itself prints it when its app is made."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import apf_middleware

__all__ = ["Build"]

_MARK: Final = "build of apf_middleware: "


@dataclass(frozen=True, slots=True)
class Build:
    """The folder of the package in a process, and whether its hot path is compiled."""

    package: str
    is_compiled: bool

    @classmethod
    def here(cls) -> "Build":
        """Return the build of this process."""
        return cls(str(Path(apf_middleware.__file__).parent), apf_middleware.is_compiled)

    @classmethod
    def printed(cls, output: str) -> "Build | None":
        """Return the build that a server has printed, None if there is none in its output."""
        found = re.search(rf"^{_MARK}(.*)$", output, re.MULTILINE)
        return cls(**json.loads(found[1])) if found else None

    @property
    def name(self) -> str:
        return "compiled" if self.is_compiled else "pure"

    def print(self) -> None:
        """Print the build for `printed`."""
        print(f"{_MARK}{json.dumps(asdict(self))}", flush=True)
