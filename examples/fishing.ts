/**
 * A whole task of decisions over several turns: explore, remember, then stay with what pays.
 *
 *     yarn rollout --task examples/fishing.ts --max-turns 6 --expert --n 2 --show
 *
 * One of four lakes has fish. Each turn names a lake, and the reply says "fish" or "nothing"; `--max-turns` says how
 * many casts there are, three fish are wanted. Casting at random catches three in one game out of six. Trying each lake
 * once, in any order, and staying where the fish are always does.
 */
import { type ChatMessage, defineTask, type ExpertHears, Random, type Scenario } from "@hone-rl/hone";

const LAKES = ["Aspen", "Cedar", "Coral", "Falcon", "Harbor", "Maple", "Raven", "Willow"] as const;
const CHOICES = 4;
const WANTED = 3;
/** Orders in which each choice of lakes is asked about. */
const ORDERS = 5;

interface FishingScenario extends Scenario {
  readonly lakes: readonly string[];
  /** The one that has fish. */
  readonly paying: string;
}

/** Every choice of four lakes, in some orders. A choice is in one split, whatever the seed and the order. */
function allScenarios(seed: number): FishingScenario[] {
  const random = new Random("fishing", seed);
  const choices = new Random("fishing choices").shuffle(subsets(LAKES, CHOICES));
  return choices.flatMap((choice, index) =>
    Array.from({ length: ORDERS }, () => random.shuffle([...choice])).flatMap((lakes, order) =>
      lakes.map((paying) => ({
        id: `${lakes.join("-")}-${order}-${paying}`,
        split: index % 5 === 0 ? ("test" as const) : ("train" as const),
        question: `Where are the fish: ${lakes.slice(0, -1).join(", ")} or ${lakes.at(-1)}?`,
        lakes,
        paying,
      })),
    ),
  );
}

function subsets<T>([first, ...others]: readonly T[], size: number): T[][] {
  if (size === 0) return [[]];
  if (first === undefined) return [];
  return [...subsets(others, size - 1).map((rest) => [first, ...rest]), ...subsets(others, size)];
}

const caught = (messages: readonly ChatMessage[], paying: string) =>
  Math.min(WANTED, messages.filter(({ role, content }) => role === "assistant" && content === paying).length);

export default defineTask<FishingScenario>({
  name: "fishing",
  description: "Find the lake that has fish, and stay there",
  scenarios: ({ seed }) => allScenarios(seed),
  prompt: ({ question }, { maxTurns }) => [
    { role: "system", content: `Catch three fish. You have ${maxTurns} casts.` },
    { role: "user", content: question },
  ],
  reply: ({ scenario: { lakes, paying }, messages }, text) => {
    if (!lakes.includes(text)) return "no lake";
    if (text !== paying) return "nothing";
    return caught(messages, paying) === WANTED ? null : "fish";
  },

  /** The share of the wanted fish that was caught. */
  reward: ({ messages }, { paying }) => {
    const fish = caught(messages, paying);
    return { reward: fish / WANTED, success: fish === WANTED, parts: { fish } };
  },

  /** Tries the lakes one after the other and stays where fish are. Its mistake is to cast at random every time. */
  *expert({ lakes }, random, { mistakes = 0 }) {
    const blind = random.chance(typeof mistakes === "number" ? mistakes : (mistakes.blind ?? 0));
    let at = 0;
    for (;;) {
      const heard: ExpertHears = yield blind ? random.pick(lakes) : (lakes[at] as string);
      if (heard.reply === "nothing") at++;
    }
  },
});
