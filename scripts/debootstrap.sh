#!/usr/bin/env bash
# Installs debootstrap for the test in an empty Debian (test/package/bare-root.card.test.ts) on a machine that has none. Exit
# status 1, with one line that says why, where it cannot be installed: that test then says in its name that it did not run.
set -euo pipefail
cannot() { echo "no debootstrap was installed: $1"; exit 1; }

if command -v debootstrap; then exit 0; fi
[ "$(uname -s)" = Linux ] && command -v apt-get >/dev/null || cannot "this needs apt, of Debian or Ubuntu"
[ "$(id -u)" = 0 ] || cannot "this needs root; run it as root, or install the package debootstrap"

export DEBIAN_FRONTEND=noninteractive
quiet=(-qq -o DPkg::Lock::Timeout=60 -o Acquire::Retries=2 -o Acquire::http::Timeout=30)
apt-get "${quiet[@]}" update >/dev/null 2>&1 || cannot "apt-get update failed; is there a network?"
apt-get "${quiet[@]}" install -y --no-install-recommends debootstrap >/dev/null || cannot "apt-get install debootstrap failed"
