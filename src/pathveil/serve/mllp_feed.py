"""HL7 over MLLP: a message is stored, then acknowledged; what cannot be stored is never acknowledged.

A frame is 0x0B, the message, 0x1C 0x0D; it may come in any pieces, and several may come at once. The answer is an ACK
that names the message by its control id (MSH-10):

    AA   its reports are on the disk
    AE   it was read and cannot be used: no patient, no text (the sender should not send it again as it is)
    AR   it is no HL7 v2 message, or its character set (MSH-18) is not known

A connection is a task of its own, with limits on size and time, so a slow or silent sender holds nobody else up; where
there are too many, or unfinished messages hold too much memory together, one without a stored message gives way.
"""

import asyncio
import contextlib
import logging
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool

from pathveil.corpus.messages.hl7 import HEADER, Delimiters, UnusableMessage, charset_of, delimiters_of, in_lines
from pathveil.corpus.messages.naaccr import read_message
from pathveil.serve.incoming import sent_report

if TYPE_CHECKING:
    from pathveil.serve.app import Service

log = logging.getLogger("pathveil.serve")

START, END = b"\x0b", b"\x1c\r"
LARGEST = 16 << 20  # bytes of a message
TOGETHER = 128 << 20  # bytes of messages that have begun and not ended, of all senders
PIECE = 1 << 16  # bytes read at a time
IDLE = 600.0  # seconds that a connection may be silent between messages
SLOW = 60.0  # seconds for a message to come, once it has begun
CONNECTIONS = 64
LONGEST_FIELD = 250  # bytes of a field of MSH that an answer repeats; HL7 has none that is longer


class MLLPFeed:
    """Listens on a port."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        slow: float = SLOW,
        idle: float = IDLE,
        largest: int = LARGEST,
        together: int = TOGETHER,
    ):
        self.host, self.port, self.slow, self.idle = host, port, slow, idle
        self.largest, self.together = largest, together
        self.stored = self.refused = self.connected = 0
        self.strangers: dict[asyncio.StreamWriter, None] = {}
        self.coming: dict[asyncio.StreamWriter, bytearray] = {}  # by sender, what came and is not yet a message
        self.listening = asyncio.Event()

    def describe(self) -> str:
        return f"MLLP on {self.host}:{self.port}: {self.stored} messages stored, {self.refused} refused"

    async def run(self, service: "Service") -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.connected += 1
            try:
                if self.connected <= CONNECTIONS or self.make_room():
                    self.strangers[writer], self.coming[writer] = None, bytearray()
                    await self.talk(service, reader, writer)
            except (TimeoutError, ConnectionError):
                pass  # the sender went away, or is too slow, or sends too much: nothing was acknowledged
            finally:
                self.connected -= 1
                self.strangers.pop(writer, None)
                self.coming.pop(writer, None)
                writer.close()
                with contextlib.suppress(Exception):
                    await writer.wait_closed()

        server = await asyncio.start_server(serve, self.host, self.port, limit=PIECE)
        self.port = server.sockets[0].getsockname()[1]
        self.listening.set()
        async with server:
            await server.serve_forever()

    def make_room(self) -> bool:
        """Close one of those without a stored message, drawn at random: whoever only sits there gives way to who
        comes. False where something of all is stored."""
        if not self.strangers:
            return False
        self.close(random.choice(list(self.strangers)))
        return True

    def close(self, stranger: asyncio.StreamWriter) -> None:
        del self.strangers[stranger]
        self.coming[stranger].clear()
        stranger.transport.abort()

    def make_room_for(self, size: int, sender: asyncio.StreamWriter) -> None:
        """Close strangers with unfinished messages, the oldest first, until so many bytes more fit; the sender itself
        where nobody else gives way, who then comes again."""
        while sum(map(len, self.coming.values())) + size > self.together:
            others = (one for one in self.strangers if one is not sender and self.coming[one])
            oldest = next(others, None)
            if oldest is None:
                raise ConnectionError
            self.close(oldest)

    async def next_message(self, reader: asyncio.StreamReader, sender: asyncio.StreamWriter) -> bytes:
        """The sender's next message, of which some may have come with the last."""
        held = self.coming[sender]

        async def more() -> None:
            piece = await reader.read(PIECE)
            if not piece:
                raise ConnectionError
            self.make_room_for(len(piece), sender)
            held.extend(piece)

        async with asyncio.timeout(self.idle):
            while (start := held.find(START)) < 0:
                held.clear()  # what stands between messages is none
                await more()
        del held[: start + len(START)]
        searched = 0
        async with asyncio.timeout(self.slow):
            while (end := held.find(END, searched)) < 0:
                if len(held) > self.largest:
                    raise ConnectionError
                searched = max(0, len(held) - len(END) + 1)
                await more()
        if end > self.largest:
            raise ConnectionError
        message = bytes(held[:end])
        del held[: end + len(END)]
        return message

    async def talk(self, service: "Service", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Messages of one sender, one after the other."""
        while True:
            message = await self.next_message(reader, writer)
            code, answer = await self.answer(service, message)
            if code == "AA":
                self.strangers.pop(writer, None)  # a message of it is stored: no longer one of those who give way
            writer.write(START + answer + END)
            async with asyncio.timeout(self.slow):
                await writer.drain()

    async def answer(self, service: "Service", message: bytes) -> tuple[str, bytes]:
        """Store a message's reports and make the acknowledgement; its code, and all of it."""
        desk = service.desk
        assert desk is not None
        code, why = "AA", ""
        try:
            reports = await run_in_threadpool(reports_of, message, key=service.key)
            await desk.receive(reports, source="mllp")
            self.stored += 1
        except NotReadable as fault:
            code, why = "AR", str(fault)
        except UnusableMessage as fault:
            code, why = "AE", f"the message {fault}"
        except Exception as error:  # a full disk, say: the sender keeps the message and comes again
            log.error("a message could not be stored: %s", type(error).__name__)
            code, why = "AE", "the message could not be stored; send it again"
        self.refused += code != "AA"
        service.metrics.messages.labels("mllp", code).inc()
        return code, acknowledgement(message, code, why)


class NotReadable(Exception):
    """Bytes that are no message that can be read."""


def reports_of(message: bytes, *, key: bytes) -> list:
    """The reports of a message; who sends one in a character set that is not known can be told so."""
    if not HEADER.match(message):
        raise NotReadable("this is no HL7 v2 message: it does not begin with MSH")
    if charset_of(message) is None:
        raise NotReadable("the character set of MSH-18 is not known")
    return [sent_report(report) for report in read_message(in_lines(message), key=key, registry=None)]


def header_fields(message: bytes) -> list[bytes]:
    """The fields of MSH, the first of them its name: field n has the place n − 1."""
    line = message.lstrip().removeprefix(b"\xef\xbb\xbf").split(b"\r")[0].split(b"\n")[0]
    return line.split(line[3:4]) if len(line) > 3 else []


def acknowledgement(message: bytes, code: str, why: str) -> bytes:
    """An ACK: sender and receiver change places, and MSA names the message by its control id.

    >>> message = rb"MSH|^~\\&|LIS|LAB|REG|NORTH|20200101||ORU^R01|77|P|2.5.1"
    >>> head, answer, _ = acknowledgement(message, "AA", "").decode().split("\\r")
    >>> head.split("|")[2:6], head.split("|")[8], answer
    (['REG', 'NORTH', 'LIS', 'LAB'], 'ACK^R01', 'MSA|AA|77')
    """
    known = header_fields(message) if HEADER.match(message) else []
    fields = [field[:LONGEST_FIELD].decode("utf-8", "replace") for field in known]
    fields += [""] * (20 - len(fields))
    marks = delimiters_of(message.lstrip().split(b"\r")[0].decode("utf-8", "replace")) if fields[0] else Delimiters()
    bar, parts = marks.field, fields[8].split(marks.component)
    event = f"{marks.component}{parts[1]}" if len(parts) > 1 else ""
    time = datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")
    encoding = marks.component + marks.repetition + marks.escape + marks.subcomponent
    head = ["MSH", encoding, fields[4], fields[5], fields[2], fields[3], time[:14], "", f"ACK{event}", time]
    head += [fields[10] or "P", fields[11] or "2.5.1"]
    answer = ["MSA", code, fields[9]] + ([why] if why else [])
    return (bar.join(head) + "\r" + bar.join(answer) + "\r").encode()
