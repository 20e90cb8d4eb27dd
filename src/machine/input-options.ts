/** Options that name a command's input: folders, files, projects, tasks, tool servers, the Hub. Part of options.ts. */

import { declareOptions } from "../core/config/config.js";
import { TASK_SECONDS } from "../core/config/defaults.js";
import { choice, flag, inGroup, list, real, text, texts, whole, words } from "../core/config/option.js";
import { hone } from "../core/util/program.js";
import { MODEL_USERS, ofModel } from "./model-users.js";

const MANY = Number.MAX_SAFE_INTEGER;

/** Commands that read a task. */
const TASK_USERS = ["check", "rollout", "judge", "sft", "train", "eval", "chat", "play"] as const;
/** Those of them that play it. */
const PLAYING = ["check", "rollout", "train", "eval", "chat", "play"] as const;

const downloads = inGroup(
  "Downloads",
  [...MODEL_USERS, "judge", "build-db", "check", "models", "models show", "models remove", "play"],
  ofModel({
    hfEndpoint: text("Hugging Face Hub, or a mirror of it.", {
      env: "HF_ENDPOINT",
      flagless: true,
      default: "https://huggingface.co",
      accepts: "a URL",
    }),
    hfToken: text("Access token, sent to HF_ENDPOINT alone.", {
      secret: true,
      env: "HF_TOKEN",
      flagless: true,
      defaultText: "at huggingface.co the one that `hf auth login` saved; none elsewhere",
    }),
    hfOffline: flag("Use only what has been downloaded before.", {
      env: "HF_HUB_OFFLINE",
      flagless: true,
      default: false,
    }),
    hfHome: text("Folder of Hugging Face's tools.", {
      env: "HF_HOME",
      flagless: true,
      accepts: "a path",
      defaultText: "~/.cache/huggingface",
    }),
    hfCache: text("Folder for downloads from the Hub, shared with Hugging Face's tools.", {
      env: "HF_HUB_CACHE",
      flagless: true,
      accepts: "a path",
      defaultText: "hub in HF_HOME",
    }),
  }),
);

/** Access to the Hub. */
export const downloadOptions = Object.keys(downloads) as readonly (keyof typeof downloads)[];

const inputOptions = declareOptions({
  ...inGroup("Files and folders", "every", {
    home: text("Folder that holds hone's state: databases, models, runs.", {
      default: ".hone",
      first: ["demo", "build-db", "eval", "export", "pack"],
      library: ["model"],
    }),
    db: text("Mail database (in tasks: --set db).", {
      defaultText: { other: "mail.db in the home folder", "scenarios generate": "none" },
      commands: ["build-db", "scenarios", "scenarios generate", "search", "read", ...PLAYING],
      first: ["build-db", "rollout", "scenarios generate"],
    }),
    out: text("File or folder that the command writes.", {
      accepts: "a path",
      defaultText: {
        other: "rollouts/<date and time>.jsonl in the home folder",
        judge: "FILE.judged.jsonl",
        sft: "sft/<date and time> in the home folder",
        report: "a page, RUN.html",
        export: "exports/RUN-STEP-FORM in the home folder",
        pack: "hone-pack-<machine>",
        "scenarios generate": "scenarios.jsonl",
        "scenarios import": "imported",
      },
      commands: [
        "rollout",
        "judge",
        "sft",
        "eval",
        "report",
        "export",
        "pack",
        "scenarios generate",
        "scenarios import",
      ],
      first: ["rollout", "judge", "sft", "export", "pack", "scenarios generate"],
    }),
    page: text("HTML file to write the evaluation to.", {
      accepts: "a path",
      defaultText: "none",
      commands: ["eval"],
      first: ["eval"],
    }),
    into: text("Empty or new folder to unpack hone into.", {
      accepts: "a path",
      default: "hone",
      commands: ["unpack"],
    }),
    file: text(`Trajectory file, as ${hone("rollout")} writes it.`, {
      accepts: "a path",
      commands: ["judge", "sft"],
      first: ["judge", "sft"],
    }),
    program: words("Program (TypeScript or JavaScript) that uses hone as a library, and its arguments.", {
      accepts: "a path, then words",
      commands: ["exec"],
    }),
    tokens: text("File with the token ids to score, a JSON array; the result's first entry is the second id's.", {
      accepts: "a path",
      commands: ["logprobs"],
      first: ["logprobs"],
    }),
  }),
  ...inGroup("A new project", ["init"], {
    folder: text("Folder of the new project.", { accepts: "a path", default: "." }),
    package: text("What the project installs hone from: a tarball of yarn package, or @hone-rl/hone@VERSION.", {
      accepts: "a path or a version",
      defaultText: "what the folder's package.json says",
    }),
    yes: flag("Ask nothing: take the defaults.", { default: false }),
  }),
  ...inGroup("Task and scenarios", PLAYING, {
    task: text('"email", "openenv", or the path of a task file (TypeScript or JavaScript).', {
      default: "email",
      commands: TASK_USERS,
      first: ["check", "rollout", "judge", "sft", "train", "chat", "play"],
      run: "changeable",
      file: true,
    }),
    set: texts("Option of the task; may be repeated. --task TASK --help lists them.", {
      defaultText: "the task's own",
      first: ["check", "play"],
    }),
    scenarios: text(
      "Scenarios from a file (JSONL, CSV, TSV, Parquet), a folder of these, or a data set of the Hub, for tasks that use fromFile.",
      {
        accepts: "a path, or hf:OWNER/NAME",
        defaultText: "the task's own",
        commands: [...PLAYING, "scenarios review"],
        first: ["play"],
      },
    ),
    map: text("Columns of --scenarios by the task's fields: question=prompt,answer=gold,id=uuid,split=fold.", {
      accepts: "FIELD=COLUMN, several with commas",
      defaultText: "columns have the fields' names",
    }),
    testShare: real(0.001, 0.999, "Share of the scenarios that is kept for tests.", {
      defaultText: {
        other: "what a column split or the files' names say, else 0.2",
        "scenarios generate": "0.2",
        "scenarios import": "0.2",
      },
      commands: [...PLAYING, "scenarios generate", "scenarios import"],
    }),
    taskTimeout: real(
      0.1,
      86_400,
      "Seconds that the task's file, scenarios, open, close and each prompt may take without a sign of progress.",
      {
        default: TASK_SECONDS,
        commands: TASK_USERS,
        library: ["model"],
      },
    ),
    split: choice(["train", "test"], "Only scenarios of this split.", {
      defaultText: { other: "both", eval: "test" },
      commands: ["scenarios", "rollout", "eval", "rollouts", "chat", "play"],
      first: ["rollout", "eval", "play"],
    }),
    scenario: text("One scenario, by its id.", {
      commands: ["scenarios", "rollout", "rollouts", "chat", "play"],
      first: ["rollout", "chat", "play"],
    }),
    n: whole(1, MANY, "Number of scenarios, drawn by the seed.", {
      defaultText: {
        other: "all",
        check: "16; 2 for an agent's task",
        rollout: "16",
        "scenarios generate": "100",
      },
      commands: ["scenarios", "check", "rollout", "eval", "scenarios generate"],
      first: ["check", "rollout", "eval", "scenarios generate"],
    }),
    groupSize: whole(1, 1024, "Rollouts of each scenario.", {
      bySize: { tiny: 8, small: 8 },
      defaultText: (bySize) => ({ other: "4", train: bySize }),
      commands: ["rollout", "train"],
      first: ["rollout", "train"],
      run: "identity",
    }),
    seed: whole(0, MANY, "Seed of all random draws, tasks' too.", {
      default: 1,
      commands: ["build-db", "scenarios", "scenarios generate", "scenarios import", ...TASK_USERS],
      first: ["demo", "build-db", "check", "rollout", "sft", "chat", "play"],
      run: "identity",
    }),
  }),
  ...inGroup("MCP servers", ["check", "rollout", "judge", "sft", "train", "eval", "play", "scenarios generate"], {
    mcp: text(
      "File with MCP servers, in the form of Claude Desktop, Cursor or VS Code, whose tools are added to the task's (docs/mcp.md).",
      {
        accepts: "a path",
        defaultText: "the task's servers, where it has any",
        first: ["check", "play", "scenarios generate"],
        run: "changeable",
        file: true,
      },
    ),
    mcpAllow: list("Only these tools of MCP servers: NAME or SERVER/NAME, with * for any text.", {
      defaultText: "the task's; all",
      run: "identity",
    }),
    mcpDeny: list("Tools of MCP servers to leave out, written as for --mcp-allow.", {
      defaultText: "the task's; none",
      run: "identity",
    }),
  }),
  ...downloads,
});

type Own = typeof inputOptions;
declare module "../core/config/config.js" {
  interface OptionTable extends Own {}
}
