"""Repository variables on GitHub: https://docs.github.com/rest/actions/variables."""

from __future__ import annotations

from ci_compiler.github.client import Client
from ci_compiler.github.errors import GitHubError, Trouble


def read_variable(client: Client, name: str) -> str:
    """The value of the variable `name`; '' if there is none. Raises GitHubError."""
    try:
        return client.request(f"read {name}", "GET", _path(client, name), read=lambda answer: str(answer["value"]))
    except GitHubError as error:
        if error.trouble is Trouble.MISSING:
            return ""
        raise


def write_variable(client: Client, name: str, value: str, *, before: str) -> None:
    """Changes the variable `name`, whose value was `before`; '' in either place: no variable. Raises GitHubError."""
    body = {"name": name, "value": value}
    if not value:
        if before:
            client.request(f"remove {name}", "DELETE", _path(client, name), read=lambda _: None)
    elif before:
        client.request(f"write {name}", "PATCH", _path(client, name), body, read=lambda _: None)
    else:
        client.request(f"write {name}", "POST", _path(client), body, read=lambda _: None)


def _path(client: Client, name: str = "") -> str:
    return f"/repos/{client.access.repository}/actions/variables" + (f"/{name}" if name else "")
