"""The store: what was acknowledged is kept, who decided cannot be rewritten, nobody reads what is not theirs."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pathveil.errors import UsageError
from pathveil.serve.accounts import Accounts, User
from pathveil.serve.casework import DIFFERS, DONE, SECOND, WAITING, Casework
from pathveil.serve.chain import check, note
from pathveil.serve.coding import CaseOut, CodeOut, TumourOut
from pathveil.serve.database import FILE, Database
from pathveil.serve.desk import Desk
from pathveil.serve.faults import Fault
from pathveil.serve.sealing import Sealer
from pathveil.serve.sent import Sent
from pathveil.serve.settings import ServeSettings

ANNA = User("anna", "coder", frozenset())
RITA = User("rita", "reviewer", frozenset())
NORTH = User("nora", "coder", frozenset({"North"}))


@pytest.fixture(params=["sqlite", "postgresql"])
def work(request, tmp_path):
    place = tmp_path / "store" if request.param == "sqlite" else request.getfixturevalue("empty_postgresql")
    base = Database.open(place)
    yield Casework(base, Sealer(b"s" * 32), key=b"k", keep_hours=0)
    base.close()


def answer(*, abstained=False, uncertainty=0.1) -> CaseOut:
    codes = {
        "site": CodeOut(code="C50", term="breast", abstained=abstained),
        "behavior": CodeOut(code="3", term=None, abstained=False),
    }
    tumour = TumourOut(codes=codes, reports=[0])
    return CaseOut(tumours=[tumour], places={}, note=None, uncertainty=uncertainty)


def filled(work, *cases, **shared):
    """Cases named by their numbers, each of one report, coded."""
    for number in cases:
        report = Sent(f"r{number}", f"Zebedee {number}", case_id=str(number), **shared)
        work.receive([report], source="test")
        for case, reports in work.uncoded(9):
            work.propose(
                case,
                answer(abstained=number == 2, uncertainty=number / 10),
                model="m",
                thresholds="t",
                reports=len(reports),
            )


def test_a_case_from_arrival_to_erasure(work):
    filled(work, 1, 2, 3)
    assert work.receive([Sent("r1", "Zebedee 1", case_id="1")], source="again") == 0
    queue = work.queue(ANNA)
    assert [row["case_id"] for row in queue] == ["2", "3", "1"]  # what the model abstained from, then by uncertainty
    opened = work.open(queue[0]["id"], ANNA)
    assert opened["texts"][0].text == "Zebedee 2"
    with pytest.raises(Fault, match="somebody else"):
        work.open(queue[0]["id"], RITA)
    assert [row["case_id"] for row in work.queue(RITA)] == ["3", "1"]
    assert work.decide(queue[0]["id"], ANNA, [{"site": "C61", "behavior": "3"}]) == DONE
    assert work.undo(ANNA) == queue[0]["id"] and len(work.queue(RITA)) == 3
    work.decide(queue[0]["id"], ANNA, [{"site": "C50", "behavior": "3"}])
    work.skip(queue[1]["id"], ANNA, "no tumour")
    assert [row["case_id"] for row in work.queue(ANNA)] == ["1"]
    assert work.erase_old_texts() == 1 and work.reports(queue[0]["id"]) == [] and work.reports(queue[2]["id"])
    with pytest.raises(Fault, match="its text is erased"):
        work.undo(ANNA)
    lines = [row["what"] for row in work.base.rows("SELECT what FROM log ORDER BY number")]
    assert lines[-6:] == ["coded", "changed", "undone", "accepted", "skipped", "texts erased"]
    assert check(work.base).broken_at is None
    everything = json.dumps([work.base.rows(f"SELECT * FROM {name}") for name in ("cases", "log", "decisions")])
    assert "zebedee" not in everything.lower()


def test_choices_of_a_case_that_is_left_are_there_again_for_who_chose_them(work):
    filled(work, 1)
    (case,) = (row["id"] for row in work.queue(ANNA))
    codes = [{"site": "C61"}, {}]
    work.save_draft(case, ANNA, codes, [[0], []], added=1)
    work.save_draft(case, ANNA, codes, [[0], [0]], added=1)
    assert work.draft(case, ANNA) == {"codes": codes, "reports": [[0], [0]], "added": 1}
    assert work.draft(case, RITA) is None
    with pytest.raises(Fault, match="no such case"):
        work.save_draft(case, NORTH, codes, [], added=0)
    work.receive([Sent("r2", "Zebedee 2", case_id="1")], source="test")
    filled(work, 3)
    assert work.draft(case, ANNA) is None  # the proposals are others
    work.save_draft(case, ANNA, codes, [[0], [0]], added=1)
    decided = [{"site": "C50", "behavior": "3"}]
    work.decide(case, ANNA, decided, reports=[[0]])
    work.save_draft(case, ANNA, codes, [[0], [0]], added=1)  # comes too late
    assert work.draft(case, ANNA) is None
    work.undo(ANNA)
    assert work.draft(case, ANNA) == {"codes": decided, "reports": [[0]], "added": 0}


def test_a_second_person_codes_and_a_third_settles(work):
    filled(work, 1, 4)
    first, other = (row["id"] for row in work.queue(ANNA, order="date"))
    codes = [{"site": "C50", "behavior": "3"}]
    assert work.decide(first, ANNA, codes, second_percent=100) == SECOND
    assert work.decide(other, RITA, codes, second_percent=100) == SECOND
    assert [row["id"] for row in work.queue(RITA)] == [first]  # not her own
    assert work.queue(ANNA) == []
    with pytest.raises(Fault):
        work.open(first, ANNA)
    assert work.decide(first, RITA, [*codes, {"site": "C61", "behavior": "3"}]) == DIFFERS  # two tumours, she says
    assert work.decide(first, RITA, codes) == DONE
    assert [row["round"] for row in work.decisions(case=first)] == [1, 2, 3]


def test_a_case_that_gets_another_report_is_read_again(work):
    filled(work, 1)
    (case,) = work.queue(ANNA)
    work.decide(case["id"], ANNA, [{"site": "C50", "behavior": "3"}])
    assert work.receive([Sent("addendum", "more", case_id="1")], source="test") == 1
    ((key, reports),) = work.uncoded(9)
    assert key == case["id"] and len(reports) == 2
    assert not work.propose(key, answer(), model="m", thresholds="t", reports=1)  # one came while it was coded
    assert work.propose(key, answer(), model="m", thresholds="t", reports=2)


def test_another_registrys_cases_do_not_exist(work):
    filled(work, 1, registry="South")
    (case,) = work.queue(ANNA)
    assert work.queue(NORTH) == [] and work.registries(NORTH) == [] and work.waiting(NORTH) == 0
    assert work.queue(NORTH, registry="South") == []
    for act in (
        lambda: work.open(case["id"], NORTH),
        lambda: work.decide(case["id"], NORTH, [{"site": "C50", "behavior": "3"}]),
        lambda: work.skip(case["id"], NORTH, "no"),
    ):
        with pytest.raises(Fault) as refused:
            act()
        assert refused.value.status == 404
    assert work.queue(ANNA)[0]["status"] == WAITING


def test_the_log_cannot_be_rewritten(work):
    filled(work, 1)
    for statement in ("UPDATE log SET who = 'x'", "DELETE FROM log"):
        with pytest.raises(Exception, match="only added to"), work.base.transaction() as do:
            do(statement)
    if work.base.kind == "sqlite":  # by someone who can write the file itself
        with work.base.transaction() as do:
            do("DROP TRIGGER log_no_update")
            do("UPDATE log SET who = 'somebody else' WHERE number = 2")
        assert check(work.base).broken_at == 2


def test_passwords_and_sessions(tmp_path):
    accounts = Accounts(Database.open(tmp_path), hours=1, cheap=True)
    accounts.add("anna", "correct horse battery", "coder", registries=["North"], by="setup")
    for name, password, role in (
        ("anna", "another good one", "coder"),
        ("bob", "short", "coder"),
        ("bob", "long enough bob", "coder"),
        ("../x", "correct horse battery", "coder"),
        ("bob", "correct horse battery", "king"),
    ):
        with pytest.raises(UsageError):
            accounts.add(name, password, role, by="setup")
    assert accounts.log_in("anna", "wrong horse battery") is None and accounts.log_in("nobody", "x") is None
    cookie, session = accounts.log_in("anna", "correct horse battery")
    assert accounts.session(cookie) == session and session.user.sees("North") and not session.user.sees("South")
    kept = json.dumps(accounts.base.rows("SELECT * FROM users") + accounts.base.rows("SELECT * FROM sessions"))
    assert "correct horse" not in kept and cookie not in kept and "$argon2id$" in kept
    accounts.change("anna", active=False, by="admin")
    assert accounts.session(cookie) is None and accounts.log_in("anna", "correct horse battery") is None


def test_text_is_sealed_on_the_disk_and_needs_its_key(tmp_path):
    settings = ServeSettings()
    desk = Desk(tmp_path / "a", settings, secret=b"x" * 32)
    desk.casework.receive([Sent("r", "Quillfeather had a biopsy")], source="test")
    desk.base.close()
    kept = b"".join(path.read_bytes() for path in (tmp_path / "a").iterdir())
    assert b"Quillfeather" not in kept and (tmp_path / "a" / FILE).stat().st_mode & 0o077 == 0
    for secret in (None, b"y" * 32):
        with pytest.raises(UsageError, match="sealed"):
            Desk(tmp_path / "a", settings, secret=secret)
    desk = Desk(tmp_path / "b", settings)
    with pytest.raises(UsageError, match="begun without"):
        Desk(tmp_path / "b", settings, secret=b"x" * 32)
    desk.set_fact("tables", "0", by="test")
    with pytest.raises(UsageError, match="another version of pathveil"):
        Desk(tmp_path / "b", settings)


WRITER = """
import sys
from pathlib import Path
from pathveil.serve.casework import Casework
from pathveil.serve.database import Database
from pathveil.serve.sealing import Sealer
from pathveil.serve.sent import Sent
work = Casework(Database.open(Path(sys.argv[1])), Sealer(None), key=b"k")
for number in range(int(sys.argv[2]), 10**9):
    work.receive([Sent(f"r{number}", f"text {number}")], source="test")
    print(number, flush=True)  # the acknowledgement
"""


def test_what_was_acknowledged_survives_a_kill(tmp_path):
    acknowledged = []
    for round_ in range(3):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(1000 * round_)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(15 + 7 * round_):
                acknowledged.append(int(process.stdout.readline()))
            os.kill(process.pid, signal.SIGKILL)
            rest, _ = process.communicate()
            acknowledged += [int(line) for line in rest.split("\n")[:-1]]
    base = Database.open(tmp_path)
    kept = {row["report_id"] for row in base.rows("SELECT report_id FROM reports")}
    assert {f"r{number}" for number in acknowledged} <= kept and len(kept) <= len(acknowledged) + 3
    found = check(base)
    assert found.broken_at is None and found.lines == len(kept)
    assert sqlite3.connect(tmp_path / FILE).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_that_is_no_store_is_refused(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a database at all" * 100)
    with pytest.raises(UsageError, match="cannot be opened as a store"):
        Database.open(Path(tmp_path))


def test_a_note_that_fails_takes_its_decision_back(tmp_path):
    base = Database.open(tmp_path)
    with pytest.raises(TypeError), base.transaction() as do:
        do("INSERT INTO facts VALUES ('a', 'b')")
        note(do, "anna", "accepted", {"case": object()})
    assert base.rows("SELECT * FROM facts") == [] and check(base).lines == 0
