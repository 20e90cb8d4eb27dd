/** The faults of `yarn prove`. To add one: an entry here. test/bench/prove.test.ts checks that every patch still applies. */
import { ANY_REWARD, at, type Fault, FREE, TWICE } from "./fault.js";
import { fourth } from "./fourth.js";
import { outside } from "./outside.js";
import { sixth } from "./sixth.js";
import { third } from "./third.js";
import { unmet } from "./unmet.js";

const adapterFile = (state: string, config = "config") =>
  at(
    "native/learner/checkpoint.py",
    "write_gguf_adapter(state, config, base,",
    `write_gguf_adapter(${state}, ${config}, base,`,
  );
const engine = (find: string, replace: string) => at("src/engine/native.ts", find, replace);
const batch = (find: string, replace: string) => at("src/core/learn/batch.ts", find, replace);
const mask = (value: string) =>
  batch("flat.sampled.push(sampled[i] as number);", `flat.sampled.push((${value}) as number);`);
const logprobs = (value: string) =>
  batch("flat.logprobs.push(logprobs[i] as number);", `flat.logprobs.push((${value}) as number);`);
const sampling = (value: string) =>
  at("src/hone/session-source.ts", "{ ...spec.sampling, seed }", `{ ...spec.sampling, ${value}, seed }`);
const rewards = (value: string) =>
  at(
    "src/core/train/credit.ts",
    "const { rewards, explanations, parts, agreement = null } = reward;",
    `const { rewards: own, explanations, parts, agreement = null } = reward; const rewards = (${value}) as number[];`,
  );
const optimizer = (find: string, replace: string) => at("native/learner/optimizer.py", find, replace);
const loss = (find: string, replace: string) => at("native/learner/loss.py", find, replace);
const packing = (find: string, replace: string) => at("native/learner/packing.py", find, replace);
const native = (file: string, find: string, replace: string) => at(`native/engine/${file}`, find, replace);
const open = (prompt: string) => engine("this.#native.open(prompt, count)", `this.#native.open(${prompt}, count)`);
const load = (path: string) => engine('this.#native.useAdapter(path ?? "")', `this.#native.useAdapter(${path})`);

const own: readonly Fault[] = [
  { name: "adapter not loaded", family: "policy", patch: load('""') },
  {
    name: "adapter one step old",
    family: "policy",
    patch: load('(((globalThis as any).loaded ??= [""]).push(path ?? ""), (globalThis as any).loaded.at(-2))'),
  },
  {
    name: "another run's adapter",
    family: "policy",
    patch: adapterFile("{name: torch.randn_like(one) * one.std() for name, one in state.items()}"),
  },
  {
    name: "adapter scaled by 2",
    family: "policy",
    patch: adapterFile("state", 'config | {"lora_alpha": 2 * config["lora_alpha"]}'),
  },
  {
    name: "an adapter on one of two lanes only",
    family: "policy",
    patch: native("lanes.cc", "command(newAdapterChange(all(), path", "command(newAdapterChange({all().front()}, path"),
    threads: 2,
  },
  {
    name: "an adapter on one of two servers only",
    family: "policy",
    patch: at(
      "src/engine/vllm/fleet.ts",
      "await this.#onAll((index) => this.#load(index, loaded));",
      "await this.#load(0, loaded);",
    ),
    test: "test/engine/vllm/engine.test.ts",
  },
  {
    name: "rank cut by half",
    family: "policy",
    patch: adapterFile(
      '{name: one * (torch.arange(len(one)) < len(one) // 2)[:, None] if "lora_A" in name else one for name, one in state.items()}',
    ),
  },
  {
    name: "adapter rounded to bf16",
    family: "policy",
    patch: adapterFile("{name: one.bfloat16().float() for name, one in state.items()}"),
  },

  { name: "mask shifted by one to the left", family: "tokens", patch: mask("sampled[i + 1] ?? 0") },
  { name: "mask shifted by one to the right", family: "tokens", patch: mask("sampled[i - 1] ?? 0") },
  { name: "tools' results trained", family: "tokens", patch: mask("i > sampled.indexOf(1) ? 1 : sampled[i]") },
  {
    name: "a template's token trained after each turn",
    family: "tokens",
    patch: mask("sampled[i] || sampled[i - 1] || 0"),
  },
  { name: "stop tokens not trained", family: "tokens", patch: mask("sampled[i] && (sampled[i + 1] ?? 0)") },
  {
    name: "two turns swapped",
    family: "tokens",
    patch: batch(
      "flat.ids.push(ids[i] as number);",
      "{ const first = sampled.indexOf(1); const half = (ids.length - first) >> 1; flat.ids.push((i < first ? ids[i] : ids[first + ((i - first + half) % (ids.length - first))]) as number); }",
    ),
  },

  {
    name: "text tokenised again",
    family: "tokens",
    // At 1 nearly all that the tiny model draws is tokenised as it was drawn.
    flags: FREE,
    patch: at(
      "src/core/rollout/sample.ts",
      "  const { ids } = segment;\n",
      "  const ids = [...engine.tokenize(engine.detokenize(segment.ids, { special: true }), { special: true })];\n  segment.ids = ids;\n",
    ),
  },

  {
    name: "a stop token recorded as given",
    family: "tokens",
    patch: at(
      "src/core/rollout/sample.ts",
      "    transcript.generated(turn);\n",
      `    const own = turn.stop === "stop" ? count - 1 : count;
    transcript.generated({ ...turn, tokens: turn.tokens.subarray(0, own), logprobs: turn.logprobs.subarray(0, own) });
    transcript.given(turn.tokens.subarray(own));
`,
    ),
  },

  {
    name: "sampled at temperature 0.7, trained at 1",
    family: "log-probabilities",
    patch: sampling("temperature: 0.7"),
  },
  { name: "sampled after top-p 0.9", family: "log-probabilities", patch: sampling("topP: 0.9") },
  {
    name: "those of another rollout of the group",
    family: "log-probabilities",
    patch: logprobs("members[0]?.sequences[0]?.logprobs[i] ?? 0"),
  },
  {
    name: "those of the base model",
    family: "log-probabilities",
    flags: [...ANY_REWARD, ...FREE],
    patch: at(
      "native/learner/update.py",
      "    played = of_batch(backend, batch, request, ranks)\n",
      [
        "    import torch",
        "    from .packing import plan_trajectories",
        "    with backend.base_policy():",
        "        packs = plan_trajectories(batch.sequences, request.micro_batch_tokens, backend.shares)",
        "        every = torch.ones(batch.sampled_tokens)",
        "        scored = Passes(backend, batch, request, every, lambda: None, ranks, None)._score_rows(packs)[0]",
        '    batch = __import__("dataclasses").replace(batch, rollout=scored.cpu())',
        "    played = of_batch(backend, batch, request, ranks)\n",
      ].join("\n"),
    ),
  },
  { name: "shifted by one", family: "log-probabilities", patch: logprobs("logprobs[i - 1] ?? 0") },

  { name: "rewards given to the next id", family: "rewards", patch: rewards("own.map((_, i) => own.at(i - 1))") },
  { name: "a reward is NaN", family: "rewards", patch: rewards("own.map((one, i) => (i === 0 ? NaN : one))") },
  {
    name: "a stale judgement from the cache",
    family: "rewards",
    patch: at("src/judge/judge.ts", "form.name, messages, vote]", "form.name, vote]"),
    test: "test/judge/ruler.test.ts",
  },
  { name: "sign turned", family: "rewards", patch: rewards("own.map((one) => -one)") },
  {
    name: "one group's rewards given to the next",
    family: "rewards",
    patch: at(
      "src/core/train/credit.ts",
      "rewards[i] as GroupReward",
      "rewards[(i + 1) % rewards.length] as GroupReward",
    ),
  },
  {
    name: "a group is given what was asked for another",
    family: "rewards",
    patch: at(
      "src/core/reward/group-work.ts",
      'this.#begun.get(group[0]?.scenario.id ?? "")',
      '[...this.#begun.values()].at([...this.#begun.keys()].indexOf(group[0]?.scenario.id ?? "") - 1)',
    ),
  },

  {
    name: "mean of another group",
    family: "advantages",
    patch: at("src/core/learn/advantages.ts", "(reward - mean) / scale", "(reward - (mean + 0.25)) / scale"),
  },
  {
    name: "population deviation for the sample's",
    family: "advantages",
    patch: at("src/core/learn/advantages.ts", "/ (n - 1));", "/ n);"),
  },
  {
    name: "broken-off rollouts counted",
    family: "advantages",
    patch: at("src/core/reward/comparable.ts", "brokenOff(trajectory) === null", "true"),
    test: "test/train/broken-off.test.ts",
  },
  {
    name: "masked rollouts counted",
    family: "advantages",
    patch: at("src/core/train/credit.ts", "masked ? 0 : (advantages[i] as number)", "advantages[i] as number"),
    test: "test/train/credit.test.ts",
  },

  {
    name: "the learning rate of the next step",
    family: "learner",
    patch: at(
      "src/core/train/stages.ts",
      "rateOfStep(settings.schedule, step,",
      "rateOfStep(settings.schedule, step + 1,",
    ),
  },
  {
    name: "gradient not zeroed",
    family: "learner",
    patch: optimizer("self._adam.zero_grad(set_to_none=True)", "pass"),
  },
  {
    name: "Adam's moments of another run",
    family: "learner",
    patch: optimizer(
      "        self._adam.step()",
      '        for one in self._adam.state.values():\n            one["exp_avg"].normal_(0, float(one["exp_avg"].std()))\n        self._adam.step()',
    ),
  },
  { name: "an update lost", family: "learner", patch: optimizer("self._adam.step()", "pass") },
  {
    name: "wrong normaliser",
    family: "learner",
    patch: loss("1 / played.tokens)", "2 / played.tokens)"),
    test: "native/learner/tests/test_loss.py",
  },
  {
    name: "one row dropped",
    family: "learner",
    patch: packing(
      "members = _sorted(trajectories, shares)",
      "members = _sorted(trajectories[1:] or trajectories, shares)",
    ),
  },
  {
    name: "one row twice",
    family: "learner",
    patch: packing(
      "members = _sorted(trajectories, shares)",
      "members = _sorted(trajectories + trajectories[:1], shares)",
    ),
  },
  {
    name: "a branch of the tree on the wrong parent",
    family: "learner",
    patch: packing("        ends[positions] = end\n", "        pass\n"),
  },
  {
    name: "positions shifted by one within a rollout",
    family: "learner",
    patch: packing(
      "places.append(torch.arange(shared, len(member.ids)))",
      "places.append(torch.arange(shared, len(member.ids)) + (torch.arange(shared, len(member.ids)) > len(member.ids) // 2).long())",
    ),
  },
  {
    name: "dropout on",
    family: "learner",
    patch: at(
      "native/learner/backend.py",
      '        bias="none",\n',
      '        bias="none",\n        lora_dropout=0.1,\n',
    ),
  },
  {
    name: "one layer's adapter frozen",
    family: "learner",
    patch: at(
      "native/learner/backend.py",
      "    return adapted",
      '    next(one for name, one in adapted.named_parameters() if "lora_B" in name).requires_grad_(False)\n    return adapted',
    ),
  },
  {
    name: "KL's sign",
    family: "learner",
    patch: loss("loss = loss + settings.kl_coefficient", "loss = loss - settings.kl_coefficient"),
    test: "native/learner/tests/test_loss.py",
  },
  {
    name: "learning rate ten times",
    family: "learner",
    patch: optimizer('group["lr"] = learning_rate', 'group["lr"] = 10 * learning_rate'),
  },
  {
    name: "clip bounds of the other side",
    family: "learner",
    patch: loss(
      "else 1 - objective.clip_low, max=1 + objective.clip_high",
      "else 1 - objective.clip_high, max=1 + objective.clip_low",
    ),
    test: "native/learner/tests/test_loss.py",
  },
  {
    name: "loss scale not divided out",
    family: "learner",
    patch: optimizer("if self.scale.value != 1:", "if False:"),
    test: "native/learner/tests/test_scaling.py",
  },

  {
    name: "a step committed twice",
    family: "storage",
    patch: at(
      "src/core/run/store.ts",
      "      this.#insertStep(row, settled);\n",
      "      this.#insertStep(row, settled);\n      this.#insertStep(row, settled);\n",
    ),
  },
  {
    name: "rollouts of another policy reused",
    family: "storage",
    patch: at("src/core/run/store.ts", "step = ? AND adapter IS NOT ?", "step = ? AND adapter IS NOT ? AND 0"),
    test: "test/run/store.test.ts",
  },
  {
    name: "a checkpoint of another run",
    family: "storage",
    patch: at("src/core/run/checkpoints.ts", "(await sha256OfFile(file)) === sha256;", 'sha256 !== "";'),
    test: "test/run/checkpoints.test.ts",
  },
  {
    name: "a step lost",
    family: "storage",
    patch: at(
      "src/core/train/stages.ts",
      "const step = at.step + 1;\n  const learningRate",
      "const step = at.step + (at.step === 1 ? 2 : 1);\n  const learningRate",
    ),
  },
  {
    name: "optimizer one step old in the checkpoint",
    family: "storage",
    patch: at(
      "native/learner/checkpoint.py",
      'torch.save(moments, path / "optimizer.pt")',
      'import copy; now = copy.deepcopy(moments); torch.save(getattr(_write, "late", now), path / "optimizer.pt"); _write.late = now',
    ),
  },

  {
    name: "the same seed in a whole group",
    family: "engine",
    patch: at("src/core/gather/gather.ts", "scenario.id, index) };", "scenario.id) };"),
  },
  {
    name: "the seeds of one step in all of them",
    family: "engine",
    patch: at(
      "src/core/gather/gather.ts",
      "deriveSeed(options.seedName, options.step,",
      "deriveSeed(options.seedName, 1,",
    ),
  },
  { name: "the prompt's last token missing", family: "engine", patch: open("prompt.subarray(0, -1)") },
  {
    name: "the KV of other tokens than those that are kept",
    family: "engine",
    patch: engine(
      "\n      append,\n      maxTokens,\n      stop: Int32",
      "\n      append: append && Int32Array.from(append).reverse(),\n      maxTokens,\n      stop: Int32",
    ),
  },
  { name: "context cut without saying", family: "engine", patch: open("prompt.subarray(prompt.length >> 1)") },
  {
    name: "a prefix reused from another sequence's KV",
    family: "engine",
    patch: native(
      "slots.cc",
      "  const int common = commonPrefix(cells, tokens, limit);\n",
      "  const int common = std::min(limit, static_cast<int>(cells.size()));\n",
    ),
  },
  {
    name: "a fork that keeps cells behind the prefix that it shares",
    family: "engine",
    patch: native(
      "slots.cc",
      "  decoder_.trim(slot, length);\n  slots_[slot].cells.resize(length);",
      "  slots_[slot].cells.resize(length);",
    ),
  },
  {
    name: "KV cells kept over a change of adapter",
    family: "engine",
    patch: native("commands.cc", "if (voided) dropSlots(!asleep_);", "(void)voided;"),
    also: [native("slots.cc", "  if (foreign(slot)) return 0;\n", "")],
  },
  {
    name: "positions shifted by one after a prompt",
    family: "engine",
    patch: native(
      "planner.cc",
      "    const int row = batch_.add(token, position, sequence.slot, wanted);\n",
      "    const int row = batch_.add(token, position + (turn.result.tokens.empty() ? 0 : 1), sequence.slot, wanted);\n",
    ),
  },
  {
    name: "a sampler that never draws the last token",
    family: "engine",
    patch: native("sampling.cc", "std::min(row.n, begin + kChunk);", "std::min(row.n - 1, begin + kChunk);"),
    test: "test/engine/sampling.test.ts",
  },
  {
    name: "a sampler biased by 2 %",
    family: "engine",
    patch: native("sampling.cc", "drawFromAll(row, draw * total)", "drawFromAll(row, 0.98 * draw * total)"),
    steps: 60,
  },

  {
    name: "hone's graph: B of the adapter before",
    family: "policy",
    patch: native(
      "own_adapter.cc",
      "lib.ggml_backend_tensor_set(pair.b, b.data(),",
      "static std::map<const void*, std::vector<float>> before; auto& was = before[pair.b->data]; was.resize(b.size()); std::swap(was, b); lib.ggml_backend_tensor_set(pair.b, b.data(),",
    ),
    flags: ["--decoder", "own"],
  },
  {
    name: "the KL divergence to the base model measured from the policy itself",
    family: "learner",
    patch: at(
      "native/learner/probe.py",
      "            with self._backend.base_policy():\n                return self._states()",
      "            return self._states()",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "of a step's updates only the last moves the policy",
    family: "learner",
    patch: at(
      "native/learner/update.py",
      "optimizer.update(request.learning_rate)\n",
      "optimizer.update(request.learning_rate * (number + 1 == len(minibatches)))\n",
    ),
    flags: [...TWICE, ...ANY_REWARD],
  },
  {
    // A run would be played by llama.cpp, after the trial.
    name: "hone's graph: keys and values written into another slot",
    family: "engine",
    patch: native(
      "own_decoder.cc",
      "memory_.cellOf(row.slot, row.position",
      "memory_.cellOf(row.slot == 1 ? 0 : row.slot, row.position",
    ),
    test: "test/engine/own-decoder.test.ts",
  },
  {
    name: "hone's graph: a row that fills a shape writes into a sequence",
    family: "engine",
    patch: native(
      "own_passes.cc",
      "pass.rows.push_back({-1, memory_.slots - 1, 0})",
      "pass.rows.push_back({-1, pass.shape.spans[0].firstSlot, 0})",
    ),
    test: "test/engine/own-decoder.test.ts",
  },
  {
    name: "validations are played by the model alone",
    family: "policy",
    patch: at(
      "src/core/train/saved-play.ts",
      "  const played = await policy.play({",
      '  if (phase === "validation") await policy.use(null);\n  const played = await policy.play({',
    ),
    flags: ANY_REWARD,
  },
  {
    name: "the loop gets half the floor of the deviation that the run has",
    family: "advantages",
    patch: at(
      "src/trainer/settings.ts",
      "stdFloor: settings.stdFloor, spreadFloor: 0 }",
      "stdFloor: settings.stdFloor / 2, spreadFloor: 0 }",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "rollouts that a limit ended are masked without --mask-truncated",
    family: "advantages",
    patch: at(
      "src/core/train/credit.ts",
      "const masked = options.maskTruncated === true && TRUNCATED.has(trajectory.end);",
      "const masked = TRUNCATED.has(trajectory.end);",
    ),
    flags: [...ANY_REWARD, "--max-turns", "2"],
  },
  {
    name: "the reward success is the task's reward",
    family: "rewards",
    patch: at("src/judge/reward/registry.ts", "(reward.success ? 1 : 0)", "reward.reward"),
    flags: ["--reward", "success"],
  },
  {
    name: "the learner is told twice the run's alpha",
    family: "learner",
    patch: at(
      "src/trainer/updater.ts",
      "lora: { rank, alpha, targets },",
      "lora: { rank, alpha: 2 * alpha, targets },",
    ),
    flags: ANY_REWARD,
  },
];

export const faults: readonly Fault[] = [...own, ...outside, ...unmet, ...third, ...fourth, ...sixth];
