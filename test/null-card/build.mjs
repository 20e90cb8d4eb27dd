// Builds the null card in the user's cache: the stand-ins of CUDA's libraries, and an environment of Python in which the real
// PyTorch for CUDA, its compiler and Triton run on them. Fetches what is not there: llama.cpp's library for CUDA (181 MB), Triton
// and the runtime's headers (290 MB), and PyTorch for CUDA (527 MB) where the learner's environment has one for the CPU alone.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { built as folder } from "../../dist/test/null-card/support.js";
import { exportsOf, undefinedOf, writeRest, writeStandIn } from "./symbols.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
/** XDG_CACHE_HOME of what runs on a null card. */
export const cache = join(folder, "cache");
/** Folder of the driver's library. */
export const driver = join(folder, "driver");
const ENGINE = "@node-llama-cpp/linux-x64-cuda";

/** Why nothing runs on a null card here, in one line. */
class Unavailable extends Error {}

/** Runs a program. @throws Unavailable with its last line */
function run(program, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    encoding: "utf8",
    maxBuffer: 1 << 28,
    ...options,
  });
  if (status === 0) return stdout;
  const said = (stderr || stdout || error?.message || "").trim().split("\n");
  const why = said.find((line) => /error/i.test(line)) ?? said.at(-1);
  throw new Unavailable(`${[program, ...args].slice(0, 3).join(" ")} failed: ${why}`);
}

/** site-packages of an interpreter's environment. */
const siteOf = (python) => run(python, ["-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]).trim();

/** The engine's libraries for CUDA, of the user's cache if they are there. */
async function engineLibraries() {
  const { fetchLibraries, librariesFolder } = await import("../../dist/src/engine/libraries.js");
  const own = librariesFolder({ ...process.env, XDG_CACHE_HOME: cache });
  if (existsSync(join(own, ENGINE))) return join(own, ENGINE, "bins/linux-x64-cuda");
  const users = join(librariesFolder(), ENGINE);
  if (existsSync(users)) {
    mkdirSync(dirname(join(own, ENGINE)), { recursive: true });
    cpSync(users, join(own, ENGINE), { recursive: true });
  } else {
    const before = process.env.XDG_CACHE_HOME;
    process.env.XDG_CACHE_HOME = cache;
    try {
      await fetchLibraries([ENGINE], { onProgress: console.error });
    } catch (error) {
      throw new Unavailable(error.message);
    } finally {
      if (before === undefined) delete process.env.XDG_CACHE_HOME;
      else process.env.XDG_CACHE_HOME = before;
    }
  }
  return join(own, ENGINE, "bins/linux-x64-cuda");
}

/** Locked packages by name, as pip reads them. */
async function requirements(names) {
  const { locked } = await import("../../dist/src/machine/python/declared.js");
  const all = locked(["base", "cuda13"]);
  return all.filter(({ name }) => names.includes(name)).map(({ text }) => text);
}

/**
 * An environment with PyTorch for CUDA 13 whose CUDA libraries are the stand-ins. All other packages are those of the learner's.
 * @returns {Promise<string>} its site-packages
 */
async function pythonEnvironment(python) {
  const { environmentFolder, writeStamp } = await import("../../dist/src/engine/device/environment.js");
  const env = environmentFolder("cuda13", root, { ...process.env, XDG_CACHE_HOME: cache });
  const interpreter = join(env, "bin/python");
  if (existsSync(join(env, "hone.json"))) return siteOf(interpreter);
  rmSync(env, { recursive: true, force: true });
  mkdirSync(dirname(env), { recursive: true });
  run(python, ["-m", "venv", "--without-pip", env]);
  const site = siteOf(interpreter);
  const learner = siteOf(python);
  const torch = readFileSync(join(learner, "torch/version.py"), "utf8");
  const forCuda = /^cuda\b[^=\n]*=\s*'13\./m.test(torch) && existsSync(join(learner, "torch/lib/libtorch_cuda.so"));
  const names = ["triton", "nvidia-cuda-runtime", ...(forCuda ? [] : ["torch"])];
  const list = join(folder, "requirements.txt");
  writeFileSync(list, `${(await requirements(names)).join("\n")}\n`);
  console.error(`null card: fetching ${names.join(", ")}`);
  const pip =
    run(python, ["-c", "import importlib.util as u; print(bool(u.find_spec('pip')))"]).trim() === "True"
      ? python
      : "python3";
  const install = ["install", "--quiet", "--no-deps", "--no-compile", "--require-hashes", "--target", site, "-r", list];
  run(pip, ["-m", "pip", "--disable-pip-version-check", "--no-input", ...install]);
  if (forCuda) {
    for (const name of readdirSync(learner).filter((one) =>
      /^(torch|torchgen|functorch|torch-.*\.dist-info)$/.test(one),
    )) {
      // Hard links: PyTorch has a gigabyte.
      const linked = spawnSync("cp", ["-al", join(learner, name), join(site, name)]).status === 0;
      if (!linked) cpSync(join(learner, name), join(site, name), { recursive: true });
    }
  }
  // With the learner's other packages behind its own.
  writeFileSync(join(site, "learner.pth"), `${learner}\n`);
  writeStamp(env, ["dev"]);
  return site;
}

const sources = {
  "libcuda.so.1": [
    "cards",
    "counters",
    "charges",
    "memory",
    "launches",
    "work",
    "driver",
    "driver_memory",
    "driver_modules",
  ],
  "libcudart.so.13": ["runtime", "runtime_memory", "runtime_streams"],
  "libcublasLt.so.13": ["cublaslt"],
  "libcublas.so.13": ["cublas"],
  "libcudnn.so.9": ["cudnn"],
};

/** Compiles the stand-ins, unless they are those of these sources. */
function compile(site, engine) {
  const nvidia = join(site, "nvidia/cu13");
  const headers = [join(nvidia, "include"), join(site, "triton/backends/nvidia/include")];
  const code = readdirSync(join(here, "native")).map((name) => readFileSync(join(here, "native", name)));
  code.push(readFileSync(join(here, "symbols.mjs")), readFileSync(fileURLToPath(import.meta.url)));
  const sum = code
    .reduce((hash, text) => hash.update(text), createHash("sha256"))
    .update(site)
    .digest("hex");
  const stamp = join(folder, "stamp");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === sum) return;
  const work = join(folder, "work");
  mkdirSync(work, { recursive: true });
  mkdirSync(driver, { recursive: true });
  mkdirSync(join(nvidia, "lib"), { recursive: true });
  const real = join(folder, "libcudart-real.so.13");
  const cudart = join(nvidia, "lib/libcudart.so.13");
  if (!existsSync(real)) cpSync(cudart, real);
  const torch = join(site, "torch/lib");
  for (const name of readdirSync(torch).filter(
    (one) => /^lib(hone_no_cuda|null_card_rest|cu|nv|nccl).*\.so/.test(one) && !/caffe/.test(one),
  ))
    rmSync(join(torch, name));
  const clients = [
    ...readdirSync(torch)
      .filter((one) => /^lib(torch|c10|caffe2).*\.so$/.test(one))
      .map((one) => join(torch, one)),
    join(engine, "libggml-cuda.so"),
  ];
  const wanted = undefinedOf(clients);
  const of = {
    "libcuda.so.1": driverFunctions(join(headers[1], "cuda.h")),
    "libcudart.so.13": exportsOf(real),
  };
  for (const library of ["libcublasLt.so.13", "libcublas.so.13", "libcudnn.so.9"])
    of[library] = wanted.filter(({ version }) => version === library).map(({ name }) => name);
  const include = [`-I${join(here, "native")}`, ...headers.map((one) => `-I${one}`)];
  const compiler = ["-std=c++17", "-O1", "-fPIC", "-shared", ...include];
  for (const [name, files] of Object.entries(sources)) {
    const into = join(name === "libcuda.so.1" ? driver : join(nvidia, "lib"), name);
    const paths = files.map((one) => join(here, "native", `${one}.cc`));
    const generated = writeStandIn(work, name, of[name], paths);
    const links = name === "libcuda.so.1" ? [] : [`-L${driver}`, "-l:libcuda.so.1"];
    rmSync(into, { force: true });
    run("g++", [...compiler, `-Wl,-soname,${name}`, ...paths, ...generated, "-o", into, ...links, "-ldl", "-lpthread"]);
  }
  // All other libraries of CUDA that PyTorch names are one, and what is called of it ends the process, with its name.
  const own = new Set(Object.values(of).flat());
  const rest = writeRest(
    work,
    clients,
    wanted.filter(({ name }) => !own.has(name)),
    new Set(Object.keys(sources)),
  );
  run("g++", [
    ...compiler,
    "-Wl,-soname,libnull_card_rest.so",
    ...rest.files,
    "-o",
    join(torch, "libnull_card_rest.so"),
    `-L${driver}`,
    "-l:libcuda.so.1",
  ]);
  for (const name of rest.libraries) symlinkSync("libnull_card_rest.so", join(torch, name));
  writeFileSync(stamp, sum);
}

/** Names of cuda.h, in the newest form of each. */
function driverFunctions(header) {
  const text = readFileSync(header, "utf8");
  const declared = [...text.matchAll(/^CUresult CUDAAPI (cu\w+)\(/gm)].map(([, name]) => name);
  const newest = [...text.matchAll(/^#\s*define cu\w+\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+_v\d)/gm)].map(
    ([, name]) => name,
  );
  return [...new Set([...declared, ...newest])];
}

/** Bytes in use are those of native/charges.cc: a row of a process has its id and, of eight cards each, live, peak and context. */
const SMI = `#!/bin/sh
# Lists the cards of NULLCUDA_SMI, one a line; their names; or how much of each is in use, in MiB.
case "$*" in
*"query-gpu=name "*) printf '%s\\n' "$NULLCUDA_SMI" | awk -F ', ' '{ print $3 }' ;;
*memory.used*)
  [ -f "$NULLCUDA_SHM" ] && words=$(od -An -v -t u8 -w8 "$NULLCUDA_SHM")
  printf '%s\\n' "$words" | awk -v cards="$(printf '%s\\n' "$NULLCUDA_SMI" | wc -l)" '
    { at = (NR - 1 - 8) % 25 }
    NR > 8 && at == 0 { lives = $1 > 0 && (getline line < ("/proc/" $1 "/stat")) > 0 }
    NR > 8 && at > 0 && at <= 8 && lives { used[at] += $1 }
    END { for (card = 1; card <= cards; card++) print int(used[card] / 1048576) }'
  ;;
*) printf '%s\\n' "$NULLCUDA_SMI" ;;
esac
`;

/**
 * @param {string} python the learner's
 * @returns {Promise<string | undefined>} why it cannot be built on this machine; undefined: it is built
 */
export async function buildNullCard(python) {
  if (process.platform !== "linux" || process.arch !== "x64") return "the stand-ins are for Linux on x86-64";
  try {
    mkdirSync(join(folder, "bin"), { recursive: true });
    writeFileSync(join(folder, "bin/nvidia-smi"), SMI, { mode: 0o755 });
    const engine = await engineLibraries();
    compile(await pythonEnvironment(python), realpathSync(engine));
  } catch (error) {
    if (error instanceof Unavailable) return error.message;
    throw error;
  }
}
