/** The page on which a person looks scenarios over: keep, drop, edit. Every decision is written at once. */
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Decision } from "../../src/insight/view/review-server.js";
import type { ScenarioFile, ScenarioRow } from "../../src/scenarios/file.js";
import { visible, words } from "./format.js";
import "./review.css";
import { THEME_HINT, useTheme } from "./theme.js";

/** Scenarios rendered at a time. */
const FIRST = 50;

const API = "/api/scenarios";

async function ask<T>(init?: RequestInit): Promise<T> {
  const response = await fetch(API, init);
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as T;
}

const send = (decision: Decision) =>
  ask<ScenarioRow>({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(decision) });

const stateOf = ({ dropped, reviewed }: ScenarioRow) =>
  dropped !== undefined ? "dropped" : reviewed === undefined ? "undecided" : "kept";

const FILTERS = ["undecided", "kept", "dropped", "all"] as const;
type Filter = (typeof FILTERS)[number];

interface Deciding {
  readonly decide: (decision: Decision) => void;
}

function Editor({ row, decide, done }: Deciding & { readonly row: ScenarioRow; readonly done: () => void }) {
  const [question, setQuestion] = useState(row.question);
  const [answer, setAnswer] = useState(row.answer);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        decide({ action: "edit", id: row.id, question, answer });
        done();
      }}
    >
      <label>
        Question
        <textarea
          name="question"
          rows={2}
          required
          value={question}
          onInput={(e) => setQuestion(e.currentTarget.value)}
        />
      </label>
      <label>
        Answer
        <textarea name="answer" rows={1} required value={answer} onInput={(e) => setAnswer(e.currentTarget.value)} />
      </label>
      <button type="submit" class="keep">
        Save and keep
      </button>
      <button type="button" onClick={done}>
        Leave as it was
      </button>
    </form>
  );
}

/** Where it comes from, in a line. */
function Origin({ row }: { readonly row: ScenarioRow }) {
  const { evidence, provenance, inbox_address: inbox, query_date: day } = row;
  const made = (provenance ?? {}) as Readonly<Record<string, unknown>>;
  const facts = [
    Array.isArray(evidence) ? evidence.join(", ") : undefined,
    typeof made.title === "string" && !String(evidence).includes(made.title) ? made.title : undefined,
    typeof inbox === "string" ? `asked by ${inbox} on ${day}` : undefined,
    typeof made.agreed === "string" && made.agreed !== "0 of 0" ? `${made.agreed} second looks agreed` : undefined,
    typeof made.written_by === "string" ? `written by ${made.written_by}` : undefined,
  ].filter(Boolean);
  return <p class="origin">{visible(facts.join(" · "))}</p>;
}

function Scenario({ row, decide }: Deciding & { readonly row: ScenarioRow }) {
  const [editing, setEditing] = useState(false);
  const state = stateOf(row);
  const onKey = (event: KeyboardEvent) => {
    if (editing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target !== event.currentTarget) return;
    const action = { k: "keep", d: "drop" } as const;
    const what = action[event.key as keyof typeof action];
    if (what) decide({ action: what, id: row.id });
    else if (event.key === "e") setEditing(true);
    else return;
    event.preventDefault();
  };
  return (
    <article class={`scenario ${state}`} tabIndex={0} aria-label={row.question} onKeyDown={onKey}>
      <p class="marks">
        <b class={row.split}>{row.split}</b>
        <span class="state">
          {state === "dropped" ? `dropped: ${words(row.dropped ?? "")}` : (row.reviewed ?? "not looked at")}
        </span>
      </p>
      {editing ? (
        <Editor row={row} decide={decide} done={() => setEditing(false)} />
      ) : (
        <>
          <h2>{visible(row.question)}</h2>
          <p class="answer">{visible(row.answer)}</p>
          {typeof row.quote === "string" && <blockquote>{visible(row.quote)}</blockquote>}
          <Origin row={row} />
          <p class="actions">
            <button type="button" class="keep" onClick={() => decide({ action: "keep", id: row.id })}>
              Keep
            </button>
            <button
              type="button"
              class="drop"
              disabled={state === "dropped"}
              onClick={() => decide({ action: "drop", id: row.id })}
            >
              Drop
            </button>
            <button type="button" onClick={() => setEditing(true)}>
              Edit
            </button>
          </p>
        </>
      )}
    </article>
  );
}

export function Review({ file }: { readonly file: string }) {
  const { theme, next } = useTheme();
  const [rows, setRows] = useState<readonly ScenarioRow[]>();
  const [failure, setFailure] = useState<string>();
  const [filter, setFilter] = useState<Filter>("undecided");
  const [reason, setReason] = useState("");
  const [text, setText] = useState("");
  const [shown, setShown] = useState(FIRST);
  /** Those decided since the filter was chosen: they stay where they are. */
  const [fresh, setFresh] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    ask<ScenarioFile>().then(
      ({ kept, dropped }) => setRows([...kept, ...dropped]),
      (error: Error) => setFailure(error.message),
    );
  }, []);
  const decide = (decision: Decision) => {
    send(decision).then(
      (row) => {
        setFailure(undefined);
        setFresh((before) => new Set(before).add(row.id));
        setRows((before) => before?.map((one) => (one.id === row.id ? row : one)));
      },
      (error: Error) => setFailure(`not written: ${error.message}`),
    );
  };
  const choose = (to: Filter) => {
    setFilter(to);
    setReason("");
    setFresh(new Set());
    setShown(FIRST);
  };
  const count = (state: Filter) => (rows ?? []).filter((row) => state === "all" || stateOf(row) === state).length;
  const reasons = [...new Set((rows ?? []).flatMap(({ dropped }) => dropped ?? []))].sort();
  const found = useMemo(() => {
    const wanted = text.toLowerCase();
    return (rows ?? []).filter(
      (row) =>
        (filter === "all" || stateOf(row) === filter || fresh.has(row.id)) &&
        (reason === "" || row.dropped === reason || fresh.has(row.id)) &&
        (wanted === "" || `${row.question} ${row.answer} ${row.quote ?? ""}`.toLowerCase().includes(wanted)),
    );
  }, [rows, filter, reason, text, fresh]);
  return (
    <>
      <header class="head">
        <h1>
          hone <span>{file.split(/[/\\]/).at(-1)}</span>
        </h1>
        <nav aria-label="Which scenarios">
          {FILTERS.map((name) => (
            <button type="button" key={name} aria-pressed={filter === name} onClick={() => choose(name)}>
              {name} {count(name)}
            </button>
          ))}
        </nav>
        <button type="button" class="theme" onClick={next} title={THEME_HINT}>
          {theme}
        </button>
      </header>
      <main class="review">
        {failure !== undefined && <p class="banner">{failure}</p>}
        {rows === undefined && failure === undefined && <p class="nothing">opening …</p>}
        <p class="filters">
          <input
            type="search"
            name="text"
            placeholder="words of question, answer or quote"
            aria-label="words of question, answer or quote"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          {filter === "dropped" && (
            <select aria-label="reason" value={reason} onChange={(event) => setReason(event.currentTarget.value)}>
              <option value="">all reasons</option>
              {reasons.map((one) => (
                <option key={one} value={one}>
                  {words(one)}
                </option>
              ))}
            </select>
          )}
        </p>
        {rows !== undefined && found.length === 0 && <p class="nothing">none</p>}
        {found.slice(0, shown).map((row) => (
          <Scenario key={row.id} row={row} decide={decide} />
        ))}
        {found.length > shown && (
          <button type="button" class="more" onClick={() => setShown(shown + FIRST)}>
            {found.length - shown} more
          </button>
        )}
      </main>
      <footer>keys on a scenario: k keep, d drop, e edit; Tab to the next</footer>
    </>
  );
}
