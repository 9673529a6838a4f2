"""The function itself: RFC 9497's vectors (appendix A.1), its algebra, and what it refuses."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pathveil.agreement import oprf

SEED, INFO = b"\xa3" * 32, b"test key"
BLIND = "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706"
OTHER = "222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e"  # a nonce, and the second blind of a batch
ORDER = 2**252 + 27742317777372353535851937790883648493

# Appendix A.1.1, base mode: input, blinded element, evaluation element, output.
BASE_KEY = "5ebcea5ee37023ccb9fc2d2019f9d7737be85591ae8652ffa9ef0f4d37063b0e"
BASE_VECTORS = [
    (
        "00",
        "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c",
        "7ec6578ae5120958eb2db1745758ff379e77cb64fe77b0b2d8cc917ea0869c7e",
        "527759c3d9366f277d8c6020418d96bb393ba2afb20ff90df23fb7708264e2f3"
        "ab9135e3bd69955851de4b1f9fe8a0973396719b7912ba9ee8aa7d0b5e24bcf6",
    ),
    (
        "5a" * 17,
        "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418",
        "b4cbf5a4f1eeda5a63ce7b77c7d23f461db3fcab0dd28e4e17cecb5c90d02c25",
        "f4a74c9c592497375e796aa837e907b1a045d34306a749db9f34221f7e750cb4"
        "f2a6413a6bf6fa5e19ba6348eb673934a722a7ede2e7621306d18951e7cf2c73",
    ),
]

# Appendix A.1.2, verifiable mode.
SECRET = "e6f73f344b79b379f1a0dd37e07ff62e38d9f71345ce62ae3a9bc60b04ccd909"
PUBLIC = "c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e"
OUTPUTS = (
    "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d"
    "a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c",
    "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60"
    "356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6",
)
# Inputs, blinds, blinded elements, evaluation elements, nonce of the proof, proof, outputs.
VERIFIABLE_VECTORS = [
    (
        ["00"],
        [BLIND],
        ["863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945"],
        ["aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e"],
        OTHER,
        "ddef93772692e535d1a53903db24367355cc2cc78de93b3be5a8ffcc6985dd06"
        "6d4346421d17bf5117a2a1ff0fcb2a759f58a539dfbe857a40bce4cf49ec600d",
        OUTPUTS[:1],
    ),
    (
        ["5a" * 17],
        [BLIND],
        ["cc0b2a350101881d8a4cba4c80241d74fb7dcbfde4a61fde2f91443c2bf9ef0c"],
        ["60a59a57208d48aca71e9e850d22674b611f752bed48b36f7a91b372bd7ad468"],
        OTHER,
        "401a0da6264f8cf45bb2f5264bc31e109155600babb3cd4e5af7d181a2c9dc0a"
        "67154fabf031fd936051dec80b0b6ae29c9503493dde7393b722eafdf5a50b02",
        OUTPUTS[1:],
    ),
    (
        ["00", "5a" * 17],
        [BLIND, OTHER],
        [
            "863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945",
            "90a0145ea9da29254c3a56be4fe185465ebb3bf2a1801f7124bbbadac751e654",
        ],
        [
            "aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e",
            "cc5ac221950a49ceaa73c8db41b82c20372a4c8d63e5dded2db920b7eee36a2a",
        ],
        "419c4f4f5052c53c45f3da494d2b67b220d02118e0857cdbcf037f9ea84bbe0c",
        "cc203910175d786927eeb44ea847328047892ddf8590e723c37205cb74600b0a"
        "5ab5337c8eb4ceae0494c2cf89529dcf94572ed267473d567aeed6ab873dee08",
        OUTPUTS,
    ),
]

unhex = bytes.fromhex


def test_keys_are_derived_as_in_the_rfc():
    assert oprf.derive_key(SEED, INFO, mode=oprf.BASE)[0].hex() == BASE_KEY
    secret, public = oprf.derive_key(SEED, INFO)
    assert (secret.hex(), public.hex()) == (SECRET, PUBLIC)


@pytest.mark.parametrize(("data", "blinded", "evaluated", "output"), BASE_VECTORS)
def test_base_mode_vectors(data, blinded, evaluated, output):
    scalar, point = oprf.blind(unhex(data), mode=oprf.BASE, scalar=unhex(BLIND))
    assert point.hex() == blinded
    answer = oprf.multiply(unhex(BASE_KEY), point)
    assert answer.hex() == evaluated
    assert oprf.finalize(unhex(data), oprf.unblind(scalar, answer)).hex() == output
    assert oprf.evaluate(unhex(BASE_KEY), unhex(data), mode=oprf.BASE).hex() == output


@pytest.mark.parametrize(("data", "blinds", "blinded", "evaluated", "nonce", "proof", "outputs"), VERIFIABLE_VECTORS)
def test_verifiable_mode_vectors(data, blinds, blinded, evaluated, nonce, proof, outputs):
    points = [oprf.blind(unhex(word), scalar=unhex(scalar))[1] for word, scalar in zip(data, blinds, strict=True)]
    assert [point.hex() for point in points] == blinded
    answers = [oprf.multiply(unhex(SECRET), point) for point in points]
    assert [answer.hex() for answer in answers] == evaluated
    made = oprf.prove(unhex(SECRET), unhex(PUBLIC), points, answers, nonce=unhex(nonce))
    assert made.hex() == proof
    assert oprf.verify(unhex(PUBLIC), points, answers, unhex(proof))
    for word, scalar, answer, output in zip(data, blinds, answers, outputs, strict=True):
        assert oprf.finalize(unhex(word), oprf.unblind(unhex(scalar), answer)).hex() == output
        assert oprf.evaluate(unhex(SECRET), unhex(word)).hex() == output


@settings(max_examples=25, deadline=None)
@given(data=st.binary(min_size=1, max_size=80))
def test_two_holders_in_a_row_are_one_with_the_product_of_their_keys(data):
    first, second = oprf.generate_key()[0], oprf.generate_key()[0]
    product = (int.from_bytes(first, "little") * int.from_bytes(second, "little") % ORDER).to_bytes(32, "little")
    scalar, point = oprf.blind(data)
    answer = oprf.multiply(second, oprf.multiply(first, point))
    assert oprf.finalize(data, oprf.unblind(scalar, answer)) == oprf.evaluate(product, data)


def test_a_blinded_word_differs_each_time_and_its_output_does_not():
    secret, _ = oprf.generate_key()
    asked = [oprf.blind(b"carcinoma") for _ in range(5)]
    assert len({point for _, point in asked}) == 5
    outputs = {oprf.finalize(b"carcinoma", oprf.unblind(r, oprf.multiply(secret, point))) for r, point in asked}
    assert outputs == {oprf.evaluate(secret, b"carcinoma")}


NOT_ELEMENTS = {
    "identity": bytes(32),
    "not canonical": (2**255 - 19).to_bytes(32, "little"),
    "negative": (1).to_bytes(32, "little"),
    "all ones": b"\xff" * 32,
    "short": b"\x01" * 31,
    "long": b"\x01" * 33,
    "empty": b"",
}


@pytest.mark.parametrize("point", NOT_ELEMENTS.values(), ids=NOT_ELEMENTS.keys())
def test_what_is_no_element_is_refused(point):
    assert not oprf.is_element(point)
    with pytest.raises(ValueError):
        oprf.multiply(oprf.random_scalar(), point)


P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def decodes(point: bytes) -> bool:
    """RFC 9496, 4.3.1, written out: whether bytes are an element of ristretto255, in their one encoding."""
    s = int.from_bytes(point, "little")
    if s >= P or s & 1:
        return False
    u1, u2 = (1 - s * s) % P, (1 + s * s) % P
    v = (-D * u1 * u1 - u2 * u2) % P
    square = v * u2 * u2 % P
    root = pow(square, (P + 3) // 8, P)
    if root * root % P != square:
        root = root * pow(2, (P - 1) // 4, P) % P
    if root * root % P != square or not root:
        return False
    den_x = pow(root, -1, P) * u2 % P
    den_y = pow(root, -1, P) * den_x * v % P
    x, y = 2 * s * den_x % P, u1 * den_y % P
    x = P - x if x & 1 else x
    return not (x * y % P) & 1 and y != 0


def encodings(s: int) -> list[bytes]:
    """All strings of 32 bytes that stand for a number of the field or its negative, with the highest bit or without."""
    numbers = {value + more for value in (s % P, -s % P) for more in (0, P) if value + more < 2**255}
    return [(number | top).to_bytes(32, "little") for number in sorted(numbers) for top in (0, 2**255)]


def test_only_the_one_encoding_of_a_point_is_an_element():
    """Every other encoding of the identity, of Edwards points of small order, of 0 to 18 (the numbers that have more
    than one even without the highest bit), and of 100 ordinary points."""
    root = pow(2, (P - 1) // 4, P)  # of −1
    small = [0, 1, P - 1, root, *range(19)]
    small += [int.from_bytes(bytes.fromhex(order8), "little") for order8 in (
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )]  # fmt: skip
    for s in small:
        for point in encodings(s):
            assert oprf.is_element(point) == (decodes(point) and any(point)), point.hex()
    refused = 0
    for _ in range(100):
        right = oprf.random_point()
        for point in encodings(int.from_bytes(right, "little")):
            assert oprf.is_element(point) == (point == right)
            if point != right:
                refused += 1
                with pytest.raises(ValueError):
                    oprf.multiply(oprf.random_scalar(), point)
    assert refused == 300


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=32, max_size=32))
def test_elements_are_those_of_the_rfc(point):
    assert oprf.is_element(point) == (decodes(point) and any(point))


def test_a_zero_scalar_is_refused():
    with pytest.raises(ValueError):
        oprf.multiply(bytes(32), oprf.random_point())


def answered(size):
    secret, public = oprf.generate_key()
    sent = [oprf.random_point() for _ in range(size)]
    answer = [oprf.multiply(secret, point) for point in sent]
    return secret, public, sent, answer


def test_a_wrong_answer_has_no_proof():
    secret, public, sent, answer = answered(8)
    other, other_public = oprf.generate_key()
    good = oprf.prove(secret, public, sent, answer)
    assert oprf.verify(public, sent, answer, good)
    swapped = [answer[1], answer[0], *answer[2:]]
    one_wrong = [*answer[:-1], oprf.multiply(other, sent[-1])]
    for points in (swapped, one_wrong, answer[:-1], [*answer[:-1], bytes(32)], [*answer[:-1], b"\xff" * 32]):
        assert not oprf.verify(public, sent, points, good)
        if len(points) == len(sent) and all(map(oprf.is_element, points)):
            assert not oprf.verify(public, sent, points, oprf.prove(secret, public, sent, points))
    assert not oprf.verify(other_public, sent, answer, good)
    assert not oprf.verify(bytes(32), sent, answer, good)
    assert not oprf.verify(public, [], [], good)


def test_a_proof_has_one_encoding():
    secret, public, sent, answer = answered(2)
    good = oprf.prove(secret, public, sent, answer)
    response = int.from_bytes(good[32:], "little")
    again = good[:32] + (response + ORDER).to_bytes(32, "little")
    assert not oprf.verify(public, sent, answer, again)
    for bad in (good[:-1], good + b"\0", bytes(64), good[32:] + good[:32]):
        assert not oprf.verify(public, sent, answer, bad)


def test_the_expander_against_a_plain_one():
    """RFC 9380's expand_message_xmd written out, for SHA-512 and 64 bytes."""
    tag = b"HashToGroup-OPRFV1-\x01-ristretto255-SHA512"
    dst = tag + bytes([len(tag)])
    first = hashlib.sha512(bytes(128) + b"word" + (64).to_bytes(2, "big") + b"\0" + dst).digest()
    assert oprf._expand(b"word", tag) == hashlib.sha512(first + b"\1" + dst).digest()
