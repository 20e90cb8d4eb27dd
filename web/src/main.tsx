/** The page: header, views, keyboard shortcuts. */
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { DataContext, useSource } from "./data.js";
import { Evaluation } from "./evaluation.js";
import type { Source } from "./follow.js";
import { Compare, Group } from "./group.js";
import { Overview } from "./overview.js";
import { Review } from "./review.js";
import { Rollouts } from "./rollouts.js";
import { go, link, useRoute } from "./route.js";
import { Settings } from "./settings.js";
import { embeddedEvaluation, embeddedReview, openSource } from "./source.js";
import { Steps } from "./steps.js";
import { THEME_HINT, useTheme } from "./theme.js";

const TABS = [
  ["overview", "Overview"],
  ["steps", "What goes wrong"],
  ["rollouts", "Rollouts"],
  ["settings", "Settings"],
] as const;

const inField = (target: EventTarget | null) =>
  target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName);

function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || inField(event.target)) return;
  const tab = TABS[Number(event.key) - 1];
  if (tab) go(tab[0]);
  const beside = { "[": "prev", "]": "next" }[event.key];
  if (beside) document.querySelector<HTMLAnchorElement>(`a[rel=${beside}]`)?.click();
  if (event.key === "/") {
    const field = document.querySelector<HTMLInputElement>("input[name=text]");
    if (field) {
      field.focus();
      event.preventDefault();
    } else go("rollouts");
  }
}

function App({ source }: { readonly source: Source }) {
  const data = useSource(source);
  const { page, params } = useRoute();
  const { theme, drawn, next } = useTheme();
  useEffect(() => {
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  const query = params.toString();
  useEffect(() => scrollTo(0, 0), [page, params.get("step"), params.get("scenario")]);
  const active = page === "group" || page === "compare" ? "rollouts" : page;
  const embedded = source.about
    ? `report of ${source.about.made.slice(0, 16).replace("T", " ")} UTC`
    : data.lost
      ? "the program was ended; this is the last it said"
      : "live";
  return (
    <DataContext.Provider value={data}>
      <header class="head">
        <h1>
          hone <span>{data.runs.map(({ view }) => view.name).join(", ")}</span>
        </h1>
        <nav aria-label="Views">
          {TABS.map(([name, title], i) => (
            <a
              key={name}
              href={link(name, { run: params.get("run") })}
              aria-current={active === name ? "page" : undefined}
              title={`key ${i + 1}`}
            >
              {title}
            </a>
          ))}
        </nav>
        <span class={data.lost ? "about lost" : "about"}>{embedded}</span>
        <button type="button" class="theme" onClick={next} title={THEME_HINT}>
          {theme}
        </button>
      </header>
      <main data-query={query}>
        {data.failure !== null && <p class="banner">{data.failure}</p>}
        {data.runs.map(
          ({ view, failure }) =>
            failure !== null && (
              <p key={view.id} class="banner">
                Not all rollouts of {view.name} could be read: {failure}
              </p>
            ),
        )}
        {data.failure === null && data.runs.length === 0 && <p class="nothing">opening …</p>}
        {data.runs.length > 0 &&
          (page === "steps" ? (
            <Steps params={params} />
          ) : page === "rollouts" ? (
            <Rollouts params={params} />
          ) : page === "group" ? (
            <Group params={params} />
          ) : page === "compare" ? (
            <Compare params={params} />
          ) : page === "settings" ? (
            <Settings />
          ) : (
            <Overview theme={drawn} />
          ))}
      </main>
      <footer>keys: 1 to 4 views, / search, ↑ ↓ Enter rollouts, [ ] beside, ← → in a chart</footer>
    </DataContext.Provider>
  );
}

const root = document.getElementById("app");
const evaluation = embeddedEvaluation();
const review = embeddedReview();
const page = evaluation ? (
  <Evaluation matrix={evaluation} />
) : review ? (
  <Review file={review.file} />
) : (
  <App source={openSource()} />
);
if (root) render(page, root);
