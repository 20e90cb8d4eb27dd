/**
 * Faults of `yarn prove` that were written from the code of play, reward, batch, learner and storage, by an author who had not read
 * the guards' code, and knew their messages. Guards were written for them since.
 */
import { ANY_REWARD, at, type Fault, TWICE } from "./fault.js";

const batch = (find: string, replace: string) => at("src/core/learn/batch.ts", find, replace);
const credit = (find: string, replace: string) => at("src/core/train/credit.ts", find, replace);
const stages = (find: string, replace: string) => at("src/core/train/stages.ts", find, replace);
const checkpoint = (find: string, replace: string) => at("native/learner/checkpoint.py", find, replace);
const optimizer = (find: string, replace: string) => at("native/learner/optimizer.py", find, replace);
const update = (find: string, replace: string) => at("native/learner/update.py", find, replace);
const passes = (find: string, replace: string) => at("native/learner/passes.py", find, replace);
const loss = (find: string, replace: string) => at("native/learner/loss.py", find, replace);
const packing = (find: string, replace: string) => at("native/learner/packing.py", find, replace);

/** The learner is loaded anew for each step. */
const RESUMES = ["--learner-lifetime", "step"];
/** Every step has several rows. */
const ROWS = ["--micro-batch-tokens", "512"];

const list: readonly Omit<Fault, "outside">[] = [
  {
    name: "the last token of a turn recorded as given",
    family: "tokens",
    patch: at(
      "src/core/rollout/sample.ts",
      "  const { ids } = segment;\n",
      "  const { ids } = segment;\n  segment.sampled.fill(0, -1);\n",
    ),
  },
  {
    name: "the closing token written twice between turns",
    family: "tokens",
    patch: at(
      "src/core/rollout/engine-session.ts",
      "delta(before, tools, messages, this.#closed)",
      "delta(before, tools, messages, false)",
    ),
  },
  {
    name: "the prompt's last tokens twice",
    family: "tokens",
    patch: at(
      "src/chat/open-session.ts",
      "Int32Array.from(chat.template.prompt(opening.messages, opening.tools))",
      "((ids: readonly number[]) => Int32Array.from([...ids, ...ids.slice(-3)]))(chat.template.prompt(opening.messages, opening.tools))",
    ),
  },
  {
    name: "a temperature that the learner leaves out",
    family: "log-probabilities",
    patch: at("native/learner/batch.py", 'temperature = float(about["temperature"])', "temperature = 1.0"),
    flags: ["--temperature", "0.8"],
  },
  {
    name: "one group's rewards given to all groups",
    family: "rewards",
    patch: at(
      "src/core/reward/group-work.ts",
      'this.#begun.get(group[0]?.scenario.id ?? "")',
      'this.#begun.get(groups[0]?.[0]?.scenario.id ?? "")',
    ),
  },
  {
    name: "advantages bounded by 1",
    family: "advantages",
    patch: batch("each.advantages.push(advantage)", "each.advantages.push(Math.max(-1, Math.min(1, advantage)))"),
  },
  {
    name: "only rollouts above the mean trained",
    family: "advantages",
    patch: credit(
      "members.filter(({ masked }) => !masked);",
      "members.filter(({ masked, advantage }) => !masked && advantage >= 0);",
    ),
  },
  {
    name: "the deviation's floor added twice",
    family: "advantages",
    patch: at("src/core/learn/advantages.ts", "grpo: std + options.stdFloor", "grpo: std + 2 * options.stdFloor"),
  },
  {
    name: "given tokens counted in the mean",
    family: "advantages",
    patch: credit("sum + sampled.reduce((one, flag) => one + flag, 0)", "sum + sampled.length"),
  },

  {
    name: "a mini-batch that loses a group",
    family: "learner",
    patch: at(
      "native/learner/minibatches.py",
      "set(groups[number::count])",
      "set(groups[number::count][1:] or groups[number::count])",
    ),
    groups: 6,
  },
  {
    name: "a row whose backward never ran",
    family: "learner",
    patch: passes(
      "        self._backend.backward(hidden, scores.gradient)\n",
      "        if int(pack.slots.min()) != 0:\n            self._backend.backward(hidden, scores.gradient)\n",
    ),
    flags: ROWS,
  },
  {
    name: "a gradient divided by the number of rows",
    family: "learner",
    patch: update("first, optimizer.scale.value)", "first, optimizer.scale.value / len(minibatch.own))"),
    flags: ROWS,
  },
  {
    name: "one layer's gradient halved",
    family: "learner",
    patch: update(
      "        norm = optimizer.clip(max_norm)\n",
      "        for one in optimizer.parameters[:2]:\n            one.grad.mul_(0.5)\n        norm = optimizer.clip(max_norm)\n",
    ),
  },
  {
    name: "old log-probabilities renewed at each update",
    family: "learner",
    patch: passes(
      "                if first:\n                    tokens.old",
      "                if True:\n                    tokens.old",
    ),
    flags: TWICE,
  },
  {
    name: "KL to the current policy",
    family: "learner",
    patch: passes(
      "        with self._backend.base_policy():\n",
      "        from contextlib import nullcontext\n        with nullcontext():\n",
    ),
    flags: ["--kl", "0.05"],
  },
  {
    name: "KL the other way round",
    family: "learner",
    patch: loss("k3(tokens.new, tokens.base)", "k3(tokens.base, tokens.new)"),
    flags: ["--kl", "0.05"],
  },
  {
    name: "siblings of a pack that see each other",
    family: "learner",
    patch: at(
      "native/learner/attention.py",
      "hidden = (keys > queries) | (queries >= self._ends[keys])",
      "hidden = keys > queries",
    ),
    // Turns that differ, and are so short that several attend in one block.
    flags: ["--max-turns", "1", "--max-tokens", "24", "--temperature", "2", ...ANY_REWARD],
  },
  {
    name: "positions that go on after a fork",
    family: "learner",
    patch: packing("torch.arange(shared, len(member.ids))", "torch.arange(at, at + length)"),
  },
  {
    name: "the ratio to the engine's log-probabilities",
    family: "learner",
    patch: loss("tokens.new - tokens.old.detach()", "tokens.new - tokens.rollout"),
  },
  {
    name: "a sequence's ratio a product, not the geometric mean",
    family: "learner",
    patch: loss("over_trajectory(log_ratio, tokens.owner, mean=True)", "over_trajectory(log_ratio, tokens.owner)"),
    flags: ["--loss", "gspo", ...TWICE],
  },
  {
    name: "the larger of the two surrogates",
    family: "learner",
    patch: loss("-torch.minimum(", "-torch.maximum("),
    flags: [...TWICE, "--clip-low", "0.01"],
  },
  {
    name: "a gradient through CISPO's weight",
    family: "learner",
    patch: loss("_clip(log_ratio.detach().exp(), objective)", "_clip(log_ratio.exp(), objective)"),
    flags: ["--loss", "cispo"],
  },
  {
    name: "an adapter scaled by the root of its rank",
    family: "policy",
    patch: at(
      "native/learner/backend.py",
      "lora_alpha=lora.alpha,\n",
      "lora_alpha=lora.alpha,\n        use_rslora=True,\n",
    ),
  },
  {
    name: "another weight decay",
    family: "learner",
    patch: at("native/learner/adam.py", "weight_decay=settings.weight_decay", "weight_decay=0.1"),
  },
  {
    name: "Adam's betas exchanged",
    family: "learner",
    patch: at("native/learner/adam.py", "betas=settings.betas", "betas=settings.betas[::-1]"),
  },
  {
    name: "each parameter's gradient bounded by itself",
    family: "learner",
    patch: optimizer(
      "return float(torch.nn.utils.clip_grad_norm_(self.parameters, max_norm))",
      "return max(float(torch.nn.utils.clip_grad_norm_([one], max_norm)) for one in self.parameters)",
    ),
    flags: ["--max-grad-norm", "0.01"],
  },
  {
    name: "each update applied twice",
    family: "learner",
    patch: update(
      "        optimizer.update(request.learning_rate)\n",
      "        optimizer.update(request.learning_rate)\n        optimizer.update(request.learning_rate)\n",
    ),
  },
  {
    name: "a schedule that begins again at a resume",
    family: "learner",
    patch: stages(
      "rateOfStep(settings.schedule, step,",
      "rateOfStep(settings.schedule, step - ((globalThis as any).began ??= at.step),",
    ),
    resumed: true,
  },

  {
    name: "B doubled at a resume",
    family: "storage",
    patch: checkpoint(
      "    set_peft_model_state_dict(backend.model, weights)",
      '    set_peft_model_state_dict(backend.model, {name: 2 * one if "lora_B" in name else one for name, one in weights.items()})',
    ),
    flags: RESUMES,
  },
  {
    name: "weights of a resume not read",
    family: "storage",
    patch: checkpoint("    set_peft_model_state_dict(backend.model, weights)", "    pass"),
    flags: RESUMES,
  },
  {
    name: "moments of a resume not read",
    family: "storage",
    patch: checkpoint("    if state is not None:\n        optimizer.load", "    if False:\n        optimizer.load"),
    flags: RESUMES,
  },
  {
    name: "Adam's count of steps 0 after a resume",
    family: "storage",
    patch: optimizer(
      '        self.updates = state["updates"]\n',
      '        for one in self._adam.state.values():\n            one["step"].zero_()\n        self.updates = state["updates"]\n',
    ),
    flags: RESUMES,
  },
  {
    name: "a learner resumed from the checkpoint before",
    family: "storage",
    patch: at("src/trainer/updater.ts", "{ resume: from }", '{ resume: from.replace(/0002$/, "0001") }'),
    flags: [...RESUMES, ...ANY_REWARD],
  },
  {
    name: "advantages noted at the rollout before",
    family: "storage",
    patch: at(
      "src/core/run/store.ts",
      "explanation, row.step, scenario, member],",
      "explanation, row.step, scenario, Math.max(0, member - 1)],",
    ),
  },
  {
    name: "three bits of each seed",
    family: "engine",
    patch: at("src/hone/session-source.ts", "{ ...spec.sampling, seed }", "{ ...spec.sampling, seed: seed & 7 }"),
  },
];

export const outside: readonly Fault[] = list.map((fault) => ({ ...fault, outside: "met" }));
