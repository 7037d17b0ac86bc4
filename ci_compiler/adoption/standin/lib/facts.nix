# What nixpkgs knows by name: licences, maintainers, platforms; and functions on `meta`.
{ lib, names, unfree }:
let
  linux = [
    "x86_64-linux" "aarch64-linux" "i686-linux" "armv7l-linux" "powerpc64le-linux" "riscv64-linux" "s390x-linux"
  ];
  darwin = [ "x86_64-darwin" "aarch64-darwin" ];
  byCpu = cpu: builtins.filter (lib.hasPrefix cpu) (linux ++ darwin);
  licence = free: shortName: {
    inherit shortName free;
    fullName = shortName;
    spdxId = shortName;
    deprecated = false;
    redistributable = free;
  };
  person = name: { inherit name; github = name; email = "${name}@example.org"; };
in
rec {
  licenses = lib.genAttrs (names ++ [ "bsd3" ]) (licence true)
    // lib.genAttrs ([ "unfree" "unfreeRedistributable" "issl" ] ++ unfree) (licence false);
  maintainers = lib.genAttrs names person;
  teams = lib.genAttrs names (name: { shortName = name; members = [ ]; });
  sourceTypes = lib.genAttrs [ "fromSource" "binaryNativeCode" "binaryBytecode" "binaryFirmware" ] (shortName: {
    inherit shortName;
    isSource = shortName == "fromSource";
  });

  platforms = {
    inherit linux darwin;
    all = linux ++ darwin;
    unix = linux ++ darwin;
    none = [ ];
    x86_64 = byCpu "x86_64";
    x86 = byCpu "x86_64" ++ byCpu "i686";
    aarch64 = byCpu "aarch64";
    arm = byCpu "arm";
    aarch = byCpu "aarch64" ++ byCpu "arm";
    i686 = byCpu "i686";
    power = byCpu "powerpc";
    riscv = byCpu "riscv";
    windows = [ ];
    freebsd = [ ];
  };

  systems = {
    # A platform with the predicates that recipes ask for; any cpu-os pair is taken.
    elaborate = given:
      let
        system = if builtins.isString given then given else given.system or given.config;
        cpu = builtins.head (lib.splitString "-" system);
        os = lib.last (lib.splitString "-" system);
      in
      rec {
        inherit system;
        config = "${cpu}-unknown-${os}${if os == "linux" then "-gnu" else ""}";
        parsed = { cpu = { name = cpu; bits = 64; }; kernel.name = os; vendor.name = "unknown"; abi.name = "gnu"; };
        isLinux = os == "linux";
        isDarwin = os == "darwin";
        isMacOS = isDarwin;
        isUnix = true;
        isWindows = false;
        isFreeBSD = false;
        isx86_64 = cpu == "x86_64";
        isi686 = cpu == "i686";
        isx86_32 = isi686;
        isx86 = isx86_64 || isi686;
        isAarch64 = cpu == "aarch64";
        isAarch32 = cpu == "armv7l";
        isAarch = isAarch64 || isAarch32;
        isArm = isAarch32;
        isRiscV = cpu == "riscv64";
        isRiscV64 = isRiscV;
        isPower = cpu == "powerpc64le";
        is64bit = !isi686 && !isAarch32;
        is32bit = !is64bit;
        isGnu = isLinux;
        isMusl = false;
        isStatic = false;
        isLittleEndian = true;
        isBigEndian = false;
        hasSharedLibraries = true;
        extensions = { sharedLibrary = if isDarwin then ".dylib" else ".so"; staticLibrary = ".a"; executable = ""; };
        linuxArch = if isAarch64 then "arm64" else cpu;
        qemuArch = cpu;
        libc = if isLinux then "glibc" else "libSystem";
        gcc = { };
        canExecute = other: other.system == system;
        emulatorAvailable = _: true;
        __toString = self: self.system;
      };
    equals = a: b: a.system == b.system;
    flakeExposed = linux ++ darwin;
    doubles = platforms;
  };

  fakeHash = "sha256-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
  fakeSha256 = "0000000000000000000000000000000000000000000000000000000000000000";
  fakeSha512 = fakeSha256 + fakeSha256;

  addMetaAttrs = new: drv: drv // { meta = (drv.meta or { }) // new; };
  setName = name: drv: drv // { inherit name; };
  appendToName = suffix: drv: drv // { name = "${drv.name}-${suffix}"; };
  setPrio = priority: addMetaAttrs { inherit priority; };
  lowPrio = setPrio 10;
  hiPrio = setPrio (-10);
  hydraPlatforms = platforms: addMetaAttrs { hydraPlatforms = platforms; };
  getExe = drv: getExe' drv (drv.meta.mainProgram or (lib.getName drv));
  getExe' = drv: program: "${lib.getBin drv}/bin/${program}";
  availableOn = platform: drv: builtins.elem platform.system (drv.meta.platforms or [ platform.system ]);
  getLicenseFromSpdxId = licence true;
}
