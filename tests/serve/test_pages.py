"""The page as a registrar uses it, in a real browser; and what it refuses."""

import contextlib
import csv
import io
import json
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from xml.etree import ElementTree

import polars as pl
import pytest
import uvicorn
from playwright.sync_api import expect
from starlette.testclient import TestClient

from bundle.conftest import reports
from conftest import free_port
from pathveil.bundle.predict import predict_to_file
from pathveil.serve.accounts import User
from pathveil.serve.app import make_app
from pathveil.serve.bodies import read_body
from pathveil.serve.coding import Asked, propose_case
from pathveil.serve.desk import Desk
from pathveil.serve.exports import corrections, final_decisions, labels, naaccr_xml
from pathveil.serve.limits import Buckets
from pathveil.serve.sent import Sent
from pathveil.serve.start import queue_file
from serve.conftest import BEARER, service_of

PASSWORD = "correct horse battery"
SCRIPT = "<script>document.title='taken over'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def desk_service(model, tmp_path_factory):
    """A service with a store, users and a few cases, one of which holds a script."""
    service = service_of(model)
    service.desk = desk = Desk(tmp_path_factory.mktemp("store"), service.settings, cheap_passwords=True)
    for name, role, registries in (("anna", "admin", ()), ("cora", "coder", ()), ("nora", "coder", ("North",))):
        desk.accounts.add(name, PASSWORD, role, registries=registries, by="test")
    desk.setup_token = None
    desk.set_fact("second_percent", "0", by="test")
    rows = reports(8, seed=2).to_dicts()
    rows.append(rows[0] | {"report_id": "r99", "case_id": "odd", "text": "zzz " + SCRIPT})
    for row in rows:
        sent = Sent(row["report_id"], row["text"], case_id=f"c-{row['report_id']}", registry=row["registry"])
        desk.casework.receive([sent], source="test")
    for case, texts in desk.casework.uncoded(20):
        named = [Sent(str(one.place), one.text, case_id=case) for one in texts]
        said = propose_case(service.pool.answerer.answer(named, Asked(places=4, by_case=True)))
        desk.casework.propose(case, said, model=model.model_sha256, thresholds="t", reports=len(texts))
    return service


@contextlib.contextmanager
def on_a_port(service):
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(make_app(service), port=port, log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not (server.started and service.ready):
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def live(desk_service):
    """The service on a port."""
    with on_a_port(desk_service) as address:
        yield address


def log_in(page, live, name):
    page.goto(f"{live}/login")
    page.fill("#name", name)
    page.fill("#password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/queue*")


def axe(page):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})
    return [f"{one['id']}: {node['html'][:120]}" for one in found.response["violations"] for node in one["nodes"]]


def test_a_registrar_codes_from_log_in_to_export(live, browser, desk_service):
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    problems, outside = [], []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.on("request", lambda request: outside.append(request.url) if not request.url.startswith(live) else None)
    log_in(page, live, "anna")
    assert page.inner_text("h1") == "9 cases wait" and not axe(page)
    first = page.locator("table.queue tbody tr").first
    assert "code" in first.locator(".tag").inner_text()  # what the model abstained from comes first

    page.keyboard.press("Enter")  # the next case
    page.wait_for_url("**/case/*")
    assert not axe(page)
    assert SCRIPT in page.inner_text(".text") and "taken over" not in page.title()
    opened = page.url
    undecided = page.locator(".task[data-abstained]").count()
    assert undecided and page.locator(".task.active").get_attribute("data-abstained") is not None
    page.keyboard.press("Enter")  # not before a person has chosen
    assert "the model leaves it to you" in page.inner_text("#hint") and page.url == opened
    for _ in range(undecided):
        page.keyboard.press("1")
    assert page.locator(".task:not(:has(input:checked))").count() == 0
    while page.locator(".task.active").get_attribute("data-task") != "site":
        page.keyboard.press("ArrowUp")
    page.keyboard.press("/")  # another code, by its term
    page.keyboard.type("pancreas")
    expect(page.locator(".task.active .found[aria-busy=false] li").first).to_contain_text("C25")
    page.keyboard.press("Enter")
    expect(page.locator(".contradictions")).to_contain_text("does not lie in site C25 (pancreas)")
    page.keyboard.press("Enter")  # accept and go on
    page.wait_for_url(lambda url: "/case/" in url and url.split("?")[0] != opened.split("?")[0])
    assert page.inner_text(".said") == "Kept with your changes."
    page.keyboard.press("u")
    page.wait_for_url(lambda url: url.split("?")[0] == opened.split("?")[0])
    assert "Undone" in page.inner_text(".said")
    while page.locator(".task:not(:has(input:checked))").count():
        page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.split("?")[0] != opened.split("?")[0])

    marked = page.locator("mark[class^=on]")
    assert marked.count() and not page.locator("mark.on3").first.inner_text().isspace()
    task = page.locator(".task").nth(3)
    task.hover()
    shown = set(page.locator("mark[class^=on]").evaluate_all("all => all.map(one => one.dataset.tasks)"))
    assert all("histology:" in tasks for tasks in shown)
    page.keyboard.press("s")
    page.keyboard.press("2")
    page.wait_for_url(lambda url: "said=skipped" in url)

    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 768, "height": 1024})
    for path, words in (
        ("/review", "anna: text incomplete"),
        ("/figures", "Does the model keep its promise?"),
        ("/admin", "nora"),
        ("/next", "Accept"),
    ):
        page.goto(live + path)
        assert words in page.inner_text("main") and not axe(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with page.expect_download() as download:
        page.evaluate("location.href = '/export/corrections.csv'")
    rows = list(csv.DictReader(download.value.path().open()))
    decided = desk_service.desk.casework.decisions()
    assert len(rows) == len(decided) and {row["who"] for row in rows} == {"anna"}
    assert (problems, outside) == ([], [])


def test_a_late_answer_changes_nothing(live, browser):
    """The answer about a code chosen before, and the list of what was typed before, come after later ones."""
    page = other_page(browser, live, "cora")
    page.click("table.queue a")
    page.wait_for_url("**/case/*")
    site = page.locator(".task[data-task=site]")
    held = {}
    page.route("**/combinations?*", lambda route: held.setdefault("codes", []).append(route))
    for code in (1, 0):
        site.locator(".offer:not(.other) input").nth(code).check()
    while len(held.get("codes", ())) < 2:
        page.wait_for_timeout(10)
    shown = page.locator(".contradictions").first
    for route, said in zip(reversed(held["codes"]), ("later", "earlier"), strict=True):
        with page.expect_response("**/combinations?*"):
            route.fulfill(json={"contradictions": [said], "terms": {}})
        expect(shown).to_have_text("later")
        page.wait_for_timeout(50)  # for an earlier answer to be shown, were it shown
    expect(shown).to_have_text("later")

    page.route("**/search?*q=pancrea*", lambda route: held.setdefault("words", []).append(route))
    search, first = site.locator("input[type=search]"), site.locator(".found li").first
    page.keyboard.press("ArrowUp")
    search.focus()
    expect(first).to_be_visible()  # the frequent codes
    search.press_sequentially("pancre")
    expect(first).to_contain_text("C25")
    search.press_sequentially("as")
    expect(site.locator(".found")).to_have_attribute("aria-busy", "true")
    page.keyboard.press("Enter")  # before the list of "pancreas" has come
    assert search.input_value() == "pancreas" and not site.locator(".other input:checked").count()
    later: list = []  # wherever it stands: of two requests at once the second may be told of first
    while not later:
        page.wait_for_timeout(10)
        later = [route for route in held.get("words", ()) if route.request.url.endswith("q=pancreas")]
    later[0].fulfill(json={"found": [{"code": "C25", "term": "of the later list", "fits": True}]})
    expect(first).to_contain_text("of the later list")
    page.keyboard.press("Enter")
    expect(site.locator(".other")).to_contain_text("of the later list")


def code_of_task(page, task):
    return page.locator(f".tumour >> nth=0 >> .task[data-task={task}] input:checked").get_attribute("value")


def test_what_is_chosen_stays_and_a_tumour_that_was_added_is_taken_back_first(live, browser, desk_service):
    page = other_page(browser, live, "cora")
    page.click("table.queue a")
    page.wait_for_url("**/case/*")
    first = page.url
    while page.locator(".task:not(:has(input:checked))").count():
        page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/case/" in url and url.split("?")[0] != first.split("?")[0])
    case = page.url.split("?")[0]
    decided = len(desk_service.desk.casework.decisions())

    def wait_for_draft(added):  # the page sends it as it is left
        base, query = desk_service.desk.base, "SELECT case_key FROM drafts WHERE who = 'cora' AND added = ?"
        while not base.rows(query, added):
            page.wait_for_timeout(10)

    page.locator(".task[data-task=laterality]").first.click()
    page.keyboard.press("3")
    side = code_of_task(page, "laterality")
    page.keyboard.press("Q")  # with Caps Lock
    page.wait_for_url("**/queue")
    wait_for_draft(0)
    page.goto(case)
    assert code_of_task(page, "laterality") == side
    page.keyboard.press("T")
    expect(page.locator(".tumour")).to_have_count(2)
    assert page.inner_text(".said") == "Tumour 2 is added." and not axe(page)
    page.locator(".tumour >> nth=1 >> .task[data-task=site] input").first.check()
    page.click("text=Figures")
    page.wait_for_url("**/figures")
    wait_for_draft(1)
    page.goto(case)
    expect(page.locator(".tumour")).to_have_count(2)
    assert page.locator(".tumour >> nth=1 >> input:checked").count() >= 1
    page.keyboard.press("U")  # first the tumour, then what was decided of another case
    expect(page.locator(".tumour")).to_have_count(1)
    assert page.url.split("/tumours")[0] == case and code_of_task(page, "laterality") == side
    assert len(desk_service.desk.casework.decisions()) == decided
    page.keyboard.press("S")
    expect(page.locator("#skip")).to_have_attribute("open", "")
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    page.wait_for_url(lambda url: url.split("?")[0] == first.split("?")[0])
    assert len(desk_service.desk.casework.decisions()) == decided - 1


def test_a_search_offers_the_right_code_first_and_never_holds_keys_that_find_nothing(live, browser):
    page = other_page(browser, live, "cora")
    page.click("table.queue a")
    page.wait_for_url("**/case/*")
    opened = page.url

    def search(task, words):
        field = page.locator(f".task[data-task={task}]")
        for _ in range(5):
            page.keyboard.press("ArrowUp")
        while page.locator(".task.active").get_attribute("data-task") != task:
            page.keyboard.press("ArrowDown")
        page.keyboard.press("/")
        page.keyboard.type(words)
        return field

    for task, words, code in (
        ("subsite", "upper inner", "C50.2"),
        ("laterality", "2", "left"),
        ("site", "c619", "C61"),
        ("histology", "dcis", "8500"),
    ):
        field = search(task, words)
        expect(field.locator(".found[aria-busy=false] li").first.locator("b")).to_have_text(code)
        if words == "dcis":
            expect(field.locator(".found li").first.locator("i")).to_have_text("DCIS")
            assert not axe(page)
        page.keyboard.press("Enter")
        expect(field.locator("input:checked")).to_have_value(code)

    field = search("subsite", "quadrant zzz")  # near, and not taken unasked
    expect(field.locator(".hint")).to_contain_text("No name has all these words")
    page.keyboard.press("Enter")
    expect(field.locator("input[type=search]")).to_be_focused()
    expect(field.locator("input:checked")).to_have_value("C50.2")
    page.keyboard.press("Escape")

    for key, chosen in (("Enter", "C50.2"), ("1", field.locator("input").first.get_attribute("value"))):
        field = search("subsite", "zzz")
        expect(field.locator(".hint")).to_contain_text("Nothing found")
        assert not axe(page)
        page.keyboard.press(key)
        expect(field.locator("input[type=search]")).not_to_be_focused()
        expect(field.locator(".hint")).to_have_text("")
        expect(field.locator("input:checked")).to_have_value(chosen)
    assert page.url == opened


TEXTS = ["carcinoma of the left breast", "prostate, adenocarcinoma", "adenocarcinoma of the colon"]
TWO = ["lobular carcinoma of the right breast, upper outer quadrant", "prostate, adenocarcinoma, gleason 3+4=7"]


def other_page(browser, live, name, **options):
    page = browser.new_page(viewport={"width": 1024, "height": 768}, **options)
    log_in(page, live, name)
    return page


def case_with_two_tumours(page):
    """Opened from the queue, where it comes first; its sections by tumour."""
    page.click("table.queue a")
    page.wait_for_url("**/case/*")
    return page.locator(".tumour")


def test_two_tumours_two_people_and_another_model(model, model_folder, tmp_path, browser):
    """From the first user to the last export, by an administrator, a reviewer, and somebody without JavaScript."""
    service = service_of(model)
    service.desk = desk = Desk(tmp_path / "store", service.settings, cheap_passwords=True)
    desk.models = tmp_path / "models"
    replace(model, labels=model.labels | {"site": (*model.labels["site"][1:], model.labels["site"][0])}).save(
        desk.models / "other"
    )
    shutil.copytree(desk.models / "other", desk.models / "torn")
    (desk.models / "torn" / "model.safetensors").unlink()
    sent = [Sent(f"t{number}", text, case_id="two", number=f"S-{number}") for number, text in enumerate(TWO)]
    desk.casework.receive(sent, source="test")
    with on_a_port(service) as live:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(f"{live}/setup?token={desk.setup_token}")
        assert not axe(page)
        page.fill("#name", "anna")
        page.fill("#password", PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/login")
        assert not axe(page)
        log_in(page, live, "anna")
        page.goto(f"{live}/admin")
        page.fill("form[action='/admin/users'] #name", "rita")
        page.fill("form[action='/admin/users'] #password", PASSWORD)
        page.select_option("#role", "reviewer")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**said=added")
        page.fill("#percent", "100")
        page.keyboard.press("Enter")
        page.wait_for_url("**said=second")

        page.keyboard.press("q")
        page.wait_for_url("**/queue")
        tumours = case_with_two_tumours(page)
        assert tumours.count() == 2 and "tell of 2 tumours" in page.inner_text(".note") and not axe(page)
        told = tumours.nth(1).locator(".told input:checked")
        assert told.evaluate_all("all => all.map(one => one.name)") == ["report.2.1"]
        page.keyboard.press("t")  # one more, what was chosen is kept
        page.wait_for_selector(".tumour >> nth=2")
        while page.locator(".task:not(:has(input:checked))").count() > 5:
            page.keyboard.press("1")
        page.locator("button[name=remove]").nth(2).click()
        page.wait_for_selector(".tumour >> nth=2", state="detached")
        while page.locator(".task:not(:has(input:checked))").count():
            page.keyboard.press("1")
        page.emulate_media(media="print")
        assert not page.locator(".foot, .find, #accept, .which button").locator("visible=true").count()
        assert page.locator(".offer").locator("visible=true").count() == 10  # the chosen ones alone
        page.emulate_media(media="screen")
        page.keyboard.press("Enter")
        page.wait_for_url("**/queue*said=accepted*")

        rita = other_page(browser, live, "rita", color_scheme="dark")
        assert "second look" in rita.inner_text("main")
        tumours = case_with_two_tumours(rita)
        while rita.locator(".task:not(:has(input:checked))").count():
            rita.keyboard.press("1")
        tumours.nth(1).locator(".task[data-task=subsite] input[type=radio]").nth(1).check()
        rita.keyboard.press("Enter")
        rita.wait_for_url("**/queue*said=changed*")
        rita.goto(f"{live}/review")
        assert "tumour 2" in rita.inner_text("main") and "Cohen's kappa" in rita.inner_text("main") and not axe(rita)
        rita.click("section a")
        rita.wait_for_url("**/case/*")
        assert "anna: " in rita.inner_text(".tumour >> nth=1") and not axe(rita)
        while rita.locator(".task:not(:has(input:checked))").count():
            rita.keyboard.press("1")
        rita.keyboard.press("Enter")
        rita.wait_for_url("**/queue*")
        assert [row["round"] for row in desk.casework.decisions()] == [1, 2, 3]
        reviewer = desk.accounts.session(rita.context.cookies()[0]["value"]).user
        rows = final_decisions(desk.casework, reviewer)
        tree = ElementTree.fromstring(naaccr_xml(rows, model.tasks))
        assert len(tree) == 1 and [len(one.findall(".//*[@naaccrId='pathReportNumber1']")) for one in tree[0]] == [1, 1]
        own = list(csv.DictReader(io.StringIO(labels(rows, model.tasks))))
        decided = desk.casework.decisions()[-1]["codes"]
        assert [{task: row[task] for task in model.tasks} for row in own] == decided
        lines = list(csv.DictReader(io.StringIO(corrections(rows, model.tasks))))
        assert [(row["case_id"], row["tumor"], row["site"]) for row in lines] == [
            ("two", str(number), codes["site"]) for number, codes in enumerate(decided, start=1)
        ]

        desk.casework.receive([Sent("plain", TWO[0], case_id="plain")], source="test")
        desk.arrived.set()
        while desk.casework.uncoded(1):
            time.sleep(0.02)
        page.goto(f"{live}/admin")
        page.select_option("#other-model", "torn")
        page.click("text=Compare on the cases that wait")
        assert "torn" in page.inner_text("main") and not axe(page)
        page.click("text=Back to the administration")
        page.select_option("#other-model", "other")
        page.click("text=Compare on the cases that wait")
        (row,) = page.locator("#model .differs tbody tr").all()
        assert not axe(page)
        now, then = (row.locator("td").nth(column).inner_text() for column in (2, 3))
        assert now.startswith("C50") and not then.startswith("C50") and "plain" in row.inner_text()
        page.click("text=Switch to other")
        page.wait_for_url("**said=switched")
        plain = other_page(browser, live, "anna", java_script_enabled=False)
        while desk.casework.uncoded(1):
            time.sleep(0.02)
        plain.goto(f"{live}/queue")
        assert not plain.url.endswith("login")
        tumours = case_with_two_tumours(plain)
        assert tumours.count() == 1
        for task in plain.locator(".task").all():
            task.locator("input[type=radio]").first.check()
        plain.fill("input[name='other.1.site']", "c619")
        plain.click("text=Another tumour")
        expect(tumours).to_have_count(2)
        assert "C61" in tumours.first.inner_text()
        assert plain.locator(".told input").evaluate_all("all => all.map(one => one.checked)") == [True, False]
        plain.click("#accept")
        assert "Choose the site" in plain.inner_text("[role=alert]") and tumours.count() == 2
        plain.locator("button[name=remove]").nth(1).click()
        expect(tumours).to_have_count(1)
        with plain.expect_navigation():
            plain.click("#accept")
        last = desk.casework.decisions()[-1]
        assert last["codes"][0]["site"] == "C61" and len(last["codes"]) == 1
        plain.click("text=Undo my last decision")
        assert "Undone" in plain.inner_text(".said") and "C61" in tumours.first.inner_text()


def test_refusals_are_pages_that_all_can_read(desk_service, live, browser, monkeypatch):
    """Log-in refused, not for this role, no such page, too often: each a page, with a way on."""
    page = browser.new_page(viewport={"width": 768, "height": 1024}, color_scheme="dark")
    page.goto(f"{live}/login")
    page.fill("#name", "cora")
    page.fill("#password", "a wrong password")
    page.keyboard.press("Enter")
    assert page.locator("[role=alert]").inner_text() == "The name or the password is wrong." and not axe(page)
    page.keyboard.type(PASSWORD)  # the name is still there
    page.keyboard.press("Enter")
    page.wait_for_url("**/queue*")
    for path, title, allowed in (
        ("/admin", "Not allowed", 6_000),
        ("/no/such", "Not here", 6_000),
        ("/queue", "Too often", 1),
    ):
        monkeypatch.setattr(desk_service, "asked", Buckets(allowed, clock=lambda: 0.0))
        desk_service.asked.take("person cora")
        page.goto(live + path)
        assert page.inner_text("h1") == title and page.locator("main a").count() == 1 and not axe(page)


def client_of(service, name):
    """A client that has logged in, with the secret of its forms."""
    client = TestClient(make_app(service), base_url="https://registry.example", follow_redirects=False)
    answer = client.post("/login", data={"name": name, "password": PASSWORD})
    assert answer.status_code == 303 and "HttpOnly" in answer.headers["set-cookie"]
    assert "Secure" in answer.headers["set-cookie"] and "samesite=strict" in answer.headers["set-cookie"].lower()
    client.csrf = re.search('name="csrf" value="([^"]+)"', client.get("/queue").text)[1]
    return client


@pytest.fixture
def people(desk_service):
    return lambda name: client_of(desk_service, name)


def test_forms_of_other_sites_and_sessions_are_refused(people, desk_service):
    cora = people("cora")
    user = desk_service.desk.accounts.session(cora.cookies["pathveil_session"]).user
    (case, *_) = desk_service.desk.casework.queue(user)
    path, codes = f"/case/{case['id']}/decide", {}
    assert cora.post(path, data=codes).status_code == 403
    assert cora.post(path, data=codes | {"csrf": people("anna").csrf}).status_code == 403
    elsewhere = cora.post(path, data=codes | {"csrf": cora.csrf}, headers={"origin": "https://evil.example"})
    assert elsewhere.status_code == 403 and "another site" in elsewhere.text
    wrong = cora.post(path, data={"csrf": cora.csrf, "code.1.site": "=cmd()"})
    assert wrong.status_code == 422 and "no code of ICD-O-3" in wrong.text
    assert desk_service.desk.casework.decisions(case=case["id"]) == []


def test_a_role_and_a_registry_bound_what_is_seen(people, desk_service):
    cora, nora = people("cora"), people("nora")
    for path in ("/admin", "/review", "/export/corrections.csv"):
        assert cora.get(path).status_code == 403
    assert cora.post("/admin/users", data={"csrf": cora.csrf, "name": "x"}).status_code == 403
    case = desk_service.desk.casework.base.rows("SELECT id FROM cases WHERE status = 'waiting'")[0]["id"]
    assert nora.get(f"/case/{case}").status_code == 404 and "Nothing waits" in nora.get("/queue").text
    nobody = TestClient(make_app(desk_service), follow_redirects=False)
    assert nobody.get(f"/case/{case}").headers["location"] == "/login"
    assert nobody.get("/search?task=site&q=c50").headers["location"] == "/login"
    assert nobody.post("/undo").status_code == 403
    assert nobody.get("/queue", headers=BEARER).headers["location"] == "/login"  # a program's token is no log-in


def test_an_administrator_sets_a_password_and_sessions_end(people, desk_service):
    desk_service.desk.accounts.add("fay", PASSWORD, "coder", by="anna")
    anna, fay, cora = people("anna"), people("fay"), people("cora")
    given = {"name": "fay", "password": "quite another one 7"}
    assert cora.post("/admin/password", data=given | {"csrf": cora.csrf}).status_code == 403
    assert anna.post("/admin/password", data=given).status_code == 403
    for wrong, said in (({"password": "short"}, "at least 12"), ({"name": "nobody"}, "no user of this name")):
        refused = anna.post("/admin/password", data=given | wrong | {"csrf": anna.csrf})
        assert refused.status_code == 422 and said in refused.text
    assert fay.get("/queue").status_code == 200
    done = anna.post("/admin/password", data=given | {"csrf": anna.csrf})
    assert done.headers["location"] == "/admin?said=password"
    assert fay.get("/queue").headers["location"] == "/login"
    accounts = desk_service.desk.accounts
    assert accounts.log_in("fay", PASSWORD) is None and accounts.log_in("fay", given["password"])
    kept = desk_service.desk.base.rows("SELECT * FROM log ORDER BY 1 DESC LIMIT 2")
    assert "password set" in str(kept) and given["password"] not in str(kept)


def test_paths_lead_nowhere_else(people):
    anna = people("anna")
    for path in ("/static/..%2fapp.py", "/static/../app.py", "/export/..%2f..%2fstore.sqlite", "/case/..%2f..%2f"):
        assert anna.get(path).status_code == 404


def test_guessing_passwords_is_slowed_down(desk_service):
    desk_service.failed = Buckets(30, clock=lambda: 0.0)  # a busy machine's clock has no say
    client = TestClient(make_app(desk_service), follow_redirects=False, client=("10.0.0.9", 1))
    tried = [client.post("/login", data={"name": "cora2", "password": f"guess {n}"}).status_code for n in range(32)]
    assert tried[:30] == [403] * 30 and tried[30:] == [429] * 2


def test_log_ins_at_once_are_counted_before_two_at_a_time_are_hashed(model, tmp_path, monkeypatch):
    service = service_of(model)
    service.failed = Buckets(30, clock=lambda: 0.0)
    service.desk = desk = Desk(tmp_path, service.settings, cheap_passwords=True)
    desk.accounts.add("cora", PASSWORD, "coder", by="test")
    active, at_once, verify = [], [], desk.accounts.hasher.verify

    class Hasher:
        def verify(self, *given):
            active.append(1)
            at_once.append(len(active))
            time.sleep(0.002)  # in which others could begin
            active.pop()
            return verify(*given)

    monkeypatch.setattr(desk.accounts, "hasher", Hasher())
    guesses = [f"guess {n}" for n in range(100)]
    with TestClient(make_app(service), follow_redirects=False) as client, ThreadPoolExecutor(100) as threads:

        def log_in(name, *passwords):
            forms = [{"name": name, "password": password} for password in passwords]
            return sorted(one.status_code for one in threads.map(lambda form: client.post("/login", data=form), forms))

        assert log_in("dora", *guesses) == [403] * 30 + [429] * 70
        assert len(at_once) == 30 and max(at_once) <= 2
        assert log_in("cora", PASSWORD) == [429]
        service.failed.left.clear()
        assert log_in("cora", *guesses[:29]) == [403] * 29
        for _ in range(40):  # the right password uses nothing up
            assert log_in("cora", PASSWORD) == [303]


def test_what_was_decided_goes_out_and_comes_back_as_labels(people, desk_service, tmp_path):
    anna, work = people("anna"), desk_service.desk.casework
    user = desk_service.desk.accounts.session(anna.cookies["pathveil_session"]).user
    case = work.open(work.queue(user, order="registry")[-1]["id"], user)
    (proposed,) = case["answer"]["tumours"]
    work.decide(case["id"], user, [{task: code["code"] for task, code in proposed["codes"].items()}])
    labels = anna.get("/export/labels.csv").text
    rows = list(csv.DictReader(io.StringIO(labels)))
    decided = {row["case_id"]: row["codes"][0] for row in desk_service.desk.casework.decisions()}
    assert rows
    for row in rows:
        assert {task: row[task] for task in decided[row["case_id"]]} == decided[row["case_id"]]
    tree = ElementTree.fromstring(anna.get("/export/codes.xml").text)
    assert len(tree) == len(decided) == len(tree.findall(".//{*}Tumor"))
    from pathveil.corpus.labels import label_corpus

    frame = reports(8, seed=2).drop("site", "subsite", "laterality", "histology", "behavior")
    frame.write_parquet(tmp_path / "reports.parquet")
    (tmp_path / "labels.csv").write_text(labels)
    label_corpus(tmp_path / "reports.parquet", tmp_path / "labels.csv", on=["report_id"], out=tmp_path / "out.parquet")
    joined = pl.read_parquet(tmp_path / "out.parquet")
    assert joined["subsite"].drop_nulls().len() >= len([row for row in rows if row["report_id"] != "r99"])


def test_codes_of_a_queued_table_have_the_numbers_that_predict_writes(model, tmp_path):
    service = service_of(model)
    service.desk = desk = Desk(tmp_path / "store", service.settings, cheap_passwords=True)
    user = User("anna", "admin", frozenset())
    table = pl.DataFrame({"report_id": ["K7-1", "K8-1", "K9-1"], "case_id": ["17", "x8", None], "text": TEXTS})
    table.write_csv(tmp_path / "lab.csv")
    assert queue_file(service, tmp_path / "lab.csv") == 3
    body = json.dumps({"report_id": "S-4", "text": TEXTS[0]}).encode()
    desk.casework.receive(read_body("application/json", body, service.settings, key=service.key), source="api")
    for case, texts in desk.casework.uncoded(9):
        named = [Sent(str(one.place), one.text, case_id=case) for one in texts]
        answer = propose_case(service.pool.answerer.answer(named, Asked(by_case=True)))
        desk.casework.propose(case, answer, model=model.model_sha256, thresholds="t", reports=len(texts))
        desk.casework.decide(case, user, [{task: code.code for task, code in answer.tumours[0].codes.items()}])
    predict_to_file(model, tmp_path / "lab.csv", tmp_path / "codes.xml")

    def numbers(xml):
        cases = [case.findall(".//{*}Item") for case in ElementTree.fromstring(xml)]
        items = [{one.get("naaccrId"): one.text for one in case} for case in cases]
        return [(one.get("patientIdNumber"), one.get("pathReportNumber1")) for one in items]

    page_numbers = numbers(naaccr_xml(final_decisions(desk.casework, user), model.tasks))
    assert page_numbers == [*numbers((tmp_path / "codes.xml").read_text()), (None, "S-4")]
    assert page_numbers[:3] == [("00000017", "K7-1"), (None, "K8-1"), (None, "K9-1")]


def test_another_model_is_compared_before_it_is_used(model, model_folder, tmp_path):
    service = service_of(model)
    service.desk = desk = Desk(tmp_path, service.settings, cheap_passwords=True)
    desk.accounts.add("anna", PASSWORD, "admin", by="test")
    desk.setup_token, desk.models = None, model_folder.parent
    desk.casework.receive([Sent("r1", "carcinoma of the left breast")], source="test")
    anna = client_of(service, "anna")
    assert "1 case is being coded" in anna.get("/queue").text and "data-again" in anna.get("/queue").text
    with anna:  # its life span: the pool and the queue work
        while desk.casework.uncoded(1):
            time.sleep(0.02)
        assert anna.post("/admin/model", data={"csrf": anna.csrf, "model": "../../etc"}).status_code == 422
        assert anna.post("/admin/switch", data={"csrf": anna.csrf, "sha256": "0"}).status_code == 409
        assert anna.post("/admin/model", data={"csrf": anna.csrf, "model": "model"}).status_code == 303
        page = anna.get("/admin").text
        assert page.count(f"model sha256 <code>{model.model_sha256[:16]}…") == 2  # in use, and compared
        assert "of 1 waiting case" in page and "code all of these cases alike" in page and "Switch to model" in page
        assert anna.post("/admin/switch", data={"csrf": anna.csrf, "sha256": model.model_sha256}).status_code == 303
        while desk.casework.uncoded(1):  # it is coded again
            time.sleep(0.02)
        what = [row["what"] for row in desk.base.rows("SELECT what FROM log ORDER BY number")]
        assert what[-3:] == ["model compared", "model switched", "coded"]
