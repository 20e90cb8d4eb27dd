// Checks that one set of versions satisfies the learner's requirements, on each Python version that hone supports.
// Resolved with uv; installs only uv itself, into build/. Exits with 0 and a message if no package index can be
// reached.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const UV = "0.13.9";
const PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"];
const FILES = ["requirements-dev.txt", "requirements-track.txt", "requirements-unsloth-cuda.txt", "unsloth-wheels.txt"];
/** The one requirement of Unsloth's that is not met: see unsloth-wheels.txt. */
const LIFTED = "certifi";

const root = fileURLToPath(new URL("..", import.meta.url));
const learner = join(root, "native/learner");
const folder = join(root, "build/uv");
const uv = join(folder, "bin/uv");

const run = (program, args) => spawnSync(program, args, { cwd: root, encoding: "utf8" });
function unknown(why) {
  console.log(`the learner's requirements were not resolved: ${why}`);
  process.exit(0);
}

mkdirSync(folder, { recursive: true });
if (!existsSync(uv) || !run(uv, ["--version"]).stdout?.startsWith(`uv ${UV}`)) {
  const pythons = [join(root, ".venv/bin/python"), "python3"];
  const python = pythons.find((name) => run(name, ["-m", "pip", "--version"]).status === 0);
  if (python === undefined) unknown("there is no pip to install uv with");
  const got = run(python, ["-m", "pip", "install", "-q", "--upgrade", "--target", folder, `uv==${UV}`]);
  if (got.status !== 0) unknown(`uv ${UV} cannot be installed (${got.stderr.trim().split("\n").at(-1)})`);
}

const lifted = join(folder, "lifted.txt");
writeFileSync(lifted, `${LIFTED}\n`);
const files = FILES.map((file) => join(learner, file));
const wheels = readFileSync(join(learner, "unsloth-wheels.txt"), "utf8").match(/^unsloth==\S+$/m)?.[0];

let failed = false;
for (const python of PYTHONS) {
  const started = performance.now();
  const args = ["pip", "compile", "-q", "--no-header", "--python-version", python, "--override", lifted];
  const { status, stdout, stderr } = run(uv, [...args, "--python-platform", "x86_64-manylinux_2_28", ...files]);
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  if (status === 0) {
    const packages = stdout.match(/^[\w.-]+==/gm)?.length ?? 0;
    console.log(`Python ${python}: ${packages} packages meet hone's requirements and ${wheels}'s (${seconds} s)`);
  } else if (/error sending request|dns error|tcp connect|timed out|Failed to fetch/i.test(stderr)) {
    unknown(`the package index cannot be reached (${stderr.trim().split("\n")[0]})`);
  } else {
    failed = true;
    console.error(`Python ${python}: the learner's requirements cannot be met together\n${stderr.trim()}`);
  }
}
process.exit(failed ? 1 : 0);
