/** The cache against Python's own huggingface_hub: what one has downloaded the other finds. */
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { cachedModels, RepositoryCache } from "../../src/machine/hub/cache.js";
import { downloadFiles } from "../../src/machine/hub/download.js";
import { listRepository } from "../../src/machine/hub/listing.js";
import { HubServer, revision } from "../support/hub-server.js";
import { ensureLearnerPython } from "../support/python.js";

const files = {
  "config.json": Buffer.from("{}"),
  "sub/model.safetensors": Buffer.alloc(5000, 7),
};
const repository = { kind: "model", id: "Org/Name" } as const;
const server = new HubServer({ "Org/Name": files });
let python: string;
let home: string;
let cache: string;

beforeAll(async () => {
  python = await ensureLearnerPython();
  await server.start();
}, 900_000);
afterAll(() => server.stop());
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hone-hub-python-"));
  cache = join(home, "hub");
  server.requests.length = 0;
});
afterEach(() => rmSync(home, { recursive: true }));

/** What a Python program prints that uses huggingface_hub with this cache. */
async function huggingFace(program: string): Promise<unknown> {
  const env = {
    ...process.env,
    HF_HOME: home,
    HF_ENDPOINT: server.endpoint,
    HF_HUB_DISABLE_XET: "1",
    HF_HUB_DISABLE_TELEMETRY: "1",
  };
  const script = `import json, huggingface_hub as hub\n${program}`;
  const { stdout } = await promisify(execFile)(python, ["-c", script], { env });
  return JSON.parse(stdout);
}

async function download(): Promise<string> {
  const options = { endpoint: server.endpoint, token: undefined, offline: false, cache };
  const listing = await listRepository(repository, "main", options);
  const folder = await downloadFiles(listing, Object.keys(files), options);
  new RepositoryCache(cache, repository).nameCommit("main", listing.commit);
  return folder;
}

test("huggingface_hub finds what hone downloaded, offline and online, and fetches nothing again", async () => {
  const folder = await download();
  server.requests.length = 0;
  const found = await huggingFace(`
print(json.dumps([
  hub.snapshot_download("Org/Name", local_files_only=True),
  hub.hf_hub_download("Org/Name", "config.json", local_files_only=True),
  hub.hf_hub_download("Org/Name", "sub/model.safetensors"),
  [(repo.repo_id, repo.nb_files) for repo in hub.scan_cache_dir().repos],
]))`);
  const model = join(folder, "sub/model.safetensors");
  expect(found).toEqual([folder, join(folder, "config.json"), model, [["Org/Name", 2]]]);
  expect(server.requests.filter(({ method }) => method === "GET").map(({ path }) => path)).toEqual([]);
});

test("hone finds what huggingface_hub downloaded, and fetches nothing again", async () => {
  await huggingFace(`
for name in ("config.json", "sub/model.safetensors"):
  path = hub.hf_hub_download("Org/Name", name)
print(json.dumps(path))`);
  const found = new RepositoryCache(cache, repository);
  expect(found.commitOf("main")).toBe(revision);
  expect(found.files(revision)).toEqual(["config.json", "sub/model.safetensors"]);
  expect(cachedModels(cache)).toEqual([repository.id]);
  server.requests.length = 0;
  const folder = await download();
  expect(server.requests.map(({ path }) => path)).toEqual(["/api/models/Org/Name/revision/main?blobs=true"]);
  expect(readFileSync(join(folder, "sub/model.safetensors"))).toEqual(files["sub/model.safetensors"]);
  expect(readdirSync(join(found.folder, "blobs"))).toHaveLength(2);
});
