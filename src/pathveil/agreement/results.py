"""What the commands of an agreement give: files that were made, how an agreement ended, which words it gave."""

from typing import Any

from pathveil.formatting import counted, listed
from pathveil.results import Part, Result


class ProposedAgreement(Result):
    """Where the terms of a new agreement are, and what they are known by."""

    out: str
    id: str
    sha256: str

    def rows(self) -> list[dict[str, Any]]:
        return [self.to_dict()]

    def summary(self) -> str:
        return f"{self.out}: agreement {self.id}\n{self.sha256}"


class TokenFiles(Result):
    """Which file a server keeps, and which go to the sites."""

    server: str
    sites: list[str]

    def rows(self) -> list[dict[str, Any]]:
        return [{"file": self.server, "for": "server"}, *({"file": path, "for": "site"} for path in self.sites)]

    def summary(self) -> str:
        return "\n".join([f"{self.server}: for the server", *(f"{path}: for the site" for path in self.sites)])


class OfferFiles(Result):
    """What was made for a server, and which file of it is given to others."""

    offer: str  # goes to whoever proposes the agreement
    kept: list[str]  # stays on the server
    fingerprint: str  # sha256 of the certificate, to read out

    def rows(self) -> list[dict[str, Any]]:
        return [{"file": self.offer, "for": "others"}, *({"file": path, "for": "server"} for path in self.kept)]

    def summary(self) -> str:
        stays = "\n".join(f"{path}: stays on the server" for path in self.kept)
        return f"{self.offer}: for whoever proposes the agreement\n{stays}\ncertificate {self.fingerprint}"


class SignedAgreement(Result):
    """An agreement with one signature more, and what was signed."""

    out: str
    sha256: str
    signed_by: list[str]
    sites: list[str]
    threshold: int
    min_cases: int
    expires: str
    servers: dict[str, str]  # name: address and fingerprint of its certificate

    def rows(self) -> list[dict[str, Any]]:
        return [{"server": name, "is": what} for name, what in self.servers.items()]

    def summary(self) -> str:
        lines = [
            f"{self.out}: signed by {listed(self.signed_by)}",
            f"sites {listed(self.sites)}, k = {self.threshold}, m = {self.min_cases}, until {self.expires}",
            *(f"{name}: {what}" for name, what in self.servers.items()),
            f"sha256 {self.sha256}",
        ]
        return "\n".join(lines)


class HubCounts(Part):
    """What a hub's operator may keep: sizes as announced, and how many tags were at 1, 2, 3, … sites (dummies at 1)."""

    agreement: str
    threshold: int
    padded_sizes: dict[str, int]
    tags_at_sites: dict[int, int]
    passed: int


class ServerEnd(Result):
    """How an agreement ended for a key holder; nothing is left of its key."""

    agreement: str
    missing: list[str]  # sites that were not done when it expired

    def rows(self) -> list[dict[str, Any]]:
        return [{"site": site, "missing": True} for site in self.missing]

    def summary(self) -> str:
        return f"agreement {self.agreement} is {self.ending()}; its key is erased"

    def ending(self) -> str:
        missing = counted(len(self.missing), "site")
        return f"expired with {missing} missing" if self.missing else "over: every site is done"


class HubEnd(ServerEnd):
    """How an agreement ended for the hub; nothing is left of the tags."""

    threshold: int
    padded_sizes: dict[str, int]
    tags_at_sites: dict[int, int]
    passed: int

    def rows(self) -> list[dict[str, Any]]:
        return [{"sites": sites, "tags": tags} for sites, tags in self.tags_at_sites.items()]

    def summary(self) -> str:
        text = f"agreement {self.agreement} is {self.ending()}; its tags are erased"
        if self.tags_at_sites:
            counts = ", ".join(f"{tags:,} at {sites}" for sites, tags in self.tags_at_sites.items())
            text += f"\n{self.passed:,} words passed; tags by number of sites: {counts} (dummies are at 1)"
        return text


class SiteResult(Result):
    """What a site has of the agreed words; its own numbers are missing where an earlier run finished the agreement."""

    out: str
    agreed: int
    id_space: str
    submitted: int | None = None
    left_out: int | None = None  # words above the cap
    named: int | None = None  # agreed words that the site has itself

    def rows(self) -> list[dict[str, Any]]:
        return [self.to_dict()]

    def summary(self) -> str:
        if self.submitted is None:
            return f"{self.out}: {self.agreed:,} agreed words, from an earlier run"
        above = f", {self.left_out:,} more were above the cap" if self.left_out else ""
        return (
            f"{self.out}: {self.agreed:,} agreed words, of which you have {self.named:,} "
            f"(you submitted {self.submitted:,}{above})"
        )


class PublishedWords(Result):
    """A vocabulary in which every agreed word stands."""

    out: str
    words: int
    sha256: str

    def rows(self) -> list[dict[str, Any]]:
        return [self.to_dict()]

    def summary(self) -> str:
        return f"{self.out}: {self.words:,} agreed words"


class SimulatedAgreement(PublishedWords):
    """What an agreement would give, and what each party would have of it."""

    named: dict[str, int]  # site: agreed words that it has itself
    left_out: dict[str, int]  # site: words above the cap
    hub: HubCounts

    def rows(self) -> list[dict[str, Any]]:
        return [{"site": name, "named": named, "left_out": self.left_out[name]} for name, named in self.named.items()]

    def summary(self) -> str:
        sites = counted(len(self.named), "site")
        lines = [f"{self.out}: {self.words:,} words agreed on by {sites}, k = {self.hub.threshold}"]
        return "\n".join(lines + [f"  {name}: has {named:,} of them" for name, named in self.named.items()])
