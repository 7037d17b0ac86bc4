"""Repository variables on GitHub: https://docs.github.com/rest/actions/variables."""

from __future__ import annotations

from ci_compiler.github.client import Client

_VARIABLES = "actions/variables"


def read_variable(client: Client, name: str) -> str:
    """The value of the variable `name`; '' if there is none. Raises GitHubError."""
    what, path = f"read {name}", f"{_VARIABLES}/{name}"
    return client.request(what, "GET", path, read=lambda answer: str(answer["value"]), absent="")


def write_variable(client: Client, name: str, value: str, *, before: str) -> None:
    """Changes the variable `name`, whose value was `before`; '' in either place: no variable. Raises GitHubError."""
    body, own = {"name": name, "value": value}, f"{_VARIABLES}/{name}"
    if value:
        verb, path = ("PATCH", own) if before else ("POST", _VARIABLES)
        client.request(f"write {name}", verb, path, body, read=lambda _: None)
    elif before:
        client.request(f"remove {name}", "DELETE", own, read=lambda _: None)
