/** Every option of hone, once: its meaning, what it accepts, its default and its environment variable. */
import { bySizeText, CONTEXT, presetNames, ROLLOUTS_AT_ONCE } from "./defaults.js";
import { objectiveOptions } from "./objective-options.js";
import { choice, date, flag, inGroup, list, type Option, pairs, real, text, texts, whole, words } from "./option.js";

const MANY = Number.MAX_SAFE_INTEGER;
/** Sequences that llama.cpp evaluates at once in one context. */
export const MOST_SEQUENCES = 256;
/** Of a server's key, see `keyFor`. */
const OPENAI_KEY = "OPENAI_API_KEY at https://api.openai.com and its regional hosts; none elsewhere";

export const definitions = {
  ...inGroup("Files and folders", {
    home: text("Folder that holds hone's state: databases, models, runs.", { default: ".hone" }),
    db: text("Mail database (in tasks: --set db).", {
      defaultText: "mail.db in the home folder",
    }),
    out: text("File to write: trajectories, one JSON line a rollout.", {
      accepts: "a path",
      defaultText:
        "rollouts/<date and time>.jsonl in the home folder; judge: FILE.judged.jsonl; report: a page, RUN.html",
    }),
    page: text("Page to write: the evaluation as one HTML file that opens from disk.", {
      accepts: "a path",
      defaultText: "none",
    }),
    into: text("Folder to write what was learnt to; made when it is not there.", {
      accepts: "a path",
      defaultText: "sft/<date and time> in the home folder",
    }),
    file: text("Trajectory file, as yarn rollout writes it.", { accepts: "a path" }),
    program: words("Program (TypeScript or JavaScript) that uses hone as a library, and its arguments.", {
      accepts: "a path, then words",
    }),
    tokens: text("File with the token ids to score: a JSON array. The first entry of the result is of the second id.", {
      accepts: "a path",
    }),
  }),
  ...inGroup("Task and scenarios", {
    task: text('What is trained: "email", or the path of a task file (TypeScript or JavaScript).', {
      default: "email",
    }),
    set: texts(
      "Option of the task as NAME=VALUE; may be given several times. --task TASK --help lists those that a task has.",
      { defaultText: "the task's own" },
    ),
    split: choice(["train", "test"], "Only scenarios of this split.", { defaultText: "both" }),
    scenario: text("One scenario, by its id."),
    n: whole(1, MANY, "How many scenarios, drawn by the seed.", { defaultText: "all, or what the command says" }),
    group: whole(1, 1024, "Rollouts of each scenario.", { defaultText: `4; in training ${bySizeText("group")}` }),
    seed: whole(0, MANY, "Seed of all random draws, tasks' too.", { default: 1 }),
    rank: choice(
      ["date", "bm25"],
      "Short for --set rank, of the email task. date: all keywords must occur, newest first (ART-E). bm25: any may, best match first.",
      { defaultText: "date" },
    ),
  }),
  ...inGroup("Mail to import", {
    from: list(
      "Real mail to import: maildir folders, mbox files or folders, .tar or .tar.gz of either, JSONL, Parquet. What a path holds is recognised by its content.",
      { defaultText: "a synthetic mailbox" },
    ),
    hf: flag("Import corbt/enron-emails and its sample questions from the Hugging Face Hub.", { default: false }),
    questions: list(
      "Questions over the mail: JSONL or Parquet files in the form of corbt/enron_emails_sample_questions.",
      {
        defaultText: "none, or those of the Hub with --hf",
      },
    ),
    maxBody: whole(0, MANY, "Skip mails whose body has more characters than this; 0 keeps all.", {
      defaultText: "5000 with --hf (ART-E's rule), 0 with --from",
    }),
    maxRecipients: whole(0, MANY, "Skip mails with more recipients than this; 0 keeps all.", {
      defaultText: "30 with --hf (ART-E's rule), 0 with --from",
    }),
    oneEvidence: flag("Keep only questions whose answer stands in exactly one mail.", {
      defaultText: "on with --hf (ART-E's rule), off with --from",
    }),
    mailboxes: whole(1, 100_000, "Synthetic mailboxes to generate, each with its own people and facts.", {
      default: 300,
    }),
    names: choice(
      ["default", "reserved"],
      "Names in the synthetic mailboxes. reserved: people, places, companies and projects that no default mailbox has; every question is then a test question.",
      { default: "default" },
    ),
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
    hfCache: text("Folder for what is downloaded from the Hub, shared with Hugging Face's tools.", {
      env: "HF_HUB_CACHE",
      accepts: "a path",
      defaultText: "hub in HF_HOME",
    }),
  }),
  ...inGroup("Tools by hand", {
    inbox: text("Address whose mail may be seen: sent or received by it.", { accepts: "an address" }),
    keywords: list("Words to search for, separated by commas."),
    fromAddr: text("Only mail from this address.", { accepts: "an address" }),
    toAddr: text("Only mail to this address.", { accepts: "an address" }),
    sentAfter: date("Only mail of this day or later."),
    sentBefore: date("Only mail of this day or earlier."),
    maxResults: whole(1, 10, "Hits at most.", { default: 10 }),
    id: text("Message id."),
  }),
  ...inGroup("Model and player", {
    model: text("Model: a name of `yarn hone models`, a Hub repository, hf:REPOSITORY:FILE.gguf, a folder or file.", {
      accepts: "a name or a path",
    }),
    weights: choice(["f16", "bf16", "q8_0"], "Weights to make of a model that comes as safetensors.", {
      defaultText: "f16",
    }),
    adapter: text("LoRA adapter on the model: a GGUF file, or a folder in PEFT's form.", {
      accepts: "a path",
      defaultText: "none",
    }),
    checkpoint: list("Checkpoint of a run: latest, best, base, or a number; eval takes several, and RUN@best.", {
      defaultText: "none; eval: latest; serve, chat: best",
    }),
    versus: list(
      "Others to evaluate on the same scenarios: models, as --model names them; MODEL@URL, a model behind an OpenAI-compatible API; expert. NAME=... calls a column so.",
      { defaultText: "none" },
    ),
    prices: text(
      'Price table of players, by name: JSON, dollars per million tokens, {"NAME": {"prompt": 1.1, "completion": 4.4}}. It goes before the list prices that hone knows of APIs.',
      { accepts: "a path" },
    ),
    fresh: flag(
      "Leave out the test scenarios of the run's own validations: those chose its best checkpoint, the others did not.",
      { default: false },
    ),
    gpu: choice(
      ["auto", "cuda", "vulkan", "metal", "off"],
      "What computes. auto: the best there is; an NVIDIA GPU that cannot be used is an error.",
      { default: "auto" },
    ),
    device: text(
      "Which GPU computes, one alone: its index as nvidia-smi lists it, or its UUID or the beginning of one. Without an NVIDIA GPU, and with --gpu vulkan, an index of Vulkan's.",
      { accepts: "an index or a UUID", defaultText: "the first that CUDA_VISIBLE_DEVICES leaves" },
    ),
    threads: whole(
      1,
      1024,
      "CPU threads of the engine. A number that is given stays; the default gives way to other programs.",
      {
        defaultText: "the free cores",
      },
    ),
    context: whole(16, MANY, "Tokens a conversation may have, prompt included.", {
      defaultText: `${CONTEXT}, or what the model was trained with if that is less`,
    }),
    agentUrl: text("Play with a model behind this OpenAI-compatible API instead, through its own tool calls.", {
      accepts: "a URL",
    }),
    agentModel: text("The model's name at --agent-url."),
    agentKey: text("Key for --agent-url, or for the server of --versus.", { defaultText: OPENAI_KEY }),
    expert: flag("Let the task's scripted expert play instead of a model.", { default: false }),
    mistakes: real(0, 1, "Share of rollouts in which the scripted expert makes a mistake.", { default: 0 }),
  }),
  ...inGroup("Rollouts and sampling", {
    concurrency: whole(1, MOST_SEQUENCES, "Rollouts at once.", {
      defaultText: `${ROLLOUTS_AT_ONCE.cpu}; in training at most ${ROLLOUTS_AT_ONCE.gpu} on a GPU, fewer where memory is short`,
    }),
    workers: whole(1, 256, "Threads that run the JavaScript of rollouts.", {
      defaultText: "one less than the cores, at most 4",
    }),
    maxTurns: whole(1, 1000, "Assistant turns a rollout may take.", { default: 10 }),
    maxTokens: whole(1, MANY, "Tokens a turn may have.", {
      defaultText: `2048; of APIs the server's own; in training ${bySizeText("maxTokens")}`,
    }),
    temperature: real(0, 10, "Sampling temperature; 0 takes the likeliest token.", {
      defaultText: "1; of APIs the server's own",
    }),
    topK: whole(0, MANY, "Sample from the k likeliest tokens only; 0 is off.", { default: 0 }),
    topP: real(0, 1, "Sample from the likeliest tokens that hold this share of the probability; 1 is off.", {
      default: 1,
    }),
    minP: real(0, 1, "Drop tokens less likely than this share of the likeliest; 0 is off.", { default: 0 }),
    toolFormat: choice(
      ["auto", "hermes", "llama3", "mistral"],
      "How the model writes tool calls; auto is what its chat template writes. docs/tool-formats.md says how each is read.",
      { default: "auto" },
    ),
    templateArg: pairs(
      "Variable of the model's chat template, such as enable_thinking=false; may be given several times.",
      { defaultText: "none" },
    ),
    maxThinkingTokens: whole(
      1,
      MANY,
      "Tokens of a turn that may be thoughts (<think>); longer ones are ended there by tokens that nobody sampled.",
      { defaultText: "no limit but --max-tokens" },
    ),
    onToolError: choice(
      ["observe", "stop"],
      "What a malformed call, an unknown tool or wrong arguments do. observe: the model reads a short error and goes on. stop: the rollout ends (as in ART).",
      { default: "observe" },
    ),
    turnTimeout: real(0.1, 86_400, "Seconds one turn of the model may take.", { default: 120 }),
    toolTimeout: real(0.1, 86_400, "Seconds one tool call may take.", { default: 30 }),
    rolloutTimeout: real(0.1, 86_400, "Seconds one rollout may take.", { default: 600 }),
    maxExceptions: real(0, MANY, "Failed rollouts that are borne: a count, or below 1 a share of all.", { default: 0 }),
  }),
  ...inGroup("Runs and training", {
    project: text("Folder of runs in the home folder.", { defaultText: "the task's name; eval: any" }),
    run: text("Name of the run; rollouts and metrics also take PROJECT/NAME or a folder.", {
      defaultText: "the model's name; eval: the newest run",
    }),
    steps: whole(1, MANY, "Updates in all. More than before lets a finished run go on.", {
      defaultText: bySizeText("steps"),
    }),
    groups: whole(1, MANY, "Scenarios in a step.", { defaultText: bySizeText("groups") }),
    preset: choice(
      presetNames,
      "Settings of a known experiment; what is given besides is stronger. art-e: OpenPipe's email agent with its graded reward (--reward shaped). art-notebook: its notebook, with RULER (--reward ruler). Both need a judge.",
      { defaultText: "none" },
    ),
    fork: text("Start the run from this checkpoint of another run.", { accepts: "a checkpoint folder" }),
    initAdapter: text(
      "Start the run from this LoRA adapter, which any program may have trained (PEFT's form, as ART's checkpoints have it).",
      {
        accepts: "a folder",
      },
    ),
    learningRate: real(0, 1, "Learning rate after the warm-up.", { defaultText: bySizeText("learningRate") }),
    finalLearningRate: real(0, 1, "Learning rate of the last step; between, it falls in a straight line.", {
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
      "Steps between two validations on test scenarios; 0: at the start and the end alone.",
      {
        defaultText: bySizeText("validateEvery"),
      },
    ),
    validateN: whole(1, MANY, "Test scenarios in a validation, always the same ones.", {
      defaultText: bySizeText("validateN"),
    }),
    track: list(
      "Trackers that the run is shown in too: tensorboard, wandb. What they need is installed when it is first asked for; wandb stays offline without WANDB_MODE or a key.",
      { defaultText: "none" },
    ),
    keep: whole(1, MANY, "Newest checkpoints to keep, besides the best.", { default: 1 }),
  }),
  ...inGroup("Looking at runs", {
    runs: list("Runs to show: names, PROJECT/NAME, or folders.", { defaultText: "the newest run" }),
    port: whole(0, 65_535, "Port on 127.0.0.1, of the page or of the API; 0 is any that is free.", {
      defaultText: "view: any that is free; serve: 8000",
    }),
    step: text("Rollouts of this step, or of these.", {
      accepts: "a number, or a range such as 3-9",
      defaultText: "all",
    }),
    failed: flag("Only rollouts that did not solve their scenario.", { default: false }),
    end: text("Only rollouts that ended so: answered, turn_limit, ...", { defaultText: "all" }),
    jsonl: text("Trajectory file to write the rollouts to; other commands read it.", {
      accepts: "a path",
      defaultText: "none",
    }),
    csv: flag("Print comma-separated values: a line for each step, a column for each figure.", { default: false }),
    sample: whole(0, MANY, "Rollouts whose conversations the report has; the file stays below 30 MB.", {
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
      "What updates the adapter. unsloth is installed when it is first asked for; auto is unsloth on CUDA where it is installed, else peft.",
      {
        default: "auto",
      },
    ),
    adamBits: choice(
      ["32", "8"],
      "Width of Adam's moments; 8 takes bitsandbytes, which comes with Unsloth. A run keeps the width it began with.",
      { default: "32" },
    ),
    learnerLifetime: choice(
      ["run", "step", "offload"],
      "run: the learner stays loaded. step: it is ended after each update, which surely gives its memory back. offload: between updates it lies in main memory and leaves the GPU to the engine.",
      { default: "run" },
    ),
    python: text("Python that has the learner's packages.", {
      accepts: "a path",
      defaultText: "an environment of hone's own, made when it is first needed",
    }),
    install: flag("Make the learner's Python environment first, where it is not there.", { default: false }),
    torchIndex: text("Package index that PyTorch is installed from when hone makes its environment: a mirror.", {
      accepts: "a URL",
      defaultText: "PyTorch's own for the CPU and CUDA 12; pip's for CUDA 13",
    }),
    precision: choice(
      ["auto", "f32", "f16", "bf16"],
      "What the learner computes in. auto: f32 on a CPU; on a GPU f16 for f16 weights, else bf16. Where f16 overflows, bf16 takes its place.",
      { default: "auto" },
    ),
    hfWeights: text("Hugging Face folder to take the learner's weights from; it must be the same model.", {
      accepts: "a path",
      defaultText: "the model file",
    }),
    microBatchTokens: whole(64, MANY, "Tokens in one pass of the learner; less needs less memory.", {
      defaultText: `${bySizeText("microBatchTokens")}; while training on CUDA up to 65536, as many as fit easily`,
    }),
    gradientCheckpointing: flag("Let the learner keep fewer activations and compute them twice.", {
      defaultText: "on where it would not fit otherwise",
    }),
    releaseWeights: flag("Give the engine's weights back too while the learner works, not its KV cache alone.", {
      default: false,
    }),
    maxGap: real(0, 100, "Stop when the log-probabilities of engine and learner differ by more than this on average.", {
      defaultText:
        "8 times the first step's, from 0.0015 to 0.02 (0.05 for weights below 16 bits), and 8 times its p99, at least 0.03",
    }),
  }),
  ...inGroup("Rewards and judging", {
    reward: text("What training pushes up, by its name; `yarn train --help all` says what each is.", {
      default: "task",
      accepts: "task, ruler, shaped or another reward's name",
    }),
    accuracy: choice(
      ["task", "judge"],
      "Who says whether a held-out answer is right. judge: what the task's own comparison does not settle is put to the judge.",
      { defaultText: "the reward's: judge with shaped, task otherwise" },
    ),
    judgeUrl: text("The judge's OpenAI-compatible API; used as given, so with /v1 where the server has it.", {
      accepts: "a URL",
    }),
    judgeModel: text("The judge's name at --judge-url."),
    judgeKey: text("Key for --judge-url.", { defaultText: OPENAI_KEY }),
    rulerRubric: text("File with a rubric to judge by.", { accepts: "a path", defaultText: "hone's own" }),
    judgeVotes: whole(1, 64, "Times each group is judged, in another order each time; the score is the mean.", {
      default: 1,
    }),
    judgeInputTokens: whole(
      1000,
      MANY,
      "Tokens of a question to the judge at most, by estimate; tool results are shortened to fit.",
      { default: 32_000 },
    ),
    judgeTemperature: real(0, 10, "The judge's sampling temperature.", { defaultText: "the server's own" }),
    judgeMaxTokens: whole(1, MANY, "Tokens an answer of the judge may have.", { defaultText: "the server's own" }),
    judgeTimeout: real(0.1, 86_400, "Seconds one request to the judge may take.", { default: 120 }),
    judgePatience: real(0, 86_400, "Seconds to wait for a judge that answers nothing; then the work stops.", {
      default: 300,
    }),
    judgeConcurrency: whole(1, 1024, "Requests to the judge at once.", { default: 8 }),
    judgeRpm: whole(1, MANY, "Requests to the judge in a minute at most.", { defaultText: "no limit" }),
    judgeTpm: whole(1, MANY, "Tokens to and from the judge in a minute at most.", { defaultText: "no limit" }),
    judgePrices: text(
      'Price table: JSON, dollars per million tokens, {"MODEL": {"prompt": 1.1, "completion": 4.4}}. It goes before the list prices that hone knows.',
      { accepts: "a path" },
    ),
    judgeMaxCost: real(0, 1e6, "Dollars that the judge may cost in a run; then it stops.", { defaultText: "no cap" }),
    judgeCache: flag("Take verdicts that were given before to the very same question (--no-judge-cache asks anew).", {
      default: true,
    }),
  }),
  ...inGroup("Output", {
    show: flag("Print the conversations.", { default: false }),
    quiet: flag("Leave out progress and the table of steps.", { default: false }),
    debugJudge: flag("Print what the judge is sent, what it answers, and the scores with their explanations.", {
      default: false,
    }),
    json: flag("Print one JSON object as the last line of stdout; text for people goes to stderr.", { default: false }),
  }),
} satisfies Record<string, Option>;
