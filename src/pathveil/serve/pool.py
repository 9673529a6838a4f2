"""Many callers, one model: requests that wait are coded together, in a thread that nobody else holds.

Coding a hundred reports at once costs little more than coding a few, so whatever waits when the model is free goes in
one batch. At most ``waiting`` requests wait; the next one is told to come again, so that a burst cannot fill the
memory. ``answerer`` can be exchanged between two batches.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pathveil.serve.coding import Answerer, Asked, ReportOut
from pathveil.serve.faults import Fault
from pathveil.serve.sent import Sent

TOGETHER = 512  # reports that are coded in one go, however many wait


@dataclass
class Job:
    reports: Sequence[Sent]
    asked: Asked
    answer: asyncio.Future


class Pool:
    """Codes for an event loop; ``start`` and ``stop`` belong to its life span."""

    def __init__(self, answerer: Answerer, *, waiting: int, seconds: float):
        self.answerer, self.seconds = answerer, seconds
        self.jobs: asyncio.Queue[Job] = asyncio.Queue(waiting)
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="coding")
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        if self.task:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        self.thread.shutdown(wait=True, cancel_futures=True)

    async def code(self, reports: Sequence[Sent], asked: Asked = Asked()) -> tuple[str, list[ReportOut]]:
        """The model's sha256 and its answers; a fault where too many wait already, or it takes too long."""
        job = Job(reports, asked, asyncio.get_running_loop().create_future())
        try:
            self.jobs.put_nowait(job)
        except asyncio.QueueFull:
            raise Fault(503, "too many requests are waiting; come again", again=2) from None
        try:
            async with asyncio.timeout(self.seconds):
                return await job.answer
        except TimeoutError:
            raise Fault(503, "the model did not answer in time; come again with fewer reports", again=10) from None

    async def patient_code(self, reports: Sequence[Sent], asked: Asked = Asked()) -> tuple[str, list[ReportOut]]:
        """The same for the service's own work, which can wait for its turn."""
        job = Job(reports, asked, asyncio.get_running_loop().create_future())
        await self.jobs.put(job)
        return await job.answer

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self.jobs.get()]
            while not self.jobs.empty() and sum(len(job.reports) for job in batch) < TOGETHER:
                batch.append(self.jobs.get_nowait())
            batch = [job for job in batch if not job.answer.done()]  # those that waited too long are gone
            for asked in dict.fromkeys(job.asked for job in batch):
                same = [job for job in batch if job.asked == asked]
                # Cases of different requests are never put together, whatever their names.
                groups = [[job] for job in same] if asked.by_case else [same]
                for jobs in groups:
                    answerer = self.answerer
                    reports = [report for job in jobs for report in job.reports]
                    try:
                        answers = await loop.run_in_executor(self.thread, answerer.answer, reports, asked)
                        hand_out(jobs, answerer.model_sha256, answers, by_case=asked.by_case)
                    except Exception as error:
                        for job in jobs:
                            if not job.answer.done():
                                job.answer.set_exception(error)


def hand_out(jobs: Sequence[Job], model: str, answers: list[Any], *, by_case: bool) -> None:
    """Give each request its own part of the answers."""
    first = 0
    for job in jobs:
        own = answers if by_case else answers[first : first + len(job.reports)]
        first += len(job.reports)
        if not job.answer.done():
            job.answer.set_result((model, own))
