"""Helm values for the Actions Runner Controller (gha-runner-scale-set), one release per pool, and how to install them.

A pool whose `runs-on` is a name is a runner scale set of that name. On request, a pool with labels becomes one too: it
is named after the pool and gets the labels when it is created. A pool's cores, memory and disk are those of a pod.
`containerMode` stays unset: jobs run in the pool's own image, and the chart then keeps its entry point.
"""

from __future__ import annotations

from ci_compiler.codes import Code
from ci_compiler.errors import Finding, InputError
from ci_compiler.runner.deployment.release_pins import ARCHITECTURES, pins
from ci_compiler.runner.deployment.service import INSTALL, USER, Deployment, heading, longest, most_disk, page, title
from ci_compiler.spec.model import Pool, Spec
from ci_compiler.stages import BUILD
from ci_compiler.workflows.writer import Node, dump

TARGET = "arc"

NAMESPACE = "arc-runners"
CONTROLLER_NAMESPACE = "arc-systems"
SECRET = "ci-runner-github"  # noqa: S105  (the name of a Kubernetes secret)

SCRATCH = "10G"
"""Ephemeral storage of a pod, for checkouts, manifests and logs. Builds use the volume at /nix."""

SHARED_MEMORY = 8
"""One part in so many of a pod's memory may be shared memory, through which torch's data loaders pass batches."""

GPU = "nvidia.com/gpu"
"""The resource of NVIDIA's device plugin, and the taint of the nodes that provide it."""


def deployment(spec: Spec, *, scale_set_labels: bool = False) -> Deployment:
    """One file of values per pool, and the commands. Raises InputError if no pool can be a runner scale set."""
    pools = tuple(pool for pool in spec.pools if pool.runs_on.scale_set or scale_set_labels)
    if not pools:
        message = (
            "no pool is a runner scale set; give one `runs-on: NAME`, or deploy the label sets with --scale-set-labels"
        )
        raise InputError([spec.finding(("runners",), Code.NO_SCALE_SET, message, key=True)])
    head = (heading(spec, TARGET), f"Chart: {pins().scale_set_chart} {pins().chart_version}")
    files = {f"{pool.name}.yaml": dump(values(spec, pool), header=(*head, *_remarks(pool))) for pool in pools}
    files[INSTALL] = page(spec, TARGET, _page(spec, pools))
    return Deployment(files=files, findings=tuple(_left_out(spec, pool) for pool in spec.pools if pool not in pools))


def values(spec: Spec, pool: Pool) -> dict[str, Node]:
    """The chart's values for `pool`, except the URL on GitHub, which the install command sets."""
    found: dict[str, Node] = {"runnerScaleSetName": name(pool), "githubConfigSecret": SECRET}
    if not pool.runs_on.scale_set:
        found["scaleSetLabels"] = list(pool.runs_on.labels)
    if pool.runs_on.group:
        found["runnerGroup"] = pool.runs_on.group
    return found | {"minRunners": 0, "maxRunners": pool.count, "template": _template(spec, pool)}


def name(pool: Pool) -> str:
    """The name of the pool's scale set: its `runs-on`, or, for a label set, the name of the pool."""
    return pool.runs_on.scale_set or pool.name


# The pod.


def _template(spec: Spec, pool: Pool) -> dict[str, Node]:
    kept: dict[str, Node] = {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }
    return {"metadata": {"annotations": kept}, "spec": _pod(spec, pool)}


def _pod(spec: Spec, pool: Pool) -> dict[str, Node]:
    builds = BUILD in pool.stages
    pod: dict[str, Node] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": longest(spec, pool),
        "nodeSelector": _selector(spec, pool),
    }
    if pool.gpu:
        pod["tolerations"] = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    if builds:
        pod["hostUsers"] = False
    pod["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        # The build sandbox needs namespaces, which the runtime's default profile forbids.
        "seccompProfile": {"type": "Unconfined" if builds else "RuntimeDefault"},
    }
    return pod | {
        "initContainers": [_seed(pool, builds=builds)],
        "containers": [_runner(spec, pool, builds=builds)],
        "volumes": _volumes(pool),
    }


def _selector(spec: Spec, pool: Pool) -> dict[str, Node]:
    """Labels of the nodes with the pool's system and GPU (NVIDIA's GPU feature discovery)."""
    found: dict[str, Node] = {"kubernetes.io/os": "linux", "kubernetes.io/arch": ARCHITECTURES[pool.system]}
    if pool.gpu:
        capability = spec.hardware.gpu(pool.gpu).capability
        found["nvidia.com/gpu.compute.major"] = str(capability.major)
        found["nvidia.com/gpu.compute.minor"] = str(capability.minor)
    return found


def _seed(pool: Pool, *, builds: bool) -> dict[str, Node]:
    """Copies the image's store to the volume at /nix, which would hide it."""
    return {
        "name": "seed-nix",
        "image": pool.image,
        "command": ["cp", "--archive", "/nix/.", "/seed/"],
        "securityContext": _rights(builds=builds),
        "resources": _resources(pool, gpus=0),
        "volumeMounts": [{"name": "nix", "mountPath": "/seed"}],
    }


def _runner(spec: Spec, pool: Pool, *, builds: bool) -> dict[str, Node]:
    gpus = 1 if pool.gpu else 0
    environment: list[Node] = [
        {"name": "CI_RUNNER_CORES", "value": str(pool.cores)},
        {"name": "CI_RUNNER_FREE_GB", "value": str(most_disk(spec))},
    ]
    if not gpus:
        # If NVIDIA's runtime is the default on a node, a pod that requests no GPU would see all of them.
        environment.append({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"})
    return {
        "name": "runner",
        "image": pool.image,
        "env": environment,
        "securityContext": _rights(builds=builds),
        "resources": _resources(pool, gpus=gpus),
        "volumeMounts": [
            {"name": "nix", "mountPath": "/nix"},
            {"name": "work", "mountPath": "/home/runner/_work"},
            {"name": "shared-memory", "mountPath": "/dev/shm"},  # noqa: S108  (the container's own)
        ],
    }


def _rights(*, builds: bool) -> dict[str, Node]:
    found: dict[str, Node] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    if builds:
        found["procMount"] = "Unmasked"
    return found


def _resources(pool: Pool, *, gpus: int) -> dict[str, Node]:
    """Requests equal limits (class Guaranteed), so that the pod is evicted last."""
    amounts: dict[str, Node] = {"cpu": pool.cores, "memory": f"{pool.memory}G", "ephemeral-storage": SCRATCH}
    if gpus:
        amounts[GPU] = gpus
    return {"requests": dict(amounts), "limits": amounts}


def _volumes(pool: Pool) -> list[Node]:
    claim: dict[str, Node] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{pool.disk}G"}},
    }
    shared = f"{max(1, pool.memory // SHARED_MEMORY)}G"
    return [
        {"name": "nix", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        {"name": "work", "emptyDir": {"sizeLimit": SCRATCH}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": shared}},
    ]


# Findings, comments and the page.


def _remarks(pool: Pool) -> tuple[str, ...]:
    if pool.runs_on.scale_set:
        return ()
    return (
        "scaleSetLabels take effect only when the scale set is created. After a change,",
        f"run `helm uninstall {pool.name}` and install it again.",
    )


def _left_out(spec: Spec, pool: Pool) -> Finding:
    message = (
        f"{pool.name} is addressed by labels, so arc leaves it out; give it `runs-on: NAME`, or use --scale-set-labels"
    )
    return spec.finding(("runners", pool.name, "runs-on"), Code.LABEL_SET, message)


def _page(spec: Spec, pools: tuple[Pool, ...]) -> str:
    installs = "\n".join(_install(pool) for pool in pools)
    rows = "\n".join(f"- {title(spec, pool)}: `{_runs_on(pool)}`, up to {pool.count} at a time" for pool in pools)
    gpus = _GPU_NODES if any(pool.gpu for pool in pools) else ""
    labels = _LABELS if any(not pool.runs_on.scale_set for pool in pools) else ""
    return _PAGE.format(
        rows=rows,
        installs=installs,
        gpus=gpus,
        labels=labels,
        version=pins().chart_version,
        controller=pins().controller_chart,
        controllers=CONTROLLER_NAMESPACE,
        namespace=NAMESPACE,
        secret=SECRET,
    )


def _install(pool: Pool) -> str:
    return (
        f"helm upgrade --install {pool.name} {pins().scale_set_chart} --version {pins().chart_version} \\\n"
        f"  --namespace {NAMESPACE} --create-namespace --values {pool.name}.yaml \\\n"
        '  --set "githubConfigUrl=$GITHUB_CONFIG_URL"'
    )


def _runs_on(pool: Pool) -> str:
    labels = f"[{', '.join(pool.runs_on.labels)}]"
    return (
        f"runs-on: {pool.runs_on.scale_set or (f'group {pool.runs_on.group}, ' if pool.runs_on.group else '') + labels}"
    )


_PAGE = """\
# Runners in Kubernetes

{rows}

A pool's cores, memory and disk are those of one pod: declare less than a node has, since nodes reserve some of each.
Pods that build have their own user namespace (`hostUsers: false`, with `procMount: Unmasked`), so that Nix can create
its sandbox. This needs Kubernetes 1.33 or later, or the feature gates UserNamespacesSupport and ProcMountType, in a
namespace that enforces no Pod Security level. The volume at /nix has the cluster's default storage class and is deleted
with its pod. Put what differs in your cluster (a storage class, a runtime class, further node labels) into a file of
your own, and pass it after the compiled one: `--values mine.yaml`.
{gpus}{labels}
In this folder:

```shell
# The repository or organisation of the runners.
export GITHUB_CONFIG_URL=https://github.com/OWNER/REPOSITORY

helm upgrade --install arc {controller} --version {version} \\
  --namespace {controllers} --create-namespace

# A token that may administer them, read from the terminal so that neither `ps` nor the shell's history shows it.
kubectl create namespace {namespace} --dry-run=client --output yaml | kubectl apply --filename -
read -rs TOKEN && printf %s "$TOKEN" \\
  | kubectl create secret generic {secret} --namespace {namespace} --from-file=github_token=/dev/stdin

{installs}
```

A GitHub App is better than a token: put `github_app_id`, `github_app_installation_id` and `github_app_private_key` into
the secret instead. Both charts must have the same version: to upgrade, `helm uninstall` the scale sets, upgrade the
controller and its CRDs, and install the scale sets again.
"""

_GPU_NODES = """
The labels `nvidia.com/gpu.compute.major` and `.minor` select nodes with GPUs. NVIDIA's GPU feature discovery sets them,
which is part of the GPU operator. The image contains no driver; the node's runtime provides it.
"""

_LABELS = """
Scale sets with labels: `scaleSetLabels` take effect only when a set is created. After a change, `helm uninstall` the
release and install it again. GitHub's lists of runners do not show the labels of scale sets. Not every GitHub server
supports them: if no runner takes a job, give the pool `runs-on: NAME` in the spec.
"""
