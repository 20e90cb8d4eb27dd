/** Options of `yarn hone plan`. Part of options.ts. */
import { inGroup, pairs, real, text, whole } from "./option.js";

const MANY = 1_000_000;

export const planOptions = inGroup("Planning", ["plan"], {
  cards: text(
    "Machines and cards to plan for: a name, their number before it, the number of machines before that. An unknown name prints those that are known.",
    { accepts: "CARD, COUNTxCARD or MACHINESxCOUNTxCARD, as 2x8xh100-80gb; or cpu", first: ["plan"] },
  ),
  promptTokens: whole(1, MANY, "Expected tokens of a prompt: instructions, tools and question.", {
    default: 600,
    first: ["plan"],
  }),
  turns: real(1, 1000, "Expected assistant turns of a rollout.", { default: 3, first: ["plan"] }),
  turnTokens: real(1, MANY, "Expected tokens that the model samples in a turn.", { default: 100, first: ["plan"] }),
  resultTokens: real(0, MANY, "Expected tokens that it reads between two turns, of tools' results.", {
    default: 300,
    first: ["plan"],
  }),
  judgeSeconds: real(0, 86_400, "Seconds in which a step waits for a judge alone.", { default: 0, first: ["plan"] }),
  assume: pairs(
    "Another value of what the arithmetic assumes; the output lists names and values. May be given several times.",
    { accepts: "NAME=VALUE, as updates=0.5", defaultText: "none", first: ["plan"] },
  ),
});
