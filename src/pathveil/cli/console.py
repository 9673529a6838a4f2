"""What every command shares: progress on stderr and results on stdout."""

import atexit
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Thread, Timer, current_thread, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from pathveil.arguments import names_given
from pathveil.progress import Progress
from pathveil.untrusted import printable
from pathveil.untrusted.text import UNPRINTABLE

if TYPE_CHECKING:
    from pathveil.results import Result

RECENT = 600  # seconds whose pace tells the time left
EVERY = 60  # seconds between two lines in a log
DEVICE = typer.Option("auto", "--device", help="auto, cpu or cuda; auto takes a GPU where there is one.")
CPU_UNLESS_ASKED = typer.Option("cpu", "--device", help="Where models are trained: auto, cpu or cuda.")
TLS_CA = typer.Option(None, "--tls-ca", help="With a scheduler at tls://: the certificate of the cluster's authority.")
TLS_CERT = typer.Option(None, "--tls-cert", help="With a scheduler at tls://: the certificate to show it.")
TLS_KEY = typer.Option(None, "--tls-key", help="With a scheduler at tls://: the key of that certificate.")
SIGNATURE_OPTION = typer.Option(
    None,
    "--require-signature",
    metavar="PUBLIC",
    help="Open the model only if it is a release that the owner of this public key signed, and whose verdict is good.",
)
WORDS_KEY_OPTION = typer.Option(
    None, "--words-key", help="The secret of a release whose words are hashed ('release --hash-words')."
)
JSON_OPTION = typer.Option(False, "--json", help="Print the result as JSON on stdout.")


@contextmanager
def bar(whole: tuple[str, str] | None = None) -> Generator[Progress]:
    """A progress callback that draws one bar a stage on a terminal, and else writes a line a minute, both on stderr.

    ``whole`` names the two stages that stand for all of a long run: what is counted, and the work by which time goes.
    On a terminal only the first keeps a bar, and whatever else goes on shares one line. Elsewhere (a batch job's log)
    a line also marks the end of a stage that is counted in them, such as "vocabulary study".
    """
    from rich.console import Console

    console = Console(stderr=True)
    pace = Pace()
    if console.is_terminal:
        with progress_bars(console, whole, pace) as show:
            yield show
    else:
        yield Lines(whole, pace).show


class Pace:
    """How long something will still take, from how it went in the last ten minutes: units of a study differ."""

    def __init__(self, clock: Callable[[], float] = monotonic):
        self.clock, self.began = clock, clock()
        self.seen: deque[tuple[float, int]] = deque()
        self.total = 0

    def note(self, done: int, total: int) -> None:
        now = self.clock()
        if not self.seen:
            self.seen.append((self.began, done))  # what was there already was not done now
        self.seen.append((now, done))
        self.total = total
        while len(self.seen) > 2 and self.seen[1][0] < now - RECENT:
            self.seen.popleft()

    @property
    def gone(self) -> float:
        return self.clock() - self.began

    @property
    def left(self) -> float | None:
        """Seconds; none while nothing is known."""
        if not self.seen:
            return None
        (since, before), (_, done) = self.seen[0], self.seen[-1]
        if done == self.total:
            return 0.0
        return (self.clock() - since) * (self.total - done) / (done - before) if done > before else None


@contextmanager
def progress_bars(console: Any, whole: tuple[str, str] | None, pace: Pace) -> Generator[Progress]:
    """Bars on a terminal; with ``whole`` one, above a line without clocks of its own."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Times(ProgressColumn):
        """Gone and left, of the whole alone."""

        def render(self, task: Any) -> Text:
            return Text(time_left(pace) if task.fields.get("clock") else "", style="progress.remaining")

    clocks = (Times(),) if whole else (TimeElapsedColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), *clocks)
    with Bars(*columns, console=console, speed_estimate_period=RECENT) as bars:
        stages: dict[str, Any] = {}
        current = None if whole is None else bars.add_task("", total=None, visible=False)

        def show(stage: str, done: int, total: int) -> None:
            stage = printable(stage)
            if whole and stage == whole[1]:
                pace.note(done, total)
                return
            if current is not None and whole and stage != whole[0]:
                bars.update(current, description=f"  {stage}", completed=done, total=total or None, visible=True)
                return
            if stage not in stages:
                stages[stage] = bars.add_task(stage, total=total or None, clock=True)
            bars.update(stages[stage], completed=done, total=total or None)

        yield show


class Lines:
    """Progress where nobody sees a bar: a line at most once a minute, and at the end of a study."""

    def __init__(self, whole: tuple[str, str] | None, pace: Pace, write: Callable[[str], None] | None = None):
        self.whole, self.pace, self.last = whole, pace, pace.clock()
        self.write = write or (lambda line: typer.echo(printable(line), err=True))
        self.counted, self.current = "", ""
        self.ended: set[str] = set()

    def show(self, stage: str, done: int, total: int) -> None:
        if self.whole and stage == self.whole[1]:
            self.pace.note(done, total)
            return
        told_of = f"{stage} {done:,} of {total:,}" if total else f"{stage} {done:,}"
        if self.whole and stage == self.whole[0]:
            self.counted = f"{done:,} of {total:,} {stage}"
        else:
            self.current = told_of
        ended = bool(self.whole and self.counted and stage.endswith(" study") and done == total)
        if (ended and stage not in self.ended) or self.pace.clock() - self.last >= EVERY:
            self.ended |= {stage} if ended else set()
            self.last = self.pace.clock()
            times = time_left(self.pace) if self.whole else clock_time(self.pace.gone)
            self.write("; ".join(filter(None, (self.counted, self.current, times))))


def time_left(pace: Pace) -> str:
    """
    >>> pace = Pace(clock=iter((0.0, 0.0, 90.0, 90.0, 90.0)).__next__)
    >>> pace.note(0, 4), pace.note(1, 4)
    (None, None)
    >>> time_left(pace)
    '0:01:30 gone, about 0:04:30 left'
    """
    left = pace.left
    return f"{clock_time(pace.gone)} gone" + ("" if left is None else f", about {clock_time(left)} left")


def clock_time(seconds: float) -> str:
    """
    >>> clock_time(59.6), clock_time(100_000)
    ('0:01:00', '27:46:40')
    """
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


@contextmanager
def resumable() -> Generator[None]:
    """Around work that the same command goes on with: ctrl-C says so, with exit code 130.

    Where Python cannot raise it, in a callback of the compiler or while an object is cleared away, it would be told on
    stderr and forgotten: then it is given again a moment later.
    """
    before, given = sys.unraisablehook, list[Timer]()

    def forgotten(told: Any) -> None:
        if issubclass(told.exc_type, KeyboardInterrupt):
            given.append(Timer(0.05, signal.pthread_kill, (main_thread().ident, signal.SIGINT)))  # wakes it if it waits
            given[-1].start()
        else:
            before(told)

    sys.unraisablehook = forgotten
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Stopped; what is finished is kept: the same command goes on from there.", err=True)
        # Where it passed through code made from text, as libraries make some, Python takes it for unhandled for good,
        # and ends by the signal whatever the exit code, unless other such code runs after it.
        exec("")
        raise typer.Exit(130) from None
    finally:
        sys.unraisablehook = before
        for timer in given:
            timer.cancel()


@contextmanager
def ended_like_ctrl_c() -> Generator[None]:
    """Around work that keeps texts in unfinished files: SIGTERM, by which schedulers and containers end a program, ends
    it as ctrl-C does, so that these go too.

    Python's own handler would wait until polars has read all. What only writes a byte does not; who reads it gives the
    signal that polars heeds.
    """
    import socket

    if current_thread() is not main_thread():
        yield
        return
    owner, (reader, writer) = os.getpid(), socket.socketpair()
    writer.setblocking(False)

    def handle(*_: object) -> None:
        if os.getpid() != owner:  # a forked child, in which nobody reads
            os._exit(128 + signal.SIGTERM)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script, which hears no ctrl-C
            raise KeyboardInterrupt

    def watch() -> None:
        while given := reader.recv(1):
            if given[0] == signal.SIGTERM:
                os.kill(owner, signal.SIGINT)

    before = signal.signal(signal.SIGTERM, handle)
    woken = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    Thread(target=watch, daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("Aborted!", err=True)
        # Threads of polars may still be at work: Python would end them one by one, and now and then itself by a signal.
        atexit._run_exitfuncs()  # temporary folders go
        os._exit(130)
    finally:
        signal.set_wakeup_fd(woken)
        signal.signal(signal.SIGTERM, before)
        writer.close()  # which ends the watch


def emit(result: "Result", *, as_json: bool, text: str | None = None) -> None:
    """Print a result: the JSON for programs, or for people the text, which is the result's summary if not given."""
    if as_json:
        # What a terminal would obey is written as JSON can: the same text to a program, and to a screen nothing.
        told = json.dumps(result.to_dict(), indent=2, ensure_ascii=False)
        sys.stdout.write(UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", told) + "\n")
    else:
        typer.echo(printable(str(result) if text is None else text))


def names_from(given: str | None, *, option: str = "--tasks") -> list[str] | None:
    """The names in a list with commas, such as ``site, histology``; none where the option was not given.

    >>> names_from("site, histology"), names_from(None)
    (['site', 'histology'], None)
    """
    return names_given(given, option)
