/**
 * Every option of hone itself, defined once: its meaning, accepted values, default and environment variable. Tasks with
 * commands define their own (`ownOptions`).
 */
import { hone } from "../util/index.js";
import { bySizeText, CONTEXT, presetNames, ROLLOUTS_AT_ONCE } from "./defaults.js";
import { objectiveOptions } from "./objective-options.js";
import { choice, flag, inGroup, list, type Option, pairs, real, shares, text, texts, whole, words } from "./option.js";

const MANY = Number.MAX_SAFE_INTEGER;
/** Maximum number of sequences that llama.cpp evaluates at once in one context. */
export const MOST_SEQUENCES = 256;
/** Of a server's key, see `keyFor`. */
const OPENAI_KEY = "OPENAI_API_KEY at https://api.openai.com and its regional hosts; none elsewhere";

export const definitions = {
  ...inGroup("Files and folders", {
    home: text("Folder that holds hone's state: databases, models, runs.", { default: ".hone" }),
    db: text("Mail database (in tasks: --set db).", {
      defaultText: "mail.db in the home folder",
    }),
    out: text("File to write: trajectories, one JSON line each.", {
      accepts: "a path",
      defaultText:
        "rollouts/<date and time>.jsonl in the home folder; judge: FILE.judged.jsonl; report: a page, RUN.html",
    }),
    page: text("Page to write: the evaluation as one HTML file that opens from disk.", {
      accepts: "a path",
      defaultText: "none",
    }),
    into: text("Folder for the result of the training; created if missing.", {
      accepts: "a path",
      defaultText: "sft/<date and time> in the home folder",
    }),
    file: text(`Trajectory file, as ${hone("rollout")} writes it.`, { accepts: "a path" }),
    program: words("Program (TypeScript or JavaScript) that uses hone as a library, and its arguments.", {
      accepts: "a path, then words",
    }),
    tokens: text(
      "File with the token ids to score: a JSON array. The first entry of the result belongs to the second id.",
      {
        accepts: "a path",
      },
    ),
  }),
  ...inGroup("A new project", {
    folder: text("Folder of the new project; made when it is not there.", { accepts: "a path", default: "." }),
    package: text("What the project installs hone from: the tarball that npm pack makes, or @hone-rl/hone@VERSION.", {
      accepts: "a path or a version",
      defaultText: "what the folder's package.json says",
    }),
    yes: flag("Ask nothing: take the defaults for what is not given.", { default: false }),
  }),
  ...inGroup("Task and scenarios", {
    task: text('The task: "email", or the path of a task file (TypeScript or JavaScript).', {
      default: "email",
    }),
    set: texts(
      "Option of the task as NAME=VALUE; may be given several times. --task TASK --help lists a task's options.",
      { defaultText: "the task's own" },
    ),
    scenarios: text(
      "Scenarios from a file (JSONL, CSV, TSV, Parquet), a folder of such files, or a data set of the Hub as hf:OWNER/NAME; for tasks that read theirs with fromFile.",
      { accepts: "a path, or hf:OWNER/NAME", defaultText: "the task's own" },
    ),
    map: text("Columns of --scenarios by the task's fields: question=prompt,answer=gold,id=uuid,split=fold.", {
      accepts: "FIELD=COLUMN, several with commas",
      defaultText: "columns have the fields' names",
    }),
    testShare: real(0.001, 0.999, "Share of --scenarios that is kept for tests, drawn by the seed.", {
      defaultText: "what a column split or the files' names say, else 0.2",
    }),
    split: choice(["train", "test"], "Only scenarios of this split.", { defaultText: "both" }),
    scenario: text("One scenario, by its id."),
    n: whole(1, MANY, "Number of scenarios, drawn by the seed.", { defaultText: "all, or the command's own" }),
    group: whole(1, 1024, "Rollouts of each scenario.", { defaultText: `4; in training ${bySizeText("group")}` }),
    seed: whole(0, MANY, "Seed of all random draws, tasks' too.", { default: 1 }),
    rank: choice(
      ["date", "bm25"],
      "Short for --set rank, of the email task. date: all keywords must occur, newest first (ART-E). bm25: any may, best match first.",
      { defaultText: "date" },
    ),
  }),
  ...inGroup("Tool servers", {
    mcp: text(
      "File with MCP servers, in the form that Claude Desktop, Cursor and VS Code read; the model has their tools beside the task's own. docs/mcp.md has an example.",
      { accepts: "a path", defaultText: "the task's servers, where it has any" },
    ),
    mcpScope: choice(
      ["rollout", "worker"],
      "Who has a server for itself. rollout: nothing of one rollout reaches another. worker: all rollouts of a thread share it; for servers that keep nothing.",
      { defaultText: "the task's; rollout" },
    ),
    mcpAllow: list("Tools of MCP servers to have alone: NAME or SERVER/NAME, with * for any text.", {
      defaultText: "the task's; all",
    }),
    mcpDeny: list("Tools of MCP servers to leave out, written as for --mcp-allow.", {
      defaultText: "the task's; none",
    }),
    mcpResultChars: whole(
      1,
      1_000_000,
      "Characters of one MCP server's result that the model reads; what is cut off is said.",
      {
        defaultText: "the task's; 8000",
      },
    ),
    mcpStartTimeout: real(0.1, 86_400, "Seconds until an MCP server must have answered after its start.", {
      default: 30,
    }),
  }),
  ...inGroup("Downloads", {
    hfEndpoint: text("Hugging Face Hub, or a mirror of it.", {
      env: "HF_ENDPOINT",
      default: "https://huggingface.co",
      accepts: "a URL",
    }),
    hfToken: text("Access token for the Hub. It is sent to --hf-endpoint alone.", {
      env: "HF_TOKEN",
      defaultText: "at huggingface.co the one that `hf auth login` saved; none elsewhere",
    }),
    hfOffline: flag("Use only what has been downloaded before.", { env: "HF_HUB_OFFLINE", default: false }),
    hfHome: text("Folder of Hugging Face's tools.", {
      env: "HF_HOME",
      accepts: "a path",
      defaultText: "~/.cache/huggingface",
    }),
    hfCache: text("Folder for downloads from the Hub, shared with Hugging Face's tools.", {
      env: "HF_HUB_CACHE",
      accepts: "a path",
      defaultText: "hub in HF_HOME",
    }),
  }),
  ...inGroup("Model and player", {
    model: text(
      `Model: a name of \`${hone("models")}\`, a Hub repository, hf:REPOSITORY:FILE.gguf, a folder or file.`,
      {
        accepts: "a name or a path",
      },
    ),
    weights: choice(["f16", "bf16", "q8_0"], "Weight type when safetensors are converted to GGUF.", {
      defaultText: "f16",
    }),
    adapter: text("LoRA adapter for the model: a GGUF file, or a folder in PEFT's format.", {
      accepts: "a path",
      defaultText: "none",
    }),
    checkpoint: list("Checkpoint of a run: latest, best, base, or a number; eval takes several, and RUN@best.", {
      defaultText: "none; eval: latest; export: best; serve, chat: best",
    }),
    versus: list(
      "Other players to evaluate on the same scenarios: models, as --model names them; MODEL@URL, a model behind an OpenAI-compatible API; expert. NAME=... names the column.",
      { defaultText: "none" },
    ),
    prices: text(
      'Price table of players, by name: JSON, dollars per million tokens, {"NAME": {"prompt": 1.1, "completion": 4.4}}. It overrides the built-in list prices of APIs.',
      { accepts: "a path" },
    ),
    fresh: flag("Leave out the test scenarios of the run's own validations, by which its best checkpoint was chosen.", {
      default: false,
    }),
    gpu: choice(
      ["auto", "cuda", "vulkan", "metal", "off"],
      "Device of engine and learner. auto: the best available; an NVIDIA GPU that cannot be used is an error.",
      { default: "auto" },
    ),
    device: text(
      "The one GPU to use: its index in nvidia-smi, or its UUID or the beginning of it. Without an NVIDIA GPU, and with --gpu vulkan, its index in Vulkan.",
      { accepts: "an index or a UUID", defaultText: "the first visible one (CUDA_VISIBLE_DEVICES)" },
    ),
    threads: whole(
      1,
      1024,
      "CPU threads of the engine. A given number is fixed; the default yields to other programs.",
      {
        defaultText: "the free cores",
      },
    ),
    context: whole(16, MANY, "Tokens of a conversation at most, including the prompt.", {
      defaultText: `${CONTEXT}, or the model's trained context if that is less`,
    }),
    agentUrl: text("Let a model behind this OpenAI-compatible API play instead, through its own tool calls.", {
      accepts: "a URL",
    }),
    agentModel: text("The model's name at --agent-url."),
    agentKey: text("Key for --agent-url, or for the server of --versus.", { defaultText: OPENAI_KEY }),
    expert: flag("Let the task's scripted expert play instead of a model.", { default: false }),
    mistakes: real(0, 1, "Share of rollouts in which the scripted expert makes a mistake.", { default: 0 }),
  }),
  ...inGroup("Rollouts and sampling", {
    concurrency: whole(1, MOST_SEQUENCES, "Number of concurrent rollouts.", {
      defaultText: `${ROLLOUTS_AT_ONCE.cpu}; in training at most ${ROLLOUTS_AT_ONCE.gpu} on a GPU, fewer where memory is short`,
    }),
    workers: whole(1, 256, "Threads that run the JavaScript of rollouts.", {
      defaultText: "one less than the cores, at most 4",
    }),
    maxTurns: whole(1, 1000, "Assistant turns of a rollout at most.", { default: 10 }),
    maxTokens: whole(1, MANY, "Tokens of a turn at most.", {
      defaultText: `2048; of APIs the server's own; in training ${bySizeText("maxTokens")}`,
    }),
    temperature: real(0, 10, "Sampling temperature; 0 takes the most likely token.", {
      defaultText: "1; of APIs the server's own",
    }),
    topK: whole(0, MANY, "Sample from the k most likely tokens only; 0 is off.", { default: 0 }),
    topP: real(0, 1, "Sample from the most likely tokens with this share of the probability; 1 is off.", {
      default: 1,
    }),
    minP: real(0, 1, "Drop tokens less likely than this share of the most likely one; 0 is off.", { default: 0 }),
    toolFormat: choice(
      ["auto", "hermes", "llama3", "mistral"],
      "Format of the model's tool calls; auto is that of its chat template. See docs/tool-formats.md.",
      { default: "auto" },
    ),
    templateArg: pairs(
      "Variable of the model's chat template, such as enable_thinking=false; may be given several times.",
      { defaultText: "none" },
    ),
    maxThinkingTokens: whole(
      1,
      MANY,
      "Tokens of a turn that may be thoughts (<think>); longer thoughts are closed by tokens that are not sampled.",
      { defaultText: "only --max-tokens" },
    ),
    onToolError: choice(
      ["observe", "stop"],
      "Effect of a malformed call, an unknown tool or wrong arguments. observe: the model reads a short error and continues. stop: the rollout ends (as in ART).",
      { default: "observe" },
    ),
    turnTimeout: real(0.1, 86_400, "Seconds one turn of the model may take.", { default: 120 }),
    toolTimeout: real(0.1, 86_400, "Seconds one tool call may take.", { default: 30 }),
    rolloutTimeout: real(0.1, 86_400, "Seconds one rollout may take.", { default: 600 }),
    maxExceptions: real(0, MANY, "Number of failed rollouts to tolerate; below 1 a share of all.", { default: 0 }),
  }),
  ...inGroup("Runs and training", {
    project: text("Folder of runs in the home folder.", { defaultText: "the task's name; eval: any" }),
    run: text("Name of the run; rollouts and metrics also take PROJECT/NAME or a folder.", {
      defaultText: "the model's name; eval: the newest run",
    }),
    steps: whole(1, MANY, "Total number of steps. A larger number than before continues a finished run.", {
      defaultText: bySizeText("steps"),
    }),
    groups: whole(1, MANY, "Scenarios in a step.", { defaultText: bySizeText("groups") }),
    difficulty: shares(
      "Train only on scenarios of which this share of rollouts succeeds with the model that the run starts from. They are played first; what lies outside is set aside.",
      { defaultText: "all scenarios" },
    ),
    difficultyRollouts: whole(2, 1024, "Rollouts of each scenario for --difficulty.", { defaultText: "--group" }),
    preset: choice(
      presetNames,
      "Settings of a known experiment; other given options override them. art-e: OpenPipe's email agent with its graded reward (--reward shaped). art-notebook: its notebook, with RULER (--reward ruler). Both need a judge.",
      { defaultText: "none" },
    ),
    fork: text("Start the run from this checkpoint of another run.", { accepts: "a checkpoint folder" }),
    initAdapter: text(
      "Start the run from this LoRA adapter in PEFT's format, trained by any program (ART's checkpoints, for example).",
      {
        accepts: "a folder",
      },
    ),
    learningRate: real(0, 1, "Learning rate after the warm-up.", { defaultText: bySizeText("learningRate") }),
    finalLearningRate: real(0, 1, "Learning rate of the last step; in between it falls linearly.", {
      defaultText: `${bySizeText("finalLearningRate")}; --learning-rate where that is given`,
    }),
    warmup: whole(0, MANY, "Steps over which the learning rate rises.", { defaultText: bySizeText("warmup") }),
    maxGradNorm: real(0, 1e6, "Gradients with a larger norm are scaled down to it.", {
      defaultText: bySizeText("maxGradNorm"),
    }),
    control: choice(
      ["none", "random-reward"],
      "Experiments that must not learn. random-reward: fair coins in place of rewards. (Another: --learning-rate 0.)",
      { default: "none" },
    ),
    validateEvery: whole(
      0,
      MANY,
      "Steps between two validations on test scenarios; 0: only at the start and the end.",
      {
        defaultText: bySizeText("validateEvery"),
      },
    ),
    validateN: whole(1, MANY, "Test scenarios in a validation, always the same ones.", {
      defaultText: bySizeText("validateN"),
    }),
    track: list(
      "Trackers that show the run too: tensorboard, wandb. Their packages are installed at their first use; wandb stays offline without WANDB_MODE or a key.",
      { defaultText: "none" },
    ),
    keep: whole(1, MANY, "Number of newest checkpoints to keep, besides the best.", { default: 1 }),
  }),
  ...inGroup("Looking at runs", {
    runs: list("Runs to show: names, PROJECT/NAME, or folders.", { defaultText: "the newest run" }),
    port: whole(0, 65_535, "Port of the page or the API on 127.0.0.1; 0 means any free port.", {
      defaultText: "view: any free port; serve: 8000",
    }),
    step: text("Only rollouts of this step or range of steps.", {
      accepts: "a number, or a range such as 3-9",
      defaultText: "all",
    }),
    failed: flag("Only rollouts that did not solve their scenario.", { default: false }),
    end: text("Only rollouts with this end: answered, turn_limit, ...", { defaultText: "all" }),
    jsonl: text("Trajectory file to write the rollouts to; other commands read it.", {
      accepts: "a path",
      defaultText: "none",
    }),
    csv: flag("Print comma-separated values: a line per step, a column per figure.", { default: false }),
    sample: whole(0, MANY, "Number of rollouts whose conversations the report includes; the file stays below 30 MB.", {
      default: 2000,
    }),
  }),
  ...inGroup("Serving and chatting", {
    subject: text("Which model: a run's name, PROJECT/NAME or folder; or a model, as --model names it.", {
      defaultText: "the newest run",
    }),
    apiKey: text("Key that clients of the API have to send.", { defaultText: "none is asked for" }),
    compare: list("Two checkpoints of the run that answer side by side: base,best.", { defaultText: "none" }),
  }),
  ...inGroup("Export", {
    to: choice(
      ["peft", "gguf-lora", "gguf", "safetensors", "ollama"],
      "What is written. peft, gguf-lora: the adapter alone. gguf, safetensors, ollama: the model with the adapter in its weights.",
    ),
    type: choice(["f16", "bf16", "q8_0", "q4_k_m"], "Weights of what is written; safetensors takes f16 and bf16.", {
      defaultText: "bf16 where the base model has it, else f16",
    }),
    force: flag("Replace the folder of an earlier export.", { default: false }),
    baseName: text("Repository of the base model on the Hub, for those who load what is written.", {
      accepts: "ORGANISATION/NAME",
      defaultText: "the run's model, where it came from the Hub",
    }),
    push: text("Put what is written into this repository of the Hub; one that is not there is made, a private one.", {
      accepts: "ORGANISATION/NAME",
      defaultText: "nothing is sent",
    }),
  }),
  ...inGroup("Objective", objectiveOptions),
  ...inGroup("Imitation", {
    successes: flag("Learn from rollouts that solved their scenario only.", { default: false }),
    updateTrajectories: whole(1, MANY, "Rollouts in one update.", { default: 16 }),
    fullWeights: flag("Train all weights instead of an adapter: for small models.", { default: false }),
  }),
  ...inGroup("Adapter and learner", {
    loraRank: whole(1, 1024, "Rank of the adapter.", { defaultText: bySizeText("loraRank") }),
    loraAlpha: real(0, 4096, "The adapter's output is scaled by this, divided by the rank.", {
      defaultText: bySizeText("loraAlpha"),
    }),
    loraTargets: list("Linear layers that get an adapter.", {
      default: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    }),
    learner: choice(
      ["auto", "peft", "unsloth"],
      "Library that computes the updates. unsloth is installed at its first use; auto is unsloth on CUDA if installed, else peft.",
      {
        default: "auto",
      },
    ),
    adamBits: choice(
      ["32", "8"],
      "Width of Adam's moments; 8 needs bitsandbytes, which is installed with Unsloth. A run keeps the width it began with.",
      { default: "32" },
    ),
    learnerLifetime: choice(
      ["run", "step", "offload"],
      "run: the learner stays loaded. step: it is ended after each update, the certain way to free its memory. offload: between updates it is in main memory and leaves the GPU to the engine.",
      { default: "run" },
    ),
    python: text("Python that has the learner's packages.", {
      accepts: "a path",
      defaultText: "an environment of hone's own, made when it is first needed",
    }),
    install: flag("Make the learner's Python environment first, if it is missing.", { default: false }),
    torchIndex: text("Package index that PyTorch is installed from when hone makes its environment: a mirror.", {
      accepts: "a URL",
      defaultText: "PyTorch's own for the CPU and CUDA 12; pip's for CUDA 13",
    }),
    precision: choice(
      ["auto", "f32", "f16", "bf16"],
      "Precision of the learner. auto: f32 on a CPU; on a GPU f16 for f16 weights, else bf16. If f16 overflows, bf16 replaces it.",
      { default: "auto" },
    ),
    hfWeights: text(
      "Hugging Face folder to take the learner's weights from; it must be the same model. export: to take tokenizer and config.json from.",
      {
        accepts: "a path",
        defaultText: "the model file",
      },
    ),
    microBatchTokens: whole(64, MANY, "Tokens in one pass of the learner; fewer need less memory.", {
      defaultText: `${bySizeText("microBatchTokens")}; while training on CUDA up to 65536, as many as fit easily`,
    }),
    gradientCheckpointing: flag(
      "Recompute activations in the backward pass, which saves the learner's memory and costs time.",
      {
        defaultText: "on if the run would not fit otherwise",
      },
    ),
    releaseWeights: flag("Free the engine's weights too during an update, not only its KV cache.", {
      default: false,
    }),
    maxGap: real(0, 100, "Stop when the log-probabilities of engine and learner differ by more than this on average.", {
      defaultText:
        "8 times the first step's, from 0.0015 to 0.02 (0.05 for weights below 16 bits), and 8 times its p99, at least 0.03",
    }),
  }),
  ...inGroup("Rewards and judging", {
    reward: text(`The reward that trains, by its name; \`${hone("train")} --help all\` describes each.`, {
      default: "task",
      accepts: "task, ruler, shaped or another reward's name",
    }),
    accuracy: choice(
      ["task", "judge"],
      "Who decides whether a held-out answer is right. judge: answers that the task's own comparison does not accept are sent to the judge.",
      { defaultText: "the reward's: judge with shaped, task otherwise" },
    ),
    judgeUrl: text("The judge's OpenAI-compatible API; used as given, including /v1 if the server has it.", {
      accepts: "a URL",
    }),
    judgeModel: text("The judge's name at --judge-url."),
    judgeKey: text("Key for --judge-url.", { defaultText: OPENAI_KEY }),
    rulerRubric: text("File with a rubric to judge by.", { accepts: "a path", defaultText: "hone's own" }),
    judgeVotes: whole(
      1,
      64,
      "Number of times each group is judged, in a different order each time; the score is the mean.",
      {
        default: 1,
      },
    ),
    judgeInputTokens: whole(
      1000,
      MANY,
      "Estimated tokens of a question to the judge at most; tool results are shortened to fit.",
      { default: 32_000 },
    ),
    judgeTemperature: real(0, 10, "The judge's sampling temperature.", { defaultText: "the server's own" }),
    judgeMaxTokens: whole(1, MANY, "Tokens of the judge's answer at most.", { defaultText: "the server's own" }),
    judgeTimeout: real(0.1, 86_400, "Seconds one request to the judge may take.", { default: 120 }),
    judgePatience: real(0, 86_400, "Seconds to wait for a judge that does not answer; then the command stops.", {
      default: 300,
    }),
    judgeConcurrency: whole(1, 1024, "Concurrent requests to the judge.", { default: 8 }),
    judgeRpm: whole(1, MANY, "Requests to the judge per minute at most.", { defaultText: "no limit" }),
    judgeTpm: whole(1, MANY, "Tokens to and from the judge per minute at most.", { defaultText: "no limit" }),
    judgePrices: text(
      'Price table: JSON, dollars per million tokens, {"MODEL": {"prompt": 1.1, "completion": 4.4}}. It overrides the built-in list prices.',
      { accepts: "a path" },
    ),
    judgeMaxCost: real(0, 1e6, "Highest cost of the judge in a run, in dollars; then it stops.", {
      defaultText: "no cap",
    }),
    judgeCache: flag("Reuse stored verdicts on identical questions (--no-judge-cache asks again).", {
      default: true,
    }),
  }),
  ...inGroup("Output", {
    show: flag("Print the conversations.", { default: false }),
    quiet: flag("Leave out progress and the table of steps.", { default: false }),
    debugJudge: flag("Print the judge's requests and answers, and the scores with their explanations.", {
      default: false,
    }),
    json: flag("Print one JSON object as the last line of stdout; text for people goes to stderr.", { default: false }),
  }),
} satisfies Record<string, Option>;
