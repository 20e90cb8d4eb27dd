/** Templates rendered by Jinja2, in a small Python process of their own (native/learner/second_template.py), which is kept. */
import { PythonChild } from "../core/learn/python-child.js";
import { messageOf } from "../core/util/errors.js";
import { anyOf, unlessAborted } from "../core/util/signals.js";
import { TimeLimit } from "../core/util/time-limit.js";
import { NotRendered, type Renderer } from "../guards/rendered.js";

/** For the start of Python on a busy machine; a rendering takes milliseconds. */
const SECONDS = 60;

interface Answer {
  readonly id: number;
  readonly texts?: readonly string[];
  readonly error?: string;
}

export class Jinja2 {
  readonly #python: () => Promise<string>;
  readonly #logFile: string;
  #child: Promise<PythonChild> | undefined;
  readonly #ended = new AbortController();
  readonly #asking = new Map<number, (answer: Answer) => void>();
  #count = 0;

  /** @param python its interpreter, which has the learner's packages; asked for with the first template */
  constructor(python: () => Promise<string>, logFile: string) {
    this.#python = python;
    this.#logFile = logFile;
  }

  readonly render: Renderer = async (asked) => {
    this.#child ??= this.#start();
    const child = await this.#child.catch((error: unknown) => {
      throw new NotRendered(messageOf(error), { cause: error });
    });
    const id = this.#count++;
    using late = new TimeLimit(SECONDS, () => new NotRendered(`Python said nothing for ${SECONDS} s`));
    using ended = anyOf([this.#ended.signal, late.signal]);
    const answered = new Promise<Answer>((resolve) => this.#asking.set(id, resolve));
    child.send({ id, asked });
    const answer = await unlessAborted(answered, ended.signal).finally(() => this.#asking.delete(id));
    if (answer.texts === undefined) throw new NotRendered(`Jinja2 refuses the model's chat template: ${answer.error}`);
    return answer.texts;
  };

  async close(): Promise<void> {
    const child = await this.#child?.catch(() => undefined);
    child?.kill();
    await child?.ended;
  }

  async #start(): Promise<PythonChild> {
    const python = await this.#python();
    return new PythonChild({
      python,
      args: ["-m", "learner.second_template"],
      logFile: this.#logFile,
      onLine: (line) => {
        const answer = JSON.parse(line) as Answer;
        this.#asking.get(answer.id)?.(answer);
      },
      onEnd: () => this.#ended.abort(new NotRendered(`${python} cannot render it; ${this.#logFile} says why`)),
    });
  }
}
