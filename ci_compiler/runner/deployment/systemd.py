"""Units for a machine with systemd: a template for controllers, one drop-in per pool, and how to install them.

The controller (`ci-runner start POOL`) holds the credential and runs as a dedicated user. Rootless podman runs the
containers of jobs in that user's session; the controller talks to it through its socket.
"""

from __future__ import annotations

from ci_compiler.runner.deployment.hardening import HARDENING
from ci_compiler.runner.deployment.service import (
    CONFIGURATION,
    INSTALL,
    PREFIX,
    RESTART,
    SPEC,
    STOPPING,
    Deployment,
    copy_spec,
    heading,
    listed,
    longest,
    page,
    spec_option,
    title,
    toolkit,
)
from ci_compiler.spec.model import Pool, Spec

TARGET = "systemd"

USER = "ci-runner"
HOME = "/var/lib/ci-runner"

TEMPLATE = "ci-runner@.service"
GPUS = "ci-runner-gpus.service"

Section = dict[str, str | list[str]]
"""A section of a unit: settings by name, a list for one that is repeated."""


def deployment(spec: Spec) -> Deployment:
    """The units and the page for the pools with labels; a warning for each runner scale set.

    Raises InputError if every pool is one.
    """
    pools, left_out = listed(spec, TARGET)
    head = heading(spec, TARGET)
    files = {TEMPLATE: unit(head, _template(spec))}
    for pool in pools:
        files[f"{TEMPLATE.replace('@', f'@{pool.name}')}.d/pool.conf"] = unit(head, _drop_in(spec, pool))
    if any(pool.gpu for pool in pools):
        files[GPUS] = unit(head, _GPUS)
    files[INSTALL] = page(spec, TARGET, _page(spec, pools))
    return Deployment(files=files, findings=left_out)


def unit(head: str, sections: dict[str, Section]) -> str:
    """The text of a unit, with `head` as its first line."""
    lines = [f"# {head}"]
    for name, settings in sections.items():
        lines += ["", f"[{name}]"]
        for key, value in settings.items():
            lines += [f"{key}={one}" for one in (value if isinstance(value, list) else [value])]
    return "\n".join(lines) + "\n"


def _template(spec: Spec) -> dict[str, Section]:
    return {
        "Unit": {
            "Description": "GitHub Actions runners of the pool %i",
            "Documentation": "https://github.com/flox-cuda/ci-compiler",
            "Wants": "network-online.target",
            "After": "network-online.target",
            "StartLimitIntervalSec": "0",
        },
        "Service": {
            "Type": "exec",
            "User": USER,
            "ExecStart": f"{PREFIX}/bin/ci-runner start %i --count ${{COUNT}}{spec_option(spec)}",
            "WorkingDirectory": HOME,
            "StateDirectory": "ci-runner",
            "Environment": ["COUNT=1", "GH_CONFIG_DIR=%d"],
            "EnvironmentFile": [f"{CONFIGURATION}/environment", f"-{CONFIGURATION}/%i.environment"],
            "LoadCredential": f"hosts.yml:{CONFIGURATION}/hosts.yml",
            "KillMode": "mixed",
            "TimeoutStopSec": str(max(longest(spec, pool) for pool in spec.pools) + STOPPING),
            **RESTART,
            **HARDENING,
        },
        "Install": {"WantedBy": "multi-user.target"},
    }


def _drop_in(spec: Spec, pool: Pool) -> dict[str, Section]:
    about: Section = {"Description": f"GitHub Actions runners of the pool {title(spec, pool)}"}
    if pool.gpu:
        about |= {"Wants": GPUS, "After": GPUS}
    return {"Unit": about, "Service": {"TimeoutStopSec": str(longest(spec, pool) + STOPPING)}}


_GPUS: dict[str, Section] = {
    "Unit": {
        "Description": "The machine's GPUs, described for containers (CDI)",
        "Documentation": "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html",
        "After": "nvidia-persistenced.service",
    },
    "Service": {
        "Type": "oneshot",
        "RemainAfterExit": "yes",
        "ExecStart": "/usr/bin/nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml",
    },
    "Install": {"WantedBy": "multi-user.target"},
}
"""A driver update changes the description, so it is generated at every boot."""


def _page(spec: Spec, pools: tuple[Pool, ...]) -> str:
    example = pools[0].name
    return _PAGE.format(
        rows="\n".join(f"- {title(spec, pool)}" for pool in pools),
        copy_spec=copy_spec(spec, SPEC),
        configuration=CONFIGURATION,
        prefix=PREFIX,
        toolkit=toolkit(),
        user=USER,
        home=HOME,
        example=example,
        gpus=_ON_GPUS if any(pool.gpu for pool in pools) else "",
    )


_PAGE = """\
# Runners on a machine with systemd

{rows}

As root, on a machine with podman 4.1 or later, in the repository's root:

```shell
files=…  # this folder

# The toolkit, and a user for the controllers; rootless podman runs their containers.
python3 -m venv {prefix} && {prefix}/bin/pip install {toolkit}
useradd --system --create-home --home-dir {home} --shell /usr/sbin/nologin {user}
usermod --add-subuids 600000-665535 --add-subgids 600000-665535 {user}
loginctl enable-linger {user}
systemctl --user --machine={user}@.host enable --now podman.socket

# The controllers' configuration: the repository, podman's socket, the spec.
install -d -m 0755 {configuration}
cat >{configuration}/environment <<END
GITHUB_REPOSITORY=OWNER/REPOSITORY
CONTAINER_HOST=unix:///run/user/$(id --user {user})/podman/podman.sock
END
{copy_spec}
# A token that may administer the repository's runners, in the format of gh's hosts.yml. systemd passes it only to the
# controllers; no container gets it.
install -m 0600 /dev/null {configuration}/hosts.yml
read -rs TOKEN && printf 'github.com: {{oauth_token: %s}}\\n' "$TOKEN" >{configuration}/hosts.yml

# The units, and one controller for each pool of this machine (`ci-runner labels` lists them).
cp -r "$files"/ci-runner@* /etc/systemd/system/
systemctl daemon-reload
systemctl enable --now ci-runner@{example}.service
```

`systemctl stop` waits for a running job, for as long as the job's timeout allows. A controller that exited with 7 stays
down, since GitHub no longer serves the runner's version in its image: pull a newer image, then start it. To run several
runners of a pool on the machine, set `COUNT=2` in `{configuration}/POOL.environment`. To use a GitHub App instead of
the token, set `GITHUB_APP_ID=…` there, and add a drop-in with `LoadCredential=app.pem:…` and
`Environment=GITHUB_APP_PRIVATE_KEY_FILE=%d/app.pem`.
{gpus}"""

_ON_GPUS = """
A machine with GPUs also needs `cp "$files"/ci-runner-gpus.service /etc/systemd/system/` and NVIDIA's container toolkit.
With rootless podman, a container keeps its GPU across a `systemctl daemon-reload`; with docker, or podman as root, it
can lose it.
"""
