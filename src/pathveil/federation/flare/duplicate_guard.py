"""One process a site: a second one with the same kit is refused while the first is alive.

FLARE by itself lets the newer process take over, and the two then get each other's messages. A site that was killed is
let in again as soon as the process before it has missed its signs of life.
"""

import logging
import time

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.apis.fl_exception import NotAuthenticated

log = logging.getLogger(__name__)
ALIVE = 10.0  # seconds after a sign of life, given every 3, in which a site counts as there


class DuplicateGuard(FLComponent):
    """Runs in the hub's own process."""

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type != EventType.CLIENT_REGISTER_RECEIVED:
            return
        name = fl_ctx.get_peer_context().get_identity_name()
        for client in fl_ctx.get_engine().get_clients():
            if client.name == name and time.time() - client.last_connect_time < ALIVE:
                log.warning("refused: a second process asks to be %s", name)
                raise NotAuthenticated(f"another process is connected as {name}")
        log.info("%s connects", name)
