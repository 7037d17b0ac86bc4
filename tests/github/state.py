"""A GitHub for tests: stores runners, workflows and runs, responds as GitHub does, and fails on demand.

Every request and response is validated against GitHub's own description of its API; errors are collected in `problems`
and fail the test. Time stands still: the test itself triggers every event.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

from .description import Json, Operation, description

OWNER = "my-org"
NAME = "stack"
REPOSITORY = f"{OWNER}/{NAME}"
TOKEN = "ghs_secret0123456789"  # noqa: S105
NOW = 1790856000.0
"""The time on its clock: 2026-10-01, 12:00:00 UTC."""


@dataclass(frozen=True)
class Fault:
    """A fault: the requests that it applies to, and the response that replaces (or, if `done`, follows) the real one.

    `status` 0 cuts the connection: before the response, or after `cut` bytes of its body. With `waits`, the server then
    waits until the client closes its side; with `half`, it has closed its own before.
    """

    status: int
    method: str = ""
    path: str = ""
    message: str = "trouble"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    done: bool = False
    cut: int = 0
    waits: bool = False
    half: bool = False

    def is_for(self, method: str, path: str) -> bool:
        return self.method in {"", method} and re.search(self.path, path) is not None


@dataclass(frozen=True)
class Request:
    """A request: its scope (`my-org/stack`, `my-org`), the parameters in its path, its query and body."""

    path: str
    owner: str
    known: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: Any


@dataclass
class Answer:
    """A response; `None`: no body."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def refusal(status: int, message: str) -> Answer:
    return Answer(status, {"message": message, "documentation_url": "https://docs.github.com/rest"})


class GitHub:
    """The state of GitHub. `faults` apply in order, each to the first request that it matches.

    `chance` may make a fault for any other request, by its method and target.
    """

    def __init__(self, *, organisation: bool = False) -> None:
        self.organisation = organisation
        self.public = False
        self.url = ""
        self.token = TOKEN
        self.runners: dict[int, Json] = {}
        self.owners: dict[int, str] = {}
        self.groups: dict[int, Json] = {}
        self.hidden_groups: set[int] = set()
        self.workflows: dict[str, Json] = {}
        self.branches: set[str] = {"main"}
        self.runs: list[Json] = []
        self.jobs: dict[int, list[Json]] = {}
        self.scripts: dict[int, list[Callable[[], None]]] = {}
        self.dispatched: list[Json] = []
        self.details = "known"
        self.secrets: list[str] = []
        self.variables: dict[str, str] = {}
        self.pages = False
        self.settings: dict[str, Json] = {}
        self.environments: dict[str, Json] = {}
        self.rules: dict[str, list[Json]] = {}
        self.protected: dict[str, Json] = {}
        self.secret_names: dict[str, list[str]] = {}
        self.pulls: dict[int, Json] = {}
        self.comments: dict[int, list[Json]] = {}
        self.issues: dict[int, Json] = {}
        self.annotations: dict[int, list[str]] = {}
        self.artifacts: dict[int, list[Json]] = {}
        self.storage: dict[str, bytes] = {}
        self.releases: dict[int, Json] = {}
        self.cut_upload = ""
        self.deleted_tags: list[str] = []
        self.tags: dict[str, str] = {}
        self.moves: dict[str, list[str]] = {}
        self.most_listed = 1000
        self.rerun: list[int] = []
        self.faults: list[Fault] = []
        self.chance: Callable[[str, str], Fault | None] = lambda *_: None
        self.asked: list[tuple[str, str, Any]] = []
        self.unchanged = 0
        self.problems: list[str] = []
        self.on_register: Callable[[Json], None] = lambda _: None
        self.on_dispatch: Callable[[Json], None] = lambda _: None
        self.configurations: dict[str, int] = {}
        self._next = 1000
        self._lock = threading.Lock()

    # What tests put into it, and see.

    def add_runner(self, name: str, labels: Iterable[str] = (), *, owner: str = REPOSITORY, **more: Any) -> Json:
        """Adds a runner, online and idle unless `more` says otherwise."""
        number = self._number()
        runner = {"id": number, "name": name, "os": "linux", "status": "online", "busy": False, "ephemeral": True}
        runner["labels"] = [{"id": at, "name": label, "type": "custom"} for at, label in enumerate(labels)]
        self.runners[number] = runner | more
        self.owners[number] = owner
        return self.runners[number]

    def add_group(self, name: str, *, default: bool = False, visible: bool = True) -> int:
        """Adds a runner group of the organisation; one that is not visible does not serve the repository."""
        number = self._number()
        [example] = description().example("runner-groups-org")["runner_groups"][:1]
        self.groups[number] = example | {
            "id": number,
            "name": name,
            "default": default,
            "allows_public_repositories": False,
        }
        if not visible:
            self.hidden_groups.add(number)
        return number

    def push(self, files: Mapping[str, str]) -> None:
        """Pushes the compiled files to the default branch: each workflow with the inputs of its form."""
        for path, text in files.items():
            if not path.startswith(".github/workflows/"):
                continue
            document = yaml.safe_load(text)
            on = document.get("on") or document[True]
            form = (on.get("workflow_dispatch") or {}).get("inputs") if "workflow_dispatch" in on else None
            number = self._number()
            example = description().example("workflow")
            self.workflows[path] = example | {
                "id": number,
                "path": path,
                "url": f"{self.url}/repos/{REPOSITORY}/actions/workflows/{number}",
                "form": form,
                "document": document,
            }

    def add_run(self, path: str, jobs: Iterable[tuple[str, str, str | None]], **more: Any) -> Json:
        """Adds a run of the workflow at `path`, whose jobs have these names, statuses and conclusions."""
        number = self._number()
        run = description().example("workflow-run")
        url = f"{self.url}/repos/{REPOSITORY}/actions/runs/{number}"
        run |= {
            "id": number,
            "workflow_id": self.workflows[path]["id"],
            "path": f"{path}@refs/heads/main",
            "head_branch": "main",
            "url": url,
            "jobs_url": f"{url}/jobs",
            "html_url": f"https://github.com/{REPOSITORY}/actions/runs/{number}",
            "status": "completed",
            "conclusion": "success",
            "created_at": "2026-10-01T12:00:00Z",
        }
        self.runs.append(run | more)
        self.set_jobs(number, jobs)
        return self.runs[-1]

    def set_jobs(self, run: int, jobs: Iterable[tuple[str, str, str | None]]) -> None:
        """Replaces the jobs of a run."""
        example = description().example("job-paginated")["jobs"][0]
        known = {"run_id": run, "workflow_name": "Build", "head_branch": "main", "created_at": "2026-10-01T12:00:00Z"}
        self.jobs[run] = [
            example | known | {"id": self._number(), "name": name, "status": status, "conclusion": conclusion}
            for name, status, conclusion in jobs
        ]

    def record(self, runs: Iterable[Json]) -> None:
        """Adds recorded runs: each has the keys of GitHub's answer that matter, and its `jobs`."""
        example = description().example("job-paginated")["jobs"][0]
        for run in runs:
            given = {key: value for key, value in run.items() if key not in {"workflow", "jobs"}}
            number = self.add_run(run["workflow"], [], **given)["id"]
            self.jobs[number] = [
                example | {"run_id": number, "workflow_name": "Build", "head_branch": "main"} | job
                for job in run["jobs"]
            ]

    def add_issue(self, *, body: str, by: str = "Bot", association: str = "NONE", **more: Any) -> Json:
        """Adds an open issue by an account of the type `by`."""
        number, example = self._number(), description().example("issue")
        del example["pull_request"]
        links = {"number": number, "html_url": f"https://github.com/{REPOSITORY}/issues/{number}"}
        example["user"]["type"] = by
        states = {"state": "open", "state_reason": None, "author_association": association}
        self.issues[number] = example | links | states | {"body": body} | more
        return self.issues[number]

    def add_artifact(self, run: int, name: str, content: bytes, **more: Any) -> Json:
        """An artifact of a run with the archive `content`."""
        [example] = description().example("artifact-paginated")["artifacts"][:1]
        number = self._number()
        self.storage[f"/storage/{number}"] = content
        made = example | {"id": number, "name": name, "size_in_bytes": len(content)} | more
        self.artifacts.setdefault(run, []).insert(0, made)
        return made

    def stored(self, path: str, headers: Mapping[str, str]) -> bytes | None:
        """The archive in the storage, which must not see a credential."""
        if "Authorization" in headers:
            self.problems.append("the storage of artifacts was sent a credential")
        return self.storage.get(path)

    def add_comment(self, number: int, body: str, *, login: str = "somebody", kind: str = "User") -> Json:
        """Adds a comment by an account of the type `kind` to a pull request."""
        made, example = self._number(), description().example("issue-comment")
        example["user"] |= {"login": login, "type": kind}
        url = f"https://github.com/{REPOSITORY}/pull/{number}#issuecomment-{made}"
        self.comments[number].append(example | {"id": made, "body": body, "html_url": url})
        return self.comments[number][-1]

    def of(self, owner: str = REPOSITORY) -> list[Json]:
        """The runners of the repository, or of the organisation."""
        return [runner for number, runner in self.runners.items() if self.owners[number] == owner]

    def _number(self) -> int:
        self._next += 1
        return self._next

    # What it answers.

    def answer(self, method: str, target: str, body: Any, headers: Mapping[str, str]) -> Answer | Fault:
        """The validated response to a request, or the fault that applies to it."""
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        with self._lock:
            self.asked.append((method, target, body))
            asked = description().operation(method, parts.path)
            if asked is None:
                self.problems.append(f"GitHub has no {method} {parts.path}")
                return refusal(404, "Not Found")
            self.problems += description().request_problems(asked, query, body)
            fault = next((one for one in self.faults if one.is_for(method, target)), None)
            if fault is not None:
                self.faults.remove(fault)
            else:
                fault = self.chance(method, target)
            if fault is not None and not fault.done:
                return fault
            known = asked.arguments
            owner = known["org"] if "org" in known else f"{known.get('owner', '')}/{known.get('repo', '')}"
            request = Request(path=parts.path, owner=owner, known=known, query=query, body=body)
            answer = self._answer(asked, request, headers)
            self.problems += description().answer_problems(asked, answer.status, answer.body)
            return fault or self._unless_known(method, answer, headers)

    def _unless_known(self, method: str, answer: Answer, headers: Mapping[str, str]) -> Answer:
        """The answer to a GET with its entity tag, or 304, which counts against no limit, if the client has it."""
        if method != "GET" or answer.status != 200:
            return answer
        answer.headers["ETag"] = f'W/"{zlib.crc32(json.dumps(answer.body, default=str).encode()):08x}"'
        if headers.get("If-None-Match") != answer.headers["ETag"]:
            return answer
        self.unchanged += 1
        return Answer(304, headers=answer.headers)

    def _answer(self, asked: Operation, request: Request, headers: Mapping[str, str]) -> Answer:
        given = headers.get("Authorization", "").split(" ")[-1]
        as_app = asked.template.startswith("/app/") or asked.template.endswith("/installation")
        if given.count(".") != 2 if as_app else given != self.token:
            return refusal(401, "Bad credentials")
        if request.owner not in {OWNER, REPOSITORY, "/"} or (request.owner == OWNER and not self.organisation):
            return refusal(404, "Not Found")
        tail = re.sub(r"^/(repos/\{owner\}/\{repo\}|orgs/\{org\})", "", asked.template)
        return _ANSWERS[f"{asked.method} {tail}"](self, request)

    @cached_property
    def contents(self) -> dict[str, bytes]:
        """What was uploaded to releases, by the name of the asset."""
        return {}

    def list_releases(self, request: Request) -> Answer:
        return self._page("", [*self.releases.values()], request)

    def create_release(self, request: Request) -> Answer:
        number, example = self._number(), description().example("release")
        url = f"{self.url}/repos/{REPOSITORY}/releases/{number}"
        upload = {"url": url, "upload_url": f"{url}/assets{{?name,label}}", "id": number, "assets": []}
        self.releases[number] = example | upload | {"body": "", "draft": False} | request.body
        return Answer(201, self.releases[number])

    def update_release(self, request: Request) -> Answer:
        release = self.releases[int(request.known["release_id"])]
        release.update({key: value for key, value in request.body.items() if value is not None})
        return Answer(200, release)

    def delete_release(self, request: Request) -> Answer:
        del self.releases[int(request.known["release_id"])]
        return Answer(204)

    def read_tag(self, request: Request) -> Answer:
        commit = self.tags.get(request.known["ref"].removeprefix("tags/"))
        if commit is None:
            return refusal(404, "Not Found")
        url = f"{self.url}/repos/{REPOSITORY}/git/commits/{commit}"
        at = {"type": "commit", "sha": commit, "url": url}
        return Answer(200, {"ref": f"refs/{request.known['ref']}", "node_id": "REF", "url": url, "object": at})

    def delete_tag(self, request: Request) -> Answer:
        self.deleted_tags.append(request.known["ref"])
        return Answer(204)

    def list_assets(self, request: Request) -> Answer:
        return self._page("", self.releases[int(request.known["release_id"])]["assets"], request)

    def upload_asset(self, request: Request) -> Answer:
        """Keeps an asset; one whose upload is cut becomes a `starter` (GitHub Docs, "Upload a release asset")."""
        release, name = self.releases[int(request.known["release_id"])], request.query["name"][0]
        if any(asset["name"] == name for asset in release["assets"]):
            return refusal(422, "already_exists")
        number, broken = self._number(), name == self.cut_upload
        self.contents[name] = request.body
        more = {
            "id": number,
            "url": f"{self.url}/repos/{REPOSITORY}/releases/assets/{number}",
            "name": name,
            "label": request.query.get("label", [""])[0],
            "state": "starter" if broken else "uploaded",
            "size": len(request.body),
            "digest": None if broken else f"sha256:{hashlib.sha256(request.body).hexdigest()}",
        }
        release["assets"].append(description().example("release-asset") | more)
        self.cut_upload = "" if broken else self.cut_upload
        return refusal(502, "the upload was cut") if broken else Answer(201, release["assets"][-1])

    def delete_asset(self, request: Request) -> Answer:
        for release in self.releases.values():
            release["assets"] = [one for one in release["assets"] if one["id"] != int(request.known["asset_id"])]
        return Answer(204)

    def repository(self, _: Request) -> Answer:
        repository = description().example("full-repository-default-response")
        del repository["parent"], repository["source"]  # GitHub's own example lacks what its description requires
        repository["language"] = None
        repository |= {"private": not self.public, "visibility": "public" if self.public else "private"}
        repository["owner"]["type"] = "Organization" if self.organisation else "User"
        return Answer(200, repository | {"full_name": REPOSITORY, "url": f"{self.url}/repos/{REPOSITORY}"})

    def installation(self, _: Request) -> Answer:
        return Answer(200, description().example("installation") | {"id": 7})

    def installation_token(self, _: Request) -> Answer:
        return Answer(201, description().example("installation-token") | {"token": self.token})

    def list_runners(self, request: Request) -> Answer:
        wanted = request.query.get("name", [""])[0]
        found = [runner for runner in self.of(request.owner) if wanted in {"", runner["name"]}]
        return self._page("runners", found, request)

    def read_runner(self, request: Request) -> Answer:
        runner = self.runners.get(int(request.known["runner_id"]))
        known = runner is not None and self.owners[runner["id"]] == request.owner
        return Answer(200, runner) if known else refusal(404, "Not Found")

    def register(self, request: Request) -> Answer:
        if any(runner["name"] == request.body["name"] for runner in self.of(request.owner)):
            return refusal(409, "Already exists - A runner with the name *** already exists.")
        if request.owner == OWNER and request.body["runner_group_id"] not in self.groups:
            return refusal(422, "Runner group not found")
        extra = {"status": "offline", "runner_group_id": request.body["runner_group_id"]}
        runner = self.add_runner(request.body["name"], request.body["labels"], owner=request.owner, **extra)
        secret = base64.b64encode(f"configuration of {request.body['name']}".encode()).decode()
        self.secrets.append(secret)
        self.configurations[secret] = runner["id"]
        self.on_register(runner)
        return Answer(201, {"runner": runner, "encoded_jit_config": secret})

    def connect(self, configuration: str) -> int:
        """The status with which GitHub answers a runner that begins to listen with `configuration`.

        Only a registered runner gets a token for its session, and it has one session at a time.
        """
        runner = self.runners.get(self.configurations.get(configuration, 0))
        if runner is None:
            return 401
        taken, runner["status"] = runner["status"] == "online", "online"
        return 409 if taken else 200

    def remove(self, request: Request) -> Answer:
        runner = self.runners.get(int(request.known["runner_id"]))
        if runner is None or self.owners[runner["id"]] != request.owner:
            return refusal(404, "Not Found")
        if runner["busy"]:
            message = f'Bad request - Runner "{runner["name"]}" is currently running a job and cannot be deleted.'
            return refusal(422, message)
        del self.runners[runner["id"]]
        return Answer(204)

    def list_groups(self, request: Request) -> Answer:
        hidden = self.hidden_groups if "visible_to_repository" in request.query else set()
        found = [group for number, group in self.groups.items() if number not in hidden]
        return self._page("runner_groups", found, request)

    def list_group(self, request: Request) -> Answer:
        group = int(request.known["runner_group_id"])
        found = [runner for runner in self.of(request.owner) if runner.get("runner_group_id") == group]
        return self._page("runners", found, request)

    def list_workflows(self, request: Request) -> Answer:
        found = [
            {key: value for key, value in one.items() if key not in {"form", "document"}}
            for one in self.workflows.values()
        ]
        return self._page("workflows", found, request)

    def dispatch(self, request: Request) -> Answer:
        number = int(request.known["workflow_id"])
        path, workflow = next((path, one) for path, one in self.workflows.items() if one["id"] == number)
        if self.details == "refused" and "return_run_details" in request.body:
            return refusal(422, 'Invalid request.\n\n"return_run_details" is not a permitted key.')
        if request.body["ref"] not in self.branches:
            return refusal(422, f"No ref found for: {request.body['ref']}")
        if wrong := list(_wrong_inputs(workflow["form"], request.body["inputs"])):
            return refusal(422, wrong[0])
        self.dispatched.append({"path": path, "ref": request.body["ref"], **request.body["inputs"]})
        run = self.add_run(
            path,
            [],
            event="workflow_dispatch",
            status="queued",
            conclusion=None,
            head_branch=request.body["ref"],
            display_title=_title(workflow["document"], request.body["inputs"]),
        )
        self.on_dispatch(run)
        if self.details != "known" or not request.body.get("return_run_details"):
            return Answer(204)
        return Answer(200, {"workflow_run_id": run["id"], "run_url": run["url"], "html_url": run["html_url"]})

    def list_runs(self, request: Request) -> Answer:
        asked = request.known["workflow_id"]
        ids = {str(one["id"]): one["id"] for one in self.workflows.values()}
        ids |= {path.rpartition("/")[2]: one["id"] for path, one in self.workflows.items()}
        if asked not in ids:
            return refusal(404, "Not Found")
        found = [run for run in reversed(self.runs) if run["workflow_id"] == ids[asked]]
        for key, name in (("branch", "head_branch"), ("event", "event")):
            found = [run for run in found if key not in request.query or run[name] == request.query[key][0]]
        if "created" in request.query:
            found = [run for run in found if run["created_at"] >= request.query["created"][0].removeprefix(">=")]
        return self._page("workflow_runs", found, request)

    def list_all_runs(self, request: Request) -> Answer:
        found = sorted(self.runs, key=lambda run: str(run["created_at"]), reverse=True)
        if "status" in request.query:
            wanted = request.query["status"][0]
            found = [run for run in reversed(self.runs) if wanted in {run["status"], run["conclusion"]}]
        first, dots, last = request.query.get("created", [""])[0].partition("..")
        if dots:
            found = [run for run in found if first <= run["created_at"] <= last]
        return self._page("workflow_runs", found, request, most=self.most_listed)

    def list_annotations(self, request: Request) -> Answer:
        [example] = description().example("check-annotation-items")
        messages = self.annotations.get(int(request.known["check_run_id"]), [])
        return Answer(200, [example | {"annotation_level": "failure", "message": message} for message in messages])

    def rerun_failed(self, request: Request) -> Answer:
        self.rerun.append(int(request.known["run_id"]))
        run = next(run for run in self.runs if run["id"] == self.rerun[-1])
        run |= {"run_attempt": run["run_attempt"] + 1, "status": "queued", "conclusion": None}
        return Answer(201, {})

    def list_issues(self, request: Request) -> Answer:
        size, page = (int(request.query[name][0]) for name in ("per_page", "page"))
        found = [one for one in self.issues.values() if one["state"] == request.query["state"][0]]
        return Answer(200, found[(page - 1) * size : page * size])

    def open_issue(self, request: Request) -> Answer:
        return Answer(201, self.add_issue(**request.body))

    def edit_issue(self, request: Request) -> Answer:
        issue = self.issues[int(request.known["issue_number"])]
        issue.update(request.body)
        return Answer(200, issue)

    def run(self, request: Request) -> Answer:
        number = int(request.known["run_id"])
        if self.scripts.get(number):
            self.scripts[number].pop(0)()
        return next((Answer(200, run) for run in self.runs if run["id"] == number), refusal(404, "Not Found"))

    def list_jobs(self, request: Request) -> Answer:
        number = int(request.known["run_id"])
        return self._page("jobs", self.jobs[number], request)

    def list_artifacts(self, request: Request) -> Answer:
        found = self.artifacts.get(int(request.known["run_id"]), [])
        named = request.query.get("name", [])
        return self._page("artifacts", [one for one in found if not named or one["name"] == named[0]], request)

    def list_all_artifacts(self, request: Request) -> Answer:
        [name] = request.query["name"]
        found = [
            one | {"workflow_run": (one["workflow_run"] or {}) | {"id": run}}
            for run, artifacts in self.artifacts.items()
            for one in artifacts
            if one["name"] == name
        ]
        return self._page("artifacts", sorted(found, key=lambda one: -one["id"]), request)

    def list_activity(self, request: Request) -> Answer:
        [ref] = request.query["ref"]
        [example] = description().example("activity-items")[:1]
        example |= {"ref": ref, "timestamp": "2026-10-01T12:00:00Z", "activity_type": "push", "actor": None}
        return Answer(200, [example | {"after": commit} for commit in self.moves.get(ref, ())])

    def download(self, request: Request) -> Answer:
        number = int(request.known["artifact_id"])
        expired = {one["id"]: one["expired"] for artifacts in self.artifacts.values() for one in artifacts}
        if expired[number]:
            return refusal(410, "Artifact has expired")
        storage = self.url.replace("127.0.0.1", "localhost")
        return Answer(302, headers={"Location": f"{storage}/storage/{number}"})

    def variable(self, request: Request) -> Answer:
        value = self.variables.get(request.known["name"])
        if value is None:
            return refusal(404, "Not Found")
        dates = {"created_at": "2026-10-01T12:00:00Z", "updated_at": "2026-10-01T12:00:00Z"}
        return Answer(200, {"name": request.known["name"], "value": value} | dates)

    def create_variable(self, request: Request) -> Answer:
        if request.body["name"] in self.variables:
            return refusal(409, "Already exists - Variable already exists")
        self.variables[request.body["name"]] = request.body["value"]
        return Answer(201, {})

    def change_variable(self, request: Request) -> Answer:
        if request.known["name"] not in self.variables:
            return refusal(404, "Not Found")
        self.variables[request.known["name"]] = request.body["value"]
        return Answer(204)

    def remove_variable(self, request: Request) -> Answer:
        return Answer(204) if self.variables.pop(request.known["name"], None) else refusal(404, "Not Found")

    def list_pulls(self, request: Request) -> Answer:
        head, base = request.query["head"][0], request.query["base"][0]
        example = description().example("pull-request-simple-items")[0]
        found = [one for one in self.pulls.values() if (f"{OWNER}:{one['head']}", one["base"]) == (head, base)]
        return Answer(200, [example | _NO_TEAMS | {key: one[key] for key in _LINKS} for one in found])

    def open_pull(self, request: Request) -> Answer:
        if any(one["head"] == request.body["head"] for one in self.pulls.values()):
            return refusal(422, f"A pull request already exists for {OWNER}:{request.body['head']}.")
        number = self._number()
        url = f"repos/{REPOSITORY}/pulls/{number}"
        links = {
            "number": number,
            "url": f"{self.url}/{url}",
            "html_url": f"https://github.com/{REPOSITORY}/pull/{number}",
        }
        self.pulls[number] = dict(request.body) | links
        return Answer(201, _pull() | links)

    def edit_pull(self, request: Request) -> Answer:
        number = int(request.known["pull_number"])
        self.pulls[number] |= request.body
        return Answer(200, _pull() | {key: self.pulls[number][key] for key in _LINKS})

    def list_comments(self, request: Request) -> Answer:
        size, page = (int(request.query[name][0]) for name in ("per_page", "page"))
        return Answer(200, self.comments[int(request.known["issue_number"])][(page - 1) * size : page * size])

    def write_comment(self, request: Request) -> Answer:
        number, own = int(request.known["issue_number"]), {"login": "github-actions[bot]", "kind": "Bot"}
        return Answer(201, self.add_comment(number, request.body["body"], **own))

    def edit_comment(self, request: Request) -> Answer:
        every = (one for comments in self.comments.values() for one in comments)
        found = next((one for one in every if one["id"] == int(request.known["comment_id"])), None)
        if found is None:
            return refusal(404, "Not Found")
        found |= request.body
        return Answer(200, found)

    def read_pages(self, _: Request) -> Answer:
        return Answer(200, description().example("page")) if self.pages else refusal(404, "Not Found")

    def setting(self, request: Request) -> Answer:
        """A setting of Actions, by the last part of its path."""
        return Answer(200, self.settings[request.path.rpartition("/")[2]])

    def list_environments(self, request: Request) -> Answer:
        [example] = description().example("environments")["environments"]
        found = [
            example | {"name": name} | {key: value for key, value in one.items() if key != "branches"}
            for name, one in self.environments.items()
        ]
        return self._page("environments", found, request)

    def list_policies(self, request: Request) -> Answer:
        branches = self.environments[request.known["environment_name"]]["branches"]
        found = [{"id": at, "node_id": "x", "name": name, "type": "branch"} for at, name in enumerate(branches, 1)]
        return self._page("branch_policies", found, request)

    def list_secrets(self, request: Request) -> Answer:
        """The names of secrets: of the repository, of the organisation, or of an environment."""
        place = request.known.get("environment_name") or request.path.rpartition("/")[2]
        example = description().example("actions-secret")
        return self._page("secrets", [example | {"name": name} for name in self.secret_names.get(place, [])], request)

    def list_rules(self, request: Request) -> Answer:
        return Answer(200, self.rules.get(unquote(request.known["branch"]), []))

    def list_branches(self, _: Request) -> Answer:
        commit = {"sha": "0" * 40, "url": f"{self.url}/commit"}
        return Answer(200, [{"name": name, "commit": commit, "protected": True} for name in self.protected])

    def read_branch(self, request: Request) -> Answer:
        name = unquote(request.known["branch"])
        if name not in self.branches:
            return refusal(404, "Branch not found")
        kept = self.protected.get(name)
        protection = {"required_status_checks": {"contexts": kept["contexts"], "checks": []}} if kept else {}
        example = description().example("branch-get")
        return Answer(200, example | {"name": name, "protected": bool(kept), "protection": protection})

    def read_checks(self, request: Request) -> Answer:
        kept = self.protected[unquote(request.known["branch"])]
        example = description().example("status-check-policy")
        return Answer(200, example | kept | {"checks": []})

    def _page(self, item: str, found: list[Any], request: Request, *, most: int = 1_000_000) -> Answer:
        size, page = (int(request.query.get(name, [usual])[0]) for name, usual in (("per_page", "30"), ("page", "1")))
        last = max(1, -(-len(found) // size))
        links = {"next": page + 1, "last": last} if page < last else {}
        url = f"{self.url}{request.path}?per_page={size}&page="
        link = ", ".join(f'<{url}{number}>; rel="{rel}"' for rel, number in links.items())
        shown = found[:most][(page - 1) * size : page * size]
        body = {"total_count": len(found), item: shown} if item else shown
        return Answer(200, body, {"Link": link} if link else {})


_ANSWERS: dict[str, Callable[[GitHub, Request], Answer]] = {
    "get ": GitHub.repository,
    "get /installation": GitHub.installation,
    "get /releases": GitHub.list_releases,
    "post /releases": GitHub.create_release,
    "patch /releases/{release_id}": GitHub.update_release,
    "delete /releases/{release_id}": GitHub.delete_release,
    "get /git/ref/{ref}": GitHub.read_tag,
    "delete /git/refs/{ref}": GitHub.delete_tag,
    "get /releases/{release_id}/assets": GitHub.list_assets,
    "post /releases/{release_id}/assets": GitHub.upload_asset,
    "delete /releases/assets/{asset_id}": GitHub.delete_asset,
    "post /app/installations/{installation_id}/access_tokens": GitHub.installation_token,
    "get /actions/runners": GitHub.list_runners,
    "post /actions/runners/generate-jitconfig": GitHub.register,
    "get /actions/runners/{runner_id}": GitHub.read_runner,
    "delete /actions/runners/{runner_id}": GitHub.remove,
    "get /actions/runner-groups": GitHub.list_groups,
    "get /actions/runner-groups/{runner_group_id}/runners": GitHub.list_group,
    "get /actions/workflows": GitHub.list_workflows,
    "post /actions/workflows/{workflow_id}/dispatches": GitHub.dispatch,
    "get /actions/workflows/{workflow_id}/runs": GitHub.list_runs,
    "get /actions/runs": GitHub.list_all_runs,
    "get /actions/runs/{run_id}": GitHub.run,
    "get /actions/runs/{run_id}/jobs": GitHub.list_jobs,
    "get /actions/runs/{run_id}/artifacts": GitHub.list_artifacts,
    "get /actions/artifacts": GitHub.list_all_artifacts,
    "get /activity": GitHub.list_activity,
    "get /actions/artifacts/{artifact_id}/{archive_format}": GitHub.download,
    "get /actions/variables/{name}": GitHub.variable,
    "post /actions/variables": GitHub.create_variable,
    "patch /actions/variables/{name}": GitHub.change_variable,
    "delete /actions/variables/{name}": GitHub.remove_variable,
    "get /pages": GitHub.read_pages,
    "get /actions/permissions": GitHub.setting,
    "get /actions/permissions/selected-actions": GitHub.setting,
    "get /actions/permissions/workflow": GitHub.setting,
    "get /actions/permissions/artifact-and-log-retention": GitHub.setting,
    "get /actions/permissions/fork-pr-contributor-approval": GitHub.setting,
    "get /actions/permissions/fork-pr-workflows-private-repos": GitHub.setting,
    "get /actions/secrets": GitHub.list_secrets,
    "get /actions/organization-secrets": GitHub.list_secrets,
    "get /environments": GitHub.list_environments,
    "get /environments/{environment_name}/secrets": GitHub.list_secrets,
    "get /environments/{environment_name}/deployment-branch-policies": GitHub.list_policies,
    "get /rules/branches/{branch}": GitHub.list_rules,
    "get /branches": GitHub.list_branches,
    "get /branches/{branch}": GitHub.read_branch,
    "get /branches/{branch}/protection/required_status_checks": GitHub.read_checks,
    "post /actions/runs/{run_id}/rerun-failed-jobs": GitHub.rerun_failed,
    "get /check-runs/{check_run_id}/annotations": GitHub.list_annotations,
    "get /issues": GitHub.list_issues,
    "post /issues": GitHub.open_issue,
    "patch /issues/{issue_number}": GitHub.edit_issue,
    "get /pulls": GitHub.list_pulls,
    "post /pulls": GitHub.open_pull,
    "patch /pulls/{pull_number}": GitHub.edit_pull,
    "get /issues/{issue_number}/comments": GitHub.list_comments,
    "post /issues/{issue_number}/comments": GitHub.write_comment,
    "patch /issues/comments/{comment_id}": GitHub.edit_comment,
}

_LINKS = ("number", "url", "html_url")


def _title(document: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """The title of a run, as `run-name` makes it of the inputs."""
    request = f" [{inputs['request']}]" if "request" in inputs else ""
    if "variant" not in inputs:
        return f"{document['name']}{request} {inputs.get('about', '')}"
    since = f" {inputs['profile']} since {inputs['since']}" if "since" in inputs else ""
    return f"{document['name']}{request} ({'a selection' if 'only' in inputs else inputs['variant']}){since}"


_NO_TEAMS: Json = {"requested_teams": []}
"""GitHub's own examples of teams lack what its description requires."""


def _pull() -> Json:
    return description().example("pull-request") | _NO_TEAMS


def _wrong_inputs(form: Mapping[str, Any] | None, inputs: Mapping[str, str]) -> Iterator[str]:
    if form is None:
        yield "Workflow does not have 'workflow_dispatch' trigger"
        return
    yield from (f"Unexpected inputs provided: {sorted(inputs)}" for name in inputs if name not in form)
    for name, value in inputs.items():
        options = form.get(name, {}).get("options")
        if options is not None and value not in options:
            yield f"Provided value '{value}' for input '{name}' not in the list of allowed values"
