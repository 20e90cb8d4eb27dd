/** The tokens of a rollout, coloured by log-probability, advantage, or origin. */
import { useMemo, useState } from "preact/hooks";
import type { Pieces, Tokens } from "../../src/insight/view/wire.js";
import { number, signed, visible } from "./format.js";

type Colouring = "logprob" | "advantage" | "sampled";

interface Token {
  readonly id: number;
  readonly text: string;
  readonly sampled: boolean;
  /** Nats; null for given tokens. */
  readonly logprob: number | null;
}

/** Number of tokens rendered at first; the rest on request. */
const SHOWN = 4000;

/** A character of several tokens is shown with the last one, since its bytes are complete only there. */
function read({ ids, stretches, logprobs }: Tokens, pieces: Pieces): Token[] {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const tokens: Token[] = [];
  let at = 0;
  let sampledBefore = 0;
  stretches.forEach((length, i) => {
    const sampled = i % 2 === 1;
    for (let k = 0; k < length; k++, at++) {
      const id = ids[at] as number;
      const piece = pieces[id];
      const text =
        piece === undefined
          ? `⟨${id}⟩`
          : decoder.decode(
              Uint8Array.from(piece, (one) => one.charCodeAt(0)),
              { stream: true },
            );
      const logprob = sampled ? (logprobs[sampledBefore++] ?? 0) / 1000 : null;
      tokens.push({ id, text, sampled, logprob });
    }
  });
  return tokens;
}

/** Five grades from certain to surprising. */
const grade = (logprob: number) =>
  logprob > -0.1 ? 0 : logprob > -0.7 ? 1 : logprob > -1.6 ? 2 : logprob > -3 ? 3 : 4;

function classOf(token: Token, colouring: Colouring, advantage: number | null): string {
  if (!token.sampled) return colouring === "sampled" ? "given" : "given pale";
  if (colouring === "sampled") return "sampled";
  if (colouring === "logprob") return `p${grade(token.logprob ?? 0)}`;
  return advantage === null || advantage === 0 ? "untaught" : advantage > 0 ? "plus" : "minus";
}

const KEYS: Readonly<Record<Colouring, readonly (readonly [string, string])[]>> = {
  logprob: [
    ["p0", "over 90 %"],
    ["p1", "50 to 90 %"],
    ["p2", "20 to 50 %"],
    ["p3", "5 to 20 %"],
    ["p4", "below 5 %"],
    ["given pale", "not sampled"],
  ],
  advantage: [
    ["plus", "made likelier"],
    ["minus", "made less likely"],
    ["untaught", "taught nothing"],
    ["given pale", "not sampled"],
  ],
  sampled: [
    ["sampled", "sampled by the policy"],
    ["given", "given: prompt, template, results"],
  ],
};

export function TokenText({
  tokens,
  pieces,
  advantage,
}: {
  readonly tokens: Tokens;
  readonly pieces: Pieces;
  /** The advantage of the rollout in the update; null if it was not used. */
  readonly advantage: number | null;
}) {
  const [colouring, setColouring] = useState<Colouring>("logprob");
  const [shown, setShown] = useState(SHOWN);
  const all = useMemo(() => read(tokens, pieces), [tokens, pieces]);
  const sampled = all.filter((token) => token.sampled);
  const mean = sampled.reduce((sum, { logprob }) => sum + (logprob ?? 0), 0) / (sampled.length || 1);
  return (
    <div class="tokens">
      <label>
        colour by{" "}
        <select value={colouring} onChange={(event) => setColouring(event.currentTarget.value as Colouring)}>
          <option value="logprob">log-probability</option>
          <option value="advantage">advantage</option>
          <option value="sampled">sampled or given</option>
        </select>
      </label>
      <p class="key">
        {KEYS[colouring].map(([name, text]) => (
          <span key={name} class={name}>
            {text}
          </span>
        ))}
      </p>
      <p class="hint">
        {sampled.length.toLocaleString("en-US")} of {all.length.toLocaleString("en-US")} tokens sampled, mean
        log-probability {number(mean)}, advantage {signed(advantage)}
        {Object.keys(pieces).length === 0 ? "; the model file is not here, so ids stand for text" : ""}
      </p>
      <pre class="text">
        {all.slice(0, shown).map((token, i) => (
          <span
            key={i}
            class={classOf(token, colouring, advantage)}
            title={
              token.logprob === null
                ? `${token.id}, given`
                : `${token.id}, log-probability ${number(token.logprob)} (${(100 * Math.exp(token.logprob)).toFixed(1)} %)`
            }
          >
            {visible(token.text)}
          </span>
        ))}
      </pre>
      {all.length > shown && (
        <button type="button" class="more" onClick={() => setShown(shown + 5 * SHOWN)}>
          {(all.length - shown).toLocaleString("en-US")} more tokens
        </button>
      )}
    </div>
  );
}
