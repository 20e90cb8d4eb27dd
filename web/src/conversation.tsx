/** One rollout: its messages, calls and results, or its tokens. */
import { useEffect, useState } from "preact/hooks";
import { type CallsOfMessage, callsByMessage, failureOf } from "../../src/insight/report/calls.js";
import type { Body, BodyAnswer, Row } from "../../src/insight/view/wire.js";
import { creditedAdvantage } from "./credit.js";
import { type Run, useData } from "./data.js";
import { number, refused, seconds, visible, words } from "./format.js";
import { Plain } from "./parts.js";
import { TokenText } from "./tokens.js";
import { type NamedTurn, SequenceTree, turnNames } from "./tree.js";

type Message = Body["messages"][number];
type Call = Body["calls"][number];

/** Pretty-prints JSON; returns other text unchanged, and JSON with integers that might be rounded. */
function pretty(text: string): string {
  if (!/^\s*[[{]/.test(text) || text.length > 1_000_000 || /\d{16}/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** On one line if it fits. */
function inline(value: unknown): string {
  const line = JSON.stringify(value) ?? "";
  return line.length <= 60 ? line.replaceAll('","', '", "') : JSON.stringify(value, null, 2);
}

function Arguments({ of }: { readonly of: Readonly<Record<string, unknown>> }) {
  return (
    <dl class="arguments">
      {Object.entries(of).map(([name, value]) => (
        <div key={name}>
          <dt>{visible(name)}</dt>
          <dd>
            <Plain text={typeof value === "string" ? value : inline(value)} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** A call that a message has, and what hone says of it if it did not run. */
function CallShown({ name, args, record }: { readonly name: string; readonly args: object; readonly record?: Call }) {
  const failure = record && failureOf(record);
  return (
    <div class={failure === undefined ? "call" : "call failed"}>
      <h5>
        → <code>{visible(name)}</code>{" "}
        {record && failure !== undefined && <span class="outcome">{refused(record.outcome)}</span>}
      </h5>
      <Arguments of={args as Record<string, unknown>} />
      {failure && <p class="why">{visible(failure)}</p>}
    </div>
  );
}

function Assistant({
  message,
  calls,
  turn,
  cut,
}: {
  readonly message: Extract<Message, { role: "assistant" }>;
  readonly calls: readonly Call[];
  /** The limit that ended the rollout at this turn. */
  readonly cut: string | undefined;
  /** The turn's name in the tree; or its number in a single sequence. */
  readonly turn: number | NamedTurn | "given";
}) {
  const [, thoughts, said] = message.content.match(/^\s*<think>([\s\S]*?)<\/think>\s*([\s\S]*)$/) ?? [
    undefined,
    undefined,
    message.content,
  ];
  const malformed = calls.filter(({ outcome }) => outcome === "malformed");
  const read = calls.filter(({ outcome }) => outcome !== "malformed");
  return (
    <div class="message assistant" id={typeof turn === "object" ? turn.id : undefined}>
      <h4>
        {turn === "given"
          ? "assistant, given here"
          : `assistant, turn ${typeof turn === "object" ? turn.number : turn}`}
        {cut && <span class="end other">{cut}</span>}
      </h4>
      {thoughts?.trim() && (
        <details>
          <summary>thoughts, {thoughts.length.toLocaleString("en-US")} characters</summary>
          <Plain text={thoughts} />
        </details>
      )}
      {said?.trim() && <Plain text={said} />}
      {message.tool_calls?.map((call, i) => (
        // Calls of one turn have no unique names.
        <CallShown key={i} name={call.name} args={call.arguments} {...(read[i] ? { record: read[i] } : {})} />
      ))}
      {malformed.map((record, i) => (
        <CallShown key={i} name="a call" args={{}} record={record} />
      ))}
    </div>
  );
}

function Result({
  message,
  call,
}: {
  readonly message: Extract<Message, { role: "tool" }>;
  readonly call: Call | undefined;
}) {
  const failed = call !== undefined && call.outcome !== "ok";
  return (
    <details class={failed ? "message tool failed" : "message tool"} open={failed || message.content.length < 1500}>
      <summary>
        ← <code>{visible(message.name || call?.name || "no tool")}</code>{" "}
        {failed && <span class="outcome">{refused(call.outcome)}</span>}{" "}
        <small>{message.content.length.toLocaleString("en-US")} characters</small>
      </summary>
      <Plain text={pretty(message.content)} limit={1500} />
    </details>
  );
}

/** The call that a tool message answers: by its id, or else by its place among the results of the turn. */
function answered(
  message: Extract<Message, { role: "tool" }>,
  turn: { readonly message: Extract<Message, { role: "assistant" }>; readonly calls: readonly Call[] } | undefined,
  place: number,
): Call | undefined {
  const { tool_calls: written = [] } = turn?.message ?? {};
  const at = message.id === undefined ? -1 : written.findIndex(({ id }) => id === message.id);
  const read = turn?.calls.filter(({ outcome }) => outcome !== "malformed");
  return at >= 0 ? read?.[at] : turn?.calls[place];
}

export function Messages({
  messages,
  calls,
  names,
  cut,
}: {
  readonly messages: Body["messages"];
  readonly calls: CallsOfMessage | undefined;
  /** What its last turn is marked with. */
  readonly cut?: string | undefined;
  /** Turns that the sequence trains, by their messages; in a tree of several. */
  readonly names?: ReadonlyMap<number, NamedTurn> | undefined;
}) {
  let turn = 0;
  let results = 0;
  let last: Parameters<typeof answered>[1];
  const ending = messages.findLastIndex(({ role }) => role === "assistant");
  return (
    <div class="messages">
      {messages.map((message, i) => {
        const key = `${i} ${message.role}`;
        if (message.role === "assistant") {
          turn++;
          results = 0;
          last = { message, calls: calls?.get(i) ?? [] };
          const name = names ? (names.get(i) ?? "given") : turn;
          return <Assistant key={key} {...last} turn={name} cut={i === ending ? cut : undefined} />;
        }
        if (message.role === "tool")
          return <Result key={key} message={message} call={answered(message, last, results++)} />;
        const long = message.role === "system" || message.content.length > 1500;
        return (
          <details key={key} class={`message ${message.role}`} open={!long}>
            <summary>{message.role}</summary>
            <Plain text={message.content} />
          </details>
        );
      })}
    </div>
  );
}

/** undefined while it is fetched, null if the file does not contain it. */
export function useBody(run: number, id: number | undefined): BodyAnswer | null | undefined | Error {
  const { source } = useData();
  const [answer, set] = useState<{ id: number | undefined; value: BodyAnswer | null | Error | undefined }>({
    id: undefined,
    value: undefined,
  });
  useEffect(() => {
    if (id === undefined) return;
    let current = true;
    source.rollout(run, id).then(
      (value) => current && set({ id, value }),
      (error: unknown) => current && set({ id, value: error instanceof Error ? error : new Error(String(error)) }),
    );
    return () => {
      current = false;
    };
  }, [source, run, id]);
  return answer.id === id ? answer.value : undefined;
}

/** Which limit ended a rollout at its last turn. */
function cutText(end: string, options: Run["view"]["options"], { maxTurns }: Body): string | undefined {
  if (end === "token_limit") return `cut at ${number(Number(options.maxTokens))} tokens`;
  if (end === "context_limit") return `cut at the context's ${number(Number(options.context))} tokens`;
  if (end === "turn_limit") return `the last of ${maxTurns} turns`;
  return end === "deadline" ? "out of time" : undefined;
}

/** A rollout in its own column. */
export function Conversation({ run, row }: { readonly run: Run; readonly row: Row }) {
  const { source } = useData();
  const answer = useBody(run.view.id, row.id);
  const [tokens, setTokens] = useState(false);
  if (answer === undefined) return <p class="nothing">opening …</p>;
  if (answer instanceof Error) return <p class="banner">This rollout could not be opened: {answer.message}</p>;
  if (answer === null) {
    return (
      <p class="banner">
        {source.about
          ? "This rollout is not among those that the file has. The live page has all of them: "
          : "This rollout is not in the run any more. "}
        {source.about && <code>hone view {run.view.name}</code>}
      </p>
    );
  }
  const { body, pieces } = answer;
  const parts = Object.entries(body.reward.parts);
  const names = turnNames(body, row.id);
  const cut = cutText(row.end, run.view.options, body);
  // The sequence of the turn that came last.
  const lastSequence = body.tree.at(-1)?.sequence ?? 0;
  const calls = callsByMessage({ ...body, turns: row.turns });
  return (
    <>
      {body.explanation !== null && (
        <blockquote class="judge">
          <b>judge</b> <Plain text={body.explanation} />
        </blockquote>
      )}
      {parts.length > 0 && (
        <p class="reward-parts">
          {parts.map(([name, value]) => (
            <span key={name}>
              {visible(words(name))} <b>{number(value)}</b>
            </span>
          ))}
        </p>
      )}
      {body.tree.length > 0 && <SequenceTree body={body} row={row} names={names} />}
      {body.tokens && (
        <div class="switch" role="group" aria-label="Show">
          <button type="button" aria-pressed={!tokens} onClick={() => setTokens(false)}>
            messages
          </button>
          <button type="button" aria-pressed={tokens} onClick={() => setTokens(true)}>
            tokens
          </button>
        </div>
      )}
      {tokens && body.tokens ? (
        <TokenText tokens={body.tokens} pieces={pieces} advantage={creditedAdvantage(row, run.view)} />
      ) : (
        <Messages
          messages={body.messages}
          calls={calls[0]}
          names={names[0]}
          cut={lastSequence === 0 ? cut : undefined}
        />
      )}
      {body.branches.map((branch, i) => (
        <section key={`sequence ${i + 2}`}>
          <h4>sequence {i + 2}</h4>
          {tokens ? (
            <TokenText tokens={branch.tokens} pieces={pieces} advantage={creditedAdvantage(row, run.view)} />
          ) : (
            <Messages
              messages={branch.messages}
              calls={calls[i + 1]}
              names={names[i + 1]}
              cut={lastSequence === i + 1 ? cut : undefined}
            />
          )}
        </section>
      ))}
      {body.base && (
        <p class="ending">
          not trained: {body.base.calls === 1 ? "1 turn" : `${number(body.base.calls)} turns`} of the frozen base, which
          read {number(body.base.promptTokens)} tokens and wrote {number(body.base.tokens)}
        </p>
      )}
      {body.output !== "" && (
        <details class="message tool">
          <summary>the agent's output</summary>
          <Plain text={body.output} />
        </details>
      )}
      <p class="ending">
        {words(row.end)}
        {body.reason ? `: ${visible(body.reason)}` : ""}
        {body.deadline ? ` (${words(body.deadline)})` : ""} after {row.turns} of {body.maxTurns} turns,{" "}
        {number(row.tokens)} tokens, {seconds(body.seconds.total)} ({seconds(body.seconds.tools)} in tools), seed{" "}
        {body.seed}
      </p>
    </>
  );
}
