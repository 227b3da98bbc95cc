"""A stand-in for a login service, for experiments only: it signs a token for any user.

python -m examples.fastapi_tenants.issue alice --tenant acme --plan gold

The key pair is created when it is first needed, in ``keys/`` beside this file. The app only needs the public key; a
real private key would be elsewhere, with the service that authenticates users.
"""

import argparse
import os
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

__all__ = ["AUDIENCE", "ISSUER", "ensure_keys", "issue"]

ISSUER = "https://login.example.com/"
AUDIENCE = "orders"

_FOLDER = Path(__file__).with_name("keys")
_PRIVATE = _FOLDER / "private.pem"
_PUBLIC = _FOLDER / "public.pem"


def ensure_keys() -> None:
    """Create the key pair unless it exists."""
    if _PUBLIC.exists():
        return
    _FOLDER.mkdir(mode=0o700, exist_ok=True)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    descriptor = os.open(_PRIVATE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # nobody else may read it
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
        file.write(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    _PUBLIC.write_bytes(key.public_key().public_bytes(pem, spki))


def issue(user: str, tenant: str, plan: str, seconds: int) -> str:
    """Return a token: tenant and plan are groups of the user."""
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": user,
        "groups": [f"tenant:{tenant}", f"plan:{plan}"],
        "exp": int(time.time()) + seconds,
    }
    return jwt.encode(claims, _PRIVATE.read_bytes(), algorithm="RS256")


def _main() -> None:
    parser = argparse.ArgumentParser(description="Sign a token, for trying out.")
    parser.add_argument("user")
    parser.add_argument("--tenant", required=True)
    parser.add_argument("--plan", choices=("gold", "free"), required=True)
    parser.add_argument("--seconds", type=int, default=3600, help="how long it is valid; less than 0: it has expired")
    options = parser.parse_args()
    ensure_keys()
    print(issue(options.user, options.tenant, options.plan, options.seconds))


if __name__ == "__main__":
    _main()
