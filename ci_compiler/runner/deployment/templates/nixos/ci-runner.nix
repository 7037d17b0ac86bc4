# @heading@
# Controllers of GitHub Actions runners. Each starts containers of its pool's image with rootless podman, one per job.
# Only the controllers get the credential.
{ config, lib, ... }:

let
  cfg = config.services.ci-runner;

  # The spec's pools; `stop`: the seconds in which a running job must end and its container be removed.
  known = {
@each pool@
    @nix-pool@ = { description = @nix-title@; gpu = @nix-gpu@; stop = @stop@; health = "@health-option@"; };
@end@
  };

  served = lib.filterAttrs (name: count: known ? ${name}) cfg.pools;
  session = "user@${toString cfg.uid}.service";
  isWatched = lib.any (name: known.${name}.health != "") (lib.attrNames served);
  hasGpu = lib.any (name: known.${name}.gpu) (lib.attrNames served);
in
{
  options.services.ci-runner = {
    enable = lib.mkEnableOption "controllers of GitHub Actions runners";

    package = lib.mkOption {
      type = lib.types.package;
      description = "The package that provides bin/ci-runner.";
    };

    repository = lib.mkOption {
      type = lib.types.str;
      description = "The repository on GitHub.";
      example = "my-org/build-pytorch";
    };

    credential = lib.mkOption {
      type = lib.types.str;
      description = "A file like gh's hosts.yml, outside the store, with a token that may administer runners.";
      example = "/run/secrets/hosts.yml";
    };

    uid = lib.mkOption {
      type = lib.types.int;
      default = 974;
      description = "The id of the user whose podman runs the containers.";
    };
@if spec-option@

    spec = lib.mkOption {
      type = lib.types.path;
      description = "The spec that these pools are declared in.";
      example = lib.literalExpression "./ci-matrix.yaml";
    };
@end@

    pools = lib.mkOption {
      type = lib.types.attrsOf (lib.types.ints.positive);
      default = { };
      description = "The pools of this machine, and how many runners of each it runs at a time.";
      example = lib.literalExpression "{ x86-builder = 1; }";
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = map (name: {
      assertion = known ? ${name};
      message = "services.ci-runner.pools: unknown pool ${name}; known are ${toString (lib.attrNames known)}";
    }) (lib.attrNames cfg.pools);

    virtualisation.podman.enable = true;
@if nixos-option@
    @nixos-option@.enable = lib.mkIf hasGpu true;
    @nixos-option@.device-name-strategy = lib.mkIf hasGpu "uuid";
@end@

    # The user runs podman in a session that lasts beyond logins; the controllers use its socket.
    users.groups.ci-runner = { };
    users.users.ci-runner = {
      isSystemUser = true;
      uid = cfg.uid;
      group = "ci-runner";
      home = "/var/lib/ci-runner";
      createHome = true;
      linger = true;
      autoSubUidGidRange = true;
    };
    systemd.user.sockets.podman.wantedBy = [ "sockets.target" ];

    # Only the controllers' user may open it.
    systemd.sockets.ci-runner-health = lib.mkIf isWatched {
      wantedBy = [ "sockets.target" ];
      socketConfig = {
        ListenStream = "@health@";
        DirectoryMode = "0755";
        SocketMode = "0600";
        SocketUser = "ci-runner";
        Accept = true;
        RemoveOnStop = true;
      };
    };

    systemd.services = lib.mapAttrs' (name: count: lib.nameValuePair "ci-runner-${name}" {
      description = "GitHub Actions runners of the pool ${known.${name}.description}";
      wantedBy = [ "multi-user.target" ];
      # The containers run in the session of the user. At shutdown, it must outlive the controllers.
      wants = [ "network-online.target" session ];
      after = [ "network-online.target" session@nixos-after@ ];
      path = [ config.virtualisation.podman.package ];
      environment.GITHUB_REPOSITORY = cfg.repository;
      startLimitIntervalSec = 0;
      script = ''
        export CONTAINER_HOST=unix:///run/user/$(id --user)/podman/podman.sock
        export GH_CONFIG_DIR=$CREDENTIALS_DIRECTORY XDG_RUNTIME_DIR=$RUNTIME_DIRECTORY
        exec ${cfg.package}/bin/ci-runner start ${name} --count ${toString count}${known.${name}.health}@if spec-option@ --spec ${cfg.spec}@end@
      '';
      serviceConfig = {
        User = "ci-runner";
        WorkingDirectory = "/var/lib/ci-runner";
        StateDirectory = "ci-runner";
        RuntimeDirectory = "%N";
        LoadCredential = "hosts.yml:${cfg.credential}";
        KillMode = "mixed";
        TimeoutStopSec = known.${name}.stop;
        @nix-service@
      };
    }) served // lib.optionalAttrs isWatched {
      # One for each connection to the socket.
      "ci-runner-health@" = {
        description = "A verdict on the health of the machine's GPUs";
        path = [ "/run/current-system/sw" ];
        script = "exec ${cfg.package}/bin/ci-runner health";
        serviceConfig = {
          @nix-health-service@
        };
      };
    } // {
      ci-prune-runners = {
        description = "Removes what GitHub Actions runners left behind";
        startAt = "daily";
        wants = [ "network-online.target" ];
        after = [ "network-online.target" ];
        path = [ config.virtualisation.podman.package ];
        environment.GITHUB_REPOSITORY = cfg.repository;
        script = ''
          export CONTAINER_HOST=unix:///run/user/$(id --user)/podman/podman.sock
          export GH_CONFIG_DIR=$CREDENTIALS_DIRECTORY XDG_RUNTIME_DIR=$RUNTIME_DIRECTORY
          exec ${cfg.package}/bin/ci-runner prune@if spec-option@ --spec ${cfg.spec}@end@
        '';
        serviceConfig = {
          Type = "oneshot";
          User = "ci-runner";
          WorkingDirectory = "/var/lib/ci-runner";
          StateDirectory = "ci-runner";
          RuntimeDirectory = "%N";
          LoadCredential = "hosts.yml:${cfg.credential}";
          @nix-hardening@
        };
      };
    };
  };
}
