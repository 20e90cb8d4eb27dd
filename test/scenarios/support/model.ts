/**
 * A model behind an API that plants faults: it writes what it is told to for each piece, and answers as one that reads: from the
 * evidence alone, with mistakes at a known rate. What it knows of a question does not come from hone's filters.
 */
import { Random } from "../../../src/core/util/random.js";
import { type ChatServer, completion, type Request, startServer } from "../../judge/support/server.js";

/** What a question asks for, and where it stands. */
export interface Fact {
  readonly answer: string;
  /** Whether a text says it. */
  readonly isIn: (text: string) => boolean;
  /** Anybody knows it. */
  readonly known?: boolean;
}

export interface Written {
  readonly question: string;
  readonly answer: string;
  readonly quote: string;
}

export interface Script {
  /** By the piece's text, as the model is shown it. */
  write(piece: string): readonly Written[];
  /** By the question's words. */
  factOf(question: string): Fact | undefined;
  calls?(
    made: readonly { tool: string; arguments: object; result: string }[],
  ): readonly { tool: string; arguments: object }[];
}

/** Shares of its answers that are wrong: it overlooks, it makes up, it guesses luckily, it misjudges wordings. */
const MISTAKES = { overlooked: 0.03, invented: 0.03, lucky: 0.05, misjudged: 0.02 };

const tokens = (text: string) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

export async function startModel(script: Script, seed = 1): Promise<ChatServer & { asked: Map<string, number> }> {
  const asked = new Map<string, number>();
  const before = new Map<string, number>();
  const answerOf = (request: Request): unknown => {
    const { response_format: format, messages } = request.body;
    const form = (format?.json_schema as { name?: string } | undefined)?.name ?? "";
    asked.set(form, (asked.get(form) ?? 0) + 1);
    // The same question again is answered by other dice, whatever the order of requests.
    const times = before.get(request.bytes) ?? 0;
    before.set(request.bytes, times + 1);
    const random = new Random("model", seed, request.bytes, times);
    const given = JSON.parse(messages[1]?.content ?? "{}");
    const fact = script.factOf(given.question ?? "");
    const worded = (text: string) => random.pick([text, `It is ${text}.`, text.replace(/\.$/, "")]);
    if (form === "questions") return { questions: script.write(given.piece) };
    if (form === "calls") {
      const calls = script.calls?.(given.calls_made_already) ?? [];
      return { calls: calls.map((call) => ({ ...call, arguments: JSON.stringify(call.arguments) })) };
    }
    if (form === "answer_from_evidence") {
      const invented = { answerable: true, answer: `perhaps ${random.integer(1000, 9999)}` };
      if (!fact?.isIn(given.piece)) return random.chance(0.15) ? invented : { answerable: false, answer: "" };
      if (random.chance(MISTAKES.overlooked)) return { answerable: false, answer: "" };
      return random.chance(MISTAKES.invented) ? invented : { answerable: true, answer: worded(fact.answer) };
    }
    if (form === "answer_without_evidence") {
      const knows = fact?.known || random.chance(MISTAKES.lucky);
      return knows ? { answerable: true, answer: worded(fact?.answer ?? "") } : { answerable: false, answer: "" };
    }
    const [golden, said] = [tokens(given.golden_answer), new Set(tokens(given.agents_answer))];
    const accept = golden.every((word) => said.has(word)) !== random.chance(MISTAKES.misjudged);
    return { reasoning: "", accept };
  };
  const server = await startServer((request) => completion(JSON.stringify(answerOf(request))));
  return { ...server, asked };
}

/** Ways of asking the same, other than word for word. */
export function reworded(question: string, random: Random): string {
  const others: Readonly<Record<string, string>> = {
    what: "which",
    salary: "pay",
    meeting: "get-together",
    contact: "reach",
    questions: "queries",
    scheduled: "planned",
    time: "hour",
    date: "day",
    person: "individual",
    phone: "telephone",
    send: "forward",
    location: "place",
  };
  const swapped = question.replace(/[a-z]+/gi, (word) => others[word.toLowerCase()] ?? word);
  const bare = swapped.replace(/\?$/, "");
  return random.pick([
    `Could you tell me the following: ${bare}?`,
    `I would like to know: ${bare.charAt(0).toLowerCase()}${bare.slice(1)}.`,
    `${bare.split(" ").slice(2).join(" ")}: ${bare.split(" ").slice(0, 2).join(" ").toLowerCase()}?`,
  ]);
}

/** What anybody knows. */
export const general: readonly { readonly question: string; readonly answer: string }[] = [
  { question: "What is the capital of France?", answer: "Paris" },
  { question: "How many days does a leap year have?", answer: "366" },
  { question: "Which planet is nearest to the sun?", answer: "Mercury" },
  { question: "What is the chemical symbol of gold?", answer: "Au" },
  { question: "Who wrote Hamlet?", answer: "William Shakespeare" },
  { question: "At how many degrees Celsius does water boil at sea level?", answer: "100" },
];
