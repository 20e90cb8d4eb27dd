/**
 * A judge that answers questions of a known form: it sends the question, reads the answer, sends it back once with the error
 * if it is wrong, and caches verdicts by request.
 */
import { createHash } from "node:crypto";
import type { JudgeUsage, VerdictCache } from "../core/run/verdicts.js";
import { cutText } from "../core/util/text.js";
import { sumOfUsage } from "./budget.js";
import type { JudgeAnswer, JudgeClient, JudgeMessage, JudgeQuestion } from "./client.js";
import { withoutOpenThoughts } from "./json.js";
import { type Exchange, NoVerdict } from "./no-verdict.js";

export interface Question<V> extends JudgeQuestion {
  /** Part of the cache key, to distinguish repeated requests with the same text. */
  readonly vote?: number;
  /** Reads an answer. Throws NoVerdict with the judge's mistake, worded for the judge. */
  read(text: string): V;
}

export interface Verdict<V> {
  readonly value: V;
  readonly cached: boolean;
  /** The judge's answers, the last one valid; empty for a cached verdict. */
  readonly exchanges: readonly Exchange[];
}

/** Characters of a wrong answer that are sent back at most. */
const QUOTED = 4000;

/** One judge, or the first of several that vote. */
export class Judge {
  readonly #others: readonly Judge[];
  readonly #cache: VerdictCache | undefined;
  /** Identical questions asked at the same time are sent once. */
  readonly #open = new Map<string, Promise<Verdict<unknown>>>();
  #cached = 0;

  /**
   * @param cache undefined: every question is sent
   * @param name what it is called among several
   * @param others further judges of the same questions
   */
  constructor(
    readonly client: JudgeClient,
    cache: VerdictCache | undefined,
    readonly name = "judge",
    others: readonly Judge[] = [],
  ) {
    this.#cache = cache;
    this.#others = others;
  }

  /** All that vote, itself first. */
  get all(): readonly Judge[] {
    return [this, ...this.#others];
  }

  /** Number of verdicts that all of them have taken from the cache. */
  get cached(): number {
    return this.#others.reduce((sum, { cached }) => sum + cached, this.#cached);
  }

  /** Requests and tokens of all of them. */
  usage(): JudgeUsage {
    return sumOfUsage(this.all.map(({ client }) => client.usage()));
  }

  /**
   * Asks this judge alone.
   * @throws NoVerdict when no verdict can be obtained
   * @throws JudgeStopped when there will be no verdicts any more
   */
  async ask<V>(question: Question<V>, signal: AbortSignal): Promise<Verdict<V>> {
    const { messages, form, vote = 0 } = question;
    const content = JSON.stringify([...this.client.identity(), form.name, messages, vote]);
    const key = createHash("sha256").update(content).digest("hex");
    const known = this.#cache?.get(key);
    if (known !== undefined) {
      this.#cached++;
      return { value: known as V, cached: true, exchanges: [] };
    }
    const open = this.#open.get(key) as Promise<Verdict<V>> | undefined;
    if (open) {
      const { value } = await open;
      this.#cached++;
      return { value, cached: true, exchanges: [] };
    }
    const asking = this.#askAndRepair(question, signal).then((verdict) => {
      this.#cache?.put(key, verdict.value);
      return verdict;
    });
    this.#open.set(key, asking);
    try {
      return await asking;
    } finally {
      this.#open.delete(key);
    }
  }

  async #askAndRepair<V>(question: Question<V>, signal: AbortSignal): Promise<Verdict<V>> {
    const exchanges: Exchange[] = [];
    const said = async (messages: readonly JudgeMessage[]): Promise<Verdict<V> | NoVerdict> => {
      const answer = await this.client.ask({ messages, form: question.form }, signal);
      const read = readAnswer(question, answer);
      const problem = read instanceof NoVerdict ? read.message : undefined;
      exchanges.push({ answer: answer.text, problem, cost: answer.cost });
      return read instanceof NoVerdict ? read : { value: read.value, cached: false, exchanges };
    };
    try {
      const first = await said(question.messages);
      if (!(first instanceof NoVerdict)) return first;
      const repaired = await said([...question.messages, ...repair(exchanges[0]?.answer ?? "", first)]);
      if (!(repaired instanceof NoVerdict)) return repaired;
      throw repaired;
    } catch (error) {
      if (error instanceof NoVerdict) error.exchanges = exchanges;
      throw error;
    }
  }
}

function readAnswer<V>(question: Question<V>, answer: JudgeAnswer): { value: V } | NoVerdict {
  try {
    return { value: question.read(answer.cut ? withoutOpenThoughts(answer.text) : answer.text) };
  } catch (error) {
    if (!(error instanceof NoVerdict)) throw error;
    return answer.cut
      ? new NoVerdict("cut", "it was cut off at the limit of tokens; keep the explanations short")
      : error;
  }
}

function repair(answer: string, { message }: NoVerdict): JudgeMessage[] {
  return [
    // Some servers refuse an empty turn.
    { role: "assistant", content: cutText(answer, QUOTED) || "(nothing)" },
    { role: "user", content: `That answer cannot be used: ${message}. Give the whole answer again, as JSON alone.` },
  ];
}
