#!/usr/bin/env bash
# Installs Mesa's llvmpipe, a Vulkan device that computes on the CPU, for `yarn test:gpu` on a machine without a GPU.
# Does nothing where there is a GPU or an llvmpipe that can be used. Debian 12 has Mesa 22.3, whose llvmpipe corrupts its
# own heap: there it comes from backports. Exit status 1, with one line that says why, where it cannot be installed.
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)
sources=${HONE_APT_SOURCES:-/etc/apt/sources.list.d}

device() { node "$scripts/gpu-device.mjs"; }
cannot() { echo "no software GPU was installed: $1"; exit 1; }

if found=$(device); then
  echo "a device for the GPU tests is there: $found"
  exit 0
fi
echo "$found"
[ "$(uname -s)" = Linux ] && command -v apt-get >/dev/null || cannot "this needs apt, of Debian or Ubuntu"
[ "$(id -u)" = 0 ] || cannot "this needs root; run it as root, or install mesa-vulkan-drivers 25 or newer"

export DEBIAN_FRONTEND=noninteractive
quiet=(-qq -o DPkg::Lock::Timeout=60 -o Acquire::Retries=2 -o Acquire::http::Timeout=30)
update() { apt-get "${quiet[@]}" update >/dev/null 2>&1 || cannot "apt-get update failed; is there a network?"; }
# The Mesa that apt would install: "22.3.6-1+deb12u1" is 22.
major() { apt-cache policy mesa-vulkan-drivers "$@" | sed -n 's/^ *Candidate: *\([0-9]*\)\..*/\1/p'; }
least=25

update
from=()
mesa=$(major)
if [ "${mesa:-0}" -lt $least ]; then
  codename=$(. "${HONE_OS_RELEASE:-/etc/os-release}" && echo "${VERSION_CODENAME:-}")
  [ "$codename" = bookworm ] || cannot "this system has Mesa ${mesa:-none}, and it takes $least or newer (Debian 12 or 13, Ubuntu 25.04)"
  if ! grep -q bookworm-backports <<<"$(apt-cache policy)"; then
    echo "deb http://deb.debian.org/debian bookworm-backports main" >"$sources/hone-backports.list"
    update
  fi
  from=(-t bookworm-backports)
  mesa=$(major "${from[@]}")
  [ "${mesa:-0}" -ge $least ] || cannot "bookworm-backports has Mesa ${mesa:-none}, and it takes $least or newer"
fi
apt-get "${quiet[@]}" install -y --no-install-recommends "${from[@]}" mesa-vulkan-drivers libvulkan1 >/dev/null ||
  cannot "apt-get install mesa-vulkan-drivers failed"
found=$(device) || cannot "Mesa $mesa was installed, yet $found"
echo "installed a software GPU: $found"
