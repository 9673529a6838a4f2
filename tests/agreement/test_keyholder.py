"""A key holder answers what it must, refuses the rest, resumes, and forgets."""

import os
import sqlite3
from datetime import UTC, datetime, timedelta

import pytest

from agreement.parties import SECRETS, key_holder, terms
from pathveil.agreement import oprf
from pathveil.agreement.keyholder import MAX_TIMES, KeyHolder, split, split_answer
from pathveil.agreement.offer import make_key
from pathveil.errors import AgreementError, UsageError


def batch(size=8) -> bytes:
    return b"".join(oprf.random_point() for _ in range(size))


def refused(call, *arguments) -> AgreementError:
    with pytest.raises(AgreementError) as error:
        call(*arguments)
    return error.value


def test_it_multiplies_by_its_key_and_proves_it():
    holder = key_holder(terms())
    sent = batch()
    proof, points = split_answer(holder.answer("R1", 0, sent), 8)
    assert points == [oprf.multiply(holder._secret, point) for point in split(sent)]
    assert oprf.verify(holder.public_key, split(sent), points, proof)


def test_only_the_key_that_the_agreement_pins_serves(tmp_path):
    agreement = terms()
    assert key_holder(agreement).public_key.hex() == agreement.holders["north"].public_key
    with pytest.raises(UsageError, match="not the one that the agreement pins"):
        KeyHolder(agreement, "north", secret=SECRETS["south"])
    with pytest.raises(UsageError, match="holds no key of a key holder"):
        KeyHolder(agreement, "north", folder=tmp_path)
    make_key(tmp_path)  # another offer's
    with pytest.raises(UsageError, match="not the one that the agreement pins"):
        KeyHolder(agreement, "north", folder=tmp_path)


def test_points_that_are_no_elements():
    holder = key_holder(terms())
    for bad in (bytes(32), b"\xff" * 32, (1).to_bytes(32, "little")):
        error = refused(holder.answer, "R1", 0, batch(7) + bad)
        assert error.status == 422 and "no element of ristretto255, or the identity" in str(error)
    assert holder.answer("R1", 0, batch())  # a refused batch is not charged


def test_a_point_twice():
    point = batch(1)
    assert "holds a point twice" in str(refused(key_holder(terms()).answer, "R1", 0, batch(6) + point * 2))


def test_bodies_of_the_wrong_size():
    holder = key_holder(terms())
    assert refused(holder.answer, "R1", 0, batch(9)).status == 413
    assert refused(holder.answer, "R1", 0, batch(7)).status == 400
    assert refused(holder.answer, "R1", 0, b"").status == 400


def test_the_quota_holds():
    holder = key_holder(terms(cap=20))  # 3 batches of 8
    for number in range(3):
        holder.answer("R1", number, batch())
    for number in (3, 99, -1):
        error = refused(holder.answer, "R1", number, batch())
        assert error.status == 429 and "quota is 3 batches of 8" in str(error)
    holder.answer("R2", 0, batch())  # another site's is its own


def test_a_replayed_batch():
    holder = key_holder(terms())
    sent = batch()
    first = holder.answer("R1", 0, sent)
    assert holder.answer("R1", 0, sent)[oprf.PROOF :] == first[oprf.PROOF :]  # a lost answer is given again
    assert "repeats a batch" in str(refused(holder.answer, "R1", 1, sent))
    assert "repeats a batch" in str(refused(holder.answer, "R2", 0, sent))
    for _ in range(MAX_TIMES - 2):
        holder.answer("R1", 0, sent)
    assert refused(holder.answer, "R1", 0, sent).status == 429


def test_a_changed_batch():
    holder = key_holder(terms())
    holder.answer("R1", 0, batch())
    assert "cannot change" in str(refused(holder.answer, "R1", 0, batch()))


def test_strangers():
    holder = key_holder(terms())
    assert refused(holder.answer, "R9", 0, batch()).status == 403
    assert refused(holder.done, "R9").status == 403
    with pytest.raises(AgreementError, match="not one of the agreement's key holders"):
        KeyHolder(terms(), "west", secret=SECRETS["north"])


def test_a_site_that_is_done_is_answered_no_more(tmp_path):
    holder = key_holder(terms(), folder=tmp_path)
    sent = batch()
    holder.answer("R1", 0, sent)
    holder.done("R1")
    holder.done("R1")
    assert refused(holder.answer, "R1", 0, sent).status == 410
    assert holder.waiting_for == ["R2", "R3"] and not holder.finished


def test_it_resumes_with_its_key_and_its_counts(tmp_path):
    agreement = terms(cap=8)
    holder = key_holder(agreement, folder=tmp_path)
    sent = batch()
    first = holder.answer("R1", 0, sent)
    holder.store.close()
    again = KeyHolder(agreement, "north", folder=tmp_path)
    assert again.public_key == holder.public_key
    assert again.answer("R1", 0, sent)[oprf.PROOF :] == first[oprf.PROOF :]
    assert "cannot change" in str(refused(again.answer, "R1", 0, batch()))
    assert refused(again.answer, "R1", 1, batch()).status == 429


def test_the_key_is_erased_at_the_end(tmp_path):
    agreement = terms()
    holder = key_holder(agreement, folder=tmp_path)
    secret = holder._secret
    assert (tmp_path / "key").read_bytes() == secret and (os.stat(tmp_path / "key").st_mode & 0o077) == 0
    for site in agreement.sites:
        holder.done(site)
    assert holder.finished and holder._secret is None
    assert not (tmp_path / "key").exists()
    assert all(secret not in path.read_bytes() for path in tmp_path.iterdir())
    holder.store.close()
    again = KeyHolder(agreement, "north", folder=tmp_path)
    assert refused(again.answer, "R1", 0, batch()).status == 410


def test_the_key_is_erased_when_it_ran_past_the_end(tmp_path):
    later, ran = [datetime.now(UTC)], [0.0]
    holder = key_holder(terms(days=1), folder=tmp_path, now=lambda: later[0], running=lambda: ran[0])
    holder.answer("R1", 0, batch())
    later[0] += timedelta(days=2)
    ran[0] += 2 * 86_400
    assert "it expired at" in str(refused(holder.answer, "R1", 1, batch()))
    assert not (tmp_path / "key").exists() and holder.finished


def test_a_clock_that_was_set_does_not_cost_the_key(tmp_path):
    agreement, later = terms(days=1), [datetime.now(UTC)]
    holder = key_holder(agreement, folder=tmp_path, now=lambda: later[0])
    later[0] += timedelta(days=400)
    assert refused(holder.answer, "R1", 0, batch()).status == 410
    assert (tmp_path / "key").exists() and holder.expired and not holder.finished
    holder.store.close()
    again = key_holder(agreement, folder=tmp_path, now=lambda: later[0])  # started again with the wrong clock
    assert refused(again.answer, "R1", 0, batch()).status == 410 and (tmp_path / "key").exists()
    later[0] -= timedelta(days=400)
    assert again.answer("R1", 0, batch()) and not again.expired
    again.erase()  # what a person does who says that the clock is right
    again.store.close()
    assert not (tmp_path / "key").exists()
    assert refused(key_holder(agreement, folder=tmp_path).answer, "R1", 0, batch()).status == 410


def test_a_folder_belongs_to_one_agreement_and_role(tmp_path):
    agreement = terms()
    holder = key_holder(agreement, folder=tmp_path)
    with pytest.raises(UsageError, match="another process is using"):
        KeyHolder(agreement, "north", folder=tmp_path)
    holder.store.close()
    for other, name in ((terms(), "north"), (agreement, "south")):
        with pytest.raises(UsageError, match="another agreement or role"):
            KeyHolder(other, name, folder=tmp_path)
    (tmp_path / "state.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(UsageError, match="damaged"):
        KeyHolder(agreement, "north", folder=tmp_path)


def test_what_is_kept_holds_no_point(tmp_path):
    holder = key_holder(terms(), folder=tmp_path)
    sent = batch()
    answer = holder.answer("R1", 0, sent)
    holder.store.close()
    kept = (tmp_path / "state.sqlite").read_bytes()
    assert not any(point in kept for point in (*split(sent), *split(answer[oprf.PROOF :])))
    assert sqlite3.connect(tmp_path / "state.sqlite").execute(
        "SELECT site, number, times FROM answered"
    ).fetchall() == [("R1", 0, 1)]
