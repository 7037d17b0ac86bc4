"""All interleavings of what people do with a repository and of what its machines do, searched for what must not be.

A step of the search is an event, an approval, or the end of a job. Two reductions keep every state that matters: equal
states are visited once, and where nothing is left that could cancel a job or change a variable, the end of a job that
touches no group and publishes nothing comes before everything else, since it commutes with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.github_model.meanings import wanted
from tests.github_model.model import Play, World, is_of_shard, request_of
from tests.github_model.paths import leaves
from tests.github_model.state import FAILURE, SKIPPED, SUCCESS, Frozen, Run, State
from tests.github_model.switches import SWITCHES, UndecidedError

NEVER_PUBLISHED, NEVER_BUILT = "never published", "never built"
WAITS, LOST = "a job that waits for ever", "a wave lost"
FAILS = "fails although nothing went wrong"

Action = Callable[[Play], None]

Step = tuple[State, tuple[str, ...]]
"""The state after a step, and the step in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that a person does once, and when they can.

    It `starts` a run and does nothing else, or it `touches` what goes on: jobs that run, or the variable of pauses.
    """

    name: str
    act: Action
    when: Callable[[State], bool] = lambda _: True
    starts: bool = False
    touches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A world, what may happen in it, and how many steps of jobs may go wrong."""

    world: World
    happenings: Sequence[Happening]
    mishaps: int = 0
    tip: str = "0000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A violation: its kind, the switches on which it depends, and what happened, in sentences."""

    kind: str
    settings: Mapping[str, bool]
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        """The story, numbered."""
        assumed = [f"- {row}: {SWITCHES[row][not value]}" for row, value in sorted(self.settings.items())]
        lines = [f"{number}. {sentence}" for number, sentence in enumerate(self.sentences, 1)]
        return "\n".join([f"{self.kind}:", *lines, *(["Of GitHub, this assumes:"] if assumed else []), *assumed])


@dataclass(slots=True)
class Exploration:
    """What a search found: a shortest story for each kind of violation and setting of switches; how much it saw."""

    stories: list[Story] = field(default_factory=list)
    states: int = 0

    @property
    def kinds(self) -> set[str]:
        """The kinds of violations."""
        return {story.kind for story in self.stories}


def explore(
    scenario: Scenario, settings: Mapping[str, bool] | None = None, *, limit: int = 60_000, first: bool = False
) -> Exploration:
    """Searches a scenario, breadth first, with the switches of `settings`; those that are not set are tried both ways.

    `first`: the search ends with the first violation. One that would visit more states than `limit` is an error.
    """
    begin = State(settings=Frozen(settings or {}), mishaps=scenario.mishaps, tip=scenario.tip)
    parents: dict[State, tuple[State | None, tuple[str, ...]]] = {begin: (None, ())}
    found = Exploration()
    queue = deque([begin])
    while queue:
        state = queue.popleft()
        found.states += 1
        assert found.states <= limit, "the scenario is too large"
        steps = _steps(scenario, state)
        wrong = [*state.wrong, *(_wrong_at_rest(scenario, state) if _rests(state) else ())]
        if not steps and not _rests(state):
            wrong.append(WAITS)
        if wrong:
            found.stories += _stories(parents, state, wrong, settings or {})
            if first:
                return found
            continue
        for child, said in steps:
            if child not in parents:
                parents[child] = (state, said)
                queue.append(child)
    return found


def _stories(
    parents: Mapping[State, tuple[State | None, tuple[str, ...]]],
    state: State,
    kinds: Sequence[str],
    fixed: Mapping[str, bool],
) -> Iterator[Story]:
    sentences: list[tuple[str, ...]] = []
    current: State | None = state
    while current is not None:
        current, said = parents[current]
        sentences.append(said)
    told = tuple(one for part in reversed(sentences) for one in part)
    own = {row: value for row, value in state.settings.items() if row not in fixed}
    for kind in dict.fromkeys(kinds):
        yield Story(kind=kind, settings=own, sentences=told)


# Steps.


def _rests(state: State) -> bool:
    return all(run.is_done for run in state.runs)


def _steps(scenario: Scenario, state: State) -> list[Step]:
    world = scenario.world
    waiting = [one for one in scenario.happenings if one.name not in state.happened]
    jobs = list(_jobs(world, state))
    if not any(one.touches for one in waiting):
        for kind, number, path in jobs:
            ends = _ends(world, state, number, path) if kind == RUNS else []
            if ends and all(_commutes(state, child) for child, _ in ends):
                return ends
    found: list[Step] = []
    for one in waiting:
        if one.when(state):
            found += _after(world, state, one.act, one.name)
    for kind, number, path in jobs:
        found += _ends(world, state, number, path) if kind == RUNS else _moves(world, state, kind, number, path)
    return found


RUNS, WAITS_FOR_APPROVAL, STARTS_WAVES = "runs", "waits for an approval", "starts waves"
"""What the jobs do that a step is about."""


def _jobs(world: World, state: State) -> Iterator[tuple[str, int, str]]:
    """The jobs that a step can be about: what each does, its run, and its path."""
    for run in state.runs:
        for path, job in run.jobs.items() if not run.is_done else ():
            if job.status == "approval":
                yield WAITS_FOR_APPROVAL, run.number, path
            elif job.status == "running":
                yield STARTS_WAVES if world.tree.job(run.file, path).starts_waves else RUNS, run.number, path


def _moves(world: World, state: State, kind: str, number: int, path: str) -> Iterator[Step]:
    if kind == WAITS_FOR_APPROVAL:
        yield from _after(world, state, lambda play: play.approve(number, path))
        return
    for move in Play(world, state).wave_moves(number, path):
        yield from _after(world, state, lambda play, move=move: play.wave(number, path, move))


def _commutes(state: State, child: State) -> bool:
    """Whether the end of a job changed nothing that another run or event could see."""
    same = (state.groups, state.published, state.wrong, state.tip)
    return same == (child.groups, child.published, child.wrong, child.tip)


def _ends(world: World, state: State, number: int, path: str) -> list[Step]:
    found: list[Step] = []
    for mishap, at in Play(world, state).outcomes(number, path):
        found += _after(world, state, lambda play, m=mishap, a=at: play.finish(number, path, m, a))
    return found


def _after(world: World, state: State, action: Action, *names: str) -> Iterator[Step]:
    """The states after an action, for each behaviour of the switches that it depends on."""
    try:
        play = Play(world, state)
        action(play)
        yield play.state(*names), tuple(play.said)
    except UndecidedError as undecided:
        for value in (True, False):
            settings = Frozen({**state.settings, undecided.row: value})
            yield from _after(world, state._replace(settings=settings), action, *names)


# What must not be when everything has ended.


def _wrong_at_rest(scenario: Scenario, state: State) -> Iterator[str]:
    world = scenario.world
    starts = {one.name for one in scenario.happenings if one.starts}
    undisturbed = state.happened <= starts and state.mishaps == scenario.mishaps
    if undisturbed and any(run.conclusion == FAILURE for run in state.runs):
        yield FAILS
    if any(
        _is_lost(world, state, request) for request in {request_of(run) for run in state.runs if not is_of_shard(run)}
    ):
        yield LOST
    for run in state.runs:
        yield from _wrong_in(world, state, run)


def _is_lost(world: World, state: State, request: str) -> bool:
    """Whether a request for waves left out a shard, and everybody thinks that it went well."""
    runs = [run for run in state.runs if request_of(run) == request]
    turns = [run for run in runs if not is_of_shard(run)]
    if turns[-1].conclusion == FAILURE or any(run.cancelled == "a person" for run in turns):
        return False
    files = {run.file for run in runs}
    return any(f"{shard}.yml" not in files for wave in world.waves for shard in wave)


def _wrong_in(world: World, state: State, run: Run) -> Iterator[str]:
    """What is wrong with a run that everybody thinks went well."""
    if run.cancelled == "a person" or (run.cancelled and _is_covered(state, run)):
        return
    verdicts = [run.jobs[path].result for path in leaves(run) if world.tree.job(run.file, path).judges]
    request = run.event.name == "pull_request"
    if not run.cancelled and (verdicts != [SUCCESS] if request else run.conclusion != SUCCESS):
        return
    for shard in world.tree.plan.shards:
        if not request and f"{shard.name}.yml" != run.file:
            continue
        publishes = run.event.name == "push" or '"publish": true' in run.event.inputs
        for name in wanted(world, run.event, shard):
            if publishes and not any(one.variant == name and _is_of(run, one.commit) for one in state.published):
                yield NEVER_PUBLISHED
            elif not publishes and not any(one == name for one, _, _ in state.tested):
                yield NEVER_BUILT


def _is_of(run: Run, commit: str) -> bool:
    return run.event.name != "push" or commit == run.event.sha


def _is_covered(state: State, run: Run) -> bool:
    """Whether a later run of the same choice took the place of one that its group cancelled."""
    later = state.runs[run.number :]
    return run.event.name != "push" and any(
        (one.file, one.event.ref, one.event.inputs) == (run.file, run.event.ref, run.event.inputs)
        and one.cancelled != "its group"
        for one in later
    )


# What people do.


def push(name: str, sha: str, branch: str, files: Sequence[str], *, after: str = "") -> Happening:
    """A push, after the happening `after`."""
    return Happening(
        name=name,
        act=lambda play: play.push(sha, branch, files),
        when=lambda s: not after or after in s.happened,
        starts=True,
    )


def dispatch(name: str, file: str, branch: str, *, after: str = "", **inputs: object) -> Happening:
    """A dispatch."""
    return Happening(
        name=name,
        act=lambda play: play.dispatch(file, branch, **inputs),
        when=lambda s: not after or after in s.happened,
        starts=True,
    )


def cancel(number: int) -> Happening:
    """A person cancels a run that goes on."""

    def when(state: State) -> bool:
        return len(state.runs) >= number and not state.runs[number - 1].is_done

    return Happening(name=f"cancel {number}", act=lambda play: play.cancel(number), when=when, touches=True)


def reruns(number: int, kind: str, paths: Sequence[str] = ("",)) -> list[Happening]:
    """A person re-runs a run that has ended without success, once, by any of `paths`."""

    def may(state: State, path: str) -> bool:
        if len(state.runs) < number or not state.runs[number - 1].is_done or state.runs[number - 1].attempt > 1:
            return False
        run = state.runs[number - 1]
        if run.cancelled == "its group":
            return False
        played = path in leaves(run) and run.jobs[path].result != SKIPPED
        return played if path else kind != "failed" or any(job.result == FAILURE for job in run.jobs.values())

    return [
        Happening(
            name=f"re-run {kind} {path}",
            act=lambda play, p=path: play.rerun(number, kind, p),
            when=lambda state, p=path: may(state, p),
        )
        for path in paths
    ]


def pause(word: str) -> list[Happening]:
    """A person pauses, and lifts the pause later."""

    def set_to(value: str) -> Action:
        def act(play: Play) -> None:
            play.said.append(f"A person pauses {value}" if value else "A person lifts the pause")
            play.pause = value

        return act

    return [
        Happening(name="pause", act=set_to(word), when=lambda s: bool(s.runs), touches=True),
        Happening(name="resume", act=set_to(""), when=lambda s: s.pause == word, touches=True),
    ]
