"""Podman quadlets: one controller per pool, in a container of the user beside the containers that it starts.

The controller gets podman's socket and the credential; the containers of jobs get neither.
"""

from __future__ import annotations

from ci_compiler.runner.deployment.service import (
    INSTALL,
    RESTART,
    SPEC,
    STOPPING,
    USER,
    Deployment,
    controller_image,
    copy_spec,
    heading,
    listed,
    longest,
    page,
    spec_option,
    title,
)
from ci_compiler.runner.deployment.systemd import Section, unit
from ci_compiler.spec.model import Pool, Spec

TARGET = "quadlet"

SECRET = "ci-runner-github"  # noqa: S105  (the name of a podman secret)

SOCKET = "podman/podman.sock"
CONFIGURATION = ".config/ci-runner"


def deployment(spec: Spec) -> Deployment:
    """One `.container` file per pool with labels, and the page; a warning for each runner scale set.

    Raises InputError if every pool is one.
    """
    pools, left_out = listed(spec, TARGET)
    head = heading(spec, TARGET)
    files = {f"ci-runner-{pool.name}.container": unit(head, _container(spec, pool)) for pool in pools}
    files[INSTALL] = page(spec, TARGET, _page(spec, pools))
    return Deployment(files=files, findings=left_out)


def _container(spec: Spec, pool: Pool) -> dict[str, Section]:
    stopping = longest(spec, pool) + STOPPING
    volumes = [
        f"%t/{SOCKET}:/run/{SOCKET}",
        # Identifies the machine in the names of its runners, together with its host name.
        "/etc/machine-id:/etc/machine-id:ro",
    ]
    if spec_option(spec):
        volumes.append(f"%h/{CONFIGURATION}/ci-matrix.yaml:{SPEC}:ro")
    return {
        "Unit": {
            "Description": f"GitHub Actions runners of the pool {title(spec, pool)}",
            "Wants": "podman.socket",
            "After": "podman.socket",
            "StartLimitIntervalSec": "0",
        },
        "Container": {
            "ContainerName": f"ci-runner-controller-{pool.name}",
            "Image": controller_image(spec),
            "Exec": f"start {pool.name}{spec_option(spec)}",
            "HostName": "%H",
            "EnvironmentFile": f"%h/{CONFIGURATION}/environment",
            "Environment": f"CONTAINER_HOST=unix:///run/{SOCKET}",
            "Secret": f"{SECRET},type=env,target=GITHUB_TOKEN",
            "Volume": volumes,
            "UserNS": f"keep-id:uid={USER},gid={USER}",
            "ReadOnly": "true",
            "Tmpfs": "/tmp",  # noqa: S108  (the container's own)
            "DropCapability": "all",
            "NoNewPrivileges": "true",
            "SecurityLabelDisable": "true",
            "PodmanArgs": f"--stop-timeout={stopping}",
        },
        "Service": {**RESTART, "TimeoutStartSec": "900", "TimeoutStopSec": str(stopping + 60)},
        "Install": {"WantedBy": "default.target"},
    }


def _page(spec: Spec, pools: tuple[Pool, ...]) -> str:
    return _PAGE.format(
        rows="\n".join(f"- {title(spec, pool)}" for pool in pools),
        example=pools[0].name,
        copy_spec=copy_spec(spec, f"~/{CONFIGURATION}/ci-matrix.yaml"),
        configuration=CONFIGURATION,
        secret=SECRET,
        gpus=_ON_GPUS if any(pool.gpu for pool in pools) else "",
    )


_PAGE = """\
# Runners as Podman quadlets

{rows}

As the user that owns the runners, with podman 4.6 or later, in the repository's root:

```shell
files=…  # this folder

# Lets the user's services run without a login; the controllers use the user's podman.
loginctl enable-linger
systemctl --user enable --now podman.socket

# The controllers' configuration: the repository, the spec.
mkdir -p ~/{configuration}
echo GITHUB_REPOSITORY=OWNER/REPOSITORY >~/{configuration}/environment
{copy_spec}
# A token that may administer the repository's runners; no job's container gets it.
read -rs TOKEN && printf %s "$TOKEN" | podman secret create {secret} -

# One quadlet for each pool of this machine (`ci-runner labels` lists them).
install -D -m 0644 -t ~/.config/containers/systemd "$files"/ci-runner-{example}.container
systemctl --user daemon-reload
systemctl --user start ci-runner-{example}.service
```

`systemctl --user stop` waits for a running job, for as long as the job's timeout allows. A controller that exited with
7 stays down, since GitHub no longer serves the runner's version in its image: pull a newer image, then start it.
{gpus}"""

_ON_GPUS = """
On a machine with GPUs, NVIDIA's container toolkit must describe them for containers, as root and after every boot:
`nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml`. With rootless podman, a container keeps its GPU across a
`systemctl daemon-reload`; with docker, or podman as root, it can lose it.
"""
