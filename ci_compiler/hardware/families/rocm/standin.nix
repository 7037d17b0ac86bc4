# What nixpkgs has for ROCm, as far as a recipe can tell: see ci_compiler/adoption/standin/families.nix.
{ lib, package, members, names }:
let
  inherit (builtins) fromJSON mapAttrs readFile;
  facts = fromJSON (readFile ./nixpkgs.json);

  # nixpkgs' `rocmPackages`: one set, whose release is not known of a revision, so that `clr` has no version here. Its
  # members are built for the targets of `clr`: pkgs/development/rocm-modules/default.nix.
  setOf = { context, base }:
    let
      member = name: package.invent { inherit context members; attribute = "rocmPackages.${name}"; };
      known = {
        clr = package.make {
          inherit context;
          attribute = "rocmPackages.clr";
          arguments = { localGpuTargets = null; };
          attrs = args: { pname = "clr"; } // lib.optionalAttrs (args.localGpuTargets != null) { inherit (args) localGpuTargets; };
          extras = _: { gpuTargets = facts.default; };
        };
      } // lib.genAttrs [ "hipblas" "hipblaslt" "hipcc" "miopen" "rccl" "rocblas" "rocm-core" "rocminfo" "rocm-runtime" ] member;
      invented = mapAttrs (name: _: member name) (removeAttrs names (builtins.attrNames context.known));
      build = overlay:
        let
          prev = invented // known;
          self = prev // overlay self prev // {
            overrideScope = extra: build (lib.composeExtensions overlay extra);
            newScope = extra: lib.callPackageWith (base // self // extra);
            callPackage = lib.callPackageWith (base // self);
            __toolkit = { attribute = "rocmPackages"; version = ""; };
            __label = "rocmPackages";
          };
        in
        self;
      ofTargets = localGpuTargets: build (_: prev: { clr = prev.clr.override { inherit localGpuTargets; }; });
    in
    build (_: _: { }) // lib.genAttrs facts.default (target: ofTargets [ target ]);
in
{
  config = { rocmSupport = false; };

  known = { context, base, pin }: {
    rocmPackages = setOf { inherit context base; };
    magma-hip = package.invent { inherit context members; attribute = "magma-hip"; };
    pkgsRocm = context.again { config = context.given // { rocmSupport = true; }; };
  };

  torch = { context, base }: {
    arguments = {
      rocmSupport = context.config.rocmSupport or false;
      inherit (base) rocmPackages;
    };
    # Without `gpuTargets`, the targets of `clr` go into the same variable, but RDNA 1.
    preConfigure = args: lib.optionalString args.rocmSupport (package.inherited + ''
      export PYTORCH_ROCM_ARCH="${lib.concatStringsSep ";" (
        if args.gpuTargets != [ ] then args.gpuTargets else
          lib.subtractLists [ "gfx1010" "gfx1012" ] (args.rocmPackages.clr.localGpuTargets or facts.default)
      )}"
    '');
    isBroken = args: args.cudaSupport or false && args.rocmSupport;
    inputs = args: lib.optionals args.rocmSupport [ args.rocmPackages.clr ];
    extras = args: { inherit (args) rocmSupport rocmPackages; };
    aliases = alias: {
      torchWithRocm = (alias "torchWithRocm").override { rocmSupport = true; cudaSupport = false; };
      torchWithoutRocm = (alias "torchWithoutRocm").override { rocmSupport = false; };
    };
  };

  # What a package that uses torch has from it, as in nixpkgs.
  user = { base, args }: {
    rocmSupport = args.torch.rocmSupport or false;
    rocmPackages = args.torch.rocmPackages or base.rocmPackages;
  };

  support = { effective, config }: effective.rocmSupport or (config.rocmSupport or false);
}
