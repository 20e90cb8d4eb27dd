/** An export on the Hub, by Hugging Face's own library against a server that answers as the Hub does. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ExportConfig, exportRun } from "../../src/machine/export/export.js";
import { downloadFiles } from "../../src/machine/hub/download.js";
import { listRepository } from "../../src/machine/hub/listing.js";
import { HubServer } from "../support/hub-server.js";
import { prepared, trainedRun } from "./support.js";

const home = mkdtempSync(join(tmpdir(), "hone-push-"));
const server = new HubServer({});
let python: string;
beforeAll(async () => {
  python = await prepared();
  await trainedRun(home, "counted");
  await server.start();
}, 900_000);
afterAll(async () => {
  await server.stop();
  rmSync(home, { recursive: true });
});

const pushed = (name: string, hfToken: string) =>
  exportRun(
    {
      home,
      run: "counted",
      to: "peft",
      out: join(home, name),
      force: false,
      push: `me/${name}`,
      python,
      hfEndpoint: server.endpoint,
      hfToken,
      hfOffline: false,
    } as ExportConfig,
    { log: () => undefined, update: () => undefined },
  );

test("an export is sent to a new, private repository, the token to the Hub alone", async () => {
  server.behave = { token: "hf_secret" };
  const { repository, folder, files } = await pushed("counted-lora", "hf_secret");
  expect(repository).toBe(`${server.endpoint}/me/counted-lora`);
  expect(server.uploads.made).toEqual(new Map([["me/counted-lora", "private"]]));
  const large = server.requests.filter(({ host }) => host === "cdn");
  // The weights, and that they arrived, which huggingface_hub would ask with the token.
  expect(large.map(({ method, path }) => `${method} ${path.split("/")[1]}`)).toEqual(["PUT put", "POST verify"]);
  expect(large.map(({ authorization }) => authorization)).toEqual([undefined, undefined]);

  const there = { endpoint: server.endpoint, token: "hf_secret", offline: false, cache: join(home, "cache") };
  const listing = await listRepository({ kind: "model", id: "me/counted-lora" }, "main", there);
  const back = await downloadFiles(listing, files, there);
  expect(readdirSync(back).sort()).toEqual([...files].sort());
  for (const file of files) expect(readFileSync(join(back, file)).equals(readFileSync(join(folder, file)))).toBe(true);
});

test.each([
  [
    "a token that the Hub does not know",
    "hf_wrong",
    {},
    /is whole, but could not be sent to me\/refused: the Hub does not know the token \(401\)/,
  ],
  [
    "a token that may not write there",
    "hf_secret",
    { "/api/repos/create": 403 },
    /the token may not write there \(403\)/,
  ],
])("%s is one line, and the folder stays", async (_, token, refuse, message) => {
  server.uploads.refuse = refuse;
  rmSync(join(home, "refused"), { recursive: true, force: true });
  await expect(pushed("refused", token)).rejects.toThrow(message);
  expect(readdirSync(join(home, "refused"))).toContain("adapter_model.safetensors");
});
