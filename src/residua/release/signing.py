"""Signatures of release folders: Ed25519 over release.json, which holds the digest of every other file.

signature.json     kind, version, the public key and the signature of the bytes of release.json
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from residua.errors import FileError
from residua.files import read_document, read_regular, write_document

KIND, VERSION = "residua signature", 1
NAME = "signature.json"
_SIGNED = "release.json"
_MAKE = (
    "make a pair of keys with: openssl genpkey -algorithm ed25519 -out private.pem; "
    "openssl pkey -in private.pem -pubout -out public.pem"
)


def sign(folder: Path, key: Path) -> None:
    """Signs a release; a signature that is there is replaced.

    Args:
        folder: the release.
        key: a file with a private key, in PEM.

    Raises:
        FileError: no release, no private Ed25519 key, or the folder cannot be written to.
    """
    private = _key(key, "private")
    body = {
        "algorithm": "ed25519",
        "key": private.public_key().public_bytes_raw().hex(),
        "signature": private.sign(read_regular(folder / _SIGNED)).hex(),
    }
    write_document(folder / NAME, KIND, VERSION, body)


def is_signed(folder: Path, key: Path) -> bool:
    """Whether the owner of a key has signed what a release says now.

    Args:
        folder: the release.
        key: a file with a public key, in PEM: one that you have from its owner, not from the folder.

    Raises:
        FileError: no release, no signature, or no public Ed25519 key.
    """
    public = _key(key, "public")
    if not (folder / NAME).exists():
        raise FileError(
            f"{str(folder)!r} is not signed; whoever made it can sign it: residua sign {folder} --key FILE."
        )
    body = read_document(folder / NAME, KIND, VERSION)
    from cryptography.exceptions import InvalidSignature

    try:
        public.verify(bytes.fromhex(str(body.get("signature"))), read_regular(folder / _SIGNED))
    except (InvalidSignature, ValueError):
        return False
    return True


def _key(path: Path, which: str) -> Any:
    """A private or public key."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise FileError(
            'signatures are made by cryptography, which is not installed; run: pip install "residua[sign]"'
        ) from None
    content = read_regular(path, follow=True)
    kind: type[object] = ed25519.Ed25519PrivateKey if which == "private" else ed25519.Ed25519PublicKey
    try:
        key: object = (
            serialization.load_pem_private_key(content, None)
            if which == "private"
            else serialization.load_pem_public_key(content)
        )
    except (ValueError, TypeError):  # TypeError: it asks for a password
        key = None
    if not isinstance(key, kind):
        raise FileError(f"key: {str(path)!r} holds no {which} Ed25519 key without a password; {_MAKE}.")
    return key
