"""FLARE's simulator around the same two classes: a whole federation on one machine, without certificates.

For trying a plan out before it meets a network. ``pathveil federate run`` needs no FLARE and gives the same numbers.
"""

import contextlib
import io
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pathveil.errors import FederationError
from pathveil.federation.flare import policy
from pathveil.federation.flare.provision import needed
from pathveil.federation.flare.submit import write_job
from pathveil.federation.protocol.plan import Plan
from pathveil.federation.protocol.run_result import RunResult
from pathveil.files import write_json


def simulate(plan: Plan, sites: Mapping[str, Mapping[str, Any]], *, folder: Path) -> RunResult:
    """Run a plan in FLARE's simulator; ``sites`` are the settings that real ones have in ``local/pathveil.json``.

    The result lies in ``folder``, which must be new, as `submit` leaves it.
    """
    needed()
    from nvflare.private.fed.app.simulator.simulator_runner import SimulatorRunner

    asked, folder = folder, folder.absolute()  # a simulated site works in a folder of its own
    settings = folder / "sites"
    settings.mkdir(parents=True)
    policy.write(settings, {f"{name}.json": dict(content) for name, content in sites.items()})
    job = write_job(plan, folder / "job", patience=600.0)  # nobody is lost on one machine, however busy it is
    # The simulator's own list of classes is fixed; a job that carries code, here none, is exempt from it.
    (job / "app" / "custom").mkdir()
    write_json(folder / "log_config.json", policy.logs())
    runner = SimulatorRunner(
        job_folder=str(job),
        workspace=str(folder / "work"),
        clients=",".join(plan.sites),
        threads=len(plan.sites),
        log_config=str(folder / "log_config.json"),
    )
    os.environ[policy.SITES] = str(settings)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            code = runner.run()
    finally:
        del os.environ[policy.SITES]
    found = sorted((folder / "work").rglob("simulate_job/result/history.json"))
    if code or not found:
        raise FederationError(f"{asked}: the simulated run ended without a result; {asked / 'work'} has its logs")
    for path in found[0].parent.iterdir():
        shutil.copyfile(path, folder / path.name)
    return RunResult.load(folder / "history.json")
