"""Access to GitHub: every source of address, repository and credential, their precedence, and the errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_compiler.errors import InputError
from ci_compiler.github.access import API, Access, AppKey, access
from ci_compiler.secret import Secret

ORIGIN = '[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'
HERE = {"GITHUB_TOKEN": "t0ken", "GITHUB_REPOSITORY": "my-org/stack"}


def checkout(root: Path, config: str) -> Path:
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text(config, "utf-8")
    return root


def said(environment: dict[str, str], root: Path, repository: str = "") -> str:
    with pytest.raises(InputError) as raised:
        access(environment, root, repository)
    [finding] = raised.value.findings
    return str(finding)


def token(found: Access) -> str:
    assert isinstance(found.credential, Secret)
    return found.credential.reveal()


def test_the_environment_comes_first_and_nothing_shows_the_token(tmp_path: Path) -> None:
    found = access({**HERE, "GH_TOKEN": "other"}, tmp_path)
    assert (found.api, found.repository, found.owner, found.host) == (API, "my-org/stack", "my-org", "api.github.com")
    assert token(found) == "t0ken"
    assert "t0ken" not in repr(found)
    assert token(access({"GH_TOKEN": " other\n", "GITHUB_REPOSITORY": "a/b"}, tmp_path)) == "other"
    assert access(HERE, tmp_path, "their/own").repository == "their/own"


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/my-org/stack.git",
        "https://x-access-token:secret@github.com/my-org/stack",
        "git@github.com:my-org/stack.git",
        "github-work:my-org/stack.git",
        "ssh://git@github.com/my-org/stack.git",
        "ssh://git@ssh.github.com:443/my-org/stack.git/",
    ],
)
def test_the_repository_is_that_of_the_remote(tmp_path: Path, url: str) -> None:
    root = checkout(tmp_path, ORIGIN.format(url=url))
    assert access({"GITHUB_TOKEN": "t"}, root).repository == "my-org/stack"


def test_origin_takes_precedence_over_other_remotes(tmp_path: Path) -> None:
    other = '[remote "fork"]\n\turl = https://github.com/me/stack\n'
    root = checkout(tmp_path, other + ORIGIN.format(url="https://github.com/my-org/stack"))
    assert access({"GITHUB_TOKEN": "t"}, root).repository == "my-org/stack"
    assert access({"GITHUB_TOKEN": "t"}, checkout(tmp_path / "fork", other)).repository == "me/stack"


def test_a_linked_worktree_has_the_remotes_of_its_repository(tmp_path: Path) -> None:
    main = checkout(tmp_path / "main", ORIGIN.format(url="https://github.com/my-org/stack"))
    own = main / ".git" / "worktrees" / "other"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n", "utf-8")
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").write_text(f"gitdir: {own}\n", "utf-8")
    assert access({"GITHUB_TOKEN": "t"}, other).repository == "my-org/stack"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (None, "GITHUB_REPOSITORY is not set and this is not a git checkout"),
        ("[core]\n", "the checkout has no remote; give --repository OWNER/NAME"),
        (
            ORIGIN.format(url="https://gitlab.com/a/b"),
            "the remote is on gitlab.com, not on github.com",
        ),
        (ORIGIN.format(url="/srv/git/stack"), "the remote is on this machine, not on github.com"),
    ],
)
def test_a_checkout_without_a_repository_on_github_is_reported(tmp_path: Path, config: str | None, says: str) -> None:
    if config is not None:
        checkout(tmp_path, config)
    assert says in said({"GITHUB_TOKEN": "t"}, tmp_path)


@pytest.mark.parametrize("name", ["stack", "a/b/c", "a b/c", "../x", "a/"])
def test_an_invalid_repository_name_is_refused(tmp_path: Path, name: str) -> None:
    assert f"--repository: {name!r} is not OWNER/NAME" in said(HERE, tmp_path, name)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://api.github.com", "is not the address of an API"),
        ("api.github.com", "is not the address of an API"),
        ("https://me:secret@ghe.example", "is not the address of an API"),
        ("http://ghe.example/api/v3", "would send the token unencrypted"),
    ],
)
def test_a_token_is_not_sent_to_an_unsafe_address(tmp_path: Path, url: str, says: str) -> None:
    assert says in said({**HERE, "GITHUB_API_URL": url}, tmp_path)


def hosts(folder: Path, text: str) -> dict[str, str]:
    (folder / "gh").mkdir(parents=True)
    (folder / "gh" / "hosts.yml").write_text(text, "utf-8")
    return {"XDG_CONFIG_HOME": str(folder), "GITHUB_REPOSITORY": "my-org/stack"}


def test_the_login_of_gh_for_the_host_is_used(tmp_path: Path) -> None:
    text = "github.com:\n    user: me\n    oauth_token: gho_mine\nghe.example:\n    oauth_token: gho_work\n"
    environment = hosts(tmp_path, text)
    assert token(access(environment, tmp_path)) == "gho_mine"
    assert token(access({**environment, "GITHUB_API_URL": "https://ghe.example/api/v3"}, tmp_path)) == "gho_work"
    own = {"GH_CONFIG_DIR": str(tmp_path / "gh"), "GITHUB_REPOSITORY": "a/b"}
    assert token(access(own, tmp_path)) == "gho_mine"
    assert "no-token" in said({**environment, "GITHUB_API_URL": "https://api.tenant.ghe.com"}, tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("github.com:\n    user: me\n", "in the keyring; run with GITHUB_TOKEN=$(gh auth token)"),
        ("github.com: [", "gh's logins cannot be read"),
        ("github.com:\n    oauth_token: gho_a gho_b\n", "is not a token"),
        ("[]", "neither GITHUB_TOKEN nor GH_TOKEN is set and gh is not logged in"),
    ],
)
def test_a_login_without_a_token_is_reported(tmp_path: Path, text: str, says: str) -> None:
    assert says in said(hosts(tmp_path, text), tmp_path)


def test_a_malformed_token_is_refused_without_being_shown(tmp_path: Path) -> None:
    line = said({"GITHUB_TOKEN": "ghp_one ghp_two", "GITHUB_REPOSITORY": "a/b"}, tmp_path)
    assert line.startswith("GITHUB_TOKEN: its value")
    assert "ghp" not in line


def test_an_app_takes_precedence_over_tokens(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("PRIVATE", "utf-8")
    found = access({**HERE, "GITHUB_APP_ID": "7", "GITHUB_APP_PRIVATE_KEY_FILE": str(key)}, tmp_path)
    assert isinstance(found.credential, AppKey)
    assert (found.credential.app, found.credential.key.reveal()) == ("7", "PRIVATE")
    assert "PRIVATE" not in repr(found)
    assert "set GITHUB_APP_PRIVATE_KEY or" in said({**HERE, "GITHUB_APP_ID": "7"}, tmp_path)
    missing = {**HERE, "GITHUB_APP_ID": "7", "GITHUB_APP_PRIVATE_KEY_FILE": str(tmp_path / "none")}
    assert "cannot be read: No such file" in said(missing, tmp_path)
