"""Feeds: HL7 over MLLP by raw sockets, and a watched folder."""

import asyncio
import contextlib
import json
import re

import pytest

from bundle.conftest import reports
from pathveil.bundle.incoming import OneReading, read_files
from pathveil.serve.app import make_app
from pathveil.serve.desk import Desk
from pathveil.serve.folder_feed import FolderFeed
from pathveil.serve.incoming import read_file
from pathveil.serve.mllp_feed import CONNECTIONS, MLLPFeed, reports_of
from serve.conftest import service_of

START, END = b"\x0b", b"\x1c\r"
KEY = b"k" * 32


def oru(control: str, text: str = "carcinoma of the breast", *, charset: str = "", patient: str = "77") -> str:
    head = f"MSH|^~\\&|LIS|NORTH|REG|CENTRAL|20200101||ORU^R01^ORU_R01|{control}|P|2.5.1" + (
        "||||||" + charset if charset else ""
    )
    return (
        f"{head}\rPID|1||{patient}^^^^MR||Quillfeather^Zebedee||19500101\rOBR|1||S-{control}|11529-5^Pathology^LN|||20200102\r"
        f"OBX|1|TX|22637-3^final diagnosis^LN||{text}\r"
    )


@contextlib.asynccontextmanager
async def listening(model, tmp_path, **options):
    service = service_of(model)
    feed = MLLPFeed("127.0.0.1", 0, **options)
    service.desk = Desk(tmp_path / "store", service.settings, cheap_passwords=True)
    service.desk.feeds = [feed]
    app = make_app(service)
    async with app.router.lifespan_context(app):
        await asyncio.wait_for(feed.listening.wait(), 30)
        yield service, feed


async def exchange(port: int, *pieces: bytes, pause: float = 0.0) -> list[str]:
    """Send pieces and read as many answers as there are ends of messages in them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause)
    answers = []
    for _ in range(b"".join(pieces).count(END)):
        answer = await asyncio.wait_for(reader.readuntil(END), 30)
        answers.append(answer.strip(START + END).decode())
    writer.close()
    return answers


def framed(message: str, encoding: str = "utf-8") -> bytes:
    return START + message.encode(encoding) + END


def texts(service) -> dict[str, str]:
    rows = service.desk.base.rows("SELECT case_key FROM reports")
    return {one.number: one.text for row in rows for one in service.desk.casework.reports(row["case_key"])}


def test_messages_are_stored_and_acknowledged_by_their_id(model, tmp_path):
    async def run():
        async with listening(model, tmp_path) as (service, feed):
            whole = framed(oru("m1"))
            two = framed(oru("m2", "adénocarcinome", charset="8859/1"), "latin-1") + framed(
                oru("m3", "Ödem 漢", charset="UNICODE UTF-8")
            )
            (first,) = await exchange(feed.port, *(whole[n : n + 1] for n in range(len(whole))))  # byte by byte
            second, third = await exchange(feed.port, b"noise" + two)
            for control, answer in (("m1", first), ("m2", second), ("m3", third)):
                assert answer.split("\r")[1] == f"MSA|AA|{control}"
                assert answer.startswith("MSH|^~\\&|REG|CENTRAL|LIS|NORTH|") and "ACK^R01" in answer
            assert "adénocarcinome" in texts(service)["S-m2"] and "Ödem 漢" in texts(service)["S-m3"]
            nobody = re.sub("PID.*?\r", "", oru("m6"))
            refused = {
                "AR": [b"not hl7 at all", oru("m4", charset="KLINGON").encode()],
                "AE": [oru("m5", "").encode(), nobody.encode()],
            }
            for code, messages in refused.items():
                for message in messages:
                    (answer,) = await exchange(feed.port, START + message + END)
                    assert answer.split("\r")[1].startswith(f"MSA|{code}|") and "Quillfeather" not in answer
            assert set(texts(service)) == {"S-m1", "S-m2", "S-m3"}
            assert (feed.stored, feed.refused) == (3, 4) and "3 messages stored" in feed.describe()
            (again,) = await exchange(feed.port, whole)  # sent twice: acknowledged, stored once
            assert again.split("\r")[1] == "MSA|AA|m1" and len(texts(service)) == 3

    asyncio.run(run())


def test_what_cannot_be_stored_is_not_acknowledged(model, tmp_path):
    async def run():
        async with listening(model, tmp_path) as (service, feed):

            def full(*_, **__):
                raise OSError("disk full")

            service.desk.casework.receive = full
            (answer,) = await exchange(feed.port, framed(oru("m1")))
            assert answer.split("\r")[1] == "MSA|AE|m1|the message could not be stored; send it again"

    asyncio.run(run())


def test_slow_silent_and_huge_senders_hold_nobody_up(model, tmp_path):
    async def run():
        async with listening(model, tmp_path, slow=0.5, idle=0.5, largest=5_000) as (_, feed):
            silent = [await asyncio.open_connection("127.0.0.1", feed.port) for _ in range(20)]
            for _, writer in silent[:10]:
                writer.write(START + b"MSH|^~\\&|begun and never ended")
            (answer,) = await exchange(feed.port, framed(oru("m1")))
            assert "MSA|AA|m1" in answer
            reader, writer = await asyncio.open_connection("127.0.0.1", feed.port)
            with contextlib.suppress(ConnectionError):
                writer.write(START + b"x" * 100_000)
                await writer.drain()
                assert await asyncio.wait_for(reader.read(), 30) == b""  # closed without an acknowledgement
            for reader, _ in silent:
                assert await asyncio.wait_for(reader.read(), 30) == b""
            assert feed.connected == 0

    asyncio.run(run())


def test_a_folder_is_read_file_by_file(model, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()

    async def run():
        service = service_of(model)
        service.desk = desk = Desk(tmp_path / "store", service.settings, cheap_passwords=True)
        feed = FolderFeed(folder)
        (folder / "a.hl7").write_text(oru("m1") + oru("m2"))
        reports(3).write_csv(folder / "b.csv")
        (folder / "c.csv").write_text("no,such\n1,2\n")
        (folder / ".hidden.hl7").write_text(oru("m9"))
        (folder / "link.hl7").symlink_to(tmp_path / "elsewhere.hl7")
        await feed.look(service)
        assert (feed.taken, feed.failed) == (0, 0)  # may still grow
        await feed.look(service)
        assert (feed.taken, feed.failed) == (2, 1)
        (folder / "a.hl7").write_text(oru("m1") + oru("m2") + oru("m3"))
        for _ in range(3):
            await feed.look(service)
        anew = FolderFeed(folder)  # after a restart, nothing is taken twice
        for _ in range(2):
            await anew.look(service)
        assert (feed.taken, anew.taken) == (3, 0)
        rows = desk.base.rows("SELECT report_id, number, registry FROM reports")
        assert {row["number"] for row in rows} == {"S-m1", "S-m2", "S-m3", "r0", "r1", "r2"} and len(rows) == 6
        assert {row["registry"] for row in rows} == {"NORTH", "R1", "R2"}

    asyncio.run(run())


def test_cells_that_say_nothing_are_no_ids(tmp_path):
    """One patient was made of all reports whose case is NULL."""
    rows = ["report_id,case_id,report_number,date,text", "r1,NULL,7,2016-05-02,a", "r2,N/A,,NULL,b", ' ,"  ",8,,c']
    (tmp_path / "in.csv").write_text("\n".join(rows) + "\n")
    (sent,) = read_file(tmp_path / "in.csv", key=b"k" * 32)
    assert [one.case_id for one in sent] == [None] * 3 and sent[2].report_id == "in.csv 3"
    assert [(one.number, one.date) for one in sent] == [("7", "2016-05-02"), (None, None), ("8", None)]


def test_files_are_read_as_predict_reads_them(tmp_path):
    """Tables in any encoding, FHIR, and of a report's versions the one that stands: the queue has what is coded."""
    text = "Mamma links für Präparat „A“"
    (tmp_path / "a.csv").write_bytes(f"report_id;case_id;text\n1;NULL;{text}\n2;7;NULL\n".encode("cp1252"))
    (tmp_path / "b.csv").write_bytes(f"report_id,case_id,text\n3,8,{text}\n".encode("utf-16"))
    report = {"resourceType": "DiagnosticReport", "id": "4", "subject": {"reference": "Patient/1"}, "conclusion": text}
    (tmp_path / "c.ndjson").write_text(json.dumps(report) + "\n")
    versions = (oru("m1", f"{text} {state}||||||{state}") for state in "PF")
    (tmp_path / "d.hl7").write_text("".join(versions))
    found = {}
    for path in sorted(tmp_path.iterdir()):
        sent = [one for batch in read_file(path, key=KEY) for one in batch]
        reading = OneReading(most_skipped=0.5)
        coded = [one for batch in read_files(path, form="auto", key=KEY, reading=reading) for one in batch]
        assert [(one.report_id, one.number, one.case_id, one.text) for one in sent] == [
            (one.origin.report_id, one.origin.report_number, one.case_id, one.text) for one in coded
        ]
        found[path.name] = [one.text.splitlines()[-1:] for one in sent]
    assert found == {"a.csv": [[text]], "b.csv": [[text]], "c.ndjson": [[text]], "d.hl7": [[f"{text} F"]]}


def test_a_message_is_the_same_report_by_mllp_and_in_a_file(tmp_path):
    """One that comes by both is stored once, since its id is the same."""
    message = oru("m1", "guz płuca", charset="8859/2").encode("iso8859-2")
    (tmp_path / "a.hl7").write_bytes(message)
    assert [reports_of(message, key=KEY)] == list(read_file(tmp_path / "a.hl7", key=KEY))


@pytest.mark.parametrize("text", ["a:b", "0", "70000", "host:"])
def test_an_address_is_a_port_or_a_host_and_a_port(text):
    from pathveil.errors import UsageError
    from pathveil.serve.start import address_of

    with pytest.raises(UsageError, match="expected a port"):
        address_of(text)


@pytest.mark.parametrize("refused", [b"x", oru("m8", "").encode()], ids=["AR", "AE"])
def test_a_crowd_of_idle_connections_leaves_a_sender_served(model, tmp_path, refused):
    async def run():
        async with listening(model, tmp_path) as (_, feed):
            crowd = [await asyncio.open_connection("127.0.0.1", feed.port) for _ in range(300)]
            for _, writer in crowd[::7]:
                writer.write(START + b"MSH|^~")
            for _ in range(CONNECTIONS):  # answered, but nothing of it is stored
                reader, writer = await asyncio.open_connection("127.0.0.1", feed.port)
                writer.write(START + refused + END)
                assert b"MSA|A" in await asyncio.wait_for(reader.readuntil(END), 30)
                crowd.append((reader, writer))
            (answer,) = await exchange(feed.port, framed(oru("m9")))
            assert "MSA|AA|m9" in answer and len(feed.strangers) <= CONNECTIONS
            for _, writer in crowd:
                writer.close()

    asyncio.run(run())


def test_unfinished_messages_of_strangers_give_way_to_one_that_comes(model, tmp_path):
    async def run():
        async with listening(model, tmp_path, together=1_000_000) as (_, feed):
            (first,) = await exchange(feed.port, framed(oru("m1")))
            flood = []
            for _ in range(8):
                _, writer = await asyncio.open_connection("127.0.0.1", feed.port)
                writer.write(START + b"x" * 300_000)
                await writer.drain()
                flood.append(writer)
                await asyncio.sleep(0.02)
                assert sum(map(len, feed.coming.values())) <= 1_000_000
            (last,) = await exchange(feed.port, framed(oru("m2", "carcinoma " * 40_000)))
            assert "MSA|AA|m1" in first and "MSA|AA|m2" in last
            for writer in flood:
                writer.close()

    asyncio.run(run())
