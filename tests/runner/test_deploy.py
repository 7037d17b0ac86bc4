"""`ci-runner deploy`: the files, checked by the programs that read them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings

from ci_compiler.cli.app import run
from ci_compiler.cli.runner import PROGRAM
from ci_compiler.errors import InputError
from ci_compiler.files.drift import MARK
from ci_compiler.plan.pipeline import plan
from ci_compiler.runner.controller.store_daemon import CAPABILITIES, DAEMON
from ci_compiler.runner.deployment.kinds import Deployment, deployment
from ci_compiler.runner.deployment.release_pins import ARCHITECTURES, PINS, pins
from ci_compiler.runner.deployment.rendering import FOLDER
from ci_compiler.runner.deployment.request_budget import over_budget, registrations
from ci_compiler.runner.host_health import SOCKET
from ci_compiler.runner.upstream import upstream
from ci_compiler.spec.build import bundled_spec, parse_spec
from ci_compiler.spec.model import Spec
from ci_compiler.units import release
from ci_compiler.workflows.common import runs_on
from tests.checkers import require
from tests.loops import each
from tests.specs import CACHE, documents, small, spec_of

KNOWN = json.loads(Path(__file__).with_name("deployed.json").read_bytes())
REPOSITORY = Path(__file__).parents[2]


def arc_of_all(spec: Spec) -> Deployment:
    return deployment(spec, "arc", scale_set_labels=True)


TARGETS: dict[str, Callable[[Spec], Deployment]] = {
    "arc": arc_of_all,
    "systemd": partial(deployment, target="systemd"),
}

POOLS: dict[str, Any] = {
    "builder": {"runs-on": "arc-builder", "system": "x86_64-linux", "cpu": ["avx512"], "count": 3, "disk": 300},
    "4090": {"runs-on": ["self-hosted", "linux", "x64", "gpu"], "gpu": "sm90", "cpu": ["avx512"], "memory": 64},
    "grouped": {"runs-on": {"group": "big ones", "labels": ["linux", "arm64"]}, "cpu": ["armv9"], "cores": 8},
}


@pytest.fixture
def spec() -> Spec:
    """A pool of each kind: a scale set that builds, a label set with a GPU, a label set in a group."""
    timeouts = {"build": 300, "cpu-test": 30, "gpu-test": 45, "publish": 60}
    return spec_of(small(runners=POOLS, timeouts=timeouts, **CACHE))


def values(spec: Spec) -> dict[str, Any]:
    """The Helm values of every pool."""
    files = arc_of_all(spec).files
    found = {pool.name: files.get(f"{pool.name}.yaml") for pool in spec.pools}
    return {name: yaml.safe_load(text) for name, text in found.items() if text}


def pod(found: Mapping[str, Any]) -> Any:
    return found["template"]["spec"]


# All targets.


@pytest.mark.parametrize("target", TARGETS)
def test_every_file_begins_with_the_header(target: str, spec: Spec) -> None:
    for name, text in each(TARGETS[target](spec).files.items()):
        sign = "<!--" if name.endswith(".md") else "#"
        assert text.startswith(f"{sign} {MARK} from ci-matrix.yaml. Do not edit: change the spec, then run"), name
        assert f"`ci-runner deploy {target}`" in text.splitlines()[0]
        assert text.endswith("\n")


@pytest.mark.parametrize("target", TARGETS)
def test_every_pool_is_named_in_the_page(target: str, spec: Spec) -> None:
    made = TARGETS[target](spec)
    named = {pool.name for pool in spec.pools if f"- {pool.name} (" in made.files["install.md"]}
    assert named == ({"4090", "grouped"} if target != "arc" else set(POOLS))


@pytest.mark.parametrize("target", TARGETS)
def test_the_commands_of_the_page_are_valid_shell(target: str, spec: Spec, tmp_path: Path) -> None:
    blocks = re.findall(r"^```shell\n(.*?)^```", TARGETS[target](spec).files["install.md"], re.MULTILINE | re.DOTALL)
    script = tmp_path / "install.sh"
    script.write_text("\n".join(("#!/bin/bash", *blocks)), "utf-8")
    done = subprocess.run([require("shellcheck"), "--norc", script], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert blocks


def test_scale_sets_are_left_to_kubernetes(spec: Spec) -> None:
    [finding] = deployment(spec, "systemd").findings
    assert (finding.code, finding.place.file) == ("scale-set", "ci-matrix.yaml")
    with pytest.raises(InputError, match="no-label-set"):
        deployment(spec_of(small(runners={"builder": POOLS["builder"]})), "systemd")


def test_a_pool_of_macs_is_left_out() -> None:
    macs = {"runs-on": ["self-hosted", "macOS", "arm64"]}
    builder = {"runs-on": ["self-hosted", "linux", "x64"], "cpu": ["avx512"]}
    made = deployment(spec_of(small(runners={"builder": builder, "macs": macs})), "systemd")
    assert [finding.code for finding in made.findings] == ["no-containers"]
    assert not any("macs" in name for name in made.files)


@settings(max_examples=20, deadline=None)
@given(documents())
def test_any_spec_has_a_deployment_of_every_kind(document: dict[str, Any]) -> None:
    spec = spec_of({**document, **CACHE})
    for pool, found in values(spec).items():
        assert set(found) <= set(KNOWN["chart"]), pool
    linux = [pool.name for pool in spec.pools if pool.system.endswith("-linux")]
    units = {name for name in deployment(spec, "systemd").files if name.endswith("pool.conf")}
    assert units == {f"ci-runner@{name}.service.d/pool.conf" for name in linux}


# The Actions Runner Controller.


def test_a_job_addresses_the_scale_set_by_its_name(spec: Spec) -> None:
    found = values(spec)
    assert found["builder"]["runnerScaleSetName"] == runs_on(spec.pools[0].runs_on) == "arc-builder"
    assert "scaleSetLabels" not in found["builder"]
    assert found["4090"]["runnerScaleSetName"] == "pool-4090"
    assert found["4090"]["scaleSetLabels"] == POOLS["4090"]["runs-on"]
    assert found["grouped"]["runnerGroup"] == '"big ones"'
    assert all(len(one["runnerScaleSetName"]) <= 45 for one in found.values())


def test_the_chart_accepts_the_numbers_and_labels(spec: Spec) -> None:
    """Its templates fail for other numbers of runners and for labels that are empty or have 256 characters or more."""
    for found in each(values(spec).values()):
        assert 0 <= found["minRunners"] <= found["maxRunners"]
        assert all(0 < len(label) < 256 for label in found.get("scaleSetLabels", []))
        assert isinstance(found["githubConfigSecret"], str)  # a mapping would make a secret of the chart's own


@pytest.mark.parametrize("name", ["4090", "1e3", "null", "on", "no", "y", "true"])
def test_the_chart_prints_names_without_quotes(name: str) -> None:
    """Its templates have `name: {{ … }}` and `runnerGroup: {{ . }}`, which YAML must read as text."""
    pool = {"runs-on": {"group": name, "labels": ["linux", "x64"]}, "cpu": ["avx512"]}
    (found,) = values(spec_of(small(runners={name: pool}, **CACHE))).values()
    printed = yaml.safe_load(f"name: {found['runnerScaleSetName']}\nrunnerGroup: {found['runnerGroup']}\n")
    assert printed == {"name": f"pool-{name}", "runnerGroup": name}
    with pytest.raises(InputError, match="wrong-value"):
        spec_of(small(runners={"set": {"runs-on": name, "system": "x86_64-linux"}}))


def test_beside_scale_sets_label_sets_become_scale_sets_only_on_request(spec: Spec) -> None:
    made = deployment(spec, "arc")
    assert set(made.files) == {"builder.yaml", "install.md", "network_policy.yaml"}
    assert [finding.code for finding in made.findings] == ["label-set", "label-set"]


def test_the_bundled_pools_become_scale_sets_as_they_are() -> None:
    bundled = bundled_spec()
    with pytest.raises(InputError, match="pods-without-cache"):
        deployment(bundled, "arc")
    cached = spec_of(bundled.document.value | CACHE)
    made = deployment(cached, "arc")
    assert made == arc_of_all(cached)
    assert {f"{pool.name}.yaml" for pool in bundled.pools} < set(made.files)
    assert made.findings == ()


def test_macs_alone_cannot_be_deployed() -> None:
    macs = {"runs-on": ["self-hosted", "macOS", "arm64"]}
    with pytest.raises(InputError, match="macs has aarch64-darwin machines"):
        deployment(spec_of(small(runners={"macs": macs}, **CACHE)), "arc")


def test_jobs_cannot_reach_the_metadata_services_of_clouds(spec: Spec) -> None:
    made = deployment(spec, "arc")
    policy = yaml.safe_load(made.files["network_policy.yaml"])
    assert policy["spec"]["podSelector"] == {}
    assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    assert "ingress" not in policy["spec"]
    blocks = [one["ipBlock"] for rule in policy["spec"]["egress"] for one in rule["to"]]

    def reached(address: str) -> bool:
        ip = ip_address(address)
        inside = [[ip in ip_network(one) for one in [block["cidr"], *block["except"]]] for block in blocks]
        return any(cidr and not any(excepted) for cidr, *excepted in inside)

    assert not any(map(reached, ["169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254"]))
    assert all(map(reached, ["140.82.112.3", "10.0.0.10", "169.254.20.10", "2606:50c0:8000::153"]))
    assert "--filename network_policy.yaml" in made.files["install.md"]


def test_volumes_and_thresholds_depend_on_the_stages_of_the_pool(spec: Spec) -> None:
    sizes = {}
    for name, found in values(spec).items():
        claim = next(one for one in pod(found)["volumes"] if one["name"] == "nix")["ephemeral"]["volumeClaimTemplate"]
        volume = int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("G"))
        env = {one["name"]: one["value"] for one in pod(found)["containers"][0]["env"]}
        sizes[name] = (volume, int(env["CI_RUNNER_FREE_GB"]))
    most = max(package.disk for package in spec.packages.values())
    assert sizes["builder"] == (300, most)
    volume, room = sizes["4090"]  # it only tests, so it needs closures
    assert room < most
    assert room < volume < 200
    declared = POOLS | {"4090": POOLS["4090"] | {"disk": 77}}
    claim = pod(values(spec_of(small(runners=declared, **CACHE)))["4090"])["volumes"][0]["ephemeral"]
    assert claim["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"] == "77G"


def test_the_file_says_that_changed_labels_need_a_new_set(spec: Spec) -> None:
    files = arc_of_all(spec).files
    assert "helm uninstall 4090" in files["4090.yaml"].partition("\nrunnerScaleSetName")[0]
    assert "uninstall" not in files["builder.yaml"]


def test_the_chart_knows_every_key(spec: Spec) -> None:
    for found in each(values(spec).values()):
        assert set(found) <= set(KNOWN["chart"])
        assert "containerMode" not in found


@pytest.mark.parametrize("version", ["1.33", "1.37"])
def test_kubernetes_accepts_the_pods_and_the_policy(version: str) -> None:
    others = {
        name: {"runs-on": f"arc-{name}", "system": "x86_64-linux", "accelerator": accelerator}
        for name, accelerator in {"mi300x": "rocm gfx942", "rx": "rocm gfx1100"}.items()
    }
    spec = spec_of(small(runners=POOLS | others, **CACHE))
    template = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "runner"}}
    objects = [template | {"template": found["template"]} for found in values(spec).values()]
    objects.append(yaml.safe_load(arc_of_all(spec).files["network_policy.yaml"]))
    for found in objects:
        kubernetes_validate.validate(found, version, strict=True)
    assert len(objects) == len(POOLS) + len(others) + 1


def test_sizes_come_from_the_pool_and_requests_are_limits(spec: Spec) -> None:
    found = values(spec)
    assert (found["builder"]["minRunners"], found["builder"]["maxRunners"]) == (0, 3)
    assert (found["4090"]["minRunners"], found["4090"]["maxRunners"]) == (0, 1)
    for name, one in found.items():
        [runner] = pod(one)["containers"]
        assert runner["name"] == "runner"
        resources = runner["resources"]
        assert resources["requests"] == resources["limits"]
        assert resources["limits"]["ephemeral-storage"]
        seed, daemon = pod(one)["initContainers"]
        for container in (seed, daemon):
            assert container["resources"]["requests"] == container["resources"]["limits"]
        assert resources["limits"].get("nvidia.com/gpu") == (1 if name == "4090" else None)
        assert "nvidia.com/gpu" not in seed["resources"]["limits"]
    _, grouped = pod(found["grouped"])["initContainers"]  # builds run in the daemon's container
    assert grouped["resources"]["limits"]["cpu"] == 8
    [runner] = pod(found["4090"])["containers"]
    assert runner["resources"]["limits"]["memory"] == "64G"


def test_pods_run_on_nodes_that_can_do_the_work(spec: Spec) -> None:
    found = values(spec)
    assert pod(found["grouped"])["nodeSelector"]["kubernetes.io/arch"] == "arm64"
    gpu = pod(found["4090"])
    assert gpu["nodeSelector"]["kubernetes.io/arch"] == "amd64"
    assert gpu["nodeSelector"]["nvidia.com/gpu.compute.major"] == "9"
    assert gpu["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    arm = {"key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64", "effect": "NoSchedule"}
    assert pod(found["grouped"])["tolerations"] == [arm]
    assert "tolerations" not in pod(found["builder"])


@pytest.mark.parametrize(
    ("accelerator", "foreign"),
    [("rocm gfx942", "nvidia"), ("npu n200", "nvidia|amd-ctk|describe")],
)
def test_a_machine_gets_what_its_own_family_needs(accelerator: str, foreign: str) -> None:
    pool = {"runs-on": ["self-hosted", "linux", "x64", "gpu"], "system": "x86_64-linux", "accelerator": accelerator}
    declared = {"families": {"npu": {"title": "Example"}}}
    spec = spec_of(small(runners={"gpu": pool}, hardware=declared))
    for name, text in each(deployment(spec, "systemd").files.items()):
        assert not re.search(foreign, text.replace("flox-cuda", ""), re.IGNORECASE), name


def test_a_pod_without_a_gpu_sees_none(spec: Spec) -> None:
    told = {
        name: {entry["name"]: entry["value"] for entry in pod(found)["containers"][0]["env"]}
        for name, found in values(spec).items()
    }
    assert told["builder"]["NVIDIA_VISIBLE_DEVICES"] == told["grouped"]["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "NVIDIA_VISIBLE_DEVICES" not in told["4090"]
    assert told["grouped"]["CI_RUNNER_CORES"] == "8"


def test_each_pod_has_its_own_store_with_that_of_the_image(spec: Spec) -> None:
    for found in each(values(spec).values()):
        volumes = {volume["name"]: volume for volume in pod(found)["volumes"]}
        claim = volumes["nix"]["ephemeral"]["volumeClaimTemplate"]["spec"]
        assert claim["accessModes"] == ["ReadWriteOnce"]
        assert volumes["shared-memory"]["emptyDir"]["medium"] == "Memory"
        mounts = {mount["mountPath"]: mount["name"] for mount in pod(found)["containers"][0]["volumeMounts"]}
        assert (mounts["/nix"], mounts["/dev/shm"]) == ("nix", "shared-memory")  # noqa: S108
        seed, daemon = pod(found)["initContainers"]
        assert seed["image"] == daemon["image"] == pod(found)["containers"][0]["image"]
        assert seed["volumeMounts"] == [{"name": "nix", "mountPath": "/seed"}]


def test_a_daemon_beside_the_job_owns_the_store(spec: Spec) -> None:
    for name, found in each(values(spec).items()):
        _, daemon = pod(found)["initContainers"]
        [job] = pod(found)["containers"]
        assert (daemon["restartPolicy"], daemon["command"]) == ("Always", [DAEMON])
        assert [mount.get("readOnly") for mount in daemon["volumeMounts"]] == [None]
        assert {"name": "nix", "mountPath": "/nix", "readOnly": True} in job["volumeMounts"]
        rights = daemon["securityContext"]
        assert rights["capabilities"] == {"drop": ["ALL"], "add": list(CAPABILITIES)}
        assert (rights["runAsUser"], rights["allowPrivilegeEscalation"]) == (0, False)
        confined = {"seccompProfile", "appArmorProfile", "procMount"} & set(rights)
        assert confined == (set() if name == "4090" else {"seccompProfile", "appArmorProfile", "procMount"})
        assert not {"seccompProfile", "appArmorProfile", "procMount"} & set(job["securityContext"])
        assert pod(found)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_pods_have_no_credential_and_few_rights(spec: Spec) -> None:
    for name, found in each(values(spec).items()):
        assert found["githubConfigSecret"] == "ci-runner-github"
        assert pod(found)["automountServiceAccountToken"] is False
        assert pod(found)["securityContext"]["runAsNonRoot"] is True
        assert pod(found)["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert pod(found).get("hostUsers") is (None if name == "4090" else False)


def test_a_pod_may_finish_its_job(spec: Spec) -> None:
    found = values(spec)
    assert pod(found["builder"])["terminationGracePeriodSeconds"] == 300 * 60
    assert pod(found["4090"])["terminationGracePeriodSeconds"] == 45 * 60


def test_the_page_installs_the_pinned_chart_once_per_pool(spec: Spec) -> None:
    text = arc_of_all(spec).files["install.md"]
    installs = re.findall(r"^helm upgrade --install (\S+) (\S+) --version (\S+)", text, re.MULTILINE)
    version = pins().chart_version
    assert installs[0] == ("arc", pins().controller_chart, version)
    assert installs[1:] == [(pool.name, pins().scale_set_chart, version) for pool in spec.pools]


# systemd.


@pytest.fixture
def machine(tmp_path: Path, spec: Spec) -> Path:
    """A root folder with systemd's units, the compiled ones, and the programs that they start."""
    shutil.copytree("/usr/lib/systemd/system", tmp_path / "usr/lib/systemd/system", symlinks=True)
    for name, text in deployment(spec, "systemd").files.items():
        if not name.endswith(".md"):
            file = tmp_path / "etc/systemd/system" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
    for name in ("opt/ci-compiler/bin/ci-runner", "usr/bin/nvidia-ctk", "usr/bin/podman"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(0o755)
    return tmp_path


def analyze(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """systemd-analyze on the units below `root`."""
    command = [require("systemd-analyze"), f"--root={root}", "--man=no", "--recursive-errors=no", *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


def test_systemd_accepts_the_units(machine: Path) -> None:
    units = ["ci-runner@4090.service", "ci-runner@grouped.service", "ci-runner-gpus.service", "ci-prune-runners.timer"]
    units += ["ci-runner-health.socket", "ci-runner-health@.service"]
    done = analyze(machine, "verify", *units)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    template = machine / "etc/systemd/system/ci-runner@.service"
    template.write_text(template.read_text("utf-8").replace("KillMode=mixed", "KillMode=mixd"), "utf-8")
    assert analyze(machine, "verify", "ci-runner@4090.service").returncode != 0


def test_the_controllers_service_is_little_exposed(machine: Path) -> None:
    for unit in ("ci-runner@4090.service", "ci-prune-runners.service", "ci-runner-health@1.service"):
        done = analyze(machine, "security", "--offline=yes", "--threshold=20", unit)
        assert done.returncode == 0, done.stdout[-1000:]


@pytest.mark.parametrize("unit", ["ci-runner@.service", "ci-prune-runners.service"])
def test_the_client_of_podman_may_write_to_its_runtime_folder(spec: Spec, unit: str) -> None:
    """Seen with podman 4.3, even of another service: it changes `libpod` there, and the user's own is read-only."""
    service = sections(deployment(spec, "systemd").files[unit])["Service"]
    assert service["ProtectHome"] == ["read-only"]
    assert service["RuntimeDirectory"] == ["%N"]
    assert "XDG_RUNTIME_DIR=%t/%N" in service["Environment"]


def test_the_service_restarts_after_every_exit_code_but_one(spec: Spec) -> None:
    template = sections(deployment(spec, "systemd").files["ci-runner@.service"])
    service = template["Service"]
    assert service["Restart"] == ["always"]
    assert service["RestartPreventExitStatus"] == ["7"]
    assert service["ExecStart"][0].startswith(
        "/opt/ci-compiler/bin/ci-runner start %i --count ${COUNT} $HEALTH --spec "
    )
    assert service["NoNewPrivileges"] == ["yes"]
    assert service["ProtectSystem"] == ["strict"]
    assert service["LoadCredential"] == ["hosts.yml:/etc/ci-runner/hosts.yml"]
    assert template["Unit"]["StartLimitIntervalSec"] == ["0"]


def test_stopping_waits_for_the_longest_job_of_the_pool(spec: Spec) -> None:
    files = deployment(spec, "systemd").files
    for pool, minutes in (("4090", 45), ("grouped", 300)):
        drop_in = sections(files[f"ci-runner@{pool}.service.d/pool.conf"])
        assert int(drop_in["Service"]["TimeoutStopSec"][0]) > minutes * 60
    assert "ci-runner-gpus.service" in files["ci-runner@4090.service.d/pool.conf"]
    assert "ci-runner-gpus.service" not in files["ci-runner@grouped.service.d/pool.conf"]


def test_only_the_controllers_open_the_health_service_which_has_one_capability_and_no_network(spec: Spec) -> None:
    files = deployment(spec, "systemd").files
    listening = sections(files["ci-runner-health.socket"])["Socket"]
    assert listening["ListenStream"] == [SOCKET]
    assert (listening["SocketUser"], listening["SocketMode"], listening["Accept"]) == (["ci-runner"], ["0600"], ["yes"])
    service = sections(files["ci-runner-health@.service"])["Service"]
    assert service["ExecStart"] == ["/opt/ci-compiler/bin/ci-runner health"]
    assert service["CapabilityBoundingSet"] == service["AmbientCapabilities"] == ["CAP_SYSLOG"]
    assert (service["PrivateNetwork"], service["DynamicUser"], service["ProtectSystem"]) == (
        ["yes"],
        ["yes"],
        ["strict"],
    )
    assert sections(files["ci-runner@4090.service.d/pool.conf"])["Service"]["Environment"] == [
        f'"HEALTH= --health {SOCKET}"'
    ]
    assert "HEALTH" not in files["ci-runner@grouped.service.d/pool.conf"]
    assert "${COUNT} $HEALTH --spec" in files["ci-runner@.service"]


def test_a_machine_without_gpus_gets_no_gpu_service() -> None:
    pools = {name: {**POOLS["grouped"], "runs-on": ["self-hosted", "arm64", name]} for name in ("first", "second")}
    files = deployment(spec_of(small(runners=pools)), "systemd").files
    assert not {"ci-runner-gpus.service", "ci-runner-health.socket", "ci-runner-health@.service"} & files.keys()
    assert "GPU" not in files["install.md"]


def sections(text: str) -> dict[str, dict[str, list[str]]]:
    """The sections of a unit, each setting with all of its values."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return found


# The pins.


def test_archives_are_pinned_for_both_architectures() -> None:
    for name, archive in pins().archives.items():
        assert set(archive.urls) == set(ARCHITECTURES.values()), name
        assert all(url.startswith("https://") and archive.version in url for url in archive.urls.values())
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in archive.sha256.values())
    assert re.fullmatch(r"[^@]+@sha256:[0-9a-f]{64}", pins().base)


def test_the_runner_may_still_register() -> None:
    assert release(pins().archives["runner"].version) >= release(upstream().runner)


def test_versions_are_stated_nowhere_else() -> None:
    versions = [pins().chart_version, pins().base.partition("@")[2], *(one.version for one in pins().archives.values())]
    folders = (REPOSITORY / "runner-images", PINS.parent / "templates")
    texts = [
        file.read_text("utf-8")
        for folder in folders
        for file in folder.rglob("*")
        if file.is_file() and "archives" not in file.parts and file.suffix != ".pyc"
    ]
    assert not [version for version in versions for text in texts if version in text]


# The command.


def deploy(*words: str) -> int:
    return run(PROGRAM, ["deploy", *words])


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    file = tmp_path / "matrix.yaml"
    file.write_text(json.dumps(small(runners=RUNNERS, **CACHE)), "utf-8")
    return file


RUNNERS = {
    "set": {"runs-on": "arc-set", "system": "x86_64-linux", "cpu": ["avx512"]},
    "h100": {"runs-on": ["self-hosted", "linux", "x64", "gpu-sm90"], "gpu": "sm90", "cpu": ["avx512"]},
}


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_written_is_not_drift(
    target: str, tmp_path: Path, matrix: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [target, "-o", str(tmp_path / "out"), "--spec", str(matrix)]
    assert deploy(*words, "--check") == 1
    assert f"`ci-runner deploy {target} --output " in capsys.readouterr().err
    assert deploy(*words) == 0
    assert deploy(*words, "--check") == 0
    changed = next((tmp_path / "out" / target).glob("*.*"))
    changed.write_text(changed.read_text("utf-8") + "\n", "utf-8")
    assert deploy(*words, "--check") == 1
    assert f"{target}/{changed.name}: is not as compiled" in capsys.readouterr().err


def test_files_of_a_removed_pool_are_removed_and_foreign_ones_stay(tmp_path: Path, matrix: Path) -> None:
    words = ["systemd", "-o", str(tmp_path / "out"), "--spec", str(matrix)]
    assert deploy(*words) == 0
    out = tmp_path / "out/systemd"
    mine = out / "mine.service"
    mine.write_text("[Service]\n", "utf-8")
    assert (out / "ci-runner@h100.service.d/pool.conf").exists()
    renamed = RUNNERS | {"hopper": RUNNERS["h100"]}
    del renamed["h100"]
    matrix.write_text(json.dumps(small(runners=renamed)), "utf-8")
    assert deploy(*words) == 0
    assert mine.read_text("utf-8") == "[Service]\n"
    assert (out / "ci-runner@hopper.service.d/pool.conf").exists()
    assert not (out / "ci-runner@h100.service.d/pool.conf").exists()


def test_a_foreign_file_in_the_way_is_never_overwritten(
    tmp_path: Path, matrix: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "out/arc/set.yaml"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine: true\n", "utf-8")
    assert deploy("arc", "-o", str(tmp_path / "out"), "--spec", str(matrix)) == 2
    assert "[in-the-way]" in capsys.readouterr().err
    assert foreign.read_text("utf-8") == "mine: true\n"


def test_each_folder_of_templates_is_a_target() -> None:
    (choices,) = (one.choices for one in PROGRAM.parser_of("deploy", "")._actions if one.dest == "target")  # noqa: SLF001
    assert choices
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == set(choices) == set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_values_are_not_read_as_templates(target: str) -> None:
    file = "@prefix@ @if gpus@ @each pool@ @end@.yaml"
    made = TARGETS[target](parse_spec(json.dumps(small(runners=RUNNERS, **CACHE)).encode(), shown=file))
    assert all(f" from {file}. " in text.splitlines()[0] for text in made.files.values())


def test_wrong_arguments_are_reported(tmp_path: Path, matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy("systemd", "-o", str(tmp_path), "--spec", str(matrix), "--scale-set-labels") == 2
    assert "[wrong-option]" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        deploy("heroku", "-o", str(tmp_path))


def test_a_load_beyond_the_requests_of_a_token_is_a_warning(spec: Spec) -> None:
    assert list(over_budget(plan(spec))) == []
    pools = {**POOLS, "4090": {**POOLS["4090"], "count": 10_000}}
    large = plan(spec_of(small(runners=pools, **CACHE)))
    [finding] = over_budget(large)
    assert (finding.code, finding.severity.value) == ("request-budget", "warning")
    assert "they register 60,000 times an hour (4090: 60,000), and a token has 5,000 requests" in finding.message
    assert "give the machines 13 GitHub Apps" in finding.message
    assert "builder" not in registrations(large), "a scale set registers without the controllers' token"


def test_the_daemons_of_runners_trust_both_keys_while_one_replaces_the_other() -> None:
    old, builder = f"old-1:{'A' * 43}=", f"builder-1:{'B' * 43}="
    cache = CACHE["cache"] | {"further-keys": [old], "builder-keys": [builder]}
    for found in each(values(spec_of(small(cache=cache))).values()):
        [daemon] = [one for one in pod(found)["initContainers"] if one["name"] == "nix-daemon"]
        keys = next(one["value"] for one in daemon["env"] if one["name"] == "CI_RUNNER_TRUSTED_KEYS")
        assert keys.split() == [cache["public-key"], old, builder]
