"""``pathveil vocab agree …``: choose words that k registries have, without any of them showing the rest."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from pathveil.cli.console import JSON_OPTION, bar, emit
from pathveil.cli.release import PASSWORD, private_key
from pathveil.cli.tables import reads_tables
from pathveil.errors import UsageError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from pathveil.agreement.agreement import Agreement
    from pathveil.agreement.hub import Hub
    from pathveil.agreement.keyholder import KeyHolder

app = typer.Typer(
    help="Agree on the words that at least k registries have, without any of them showing the rest. "
    "One person proposes the terms; two key holders and a hub serve them; each registry takes part as a site.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AGREEMENT = typer.Argument(..., metavar="AGREEMENT", help="The agreement file that all parties were given.")
STATE = typer.Option(..., "--state", help="A folder for this party alone, from which a stopped command goes on.")
TOKENS = typer.Option(..., "--tokens", help="The tokens.json that 'vocab agree tokens' wrote for this server.")
CERTIFICATE = typer.Option(..., "--certificate", help="This server's certificate (PEM).")
KEY = typer.Option(..., "--key", help="The certificate's private key (PEM).")
LISTEN = typer.Option("0.0.0.0", "--listen", help="The network address to listen on.")
PORT = typer.Option(None, "--port", help="The port to listen on; else the one in this server's address.")
SHA256 = typer.Option(
    None, "--sha256", metavar="HEX", help="The agreement's sha256 as the other parties read it out to you."
)
SIGNED_BY = typer.Option(
    None,
    "--signed-by",
    metavar="FILE",
    help="The public key of someone who must have signed the agreement, got from them by another way; may repeat.",
)
ERASE_EXPIRED = typer.Option(
    False, "--erase-expired", help="The clock is right: erase an expired agreement's secrets without asking."
)
K = typer.Option(3, "--k", help="At how many sites a word must be to pass.")
M = typer.Option(5, "--m", help="In how many of its cases a site must have a word before it submits it.")
CAP = typer.Option(65_536, "--cap", help="How many words a site may submit, the commonest first.")
BATCH = typer.Option(1_024, "--batch", help="How many points or tags a request holds.")
WITHOUT = typer.Option(
    None, "--without", help="A corpus, such as test.parquet, whose cases are passed over: choose from training text."
)
SMALL_K = typer.Option(
    False, "--allow-small-k", help="Accept k = 2, where a site learns which of its words a single other site has."
)


def _warn(threshold: int) -> None:
    if threshold < 3:
        typer.echo(
            f"warning: with k = {threshold} each site learns which of its words one single other site has, and two "
            "sites that conspire learn any other's words that they can guess",
            err=True,
        )


def _load(path: Path, sha256: str | None, signed_by: list[Path] | None) -> "Agreement":
    """The agreement, known by its sha256 or by who signed it."""
    from pathveil.agreement.agreement import Agreement
    from pathveil.signatures import read_public_key

    terms = Agreement.load(path)
    terms.expect(sha256=sha256, signers=[read_public_key(one) for one in signed_by or []])
    return terms


@app.command(short_help="Make what a server needs, and its offer to others.")
def offer(
    name: str = typer.Option(..., "--name", help="The server: hub, or a key holder's name."),
    address: str = typer.Option(..., "--address", metavar="URL", help="The https address under which sites reach it."),
    certificate: Path = typer.Option(
        None, "--certificate", help="The server's certificate (PEM), where it has one; else one is made."
    ),
    days: float = typer.Option(90, "--days", help="How long a certificate that is made is good for."),
    out: Path = typer.Option(..., "--out", help="A new folder on the server, its --state later."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make what a server needs for an agreement: a certificate and, for a key holder, its key. Run it on the server.

    NAME.offer.json goes to whoever proposes the agreement, which then pins the server to this certificate and key;
    everything else stays where it is. A key holder's key serves one agreement: make an offer for each.
    """
    from pathveil.agreement.offer import Offer, make_offer
    from pathveil.agreement.results import OfferFiles

    *kept, made = make_offer(out, name, address=address, certificate=certificate, days=days)
    fingerprint = Offer.load(made).fingerprint
    emit(OfferFiles(offer=str(made), kept=[str(path) for path in kept], fingerprint=fingerprint), as_json=as_json)


@app.command(short_help="Write the terms of a new agreement.")
def propose(
    site: list[str] = typer.Option(..., "--site", metavar="NAME", help="A registry that takes part; once for each."),
    holder: list[Path] = typer.Option(..., "--holder", metavar="OFFER", help="A key holder's offer; at least two."),
    hub: Path = typer.Option(..., "--hub", metavar="OFFER", help="The hub's offer."),
    k: int = K,
    m: int = M,
    cap: int = CAP,
    batch: int = BATCH,
    days: float = typer.Option(7, "--days", help="After how many days servers erase everything, finished or not."),
    allow_small_k: bool = SMALL_K,
    out: Path = typer.Option(..., "--out", help="The agreement file to write."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Write the terms of a new agreement: who takes part, which servers with which certificates and keys, k, m, sizes.

    Give the file to every party, and let people sign it, or read its sha256 to each other: whoever could change it on
    its way could put servers of their own in. The sha256 goes with every request too, so a party with another version
    is refused.
    """
    from pathveil.agreement.agreement import Agreement
    from pathveil.agreement.offer import Offer
    from pathveil.agreement.results import ProposedAgreement
    from pathveil.files import check_new

    check_new(out)  # an agreement is known by its hash, and may be signed
    terms = Agreement.propose(
        sites=site,
        holders=[Offer.load(path) for path in holder],
        hub=Offer.load(hub),
        threshold=k,
        min_cases=m,
        cap=cap,
        batch=batch,
        days=days,
        allow_small_threshold=allow_small_k,
    )
    _warn(k)
    terms.save(out)
    text = f"{out}: {len(terms.sites)} sites, k = {k}, m = {m}, until {terms.expires:%Y-%m-%d %H:%M} UTC"
    result = ProposedAgreement(out=str(out), id=terms.id, sha256=terms.sha256)
    emit(result, as_json=as_json, text=f"{text}\n{terms.sha256}")


@app.command(short_help="Make a key pair to sign agreements with.")
def signer(
    out: Path = typer.Option(..., "--out", metavar="NAME", help="NAME.key and NAME.pub are written."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make a key pair to sign agreements with: NAME.key stays with you, NAME.pub goes to those who rely on you.

    A key by 'pathveil keys new' signs agreements as well: there is one format.
    """
    from pathveil.signatures import new_key

    private, public = out.with_name(f"{out.name}.key"), out.with_name(f"{out.name}.pub")
    emit(new_key(private, public=public, kind="ed25519"), as_json=as_json)


@app.command(short_help="Sign an agreement.")
def sign(
    agreement: Path = AGREEMENT,
    key: Path = typer.Option(..., "--key", help="Your private key, by 'keys new' or 'vocab agree signer'."),
    password_file: Path | None = PASSWORD,
    name: str = typer.Option(..., "--name", help="Who signs, as it shall stand in the file."),
    offer: list[Path] = typer.Option(
        None,
        "--offer",
        metavar="OFFER",
        help="Your own offer, which the agreement must hold unchanged; may repeat.",
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Sign an agreement: read what it says, compare the certificates with those who run the servers, then sign.

    The signature is written into the file; the terms and their sha256 stay the same.
    """
    from pathveil.agreement.agreement import Agreement
    from pathveil.agreement.offer import Offer
    from pathveil.agreement.results import SignedAgreement

    terms = Agreement.load(agreement)
    for one in map(Offer.load, offer or []):
        if one.name not in terms.servers or terms.server(one.name) != one.pinned():
            raise UsageError(f"{agreement}: does not hold the offer of {one.name} as it was made; nothing was signed")
    terms = terms.signed(by=name, key=private_key(key, password_file))
    terms.save(agreement)
    servers = {name: terms.server(name) for name in terms.servers}
    result = SignedAgreement(
        out=str(agreement),
        sha256=terms.sha256,
        signed_by=[one.by for one in terms.signatures],
        sites=list(terms.sites),
        threshold=terms.threshold,
        min_cases=terms.min_cases,
        expires=f"{terms.expires:%Y-%m-%d %H:%M} UTC",
        servers={name: f"{one.address} certificate {one.fingerprint}" for name, one in servers.items()},
    )
    emit(result, as_json=as_json)


@app.command()
def tokens(
    agreement: Path = AGREEMENT,
    server: str = typer.Option(..., "--server", help="hub, or the name of a key holder: the server you run."),
    out: Path = typer.Option(..., "--out", help="Folder to write to."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Make the tokens by which a server you run knows its sites.

    Writes tokens.json, which the server keeps (it holds only hashes), and SITE/SERVER.token, which goes to that site
    by a safe way and is then deleted here.
    """
    from pathveil.agreement.agreement import Agreement, write_tokens

    emit(write_tokens(Agreement.load(agreement), server, out), as_json=as_json)


def _serve(
    role: "KeyHolder | Hub", web: "Starlette", name: str, listen: str, port: int | None, certificate: Path, key: Path
) -> None:
    from pathveil.agreement.service import make_agreement_server, serve

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    pinned = role.agreement.server(name)
    port = port or urlsplit(pinned.address).port or 443
    server = make_agreement_server(web, host=listen, port=port, certificate=certificate, key=key, pinned=pinned)
    serve(server, finished=lambda: role.finished, doubtful=lambda: role.expired)


def _ask_to_erase(role: "KeyHolder | Hub", what: str, erase_expired: bool) -> bool:
    """Whether the agreement was over by the clock before the server began, and a person said that the clock is right.

    A clock that is wrong would otherwise cost all parties the agreement.
    """
    if not role.expired or role.finished:
        return False
    said = role.expiry.sentence()
    if erase_expired or (sys.stdin.isatty() and typer.confirm(f"The agreement is over: {said}. Erase {what}?")):
        role.erase()
        return True
    raise UsageError(
        f"the agreement is over: {said}; nothing was erased. If the clock is right, --erase-expired erases {what}; "
        "if it is wrong, set it right and give the same command again"
    )


@app.command(short_help="Hold one of the keys, and serve the sites with it.")
def keyholder(
    agreement: Path = AGREEMENT,
    name: str = typer.Option(..., "--name", help="Which of the agreement's key holders this is."),
    tokens: Path = TOKENS,
    certificate: Path = CERTIFICATE,
    key: Path = KEY,
    state: Path = STATE,
    sha256: str = SHA256,
    signed_by: list[Path] = SIGNED_BY,
    erase_expired: bool = ERASE_EXPIRED,
    listen: str = LISTEN,
    port: int = PORT,
    as_json: bool = JSON_OPTION,
) -> None:
    """Hold one of the keys: multiply blinded points for the sites, prove it, and keep their quotas.

    The key was made with the offer, in the folder that is now --state. It serves this agreement alone, and is erased
    when every site is done or the agreement expires; then the command ends. Run it in another organisation than the
    other key holder and the hub.
    """
    from pathveil.agreement.agreement import load_digests
    from pathveil.agreement.keyholder import KeyHolder
    from pathveil.agreement.results import ServerEnd
    from pathveil.agreement.service import keyholder_app

    terms = _load(agreement, sha256, signed_by)
    digests = load_digests(tokens, terms)
    holder = KeyHolder(terms, name, folder=state)
    try:
        if not _ask_to_erase(holder, "the key", erase_expired):
            _serve(holder, keyholder_app(holder, digests), name, listen, port, certificate, key)
            _finish(holder)
        emit(ServerEnd(agreement=terms.id, missing=holder.waiting_for), as_json=as_json)
    finally:
        holder.store.close()


@app.command(short_help="Count at how many sites each tag was seen.")
def hub(
    agreement: Path = AGREEMENT,
    tokens: Path = TOKENS,
    certificate: Path = CERTIFICATE,
    key: Path = KEY,
    state: Path = STATE,
    sha256: str = SHA256,
    signed_by: list[Path] = SIGNED_BY,
    erase_expired: bool = ERASE_EXPIRED,
    listen: str = LISTEN,
    port: int = PORT,
    as_json: bool = JSON_OPTION,
) -> None:
    """Count at how many sites each tag was seen, and tell each site which of its own passed.

    Ends when every site has its answer, or the agreement expires; the tags are then erased.
    """
    from pathveil.agreement.agreement import load_digests
    from pathveil.agreement.hub import Hub
    from pathveil.agreement.offer import HUB
    from pathveil.agreement.results import HubEnd
    from pathveil.agreement.service import hub_app

    terms = _load(agreement, sha256, signed_by)
    digests = load_digests(tokens, terms)
    counter = Hub(terms, folder=state)
    try:
        counts = counter.counts()
        if not _ask_to_erase(counter, "the tags", erase_expired):
            _serve(counter, hub_app(counter, digests), HUB, listen, port, certificate, key)
            counts = counter.counts()
            _finish(counter)
        emit(HubEnd(missing=counter.waiting_for, **dict(counts)), as_json=as_json)
    finally:
        counter.store.close()


def _finish(role: "KeyHolder | Hub") -> None:
    if not role.finished:
        raise UsageError("stopped before the agreement was over; the same command goes on with it")
    role.erase()


@app.command(short_help="Take part as a registry.")
@reads_tables("sources", "without")
def site(
    agreement: Path = AGREEMENT,
    name: str = typer.Option(..., "--name", help="Which of the agreement's sites this is."),
    sources: list[Path] = typer.Option(
        ...,
        "--corpus",
        metavar="FILE",
        help="The site's reports, or a count file of them (.npz, by 'vocab count'); may repeat.",
    ),
    without: Path = WITHOUT,
    tokens: Path = typer.Option(..., "--tokens", help="Folder with the site's tokens: hub.token and the key holders'."),
    sha256: str = SHA256,
    signed_by: list[Path] = SIGNED_BY,
    state: Path = STATE,
    out: Path = typer.Option(..., "--out", help="The vocabulary to write."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Take part as a registry: words to tags through the key holders, tags to the hub, the answer to a vocabulary.

    Waits for the other sites. Stopped, it goes on by the same command. Of your words, only those in at least m cases
    are used, and nobody else sees them: key holders get random points, the hub gets tags.
    """
    from pathveil.agreement.client import already_done, read_tokens, take_part
    from pathveil.agreement.results import SiteResult
    from pathveil.agreement.site import Site, cases_of
    from pathveil.vocabulary.corpus_counts import gather_counts
    from pathveil.vocabulary.words import check_vocabulary_file

    check_vocabulary_file(out, reads=[agreement, sources, without])
    terms = _load(agreement, sha256, signed_by)
    given = read_tokens(tokens, terms)
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent}: no such folder to write the vocabulary to")
    _warn(terms.threshold)
    if vocabulary := already_done(terms, name, out=out, folder=state, tokens=given):
        result = SiteResult(out=str(out), agreed=len(vocabulary.words), id_space=vocabulary.id_space)
        return emit(result, as_json=as_json)
    with bar() as progress:
        counts = gather_counts(sources, tasks=(), without=without, progress=progress)
        part = Site(terms, name, cases_of(counts), folder=state)
        try:
            vocabulary = take_part(part, out=out, tokens=given, progress=progress)
        finally:
            part.store.close()
    result = SiteResult(
        out=str(out),
        agreed=len(vocabulary.words),
        id_space=vocabulary.id_space,
        submitted=part.words,
        left_out=part.left_out,
        named=vocabulary.source["named"],
    )
    emit(result, as_json=as_json)


@app.command(short_help="Join sites' vocabularies into one with every agreed word.")
def publish(
    files: list[Path] = typer.Argument(..., metavar="FILE", help="The vocabularies of sites of one agreement."),
    out: Path = typer.Option(..., "--out", help="The vocabulary to write, every word in it."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Join sites' vocabularies into one in which every agreed word stands, with the same ids.

    A second, deliberate step: whoever does it sees every agreed word. Each was submitted by at least k sites.
    """
    from pathveil.agreement.results import PublishedWords
    from pathveil.agreement.site import publish as join
    from pathveil.vocabulary.words import Vocabulary, check_vocabulary_file

    check_vocabulary_file(out, reads=[files])
    vocabulary = join([Vocabulary.load(path) for path in files])
    vocabulary.save(out)
    result = PublishedWords(out=str(out), words=len(vocabulary.words), sha256=vocabulary.sha256)
    emit(result, as_json=as_json, text=f"{out}: {len(vocabulary.words):,} words agreed on by {len(files)} sites' files")


@app.command(short_help="Run an agreement with all its roles in one process.")
@reads_tables("sources", "without")
def simulate(
    sources: list[Path] = typer.Argument(
        ..., metavar="CORPUS", help="Reports, or count files (.npz); the registries are the sites."
    ),
    without: Path = WITHOUT,
    k: int = K,
    m: int = M,
    cap: int = CAP,
    batch: int = BATCH,
    leave_out: list[str] = typer.Option(
        [], "--leave-out", metavar="REGISTRY", help="A registry that does not take part; may repeat."
    ),
    allow_small_k: bool = SMALL_K,
    seed: int = typer.Option(0, "--seed", help="Of the key holders' keys: the same seed gives the same word order."),
    workers: int = typer.Option(2, "--workers", min=1, help="Threads that work on batches."),
    out: Path = typer.Option(..., "--out", help="The vocabulary to write, every word in it."),
    sites: Path = typer.Option(None, "--sites", help="Also write each site's own vocabulary into this folder."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Run an agreement with all its roles in one process: to try it, to test it, and for studies.

    The same code as in a deployment, without the network, on one corpus of several registries.
    """
    from pathveil.agreement.results import SimulatedAgreement
    from pathveil.agreement.simulate import by_registry
    from pathveil.agreement.simulate import simulate as run
    from pathveil.vocabulary.corpus_counts import gather_counts
    from pathveil.vocabulary.words import check_vocabulary_file

    check_vocabulary_file(out, reads=[sources, without])
    with bar() as progress:
        gathered = gather_counts(sources, tasks=(), leave_out=leave_out, without=without, progress=progress)
        counts = by_registry(gathered)
        outcome = run(
            counts,
            threshold=k,
            min_cases=m,
            cap=cap,
            batch=batch,
            allow_small_threshold=allow_small_k,
            seed=str(seed).encode(),
            workers=workers,
            progress=progress,
        )
    _warn(k)
    outcome.vocabulary.save(out)
    if sites:
        for name, vocabulary in outcome.sites.items():
            vocabulary.save(sites / f"{name}.json")
    result = SimulatedAgreement(
        out=str(out),
        words=len(outcome.vocabulary.words),
        sha256=outcome.vocabulary.sha256,
        named={name: vocabulary.source["named"] for name, vocabulary in outcome.sites.items()},
        left_out=dict(outcome.left_out),
        hub=outcome.hub,
    )
    emit(result, as_json=as_json)


@app.command(short_help="Count the planted personal words that would be agreed on.")
def leftover(
    corpus: list[Path] = typer.Argument(..., metavar="CORPUS", help="A synthetic corpus, of seven registries or more."),
    truth: Path = typer.Option(..., "--truth", help="The truth file that 'corpus synth --truth' wrote with it."),
    out: Path = typer.Option(..., "--out", help="Folder for leftover.json, leftover.md and leftover.svg."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Count how many planted personal words would be agreed on, for k = 2…7 and m = 1…10.

    A personal word is one that stands in planted text alone. Numbers are written, never the words.
    """
    from pathveil.agreement.leftover import measure_leftover, write_leftover
    from pathveil.vocabulary.corpus_counts import gather_counts
    from pathveil.vocabulary.planted import planted_words

    with bar() as progress:
        planted = planted_words(corpus, truth, progress=progress)
        counts = gather_counts(corpus, tasks=(), progress=progress)
    result = measure_leftover(counts.words, counts.cases, planted)
    paths = write_leftover(result, out)
    emit(result, as_json=as_json, text="\n".join([result.summary(), "", *map(str, paths)]))
