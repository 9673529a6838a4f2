"""Cases that wait for a person, and what people decide: stored first, said afterwards.

    new ──coded──► waiting ──decided──► done
                      │  ▲                 (a share of them:) second ──same──► done
                   skipped undone                               └──differs──► settled by a reviewer ──► done

A report that comes is in the database, in a case, before its sender is told so. A case that someone opens is held for
them for a while, so that no two people code it. Each decision keeps what the model had proposed, with its hash, beside
what the person chose, and writes a line of the log in the same transaction. A text is erased once its case is closed
and ``keep_hours`` have gone by, which leaves time to undo.
"""

import hashlib
import hmac
import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pathveil.serve.accounts import User
from pathveil.serve.chain import note, now
from pathveil.serve.database import Database, Do
from pathveil.serve.faults import Fault
from pathveil.serve.sealing import Sealer
from pathveil.serve.sent import Sent
from pathveil.untrusted import parse_json

if TYPE_CHECKING:
    from pathveil.serve.coding import CaseOut  # heavy: brings the networks

NEW, WAITING, SKIPPED, SECOND, DIFFERS, DONE = "new", "waiting", "skipped", "second", "differs", "done"
ORDERS = {
    "uncertainty": "abstained > 0 DESC, uncertainty DESC, received",
    "date": "day, received",
    "registry": "registry, abstained > 0 DESC, uncertainty DESC",
}
UNKNOWN = "–"  # a registry that was not said
LONGEST_REASON = 300
MOST_TUMOURS = 9  # of a case


class Casework:
    """The cases of a store."""

    def __init__(
        self, base: Database, sealer: Sealer, *, key: bytes, hold_minutes: float = 30.0, keep_hours: float = 24.0
    ):
        self.base, self.sealer, self.key, self.keep_hours = base, sealer, key, keep_hours
        self.hold = timedelta(minutes=hold_minutes)

    def _key(self, *parts: str) -> str:
        """An id that says nothing to who has no key, and is the same for the same parts."""
        return hmac.digest(self.key, json.dumps(parts).encode(), "sha256").hex()[:32]

    # Reports in

    def receive(self, reports: Sequence[Sent], *, source: str) -> int:
        """Put reports into their cases; how many are new. On the disk when it returns."""
        added: list[str] = []
        with self.base.transaction() as do:
            for report in reports:
                registry = report.registry or UNKNOWN
                case = self._key("case", registry, report.case_id or f"report {report.report_id}")
                own = self._key("report", registry, report.report_id, report.text)
                if do("SELECT id FROM reports WHERE id = ?", own):
                    continue
                place = do("SELECT COUNT(*) AS n FROM reports WHERE case_key = ?", case)[0]["n"]
                if place:
                    do("UPDATE cases SET status = ?, closed = NULL WHERE id = ?", NEW, case)  # there is more to read
                else:
                    do(
                        "INSERT INTO cases (id, case_id, registry, day, received, status, abstained, uncertainty) "
                        "VALUES (?, ?, ?, ?, ?, ?, 0, 0)",
                        *(case, report.case_id, registry, report.date or "", now(), NEW),
                    )
                do(
                    "INSERT INTO reports (id, case_key, place, report_id, number, registry, day, source, received, "
                    "text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    *(own, case, place, report.report_id, report.number, registry, report.date or "", source, now()),
                    self.sealer.close(report.text, own),
                )
                added.append(own)
            if added:
                note(do, source, "received", {"reports": added})
        return len(added)

    def uncoded(self, most: int) -> list[tuple[str, list[Sent]]]:
        """Cases that the model has not seen yet, with their reports."""
        found = self.base.rows("SELECT id FROM cases WHERE status = ? ORDER BY received LIMIT ?", NEW, most)
        return [(case["id"], self.reports(case["id"])) for case in found]

    def reports(self, case: str) -> list[Sent]:
        """A case's reports whose text is still kept, in the order they came."""
        rows = self.base.rows(
            "SELECT reports.*, cases.case_id FROM reports JOIN cases ON cases.id = case_key "
            "WHERE case_key = ? AND text IS NOT NULL ORDER BY place",
            case,
        )
        return [
            Sent(
                report_id=row["report_id"],
                text=self.sealer.open(bytes(row["text"]), row["id"]),
                case_id=row["case_id"],
                registry=row["registry"],
                date=row["day"] or None,
                number=row["number"],
                place=row["place"],
            )
            for row in rows
        ]

    def propose(self, case: str, answer: "CaseOut", *, model: str, thresholds: str, reports: int) -> bool:
        """Keep what the model says of a case, unless more reports of it have come meanwhile."""
        abstained = sum(code.abstained for tumour in answer.tumours for code in tumour.codes.values())
        with self.base.transaction() as do:
            here = do("SELECT COUNT(*) AS n FROM reports WHERE case_key = ? AND text IS NOT NULL", case)[0]["n"]
            if here != reports or not do("SELECT id FROM cases WHERE id = ? AND status = ?", case, NEW):
                return False
            do(
                "UPDATE cases SET status = ?, answer = ?, model = ?, abstained = ?, uncertainty = ? WHERE id = ?",
                *(WAITING, answer.model_dump_json(exclude_none=True), model, abstained, answer.uncertainty, case),
            )
            do("DELETE FROM drafts WHERE case_key = ?", case)  # they were chosen from other proposals
            codes = [{task: code.code for task, code in tumour.codes.items()} for tumour in answer.tumours]
            note(do, "model", "coded", {"case": case, "codes": codes, "model": model, "thresholds": thresholds})
        return True

    # The queue

    def queue(self, user: User, *, order: str = "uncertainty", registry: str = "", most: int = 200) -> list[dict]:
        """Cases that wait for this person: not held by others, of their registries; second looks for reviewers."""
        where, values = self._open_to(user, registry)
        rows = self.base.rows(
            "SELECT id, case_id, registry, day, received, status, abstained, uncertainty, holder, reason, "
            "(SELECT COUNT(*) FROM reports WHERE case_key = cases.id) AS reports "
            f"FROM cases WHERE {where} ORDER BY {ORDERS.get(order, ORDERS['uncertainty'])} LIMIT ?",
            *values,
            most,
        )
        return rows

    def waiting(self, user: User | None = None) -> int:
        """How many cases wait, for anybody or for this person."""
        where, values = self._open_to(user, "") if user else ("status = ?", [WAITING])
        return self.base.rows(f"SELECT COUNT(*) AS n FROM cases WHERE {where}", *values)[0]["n"]

    def coming(self) -> int:
        """How many cases the model has yet to answer."""
        return self.base.rows("SELECT COUNT(*) AS n FROM cases WHERE status = ?", NEW)[0]["n"]

    def registries(self, user: User) -> list[str]:
        found = [row["registry"] for row in self.base.rows("SELECT DISTINCT registry FROM cases ORDER BY registry")]
        return [registry for registry in found if user.sees(registry)]

    def _open_to(self, user: User, registry: str) -> tuple[str, list[Any]]:
        parts, values = ["(holder IS NULL OR holder = ? OR held_until < ?)"], [user.name, now()]
        if user.may("reviewer"):
            parts.append("(status = ? OR (status = ? AND first_coder <> ?))")
            values += [WAITING, SECOND, user.name]
        else:
            parts.append("status = ?")
            values.append(WAITING)
        seen = user.registries & {registry} if registry and user.registries else user.registries
        if user.registries and not seen:
            parts.append("1 = 0")
        elif seen or registry:
            names = sorted(seen) or [registry]
            parts.append(f"registry IN ({', '.join('?' * len(names))})")
            values += names
        return " AND ".join(parts), values

    def open(self, case: str, user: User) -> dict:
        """Hold a case for a person and give what a page needs; of a case that is not theirs, nothing is said."""
        until = (datetime.now(UTC) + self.hold).isoformat(timespec="milliseconds")
        with self.base.transaction() as do:
            row = self._own(do, case, user)
            if row["status"] in (WAITING, SECOND, DIFFERS):
                do("UPDATE cases SET holder = ?, held_until = ? WHERE id = ?", user.name, until, case)
        return row | {"answer": parse_json(row["answer"] or "{}"), "texts": self.reports(case)}

    def _own(self, do: Do, case: str, user: User) -> dict:
        """A case's row, if this person may work on it now."""
        found = do("SELECT * FROM cases WHERE id = ?", case)
        if not found or not user.sees(found[0]["registry"]) or found[0]["status"] == NEW:
            raise Fault(404, "there is no such case in your queue")
        row = found[0]
        if row["holder"] not in (None, user.name) and (row["held_until"] or "") >= now():
            raise Fault(409, "somebody else has opened this case; take the next one")
        if row["status"] == DIFFERS and not user.may("reviewer"):
            raise Fault(403, "a reviewer settles this case")
        if row["status"] == SECOND and (not user.may("reviewer") or row["first_coder"] == user.name):
            raise Fault(404, "there is no such case in your queue")
        return row

    # Decisions

    def decide(
        self,
        case: str,
        user: User,
        tumours: Sequence[Mapping[str, str]],
        *,
        reports: Sequence[Sequence[int]] = (),
        second_percent: int = 0,
    ) -> str:
        """Keep a person's codes of each of a case's tumours; the case's status afterwards. ``reports`` are, for each
        tumour, the places of those that tell of it; of a single one, all do."""
        with self.base.transaction() as do:
            row = self._own(do, case, user)
            if row["status"] not in (WAITING, SKIPPED, SECOND, DIFFERS):
                raise Fault(409, "this case is closed already; undo first")
            answer = parse_json(row["answer"])
            proposed = [{task: code["code"] for task, code in one["codes"].items()} for one in answer["tumours"]]
            if not 0 < len(tumours) <= MOST_TUMOURS:
                raise Fault(422, f"a case has 1 to {MOST_TUMOURS} tumours")
            for codes in tumours:
                if set(codes) != set(proposed[0]) or not all(0 < len(code) <= 40 for code in codes.values()):
                    raise Fault(422, "a decision has a code for each task")
            number = {SECOND: 2, DIFFERS: 3}.get(row["status"], 1)
            status, first = self._after(do, row, user, tumours, number, second_percent)
            abstained = [
                sorted(task for task, code in one["codes"].items() if code["abstained"]) for one in answer["tumours"]
            ]
            do(
                "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
                *(secrets.token_hex(12), case, user.name, number),
                *map(dumps, (list(tumours), proposed, abstained, [list(own) for own in reports])),
                *(row["model"], now()),
            )
            closed = now() if status == DONE else None
            do(
                "UPDATE cases SET status = ?, first_coder = ?, closed = ?, holder = NULL, held_until = NULL "
                "WHERE id = ?",
                *(status, first, closed, case),
            )
            do("DELETE FROM drafts WHERE case_key = ?", case)
            facts = {"case": case, "codes": list(tumours), "proposed": proposed, "round": number, "model": row["model"]}
            note(do, user.name, "accepted" if list(tumours) == proposed else "changed", facts)
        return status

    def _after(
        self, do: Do, row: dict, user: User, tumours: Sequence[Mapping[str, str]], number: int, second_percent: int
    ) -> tuple[str, str]:
        """What becomes of a case with this decision, and who coded it first."""
        if number == 1:
            # Which cases are coded twice is settled by their ids: nobody can choose them, nor foresee them.
            drawn = int(hashlib.sha256(f"second {row['id']}".encode()).hexdigest()[:8], 16) % 100
            return (SECOND if drawn < second_percent else DONE), user.name
        if number == 2:
            before = do(
                "SELECT codes FROM decisions WHERE case_key = ? AND round = 1 AND undone = 0 ORDER BY made DESC",
                row["id"],
            )
            same = bool(before) and sorted(map(dumps, parse_json(before[0]["codes"]))) == sorted(map(dumps, tumours))
            return (DONE if same else DIFFERS), row["first_coder"]
        return DONE, row["first_coder"]

    def undo(self, user: User) -> str | None:
        """Take back this person's last decision, if nobody has gone on with the case; the case."""
        with self.base.transaction() as do:
            last = do("SELECT * FROM decisions WHERE who = ? AND undone = 0 ORDER BY made DESC LIMIT 1", user.name)
            if not last:
                return None
            case, number = last[0]["case_key"], last[0]["round"]
            later = do("SELECT id FROM decisions WHERE case_key = ? AND undone = 0 AND round > ?", case, number)
            kept = do("SELECT id FROM reports WHERE case_key = ? AND text IS NOT NULL LIMIT 1", case)
            if later or not kept:
                raise Fault(409, "it cannot be undone: others have gone on with the case, or its text is erased")
            do("UPDATE decisions SET undone = 1 WHERE id = ?", last[0]["id"])
            status = {1: WAITING, 2: SECOND, 3: DIFFERS}[number]
            do("UPDATE cases SET status = ?, closed = NULL, holder = NULL WHERE id = ?", status, case)
            note(do, user.name, "undone", {"case": case, "round": number})
        return case

    def skip(self, case: str, user: User, reason: str) -> None:
        """Lay a case aside, with a reason."""
        reason = reason.strip()
        if not 0 < len(reason) <= LONGEST_REASON:
            raise Fault(422, f"a reason is needed, of at most {LONGEST_REASON} characters")
        with self.base.transaction() as do:
            if self._own(do, case, user)["status"] not in (WAITING, SECOND):
                raise Fault(409, "this case does not wait")
            do(
                "UPDATE cases SET status = ?, reason = ?, holder = NULL, held_until = NULL WHERE id = ?",
                *(SKIPPED, f"{user.name}: {reason}", case),
            )
            note(do, user.name, "skipped", {"case": case})

    def save_draft(
        self, case: str, user: User, codes: Sequence[Mapping[str, str]], reports: Sequence[Sequence[int]], *, added: int
    ) -> None:
        """Keep what a person has chosen of a case so far, for when they come back to it."""
        with self.base.transaction() as do:
            if self._own(do, case, user)["status"] not in (WAITING, SKIPPED, SECOND, DIFFERS):
                return
            do("DELETE FROM drafts WHERE case_key = ? AND who = ?", case, user.name)
            values = (case, user.name, dumps(list(codes)), dumps(list(reports)), added)
            do("INSERT INTO drafts (case_key, who, codes, reports, added) VALUES (?, ?, ?, ?, ?)", *values)

    def draft(self, case: str, user: User) -> dict | None:
        """What this person had chosen of a case when they left it: else what they had decided and taken back."""
        rows = self.base.rows("SELECT * FROM drafts WHERE case_key = ? AND who = ?", case, user.name)
        if not rows:
            undone = self.last_undone(case, user)
            return undone and {"codes": undone["codes"], "reports": undone["reports"], "added": 0}
        return {"added": rows[0]["added"]} | {name: parse_json(rows[0][name]) for name in ("codes", "reports")}

    def by_status(self, status: str, user: User, *, most: int = 200) -> list[dict]:
        rows = self.base.rows("SELECT * FROM cases WHERE status = ? ORDER BY received LIMIT ?", status, most)
        return [row for row in rows if user.sees(row["registry"])]

    def decisions(self, *, case: str | None = None, rounds: Sequence[int] = (1, 2, 3)) -> list[dict]:
        """Decisions that stand, oldest first, with their case's ids."""
        rows = self.base.rows(
            "SELECT decisions.*, cases.case_id, cases.registry, cases.day, cases.status FROM decisions "
            "JOIN cases ON cases.id = case_key WHERE undone = 0"
            + (" AND case_key = ?" if case else "")
            + " ORDER BY made",
            *([case] if case else []),
        )
        return [row | read_decision(row) for row in rows if row["round"] in rounds]

    def last_undone(self, case: str, user: User) -> dict | None:
        """What this person had decided of a case and taken back."""
        rows = self.base.rows(
            "SELECT * FROM decisions WHERE case_key = ? AND who = ? AND undone = 1 ORDER BY made DESC LIMIT 1",
            *(case, user.name),
        )
        return read_decision(rows[0]) if rows else None

    def decided_codes(self) -> dict[str, Counter[str]]:
        """How often people have decided on each code, by task."""
        counts: dict[str, Counter[str]] = {}
        for row in self.base.rows("SELECT codes FROM decisions WHERE undone = 0"):
            for codes in parse_json(row["codes"]):
                for task, code in codes.items():
                    counts.setdefault(task, Counter())[code] += 1
        return counts

    def erase_old_texts(self) -> int:
        """Erase the texts of cases closed long enough ago; how many reports."""
        before = (datetime.now(UTC) - timedelta(hours=self.keep_hours)).isoformat(timespec="milliseconds")
        with self.base.transaction() as do:
            old = "case_key IN (SELECT id FROM cases WHERE status = ? AND closed <= ?) AND text IS NOT NULL"
            found = do(f"SELECT COUNT(*) AS n FROM reports WHERE {old}", DONE, before)[0]["n"]
            if found:
                do(f"UPDATE reports SET text = NULL WHERE {old}", DONE, before)
                note(do, "service", "texts erased", {"reports": found})
        return found


def read_decision(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of each tumour: its codes, those the model proposed, the tasks it abstained from, and its reports' places."""
    return {name: parse_json(row[name]) for name in ("codes", "proposed", "abstained", "reports")}


def dumps(content: Any) -> str:
    return json.dumps(content, sort_keys=True, ensure_ascii=False)
