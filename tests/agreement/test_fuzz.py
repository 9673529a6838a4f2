"""Whatever is sent to a key holder or a hub, it answers with a reason and never with a defect."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agreement.parties import key_holder, terms
from pathveil.agreement import oprf
from pathveil.agreement.agreement import new_tokens
from pathveil.agreement.hub import TAG, Hub
from pathveil.agreement.service import hub_app, keyholder_app

AGREEMENT = terms(batch=2, cap=4)
TOKENS, DIGESTS = new_tokens(AGREEMENT.sites)
APPS = {
    "holder": keyholder_app(key_holder(AGREEMENT), DIGESTS),
    "hub": hub_app(Hub(AGREEMENT), DIGESTS),
}

PATHS = st.one_of(
    st.sampled_from(["points/0", "points/1", "done", "set", "tags/0", "tags/1", "result", "received", ""]),
    st.text(max_size=20),
    st.builds("points/{}".format, st.integers()),
    st.builds("tags/{}".format, st.text(max_size=5)),
)
POINTS = st.lists(
    st.one_of(st.binary(min_size=32, max_size=32), st.builds(oprf.random_point), st.just(bytes(32))), max_size=4
)
SETS = st.fixed_dictionaries(
    {},
    optional={
        "commitment": st.one_of(st.text(max_size=64), st.just("0" * 64), st.integers()),
        "batches": st.one_of(st.integers(), st.booleans(), st.floats(), st.none()),
        "keys": st.one_of(
            st.dictionaries(st.text(max_size=5), st.text(max_size=64)),
            st.just({"north": "a" * 64, "south": "b" * 64}),
            st.lists(st.integers()),
        ),
        "more": st.text(),
    },
)
BODIES = st.one_of(
    st.binary(max_size=200),
    POINTS.map(b"".join),
    st.binary(min_size=2 * TAG, max_size=2 * TAG),
    SETS.map(lambda content: json.dumps(content).encode()),
)


def ask(app, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    """One request through an app, without a server."""
    sent: list[dict] = []

    async def run():
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return parts.pop(0) if parts else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode("utf-8", "replace"),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
        }
        await app(scope, receive, send)

    # A browser test before this one leaves its loop running in the thread; this one has a loop of its own.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, run()).result()
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


@pytest.mark.parametrize("name", APPS)
@settings(max_examples=150, deadline=None)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    path=PATHS,
    body=BODIES,
    token=st.one_of(st.sampled_from(list(TOKENS.values())), st.text(max_size=30)),
    length=st.one_of(st.none(), st.text(max_size=8), st.integers()),
    agreement=st.one_of(st.just(AGREEMENT.sha256), st.text(alphabet="0123456789abcdef", max_size=64)),
)
def test_never_a_defect(name, method, path, body, token, length, agreement):
    headers = {"authorization": f"Bearer {token}"} | ({} if length is None else {"content-length": str(length)})
    status, answer = ask(APPS[name], method, f"/v1/{agreement}/{path}", headers, body)
    assert status < 500
    if token not in TOKENS.values():
        assert status in (401, 404, 405)
    if status >= 400 and status not in (404, 405):
        assert set(json.loads(answer)) == {"error"}
        assert len(body) < 8 or body not in answer
