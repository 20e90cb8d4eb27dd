/** A person as a player: reads the model's prompt, types calls, reads their results. */
import type { Opening, Session, Turn } from "../../core/rollout/session.js";
import type { ChatMessage } from "../../core/task/task.js";
import { parseJson, toJson } from "../../core/util/json.js";
import { readCallLine, usage } from "./call-line.js";

/** Line input and output of a person. */
export interface Terminal {
  /** Prompts for a line; undefined at the end of input. */
  ask(): Promise<string | undefined>;
  print(text: string): void;
  /** As `print`, for text that hone itself has styled. */
  show(text: string): void;
}

/** Pretty-prints JSON; returns other text unchanged. */
function readable(content: string): string {
  try {
    return toJson(parseJson(content), 2);
  } catch {
    // A tool may return plain text.
    return content;
  }
}

export class PersonSession implements Session {
  readonly #opening: Opening;
  readonly #terminal: Terminal;

  constructor(opening: Opening, terminal: Terminal) {
    this.#opening = opening;
    this.#terminal = terminal;
    for (const { role, content } of opening.messages) terminal.print(`${role}: ${content}`);
    this.#help();
  }

  /** One call, or plain text; neither when the person quits. */
  async turn(): Promise<Turn> {
    for (;;) {
      const line = await this.#terminal.ask();
      if (line === undefined || line.trim() === "quit") {
        return { content: "", calls: [], completionTokens: 0, stop: "stop" };
      }
      if (line.trim() === "") continue;
      if (line.trim() === "help") {
        this.#help();
        continue;
      }
      const { tools } = this.#opening;
      const said = tools.some((tool) => tool.function.name === "say") ? null : /^say\s+(.+)$/s.exec(line.trim());
      const text = tools.length === 0 ? line : said?.[1];
      if (text !== undefined) return { content: text, calls: [], completionTokens: 0, stop: "stop" };
      const call = readCallLine(line, this.#opening.tools);
      if ("reason" in call) {
        this.#terminal.print(`${call.reason} (help shows how)`);
        continue;
      }
      return { content: "", calls: [{ kind: "call", call }], completionTokens: 0, stop: "stop" };
    }
  }

  respond(messages: readonly ChatMessage[]): void {
    for (const { content } of messages) this.#terminal.print(readable(content));
  }

  close(): void {}

  #help(): void {
    const lines = this.#opening.tools.map((tool) => `  ${usage(tool)}\n      ${tool.function.description}`);
    const asked = lines.length === 0 ? "Type your answer, or quit." : "Type a call, say TEXT for plain text, or quit:";
    this.#terminal.print([asked, ...lines].join("\n"));
  }
}
