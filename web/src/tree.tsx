/** The turns of a rollout of several sequences as a tree: what goes on from what, and where each is trained. */
import type { Body, Row } from "../../src/insight/view/wire.js";
import { number, visible } from "./format.js";

type Node = Body["tree"][number];

export interface NamedTurn {
  /** From 1, over all sequences, in the order in which turns began. */
  readonly number: number;
  /** Of its element on the page. */
  readonly id: string;
}

/** Characters of a turn's text that the tree shows. */
const SHOWN = 70;

const sequencesOf = ({ messages, branches }: Body) => [messages, ...branches.map((branch) => branch.messages)];

/** By sequence, the turns that it trains by their messages; empty for a rollout of one sequence. */
export function turnNames(body: Body, row: number): readonly ReadonlyMap<number, NamedTurn>[] {
  if (body.tree.length === 0) return [];
  return sequencesOf(body).map(
    (_, sequence) =>
      new Map(
        body.tree.flatMap((node, index) =>
          node.sequence === sequence ? [[node.message, { number: index + 1, id: `turn-${row}-${index + 1}` }]] : [],
        ),
      ),
  );
}

const systemOf = (messages: Body["messages"] | undefined) => messages?.find(({ role }) => role === "system")?.content;

/** What a turn said and called, on a line. */
function summaryOf(body: Body, { sequence, message }: Node): string {
  const said = sequencesOf(body)[sequence]?.[message];
  if (said?.role !== "assistant") return "";
  const calls = (said.tool_calls ?? []).map(({ name }) => `→ ${name}`);
  const text = said.content.trim().replaceAll(/\s+/g, " ");
  const line = [...calls, text].filter(Boolean).join("  ");
  return line.length > SHOWN ? `${line.slice(0, SHOWN)} …` : line;
}

/** Why a turn does not simply go on with the one before it; "" where it does. */
function beginningOf(body: Body, index: number, siblings: number): string {
  const node = body.tree[index] as Node;
  if (node.again !== undefined) return `turn ${node.again + 1} again: another sample of the same request`;
  if (node.rewritten) return `history rewritten: ${node.rewritten} of its turns are given here`;
  if (node.parent !== null) return siblings > 1 ? "goes on in another way" : "";
  if (index === 0) return "";
  const sequences = sequencesOf(body);
  const same = systemOf(sequences[node.sequence]) === systemOf(sequences[0]);
  return same ? "begins anew, with the same instructions" : "begins anew, with other instructions";
}

function Turn({ body, index, names, siblings }: Shown & { readonly index: number; readonly siblings: number }) {
  const node = body.tree[index] as Node;
  const name = names[node.sequence]?.get(node.message);
  const message = sequencesOf(body)[node.sequence]?.[node.message];
  const calls = message?.role === "assistant" ? (message.tool_calls?.length ?? 0) : 0;
  const beginning = beginningOf(body, index, siblings);
  // A link would change the address, which is the page's route.
  const show = () => document.getElementById(name?.id ?? "")?.scrollIntoView({ behavior: "smooth", block: "center" });
  return (
    <>
      {beginning && <span class="beginning">{beginning}</span>}
      <button type="button" class="turn" onClick={show}>
        turn {index + 1}
      </button>{" "}
      <span class="said">{visible(summaryOf(body, node))}</span>{" "}
      <small>
        sequence {node.sequence + 1} · {number(node.sampled)} tokens sampled · {number(node.given)} given
        {calls > 1 ? ` · ${calls} calls at once` : ""}
      </small>
    </>
  );
}

interface Shown {
  readonly body: Body;
  readonly names: readonly ReadonlyMap<number, NamedTurn>[];
}

/** Turns in a row stand below each other; where a turn goes on in several ways, each is a step to the right. */
function Turns({ body, names, from }: Shown & { readonly from: readonly number[] }) {
  const childrenOf = (parent: number) => body.tree.flatMap((node, index) => (node.parent === parent ? [index] : []));
  return (
    <ul>
      {from.map((first) => {
        const row = [first];
        let next = childrenOf(first);
        while (next.length === 1) {
          row.push(next[0] as number);
          next = childrenOf(next[0] as number);
        }
        return (
          <li key={first}>
            {row.map((index) => (
              <div key={index}>
                <Turn body={body} names={names} index={index} siblings={index === first ? from.length : 1} />
              </div>
            ))}
            {next.length > 0 && <Turns body={body} names={names} from={next} />}
          </li>
        );
      })}
    </ul>
  );
}

export function SequenceTree({ body, row, names }: Shown & { readonly row: Row }) {
  const roots = body.tree.flatMap(({ parent }, index) => (parent === null ? [index] : []));
  const trained = row.advantage !== null && row.advantage !== 0;
  return (
    <section class="tree" aria-label="Sequences">
      <h4>
        {names.length} sequences, {body.tree.length} turns
      </h4>
      <p class="hint">
        {trained
          ? `Each turn is trained once, in its sequence, with the rollout's advantage ${number(row.advantage as number)}; the others that share it have it as given.`
          : "No turn of it was trained: the rollout has no advantage. Each would be trained once, in its sequence."}
      </p>
      <Turns body={body} names={names} from={roots} />
    </section>
  );
}
