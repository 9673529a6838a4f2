"""The hub and a site as foreground processes: FLARE's own programs, started with a kit and ended with ctrl-C."""

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pathveil.errors import UsageError
from pathveil.federation.flare import policy, recorder, revocation
from pathveil.federation.flare.provision import needed
from pathveil.federation.protocol.plan import SMALLEST_BATCH, read_plan
from pathveil.federation.protocol.secret import site_secret
from pathveil.files import read_json

log = logging.getLogger(__name__)
HEARTBEAT = 3.0  # seconds between two signs of life of a site: see duplicate_guard
LETTING_GO = 5.0  # seconds in which a hub that was killed gives up its port
SOON = 30  # days before a certificate ends in which it is said
TRIES, AGAIN = 6, 5.0  # a site that was killed is let in again when its old process is forgotten


def run_hub(kit: Path) -> None:
    """Serve until ended."""
    check_kit(kit, "fed_server.json", kind="hub")
    kit = kit.resolve()
    policy.write(kit / "local", policy.hub(kit))  # the kit may have been moved since it was made
    revocation.start(kit)
    from nvflare.private.fed.app.server import server_train

    failed = serve(server_train, ["-m", str(kit), "-s", "fed_server.json", "--set", *common("hub")])
    if failed:
        log.error("the hub could not start; is its port taken? %s/log.txt says more", kit)
    end_children()
    os._exit(2 if failed else 0)


def run_site(
    kit: Path,
    *,
    corpus: Sequence[Path],
    vocabulary: Path,
    registries: Sequence[str] = (),
    device: str = "cpu",
    record: Path | None = None,
    smallest_batch: int = SMALLEST_BATCH,
    unmasked: bool = False,
    plans: Sequence[Path] = (),
) -> None:
    """Work for the hub until ended. Where the reports are is kept in the kit's ``local`` folder and goes nowhere.

    With ``plans`` the site takes part in runs of these alone.
    """
    check_kit(kit, "fed_client.json", kind="site")
    kit = kit.resolve()
    settings = {
        "corpus": [str(path.resolve()) for path in corpus],
        "vocabulary": str(vocabulary.resolve()),
        "registries": list(registries),
        "device": device,
        "smallest_batch": smallest_batch,
        "unmasked": unmasked,
        "plans": [read_plan(path).model_dump(mode="json") for path in plans],
    }
    site_secret(kit)
    policy.write(kit / "local", {policy.SETTINGS: settings})
    if record is not None:
        os.environ[recorder.VARIABLE] = str(record.resolve())
    recorder.start()
    from nvflare.private.fed.app.client import client_train

    arguments, place = sys.argv[1:], Path.cwd()
    startup = read_json(kit / "startup" / "fed_client.json")
    name, target = startup["client"]["fqsn"], startup["servers"][0]["service"]["target"]
    threading.Thread(target=complain, args=(target,), daemon=True).start()
    beat = f"heart_beat_interval={HEARTBEAT}"
    failed = serve(client_train, ["-m", str(kit), "-s", "fed_client.json", "--set", f"uid={name}", beat, *common(name)])
    tries = int(os.environ.get("PATHVEIL_TRIES", "0"))
    if failed and tries < TRIES:
        log.warning("the hub did not take this site; trying again in %.0f seconds", AGAIN)
        time.sleep(AGAIN)
        os.environ["PATHVEIL_TRIES"] = str(tries + 1)
        os.chdir(place)
        os.execv(sys.executable, [sys.executable, "-m", "pathveil", *arguments])
    if failed:
        log.error("the hub does not take this site: is another process with this kit at work?")
    end_children()
    os._exit(2 if failed else 0)


def check_own(corpus: Sequence[Path], vocabulary: Path, registries: Sequence[str]) -> None:
    """Say before a site waits for the hub what would stop its first run: files that are not there or not a corpus and a
    vocabulary, a registry that the corpus does not have. The reports are read in full when a run begins."""
    from pathveil.corpus.schema import scan
    from pathveil.vocabulary.words import Vocabulary

    for path in (*corpus, vocabulary):
        if not path.exists():
            raise UsageError(f"{path}: is not there; a site needs its corpus and the agreed vocabulary")
    Vocabulary.load(vocabulary)
    known = sorted(scan(list(corpus)).select("registry").unique().collect(engine="streaming")["registry"].drop_nulls())
    for registry in registries:
        if registry not in known:
            raise UsageError(f"--registry: the corpus has no registry '{registry}'; it has {', '.join(known)}")


def complain(target: str) -> None:
    """Say now and then that there is no connection yet."""
    from pathveil.federation.flare.launcher import connected

    while not connected.wait(15):
        log.warning(
            "no connection to the hub at %s: is it running, is the port open, is this kit of its making?", target
        )


def common(organisation: str) -> list[str]:
    return ["secure_train=true", f"org={organisation.replace('-', '_')}", "config_folder=config"]


def check_kit(kit: Path, file: str, *, kind: str) -> None:
    needed()
    if not (kit / "startup" / file).is_file():
        raise UsageError(f"{kit}: is not the kit of a {kind}; 'pathveil federate sign' or 'provision' makes one")
    from pathveil.federation.flare.certificates import days_left

    if not any((kit / "startup").glob("*.key")):
        raise UsageError(f"{kit}: has no key; put it beside the key with 'pathveil federate accept'")
    left = days_left(kit)
    if left < 0:
        raise UsageError(f"{kit}: its certificate has ended; ask for another with 'pathveil federate request'")
    if left < SOON:
        log.warning(
            "the certificate of %s ends in %d days; ask for another with 'pathveil federate request'", kit, left
        )


def check_port(kit: Path) -> None:
    """Refuse to start a hub whose port is taken. FLARE's server would share it with the one that is there, and each
    would get some of the connections. A hub that was just killed may hold it for a moment."""
    own = read_json(kit / "startup" / "fed_server.json")
    port = int(own["servers"][0]["service"]["target"].rpartition(":")[2])
    end = time.monotonic() + LETTING_GO
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that are ending do not count
            try:
                probe.bind(("", port))
                return
            except PermissionError:
                raise UsageError(f"{kit}: this account may not open port {port}; ports below 1024 are root's") from None
            except OSError:
                if time.monotonic() > end:
                    raise UsageError(
                        f"{kit}: port {port} is taken; is this hub running already, or does another program use it?"
                    ) from None
        time.sleep(0.5)


def serve(program: Any, arguments: list[str]) -> bool:
    """Run one of FLARE's programs in this process until a signal; True where it failed to start."""

    def end(number: int, frame: Any) -> None:
        end_children()
        os._exit(0)

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    os.environ["NVFLARE_SECURE_LOGGING"] = "true"  # no values in FLARE's accounts of exceptions
    sys.argv = [program.__name__, *arguments]
    try:
        program.main(program.parse_arguments())
    except Exception as error:
        log.error("%s", type(error).__name__)
        return True
    return False


def end_children() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        child.kill()
