"""Words agreed on privately: what k of the sites hold, found without any of them showing the rest.

    offer.py         a server's own account of itself: address, certificate, public key
    agreement.py     what all parties sign up to: sites, servers pinned, k, m, sizes; signatures; tokens
    oprf.py          RFC 9497 over ristretto255, verifiable
    store.py         a party's state on disk, atomic
    keyholder.py     multiplies blinded points by a key that lives for one agreement
    site.py          a registry: its words to tags, and the answer to a vocabulary
    hub.py           counts tags
    expiry.py        when it is over by the clock, and when a person is asked
    service.py       key holder and hub over HTTPS
    client.py        a site's side of that
    certificates.py  a certificate for a server without one
    simulate.py      all roles in one process
    leftover.py      how many planted personal words pass, for every k and m
    results.py       what the commands of an agreement give

The three roles are plain objects that take and return bytes; the network is put around them. The protocol with its
equations and what it does and does not protect against: ``docs/private-words.md``.
"""
