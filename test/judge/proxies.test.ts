/** A judge behind a proxy: what servers refuse, what they put around an answer, what ends them, and what passes. */
import { afterEach, describe, expect, it } from "vitest";
import { judgeGroup } from "../../src/judge/ruler.js";
import { groupOf, judgeOf, never, ruler, sleepersClock } from "./support/judging.js";
import { ending, passing, type Quirk, refusing, surrounding, writing } from "./support/proxies.js";
import { type ChatServer, startServer } from "./support/server.js";

let server: ChatServer | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

const QUALITIES = [0.2, 0.9, 0.6];
const named = (proxies: readonly Quirk[]) => proxies.map((proxy) => [proxy.name, proxy] as const);

/** Judges two groups, so that what the first has found out is used for the second. */
async function judgedBehind(proxy: Quirk) {
  server = await startServer((request, index) => proxy.answer(request, index));
  const settings = { url: server.url, temperature: 0.5, maxTokens: 2000, timeout: 60 };
  const { judge, said, client } = judgeOf(settings, undefined, sleepersClock());
  const judged = (scenario: string) => judgeGroup(groupOf(QUALITIES, scenario), judge, ruler, never);
  const first = await judged("s1").catch((error: Error) => error);
  const before = server.requests.length;
  const second = first instanceof Error ? first : await judged("s2");
  return { first, second, said, usage: client.usage(), sent: server.requests, again: server.requests.length - before };
}

const scoresOf = (verdict: Awaited<ReturnType<typeof judgeGroup>> | Error) =>
  verdict instanceof Error ? verdict.message : (verdict.scores?.map(({ score }) => score) ?? verdict.noVerdict);

describe("a server that refuses", () => {
  it.each(named(refusing))("%s is asked without it for good, and that is said once", async (_, proxy) => {
    const { first, second, said, again } = await judgedBehind(proxy);
    expect([scoresOf(first), scoresOf(second)]).toEqual([QUALITIES, QUALITIES]);
    expect(again).toBe(1);
    expect(said.filter((line) => line.includes("does not take"))).toEqual([
      expect.stringMatching(proxy.told as RegExp),
    ]);
  });

  it.each(named(refusing))("%s is still asked for all else", async (_, proxy) => {
    const { sent } = await judgedBehind(proxy);
    const [wanted, body] = [sent[0]?.body, sent.at(-1)?.body] as [object, object];
    const kept = Object.entries(wanted).filter(
      ([name, value]) => JSON.stringify(body[name as never]) === JSON.stringify(value),
    );
    // The messages are another question's, and one field is refused.
    expect(kept.length).toBeGreaterThanOrEqual(Object.keys(wanted).length - 2);
  });
});

describe("a good answer", () => {
  it.each(named(surrounding))("within %s is used at once", async (_, proxy) => {
    const { first, second, said, usage } = await judgedBehind(proxy);
    expect([scoresOf(first), scoresOf(second)]).toEqual([QUALITIES, QUALITIES]);
    expect(usage.requests).toBe(2);
    expect(said).toEqual(proxy.told ? [expect.stringMatching(proxy.told)] : []);
    if (!proxy.told) expect(usage).toMatchObject({ prompt_tokens: 200, completion_tokens: 40 });
    else expect(Math.min(usage.prompt_tokens, usage.completion_tokens)).toBeGreaterThan(50);
  });

  it.each(named(writing))("written with %s", async (_, { gives, ...proxy }) => {
    const { first } = await judgedBehind({ ...proxy, gives });
    expect(scoresOf(first)).toEqual(gives === "scores" ? QUALITIES : expect.objectContaining({ reason: gives }));
  });
});

describe("a server that cannot give one", () => {
  it.each(named(ending))("because of %s says so at once", async (_, { gives, ...proxy }) => {
    const { first, said } = await judgedBehind({ ...proxy, gives });
    if (gives instanceof RegExp) expect((first as Error).message).toMatch(gives);
    else expect(scoresOf(first)).toMatchObject({ reason: gives });
    // Nothing was waited for, and nothing left out.
    expect(said.filter((line) => /waiting|does not take/.test(line))).toEqual([]);
  });
});

describe("a server that cannot give one now", () => {
  it.each(named(passing))("because of %s is asked again as before", async (_, proxy) => {
    const { first, said, sent } = await judgedBehind(proxy);
    expect(scoresOf(first)).toEqual(QUALITIES);
    expect(said).toEqual([]);
    expect(sent[1]?.body).toEqual(sent[0]?.body);
  });
});
