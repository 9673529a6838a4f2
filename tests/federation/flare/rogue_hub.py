"""A hub that changed its own software: it asks a site for more than the plan says.

``python -m rogue_hub KIT`` is the hub; the process of a job, which it starts, is this module too. All of it is the
product's, but for the third question to the first site, which asks for as many steps as the site has documents.
"""

import logging
import sys
from pathlib import Path
from typing import Any

from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher

from pathveil.federation.flare import policy, processes
from pathveil.federation.protocol.hub_run import HubRun
from pathveil.federation.protocol.message import Message, read, write

PROGRAM = "nvflare.private.fed.app.server.runner_process"
log = logging.getLogger("pathveil.rogue_hub")


class Launcher(ServerProcessJobLauncher):
    """Starts this module in place of FLARE's."""

    def get_command(self, job_meta: dict, fl_ctx: Any) -> str:
        return super().get_command(job_meta, fl_ctx).replace(PROGRAM, "rogue_hub", 1)


def serve(kit: Path) -> None:
    """The hub with that launcher."""
    honest = policy.hub

    def rogue(kit: Path) -> policy.Files:
        files = honest(kit)
        (launcher,) = [one for one in files["resources.json"]["components"] if one["id"] == "process_launcher"]
        launcher["path"] = "rogue_hub.Launcher"
        return files

    policy.hub = rogue
    processes.run_hub(kit)


def turn() -> None:
    """From now on this process asks for single reports."""
    question = HubRun.question

    def dishonest(self: HubRun, site: str) -> bytes:
        asked = read(question(self, site), sender="hub")
        facts = dict(asked.facts)
        if facts.get("round") == 0:
            log.info("malicious hub: %d steps", facts["turns"][0]["steps"])
        if facts.get("round") == 2 and site == self.plan.sites[0]:
            facts["turns"] = [turn | {"steps": facts["counts"][0]} for turn in facts["turns"]]
        return write(Message(facts, asked.arrays))

    HubRun.question = dishonest


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(Path(sys.argv[1]))
    else:
        turn()
        from nvflare.fuel.f3.mpm import MainProcessMonitor
        from nvflare.private.fed.app.server import runner_process

        arguments = runner_process.parse_arguments()
        sys.exit(MainProcessMonitor.run(main_func=runner_process.main, run_dir=arguments.workspace, args=arguments))
