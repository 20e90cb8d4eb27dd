/** Cuts a conversation into the pieces of text that a rollout would give to the model or expect from it. */

import { readFileSync } from "node:fs";
import { ChatTemplate } from "../../../dist/src/chat/template.js";

/** A tokenizer whose tokens are characters and control tokens, so that ids can be read as text again. */
class Characters {
  constructor(control) {
    this.controlTokens = new Map(control.map((text, index) => [text, 0x110000 + index]));
    this.bosText = "";
    this.eosText = "";
    this.framing = [];
    this.texts = new Map([...this.controlTokens].map(([text, id]) => [id, text]));
  }
  tokenize(text) {
    return Array.from(text, (character) => character.codePointAt(0));
  }
  text(ids) {
    return ids.map((id) => this.texts.get(id) ?? String.fromCodePoint(id)).join("");
  }
}

const { control } = JSON.parse(readFileSync(new URL("tokens.json", import.meta.url), "utf8"));
const characters = new Characters(control);
const chat = readFileSync(new URL("../chat_template.jinja", import.meta.url), "utf8");
const template = new ChatTemplate({ chat, tools: null }, characters);

/** Pieces of a finished conversation, each exactly as the rollout's template makes it; traces.mjs says what roles mean. */
export function piecesOf(outcome, { messages: first, tools }) {
  const prompt = template.promptText(first, tools);
  const pieces = [[prompt, "given"]];
  const rest = outcome.messages.slice(first.length);
  for (let i = 0; i < rest.length; ) {
    const whole = template.promptText([...first, rest[i++]], tools);
    const end = whole.lastIndexOf(template.closing.text) + template.closing.text.length;
    pieces.push([whole.slice(prompt.length, end), "played"]);

    const results = [];
    while (rest[i]?.role === "tool") results.push(rest[i++]);
    if (results.length > 0) pieces.push([characters.text(template.delta(first, tools, results, true)), "given"]);
  }
  return pieces;
}
