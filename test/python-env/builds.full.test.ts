/** The environment is made for the machine: which PyTorch, from where, and when it is made anew. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { PythonOptions } from "../../src/python-env/python.js";
import { packageRoot } from "../../src/util/paths.js";
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

const venv = () => join(folder, "venv");
const stamp = () => JSON.parse(readFileSync(join(venv(), "hone.json"), "utf8")) as Record<string, string>;
const torchFile = () => join(venv(), "lib/python3.12/site-packages/torch/version.py");

/** This machine from now on: a process that starts anew, with these cards or none. */
async function ensure(cards: Cards | undefined, options: PythonOptions = {}): Promise<string[]> {
  // A card of the machine that runs the tests stays out.
  if (cards) delete process.env.CUDA_VISIBLE_DEVICES;
  else process.env.CUDA_VISIBLE_DEVICES = "";
  rmSync(join(folder, "nvidia-smi"), { force: true });
  if (cards) listCards(folder, cards);
  vi.resetModules();
  const { ensurePython } = await import("../../src/python-env/python.js");
  const said: string[] = [];
  await ensurePython({ folder: venv(), onProgress: (line) => said.push(line), ...options });
  return said;
}

/** A uv that writes down its arguments, and "installs" the PyTorch that its index would give. */
function fakeUv(): () => string[] {
  const log = join(folder, "uv.log");
  const torch = (cuda: string) => `mkdir -p "$site/torch"; echo "cuda: str = ${cuda}" > "$site/torch/version.py"`;
  program(
    folder,
    "uv",
    `case "$1" in
  --version) exit 0;;
  venv) for last; do :; done; rm -rf "$last"; mkdir -p "$last/bin" "$last/lib/python3.12/site-packages"
    printf '#!/bin/sh\\nexit 0\\n' > "$last/bin/python"; chmod +x "$last/bin/python"; exit 0;;
esac
echo "$*" >> ${log}
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

describe("an environment of hone's own", () => {
  it("has PyTorch for the CPU where there is no GPU", async () => {
    const asked = fakeUv();
    await ensure(undefined);
    expect(stamp().device).toBe("cpu");
    expect(
      asked().some((line) => line.endsWith("--index-url https://download.pytorch.org/whl/cpu torch==2.13.0")),
    ).toBe(true);
  });

  it("has the general build, CUDA 13, for a driver that runs it", async () => {
    const asked = fakeUv();
    await ensure(ada);
    expect(stamp().device).toBe("cuda13");
    expect(asked()).toEqual([expect.stringMatching(/ -r \S+requirements\.txt$/)]);
  });

  it.each([
    ["an older driver", { ...ada, driver: "550.54.14" }],
    ["an older card", { driver: "590.44.01", capability: "7.0" }],
    ["a card whose code the driver cannot compile", { driver: "580.65.06", capability: "9.0" }],
  ])("has CUDA 12 from PyTorch's index for %s", async (_, cards) => {
    const asked = fakeUv();
    await ensure(cards);
    expect(stamp().device).toBe("cuda12");
    expect(asked()[0]).toMatch(/--no-deps --index-url https:\/\/download\.pytorch\.org\/whl\/cu126 torch==2\.13\.0$/);
  });

  it("gets Unsloth when it is asked for: on a CPU without what only a GPU needs, and it stays", async () => {
    const asked = fakeUv();
    await ensure(undefined);
    const before = asked().length;
    const said = await ensure(undefined, { unsloth: true });
    expect(asked().slice(before)).toEqual([
      expect.stringMatching(/ -r \S+requirements-unsloth\.txt$/),
      expect.stringMatching(/ --no-deps unsloth==\S+ unsloth_zoo==\S+$/),
    ]);
    expect(said.at(-1)).toMatch(/^Unsloth: \d+ MB in \d+ s$/);
    expect(await ensure(undefined, { unsloth: true })).toEqual([]);
    // Another layer leaves it there, and so does whoever does not ask for it.
    await ensure(undefined, { development: true });
    expect(stamp()).toHaveProperty("unsloth");
    expect(await ensure(undefined, { unsloth: true })).toEqual([]);
  });

  it("gets Unsloth for the CUDA of its PyTorch, also when it is made anew for a GPU that has come", async () => {
    const asked = fakeUv();
    await ensure(undefined, { unsloth: true });
    const before = asked().length;
    await ensure({ ...ada, driver: "550.54.14" });
    expect(stamp()).toMatchObject({ device: "cuda12", unsloth: expect.any(String) });
    expect(asked().slice(before)).toEqual([
      expect.stringMatching(/cu126 torch==/),
      expect.stringMatching(/ -r \S+requirements\.txt$/),
      expect.stringMatching(/--no-deps --index-url \S+cu126 torchvision==\S+$/),
      expect.stringMatching(/ -r \S+requirements-unsloth-cuda\.txt$/),
      expect.stringMatching(/ --no-deps unsloth==/),
    ]);
  });

  it("says in one line when Unsloth was installed and cannot be imported, and does not call it installed", async () => {
    fakeUv();
    await ensure(undefined);
    writeFileSync(join(venv(), "bin", "python"), "#!/bin/sh\necho 'ImportError: no triton' >&2\nexit 1\n");
    await expect(ensure(undefined, { unsloth: true })).rejects.toThrow(
      /^Unsloth was installed but cannot be imported: ImportError: no triton; --learner peft does without it$/,
    );
    expect(stamp()).not.toHaveProperty("unsloth");
  });

  it("is made anew when a GPU appears, with a line that says why, and kept when it disappears", async () => {
    const asked = fakeUv();
    await ensure(undefined);
    expect(await ensure(ada)).toContain(
      "the Python environment was made for the CPU, and 0 NVIDIA One (GPU-11111111), driver 590.44.01, needs CUDA 13: it is made anew",
    );
    expect(stamp().device).toBe("cuda13");
    const installs = asked().length;
    expect(await ensure(ada)).toEqual([]);
    expect(await ensure(undefined)).toEqual([]);
    expect(await ensure(ada, { cpu: true })).toEqual([]);
    expect([asked().length, stamp().device]).toEqual([installs, "cuda13"]);
  });

  it("is made anew when the driver needs another CUDA", async () => {
    fakeUv();
    await ensure(ada);
    const said = await ensure({ ...ada, driver: "550.54.14" });
    expect(said[0]).toMatch(/was made for CUDA 13, and .*, driver 550\.54\.14, needs CUDA 12: it is made anew/);
    expect(stamp().device).toBe("cuda12");
  });

  it("of an older hone is kept: its PyTorch says what it was made for", async () => {
    const asked = fakeUv();
    await ensure(undefined);
    const old = ({ device: _, ...rest }: Record<string, string>) => JSON.stringify(rest);
    writeFileSync(join(venv(), "hone.json"), old(stamp()));
    const installs = asked().length;
    expect(await ensure(undefined)).toEqual([]);
    expect(asked()).toHaveLength(installs);
    // With a GPU it counts as one for the CPU; but one with CUDA in it does.
    writeFileSync(torchFile(), "cuda: str = '13.0'\n");
    expect(await ensure(ada)).toEqual([]);
    writeFileSync(torchFile(), "cuda: str = None\n");
    expect((await ensure(ada))[0]).toMatch(/was made for the CPU/);
  });

  it("is for the CPU when the learner computes there, whatever GPU there is", async () => {
    fakeUv();
    await ensure(ada, { cpu: true });
    expect(stamp().device).toBe("cpu");
  });

  it("is not kept when the index gave a PyTorch that the GPU cannot use", async () => {
    fakeUv();
    await expect(ensure({ driver: "580.65.06", capability: "12.0" }, { torchIndex: "http://mirror/" })).rejects.toThrow(
      "http://mirror/ gave a PyTorch for CUDA 12.6, but 0 NVIDIA One (GPU-11111111) with driver 580.65.06 runs CUDA 13; give one with a build for CUDA 13 (--torch-index), or use --gpu off",
    );
    expect(existsSync(join(venv(), "hone.json"))).toBe(false);
    // One that it can use is kept, and not looked at again.
    await ensure(ada, { torchIndex: "http://mirror/" });
    expect(stamp().device).toBe("cuda13");
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
    const answer = `case "$2" in *version_info*) echo 3 12;; *json*) echo '["/p", "${site}"]';; *) echo;; esac`;
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

describe("--torch-index", () => {
  let server: Server;
  const requests: string[] = [];
  afterEach(() => server.close());

  /** /simple and /torch, as package indexes: the second has a PyTorch for CUDA 12.6. */
  async function serve(): Promise<string> {
    const python = anyPython();
    const script = join(packageRoot, "test/support/stand_in_wheels.py");
    const requirements = join(packageRoot, "native/learner/requirements.txt");
    execFileSync(python, [script, requirements, join(folder, "index/simple"), "13.0"]);
    execFileSync(python, [script, requirements, join(folder, "index/torch"), "12.6"]);
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

  it("is where pip takes PyTorch from, and the rest from its own index", { timeout: 180_000 }, async () => {
    const url = await serve();
    const python = execFileSync(anyPython(), ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" }).trim();
    program(folder, "python3", `exec ${python} "$@"`);
    process.env.PATH = `${folder}:${dirname("/usr/bin/env")}:/bin`;
    Object.assign(process.env, { PIP_INDEX_URL: `${url}/simple`, PIP_CONFIG_FILE: "/dev/null", PIP_NO_CACHE_DIR: "1" });
    delete process.env.PIP_FIND_LINKS;
    // The index of one's own wins over the one that hone would take for this driver.
    const said = await ensure({ ...ada, driver: "550.54.14" }, { torchIndex: `${url}/torch` });
    expect(said).toContain(`installing torch==2.13.0 for CUDA 12 from ${url}/torch`);
    expect(stamp().device).toBe("cuda12");
    const wheels = requests.filter((path) => path.endsWith(".whl") && path.includes("torch-"));
    expect(wheels).toEqual(["/torch/torch/torch-2.13.0-py3-none-any.whl"]);
    expect(requests).toContain("/simple/peft");
  });
});
