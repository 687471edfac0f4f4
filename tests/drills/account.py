"""What a drill tells while it runs: what it did, what was seen, and whether that is what the handbook promises."""

import time


class Failed(AssertionError):
    """Something else was seen than the handbook promises."""


class CannotRun(Exception):
    """This machine lacks something that the drill needs; the message says what."""


class Account:
    """Prints one line for each thing as it happens, since an operator watches."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def did(self, what: str) -> None:
        """Tell what the drill has done to the service."""
        self._tell("did ", what)

    def saw(self, what: str) -> None:
        """Tell a figure or a message that was seen; nothing depends on it."""
        self._tell("saw ", what)

    def check(self, promise: str, kept: object, seen: object = "") -> None:
        """Tell whether a promise was kept; raises Failed with what was ``seen`` if it was not."""
        self._tell("ok  " if kept else "FAIL", promise)
        if not kept:
            raise Failed(f"{promise}: {seen}" if seen else promise)

    def _tell(self, kind: str, what: str) -> None:
        print(f"{time.monotonic() - self._started:7.2f} s  {kind}  {what}", flush=True)
