"""How a site starts the process of a job: FLARE's own way, with the recorder in it where the site wants one."""

import logging
import sys
import threading
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher

log = logging.getLogger(__name__)
connected = threading.Event()  # this process's site is known to the hub


class SiteLauncher(ClientProcessJobLauncher):
    """Starts this module instead of FLARE's, with the same arguments."""

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.SYSTEM_START:
            connected.set()
            log.info("connected to the hub, ready for jobs")

    def get_command(self, job_meta: dict, fl_ctx: Any) -> str:
        command = super().get_command(job_meta, fl_ctx)
        return command.replace("nvflare.private.fed.app.client.worker_process", __name__, 1)


def main() -> None:
    """The process of a job."""
    from nvflare.fuel.f3.mpm import MainProcessMonitor
    from nvflare.private.fed.app.client import worker_process

    from pathveil.federation.flare import recorder

    recorder.start()
    arguments = worker_process.parse_arguments()
    sys.exit(MainProcessMonitor.run(main_func=worker_process.main, run_dir=arguments.workspace, args=arguments))


if __name__ == "__main__":
    main()
