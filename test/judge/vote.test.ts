/** Several judges that vote. */
import { afterEach, describe, expect, it } from "vitest";
import { optionsOf } from "../../src/core/config/config.js";
import { JudgeStopped } from "../../src/judge/client.js";
import { correctnessQuestion, judgeCorrectness } from "../../src/judge/correctness.js";
import type { Judge } from "../../src/judge/judge.js";
import { judgeQuality } from "../../src/judge/quality.js";
import { openJudge } from "../../src/judge/reward/judge.js";
import { judgeGroup } from "../../src/judge/ruler.js";
import { loadConfig } from "../support/config.js";
import { groupOf, memoryCache, never, ruler } from "./support/judging.js";
import {
  type ChatServer,
  completion,
  honest,
  type Reply,
  type Request,
  scoresText,
  startServer,
} from "./support/server.js";

const servers: ChatServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(answer: (request: Request) => Reply | Promise<Reply>) {
  const server = await startServer(answer);
  servers.push(server);
  return server;
}

/** Judges of one server, each by its name. */
async function jury(answers: Readonly<Record<string, (request: Request) => string>>, flags: object = {}) {
  const { url } = await serve((request) =>
    completion((answers[request.body.model] as (request: Request) => string)(request)),
  );
  return open(Object.keys(answers), url, flags);
}

async function open([first, ...more]: string[], url: string, flags: object = {}): Promise<Judge> {
  const given = { judgeModel: first, judgeUrl: url, moreJudges: more, ...flags };
  const config = await loadConfig(optionsOf("judge"), { flags: given, folder: null });
  return openJudge(config, "this", memoryCache(), undefined, () => undefined);
}

const fair = (request: Request) => scoresText(honest(request));
const changed = (change: (score: number) => number) => (request: Request) =>
  scoresText(honest(request).map((one) => ({ ...one, score: change(one.score as number) })));
const nonsense = () => "I would rather not.";
const scoresOf = async (judge: Judge, qualities = [0.25, 1]) =>
  (await judgeGroup(groupOf(qualities), judge, ruler, never)).scores?.map(({ score }) => score);

describe("scores of several judges", () => {
  it("name a judge without the query of its address, which may have a key", async () => {
    const { url } = await serve(() => completion("no"));
    const judge = await open(["a", `b@${url}?api-key=secret`], url);
    expect(judge.all.map(({ name }) => name)).toEqual(["a", `b@${url}`]);
  });

  it("are the median: one judge that is wrong moves nothing, and two are halfway", async () => {
    const reversed = changed((score) => 1 - score);
    expect(await scoresOf(await jury({ a: fair, b: reversed, c: fair }))).toEqual([0.25, 1]);
    expect(await scoresOf(await jury({ a: fair, b: reversed }))).toEqual([0.5, 0.5]);
  });

  it("need more than half of the judges, and are left out with the cause otherwise", async () => {
    expect(await scoresOf(await jury({ a: nonsense, b: fair, c: fair }))).toEqual([0.25, 1]);
    const verdict = await judgeGroup(groupOf([0.25, 1]), await jury({ a: nonsense, b: fair }), ruler, never);
    expect(verdict).toMatchObject({ scores: undefined, noVerdict: { reason: "not_json" } });
  });

  it("name who said what, and the quality of each is known beside the vote's", async () => {
    const judge = await jury({ a: fair, b: changed((score) => 1 - score), c: fair });
    const verdict = await judgeGroup(groupOf([0.25, 1]), judge, ruler, never);
    expect(verdict.scores?.[0]?.explanation).toBe("a: quality 0.25 | b: quality 0.25 | c: quality 0.25");
    // a and c agree, b with neither.
    expect(verdict.agreement).toBeCloseTo(1 / 3);
    const labels = [0, 1].map((reward) => ({ reward, success: reward === 1 }));
    const order = verdict.judges.map(({ judge, verdict }) => [judge, judgeQuality([{ verdict, labels }]).order?.share]);
    expect(order).toEqual([
      ["a", 1],
      ["b", 0],
      ["c", 1],
    ]);
    expect(judgeQuality([{ verdict, labels }]).order?.share).toBe(1);
  });
});

describe("whether an answer is right", () => {
  const claim = { question: "Which city?", golden: "Atlanta", given: "Atlanta" };
  const says = (accept: boolean) => () => JSON.stringify({ reasoning: "r", accept });
  const decided = (judge: Judge) => judgeCorrectness(claim, judge, never);

  it("is decided by the majority, and by nobody where there is none", async () => {
    expect(await decided(await jury({ a: says(false), b: says(true), c: says(true) }))).toMatchObject({ accept: true });
    expect(await decided(await jury({ a: nonsense, b: says(false), c: says(false) }))).toMatchObject({ accept: false });
    await expect(decided(await jury({ a: says(true), b: says(false) }))).rejects.toMatchObject({ reason: "divided" });
    await expect(decided(await jury({ a: says(true), b: nonsense }))).rejects.toMatchObject({ reason: "not_json" });
  });
});

describe("several judges", () => {
  it("have answered, and are counted, where one of them stops", async () => {
    let stopped = () => {};
    const late = new Promise<void>((resolve) => {
      stopped = resolve;
    });
    const { url } = await serve(async ({ body: { model } }) => {
      if (model === "a") return { status: 401, json: { error: { message: "no such key" } } };
      await late;
      return completion('{"reasoning": "r", "accept": true}');
    });
    const judge = await open(["a", "b"], url);
    const claim = { question: "Which city?", golden: "Atlanta", given: "Atlanta" };
    const decided = expect(judgeCorrectness(claim, judge, never)).rejects.toThrow(JudgeStopped);
    await expect(judge.ask(correctnessQuestion(claim), never)).rejects.toThrow(JudgeStopped);
    stopped();
    await decided;
    expect(judge.usage().completion_tokens).toBe(20);
  });

  it("have one cost cap together", async () => {
    // Three or four answers, each of 100 tokens and 20.
    const flags = { judgeMaxCost: 0.0001, judgeMaxTokens: 20 };
    const judge = await jury({ "gpt-4o-mini": fair, "gpt-6-luna": fair, "gpt-4.1-mini": fair }, flags);
    const judged = async () => {
      for (let i = 0; i < 20; i++) await judgeGroup(groupOf([0.25, 1], `s${i}`), judge, ruler, never);
    };
    await expect(judged()).rejects.toThrow(JudgeStopped);
    await expect(judgeGroup(groupOf([0.5, 1]), judge, ruler, never)).rejects.toThrow(
      /all judges together have cost \$.* --judge-max-cost/,
    );
    const { cost } = judge.usage();
    expect(cost).toBeLessThanOrEqual(0.0001);
    expect(cost).toBe(judge.all.reduce((sum, { client }) => sum + (client.usage().cost as number), 0));
  });

  it("at other addresses get no key that was given for --judge-url", async () => {
    const [one, other] = [await serve((r) => completion(fair(r))), await serve((r) => completion(fair(r)))];
    const judge = await open(["a", `a@${other.url}`], one.url, { judgeKey: "sk-secret-key" });
    await scoresOf(judge);
    expect(one.requests[0]?.headers.authorization).toBe("Bearer sk-secret-key");
    expect(JSON.stringify(other.requests[0]?.headers)).not.toContain("sk-secret-key");
  });

  it("are each named with an address, and once", async () => {
    const url = "http://127.0.0.1:9/v1";
    await expect(open(["a", "a"], url)).rejects.toThrow("--more-judges a: it votes already");
    await expect(open(["a", `a@${url}`], url)).rejects.toThrow("it votes already; --judge-votes asks a judge several");
    await expect(open(["a", "b"], undefined as never)).rejects.toThrow("--more-judges b: give each as NAME@URL");
    await expect(open(["a", "b@http://"], url)).rejects.toThrow(/http:\/\//);
  });
});
