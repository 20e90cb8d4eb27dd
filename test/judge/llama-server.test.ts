/**
 * The protocol of a real llama-server, where one has been compiled (`yarn llama-server` puts it in build/). The tiny
 * model judges like a die: what counts here is that the server is understood, and that no nonsense becomes a score.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { judgeCorrectness } from "../../src/judge/correctness.js";
import { realClock } from "../../src/judge/limits.js";
import { judgeGroup } from "../../src/judge/ruler.js";
import { freePort } from "../support/free-port.js";
import { groupOf, judgeOf, never, ruler } from "./support/judging.js";

const program = join(packageRoot, "build/llama-tools", `${process.platform}-${process.arch}`, "llama-server");
const compiled = existsSync(program);
const lack = compiled ? "" : " (skipped: `yarn llama-server` compiles one)";

describe.runIf(compiled)(`a real llama-server${lack}`, () => {
  let child: ChildProcess;
  let url: string;

  beforeAll(async () => {
    const port = await freePort();
    const model = join(packageRoot, "models/tiny/tiny.gguf");
    child = spawn(program, ["-m", model, "--host", "127.0.0.1", "--port", `${port}`, "-c", "4096", "-np", "1"], {
      stdio: "ignore",
    });
    url = `http://127.0.0.1:${port}`;
  });
  afterAll(async () => {
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("close", resolve));
  });

  const judge = (change: object = {}) =>
    judgeOf({ url, model: "tiny", maxTokens: 400, patience: 30, ...change }, undefined, realClock);

  it("is waited for while it loads, and takes the schema, with /v1 and without", async () => {
    for (const base of [url, `${url}/v1`]) {
      const { judge: asked, client, said } = judge({ url: base });
      const { accept, reasoning } = await judgeCorrectness(
        { question: "When?", golden: "May 14", given: "in May" },
        asked,
        never,
      );
      expect([typeof accept, typeof reasoning]).toEqual(["boolean", "string"]);
      expect(client.usage().prompt_tokens).toBeGreaterThan(100);
      expect(client.usage().completion_tokens).toBeGreaterThan(5);
      expect(said.filter((text) => text.includes("does not take"))).toEqual([]);
    }
  });

  it("answers in the form it is held to; what is wrong with it goes back, and is never made a score", async () => {
    const { judge: asked, client } = judge();
    const { votes, scores, noVerdict } = await judgeGroup(groupOf([0.2, 0.9, 0.4]), asked, ruler, never);
    const [first] = votes[0]?.exchanges ?? [];
    expect(first?.answer).toMatch(/^\s*\{\s*"scores"\s*:/);
    if (scores) for (const { score } of scores) expect(score >= 0 && score <= 1).toBe(true);
    else expect(["repeated_id", "out_of_range", "cut"]).toContain(noVerdict?.reason);
    expect(client.usage().requests).toBe(votes[0]?.exchanges.length);
  });

  it("says when a question is too long for it: that costs the group, not the run", async () => {
    const group = groupOf([0.2, 0.9].map((quality) => `${quality} ${"word after word ".repeat(1500)}`));
    const { noVerdict } = await judgeGroup(group, judge().judge, ruler, never);
    expect(noVerdict?.reason).toBe("too_long");
  });
});
