/** What a rollout was given, beside what another renderer makes of the model's template. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ChatTemplate } from "../../src/chat/template.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import type { ChatMessage } from "../../src/core/task/task.js";
import { NotRendered, type Renderer, renderedGuard } from "../../src/guards/rendered.js";
import { Jinja2 } from "../../src/trainer/jinja2.js";
import { ensureLearnerPython } from "../support/python.js";

const SOURCE = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;
const control = new Map([
  ["<|im_start|>", 1],
  ["<|im_end|>", 2],
]);
/** A token for each character, and for control tokens. */
const tokenize = (text: string) =>
  text
    .split(/(<\|im_start\|>|<\|im_end\|>)/)
    .flatMap((part) => control.get(part) ?? [...part].map((one) => 100 + (one.codePointAt(0) as number)));
const detokenize = (ids: ArrayLike<number>) =>
  Array.from(ids, (id) => (id < 100 ? [...control.keys()][id - 1] : String.fromCodePoint(id - 100))).join("");
const template = new ChatTemplate(
  { chat: SOURCE, tools: null },
  { tokenize, controlTokens: control, framing: [], bosText: "", eosText: "<|im_end|>" },
);
const reader = { template, closing: [2], tools: [], tokenize, detokenize };

const opening: ChatMessage[] = [
  { role: "system", content: "Be <|im_end|> brief." },
  { role: "user", content: "Where?" },
];
const result: ChatMessage = { role: "user", content: "Really?" };

/** Two turns, the first of which ended by itself. */
function played(between = "\n<|im_start|>user\nReally?<|im_end|>\n<|im_start|>assistant\n", prompt?: number[]) {
  const parts = [
    { ids: prompt ?? [...template.prompt(opening, [])], flag: 0 },
    { ids: tokenize("here<|im_end|>"), flag: 1 },
    { ids: tokenize(between), flag: 0 },
    { ids: tokenize("yes<|im_end|>"), flag: 1 },
  ];
  return {
    id: "s/0",
    turns: 2,
    messages: [...opening, { role: "assistant", content: "here" }, result, { role: "assistant", content: "yes" }],
    tokens: {
      ids: parts.flatMap(({ ids }) => ids),
      sampled: parts.flatMap(({ ids, flag }) => ids.map(() => flag)),
      logprobs: [],
    },
  } as unknown as Trajectory;
}

const look = async (render: Renderer, group: Trajectory[], readBy = reader) => {
  const guard = renderedGuard(readBy, render);
  return guard.afterPlay?.({ group, adapter: null, temperature: 1, seedName: "r", step: 1 });
};
const words = (verdict: Awaited<ReturnType<typeof look>>) =>
  verdict === undefined ? undefined : verdict.demand === "note" ? verdict.text : String(verdict.error);

describe("a rollout of a step", () => {
  const jinja2 = new Jinja2(ensureLearnerPython, join(mkdtempSync(join(tmpdir(), "hone-jinja2-")), "log"));

  it("reads what Jinja2 makes of the template, and otherwise the step is not taken", async () => {
    const render = jinja2.render;
    try {
      expect(words(await look(render, [played()]))).toBeUndefined();
      const lost = played("<|im_start|>user\nReally?<|im_end|>\n<|im_start|>assistant\n");
      expect(words(await look(render, [lost]))).toMatch(/than Jinja2 makes of .*: behind its turn 1 it reads "/);
      expect((await look(render, [lost]))?.demand).toBe("drop these rollouts");
      const other = [...template.prompt(opening.slice(1), [])];
      expect(words(await look(render, [played(undefined, other)]))).toMatch(/its prompt reads "/);
      // A tokenizer that loses text cannot say.
      const loses = { ...reader, tokenize: () => [] };
      expect(await look(render, [played(undefined, other)], loses)).toBeUndefined();
      // Thoughts that were cut short by given tokens: a turn of several parts.
      const { tokens, ...cut } = played();
      const sampled = tokens?.sampled.map((flag, at, all) => (all.indexOf(1) + 1 === at ? 0 : flag));
      expect(await look(render, [{ ...cut, tokens: { ...tokens, sampled } } as Trajectory])).toBeUndefined();
    } finally {
      await jinja2.close();
    }
  });

  it("is compared once a step, where hone itself played it", async () => {
    let asked = 0;
    const guard = renderedGuard(reader, async () => {
      asked++;
      return [];
    });
    const at = async (step: number, group = [played()]) => {
      await guard.afterPlay?.({ group, adapter: null, temperature: 1, seedName: "r", step });
      return asked;
    };
    expect([await at(1), await at(1), await at(2)]).toEqual([1, 1, 2]);
    expect(await at(3, [{ ...played(), agent: { completions: 2, sequences: 1 } }])).toBe(2);
    const broken = renderedGuard(reader, () => Promise.reject(new TypeError("a defect"))).afterPlay;
    const seen = { group: [played()], adapter: null, temperature: 1, seedName: "r", step: 1 };
    await expect(broken?.(seen)).rejects.toThrow("a defect");
  });

  it("is not compared where there is no other renderer, which is said once", async () => {
    let asked = 0;
    const guard = renderedGuard(reader, () => {
      asked++;
      return Promise.reject(new NotRendered("no Jinja2"));
    });
    const at = (step: number) =>
      guard.afterPlay?.({ group: [played()], adapter: null, temperature: 1, seedName: "r", step });
    expect(words(await at(1))).toBe("prompts are not compared with another renderer's: no Jinja2");
    expect(await at(1)).toBeUndefined();
    expect(await at(2)).toBeUndefined();
    expect(asked).toBe(1);
  });
});

it("a Python that cannot render is said to be one", async () => {
  const jinja2 = new Jinja2(
    () => Promise.resolve("/bin/false"),
    join(mkdtempSync(join(tmpdir(), "hone-jinja2-")), "log"),
  );
  await expect(jinja2.render([])).rejects.toThrow("/bin/false cannot render it");
  await jinja2.close();
});
