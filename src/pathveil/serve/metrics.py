"""What an operator watches: counts and times for Prometheus, never a name or a text."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120)


class Metrics:
    """The service's own registry, so that two services in one process do not meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = self.registry
        self.requests = Counter("pathveil_requests", "Requests answered.", ["route", "status"], registry=own)
        self.seconds = Histogram(
            "pathveil_request_seconds", "From a request's head to its answer.", ["route"], buckets=SECONDS, registry=own
        )
        self.reports = Counter("pathveil_reports_coded", "Reports coded.", ["door"], registry=own)
        self.abstained = Counter("pathveil_abstained", "Codes left to a person.", ["task"], registry=own)
        self.waiting = Gauge("pathveil_requests_waiting", "Requests that wait for the model.", registry=own)
        self.queue = Gauge("pathveil_queue_cases", "Cases that wait for a person.", registry=own)
        self.messages = Counter(
            "pathveil_messages", "Messages of feeds, by what became of them.", ["feed", "outcome"], registry=own
        )

    def page(self) -> bytes:
        return generate_latest(self.registry)
