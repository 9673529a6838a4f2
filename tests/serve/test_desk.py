"""What the desk does beside answering: it codes what arrives, and ends when it is told to."""

import asyncio

import pytest

from pathveil.serve.desk import Desk
from serve.conftest import service_of


@pytest.mark.parametrize("turns", range(5))
def test_a_service_that_ends_as_a_report_arrives_does_end(model, tmp_path, turns):
    """An arrival in the same turn of the loop hid the end from whoever waited for it, who then waited for ever."""

    async def run() -> None:
        service = service_of(model)
        service.desk = desk = Desk(tmp_path, service.settings, cheap_passwords=True)
        await service.pool.start()
        before = asyncio.all_tasks()
        async with desk.at_work(service):
            while not desk.arrived._waiters:  # nothing is left to code
                await asyncio.sleep(0.01)
            desk.arrived.set()
            for _ in range(turns):
                await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        await service.pool.stop()

    asyncio.run(asyncio.wait_for(run(), 20))
