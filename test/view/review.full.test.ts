/** Scenarios looked over: what a decision does to the files, what is refused, and the page in a browser. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { reviewed } from "../../src/hone/review.js";
import type { LiveServer } from "../../src/insight/view/loopback.js";
import { serveReview } from "../../src/insight/view/review-server.js";
import { fromFile } from "../../src/machine/dataset/from-file.js";
import { droppedFileOf } from "../../src/scenarios/file.js";
import { lack, openPage } from "./support/browser.js";

const HOSTILE = "<img src=x onerror='window.hostile=1'></script><script>window.hostile=2</script>";

let server: LiveServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

const row = (i: number, more: object = {}) => ({
  id: `s${i}`,
  split: i % 3 === 0 ? "test" : "train",
  question: `Who keeps the lighthouse number ${i}?`,
  answer: `Keeper ${i}`,
  evidence: [`island/${i}.md`],
  quote: `number ${i} is kept by Keeper ${i}`,
  provenance: { title: `island/${i}.md`, written_by: "gpt-5-mini", agreed: "2 of 2" },
  ...more,
});
const lines = (rows: readonly object[]) => rows.map((one) => `${JSON.stringify(one)}\n`).join("");
const read = (file: string) =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));

async function review(count = 5) {
  const file = join(mkdtempSync(join(tmpdir(), "hone-review-")), "scenarios.jsonl");
  writeFileSync(file, lines(Array.from({ length: count }, (_, i) => row(i, i === 4 ? { question: HOSTILE } : {}))));
  writeFileSync(droppedFileOf(file), lines([row(90, { dropped: "duplicate" }), row(91, { dropped: "unanswerable" })]));
  server = await serveReview(reviewed(file), 0);
  const post = (sent: unknown, headers: Record<string, string> = { "content-type": "application/json" }) =>
    fetch(`${server?.url}api/scenarios`, {
      method: "POST",
      headers,
      body: typeof sent === "string" ? sent : JSON.stringify(sent),
    });
  return { file, post, dropped: droppedFileOf(file) };
}

describe("decisions about scenarios", () => {
  it("are written at once: dropped ones leave the file, kept ones come back, edited ones have their new words", async () => {
    const { file, dropped, post } = await review();
    expect((await post({ action: "drop", id: "s1" })).status).toBe(200);
    expect(read(file).map(({ id }) => id)).toEqual(["s0", "s2", "s3", "s4"]);
    expect(read(dropped).at(-1)).toEqual(row(1, { reviewed: "dropped", dropped: "reviewer" }));
    await post({ action: "keep", id: "s90" });
    expect(read(file).at(-1)).toEqual(row(90, { reviewed: "kept" }));
    await post({ action: "edit", id: "s0", question: " Who is it? ", answer: "Ann" });
    expect(read(file)[0]).toEqual(row(0, { question: "Who is it?", answer: "Ann", reviewed: "edited" }));
    await post({ action: "keep", id: "s0" });
    expect(read(file)[0].reviewed).toBe("edited");
    // A task still takes the file.
    const taken = await fromFile(file)({ scenarios: file, home: ".", seed: 1 } as never);
    expect(taken.map(({ id }) => id)).toEqual(["s0", "s2", "s3", "s4", "s90"]);
  });

  it("leave the digits of long integers in other fields as they are", async () => {
    const { file, post } = await review(0);
    const order = "1234567890123456789";
    writeFileSync(file, lines([row(1), row(2)]).replaceAll('"evidence"', `"order":${order},"evidence"`));
    const wanted = readFileSync(file, "utf8").split("\n")[1];
    expect(await (await fetch(`${server?.url}api/scenarios`)).text()).toContain(order);
    await post({ action: "drop", id: "s1" });
    expect(readFileSync(file, "utf8")).toBe(`${wanted}\n`);
  });

  it("are refused from other pages, without a scenario, without words, and with anything else", async () => {
    const { file, post } = await review();
    const before = readFileSync(file, "utf8");
    const json = { "content-type": "application/json" };
    const keep = { action: "drop", id: "s1" };
    const refused = [
      [await post(keep, { ...json, origin: "http://evil.example" }), 403, /page is for the browser of its own machine/],
      [await post(keep, { ...json, "sec-fetch-site": "cross-site" }), 403, /own machine/],
      [await post(keep, { "content-type": "text/plain" }), 400, /only JSON/],
      [await post("{", json), 400, /no JSON/],
      [await post({ action: "drop", id: "nobody" }), 400, /no scenario nobody/],
      [await post({ action: "edit", id: "s1", question: "  ", answer: "x" }), 400, /^question: /],
      [await post({ action: "burn", id: "s1" }), 400, /^action: /],
      [await post({ ...keep, more: "x".repeat(2 << 20) }), 400, /MiB/],
      [await fetch(`${server?.url}api/other`), 404, /nothing at this address/],
      [await fetch(`${server?.url}api/scenarios`, { method: "DELETE" }), 405, /only GET and POST/],
    ] as const;
    for (const [response, status, text] of refused) {
      expect(response.status).toBe(status);
      expect(await response.text()).toMatch(text);
    }
    expect(readFileSync(file, "utf8")).toBe(before);
  });

  it("are not lost where the process is killed between its two files: a scenario in both is kept", async () => {
    const { file, dropped } = await review();
    writeFileSync(
      dropped,
      lines([row(1, { reviewed: "dropped", dropped: "reviewer" }), row(90, { dropped: "duplicate" })]),
    );
    const source = reviewed(file);
    expect(source.read().kept.map(({ id }) => id)).toContain("s1");
    expect(source.read().dropped.map(({ id }) => id)).toEqual(["s90"]);
    source.decide({ action: "drop", id: "s1" });
    expect(source.read().kept.map(({ id }) => id)).toEqual(["s0", "s2", "s3", "s4"]);
    expect(read(dropped).map(({ id }) => id)).toEqual(["s90", "s1"]);
  });

  it("need a file of scenarios", () => {
    const folder = mkdtempSync(join(tmpdir(), "hone-review-"));
    expect(() => reviewed(join(folder, "none.jsonl"))).toThrow(/^scenarios review: there is no file/);
    const twice = join(folder, "twice.jsonl");
    writeFileSync(twice, lines([row(1), row(1)]));
    expect(() => reviewed(twice)).toThrow(/line 2 has the id s1, which another line has too/);
    const bare = join(folder, "bare.jsonl");
    writeFileSync(bare, lines([{ id: "a", split: "train", question: "?" }]));
    expect(() => reviewed(bare)).toThrow(/line 1 is no scenario with its answer: answer: /);
  });
});

describe(`the page of a review${lack}`, () => {
  it.skipIf(lack)(
    "keeps, drops and edits by mouse and keyboard; a decided one stays in sight until another list is chosen",
    async () => {
      const { file, dropped } = await review(60);
      const { page, clean } = await openPage(server?.url as string);
      const card = (name: string) => page.getByRole("article", { name, exact: true });
      await card("Who keeps the lighthouse number 0?").getByRole("button", { name: "Keep" }).click();
      await card("Who keeps the lighthouse number 0?").getByText("kept", { exact: true }).waitFor();
      await card("Who keeps the lighthouse number 1?").focus();
      await page.keyboard.press("d");
      await card("Who keeps the lighthouse number 1?").getByText("dropped: reviewer").waitFor();
      await card("Who keeps the lighthouse number 2?").focus();
      await page.keyboard.press("e");
      const editing = card("Who keeps the lighthouse number 2?");
      await editing.getByLabel("Answer").fill("Ann of the second light");
      await editing.getByRole("button", { name: "Save and keep" }).click();
      await editing.getByText("Ann of the second light").waitFor();
      expect(read(file).slice(0, 2)).toEqual([
        row(0, { reviewed: "kept" }),
        row(2, { answer: "Ann of the second light", reviewed: "edited" }),
      ]);
      expect(read(dropped).map(({ id }) => id)).toEqual(["s90", "s91", "s1"]);
      expect(await page.getByRole("article").count()).toBe(50);
      expect(await page.getByRole("button", { name: "undecided 57" }).count()).toBe(1);
      await page.getByRole("button", { name: "dropped 3" }).click();
      await page.getByLabel("reason").selectOption("duplicate");
      expect(await page.getByRole("article").allInnerTexts()).toEqual([
        expect.stringMatching(/dropped: duplicate[\s\S]*lighthouse number 90/),
      ]);
      await page.getByRole("button", { name: /^all/ }).click();
      await page.getByLabel("words of question").fill("onerror");
      await page.getByRole("article").getByText("window.hostile=1").waitFor();
      expect(await page.evaluate("window.hostile")).toBeUndefined();
      clean(server?.url as string);
    },
  );
});
