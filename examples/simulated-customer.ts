/**
 * A waiter that is trained, and a guest whom the same model plays as it was before: `base` of `withBase`, which is never trained.
 *
 *     npm install ai    # not needed in a clone of hone, which has it
 *     yarn rollout --task examples/simulated-customer.ts --model qwen2.5-0.5b --n 4 --show
 *     yarn train --task examples/simulated-customer.ts --model qwen2.5-0.5b
 */
import { defineTask, Random, type Scenario, withBase } from "@hone-rl/hone";
import { generateText, type ModelMessage } from "ai";

interface Guest extends Scenario {
  readonly drink: string;
  readonly size: string;
}

const drinks = ["coffee", "tea", "cocoa", "lemonade", "water"];
const sizes = ["small", "medium", "large"];
/** Questions that the waiter may ask. */
const QUESTIONS = 4;

const WAITER = `You take orders in a café, which has ${drinks.join(", ")}, each ${sizes.join(", ")}. Ask for what you do not know, one short question at a time. When you know size and drink, say only: ORDER: small tea`;

const guest = ({ drink, size }: Guest) =>
  `You are a guest in a café and want a ${size} ${drink}. Answer the waiter in a few words, and say nothing that you are not asked for.`;

/** The conversation as the other side has it. */
const swapped = (messages: readonly ModelMessage[]) =>
  messages.map((message) => ({ ...message, role: message.role === "user" ? "assistant" : "user" }) as ModelMessage);

/** 1 for the order, a quarter for each of its two words. */
function rewardOf(order: string, { drink, size }: Guest): number {
  const words = order
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter(Boolean);
  if (words.length !== 2) return 0;
  const right = [words[0] === size, words[1] === drink].filter(Boolean).length;
  return right === 2 ? 1 : right / 4;
}

export default defineTask({
  name: "simulated-customer",
  description: "Take the order of a guest whom the untrained model plays",
  scenarios: ({ seed }): Guest[] =>
    Array.from({ length: 200 }, (_, index) => {
      const random = new Random("guest", seed, index);
      const [drink, size] = [random.pick(drinks), random.pick(sizes)];
      // What a guest of the tests orders, none of training does.
      const split = (drinks.indexOf(drink) + sizes.indexOf(size)) % 5 === 0 ? "test" : "train";
      return { id: `guest-${index}`, split, question: "Hello!", drink, size };
    }),

  rollout: withBase<Guest>(
    { calls: QUESTIONS, maxTokens: 40 },
    async ({ scenario, model, base, signal: abortSignal }) => {
      const messages: ModelMessage[] = [{ role: "user", content: scenario.question }];
      for (let asked = 0; ; asked++) {
        const { text } = await generateText({ model, system: WAITER, messages, abortSignal });
        const order = /ORDER:(.*)/i.exec(text)?.[1];
        if (order !== undefined) return rewardOf(order, scenario);
        if (asked === QUESTIONS) return 0;
        messages.push({ role: "assistant", content: text });
        const answer = await generateText({
          model: base.model,
          system: guest(scenario),
          messages: swapped(messages),
          abortSignal,
        });
        messages.push({ role: "user", content: answer.text });
      }
    },
  ),
});
