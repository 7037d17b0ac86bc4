"""Judging a Nix signing key."""

from __future__ import annotations

import base64
import binascii

from ci_compiler.backends.protocol import SecretEvidence
from ci_compiler.judgement import Judgement, failed, ok


def check_key(secret: str, evidence: SecretEvidence) -> Judgement:
    """Judges a Nix signing key (NAME:BASE64 of 64 bytes, the second half is the public key), which `secret` holds."""
    fix = f"make a pair with `nix key generate-secret`, its public half into cache.public-key, into the secret {secret}"
    name, _, text = evidence.text.strip().partition(":")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != 64:
        return failed(f"{secret} holds no signing key of Nix (NAME:BASE64)", fix)
    if evidence.cache is None:
        return ok(f"{secret} is the key {name}")
    public = f"{name}:{base64.b64encode(data[32:]).decode()}"
    if public != evidence.cache.public_key:
        return failed(f"{secret} is the key {name}, which is not the pair of cache.public-key in the spec", fix)
    return ok(f"{secret} is the pair of the cache's public key {name}")
