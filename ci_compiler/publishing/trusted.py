"""An index server that trusts the workflow: it takes the job's identity, and gives a token for minutes.

The exchange is that of PyPI's documentation ("Publishing with OpenID Connect", "Internals"), the upload that of its
"Legacy API": each file is shown at once, so that a release is never whole there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from email.message import Message
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import requests

from ci_compiler.codes import Code
from ci_compiler.errors import failure, wrong
from ci_compiler.outside import expected, object_of
from ci_compiler.publishing.distributions import metadata_of, project_of
from ci_compiler.publishing.plan import HeldFile, HeldVersion, Upload
from ci_compiler.publishing.target import Target
from ci_compiler.secret import Secret
from ci_compiler.units import grouped

ASKED = ("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN")
"""The environment variables by which a job asks for its identity (GitHub Docs, "OpenID Connect")."""

_JSON = {"Accept": "application/vnd.pypi.simple.v1+json"}
_TIMEOUT = (30, 600)
_FIELDS = {"Metadata-Version": "metadata_version", "Name": "name", "Version": "version"}
_MORE = {"Requires-Python": "requires_python", "Summary": "summary"}


class TrustedIndex(Target):
    """The index server that takes uploads at `url` and shows them at `index`. Its methods also raise OSError.

    It shows each file at once, and knows no variants.
    """

    def __init__(self, url: str, index: str, environment: Mapping[str, str]) -> None:
        self._url = url
        self._index = index.rstrip("/")
        self._environment = environment

    def held(self, wanted: Sequence[Upload]) -> Mapping[str, HeldFile]:
        """What the pages of the projects show (PEP 691)."""
        held: dict[str, HeldFile] = {}
        for project in grouped(wanted, lambda upload: project_of(upload.name)):
            answer = requests.get(f"{self._index}/{project}/", headers=_JSON, timeout=_TIMEOUT)
            if answer.status_code != requests.codes.not_found:
                for row in expected(list, self._object(answer)["files"]):
                    held[row["filename"]] = HeldFile(row["hashes"].get("sha256", ""), shown=True)
        return held

    def put(self, file: Upload) -> None:
        """Uploads a wheel, with what its metadata says."""
        if file.path.suffix != ".whl":
            message = f"{file.name} is no wheel, and only wheels are published so"
            raise failure(file.variant, Code.PUBLISH_FAILED, message)
        metadata: Message = metadata_of(file.path)
        fields = {key: metadata.get(name, "") for name, key in _FIELDS.items()}
        fields |= {key: value for name, key in _MORE.items() if (value := metadata.get(name))}
        fields |= {":action": "file_upload", "protocol_version": "1", "sha256_digest": file.digest}
        fields |= {"filetype": "bdist_wheel", "pyversion": file.name.removesuffix(".whl").split("-")[-3]}
        with file.path.open("rb") as content:
            answer = requests.post(
                self._url,
                data=fields,
                files={"content": (file.name, content)},
                auth=("__token__", self._token.reveal()),
                timeout=_TIMEOUT,
            )
        if not answer.ok:
            message = f"{self._url} answered {answer.status_code} to {file.name}: {answer.reason}"
            raise OSError(message)

    def stage(self, wanted: Sequence[Upload]) -> None:
        """Nothing: the files are shown."""

    def finish(self, version: str, variants: Collection[str]) -> None:
        """Nothing: the files are shown."""

    def withdraw(self, versions: Collection[HeldVersion], because: str) -> None:
        """Refuses: only a person may do this, on the pages of the server."""
        message = f"yank {' and '.join(held.version for held in versions)} on the project's pages there: {because}"
        raise failure(self._index, Code.PUBLISH_FAILED, message)

    @cached_property
    def _token(self) -> Secret:
        """A token for uploads, in exchange for the identity of the job."""
        where = urlsplit(self._url)
        server = f"{where.scheme}://{where.netloc}/_/oidc"
        audience = self._object(requests.get(f"{server}/audience", timeout=_TIMEOUT))["audience"]
        address, secret = map(self._environment.get, ASKED)
        if not address or not secret:
            message = "is not set: the job needs the permission `id-token: write`, which compiled workflows have"
            raise wrong(ASKED[0], Code.NO_TOKEN, message)
        bearer = {"Authorization": f"Bearer {secret}"}
        identity = requests.get(address, params={"audience": audience}, headers=bearer, timeout=_TIMEOUT)
        proof = {"token": self._object(identity)["value"]}
        return Secret(self._object(requests.post(f"{server}/mint-token", json=proof, timeout=_TIMEOUT))["token"])

    def _object(self, answer: requests.Response) -> dict[str, Any]:
        """The JSON object of an answer. Raises OSError for another answer, none of which it repeats."""
        if answer.ok:
            return object_of(answer.content)
        message = f"{answer.url.partition('?')[0]} answered {answer.status_code}"
        raise OSError(message)
