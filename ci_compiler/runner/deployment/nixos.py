"""A NixOS module with the services that the systemd units define elsewhere, and options for them."""

from __future__ import annotations

from collections.abc import Mapping

from ci_compiler.recipes.nix_text import string
from ci_compiler.runner.deployment.hardening import HARDENING
from ci_compiler.runner.deployment.service import (
    INSTALL,
    RESTART,
    STOPPING,
    Deployment,
    heading,
    listed,
    longest,
    page,
    spec_option,
    title,
    toolkit,
)
from ci_compiler.spec.model import Pool, Spec

TARGET = "nixos"

MODULE = "ci-runner.nix"


def deployment(spec: Spec) -> Deployment:
    """The module and the page for the pools with labels; a warning for each runner scale set.

    Raises InputError if every pool is one.
    """
    pools, left_out = listed(spec, TARGET)
    files = {MODULE: _module(spec, pools), INSTALL: page(spec, TARGET, _page(spec, pools))}
    return Deployment(files=files, findings=left_out)


def _module(spec: Spec, pools: tuple[Pool, ...]) -> str:
    facts = [
        f"    {string(pool.name)} = {{ description = {string(title(spec, pool))}; "
        f"gpu = {'true' if pool.gpu else 'false'}; stop = {longest(spec, pool) + STOPPING}; }};"
        for pool in pools
    ]
    return _MODULE.format(
        head=heading(spec, TARGET),
        pools="\n".join(facts),
        service=_attributes({**RESTART, **HARDENING}, indent=8),
        spec_options=_SPEC_OPTION if spec_option(spec) else "",
        spec_words=" --spec ${cfg.spec}" if spec_option(spec) else "",
    )


def _attributes(values: Mapping[str, str], *, indent: int) -> str:
    return "\n".join(f"{' ' * indent}{name} = {string(value)};" for name, value in values.items())


_SPEC_OPTION = """
    spec = lib.mkOption {
      type = lib.types.path;
      description = "The spec that these pools are declared in.";
      example = lib.literalExpression "./ci-matrix.yaml";
    };
"""

_MODULE = """\
# {head}
# Controllers of GitHub Actions runners. Each starts containers of its pool's image with rootless podman, one per job.
# Only the controllers get the credential.
{{ config, lib, ... }}:

let
  cfg = config.services.ci-runner;

  # The spec's pools; `stop`: the seconds in which a running job must end and its container be removed.
  known = {{
{pools}
  }};

  served = lib.filterAttrs (name: count: known ? ${{name}}) cfg.pools;
  hasGpu = lib.any (name: known.${{name}}.gpu) (lib.attrNames served);
in
{{
  options.services.ci-runner = {{
    enable = lib.mkEnableOption "controllers of GitHub Actions runners";

    package = lib.mkOption {{
      type = lib.types.package;
      description = "The package that provides bin/ci-runner.";
    }};

    repository = lib.mkOption {{
      type = lib.types.str;
      description = "The repository on GitHub.";
      example = "my-org/build-pytorch";
    }};

    credential = lib.mkOption {{
      type = lib.types.str;
      description = "A file like gh's hosts.yml, outside the store, with a token that may administer runners.";
      example = "/run/secrets/hosts.yml";
    }};
{spec_options}
    pools = lib.mkOption {{
      type = lib.types.attrsOf (lib.types.ints.positive);
      default = {{ }};
      description = "The pools of this machine, and how many runners of each it runs at a time.";
      example = lib.literalExpression "{{ x86-builder = 1; }}";
    }};
  }};

  config = lib.mkIf cfg.enable {{
    assertions = map (name: {{
      assertion = known ? ${{name}};
      message = "services.ci-runner.pools: unknown pool ${{name}}; known are ${{toString (lib.attrNames known)}}";
    }}) (lib.attrNames cfg.pools);

    virtualisation.podman.enable = true;
    hardware.nvidia-container-toolkit.enable = lib.mkIf hasGpu true;

    # The user runs podman in a session that lasts beyond logins; the controllers use its socket.
    users.groups.ci-runner = {{ }};
    users.users.ci-runner = {{
      isSystemUser = true;
      group = "ci-runner";
      home = "/var/lib/ci-runner";
      createHome = true;
      linger = true;
      autoSubUidGidRange = true;
    }};
    systemd.user.sockets.podman.wantedBy = [ "sockets.target" ];

    systemd.services = lib.mapAttrs' (name: count: lib.nameValuePair "ci-runner-${{name}}" {{
      description = "GitHub Actions runners of the pool ${{known.${{name}}.description}}";
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" "nvidia-container-toolkit-cdi-generator.service" ];
      path = [ config.virtualisation.podman.package ];
      environment.GITHUB_REPOSITORY = cfg.repository;
      startLimitIntervalSec = 0;
      script = ''
        export CONTAINER_HOST=unix:///run/user/$(id --user)/podman/podman.sock
        export GH_CONFIG_DIR=$CREDENTIALS_DIRECTORY
        exec ${{cfg.package}}/bin/ci-runner start ${{name}} --count ${{toString count}}{spec_words}
      '';
      serviceConfig = {{
        User = "ci-runner";
        WorkingDirectory = "/var/lib/ci-runner";
        StateDirectory = "ci-runner";
        LoadCredential = "hosts.yml:${{cfg.credential}}";
        KillMode = "mixed";
        TimeoutStopSec = known.${{name}}.stop;
{service}
      }};
    }}) served;
  }};
}}
"""


def _page(spec: Spec, pools: tuple[Pool, ...]) -> str:
    return _PAGE.format(
        rows="\n".join(f"- {title(spec, pool)}" for pool in pools),
        example=pools[0].name,
        toolkit=toolkit(),
        module=MODULE,
        spec="    spec = ./ci-matrix.yaml;\n" if spec_option(spec) else "",
    )


_PAGE = """\
# Runners on NixOS

{rows}

In the machine's configuration, with its pools (`ci-runner labels` lists them):

```nix
{{
  imports = [ ./{module} ];
  services.ci-runner = {{
    enable = true;
    package = …; # {toolkit} from PyPI, built with buildPythonApplication or uv2nix
    repository = "OWNER/REPOSITORY";
    credential = "/run/secrets/hosts.yml";
{spec}    pools.{example} = 1;
  }};
}}
```

The credential file contains `github.com: {{oauth_token: …}}`, like gh's hosts.yml; systemd passes it only to the
controllers. `systemctl stop` waits for a running job, for as long as the job's timeout allows. A controller that exited
with 7 stays down, since GitHub no longer serves the runner's version in its image: pull a newer image, then start it.
`nixos-rebuild switch` reloads systemd. With rootless podman, a container keeps its GPU across that; with docker, or
podman as root, it can lose it.
"""
