"""What the service can be told: how much it takes, how long it waits, how much it says.

>>> ServeSettings().changed(largest_body=1024).largest_body
1024
"""

from typing import Literal

from pydantic import Field

from pathveil.settings import Settings

MEBIBYTE = 1 << 20

Detail = Literal["probabilities", "rounded", "bands", "labels"]
DETAILS: tuple[Detail, ...] = ("probabilities", "rounded", "bands", "labels")  # each tells less than the one before


class ServeSettings(Settings):
    """Limits that keep one client from taking the service away from the others."""

    largest_body: int = Field(16 * MEBIBYTE, ge=1)  # bytes of a request
    most_reports: int = Field(2_000, ge=1)  # in a request
    longest_text: int = Field(MEBIBYTE, ge=1)  # characters of a report
    most_places: int = Field(20, ge=0)  # places that an explanation may have, a task
    waiting_requests: int = Field(64, ge=1)  # that may wait for the model; more are told to come again
    requests_a_minute: int = Field(6_000, ge=1)  # of a client
    failures_a_minute: int = Field(30, ge=1)  # wrong tokens or passwords, of an address
    body_seconds: float = Field(20.0, gt=0)  # for a request's body to come
    header_seconds: float = Field(10.0, gt=0)  # for a request's head to come
    answer_seconds: float = Field(120.0, gt=0)  # for the model to answer
    connections: int = Field(512, ge=1)
    connections_an_address: int = Field(128, ge=1)
    keep_text_hours: float = Field(24.0, ge=0)  # that a closed case keeps its texts, to undo
    session_hours: float = Field(10.0, gt=0)  # a working day
    hold_minutes: float = Field(30.0, gt=0)  # that a case is kept for the person who opened it
