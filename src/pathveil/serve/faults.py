"""What a client did wrong, as an HTTP status and one sentence that never quotes what was sent.

    400 the body is no JSON, HL7 or FHIR          413 too large          429 too many requests
    401 no token, or an unknown one               415 unknown type       503 busy, come again
    403 a role that may not do this               422 not as described   408 the body did not come

>>> raise Fault(413, "the body is too large; at most 10 bytes are taken")
Traceback (most recent call last):
pathveil.serve.faults.Fault: the body is too large; at most 10 bytes are taken
"""

from pathveil.errors import PathveilError


class Fault(PathveilError):
    """A request that is refused; ``status`` is its HTTP status and ``again`` when to try once more, in seconds."""

    def __init__(self, status: int, message: str, *, again: int | None = None):
        super().__init__(message)
        self.status, self.again = status, again
