"""Signed tokens: which are accepted, and each known forgery that is refused."""

import base64
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from apf_middleware.asgi.identity import Authenticated
from apf_middleware.asgi.identity.jwt import JwtAuthenticator, claim_at
from apf_middleware.asgi.identity.keys import read_jwks, read_key
from apf_middleware.asgi.identity.watched import BrokenLineError
from apf_middleware.classification import Identity
from apf_middleware.config.authentication import JwtSettings
from apf_middleware.exceptions import InvalidValueError
from tests.support.authentication import group_of, identity_of, reason_of, request, rsa_key, verdict_of

NOW = 1_000_000.0
RSA, OTHER_RSA = rsa_key("one"), rsa_key("other")
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
SECRET = "s" * 64


def pem(key: Any = RSA) -> bytes:  # noqa: ANN401
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def jwk(key: Any = RSA, kid: str | None = "one", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    algorithm: Any = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
    }
    made = next(one for kind, one in algorithm.items() if isinstance(key, kind))
    parameters: dict[str, Any] = json.loads(made.to_jwk(key.public_key()))
    parameters.pop("key_ops", None)
    return parameters | ({} if kid is None else {"kid": kid}) | more


def jwks(*keys: dict[str, Any]) -> str:
    return json.dumps({"keys": keys})


def signed(
    key: Any = RSA,  # noqa: ANN401
    algorithm: str = "RS256",
    header: dict[str, Any] | None = None,
    **claims: Any,  # noqa: ANN401
) -> str:
    """Return a token that is valid unless the claims say otherwise; None leaves a claim out."""
    whole = {"iss": "issuer", "aud": "shop", "sub": "alice", "exp": NOW + 60} | claims
    return jwt.encode({k: v for k, v in whole.items() if v is not None}, key, algorithm, headers=header)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def signed_by_hand(header: dict[str, Any]) -> str:
    """Return a token with headers that a library would refuse to write."""
    claims = part({"iss": "issuer", "aud": "shop", "sub": "alice", "exp": NOW + 60})
    content = f"{part({'alg': 'RS256'} | header)}.{claims}"
    signature = RSA.sign(content.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{content}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def bearer(token: str) -> dict[str, Any]:
    return request(("authorization", f"Bearer {token}"))


class Clock:
    """A clock that stands still until a test sets it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "key").write_bytes(pem())
    return tmp_path / "key"


def believer(path: Path, clock: Clock | None = None, **settings: Any) -> JwtAuthenticator:  # noqa: ANN401
    given: dict[str, Any] = {"algorithms": ("RS256",), "issuer": "issuer", "audiences": ("shop", "store")}
    where = {} if "jwks_file" in settings else {"key_file": str(path)}
    return JwtAuthenticator(JwtSettings(**(given | where | settings)), clock=clock or Clock())


def test_a_valid_token_authenticates_until_it_expires(path: Path) -> None:
    assert identity_of(believer(path), bearer(signed_by_hand({}))).name == "alice"
    verdict = verdict_of(believer(path), bearer(signed(groups=["staff", "ops"])))

    assert verdict == Authenticated(Identity("alice", group_of("staff", "ops")), NOW + 70)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (signed(exp=NOW - 11), "expired"),
        (signed(exp=NOW - 10), "expired"),
        (signed(exp=None), "no-expiry"),
        (signed(nbf=NOW + 11), "not-yet-valid"),
        (signed(iat=NOW + 11), "not-yet-valid"),
        (signed(iss="other"), "wrong-issuer"),
        (signed(iss=None), "wrong-issuer"),
        (signed(aud="other"), "wrong-audience"),
        (signed(aud=["other", "shop2"]), "wrong-audience"),
        (signed(aud=[]), "wrong-audience"),
        (signed(aud=None), "wrong-audience"),
        (signed(sub=None), "missing-claim"),
        (signed(sub=""), "missing-claim"),
        (signed(groups={"a": 1}), "malformed"),
        (signed(groups=["a", 7]), "malformed"),
        (signed(sub="a\nb"), "malformed"),
        (signed(groups=["a\0"]), "malformed"),
        (signed(sub="\ud800"), "malformed"),
        (signed(sub="system:admin"), "reserved-name"),
        (signed(OTHER_RSA), "bad-signature"),
        (signed(EC, "ES256"), "wrong-algorithm"),
        (signed(RSA, "RS512"), "wrong-algorithm"),
        (signed(SECRET, "HS256"), "wrong-algorithm"),
        (signed(header={"kid": "../../etc/passwd"}, exp=NOW - 99), "expired"),
        (signed_by_hand({"b64": True}), "malformed"),
        (signed_by_hand({"crit": ["exp"], "exp": 1}), "malformed"),
        (signed()[:-6] + "AAAAAA", "bad-signature"),
        ("opaque-token", "malformed"),
        ("a.b", "malformed"),
        ("a.b.c", "malformed"),
        ("a.b.c.d.e", "malformed"),
        ("..", "malformed"),
        (f"{part({'alg': 'RS256'})}.{part([])}.AAAA", "malformed"),
        (f"{part([])}.{part({})}.AAAA", "malformed"),
        (f"{part({'alg': ['RS256']})}.{part({'iss': 'issuer'})}.AAAA", "wrong-algorithm"),
        (f"{part({})}.{part({'iss': 'issuer'})}.AAAA", "wrong-algorithm"),
        (f"{part({'alg': 'RS256', 'kid': 7})}.{part({'iss': 'issuer'})}.AAAA", "malformed"),
        (f"{part({'alg': 'RS256', 'crit': ['exp'], 'exp': 1})}.{part({'iss': 'issuer'})}.AAAA", "malformed"),
        (base64.urlsafe_b64encode(b"[" * 6000).decode() + ".e30.AAAA", "malformed"),
        ("e30." + base64.urlsafe_b64encode(b"[" * 6000).decode() + ".AAAA", "malformed"),
        (base64.urlsafe_b64encode(b'{"alg":' + b"1" * 5000 + b"}").decode() + ".e30.AAAA", "malformed"),
    ],
)
def test_invalid_tokens_are_refused_with_a_reason(path: Path, token: str, reason: str) -> None:
    scope = bearer(token)

    assert reason_of(believer(path), scope) == reason
    assert verdict_of(believer(path), scope).challenge.startswith('Bearer realm="apf", error="invalid_token"')  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", ["2000000", True, -1, [1], 10**400, float("inf"), float("nan")])
def test_invalid_times_are_refused(path: Path, name: str, value: Any) -> None:  # noqa: ANN401
    assert reason_of(believer(path), bearer(signed(**{name: value}))) == "malformed"


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None])
@pytest.mark.parametrize("signature", ["", "AAAA"])
def test_a_token_without_a_signature_is_refused(path: Path, algorithm: str | None, signature: str) -> None:
    claims = part({"iss": "issuer", "aud": "shop", "sub": "alice", "exp": NOW + 60})
    token = f"{part({'alg': algorithm, 'typ': 'JWT'})}.{claims}.{signature}"

    assert reason_of(believer(path), bearer(token)) == "wrong-algorithm"
    stripped = signed().rpartition(".")[0] + "."
    assert reason_of(believer(path), bearer(stripped)) in ("bad-signature", "malformed")


def forged_with_public_key(public: bytes) -> str:
    claims = part({"iss": "issuer", "aud": "shop", "sub": "root", "exp": NOW + 60})
    content = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{claims}"
    mac = hmac.new(public, content.encode(), hashlib.sha256).digest()
    return f"{content}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def test_a_public_key_is_never_taken_for_a_secret(path: Path) -> None:
    jwks_path = path.with_name("jwks")
    jwks_path.write_text(jwks(jwk(kid=None)))
    for public in (pem(), pem().strip(), jwks_path.read_bytes(), json.dumps(jwk(kid=None)).encode()):
        token = forged_with_public_key(public)
        assert reason_of(believer(path), bearer(token)) == "wrong-algorithm"
        assert reason_of(believer(path, jwks_file=str(jwks_path)), bearer(token)) == "wrong-algorithm"

    with pytest.raises(InvalidValueError, match="HS algorithms need a secret"):
        believer(path, algorithms=("HS256",))
    with pytest.raises(InvalidValueError, match="cannot be combined"):
        believer(path, algorithms=("RS256", "HS256"))
    assert all("HS256" not in key.algorithms for key in read_key(pem(), frozenset({"RS256"})))


def test_what_a_token_brings_as_a_key_is_not_used(path: Path) -> None:
    for header in (
        {"jwk": jwk(OTHER_RSA)},
        {"jku": "http://127.0.0.1:9/"},
        {"x5u": "http://127.0.0.1:9/"},
        {"x5c": ["a"]},
    ):
        assert reason_of(believer(path), bearer(signed(OTHER_RSA, header=header))) == "bad-signature"


def test_the_clock_decides_with_leeway_on_both_sides(path: Path, clock: Clock) -> None:
    tokens = believer(path, clock, leeway_ns=5 * 10**9)
    scope = bearer(signed(exp=NOW + 10, nbf=NOW + 2))

    for now, expected in ((NOW - 4, "not-yet-valid"), (NOW - 3, ""), (NOW + 14.9, ""), (NOW + 15, "expired")):
        clock.now = now
        verdict = verdict_of(tokens, scope)
        assert getattr(verdict, "reason", "") == expected
        assert expected or verdict == Authenticated(Identity("alice", group_of()), NOW + 15)


def test_the_wall_clock_is_the_default(path: Path) -> None:
    tokens = JwtAuthenticator(JwtSettings(("RS256",), "issuer", ("shop",), str(path)))

    assert reason_of(tokens, bearer(signed(exp=time.time() - 60))) == "expired"
    assert identity_of(tokens, bearer(signed(exp=time.time() + 60))).name == "alice"


def test_expiry_can_be_left_out_by_option_alone(path: Path) -> None:
    lasting = believer(path, require_expiry=False)

    assert verdict_of(lasting, bearer(signed(exp=None))) == Authenticated(Identity("alice", group_of()), None)
    assert reason_of(lasting, bearer(signed(exp=NOW - 60))) == "expired"


def test_audiences(path: Path) -> None:
    assert identity_of(believer(path), bearer(signed(aud=["x", "store"]))).name == "alice"
    nameless = believer(path, audiences=())
    assert identity_of(nameless, bearer(signed(aud=None))).name == "alice"
    assert reason_of(nameless, bearer(signed())) == "wrong-audience"


def test_without_a_configured_issuer_none_is_checked(path: Path) -> None:
    assert identity_of(believer(path, issuer=""), bearer(signed(iss="anybody"))).name == "alice"


@pytest.mark.parametrize(
    ("settings", "claims", "identity"),
    [
        ({"username_claim": "email"}, {"email": "a@b"}, Identity("a@b", group_of())),
        ({"username_claim": "email"}, {"email": "a@b", "email_verified": True}, Identity("a@b", group_of())),
        ({"username_claim": "uid"}, {"uid": 7}, Identity("7", group_of())),
        ({"username_claim": "a.b"}, {"a": {"b": "deep"}}, Identity("deep", group_of())),
        ({"username_claim": "https://x.y/z"}, {"https://x.y/z": "url"}, Identity("url", group_of())),
        ({"username_prefix": "sso:"}, {}, Identity("sso:alice", group_of())),
        ({"groups_claim": "realm.roles"}, {"realm": {"roles": ["r"]}}, Identity("alice", group_of("r"))),
        ({"groups_prefix": "sso:"}, {"groups": "g"}, Identity("alice", group_of("sso:g"))),
        ({"groups_claim": ""}, {"groups": ["g"]}, Identity("alice", group_of())),
        ({}, {"groups": ["g", "system:masters", "g", ""]}, Identity("alice", group_of("g"))),
        ({"groups_prefix": "sso:"}, {"groups": ["system:masters"]}, Identity("alice", group_of("sso:system:masters"))),
        (
            {"system_names": True},
            {"sub": "system:serviceaccount:ns:a", "groups": ["system:masters"]},
            Identity("system:serviceaccount:ns:a", group_of("system:masters")),
        ),
    ],
)
def test_claims_give_the_identity(
    path: Path, settings: dict[str, Any], claims: dict[str, Any], identity: Identity
) -> None:
    assert identity_of(believer(path, **settings), bearer(signed(**claims))) == identity


@pytest.mark.parametrize("verified", [False, "true", None, 1])
def test_an_unverified_mail_address_is_refused_as_a_name(path: Path, verified: object) -> None:
    token = jwt.encode(
        {"iss": "issuer", "aud": "shop", "exp": NOW + 60, "email": "a@b", "email_verified": verified}, RSA, "RS256"
    )

    assert reason_of(believer(path, username_claim="email"), bearer(token)) == "unverified-email"


def test_required_claims(path: Path) -> None:
    tokens = believer(path, required_claims={"tenant": "acme", "realm.roles": "api"})

    assert identity_of(tokens, bearer(signed(tenant="acme", realm={"roles": ["x", "api"]}))).name == "alice"
    for claims in ({}, {"tenant": "acme"}, {"tenant": "other", "realm": {"roles": ["api"]}}):
        assert reason_of(tokens, bearer(signed(**claims))) == "missing-claim"


def test_required_claims_may_be_booleans_and_numbers(path: Path) -> None:
    tokens = believer(path, required_claims={"admin": "true", "tenant": "5"})

    assert identity_of(tokens, bearer(signed(admin=True, tenant=5))).name == "alice"
    assert identity_of(tokens, bearer(signed(admin="true", tenant=[4, 5]))).name == "alice"
    for admin in (1, False, None, "True"):
        assert reason_of(tokens, bearer(signed(admin=admin, tenant=5))) == "missing-claim"
    assert reason_of(tokens, bearer(signed(admin=True, tenant=5.0))) == "missing-claim"


def test_a_claim_is_found_by_its_name_before_its_way() -> None:
    claims = {"a.b": 1, "a": {"b": 2, "c": {"d": 3}}, "x": 4}

    assert claim_at(claims, "a.b") == 1
    assert claim_at(claims, "a.c.d") == 3
    assert (claim_at(claims, "a.z"), claim_at(claims, "x.y"), claim_at(claims, "")) == (None, None, None)


def test_tokens_may_come_in_a_header_of_their_own(path: Path) -> None:
    own = believer(path, header="x-token")

    assert own.headers == {b"x-token"}
    assert identity_of(own, request(("x-token", signed()))).name == "alice"
    assert identity_of(own, bearer(signed())).name == "system:anonymous"


# Keys


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS384"), (EC, "ES256"), (ED, "EdDSA")], ids=["RS", "PS", "ES", "Ed"]
)
def test_each_kind_of_public_key(path: Path, key: Any, algorithm: str) -> None:  # noqa: ANN401
    path.write_bytes(pem(key))

    assert identity_of(believer(path, algorithms=(algorithm,)), bearer(signed(key, algorithm))).name == "alice"


def test_a_certificate_will_do_for_its_key(path: Path) -> None:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
    begin, end = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, RSA.public_key(), 1, begin, end)
    path.write_bytes(builder.sign(RSA, hashes.SHA256()).public_bytes(Encoding.PEM))

    assert identity_of(believer(path), bearer(signed())).name == "alice"


def test_a_secret_is_read_without_the_end_of_its_line(path: Path) -> None:
    path.write_text(SECRET + "\n")
    tokens = believer(path, algorithms=("HS256", "HS512"))

    assert identity_of(tokens, bearer(signed(SECRET, "HS512"))).name == "alice"
    assert reason_of(tokens, bearer(signed("t" * 64, "HS512"))) == "bad-signature"


@pytest.mark.parametrize(
    ("raw", "algorithm", "rule"),
    [
        (b"short", "HS256", "at least 32 bytes for HS256, not 5"),
        (b"s" * 32, "HS512", "at least 64 bytes"),
        (b"nothing", "RS256", "public key or a certificate in PEM"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "RS256", "in PEM:"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "RS256", "in PEM:"),
        (RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), "RS256", "private key"),
        (RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"p")), "RS256", "private key"),
        (pem(EC), "RS256", "fits none of RS256"),
        (pem(EC), "ES384", "fits none of ES384"),
        (pem(rsa.generate_private_key(65537, 1024)), "RS256", "fits none of RS256"),  # noqa: S505
    ],
)
def test_unusable_keys_are_reported(raw: bytes, algorithm: str, rule: str) -> None:
    with pytest.raises(BrokenLineError, match=rule):
        read_key(raw, frozenset({algorithm}))


def test_a_key_file_that_changes_is_read_again_and_a_broken_one_is_not(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = believer(path)
    assert not tokens.refresh()

    path.write_text("broken")
    assert not tokens.refresh()
    assert tokens.source_state == ("key-file", True)
    assert len(caplog.records) == 1
    assert identity_of(tokens, bearer(signed())).name == "alice"

    path.write_bytes(pem(OTHER_RSA))
    assert tokens.refresh()
    assert reason_of(tokens, bearer(signed())) == "bad-signature"
    assert identity_of(tokens, bearer(signed(OTHER_RSA))).name == "alice"


def test_keys_of_a_jwks_are_chosen_by_name_kind_and_purpose(path: Path) -> None:
    path.write_text(
        jwks(
            jwk(RSA, "r", alg="RS256"),
            jwk(OTHER_RSA, "enc", use="enc"),
            jwk(OTHER_RSA, "ops", key_ops=["sign"]),
            jwk(OTHER_RSA, "odd", key_ops=7),
            jwk(OTHER_RSA, "alg", alg="RS512"),
            jwk(EC, "e"),
            {"kty": "oct", "kid": "o", "k": base64.urlsafe_b64encode(SECRET.encode()).decode()},
            {"kty": "new", "kid": "n"},
            {"kty": "RSA", "n": 7, "kid": "m"},
        )
    )
    tokens = believer(path, jwks_file=str(path), algorithms=("RS256", "ES256"))

    def reason(key: Any, algorithm: str, kid: str | None) -> str:  # noqa: ANN401
        scope = bearer(signed(key, algorithm, {"kid": kid} if kid else None))
        return getattr(verdict_of(tokens, scope), "reason", "")

    assert reason(RSA, "RS256", "r") == ""
    assert reason(RSA, "RS256", None) == ""
    assert reason(EC, "ES256", "e") == ""
    assert reason(EC, "ES256", None) == ""
    assert reason(RSA, "RS256", "e") == "unknown-key"
    assert reason(OTHER_RSA, "RS256", "r") == "bad-signature"
    for kid in ("enc", "ops", "odd", "alg", "o", "n", "m", "x"):
        assert reason(OTHER_RSA, "RS256", kid) == "unknown-key"
    assert reason(SECRET, "HS256", "o") == "wrong-algorithm"


@pytest.mark.parametrize("kid", [None, "", "one"])
def test_a_key_without_an_id_verifies_tokens_with_any_id(path: Path, kid: str | None) -> None:
    """The ID is optional in both, RFC 7515, 4.1.4, and RFC 7517, 4.5."""
    path.write_text(jwks(jwk(RSA, None), jwk(EC, "e")))
    for tokens in (believer(path, jwks_file=str(path)), believer(keyed(path))):
        header = None if kid is None else {"kid": kid}
        reason = "unknown-key" if kid else "bad-signature"
        assert identity_of(tokens, bearer(signed(header=header))).name == "alice"
        assert reason_of(tokens, bearer(signed(OTHER_RSA, header=header))) == reason


def keyed(path: Path) -> Path:
    """Return a file with the key itself."""
    path.with_name("pem").write_bytes(pem())
    return path.with_name("pem")


def test_a_named_key_is_preferred_to_keys_without_an_id(path: Path) -> None:
    path.write_text(jwks(*[jwk(OTHER_RSA, None)] * 9, jwk(RSA, "one")))
    tokens = believer(path, jwks_file=str(path))

    assert identity_of(tokens, bearer(signed(header={"kid": "one"}))).name == "alice"
    assert reason_of(tokens, bearer(signed(OTHER_RSA, header={"kid": "one"}))) == "bad-signature"
    assert identity_of(tokens, bearer(signed(OTHER_RSA, header={"kid": "two"}))).name == "alice"
    assert reason_of(tokens, bearer(signed(header={"kid": "two"}))) == "unknown-key"


@pytest.mark.parametrize("key", [ED, ed448.Ed448PrivateKey.generate()], ids=["Ed25519", "Ed448"])
def test_edwards_curves_may_come_in_a_jwks(key: Any, path: Path) -> None:  # noqa: ANN401
    parameters = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key()))
    for_encryption = parameters | {"crv": "X25519"}
    path.write_text(jwks(for_encryption, parameters | {"kid": "one"}))
    token = jwt.encode({"iss": "issuer", "sub": "alice", "exp": NOW + 60}, key, "EdDSA", headers={"kid": "one"})
    tokens = JwtAuthenticator(JwtSettings(("EdDSA",), "issuer", jwks_file=str(path)), clock=lambda: NOW)

    assert identity_of(tokens, request(("authorization", f"Bearer {token}"))).name == "alice"
    assert [one.kid for one in read_jwks(path.read_bytes(), frozenset({"EdDSA"}))] == ["one"]


def test_secrets_may_come_in_a_jwks_file(path: Path) -> None:
    path.write_text(jwks({"kty": "oct", "kid": "o", "k": base64.urlsafe_b64encode(SECRET.encode()).decode()}))
    tokens = believer(path, jwks_file=str(path), algorithms=("HS256",))

    assert identity_of(tokens, bearer(signed(SECRET, "HS256", {"kid": "o"}))).name == "alice"


def test_private_parts_of_a_jwks_are_left_alone(path: Path) -> None:
    private_jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA)) | {"kid": "one"}
    del private_jwk["key_ops"]
    path.write_text(jwks(private_jwk))

    [key] = read_jwks(path.read_bytes(), frozenset({"RS256"}))
    assert isinstance(key.key, rsa.RSAPublicKey)


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"{", "must be JSON"),
        (b"\xff\xfe", "must be JSON"),
        (b"[" * 100_000, "must be JSON"),
        (b"[]", "must be a JWKS"),
        (b'{"keys": {}}', "must be a JWKS"),
        (b'{"keys": []}', "none of its 0 keys"),
        (b'{"keys": [1, null, {}]}', "none of its 3 keys"),
    ],
)
def test_a_jwks_without_a_key_that_fits_is_broken(raw: bytes, rule: str) -> None:
    with pytest.raises(BrokenLineError, match=rule):
        read_jwks(raw, frozenset({"RS256"}))


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> JwtAuthenticator:
    path = tmp_path_factory.mktemp("fuzz") / "key"
    path.write_text(SECRET)
    return believer(path, algorithms=("HS256",), issuer="", require_expiry=False, audiences=())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CLAIMS = st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "groups"]), JSON, max_size=7)


ANY_TEXT = st.text(st.characters(), min_size=1, max_size=5)  # also what no UTF-8 says
NAMED = st.fixed_dictionaries({"sub": ANY_TEXT}, optional={"groups": st.lists(ANY_TEXT, max_size=3)})


@given(CLAIMS | NAMED, st.dictionaries(st.sampled_from(["kid", "typ", "crit", "b64", "x"]), JSON, max_size=3))
def test_no_signed_claims_raise(fuzzed: JwtAuthenticator, claims: dict[str, Any], header: dict[str, Any]) -> None:
    content = f"{part({'alg': 'HS256'} | header)}.{part(claims)}"
    mac = hmac.new(SECRET.encode(), content.encode(), hashlib.sha256).digest()
    token = f"{content}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    verdict = verdict_of(fuzzed, bearer(token))

    if isinstance(verdict, Authenticated):
        assert verdict.identity.name.encode()
        assert all(group.encode() for group in verdict.identity.groups)
