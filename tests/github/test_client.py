"""Calls to GitHub: pages, kinds of failures, which calls are retried, and how long they wait."""

from __future__ import annotations

import base64
import errno
import logging
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from github import Auth

from ci_compiler.errors import InputError
from ci_compiler.github.access import Access, AppKey
from ci_compiler.github.client import AT_ONCE, Client
from ci_compiler.github.errors import GitHubError, Trouble
from ci_compiler.github.inventory import of_repository
from ci_compiler.github.registration import Registrar
from ci_compiler.secret import Secret

from .state import NOW, REPOSITORY, TOKEN, Fault, GitHub
from .talk import Jumping, Talk, talk

LABELS = ("self-hosted", "linux", "x64")


def trouble_of(ask: Callable[[], object]) -> GitHubError:
    with pytest.raises(GitHubError) as raised:
        ask()
    [finding] = raised.value.findings
    assert "\n" not in str(finding)
    return raised.value


def asked(github: GitHub, method: str) -> int:
    return sum(one == method for one, _, _ in github.asked)


def list_runners(talking: Talk) -> list[str]:
    return [runner.name for runner in of_repository(talking.client)]


def test_all_pages_are_read(github: GitHub) -> None:
    names = [f"runner-{number}" for number in range(250)]
    for name in names:
        github.add_runner(name, LABELS)
    assert list_runners(talk(github)) == names
    assert [runner.name for runner in Registrar(talk(github).client).runners()] == names
    assert sum("/actions/runners?" in path for _, path, _ in github.asked) == 6


@pytest.mark.parametrize(
    ("fault", "trouble", "says"),
    [
        (Fault(401, message="Bad credentials"), Trouble.TOKEN, "refused the token"),
        (
            Fault(
                403,
                message="Resource not accessible by personal access token",
                headers={"X-Accepted-GitHub-Permissions": "administration=read"},
            ),
            Trouble.FORBIDDEN,
            "the token may not do this; it needs administration: read",
        ),
        (Fault(404, message="Not Found"), Trouble.MISSING, "it does not exist, or the token may not see it"),
        (Fault(409, message="Conflict"), Trouble.CONFLICT, "conflicts"),
        (
            Fault(422, body=b'{"message": "Validation Failed", "errors": ["labels is too long"]}'),
            Trouble.REFUSED,
            "GitHub refused it (422): Validation Failed; labels is too long",
        ),
        (Fault(200, body=b"<html>sign in to the guest network</html>"), Trouble.GARBLED, "not GitHub's"),
        (Fault(200, body=b'{"total_count"'), Trouble.GARBLED, "not GitHub's"),
        (Fault(500), Trouble.SERVER, "GitHub failed (500)"),
        (Fault(503), Trouble.SERVER, "GitHub failed (503)"),
        (Fault(0), Trouble.CONNECTION, "the connection was cut"),
        (Fault(0, cut=900), Trouble.CONNECTION, "the connection was cut"),
        (Fault(429, headers={"Retry-After": "30"}), Trouble.RATE, "until 12:00:30 UTC (for 30 s)"),
        (
            Fault(403, message="API rate limit exceeded for installation ID 1."),
            Trouble.RATE,
            "rate limit is used up until 12:01:00 UTC",
        ),
        (
            Fault(403, message="You have exceeded a secondary rate limit. Please wait."),
            Trouble.RATE,
            "rate limit is used up",
        ),
    ],
)
def test_each_kind_of_failure_is_one_line(github: GitHub, fault: Fault, trouble: Trouble, says: str) -> None:
    talking = talk(github, patience=AT_ONCE)
    assert talking.client.repository
    github.faults.append(fault)
    error = trouble_of(lambda: list_runners(talking))
    assert (error.trouble, error.findings[0].code) == (trouble, trouble.value)
    assert str(error).startswith(f"127.0.0.1: list the runners of {REPOSITORY}: ")
    assert str(error).endswith(f" [{trouble}]")
    assert says in str(error)
    assert not talking.clock.slept


def test_an_unreachable_host_is_a_failed_connection() -> None:
    unreachable = GitHub()
    unreachable.url = "http://127.0.0.1:9"
    error = trouble_of(lambda: talk(unreachable, patience=AT_ONCE).client.repository)
    assert (error.trouble, error.said, error.uncertain) == (
        Trouble.CONNECTION,
        "no connection (Connection refused)",
        False,
    )


def test_a_machine_without_descriptors_has_no_connection(github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was sent, so the caller may ask again."""
    talking = talk(github, patience=AT_ONCE)

    def none_left(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched:
        patched.setattr(socket, "socket", none_left)
        error = trouble_of(lambda: talking.client.repository)
    assert (error.trouble, error.said, error.uncertain) == (
        Trouble.CONNECTION,
        "no connection (Too many open files)",
        False,
    )
    assert not github.asked


@pytest.mark.parametrize("fault", [Fault(502), Fault(0), Fault(0, cut=1), Fault(200, body=b"half a p")])
def test_transient_failures_are_retried_with_growing_pauses(github: GitHub, fault: Fault) -> None:
    talking = talk(github)
    github.add_runner("one", LABELS)
    assert talking.client.repository
    github.faults += [fault, fault, fault]
    assert list_runners(talking) == ["one"]
    first, second, third = talking.clock.slept
    assert 1 <= first <= 2 <= second <= 4 <= third <= 8
    assert len(talking.said) == 3
    assert all(f"list the runners of {REPOSITORY}" in line and "; waiting " in line for line in talking.said)


def test_it_gives_up_after_four_attempts(github: GitHub) -> None:
    talking = talk(github)
    github.faults += [Fault(500)] * 9
    assert trouble_of(lambda: talking.client.repository).trouble is Trouble.SERVER
    assert asked(github, "GET") == 4


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422])
def test_lasting_failures_are_not_retried(github: GitHub, status: int) -> None:
    talking = talk(github)
    github.faults += [Fault(status)] * 2
    trouble_of(lambda: talking.client.repository)
    assert asked(github, "GET") == 1
    assert not talking.said


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (Fault(429, headers={"Retry-After": "30"}), 30),
        (Fault(403, message="blocked", headers={"Retry-After": "7"}), 7),
        (
            Fault(
                403,
                message="API rate limit exceeded",
                headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(NOW) + 600)},
            ),
            601,
        ),
    ],
)
def test_the_wait_for_a_rate_limit_uses_githubs_clock(github: GitHub, fault: Fault, seconds: float) -> None:
    talking = talk(github)
    talking.clock.at += 5000  # this machine's clock is wrong
    github.faults.append(fault)
    assert talking.client.repository.full_name == REPOSITORY
    assert talking.clock.slept == [seconds]
    [line] = talking.said
    assert "rate limit is used up" in line
    assert f"waiting {seconds} s" in line or "waiting 10 min" in line


def test_a_rate_limit_of_an_hour_is_not_waited_for(github: GitHub) -> None:
    talking = talk(github)
    github.faults.append(Fault(429, headers={"Retry-After": "3000"}))
    error = trouble_of(lambda: talking.client.repository)
    assert (error.trouble, error.wait, talking.clock.slept) == (Trouble.RATE, 3000, [])
    assert "(for 50 min)" in str(error)


@pytest.mark.parametrize("fault", [Fault(500, "POST"), Fault(0, "POST"), Fault(0, "POST", done=True, cut=1)])
def test_a_request_that_may_have_taken_effect_is_not_repeated(github: GitHub, fault: Fault) -> None:
    talking = talk(github)
    github.faults.append(fault)
    error = trouble_of(lambda: Registrar(talking.client).register("one", LABELS, 1))
    assert error.uncertain
    assert asked(github, "POST") == 1
    assert len(github.of()) == fault.done


def test_writes_are_a_second_apart(github: GitHub) -> None:
    talking = talk(github)
    registrar = Registrar(talking.client)
    for number in range(3):
        registrar.register(f"runner-{number}", LABELS, 1)
    assert talking.clock.slept == [1.0, 1.0]


def test_a_wrong_token_is_refused(github: GitHub) -> None:
    error = trouble_of(lambda: talk(github, token="ghp_wrong").client.repository)  # noqa: S106
    assert error.trouble is Trouble.TOKEN
    assert "ghp_wrong" not in str(error)


def test_the_configuration_of_a_runner_is_never_shown(
    github: GitHub, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    talking = talk(github)
    made = Registrar(talking.client).register("one", LABELS, 1)
    [secret] = github.secrets
    assert made.jit.reveal() == secret
    shown = [repr(made), str(made), f"{made.jit}", f"{made.jit!r:>9}", str([made]), "%s" % made.jit]  # noqa: UP031
    shown += [caplog.text, *capfd.readouterr(), *talking.said]
    assert not any(secret in text for text in shown)
    assert made.jit.cut_from(f"x {secret} y") == "x *** y"
    with pytest.raises(TypeError):
        __import__("pickle").dumps(made.jit)


def app_client(github: GitHub, key: str) -> Client:
    credential = AppKey(app="123", key=Secret(key))
    access = Access(api=github.url, repository=REPOSITORY, credential=credential)
    return Client(access, say=print, clock=Jumping())


def test_an_app_works_like_a_token(github: GitHub) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    client = app_client(github, pem.decode())
    assert client.repository.full_name == REPOSITORY
    assert isinstance(client.github.requester.auth, Auth.AppInstallationAuth)
    given = client.git_environment()
    assert given["GIT_CONFIG_KEY_0"] == "http.https://127.0.0.1/.extraHeader"
    scheme, _, basic = given["GIT_CONFIG_VALUE_0"].removeprefix("AUTHORIZATION: ").partition(" ")
    assert (scheme, base64.b64decode(basic).decode()) == ("basic", f"x-access-token:{TOKEN}")


def test_git_keeps_the_credentials_of_its_user_without_an_app(github: GitHub) -> None:
    assert talk(github).client.git_environment() == {}


def test_a_wrong_key_of_an_app_is_reported(github: GitHub) -> None:
    with pytest.raises(InputError, match="GITHUB_APP_PRIVATE_KEY: is not a private key"):
        _ = app_client(github, "no key").repository


def test_an_unchanged_runner_is_read_by_a_request_that_counts_against_no_limit(github: GitHub) -> None:
    registrar = Registrar(talk(github).client)
    number = github.add_runner("one", LABELS)["id"]
    seen = [registrar.runner(number) for _ in range(3)]
    assert [one and one.online for one in seen] == [True] * 3
    assert (asked(github, "GET"), github.unchanged) == (3, 2)
    github.runners[number]["status"] = "offline"
    assert [one and one.online for one in (registrar.runner(number), registrar.runner(number))] == [False, False]
    assert github.unchanged == 3
    del github.runners[number]
    assert registrar.runner(number) is None


@pytest.mark.parametrize("wait", ["99999999999", "86400"])
def test_an_absurd_rate_limit_is_capped(github: GitHub, wait: str) -> None:
    github.faults.append(Fault(429, headers={"Retry-After": wait}))
    error = trouble_of(lambda: list_runners(talk(github, patience=AT_ONCE)))
    assert (error.trouble, error.wait) == (Trouble.RATE, 3660.0)


def test_an_answer_that_trickles_in_counts_as_lost() -> None:
    """Each byte comes before the connection's own timeout."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not ended.wait(0.05):  # for more than an hour
                    connection.sendall(b" ")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        access = Access(api=url, repository=REPOSITORY, credential=Secret(TOKEN))
        patience = replace(AT_ONCE, limit=0.5)
        client = Client(access, say=print, clock=Jumping(), patience=patience)
        error = trouble_of(lambda: list(of_repository(client)))
        assert (error.trouble, error.said) == (Trouble.CONNECTION, "no answer in time")
        ended.set()
        thread.join()


def test_a_credential_that_was_replaced_is_read_again(github: GitHub) -> None:
    known = {"token": "ghs_expired"}

    def access() -> Access:
        return Access(api=github.url, repository=REPOSITORY, credential=Secret(known["token"]))

    said: list[str] = []
    client = Client(access(), say=said.append, clock=Jumping(), patience=AT_ONCE, renewed=access)
    assert trouble_of(lambda: list(of_repository(client))).trouble is Trouble.TOKEN
    known["token"] = TOKEN
    assert list(of_repository(client)) == []
    assert said == ["GitHub refused the credential; using the new one"]
