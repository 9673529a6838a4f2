"""The body of a request, as it comes over a connection: so many bytes at most, within so many seconds.

>>> async def sent():
...     for chunk in (b"ab", b"cd"):
...         yield chunk
>>> asyncio.run(read_body(sent(), most=4, seconds=9, refuse=lambda status, why: ValueError(why)))
b'abcd'
>>> asyncio.run(read_body(sent(), most=3, seconds=9, refuse=lambda status, why: ValueError(why)))
Traceback (most recent call last):
ValueError: the body is too large; at most 3 bytes are taken
"""

import asyncio
import re
from collections.abc import AsyncIterable, Callable


async def read_body(
    chunks: AsyncIterable[bytes],
    *,
    most: int,
    seconds: float,
    refuse: Callable[[int, str], Exception],  # a status of HTTP and a sentence to the caller's own error
    announced: str = "0",  # its content-length: one that says too much is refused before any of it is read
) -> bytes:
    """All of a body that is not too large and comes in time."""
    from starlette.requests import ClientDisconnect

    too_large = refuse(413, f"the body is too large; at most {most:,} bytes are taken")
    if not re.fullmatch("[0-9]{1,15}", announced) or int(announced) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in chunks:
                body += chunk
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise refuse(408, f"the body did not come within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise refuse(400, "the client went away") from None
    return bytes(body)
