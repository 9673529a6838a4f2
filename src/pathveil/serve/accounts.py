"""People who log in: names, argon2 hashes of passwords, roles, and sessions.

    coder      decides cases of their registries
    reviewer   the same, codes a second time, settles differences, exports
    admin      the same, and users, feeds, the model, the log

A session is a random cookie of which the store keeps a hash, and has a second random string that every form must bring
along, so that another site cannot send a form in the person's name.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from starlette.concurrency import run_in_threadpool

from pathveil.errors import UsageError
from pathveil.serve.chain import note, now
from pathveil.serve.database import Database

Answer = TypeVar("Answer")
Role = Literal["coder", "reviewer", "admin"]
ROLES: tuple[Role, ...] = ("coder", "reviewer", "admin")  # each may do what the ones before may
SHORTEST = 12  # characters of a password
HASHES_AT_ONCE = 2  # of passwords: each takes 64 MiB and a core
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


@dataclass(frozen=True)
class User:
    name: str
    role: Role
    registries: frozenset[str]  # empty: all

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, registry: str) -> bool:
        return not self.registries or registry in self.registries


@dataclass(frozen=True)
class Session:
    user: User
    csrf: str
    digest: str


class Accounts:
    """Users and sessions of a store. ``cheap`` hashes quickly, for tests alone."""

    def __init__(self, base: Database, *, hours: float, cheap: bool = False):
        self.base, self.hours = base, hours
        self.hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1) if cheap else PasswordHasher()
        self.nobody = self.hasher.hash(secrets.token_hex(16))  # checked for unknown names: they must take as long
        self.hashing = asyncio.Semaphore(HASHES_AT_ONCE)

    async def hash_in_turn(self, work: Callable[..., Answer], *args: Any, **options: Any) -> Answer:
        """Do what hashes a password in a thread; those that wait for their turn have none."""
        async with self.hashing:
            return await run_in_threadpool(work, *args, **options)

    def any(self) -> bool:
        return bool(self.base.rows("SELECT name FROM users LIMIT 1"))

    def users(self) -> list[dict]:
        return self.base.rows("SELECT name, role, registries, active, made FROM users ORDER BY name")

    def add(self, name: str, password: str, role: str, *, registries: Collection[str] = (), by: str) -> None:
        if not NAME.fullmatch(name):
            raise UsageError("a user's name has letters, digits, dots, dashes and underscores, at most 40")
        if role not in ROLES:
            raise UsageError(f"a role is one of {', '.join(ROLES)}")
        check_password(name, password)
        hashed = self.hasher.hash(password)
        with self.base.transaction() as do:
            if do("SELECT name FROM users WHERE name = ?", name):
                raise UsageError("there is a user of this name already")
            places = "\n".join(sorted(registries))
            do("INSERT INTO users VALUES (?, ?, ?, ?, ?, ?)", name, hashed, role, places, 1, now())
            note(do, by, "user added", {"user": name, "role": role, "registries": sorted(registries)})

    def change(self, name: str, *, active: bool, by: str) -> None:
        """Lock a user out or let them in again; their sessions end at once."""
        with self.base.transaction() as do:
            do("UPDATE users SET active = ? WHERE name = ?", int(active), name)
            do("DELETE FROM sessions WHERE name = ?", name)
            note(do, by, "user let in" if active else "user locked out", {"user": name})

    def set_password(self, name: str, password: str, *, by: str) -> None:
        """Another password for a user who forgot theirs, or whose password others know; their sessions end at once."""
        check_password(name, password)
        hashed = self.hasher.hash(password)
        with self.base.transaction() as do:
            if not do("SELECT name FROM users WHERE name = ?", name):
                raise UsageError("there is no user of this name")
            do("UPDATE users SET password = ? WHERE name = ?", hashed, name)
            do("DELETE FROM sessions WHERE name = ?", name)
            note(do, by, "password set", {"user": name})

    def log_in(self, name: str, password: str) -> tuple[str, Session] | None:
        """A new session's cookie, if name and password are right."""
        found = self.base.rows("SELECT * FROM users WHERE name = ? AND active = 1", name)
        try:
            self.hasher.verify(found[0]["password"] if found else self.nobody, password)
        except (VerificationError, InvalidHashError):
            return None
        if not found:
            return None
        cookie, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(24)
        expires = (datetime.now(UTC) + timedelta(hours=self.hours)).isoformat(timespec="milliseconds")
        with self.base.transaction() as do:
            do("DELETE FROM sessions WHERE expires < ?", now())
            do("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", digest_of(cookie), name, csrf, now(), expires)
            note(do, name, "logged in", {})
        return cookie, Session(user_of(found[0]), csrf, digest_of(cookie))

    def session(self, cookie: str) -> Session | None:
        if not cookie:
            return None
        found = self.base.rows(
            "SELECT * FROM sessions JOIN users ON users.name = sessions.name "
            "WHERE digest = ? AND expires >= ? AND active = 1",
            digest_of(cookie),
            now(),
        )
        return Session(user_of(found[0]), found[0]["csrf"], found[0]["digest"]) if found else None

    def log_out(self, session: Session) -> None:
        with self.base.transaction() as do:
            do("DELETE FROM sessions WHERE digest = ?", session.digest)
            note(do, session.user.name, "logged out", {})


def check_password(name: str, password: str) -> None:
    if len(password) < SHORTEST or name.lower() in password.lower() or len(set(password)) < 5:
        raise UsageError(f"a password has at least {SHORTEST} characters, several different ones, and not the name")


def user_of(row: dict) -> User:
    return User(row["name"], row["role"], frozenset(row["registries"].split("\n")) - {""})


def digest_of(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()
