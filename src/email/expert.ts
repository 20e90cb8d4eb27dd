/**
 * A scripted player of the email task: searches, reads the evidence, answers and cites it. It plays with the real tools
 * and uses their results; from the scenario it knows only which hit is the evidence and the answer. A given share of
 * rollouts has mistakes, followed by recovery where possible: such traces teach a model to recover, or give it habits
 * to unlearn.
 */

import type { CallRecord, ExpertOptions, ToolCall } from "../core/task/task.js";
import { HoneError } from "../core/util/errors.js";
import { nearest } from "../core/util/nearest.js";
import type { Random } from "../core/util/random.js";
import { badSearch, goodSearches } from "./keywords.js";
import { NOT_FOUND } from "./prompt.js";
import type { EmailScenario } from "./scenario.js";
import { guessAnswer } from "./synthetic/facts.js";
import { type Kind, kinds } from "./synthetic/pools.js";

/** Mistakes of the expert. The first five cost turns, the others the answer or its citation. */
export const mistakes = {
  bad_keywords: "first searches with a word that the mail does not have, finds nothing, then searches well",
  loose_keywords: "searches for one word only, so that more mails are found than needed",
  repeats_search: "searches twice for the same",
  wrong_mail: "reads another hit first (where there is one), then the right one",
  misspelt_id: "reads an id that does not exist, then the right one",
  trusts_wrong_mail: "reads another hit (where there is one) and answers from it, or gives up when it says nothing",
  answers_unread: "answers from nothing but the search results: a guess",
  wrong_answer: "reads the right mail and answers something else",
  gives_up_early: "says that there is no answer after the first search, or after the first disappointing mail",
  cites_too_much: "refers to every hit of its search",
  cites_nothing: "refers to no mail",
} as const;

export type Mistake = keyof typeof mistakes;

const mistakeNames = Object.keys(mistakes) as Mistake[];

/**
 * Draws the mistakes of this rollout. A number is the share of rollouts with one mistake, all kinds equally likely; a
 * record gives each kind its own share, independent of the others.
 *
 * @throws HoneError on an unknown name
 */
function drawMistakes(shares: ExpertOptions["mistakes"] = {}, random: Random): ReadonlySet<Mistake> {
  if (typeof shares === "number") return new Set(random.chance(shares) ? [random.pick(mistakeNames)] : []);
  for (const name of Object.keys(shares)) {
    if (Object.hasOwn(mistakes, name)) continue;
    const close = nearest(name, mistakeNames);
    const hint = close ? `did you mean ${close}?` : `its mistakes are ${mistakeNames.join(", ")}`;
    throw new HoneError(`the email expert makes no mistake called ${name}; ${hint}`);
  }
  return new Set(mistakeNames.filter((name) => random.chance(shares[name] ?? 0)));
}

/** Plays one scenario. Yields the calls of a turn and receives their records. */
export function* emailExpert(
  scenario: EmailScenario,
  random: Random,
  options: ExpertOptions = {},
): Generator<ToolCall[], void, CallRecord[]> {
  const makes = drawMistakes(options.mistakes, random);
  const isEvidence = (id: string) => scenario.message_ids.includes(id);

  function* search(keywords: string[]): Generator<ToolCall[], string[], CallRecord[]> {
    const [record] = yield [{ name: "search_inbox", arguments: { keywords } }];
    return idsOf(record);
  }
  /** Returns the mail's text; undefined when it could not be read. */
  function* read(id: string): Generator<ToolCall[], string | undefined, CallRecord[]> {
    const [record] = yield [{ name: "read_email", arguments: { message_id: id } }];
    return bodyOf(record);
  }
  function* answer(text: string, cited: string[]): Generator<ToolCall[], void, CallRecord[]> {
    yield [{ name: "return_final_answer", arguments: { answer: text, reference_message_ids: cited } }];
  }

  let hits: string[] = [];
  for (const [index, keywords] of plannedSearches(scenario, makes, random).entries()) {
    hits = yield* search(keywords);
    if (index === 0 && makes.has("repeats_search")) hits = yield* search(keywords);
    if (makes.has("gives_up_early") && !makes.has("wrong_mail")) return yield* answer(NOT_FOUND, []);
    if (hits.some(isEvidence)) break;
  }
  const evidence = hits.find(isEvidence);
  const others = hits.filter((id) => !isEvidence(id));
  const guess = () => (isKind(scenario.kind) ? guessAnswer(scenario.kind, random) : NOT_FOUND);

  if (makes.has("answers_unread")) return yield* answer(guess(), hits.slice(0, 1));

  if ((makes.has("wrong_mail") || makes.has("trusts_wrong_mail")) && others.length > 0) {
    const wrong = random.pick(others);
    const text = yield* read(wrong);
    if (makes.has("trusts_wrong_mail")) {
      const found = answerIn(text ?? "", scenario.kind);
      return yield* found ? answer(found, [wrong]) : answer(NOT_FOUND, []);
    }
    if (makes.has("gives_up_early")) return yield* answer(NOT_FOUND, []);
  }

  if (!evidence) return yield* answer(NOT_FOUND, []);
  if (makes.has("misspelt_id")) yield* read(misspelt(evidence, others, random));
  if ((yield* read(evidence)) === undefined) return yield* answer(NOT_FOUND, []);

  let cited = [evidence];
  if (makes.has("cites_too_much")) cited = hits;
  if (makes.has("cites_nothing")) cited = [];
  yield* answer(makes.has("wrong_answer") ? guess() : scenario.answer, cited);
}

function plannedSearches(scenario: EmailScenario, makes: ReadonlySet<Mistake>, random: Random): string[][] {
  const good = goodSearches(scenario);
  const [best = []] = good;
  const searches = makes.has("loose_keywords") ? [[random.pick(best)], ...good] : good;
  return makes.has("bad_keywords") ? [badSearch(scenario), ...searches] : searches;
}

function idsOf(record: CallRecord | undefined): string[] {
  if (record?.outcome !== "ok" || !Array.isArray(record.result)) return [];
  return record.result.map((hit: { message_id: string }) => hit.message_id);
}

function bodyOf(record: CallRecord | undefined): string | undefined {
  return record?.outcome === "ok" ? (record.result as { body: string }).body : undefined;
}

const isKind = (kind: string | undefined): kind is Kind => (kinds as readonly (string | undefined)[]).includes(kind);

/** Patterns of each kind of answer in running text. */
const shapes: Readonly<Record<Kind, RegExp>> = {
  when: /\b(?:January|February|March|April|May|June|July|August|September|October|November|December) \d{1,2}\b/,
  much: /\$\d+k/,
  // A name in mid-sentence: two capitalised words for a person, one for a city or a company, at the end of a sentence.
  who: /(?<=[a-z] )\p{Lu}\p{Ll}+ \p{Lu}\p{Ll}+/u,
  where: /(?<=[a-z] )\p{Lu}\p{Ll}+(?=(?: for it)?\.)/u,
  which: /(?<=[a-z] )\p{Lu}\p{Ll}+(?=\.)/u,
};

function answerIn(body: string, kind: string | undefined): string | undefined {
  // The lead, up to the first full stop, names the project, which is not an answer.
  return isKind(kind) ? shapes[kind].exec(body.slice(body.search(/[.?]/)))?.[0] : undefined;
}

/** An id that does not exist: with the second half of another hit's id, or with a letter missing. */
function misspelt(id: string, others: readonly string[], random: Random): string {
  const [half] = id.split("-");
  const donors = others
    .map((other) => other.slice(other.indexOf("-")))
    .filter((end) => end !== id.slice(id.indexOf("-")));
  return donors.length > 0 && id.includes("-") ? `${half}${random.pick(donors)}` : id.slice(0, -1);
}
