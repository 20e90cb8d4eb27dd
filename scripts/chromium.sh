#!/usr/bin/env bash
# Installs Debian's Chromium for the tests of the page (test/view) on a machine that has none. Exit status 1, with one line
# that says why, where it cannot be installed: those tests then say in their names that they did not run.
set -euo pipefail
cannot() { echo "no Chromium was installed: $1"; exit 1; }

for browser in chromium chromium-browser google-chrome; do
  if [ -x "/usr/bin/$browser" ]; then
    echo "a browser for the tests of the page is there: /usr/bin/$browser"
    exit 0
  fi
done
[ "$(uname -s)" = Linux ] && command -v apt-get >/dev/null || cannot "this needs apt, of Debian"
[ "$(id -u)" = 0 ] || cannot "this needs root; run it as root, or install the package chromium"

export DEBIAN_FRONTEND=noninteractive
quiet=(-qq -o DPkg::Lock::Timeout=60 -o Acquire::Retries=2 -o Acquire::http::Timeout=30)
apt-get "${quiet[@]}" update >/dev/null 2>&1 || cannot "apt-get update failed; is there a network?"
# Ubuntu's package of this name is a stub that installs a snap. (In a pipe, grep -q would end apt-cache by a signal.)
grep -q '^Maintainer:.*Debian' <<<"$(apt-cache show chromium 2>/dev/null)" || cannot "this system's apt has no Chromium of Debian's"
apt-get "${quiet[@]}" install -y --no-install-recommends chromium >/dev/null || cannot "apt-get install chromium failed"
echo "installed $(chromium --version 2>/dev/null)"
