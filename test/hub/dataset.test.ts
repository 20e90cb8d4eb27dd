import { createHash } from "node:crypto";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { HoneError } from "../../src/core/util/errors.js";
import { tryLock } from "../../src/core/util/lock.js";
import { Random } from "../../src/core/util/random.js";
import { fetchDataset } from "../../src/machine/hub/dataset.js";
import type { HubOptions, HubProgress } from "../../src/machine/hub/hub-options.js";
import { HubServer, revision } from "../support/hub-server.js";

const random = new Random("hub");
const large = Buffer.from(Array.from({ length: 300_000 }, () => random.integer(0, 255)));
const small = Buffer.from("PAR1 a small file");
const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
const gitBlob = (bytes: Buffer) => createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
const both = [large, small].map(sha256);
const files = {
  "data/train 00000-of-00002.parquet": large,
  "data/train 00001-of-00002.parquet": small,
  "README.md": Buffer.from("# x"),
};

let server: HubServer;
let cache: string;
beforeEach(async () => {
  cache = mkdtempSync(join(tmpdir(), "hone-hub-"));
  server = new HubServer({ "a/mails": files });
  await server.start();
});
afterEach(async () => {
  await server.stop();
  rmSync(cache, { recursive: true });
});

const options = (more: Partial<HubOptions> = {}): HubOptions => ({
  endpoint: server.endpoint,
  token: undefined,
  offline: false,
  cache,
  retryDelay: 1,
  ...more,
});
const fetched = (more?: Partial<HubOptions>) => fetchDataset("a/mails", options(more));
/** Names of what lies in the cache's folder of contents. */
const blobs = () => readdirSync(join(cache, "datasets--a--mails/blobs"));
/** Bytes of the large file that are there while it is not complete. */
function kept(): number {
  const place = join(cache, "datasets--a--mails/blobs");
  const [part] = existsSync(place) ? blobs() : [];
  return part === undefined ? 0 : statSync(join(place, part)).size;
}
/** Compared as a whole: vitest would compare byte by byte. */
const contents = (paths: readonly string[]) => paths.map((path) => sha256(readFileSync(path)));
const gets = () => server.requests.filter(({ path, method }) => method === "GET" && path.includes("/resolve/"));

test("the Parquet files of a data set, in order, with progress; the second time nothing is fetched", async () => {
  const seen: HubProgress[] = [];
  const paths = await fetched({ onProgress: (progress) => seen.push(progress) });
  expect(contents(paths)).toEqual(both);
  const total = large.length + small.length;
  expect(seen.at(-1)).toEqual({ repository: "a/mails", file: "data/train 00001-of-00002.parquet", done: total, total });
  expect(blobs().sort()).toEqual([sha256(large), gitBlob(small)].sort());
  expect(readFileSync(join(cache, "datasets--a--mails/refs/main"), "utf8")).toBe(revision);
  const link = join(cache, "datasets--a--mails/snapshots", revision, "data/train 00000-of-00002.parquet");
  expect(readlinkSync(link)).toBe(`../../../blobs/${sha256(large)}`);
  expect(paths[0]).toBe(link);

  server.requests.length = 0;
  expect(await fetched()).toEqual(paths);
  expect(server.requests.map(({ path }) => path)).toEqual(["/api/datasets/a/mails/revision/main?blobs=true"]);
});

test("a connection that is cut again and again is continued where it broke", async () => {
  server.behave = { cuts: [100_000, 50_000, 0, 1, 70_000], kept };
  expect(contents(await fetched())).toEqual(both);
  const ranges = gets().flatMap(({ host, range }) => (host === "cdn" ? [range] : []));
  expect(ranges[0]).toBeUndefined();
  const starts = ranges.slice(1).map((range) => Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1]));
  expect(starts).toEqual([100_000, 150_000, 150_000, 150_001, 220_001]);
});

test("the next run continues what the last one left", async () => {
  server.behave = { cuts: [120_000, 0, 0, 0, 0, 0, 0, 0], kept };
  await expect(fetched()).rejects.toThrow(/cannot be reached .*: set HF_ENDPOINT to a mirror$/);
  const part = blobs();
  expect(part).toEqual([expect.stringMatching(/\.incomplete$/)]);
  const had = statSync(join(cache, "datasets--a--mails/blobs", part[0] ?? "")).size;
  expect(had).toBe(120_000);
  server.behave = {};
  server.requests.length = 0;
  expect(contents(await fetched())).toEqual(both);
  expect(gets()[0]?.range).toBe(`bytes=${had}-`);
});

test("a connection that is cut is continued also where Python has completed the file meanwhile", async () => {
  const byPython = () => {
    const here = kept();
    if (here >= 100_000) writeFileSync(join(cache, "datasets--a--mails/blobs", sha256(large)), large);
    return here;
  };
  server.behave = { cuts: [100_000], kept: byPython };
  expect(contents(await fetched())).toEqual(both);
  expect(blobs().sort()).toEqual([sha256(large), gitBlob(small)].sort());
});

test("a server that knows no ranges sends everything again", async () => {
  server.behave = { cuts: [100_000], noRanges: true };
  expect(contents(await fetched())).toEqual(both);
});

test.each([
  ["is cut each time", { cuts: Array.from({ length: 30 }, () => 10) }],
  ["ends too early, and never said how long it is", { instead: large.subarray(0, 1000), noLength: true }],
])("a download that begins again and again is given up when it %s", async (_, behaviour) => {
  server.behave = { ...behaviour, noRanges: true };
  await expect(fetched()).rejects.toThrow(/cannot be reached .*: set HF_ENDPOINT to a mirror$/);
  // One brought something; before it and after it are at most five that did not. A cut may swallow the bytes before it.
  expect(gets().filter(({ host }) => host === "cdn").length).toBeLessThanOrEqual(11);
});

const another = (length: number) => ({ instead: Buffer.alloc(length, 1) });
test.each([
  ["longer", another(large.length + 1)],
  ["longer, which it did not say,", { ...another(large.length + 1), noLength: true }],
])("an answer that is %s than what the Hub lists is refused at once", async (_, behaviour) => {
  server.behave = behaviour;
  await expect(fetched()).rejects.toThrow(
    new RegExp(
      `/train%2000000-of-00002\\.parquet answers with more than the ${large.length} bytes that the Hub lists: try again`,
    ),
  );
  expect(gets().filter(({ host }) => host === "cdn")).toHaveLength(1);
  server.behave = {};
  expect(contents(await fetched())).toEqual(both);
});

test("the rest of a file may not be longer than the Hub lists it", async () => {
  server.behave = { cuts: [120_000, 0, 0, 0, 0, 0, 0, 0] };
  await expect(fetched()).rejects.toThrow(/cannot be reached/);
  server.behave = another(large.length + 1);
  await expect(fetched()).rejects.toThrow(`answers with more than the ${large.length} bytes`);
  server.behave = {};
  expect(contents(await fetched())).toEqual(both);
});

test("a busy server is asked again, later", async () => {
  server.behave = { statuses: [503, 429, 500] };
  expect(contents(await fetched())).toEqual(both);
});

test("a connection on which nothing comes is given up", async () => {
  server.behave = { silent: true };
  await expect(fetched({ stallTimeout: 30 })).rejects.toThrow(/nothing came for too long/);
});

test("a file with another checksum than the listed is deleted and refused", async () => {
  server.behave = { damage: true };
  await expect(fetched()).rejects.toThrow(/wrong checksum/);
  expect(blobs()).toEqual([]);
  server.behave = {};
  expect(contents(await fetched())).toEqual(both);
});

test("mirrors that list names only: size and checksum come from the files' own headers", async () => {
  server.behave = { noBlobs: true };
  expect(contents(await fetched())).toEqual(both);
  server.behave = { noBlobs: true, damage: true };
  rmSync(join(cache, "datasets--a--mails"), { recursive: true });
  await expect(fetched()).rejects.toThrow(/wrong checksum/);
  server.behave = { noBlobs: true, noSize: true };
  rmSync(join(cache, "datasets--a--mails"), { recursive: true });
  await expect(fetched()).rejects.toThrow(
    /parquet comes without its size or a checksum, so .*: use another HF_ENDPOINT$/,
  );
});

test("the token goes to the endpoint and to nobody else", async () => {
  server.behave = { token: "secret" };
  await expect(fetched()).rejects.toThrow(
    /refused \(401\), no token was sent: set HF_TOKEN to a token that may read a\/mails$/,
  );
  server.requests.length = 0;
  expect(contents(await fetched({ token: "secret" }))).toEqual(both);
  const shown = (host: string) =>
    new Set(server.requests.filter((request) => request.host === host).map(({ authorization }) => authorization));
  expect(shown("hub")).toEqual(new Set(["Bearer secret"]));
  expect(shown("cdn")).toEqual(new Set([undefined]));
});

test("offline: what was downloaded before, and nothing is asked", async () => {
  await expect(fetched({ offline: true })).rejects.toThrow(
    "a/mails was not downloaded before: run once without HF_HUB_OFFLINE",
  );
  const paths = await fetched();
  server.requests.length = 0;
  expect(await fetched({ offline: true })).toEqual(paths);
  expect(server.requests).toEqual([]);
  writeFileSync(paths[1] ?? "", "shorter");
  await expect(fetched({ offline: true })).rejects.toThrow("is not what was downloaded: delete it");
  expect(contents(await fetched())).toEqual(both);
  rmSync(paths[1] ?? "");
  await expect(fetched({ offline: true })).rejects.toThrow("was not downloaded before");
});

test("a server that asks for time is given it", async () => {
  server.behave = { statuses: [429], retryAfter: 1 };
  const before = performance.now();
  expect(contents(await fetched())).toEqual(both);
  expect(performance.now() - before).toBeGreaterThanOrEqual(990);
});

test("too small a disk is told before the first byte; what is here needs no room", async () => {
  const tooSmall = { freeBytes: () => large.length - 1 };
  await expect(fetched(tooSmall)).rejects.toThrow(
    /^a\/mails needs 300 kB of free disk in .*, which has 300 kB; free some, or set HF_HOME/,
  );
  expect(gets()).toEqual([]);
  await fetched();
  expect(contents(await fetched({ freeBytes: () => 0 }))).toEqual(both);
});

test("two at once: one downloads, the other waits and finds it", async () => {
  const said: string[] = [];
  const say = (text: string) => said.push(text);
  const [one, two] = await Promise.all([fetched({ log: say }), fetched({ log: say })]);
  expect(one).toEqual(two);
  expect(said).toEqual(["waiting for another process that downloads a/mails"]);
  expect(gets().filter(({ host }) => host === "cdn")).toHaveLength(1);
});

test("Ctrl-C ends a download; what has come is kept", async () => {
  const controller = new AbortController();
  const onProgress = ({ done }: HubProgress) => done > 0 && controller.abort(new HoneError("interrupted"));
  await expect(fetched({ signal: controller.signal, onProgress })).rejects.toThrow("interrupted");
  expect(blobs()).toEqual([expect.stringMatching(/\.incomplete$/)]);
});

test("Ctrl-C ends the wait for another process's download", async () => {
  await fetched();
  const lock = tryLock(join(cache, ".locks/datasets--a--mails/hone.lock"));
  const controller = new AbortController();
  const say = () => {
    controller.abort(new HoneError("interrupted"));
    // Without its end the wait would be over with the lock.
    setTimeout(() => lock?.close(), 1000);
  };
  await expect(fetched({ signal: controller.signal, log: say })).rejects.toThrow("interrupted");
});

test("addresses that are no Hub are told in one line", async () => {
  await expect(fetchDataset("a/nothing", options())).rejects.toThrow(
    /^there is no data set a\/nothing at http.*, or it is private \(no token was sent\): check the name/,
  );
  await expect(fetched({ endpoint: "http://127.0.0.1:1" })).rejects.toThrow(/127\.0\.0\.1:1 cannot be reached/);
  await expect(fetched({ endpoint: `${server.endpoint}/portal` })).rejects.toThrow(/did not answer with the listing/);
});

test("a listing that does not end is left after 64 MiB, in one line", async () => {
  server.behave.endless = true;
  await expect(fetched()).rejects.toThrow(/answers with more than 67\.1 MB in place of a listing: check HF_ENDPOINT$/);
});
