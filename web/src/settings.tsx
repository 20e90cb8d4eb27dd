/** The configuration of each run, and the differences between runs. */
import { useState } from "preact/hooks";
import { useData } from "./data.js";
import { visible } from "./format.js";

const shown = (value: unknown): string => {
  if (value === undefined || value === null) return "–";
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};

const flag = (name: string) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

export function Settings() {
  const { runs } = useData();
  const readable = runs.filter(({ view }) => view.problem === null);
  const [all, setAll] = useState(readable.length < 2);
  const table = (title: string, rows: readonly (readonly [string, readonly string[]])[]) => {
    const kept = rows
      .map(([name, values]) => ({ name, values, differs: values.some((value) => value !== values[0]) }))
      .filter(({ differs }) => all || differs);
    return (
      <section key={title}>
        <h2>{title}</h2>
        {kept.length === 0 ? (
          <p class="nothing">{all ? "none" : "no difference"}</p>
        ) : (
          <div class="scroll">
            <table class="settings">
              <thead>
                <tr>
                  <td />
                  {readable.map(({ view }) => (
                    <th key={view.id}>{view.name}</th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {kept.map(({ name, values, differs }) => (
                  <tr key={name} class={differs ? "differs" : ""}>
                    <th>{visible(name)}</th>
                    {values.map((value, i) => (
                      <td key={readable[i]?.view.id}>{visible(value)}</td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
    );
  };
  const names = (of: (run: (typeof readable)[number]) => object) =>
    [...new Set(readable.flatMap((run) => Object.keys(of(run))))].sort();
  const options = names(({ view }) => view.options);
  const isGiven = (name: string) => readable.some(({ view }) => view.given[name] !== undefined);
  const sections = [
    ["Options that are not the defaults", options.filter(isGiven)],
    ["Options with their defaults", options.filter((name) => !isGiven(name))],
  ] as const;
  const facts = (part: string) =>
    readable.map(
      ({ view }) =>
        view.devices
          .filter((one) => one.part === part)
          .map(({ part: _, seen: __, ...about }) =>
            Object.entries(about)
              .filter(([, value]) => value !== null)
              .map(([name, value]) => `${name} ${shown(value)}`)
              .join(", "),
          )
          .join("; ") || "–",
    );
  return (
    <>
      {readable.length > 1 && (
        <div class="switch" role="group" aria-label="Show">
          <button type="button" aria-pressed={!all} onClick={() => setAll(false)}>
            what differs
          </button>
          <button type="button" aria-pressed={all} onClick={() => setAll(true)}>
            everything
          </button>
        </div>
      )}
      {sections.map(([title, some]) =>
        table(
          title,
          some.map((name) => [flag(name), readable.map(({ view }) => shown(view.options[name]))] as const),
        ),
      )}
      {table("What computed", [
        ["engine", facts("engine")],
        ["learner", facts("learner")],
      ])}
      {table(
        "Contents",
        names(({ view }) => view.contents).map(
          (name) => [name, readable.map(({ view }) => shown(view.contents[name]))] as const,
        ),
      )}
      {table("Run", [
        ["folder", readable.map(({ view }) => view.folder)],
        ["begun", readable.map(({ view }) => view.created)],
        [
          "checkpoints",
          readable.map(
            ({ view }) =>
              view.checkpoints
                .map(({ step, damage }) => (damage === null ? String(step) : `${step} (damaged)`))
                .join(", ") || "–",
          ),
        ],
      ])}
    </>
  );
}
