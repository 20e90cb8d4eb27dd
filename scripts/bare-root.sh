#!/usr/bin/env bash
# Installs hone where nothing is but Node and Python: in an empty Debian, without a compiler and without git.
#
#   bash scripts/bare-root.sh DIR [--train | --card] TARBALL...      (as root; debootstrap must be installed)
#
# Makes the system in DIR (a new folder, 0.4 GB), installs the tarballs of `yarn package` there with npm, and runs `hone --version`,
# `hone init` and `hone rollout` with the tiny model; --train adds `hone train` and `hone demo`, which install Python packages.
# --card instead: the system has the packages that README names for a machine with NVIDIA's driver, and a null card (test/null-card,
# which `yarn test:card` builds) is its card; the Python environment for CUDA is installed (5 GB), the stand-ins take the place of
# CUDA's runtime in it, and a step is trained on that card and committed.
# Prints seconds and megabytes of each step, and ends with the status of the first one that failed.
# Variables: SUITE (default: this machine's Debian), NODE (default: 20.20.2, from npm), ARCH (amd64 or arm64; another one than this
# machine's needs qemu-user-static, registered with the kernel).
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(realpath -m "${1:?give a new folder}")
shift
mode=cpu
case "${1:-}" in
--train | --card)
  mode=${1#--}
  shift
  ;;
esac
packages=ca-certificates,libatomic1,python3,python3-venv
if [ "$mode" = card ]; then
  packages=$packages,python3-dev,git,build-essential
  null=$(node -e 'import("./dist/test/null-card/support.js").then(({ built }) => console.log(built))' 2>/dev/null || true)
  [ -f "$null/stamp" ] || { echo "build the null card first: yarn test:card" >&2; exit 2; }
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

kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
debootstrap --arch="$debian" --variant=minbase --include="$packages" "$suite" "$root" "$mirror" \
  > "$kept/system" 2>&1 || { tail -3 "$kept/system" >&2; exit 1; }
rm -f "$root"/var/cache/apt/archives/*.deb

# Node and npm as the registry has them: no package of Debian, which would bring a compiler.
(cd "$kept" && npm pack --silent "node-linux-$arch@$node" npm@10 > /dev/null)
tar xzf "$kept"/node-linux-*.tgz -C "$root/usr/local" --strip-components=1 package/bin/node
mkdir -p "$root/usr/local/lib/node_modules/npm" "$root/root/project" "$root/tarballs"
tar xzf "$kept"/npm-*.tgz -C "$root/usr/local/lib/node_modules/npm" --strip-components=1
for name in npm npx; do ln -s "../lib/node_modules/npm/bin/$name-cli.js" "$root/usr/local/bin/$name"; done
cp "$@" "$root/tarballs/"
[ "$mode" = card ] || for tool in cc gcc g++ clang make git; do
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

if [ "$mode" = card ]; then
  mkdir -p "$root/null-card/lib"
  cp -r "$null/driver" "$null/bin" "$root/null-card/"
  find "$null/cache/hone" -path '*/nvidia/cu13/lib/*.so.*' -exec cp {} "$root/null-card/lib/" \;
  settings+=("PATH=/null-card/bin:/usr/local/bin:/usr/bin:/bin" "LD_LIBRARY_PATH=/null-card/driver" "TRITON_LIBCUDA_PATH=/null-card/driver")
  # Copies to the card are counted and not made.
  settings+=("NULLCUDA_NO_DATA=1" "NULLCUDA_LOG=/root/counted" "NULLCUDA_SHM=/root/card-memory")
  while IFS= read -r line; do settings+=("$line"); done < <(node --input-type=module -e '
    const { Machine } = await import(`${process.cwd()}/dist/test/null-card/support.js`);
    const { env, ...machine } = new Machine(["4090"]);
    for (const name of ["NULLCUDA_CARD", "NULLCUDA_SMI", "NULLCUDA_DRIVER"]) console.log(`${name}=${env[name]}`);
    (await import("node:fs")).rmSync(machine.folder, { recursive: true });')
fi

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
case "$mode" in
train)
  step train "npm run train -- --gpu off"
  step demo "npx --no -- hone demo --gpu off"
  ;;
card)
  # Its trial is on NVIDIA's own runtime, which finds no card behind a driver that is not NVIDIA's.
  step python "npx --no -- hone doctor --install --learner peft || true"
  for library in "$root"/null-card/lib/*; do
    found=$(find "$root/root/.cache/hone" -name "$(basename "$library")")
    [ -n "$found" ] || { echo "the environment has no $(basename "$library"):" >&2; tail -20 "$kept/python" >&2; exit 1; }
    while IFS= read -r file; do cp --remove-destination "$library" "$file"; done <<< "$found"
  done
  # No answer is right on a card that does not compute, so rewards are drawn.
  step train "npm run train -- --gpu cuda --learner peft --steps 1 --control random-reward --max-mismatch 100"
  step committed "test -s .hone/*/models/*/checkpoints/0001/adapter.gguf && grep -l '\"launch direct\"' /root/counted.*"
  ;;
esac
