"""What a forger does who knows the format: files changed and every digest made to fit again."""

import hashlib
import json
from pathlib import Path

DOCUMENTS = {"release": "release.json", "projection": "projection.json", "estimates": "estimates.json"}


def sealed(kind: str, version: int, body: bytes) -> bytes:
    """A document of ours around any bytes."""
    header = json.dumps({"format": kind, "version": version, "sha256": hashlib.sha256(body).hexdigest()})
    return header[:-1].encode() + b',"body":' + body + b"}"


def body_of(document: bytes) -> bytes:
    """The bytes of a document's body."""
    return document[document.index(b'"body":') + 7 : -1]


def reseal_document(path: Path, body: bytes) -> None:
    """Gives a document another body."""
    header = json.loads(path.read_bytes())
    path.write_bytes(sealed(header["format"], header["version"], body))


def reseal(folder: Path) -> None:
    """Makes the digests of a release, projection or estimates fit its files."""
    (document,) = (folder / name for name in DOCUMENTS.values() if (folder / name).exists())
    body = json.loads(document.read_bytes())["body"]
    for name in body["files"]:
        if (folder / name).is_file():
            body["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    if (folder / "release" / "release.json").is_file() and "release" in body:
        body["release"] = hashlib.sha256((folder / "release" / "release.json").read_bytes()).hexdigest()
    reseal_document(document, json.dumps(body).encode())
