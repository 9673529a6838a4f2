"""Readers of what a hub, a site or an authority of a federation, and the server of an agreement, are handed."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.reader import Reader, one, text_file

RUN, SESSION = "ab12", "cd34"


@cache
def identities() -> dict[str, Any]:
    from federation.test_identity import identities as made

    return made("a", "b")


@cache
def plan() -> Any:
    from pathveil.federation.protocol.plan import Plan
    from pathveil.federation.settings import FederationSettings

    settings = FederationSettings(dim=3, filters=2, epochs=1, batch_size=4, bits=32)
    return Plan(
        mode="adversarial",
        sites=("a", "b"),
        classes={"site": ("C18", "C50")},
        vocabulary="ab" * 32,
        vocabulary_size=9,
        seed=1,
        settings=settings,
    )


def masks(name: str) -> Any:
    from pathveil.federation.protocol.masked import SiteMasks

    return SiteMasks(plan(), name, session=SESSION, identity=identities()[name])


def offers_file(path: Path) -> None:
    """The keys of all sites as a hub shows them; the first is of this process, which keeps its private half."""
    global own
    own = masks("a")
    offers = {"a": {"session": SESSION} | own.offer(), "b": {"session": SESSION} | masks("b").offer()}
    path.write_text(json.dumps(offers))


def agree_on_keys(folder: Path) -> None:
    own.masks = None
    own.agree(parsed(folder / "offers.json"))
    assert set(own.masks.pairs) == {"b"}


def parsed(path: Path) -> Any:
    """The facts of a message: they come through the same parser as all others."""
    from pathveil.errors import FederationError
    from pathveil.untrusted import Refused, parse_json

    try:
        return parse_json(path.read_bytes())
    except Refused as fault:
        raise FederationError(str(fault)) from None


def question_file(path: Path) -> None:
    from pathveil.federation.protocol.course import exchanges_of

    (first, *_) = exchanges_of(plan(), [20, 30])
    content = {"counts": [20, 30], "round": 0, "ranges": {"w": 0, "b": -3}, "save": False, **first.facts()}
    path.write_text(json.dumps(content))


def hold_against_plan(folder: Path) -> None:
    """A hub's question, as a site's guard and its masks look at it."""
    from pathveil.federation.protocol.guard import Guard

    facts = parsed(folder / "question.json")
    if not isinstance(facts, dict):
        return
    (folder / "agreed.json").unlink(missing_ok=True)
    Guard(plan(), "a", documents=20, folder=folder).passed(facts, saved=[])
    own_ranges = {"w": (3, 2), "b": (2,)}
    masks("a").exponents(facts.get("ranges"), own_ranges)


def answer_file(path: Path) -> None:
    """A site's masked answer, the other site's beside it."""
    from pathveil.federation.protocol.message import Message, write

    arrays, rng = {}, np.random.default_rng(1)
    for name in ("a", "b"):
        arrays = {
            "update": rng.integers(0, 256, 12, np.uint8),
            "facts": rng.integers(0, 256, 16, np.uint8),
            "tags": np.zeros((2, 8), np.uint8),
        }
        facts = {"run": RUN, "session": SESSION, "round": 0, "updates": 1}
        path.with_name(f"answer-{name}").write_bytes(write(Message(facts, arrays)))


def hear_masked(folder: Path) -> None:
    from pathveil.federation import wire
    from pathveil.federation.protocol.masked import HubSum
    from pathveil.federation.protocol.message import heard, read

    hub, answers = HubSum(plan()), {}
    for name in ("a", "b"):
        answers[name] = read((folder / f"answer-{name}").read_bytes(), sender=name)
        heard(answers[name], "round", sender=name, masked=True)
        manifest = {"update": (12,), "facts": (16,), "tags": (2, 8)}
        wire.check(answers[name].arrays, manifest, sender=name, dtype=np.uint8)
    hub.compare_tags({name: message.arrays["tags"] for name, message in answers.items()})
    hub.added([message.arrays["update"] for message in answers.values()], "numbers")
    hub.added([message.arrays["facts"] for message in answers.values()], "facts")


def account_file(path: Path) -> None:
    from pathveil.federation.protocol.run_result import RunResult

    told = RunResult(
        run=RUN,
        mode="adversarial",
        finished=True,
        stopped="",
        again=False,
        documents={"a": 20, "b": 30},
        best_epoch=1,
        validation_loss=[1.0, 2.0],
        feature_norm=[],
        epsilon=[1.5],
        delta=1e-5,
        rounds=3,
        updates=3,
        bytes_to_sites=10,
        bytes_to_hub=10,
        refused=[],
        resumed_at=-1,
        seconds=2.0,
    )
    path.write_text(json.dumps(told.to_dict()))


def read_account(folder: Path) -> None:
    from pathveil.federation.protocol.run_result import RunResult

    told = RunResult.load(folder / "history.json")
    assert str(told) and told.rows()


def request_file(path: Path) -> None:
    from pathveil.federation.flare.certificates import make_request

    made = path.parent / "kit"
    make_request("north", "site", made)
    path.write_bytes((made / "request.csr").read_bytes())


def read_request(folder: Path) -> None:
    from pathveil.federation.flare.certificates import read_request as read

    assert read(folder / "request.csr").fingerprint


@cache
def authority() -> Any:
    """The certificate and key of an authority, RSA as FLARE makes it."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    from federation.test_identity import certificate

    key = rsa.generate_private_key(65537, 2048)
    return certificate("authority", key.public_key(), "authority", key), key


def revoked_file(path: Path) -> None:
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    root, key = authority()
    now = datetime.datetime.now(datetime.UTC)
    listed = x509.RevokedCertificateBuilder().serial_number(77).revocation_date(now).build()
    made = x509.CertificateRevocationListBuilder().issuer_name(root.subject).last_update(now)
    made = made.next_update(now + datetime.timedelta(days=9)).add_revoked_certificate(listed)
    path.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def read_revoked(folder: Path) -> None:
    from pathveil.federation.identity import revoked_serials

    assert revoked_serials(folder / "revoked.pem", authority()[0]) == {77}


def offer_file(path: Path) -> None:
    from pathveil.agreement.offer import made_up_offers

    ((offer,), _) = made_up_offers("north")
    path.write_text(offer.model_dump_json())


def load_offer(folder: Path) -> None:
    from pathveil.agreement.offer import Offer

    assert Offer.load(folder / "offer.json").fingerprint


def announce(folder: Path) -> None:
    """What a site says to the hub of an agreement."""
    from pathveil.agreement.service import _announcement

    _announcement((folder / "set.json").read_bytes())


READERS: dict[str, Reader] = {
    "mask keys": Reader("offers.json", "json", one("offers.json", offers_file), agree_on_keys, weight=0.5),
    "question": Reader("question.json", "json", one("question.json", question_file), hold_against_plan),
    "masked answer": Reader("answer-b", "tensors", one("answer-b", answer_file), hear_masked),
    "run account": Reader("history.json", "json", one("history.json", account_file), read_account),
    "certificate request": Reader("request.csr", "bytes", one("request.csr", request_file), read_request),
    "revoked certificates": Reader("revoked.pem", "bytes", one("revoked.pem", revoked_file), read_revoked),
    "server offer": Reader("offer.json", "json", one("offer.json", offer_file), load_offer),
    "announced set": Reader(
        "set.json", "json", one("set.json", text_file(json.dumps({"commitment": "ab" * 32, "batches": 3}))), announce
    ),
}
