/** The items of a response, one after another, as they are written, and the events that tell of it where it is streamed. */
import { newAnswerId } from "./answers.js";
import type { Exchange } from "./exchange.js";
import { callItem, messageItem, type OutputItem, outputText, reasoningItem, type Status } from "./responses-items.js";

type Kind = "reasoning" | "message";

interface OpenItem {
  readonly kind: Kind;
  readonly id: string;
  text: string;
}

export class ResponseWriter {
  /** Items that are complete. */
  readonly output: OutputItem[] = [];
  readonly #exchange: Exchange | undefined;
  #number = 0;
  /** The item that is being written. */
  #open: OpenItem | undefined;

  /** @param exchange of a response that is streamed */
  constructor(exchange: Exchange | undefined) {
    this.#exchange = exchange;
  }

  send(type: string, more: object): void {
    this.#exchange?.event({ type, sequence_number: this.#number++, ...more }, type);
  }

  /** Goes on with the item of this kind, or ends another one and begins it. */
  write(kind: Kind, delta: string | undefined): void {
    if (!delta) return;
    if (this.#open?.kind !== kind) {
      this.end("completed", []);
      this.begin(kind);
    }
    const open = this.#open as OpenItem;
    open.text += delta;
    if (kind === "reasoning") this.send("response.reasoning_text.delta", { ...this.#place(open.id), delta });
    else this.send("response.output_text.delta", { ...this.#place(open.id), delta, logprobs: [] });
  }

  begin(kind: Kind): void {
    const id = newAnswerId(kind === "reasoning" ? "rs" : "msg");
    this.#open = { kind, id, text: "" };
    const item = kind === "reasoning" ? { ...reasoningItem(id, ""), content: [] } : messageItem(id, "in_progress", []);
    const part = kind === "reasoning" ? { type: "reasoning_text", text: "" } : outputText("", []);
    this.send("response.output_item.added", { output_index: this.output.length, item });
    this.send("response.content_part.added", { ...this.#place(id), part });
  }

  /** Ends the item that is being written, if one is. */
  end(status: Status, logprobs: readonly object[]): void {
    if (!this.#open) return;
    const { kind, id, text } = this.#open;
    const said = outputText(text, logprobs);
    const place = this.#place(id);
    if (kind === "reasoning") this.send("response.reasoning_text.done", { ...place, text });
    else this.send("response.output_text.done", { ...place, text, logprobs });
    const part = kind === "reasoning" ? { type: "reasoning_text", text } : said;
    this.send("response.content_part.done", { ...place, part });
    const item = kind === "reasoning" ? reasoningItem(id, text) : messageItem(id, status, [said]);
    this.send("response.output_item.done", { output_index: this.output.length, item });
    this.output.push(item);
    this.#open = undefined;
  }

  /** What the turn has written so far is ended; a message is there, empty at least, where it made no call. */
  endText(status: Status, logprobs: readonly object[], calls: number): void {
    if (this.#open?.kind === "reasoning") this.end("completed", []);
    if (!this.#open && calls === 0) this.begin("message");
    this.end(status, logprobs);
  }

  call(call: { readonly call_id: string; readonly name: string; readonly arguments: string }): void {
    const item = callItem(newAnswerId("fc"), "completed", call);
    const at = { output_index: this.output.length };
    this.send("response.output_item.added", { ...at, item: { ...item, status: "in_progress", arguments: "" } });
    this.send("response.function_call_arguments.delta", { ...at, item_id: item.id, delta: call.arguments });
    const { name, arguments: args } = call;
    this.send("response.function_call_arguments.done", { ...at, item_id: item.id, name, arguments: args });
    this.send("response.output_item.done", { ...at, item });
    this.output.push(item);
  }

  #place(id: string) {
    return { output_index: this.output.length, item_id: id, content_index: 0 };
  }
}
