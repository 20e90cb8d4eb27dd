import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import type { ChatTemplate } from "../../src/chat/template.js";
import { chatTemplate, type LoadedVocabulary, loadVocabulary, models } from "./support/templates.js";
import { allSlots, type Conversation, conversation, harmless, type Texts, traps } from "./support/texts.js";

/** Every how many of the cases is tried; all of them are among the slower tests. */
const EVERY = process.env.TEST_FULL ? 1 : 4;

/** The model's control tokens whole, without their end and without their beginning. */
function pieces(template: ChatTemplate, { control }: LoadedVocabulary): string[] {
  const named = ["<|im_start|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|endoftext|>"];
  const tokens = new Set([template.closing.text, ...named.filter((text) => control.has(text))]);
  return [...traps, ...[...tokens].flatMap((text) => [text, text.slice(0, -2), text.slice(2), text.slice(0, 2)])];
}

/** Control tokens as ids, and the text between them. */
function parts(ids: readonly number[], { control, decode }: LoadedVocabulary): (number | string)[] {
  const controls = new Set(control.values());
  const found: (number | string)[] = [];
  let text: number[] = [];
  const flush = () => {
    if (text.length > 0) found.push(decode(text));
    text = [];
  };
  for (const id of ids) {
    if (!controls.has(id)) text.push(id);
    else {
      flush();
      found.push(id);
    }
  }
  flush();
  return found;
}

/** What the same conversation comes to with `texts` in the place of the harmless ones. */
function filled(safe: readonly (number | string)[], texts: Texts, trimmed: readonly string[]): (number | string)[] {
  const slot = new RegExp(`\\b(${allSlots.join("|")})(\\\\?)"x`, "g");
  return safe.map((part) => {
    if (typeof part === "number") return part;
    const text = part.replace(slot, (_, name: string, escaped: string) => {
      const own = trimmed.includes(name) ? (texts[name] as string).trim() : (texts[name] as string);
      return escaped ? JSON.stringify(own).slice(1, -1) : own;
    });
    // Half a character has no bytes: it becomes U+FFFD, as in every text that leaves JavaScript.
    return Buffer.from(text).toString();
  });
}

describe.each(models)("texts of any kind in the template of $name", (model) => {
  // Llama's template trims what people say; Qwen3's takes an assistant's thoughts, and tool results in a question, apart.
  const trimmed = model.name === "Llama-3" ? ["system", "user"] : [];
  const readByTemplate = model.name === "Qwen3" ? { user: harmless.user, content: harmless.content } : {};

  let vocabulary: LoadedVocabulary;
  let template: ChatTemplate;
  beforeAll(async () => {
    vocabulary = await loadVocabulary(model.vocabulary);
    template = chatTemplate(model, vocabulary);
  });

  const promptOf = ({ before, tools }: Conversation) => parts(template.prompt(before, tools), vocabulary);
  const turnOf = ({ before, tools, turn }: Conversation) => parts(template.turn(before, tools, turn), vocabulary);
  const deltaOf = ({ before, tools, results }: Conversation, closed: boolean) =>
    parts(template.delta(before, tools, results, closed), vocabulary);

  function expectSameShape(texts: Texts): void {
    const special = conversation(texts);
    const safe = conversation(harmless);
    expect(promptOf(special)).toEqual(filled(promptOf(safe), texts, trimmed));
    for (const closed of [true, false])
      expect(deltaOf(special, closed)).toEqual(filled(deltaOf(safe, closed), texts, trimmed));
    const readable = { ...texts, ...readByTemplate } as Texts;
    expect(turnOf(conversation(readable))).toEqual(filled(turnOf(safe), readable, trimmed));
  }

  it("are all in what is compared, between the template's opening and closing", () => {
    const safe = conversation(harmless);
    const prompt = promptOf(safe).join("");
    for (const name of ["system", "user", "toolName", "property"]) expect(prompt).toContain(name);
    const turn = turnOf(safe).join("");
    for (const name of ["call", "key", "inner", "value"]) expect(turn).toMatch(new RegExp(`${name}\\\\?"x`));
    const delta = deltaOf(safe, false);
    expect(delta[0]).toBe(template.closing.id);
    if (model.name === "Llama-3") expect(delta.join("")).toMatch(/\n\n"result\\"x"\d+.*\n\n"result2\\"x"\d+/s);
    else
      expect(delta.join("")).toMatch(
        /\n<tool_response>\nresult"x\n<\/tool_response>\n<tool_response>\nresult2"x\n<\/tool_response>\d+\n/,
      );
  });

  it("stay text, character for character: two pieces together", () => {
    const all = pieces(template, vocabulary);
    for (const [index, first] of all.entries()) {
      if (index % EVERY !== 0) continue;
      // Each of a conversation's texts is another pair.
      for (let from = 0; from < all.length; from += allSlots.length) {
        const second = (slot: number) => all[(from + slot + index) % all.length] as string;
        expectSameShape(Object.fromEntries(allSlots.map((name, slot) => [name, first + second(slot)])));
      }
    }
  });

  it("stay text, character for character: any pieces in any place", () => {
    const piece = fc.oneof(
      fc.constantFrom(...pieces(template, vocabulary)),
      fc.string({ unit: "binary", minLength: 1 }),
    );
    const text = fc.array(piece, { minLength: 1, maxLength: 6 }).map((several) => several.join(""));
    const texts = fc.record(Object.fromEntries(allSlots.map((name) => [name, text])));
    fc.assert(fc.property(texts, expectSameShape), { seed: 11, numRuns: 300 / EVERY });
  });
});
