import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { groupOf } from "../judge/support/judging.js";
import {
  blocksOf,
  type ChatServer,
  completion,
  honest,
  type Reply,
  type Request,
  scoresText,
  startServer,
} from "../judge/support/server.js";
import { CommandLine } from "../support/command-line.js";

const key = "sk-very-secret-0123456789";
const commandLine = new CommandLine({ OPENAI_API_KEY: "sk-for-openai-alone", HONE_JUDGE_KEY: key });
let folder: string;
let server: ChatServer;

afterAll(() => commandLine.close());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-judge-"));
});
afterEach(async () => {
  await server?.close();
  rmSync(folder, { recursive: true });
});

async function serve(answer: (request: Request, index: number) => Reply = (r) => completion(scoresText(honest(r)))) {
  server = await startServer(answer);
}

const judge = (...args: string[]) => commandLine.run(folder, "judge", ...args);

const access = () => ["--judge-url", server.url, "--judge-model", "gpt-4o-mini"];
const writeRollouts = (rollouts: readonly Trajectory[]) =>
  writeFileSync(
    join(folder, "r.jsonl"),
    rollouts.map((one) => `${JSON.stringify({ ...one, task: "email" })}\n`).join(""),
  );
const readJudged = (name: string) =>
  readFileSync(join(folder, name), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("yarn hone judge", () => {
  it("writes scores, explanations and the reward before, and adds up", async () => {
    await serve();
    writeRollouts([...groupOf([0.25, 0.5]), ...groupOf([0.75, 1], "s2")]);
    const { status, stdout } = await judge("r.jsonl", ...access(), "--out", "out/j.jsonl", "--json");
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      groups: 2,
      judged: 2,
      no_verdict: {},
      requests: 2,
      cached: 0,
      prompt_tokens: 200,
      completion_tokens: 40,
      cost: expect.closeTo((200 * 0.15 + 40 * 0.6) / 1e6, 12) as number,
    });
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${key}`);
    expect(readJudged("out/j.jsonl")).toMatchObject([
      { id: "s1/0", ruler_score: 0.25, explanation: "quality 0.25", independent_reward: 0, reward: { reward: 0.25 } },
      { id: "s1/1", ruler_score: 0.5 },
      { id: "s2/0", ruler_score: 0.75 },
      { id: "s2/1", ruler_score: 1 },
    ]);

    const again = await judge("out/j.jsonl", ...access(), "--json");
    expect(JSON.parse(again.stdout)).toMatchObject({ cached: 2, requests: 0 });
    expect(readJudged("out/j.judged.jsonl")[3]).toMatchObject({ ruler_score: 1, independent_reward: 0 });
    const anew = await judge("r.jsonl", ...access(), "--json", "--no-judge-cache");
    expect(JSON.parse(anew.stdout)).toMatchObject({ cached: 0, requests: 2 });
  });

  it("leaves out groups without a verdict and says how many and why", async () => {
    await serve((request) =>
      completion(request.bytes.includes("scenario s2") ? "I would rather not." : scoresText(honest(request))),
    );
    writeRollouts([...groupOf([0.25, 0.5]), ...groupOf([0.75, 1], "s2")]);
    const { status, stdout } = await judge("r.jsonl", ...access());
    expect(status).toBe(0);
    expect(stdout).toMatch(/1 of 2 groups judged\n {2}ruler_score +0\.375 \(n=2\)[\s\S]*left out +not_json 1\n/);
    expect(readJudged("r.judged.jsonl").map(({ id }) => id)).toEqual(["s1/0", "s1/1"]);
  });

  it("does not send rollouts that ended by no fault of the model, nor groups that they leave with fewer than two", async () => {
    await serve();
    const broken = (one: Trajectory | undefined): Trajectory => ({ ...(one as Trajectory), end: "tool_failure" });
    const [a, b, c] = groupOf([0.25, 0.5, 0.75]);
    const [d, e] = groupOf([0.75, 1], "s2");
    const waited = { ...broken(e), end: "deadline", deadlineCause: "queue" } as const;
    writeRollouts([a as Trajectory, broken(b), c as Trajectory, d as Trajectory, waited, ...groupOf([0.5], "s3")]);
    const { status, stdout } = await judge("r.jsonl", ...access(), "--debug-judge");
    expect(status).toBe(0);
    expect(stdout).toMatch(/2 of 3 groups judged\n {2}ruler_score +0\.5 \(n=3\)\n {2}independent_reward +0 \(n=3\)/);
    expect(stdout).toMatch(
      /left out +broken_off 1\n {2}not sent +2 rollouts, their end was not the model's: deadline_queue 1, tool_failure 1\n/,
    );
    expect(stdout).toMatch(/^s2: not judged, fewer than two/m);
    expect(server.requests.map((request) => blocksOf(request).size).sort()).toEqual([1, 2]);
    expect(server.requests.map(({ bytes }) => bytes).join()).not.toContain("scenario s2");
    expect(readJudged("r.judged.jsonl").map(({ id }) => id)).toEqual(["s1/0", "s1/2", "s3/0"]);
    const json = await judge("r.jsonl", ...access(), "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({
      judged: 2,
      no_verdict: { broken_off: 1 },
      rollouts_broken_off: 2,
      broken_off: { deadline_queue: 1, tool_failure: 1 },
    });
  });

  it("fails where nothing was judged, with the last cause", async () => {
    await serve(() => completion("I cannot say."));
    writeRollouts(groupOf([0.25, 0.5]));
    const { status, stderr } = await judge("r.jsonl", ...access());
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /nothing was judged: not_json 1 \(the last: .*\)\.\n--debug-judge shows what the judge says/,
    );
  });

  it("shows every stage under --debug-judge", async () => {
    await serve((request, index) =>
      index === 0 ? completion("hm, \u001b[2Jno") : completion(scoresText(honest(request))),
    );
    writeRollouts(groupOf([0.25, 0.5]));
    const { stdout } = await judge("r.jsonl", ...access(), "--debug-judge");
    for (const stage of [
      /2 trajectories, common prefix of 3 messages \(system, user, user\)/,
      /<trajectory id="1">\n.*"content":"my answer, quality/,
      /raw answer\n {4}hm, \[2Jno/,
      /cannot be used: there is no JSON object/,
      /raw answer after one correction\n {4}\{"scores"/,
      /trajectory \d \(s1\/0\) {2}0\.25 {2}quality 0\.25/,
      /new rewards\n {4}s1\/0 {2}reward 0\.25 {2}independent_reward 0\.00\n {4}s1\/1 {2}reward 0\.50/,
    ]) {
      expect(stdout).toMatch(stage);
    }
    expect(stdout).not.toContain("\u001b");
  });

  it("measures each of several judges, and their vote", async () => {
    const turned = (request: Request) => honest(request).map((one) => ({ ...one, score: 1 - Number(one.score) }));
    await serve((request) =>
      completion(scoresText(request.body.model === "gpt-4o" ? turned(request) : honest(request))),
    );
    const solved = (group: Trajectory[]) =>
      group.map((one, i) => ({ ...one, reward: { reward: i, success: i === 1, parts: {} } }));
    writeRollouts([...solved(groupOf([0.25, 1])), ...solved(groupOf([0.25, 0.75], "s2"))]);
    const more = ["--more-judges", `gpt-4o,gpt-4o-mini@http://localhost:${server.port}/v1`, "--agreement"];
    const { status, stdout } = await judge("r.jsonl", ...access(), ...more);
    expect(status).toBe(0);
    const order = (who: string) => new RegExp(`${who} against the task's own rewards\n.*\n {2}right order +(\\d+) %`);
    expect(order("gpt-4o-mini").exec(stdout)?.[1]).toBe("100");
    expect(order("gpt-4o").exec(stdout)?.[1]).toBe("0");
    expect(order("the vote").exec(stdout)?.[1]).toBe("100");
    const json = JSON.parse((await judge("r.jsonl", ...access(), ...more, "--json")).stdout);
    expect(Object.keys(json.quality_by_judge)).toEqual(["gpt-4o-mini", ...(more[1] as string).split(",")]);
    expect(json).toMatchObject({ quality: { groups: 2 }, requests: 0, cached: 6, agreement: expect.closeTo(1 / 3) });
  });

  it("decides whether answers are right, and is measured against the task's own comparison", async () => {
    // Accepts one wrong answer, the longer of two.
    await serve((request) => {
      const { golden_answer: golden, agents_answer: given } = JSON.parse(request.body.messages[1]?.content ?? "");
      if (given === "mumble") return completion("I cannot tell.");
      const accept = given === golden || given.includes("perhaps");
      return completion(JSON.stringify({ reasoning: `it says ${given}`, accept }));
    });
    const answering = (given: readonly (string | undefined)[], id: string) =>
      groupOf(
        given.map(() => 0),
        id,
      ).map((one, i) => ({
        ...one,
        scenario: { ...one.scenario, answer: "May 14" },
        reward: { reward: 0, success: given[i] === "May 14", parts: {} },
        ...(given[i] === undefined ? {} : { answer: { answer: given[i], reference_message_ids: [] } }),
      }));
    writeRollouts([
      ...answering(["May 14", "June", "perhaps the middle of May", undefined], "s1"),
      ...answering(["May 14", "April", "mumble"], "s2"),
    ]);
    const { status, stdout } = await judge("r.jsonl", ...access(), "--correctness", "--agreement");
    expect(status).toBe(0);
    expect(stdout).toMatch(/^5 of 6 answers judged, of 7 rollouts\n {2}accepted +3\n {2}left out +not_json 1\n/m);
    expect(stdout).toMatch(/decides as the task +80 % of answers .*n=5\)\n {2}right ones accepted +100 % .*n=2\)/);
    expect(stdout).toMatch(
      /wrong ones refused +67 % .*n=3\)\n {2}longer accepted +100 % .*n=1\)\n {2}agrees with itself +– /,
    );
    const rows = readJudged("r.answers.jsonl");
    expect(rows.map(({ id, task, judge: said }) => [id, task, said])).toEqual([
      ["s1/0", true, true],
      ["s1/1", false, false],
      ["s1/2", false, true],
      ["s2/0", true, true],
      ["s2/1", false, false],
      ["s2/2", false, null],
    ]);
    expect(rows[2]).toMatchObject({
      given: "perhaps the middle of May",
      golden: "May 14",
      reasoning: "it says perhaps the middle of May",
    });
    const twice = await judge("r.jsonl", ...access(), "--correctness", "--agreement", "--judge-votes", "2", "--json");
    expect(JSON.parse(twice.stdout)).toMatchObject({
      answers: 6,
      judged: 5,
      accepted: 3,
      // Two questions are asked with the same answer, which is one request.
      cached: 6,
      quality: { answers: 5, itself: { share: 1, n: 5 }, cost: { n: 1 } },
    });
  });

  it("judges by the user's rubric", async () => {
    await serve();
    writeRollouts(groupOf([0.25, 0.5]));
    writeFileSync(join(folder, "rubric.txt"), "Politeness is all.\n");
    await judge("r.jsonl", ...access(), "--ruler-rubric", "rubric.txt");
    expect(server.requests[0]?.body.messages[0]?.content).toContain("Rubric:\nPoliteness is all.\n");
    const { status, stderr } = await judge("r.jsonl", ...access(), "--ruler-rubric", "none.txt");
    expect([status, stderr]).toEqual([2, "hone: --ruler-rubric: there is no file none.txt\n"]);
  });

  it("stops with one line when the judge is lost, keeps what is done, and goes on later", async () => {
    await serve((request, index) =>
      index === 0
        ? completion(scoresText(honest(request)))
        : { status: 401, json: { error: { message: `bad ${key}` } } },
    );
    writeRollouts([...groupOf([0.25, 0.5]), ...groupOf([0.75, 1], "s2")]);
    const { status, stderr, stdout } = await judge("r.jsonl", ...access(), "--judge-concurrency", "1");
    expect(status).toBe(1);
    expect(stderr).toMatch(
      /^hone: the judge gpt-4o-mini at .* cannot be asked: 401 bad \[key\]; check the key that was given with --judge-key or HONE_JUDGE_KEY\. 1 of 2 groups were judged until then and are in .*r\.judged\.jsonl; the same command goes on with the rest\n$/,
    );
    expect(readJudged("r.judged.jsonl")).toHaveLength(2);
    const told = [stdout, stderr, ...filesBelow().map((file) => readFileSync(file, "latin1"))].join();
    expect(told).not.toContain(key);
  });

  const somewhere = ["--judge-url", "http://127.0.0.1:9/v1"];
  it.each([
    [["none.jsonl"], /there is no file .*none\.jsonl/],
    [["r.jsonl", ...somewhere], /needs a judge: give --judge-model/],
    [["r.jsonl", "--out", "r.jsonl", ...somewhere], /that is the file to be judged/],
    [["r.jsonl", "--judge-url", "localhost80", "--judge-model", "m"], /--judge-url: localhost80 is no URL/],
    [["r.jsonl", ...somewhere, "--judge-model", "m", "--judge-max-cost", "1"], /the price of m is not known/],
    [["r.jsonl", ...somewhere, "--judge-model", "m", "--prices", "r.jsonl"], /expected dollars per million tokens/],
    [["r.jsonl", "--judge-key", key, "--judge-key", key], /--judge-key is given 2 times/],
  ])("refuses %j with one line", async (args, message) => {
    writeRollouts(groupOf([0.25, 0.5]));
    const { status, stderr } = await judge(...args);
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd()).not.toContain("\n");
    expect(existsSync(join(folder, "r.judged.jsonl"))).toBe(false);
  });
});

function filesBelow(): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}
