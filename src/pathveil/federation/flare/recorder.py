"""A copy of every byte that a site hands to the network, for whoever must be able to say what left.

``pathveil federate site … --record FOLDER`` sets it up. Every frame is written before it is sent, as FLARE gives it to
its transport and before TLS encrypts it, to one file a process: 8 bytes of length, then the frame.

>>> import tempfile
>>> from pathlib import Path
>>> path = Path(tempfile.mkdtemp()) / "1.frames"
>>> append(path, b"abc"), append(path, b"de")
(None, None)
>>> [bytes(frame) for frame in frames(path)]
[b'abc', b'de']
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "PATHVEIL_RECORD"
_lock = threading.Lock()


def start() -> None:
    """Record from now on, where the environment names a folder."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return
    from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection

    path = Path(folder) / f"{os.getpid()}.frames"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = SfmConnection.__init__

    def recording(self, conn, local_endpoint):
        send = conn.send_frame

        def send_frame(frame):
            append(path, frame)
            send(frame)

        conn.send_frame = send_frame
        opened(self, conn, local_endpoint)

    SfmConnection.__init__ = recording


def append(path: Path, frame: bytes | bytearray | memoryview) -> None:
    with _lock, open(path, "ab", opener=_private) as file:
        file.write(len(frame).to_bytes(8, "little"))
        file.write(frame)


def _private(path: str, flags: int) -> int:
    """Opens a file that only its owner may read: the frames hold what the hub alone should see."""
    return os.open(path, flags, 0o600)


def frames(path: Path) -> Iterator[bytes]:
    """The recorded frames, in order."""
    with path.open("rb") as file:
        while length := file.read(8):
            yield file.read(int.from_bytes(length, "little"))
