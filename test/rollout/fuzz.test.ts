import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { formatNamed, formats } from "../../src/chat/formats/formats.js";
import type { ToolFormat } from "../../src/core/rollout/conversation.js";
import { playRollout, type RolloutLimits } from "../../src/core/rollout/rollout.js";
import type { Session, Turn } from "../../src/core/rollout/session.js";
import { type AnyTask, type RolloutEnd, toolSchema } from "../../src/core/task/task.js";
import { Random } from "../../src/core/util/random.js";
import { emailTask } from "../../src/email/email-task.js";
import { syntheticWorld } from "../../src/email/synthetic/world.js";
import { openMailDatabaseWriter } from "../../src/email/writer.js";

const db = join(mkdtempSync(join(tmpdir(), "hone-fuzz-")), "mail.db");
const writer = openMailDatabaseWriter(db);
for (const { mails, scenarios } of syntheticWorld({ seed: 5, mailboxes: 20 })) {
  for (const mail of mails) writer.add(mail);
  writer.addScenarios(scenarios);
}
writer.finish();

const task = emailTask as unknown as AnyTask;
const env = await task.open({ db });
const scenarios = await task.scenarios({ db });
afterAll(() => task.close(env));

const limits: RolloutLimits = {
  maxTurns: 10,
  maxTokens: 100,
  turnSeconds: 10,
  toolSeconds: 10,
  rolloutSeconds: 60,
  onToolError: "observe",
};

const tools = task.tools.map((tool) => toolSchema(tool).function);
const words = [
  "Orion",
  "deadline",
  "the",
  "NEAR(",
  "a*",
  "^b",
  '"',
  "'); DROP TABLE emails; --",
  "\u0000",
  "🙂",
  "<|im_end|>",
];
const names = [
  "search_inbox",
  "read_email",
  "return_final_answer",
  "toolbench_rapid_search",
  "",
  "__proto__",
  "constructor",
];
const keys = [
  "keywords",
  "message_id",
  "message_ids",
  "answer",
  "reference_message_ids",
  "sent_before",
  "max_results",
  "__proto__",
];

function value(random: Random, depth = 0): unknown {
  const kind = random.integer(0, depth > 2 ? 4 : 6);
  if (kind <= 1) return random.pick(words);
  if (kind === 2) return random.pick([0, -1, 1e308, 11, null, true, "2025-02-30", "2025-03-01"]);
  if (kind === 3) return random.pick(["a", "\n", "<tool_call>"]).repeat(random.pick([0, 10, 20_000]));
  if (kind <= 5) return Array.from({ length: random.integer(0, 4) }, () => value(random, depth + 1));
  return Object.fromEntries(Array.from({ length: 3 }, () => [random.pick(keys), value(random, depth + 1)]));
}

/** What stands around a call's JSON in each format. */
const frames: readonly (readonly [format: string, open: string, close: string])[] = [
  ["hermes", "<tool_call>", "</tool_call>"],
  ["llama3", "<|python_tag|>", ";"],
  ["mistral", "[TOOL_CALLS][", "]"],
  ["granite", "<|tool_call|>[", "]"],
  ["pythonic", "[search_inbox(**", ")]"],
  ["xlam", "[", "]"],
  ["phi4", "functools[", "]"],
  [
    "qwen3coder",
    "<tool_call>\n<function=search_inbox>\n<parameter=keywords>\n",
    "\n</parameter>\n</function>\n</tool_call>",
  ],
  ["lfm2", "<|tool_call_start|>[search_inbox(**", ")]<|tool_call_end|>"],
  ["json", "```json\n", "\n```"],
];

/** A policy that knows the tags and the names and means no good. */
class Fuzzer implements Session {
  readonly #random: Random;
  readonly #format: ToolFormat;
  readonly #frame: readonly [open: string, close: string];
  turns = 0;

  constructor(seed: number) {
    this.#random = new Random("fuzz", seed);
    const [name, ...frame] = this.#random.pick(frames);
    this.#format = formatNamed(name);
    this.#frame = frame;
  }

  #text(): string {
    const random = this.#random;
    const args = Object.fromEntries(
      Array.from({ length: random.integer(0, 3) }, () => [random.pick(keys), value(random)]),
    );
    const sound = [
      { name: "search_inbox", arguments: { keywords: [random.pick(words)] } },
      { name: "read_email", arguments: { message_id: random.pick(words) } },
      { name: "return_final_answer", arguments: { answer: random.pick(words), reference_message_ids: [] } },
    ];
    const call = JSON.stringify(
      random.chance(0.3) ? random.pick(sound) : { name: random.pick(names), arguments: args },
    );
    const cut = random.chance(0.15) ? call.slice(0, random.integer(0, call.length)) : call;
    const [open, close] = this.#frame;
    return random.pick([`${open}${cut}${close}`, `${open}${cut}`, `${cut}${close}${open}${cut}${close}`]);
  }

  async turn(): Promise<Turn> {
    this.turns++;
    const random = this.#random;
    if (random.chance(0.02))
      return { content: "", calls: [], completionTokens: 3, stop: random.pick(["length", "context", "deadline"]) };
    const text = Array.from({ length: random.integer(1, 3) }, () => this.#text()).join(random.pick(["", "\n", " hm "]));
    return { ...this.#format.read(text, tools), completionTokens: 5, stop: "stop" };
  }

  respond = () => undefined;
  close = () => undefined;
}

const named: ReadonlySet<RolloutEnd> = new Set([
  "answered",
  "no_tool_call",
  "turn_limit",
  "token_limit",
  "context_limit",
  "deadline",
  "bad_call",
]);

it("has a frame for every format", () => {
  expect(frames.map(([name]) => name)).toEqual(formats.map(({ name }) => name));
});

const TURNS = process.env.TEST_FULL ? 10_000 : 1_000;

it(`ends ${TURNS} turns of a hostile policy in named ends only, with finite rewards and nothing solved by chance`, async () => {
  let turns = 0;
  const ends = new Map<string, number>();
  for (let seed = 0; turns < TURNS; seed++) {
    const session = new Fuzzer(seed);
    const scenario = scenarios[seed % scenarios.length];
    if (!scenario) throw new Error("no scenarios");
    const onToolError = seed % 4 === 0 ? "stop" : "observe";
    const signal = new AbortController().signal;
    const outcome = await playRollout({ task, scenario, env, session, limits: { ...limits, onToolError }, signal });
    turns += session.turns;
    ends.set(outcome.end, (ends.get(outcome.end) ?? 0) + 1);
    expect(outcome.reason).toEqual(outcome.end === "deadline" ? expect.stringContaining("--turn-timeout") : undefined);
    expect(outcome.reward.success).toBe(false);
    expect(Number.isFinite(outcome.reward.reward)).toBe(true);
    for (const message of outcome.messages) expect(typeof message.content).toBe("string");
  }
  for (const end of ends.keys()) expect(named).toContain(end);
  // The fuzzer does reach the interesting ends, or this test would prove nothing.
  expect([...ends.keys()]).toEqual(expect.arrayContaining(["answered", "turn_limit", "token_limit", "bad_call"]));
});
