"""Certificates that count no more: a hub lets in nobody whose certificate is on the authority's signed list.

FLARE has no such list; every site that connects and every administrator that logs in shows its certificate to one class
of FLARE's, and here that class looks at the list too. The list (``startup/revoked.pem`` in the hub's kit) is read at
every such moment: who is connected already stays so until the hub is started again. Sites hold each other's keys
against a list of their own (``identity.Trust``), for the hub might not.
"""

import logging
from pathlib import Path
from typing import Any

from pathveil.errors import UsageError
from pathveil.federation.identity import REVOKED, revoked_serials

log = logging.getLogger(__name__)


def start(kit: Path) -> None:
    """From now on, in this process, revoked certificates are refused."""
    from nvflare.private.fed.utils.identity_utils import IdentityVerifier, InvalidAsserterCert

    verify = IdentityVerifier.verify_common_name

    def verified(self: Any, asserted_cn: str, nonce: str, asserter_cert: Any, *others: Any, **options: Any) -> bool:
        if is_revoked(asserter_cert, kit):
            log.warning("refused: the certificate of %s was revoked", asserted_cn if asserted_cn.isprintable() else "?")
            raise InvalidAsserterCert("revoked")
        return verify(self, asserted_cn, nonce, asserter_cert, *others, **options)

    IdentityVerifier.verify_common_name = verified


def is_revoked(certificate: Any, kit: Path) -> bool:
    """Whether a certificate is on the hub's list. A list that cannot be read lets in nobody."""
    from pathveil.federation.flare.certificates import certificate_of

    path = kit / "startup" / REVOKED
    if not path.exists():
        return False
    try:
        return certificate.serial_number in revoked_serials(path, certificate_of(kit / "startup" / "rootCA.pem"))
    except UsageError as error:
        log.error("%s; nobody is let in until it is mended", error)
        return True


def take_list(kit: Path, given: Path) -> int:
    """Put a list into a kit, if the authority signed it and it is not an older one; how many are on it."""
    from pathveil.federation.flare.certificates import certificate_of
    from pathveil.files import new_file

    root = certificate_of(kit / "startup" / "rootCA.pem")
    listed, path = revoked_serials(given, root), kit / "startup" / REVOKED
    if path.exists() and not revoked_serials(path, root) <= listed:
        raise UsageError(f"{given}: lacks certificates that the kit's list has; an older list would let them in again")
    with new_file(path) as part:
        part.write_bytes(given.read_bytes())
    return len(listed)
