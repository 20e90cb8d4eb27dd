#!/usr/bin/env bash
# Installs hone where nothing is but Node and Python: in an empty Debian, without a compiler and without git.
#
#   bash scripts/bare-root.sh DIR [--train] TARBALL...      (as root; debootstrap must be installed)
#
# Makes the system in DIR (a new folder, 0.4 GB), installs the tarballs of `yarn package` there with npm, and runs `hone --version`,
# `hone init` and `hone rollout` with the tiny model; --train adds `hone train` and `hone demo`, which install Python packages.
# Prints seconds and megabytes of each step, and ends with the status of the first one that failed.
# Variables: SUITE (default: this machine's Debian), NODE (default: 20.20.2, from npm), ARCH (amd64 or arm64; another one than this
# machine's needs qemu-user-static, registered with the kernel).
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(realpath -m "${1:?give a new folder}")
shift
train=no
if [ "${1:-}" = --train ]; then
  train=yes
  shift
fi
[ $# -gt 0 ] || { echo "give the tarballs of build/packages" >&2; exit 2; }
[ ! -e "$root" ] || { echo "$root exists; give a new folder" >&2; exit 2; }
suite=${SUITE:-$(. /etc/os-release && echo "${VERSION_CODENAME:?}")}
node=${NODE:-20.20.2}
debian=${ARCH:-$(dpkg --print-architecture)}
arch=${debian/amd64/x64}
# The mirror that apt takes here.
mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
  awk '$3 == "main" && $1 !~ /security/ { print $1; exit }')

megabytes() { du -sm --apparent-size "$@" 2>/dev/null | awk '{ sum += $1 } END { print sum + 0 }'; }

debootstrap --arch="$debian" --variant=minbase --include=ca-certificates,libatomic1,python3,python3-venv "$suite" "$root" "$mirror" \
  > "$root.log" 2>&1 || { tail -3 "$root.log" >&2; exit 1; }
rm -f "$root.log" "$root"/var/cache/apt/archives/*.deb

# Node and npm as the registry has them: no package of Debian, which would bring a compiler.
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
(cd "$kept" && npm pack --silent "node-linux-$arch@$node" npm@10 > /dev/null)
tar xzf "$kept"/node-linux-*.tgz -C "$root/usr/local" --strip-components=1 package/bin/node
mkdir -p "$root/usr/local/lib/node_modules/npm" "$root/root/project" "$root/tarballs"
tar xzf "$kept"/npm-*.tgz -C "$root/usr/local/lib/node_modules/npm" --strip-components=1
for name in npm npx; do ln -s "../lib/node_modules/npm/bin/$name-cli.js" "$root/usr/local/bin/$name"; done
cp "$@" "$root/tarballs/"
for tool in cc gcc g++ clang make git; do
  [ -z "$(chroot "$root" /bin/sh -c "command -v $tool" || true)" ] || { echo "$tool is there" >&2; exit 1; }
done

# The network as this machine reaches it: names, registry, proxies and certificates.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
settings=("PATH=/usr/local/bin:/usr/bin:/bin" "HOME=/root" "npm_config_registry=$(npm config get registry)")
while IFS= read -r line; do settings+=("$line"); done < <(env | grep -iE '^(https?_proxy|no_proxy|PIP_[A-Z_]+|UV_[A-Z_]+)=' || true)
for name in NODE_EXTRA_CA_CERTS SSL_CERT_FILE REQUESTS_CA_BUNDLE PIP_CERT; do
  file=${!name:-}
  [ -f "$file" ] || continue
  mkdir -p "$root$(dirname "$file")"
  cp -L "$file" "$root$file"
  settings+=("$name=$file")
done

inside() {
  unshare --mount --pid --fork --kill-child /bin/sh -c '
    mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/dev/shm" &&
    cd / && exec chroot "$0" /usr/bin/env -i "$@"' "$root" "${settings[@]}" /bin/sh -c "cd /root/project && $1"
}

before=$(megabytes "$root")
printf '%-10s %8s %8s\n' step seconds MB
printf '%-10s %8s %8s\n' system - "$before"
step() {
  local start now status=0
  start=${EPOCHREALTIME/./}
  inside "$2" > "$kept/$1" 2>&1 || status=$?
  now=$(megabytes "$root")
  printf '%-10s %8s %8d\n' "$1" "$(((${EPOCHREALTIME/./} - start) / 1000000))" $((now - before))
  before=$now
  if [ "$status" -ne 0 ]; then
    echo "$1 failed ($status):" >&2
    tail -20 "$kept/$1" >&2
    exit "$status"
  fi
}

# npm's cache is not part of what is installed.
step_of_cache() { printf '%-10s %8s %8d\n' "  cache" - "$(megabytes "$root/root/.npm")"; }
small="--gpu off --threads 1 --context 1024 --max-tokens 8 --max-turns 1 --group-size 1"
step install "npm install --no-audit --no-fund --foreground-scripts /tarballs/*.tgz"
step_of_cache
step version "npx --no -- hone --version"
step init "npx --no -- hone init --yes"
step rollout "npx --no -- hone rollout --task task.ts --model tiny --n 1 $small --json"
if [ "$train" = yes ]; then
  step train "npm run train -- --gpu off"
  step demo "npx --no -- hone demo --gpu off"
fi
