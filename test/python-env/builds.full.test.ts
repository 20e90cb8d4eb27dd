/** The environment is made for the machine: which PyTorch, from where, and which other packages. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import type { PythonOptions } from "../../src/machine/python/python.js";
import { type Cards, listCards, program } from "../support/nvidia.js";
import { anyPython } from "../support/python.js";

let folder: string;
const before = { ...process.env };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-builds-"));
});
afterEach(() => {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, before);
  rmSync(folder, { recursive: true });
});

/** Names of the builds that there is an environment of. */
const made = () =>
  readdirSync(join(folder, "cache/hone"))
    .filter((name) => existsSync(join(folder, "cache/hone", name, "hone.json")))
    .map((name) => name.split("-").at(-1));

/** This machine from now on: a process that starts anew, with these cards or none. */
async function ensure(cards: Cards | undefined, options: PythonOptions = {}): Promise<string[]> {
  process.env.XDG_CACHE_HOME = join(folder, "cache");
  // A card of the machine that runs the tests stays out.
  if (cards) delete process.env.CUDA_VISIBLE_DEVICES;
  else process.env.CUDA_VISIBLE_DEVICES = "";
  rmSync(join(folder, "nvidia-smi"), { force: true });
  if (cards) listCards(folder, cards);
  vi.resetModules();
  const { ensurePython } = await import("../../src/machine/python/python.js");
  const said: string[] = [];
  await ensurePython({ onProgress: (line) => said.push(line), ...options });
  return said;
}

/** A uv that writes down its arguments and the packages of a list, and "installs" the PyTorch that its index would give. */
function fakeUv(): () => string[] {
  const log = join(folder, "uv.log");
  const torch = (cuda: string) => `mkdir -p "$site/torch"; echo "cuda: str = ${cuda}" > "$site/torch/version.py"`;
  program(
    folder,
    "uv",
    `for last; do :; done
case "$1" in
  --version) exit 0;;
  venv) rm -rf "$last"; mkdir -p "$last/bin" "$last/lib/python3.12/site-packages"
    printf '#!/bin/sh\\nexit 0\\n' > "$last/bin/python"; chmod +x "$last/bin/python"; exit 0;;
esac
names=$([ -f "$last" ] && sed -n 's/^\\([^ =]*\\)==.*/\\1/p' "$last" | sort -u)
echo $* $names >> ${log}
site=\${4%/bin/python}/lib/python3.12/site-packages
case "$*" in
  *--no-index*) exit 1;;
  *mirror*) ${torch("'12.6'")};;
  *cu126*) ${torch("'12.6'")};;
  *whl/cpu*) ${torch("None")};;
  *) [ -e "$site/torch/version.py" ] || { ${torch("'13.0'")}; };;
esac`,
  );
  process.env.PATH = `${folder}:/usr/bin:/bin`;
  return () => (existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : []);
}

const ada = { driver: "590.44.01", capability: "8.9" };
/** Packages by their hashes, these among them. */
const hashed = (...names: string[]) =>
  expect.stringMatching(
    new RegExp(`--no-deps --require-hashes -r \\S+${names.map((name) => `( .*)? ${name}`).join("")}( |$)`),
  );

describe("an environment of hone's own", () => {
  it("has PyTorch for the CPU where there is no GPU, and nothing of NVIDIA's", async () => {
    const asked = fakeUv();
    await ensure(undefined);
    expect(made()).toEqual(["cpu"]);
    expect(asked().slice(1)).toEqual([
      expect.stringMatching(/--index-url https:\/\/download\.pytorch\.org\/whl\/cpu --no-deps torch==2\.13\.0$/),
      hashed("peft", "transformers"),
    ]);
    expect(asked().at(-1)).not.toMatch(/nvidia| torch /);
  });

  it("has the general build, CUDA 13, for a driver that runs it", async () => {
    const asked = fakeUv();
    await ensure(ada);
    expect(made()).toEqual(["cuda13"]);
    expect(asked()).toEqual([hashed("nvidia-cudnn-cu13", "peft", "torch", "transformers")]);
  });

  it.each([
    ["an older driver", { ...ada, driver: "550.54.14" }],
    ["an older card", { driver: "590.44.01", capability: "7.0" }],
    ["a card whose code the driver cannot compile", { driver: "580.65.06", capability: "9.0" }],
  ])("has CUDA 12 from PyTorch's index for %s, and what that build asks for", async (_, cards) => {
    const asked = fakeUv();
    await ensure(cards);
    expect(made()).toEqual(["cuda12"]);
    expect(asked()).toEqual([
      expect.stringMatching(/--index-url https:\/\/download\.pytorch\.org\/whl\/cu126 --no-deps torch==2\.13\.0$/),
      hashed("peft", "transformers"),
      expect.stringMatching(/bin\/python torch==2\.13\.0$/),
    ]);
    expect(asked()[1]).not.toContain("nvidia");
  });

  it("gets Unsloth when it is asked for: on a CPU without what only a GPU needs, and it stays", async () => {
    const asked = fakeUv();
    await ensure(undefined);
    const before = asked().length;
    await ensure(undefined, { extras: ["unsloth"] });
    expect(asked().slice(before)).toEqual([hashed("datasets", "trl", "unsloth", "unsloth-zoo")]);
    expect(asked().at(-1)).not.toContain("torchvision");
    expect(await ensure(undefined, { extras: ["unsloth"] })).toEqual([]);
    // Another extra leaves it there, and so does whoever does not ask for it.
    await ensure(undefined, { extras: ["dev"] });
    expect(asked().at(-1)).toMatch(/ pytest/);
    expect(await ensure(undefined, { extras: ["unsloth", "dev"] })).toEqual([]);
  });

  it("gets Unsloth for the CUDA of its PyTorch", async () => {
    const asked = fakeUv();
    await ensure({ ...ada, driver: "550.54.14" }, { extras: ["unsloth"] });
    expect(asked()).toEqual([
      expect.stringMatching(/cu126 --no-deps torch==\S+ torchvision==\S+$/),
      hashed("cut-cross-entropy", "peft", "unsloth"),
      expect.stringMatching(/bin\/python torch==\S+ torchvision==\S+$/),
    ]);
  });

  it("is another one when a GPU appears, and the first that there is without", async () => {
    const asked = fakeUv();
    await ensure(undefined);
    await ensure(ada);
    expect(made().sort()).toEqual(["cpu", "cuda13"]);
    const installs = asked().length;
    expect(await ensure(ada)).toEqual([]);
    expect(await ensure(undefined)).toEqual([]);
    expect(await ensure(ada, { cpu: true })).toEqual([]);
    // It also serves the CPU, and the driver of another machine that shares this cache needs its own.
    await ensure({ ...ada, driver: "550.54.14" });
    expect([asked().length > installs, made().sort()]).toEqual([true, ["cpu", "cuda12", "cuda13"]]);
  });

  it("made for a GPU suffices for the CPU, and gets the extras that are asked for there", async () => {
    const asked = fakeUv();
    await ensure(ada);
    await ensure(undefined, { extras: ["trackers"] });
    expect(asked().at(-1)).toMatch(/ tensorboard .*wandb/);
    expect(made()).toEqual(["cuda13"]);
  });

  it("is for the CPU when the learner computes there, whatever GPU there is", async () => {
    fakeUv();
    await ensure(ada, { cpu: true });
    expect(made()).toEqual(["cpu"]);
  });

  it("is begun anew after an interruption, which ends the installer", async () => {
    const asked = fakeUv();
    const stop = new AbortController();
    const onProgress = (line: string) => {
      if (line.startsWith("getting what")) stop.abort(new Error("interrupted"));
    };
    await expect(ensure(ada, { signal: stop.signal, onProgress })).rejects.toThrow("interrupted");
    expect(made()).toEqual([]);
    await ensure(ada);
    expect(asked().at(-1)).toEqual(hashed("peft", "torch"));
    expect(made()).toEqual(["cuda13"]);
  });

  it("is not kept when the index gave a PyTorch that the GPU cannot use", async () => {
    fakeUv();
    await expect(ensure({ driver: "580.65.06", capability: "12.0" }, { torchIndex: "http://mirror/" })).rejects.toThrow(
      "http://mirror/ gave a PyTorch for CUDA 12.6, but 0 NVIDIA One (GPU-11111111) with driver 580.65.06 runs CUDA 13; give one with a build for CUDA 13 (HONE_TORCH_INDEX), or use --gpu off",
    );
    expect(made()).toEqual([]);
    // One that it can use is kept, and not looked at again.
    await ensure(ada, { torchIndex: "http://mirror/" });
    expect(made()).toEqual(["cuda13"]);
    expect(await ensure(ada, { torchIndex: "http://mirror/" })).toEqual([]);
  });
});

describe("a Python that the user names, on a machine with a GPU", () => {
  const named = (cuda: string | undefined) => {
    const site = join(folder, "site");
    if (cuda !== undefined) {
      mkdirSync(join(site, "torch"), { recursive: true });
      writeFileSync(join(site, "torch/version.py"), `cuda: str = ${cuda}\n`);
    }
    const answer = `case "$2" in *version_info*) echo 3 12;; *) echo '[["/p", "${site}"], []]';; esac`;
    return program(folder, "python", answer);
  };

  it("must have a PyTorch for it", async () => {
    process.env.PATH = `${folder}:/usr/bin:/bin`;
    await expect(ensure(ada, { python: named("None") })).rejects.toThrow(
      /^--python \S+ has a PyTorch without CUDA, but there is 0 NVIDIA One .*; install one for CUDA 13 there, leave --python out, or use --gpu off$/,
    );
    await expect(ensure({ ...ada, driver: "550.54.14" }, { python: named("'13.0'") })).rejects.toThrow(
      /has a PyTorch for CUDA 13\.0, but 0 NVIDIA One .* with driver 550\.54\.14 runs CUDA 12;/,
    );
  });

  it("is taken when it has one, when it is not needed, and when nobody can tell", async () => {
    process.env.PATH = `${folder}:/usr/bin:/bin`;
    await ensure(ada, { python: named("'12.6'") });
    await ensure(ada, { python: named("None"), cpu: true });
    await ensure(undefined, { python: named("None") });
    rmSync(join(folder, "site"), { recursive: true });
    await ensure(ada, { python: named(undefined) });
  });
});

describe("HONE_TORCH_INDEX", () => {
  let server: Server;
  const requests: string[] = [];
  afterEach(() => server.close());

  /** /torch, a package index that has a PyTorch for CUDA 12.6. */
  async function serve(): Promise<string> {
    const script = join(packageRoot, "test/support/stand_in_wheels.py");
    execFileSync(anyPython(), [script, join(folder, "index/torch"), "12.6", "torch==2.13.0"]);
    requests.length = 0;
    server = createServer((request, response) => {
      const path = decodeURIComponent(request.url ?? "").replace(/\/$/, "");
      requests.push(path);
      const file = join(folder, "index", path);
      if (!existsSync(file)) return response.writeHead(404).end();
      if (path.endsWith(".whl")) return response.end(readFileSync(file));
      const links = readdirSync(file).map((name) => `<a href="${path}/${name}">${name}</a>`);
      return response.setHeader("content-type", "text/html").end(`<html><body>${links.join("")}</body></html>`);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  it("is where pip takes PyTorch from", {
    timeout: 180_000,
  }, async () => {
    const url = await serve();
    const python = execFileSync(anyPython(), ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
    program(folder, "python3", `exec ${python} "$@"`);
    process.env.PATH = `${folder}:${dirname("/usr/bin/env")}:/bin`;
    Object.assign(process.env, { PIP_INDEX_URL: `${url}/none`, PIP_CONFIG_FILE: "/dev/null", PIP_NO_CACHE_DIR: "1" });
    delete process.env.PIP_FIND_LINKS;
    // The index of one's own wins over the one that hone would take for this driver; what is not there is said.
    const said: string[] = [];
    const options = { torchIndex: `${url}/torch`, onProgress: (line: string) => said.push(line) };
    await expect(ensure({ ...ada, driver: "550.54.14" }, options)).rejects.toThrow(
      /^Python packages could not be fetched: ERROR: Could not find a version that satisfies/,
    );
    expect(said).toContain(`getting torch==2.13.0 for CUDA 12 from ${url}/torch`);
    const wheels = requests.filter((path) => path.endsWith(".whl"));
    expect(wheels).toEqual(["/torch/torch/torch-2.13.0-py3-none-any.whl"]);
    const [environment = ""] = readdirSync(join(folder, "cache/hone")).filter((name) => name.endsWith("cuda12"));
    const [version = ""] = readdirSync(join(folder, "cache/hone", environment, "lib"));
    const site = join(folder, "cache/hone", environment, "lib", version, "site-packages");
    expect(readdirSync(site)).toContain("torch");
  });
});
