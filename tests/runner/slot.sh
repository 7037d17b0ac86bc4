#!/usr/bin/env bash
# slot.sh FOLDER DAEMON CONF COMMAND...: in a mount namespace of its own, lays out FOLDER as the containers of a slot have
# it (the volume at /nix, the image's users and nix.conf), then runs COMMAND. The machine's own /nix is hidden, never
# changed. Needs root and `unshare --mount`.
set -euo pipefail
folder=$1 builder=$2
shift 2
mount --make-rprivate /
mkdir -p "$folder"/{nix/store,nix/var/nix/builds,nix/var/nix/daemon-socket,nix/var/nix/profiles/default/bin,bin}
if [[ ! -d $folder/etc ]]; then
  cp --archive /etc "$folder/etc"
  mkdir -p "$folder/etc/ci-runner/daemon" "$folder/etc/nix"
  cp "$builder/daemon.nix.conf" "$folder/etc/ci-runner/daemon/nix.conf"
  cp "$builder/nix.conf" "$folder/etc/nix/nix.conf"
  sed -i '/^nixbld/d; /^runner:/d' "$folder/etc/group" "$folder/etc/passwd"
  echo 'nixbld:x:30000:nixbld1,nixbld2' >>"$folder/etc/group"
  printf 'nixbld%s:x:3000%s:30000::/var/empty:/usr/sbin/nologin\n' 1 1 2 2 >>"$folder/etc/passwd"
  echo 'runner:x:1001:1001::/home/runner:/bin/bash' >>"$folder/etc/passwd"
  chgrp 30000 "$folder/nix/store" && chmod 1775 "$folder/nix/store"
fi
mount --bind "$folder/nix" /nix
mount --bind "$folder/etc" /etc
mount --bind "$folder/bin" /usr/local/bin
exec "$@"
