"""The whole service killed in the middle of its work: whatever it had acknowledged is there."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlencode

import pytest

from bundle.conftest import reports
from conftest import free_port
from pathveil.serve.chain import check
from pathveil.serve.coding import Answerer, Asked, propose_case
from pathveil.serve.desk import Desk
from pathveil.serve.sent import Sent
from pathveil.serve.settings import ServeSettings
from serve.conftest import BEARER, TOKEN
from serve.test_mllp_feed import END, framed, oru

PASSWORD = "correct horse battery"


class Load(threading.Thread):
    """Does one thing again and again and notes down what was acknowledged, until the service is gone."""

    def __init__(self, act):
        super().__init__(daemon=True)
        self.act, self.acknowledged = act, []

    def run(self):
        try:
            for number in range(100_000):
                self.acknowledged.append(self.act(number))
        except (OSError, http.client.HTTPException, EOFError, IndexError):
            pass  # it was killed, or there is nothing left to decide


def queue_client(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def send(number):
        body = json.dumps({"reports": [{"report_id": f"api-{number}", "text": f"carcinoma of the breast {number}"}]})
        connection.request("POST", "/v1/queue", body, BEARER | {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 202
        return f"api-{number}"

    return send


def mllp_client(port, name):
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    answers = connection.makefile("rb")

    def send(number):
        connection.sendall(framed(oru(f"{name}{number}", patient=f"{name}{number}")))
        answer = b""
        while not answer.endswith(END):
            piece = answers.read(1)
            if not piece:
                raise EOFError
            answer += piece
        assert f"MSA|AA|{name}{number}".encode() in answer
        return f"S-{name}{number}"

    return send


def registrar(port, cases):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"content-type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login", urlencode({"name": "anna", "password": PASSWORD}), headers)
    answer = connection.getresponse()
    answer.read()
    headers["cookie"] = answer.headers["set-cookie"].split(";")[0]
    connection.request("GET", "/queue", headers=headers)
    csrf = re.search('name="csrf" value="([^"]+)"', connection.getresponse().read().decode())[1]

    def decide(number):
        case, codes = cases[number]
        fields = {"csrf": csrf, **{f"code.1.{task}": code for task, code in codes.items()}}
        connection.request("POST", f"/case/{case}/decide", urlencode(fields), headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 303, answer.status
        return case

    return decide


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_nothing_acknowledged_is_lost_when_the_service_is_killed(kind, model, model_folder, tmp_path, request):
    store = tmp_path / "store" if kind == "sqlite" else request.getfixturevalue("empty_postgresql")
    desk = Desk(store, ServeSettings())
    desk.accounts.add("anna", PASSWORD, "coder", by="test")
    desk.casework.receive([Sent(f"r{n}", text) for n, text in enumerate(reports(90)["text"])], source="test")
    cases, answerer = [], Answerer(model)
    for case, texts in desk.casework.uncoded(90):
        said = propose_case(answerer.answer([Sent("0", texts[0].text, case_id=case)], Asked(by_case=True)))
        desk.casework.propose(case, said, model=model.model_sha256, thresholds="t", reports=1)
        cases.append((case, {task: code.code for task, code in said.tumours[0].codes.items()}))
    desk.base.close()
    (tmp_path / "tokens").write_text(f"lab {TOKEN}\n")
    (tmp_path / "tokens").chmod(0o600)
    port, mllp = free_port(), free_port()
    command = [sys.executable, "-m", "pathveil", "serve", model_folder, "--port", port, "--mllp", mllp]
    command += ["--store", store, "--token-file", tmp_path / "tokens"]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(list(map(str, command)), stderr=log) as process:
        try:
            wait_for(port, process)
            acts = [queue_client(port), registrar(port, cases), *(mllp_client(mllp, name) for name in "xy")]
            loads = [Load(act) for act in acts]
            for load in loads:
                load.start()
            until = time.monotonic() + 60
            while any(len(load.acknowledged) < 12 for load in loads) and time.monotonic() < until:
                time.sleep(0.002)
        finally:
            os.kill(process.pid, signal.SIGKILL)
    for load in loads:
        load.join()
    sent, decided, *messages = (set(load.acknowledged) for load in loads)
    assert len(decided) >= 12 and len(sent) >= 12 and all(len(one) >= 12 for one in messages)
    desk = Desk(store, ServeSettings())
    rows = desk.base.rows("SELECT report_id, number FROM reports")
    assert sent <= {row["report_id"] for row in rows} and set.union(*messages) <= {row["number"] for row in rows}
    assert decided <= {row["case_key"] for row in desk.casework.decisions()}
    assert check(desk.base).broken_at is None
    assert len(desk.casework.decisions()) <= len(decided) + 1  # at most what was on its way
    desk.base.close()
    assert "carcinoma" not in (tmp_path / "log").read_text()


def wait_for(port, process):
    while process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError("the service did not start")
