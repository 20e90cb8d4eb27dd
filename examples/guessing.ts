/**
 * A whole task without tools, whose user answers back: guess a number, and hear whether it is higher or lower.
 *
 *     yarn rollout --task examples/guessing.ts --expert --n 2 --show
 *
 * The model answers in plain text. `reply` says what the user answers to a guess; with null the game is over.
 */
import { defineTask, type ExpertHears, Random, type Scenario } from "@hone-rl/hone";

const HIGHEST = 100;

interface GuessingScenario extends Scenario {
  readonly secret: number;
}

/** The last whole number in a text: models think aloud before they guess. */
function guessIn(text: string): number | undefined {
  const last = text.match(/\d+/g)?.at(-1);
  return last === undefined ? undefined : Number(last);
}

export default defineTask<GuessingScenario>({
  name: "guessing",
  description: "Guess a number from 1 to 100 by being told higher or lower",
  // Each number once: none is both trained on and tested.
  scenarios: ({ seed }) =>
    new Random("guessing", seed).shuffle(Array.from({ length: HIGHEST }, (_, i) => i + 1)).map((secret, index) => ({
      id: `number-${seed}-${index}`,
      split: index % 5 === 0 ? "test" : "train",
      question: `I think of a whole number from 1 to ${HIGHEST}. Which is it?`,
      secret,
    })),
  prompt: ({ question }, { maxTurns }) => [
    {
      role: "system",
      content: `Guess a number: answer with one number at a time. You have ${maxTurns} guesses, and hear whether the number is higher or lower.`,
    },
    { role: "user", content: question },
  ],
  reply: ({ scenario: { secret } }, text) => {
    const guess = guessIn(text);
    if (guess === undefined) return `Say a whole number from 1 to ${HIGHEST}.`;
    return guess === secret ? null : guess < secret ? "Higher." : "Lower.";
  },

  /** 1 for the number, up to 0.5 less for needless guesses; otherwise up to 0.3 by how near the nearest guess was. */
  reward: ({ messages, answer, turns, maxTurns }, { secret }) => {
    const right = answer !== undefined && guessIn(String(answer.text)) === secret;
    const guesses = messages.flatMap(({ role, content }) => (role === "assistant" ? (guessIn(content) ?? []) : []));
    const near = 1 - Math.min(HIGHEST, ...guesses.map((guess) => Math.abs(guess - secret))) / HIGHEST;
    return {
      reward: right ? 1 - (0.5 * (turns - 1)) / maxTurns : 0.3 * near,
      success: right,
      parts: { right: right ? 1 : 0, near },
    };
  },

  /** Halves what is left; the mistake it can make is to count up from 1. */
  *expert(_scenario, random, { mistakes = 0 }) {
    const share = typeof mistakes === "number" ? mistakes : (mistakes.counts_up ?? 0);
    const countsUp = random.chance(share);
    let low = 1;
    let high = HIGHEST;
    for (;;) {
      const guess = countsUp ? low : Math.floor((low + high) / 2);
      const heard: ExpertHears = yield String(guess);
      if (heard.reply === "Higher.") low = guess + 1;
      else high = guess - 1;
    }
  },
});
