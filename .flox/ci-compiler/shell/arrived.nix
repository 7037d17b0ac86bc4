# Compiled by ci-compile from torch.yaml (bundled). Do not edit: change the spec, then run `ci-compile recipes`.
# Functions of the shell, which phases of builds define.

''
  # arrived NAME VALUE [optional]: ends the build unless CMake's cache has VALUE, among other words or as the same boolean.
  arrived() {
    local cache=CMakeCache.txt found alike
    [ -e "$cache" ] || cache=build/CMakeCache.txt
    found=$(grep "^$1:" "$cache") || [ -z "''${3-}" ] || return 0
    found=''${found#*=}
    case " $found " in *" ''${2:+$2 }"*) return 0 ;; esac
    for alike in "1 ON YES TRUE Y" "0 OFF NO FALSE N IGNORE"; do
      case " $alike " in *" ''${2^^} "*) case " $alike " in *" ''${found^^} "*) return 0 ;; esac ;; esac
    done
    echo "ci-compiler: the recipe sets $1 to $2, and $cache has ''${found:-nothing}: the switch did not arrive" >&2
    exit 1
  }''
