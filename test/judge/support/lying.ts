/**
 * A judge that lies: a share of its answers is broken in every way that was thought of, the others are honest, at times
 * in another order. It keeps the bill, so that what is counted can be compared with what was sent.
 */
import { Random } from "../../../src/core/util/random.js";
import {
  type ChatServer,
  completion,
  type Entry,
  honest,
  type Reply,
  type Request,
  scoresText,
  startServer,
} from "./server.js";

export const lies = [
  "429",
  "500",
  "hang",
  "cut",
  "garbage",
  "no completion",
  "prose",
  "wrong ids",
  "too many ids",
  "repeated ids",
  "too few",
  "empty",
  "out of range",
] as const;

export type Lie = (typeof lies)[number];

export interface LyingJudge extends ChatServer {
  readonly told: Record<Lie | "truth", number>;
  /** Of every answer whose bill reached the client. */
  readonly billed: { prompt: number; completion: number };
}

function entriesOf(lie: Lie, entries: Entry[], random: Random): Entry[] {
  const [first, ...rest] = entries as [Entry, ...Entry[]];
  if (lie === "wrong ids") return entries.map((entry, i) => ({ ...entry, trajectory_id: `${i + 10}` }));
  if (lie === "too many ids") return [...entries, { ...first, trajectory_id: `${entries.length + 1}` }];
  if (lie === "repeated ids") return [...rest, { ...first, trajectory_id: rest[0]?.trajectory_id ?? "1" }];
  if (lie === "too few") return rest;
  if (lie === "empty") return [];
  return [{ ...first, score: random.pick([1.2, -0.5, 9, 100]) }, ...rest];
}

/** @param share of requests that are lied to */
export async function startLyingJudge(seed: number, share: number): Promise<LyingJudge> {
  const random = new Random("lying judge", seed);
  const told = Object.fromEntries([...lies, "truth"].map((lie) => [lie, 0])) as LyingJudge["told"];
  const billed = { prompt: 0, completion: 0 };
  const bill = (content: string, request: Request): Reply => {
    const usage = { prompt_tokens: request.bytes.length >> 2, completion_tokens: 10 + (content.length >> 2) };
    billed.prompt += usage.prompt_tokens;
    billed.completion += usage.completion_tokens;
    return completion(content, {}, usage);
  };
  const answer = (request: Request): Reply => {
    const lie = random.chance(share) ? random.pick(lies) : "truth";
    told[lie]++;
    if (lie === "429") {
      return { status: 429, headers: { "retry-after": "0.5" }, json: { error: { message: "slow down" } } };
    }
    if (lie === "500") return { status: 500, json: { error: { message: "internal" } } };
    if (lie === "hang") return { hang: true };
    if (lie === "cut") return { cut: '{"choices": [{"message": {"content": "{\\"scores\\": [' };
    if (lie === "garbage") return { text: "\u0000\u0001 <html> not json" };
    if (lie === "no completion") return { json: { result: "ok" } };
    if (lie === "prose") return bill("They are all quite good, I would say.", request);
    const entries = honest(request);
    if (lie === "truth") return bill(scoresText(random.shuffle(entries)), request);
    return bill(scoresText(entriesOf(lie, entries, random)), request);
  };
  return { ...(await startServer(answer)), told, billed };
}
