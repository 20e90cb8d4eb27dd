/**
 * The code of one rollout worker (a piscina thread): it loads the task, opens its environment, and plays whole groups. The
 * JavaScript of many rollouts runs here concurrently; the engine or API they wait for runs elsewhere.
 */
import { MessageChannel, type MessagePort, parentPort, threadId } from "node:worker_threads";
import { workerData } from "piscina";
import type { Agents } from "../agent/agents.js";
import type { McpServers } from "../agent/mcp/servers.js";
import { TASK_SECONDS } from "../core/config/defaults.js";
import {
  type GroupJob,
  type GroupResult,
  PREPARING,
  type ThreadDemand,
  TURN_TO_BEGIN,
  type WorkerMessage,
  type WorkerSettings,
} from "../core/gather/job.js";
import { opening, playRollout, type RolloutOutcome, type Waiting } from "../core/rollout/rollout.js";
import type { Session } from "../core/rollout/session.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { AnyTask, ChatMessage } from "../core/task/task.js";
import { HoneError, messageOf, UsageError } from "../core/util/errors.js";
import { copied } from "../core/util/json.js";
import type { Pauses } from "../core/util/time-limit.js";
import { outagesOf } from "../engine/factory.js";
import { loadTask } from "../scenarios/load.js";
import { openSessions, type SessionSource } from "./session-source.js";

const settings = workerData as WorkerSettings;
const post = (message: WorkerMessage, ports: MessagePort[] = []) => parentPort?.postMessage(message, ports);

interface Ready {
  task: AnyTask;
  env: unknown;
  players: SessionSource;
  mcpServers: McpServers | undefined;
  /** Where the task's own code plays. */
  agents: Agents | undefined;
  pauses: Pauses | undefined;
}

/** What closes the things that this thread holds. A thread that is just ended closes nothing. */
const closings: (() => Promise<void>)[] = [];

function closeOnDemand(what: string, close: () => unknown): void {
  closings.push(async () => {
    try {
      await close();
    } catch (error) {
      post({ kind: "note", text: `${what} was not closed: ${messageOf(error)}` });
    }
  });
}

function heedDemands(): void {
  const { port1, port2 } = new MessageChannel();
  port1.on("message", (demand: ThreadDemand) => {
    if (demand === "answer") port1.postMessage(null);
    else void Promise.all(closings.map((close) => close())).then(() => port1.close());
  });
  // Does not keep the thread alive.
  port1.unref();
  post({ kind: "started", thread: threadId, port: port2 }, [port2]);
}

heedDemands();

/** The agents' endpoint, which is loaded for a task that its own code plays. */
async function openAgents(task: AnyTask, env: unknown): Promise<Agents> {
  const { player, limits } = settings;
  if (player.kind !== "engine") {
    throw new UsageError(
      `the task ${task.name} is played by its own code (rollout), which gets the model that hone runs; give it with --model`,
    );
  }
  const { openAgents } = await import("../agent/agents.js");
  const agents = await openAgents({ task, env, player, limits, onNote: (text) => post({ kind: "note", text }) });
  closeOnDemand("the agents' endpoint", () => agents.close());
  return agents;
}

async function prepare(): Promise<Ready> {
  const { taskSeconds = TASK_SECONDS } = settings.limits;
  const own = await loadTask(settings.task, taskSeconds);
  if (own.rollout && settings.servers) {
    throw new UsageError(
      `the task ${own.name} is played by its own code (rollout), which has its own tools; leave --mcp out`,
    );
  }
  const mcpServers =
    settings.servers && new (await import("../agent/mcp/servers.js")).McpServers(settings.servers, own);
  if (mcpServers) closeOnDemand("an MCP server", () => mcpServers.close());
  const task = mcpServers?.task ?? own;
  const env = await task.open(settings.taskOptions);
  closeOnDemand("an environment", () => task.close(env));
  const agents = task.rollout ? await openAgents(task, env) : undefined;
  const { player } = settings;
  const pauses = player.kind === "engine" ? await outagesOf(player.engine) : undefined;
  const players = await openSessions(player, task, (text) => post({ kind: "note", text }));
  return { task, env, players, mcpServers, agents, pauses };
}

let ready: Promise<Ready> | undefined;

type Member = GroupJob["members"][number];
type Outcome = RolloutOutcome & Partial<Pick<Trajectory, "servers" | "branches" | "agent" | "output">>;

function trajectoryOf(
  { task, players }: Ready,
  { scenario, adapter }: GroupJob,
  member: Member,
  outcome: Outcome,
): Trajectory {
  const { answer, reason, deadlineCause, tokens, ...rest } = outcome;
  return {
    ...member,
    task: task.name,
    scenario,
    player: { ...players.info, adapter },
    maxTurns: settings.limits.maxTurns,
    ...rest,
    ...(answer === undefined ? {} : { answer }),
    ...(deadlineCause === undefined ? {} : { deadlineCause }),
    ...(reason === undefined ? {} : { reason }),
    ...(tokens === undefined ? {} : { tokens }),
  };
}

const waitingOf =
  ({ id }: Member) =>
  (waiting: Waiting) =>
    post({ kind: "waiting", id, thread: threadId, waiting });

/** Tells of what all members wait for before they begin. */
function waitFor(members: readonly Member[], what: string): void {
  for (const member of members) waitingOf(member)({ turn: 0, for: what });
}

async function playMember(
  here: Ready,
  job: GroupJob,
  member: Member,
  session: Session | undefined,
  messages: readonly ChatMessage[],
): Promise<Trajectory> {
  const { task, env, mcpServers, agents } = here;
  const { scenario } = job;
  const onWaiting = waitingOf(member);
  if (!session) {
    const { seed, index } = member;
    const outcome = await (agents as Agents).play({
      scenario: copied(scenario),
      seed,
      index,
      step: job.step,
      onWaiting: (turn, who) => onWaiting({ turn, for: who }),
    });
    return trajectoryOf(here, job, member, outcome);
  }
  if (mcpServers) onWaiting({ turn: 0, for: "its MCP servers" });
  const own = await mcpServers?.begin(member.id, scenario);
  const outcome = await playRollout({
    task: own?.task ?? task,
    scenario,
    env,
    session,
    messages,
    limits: settings.limits,
    pauses: here.pauses,
    folder: own?.folder,
    // A cancelled gather ends the thread; nothing smaller is aborted.
    signal: new AbortController().signal,
    onWaiting,
  }).finally(() => own?.end());
  const events = own?.events() ?? {};
  const served = Object.keys(events).length === 0 ? {} : { servers: events };
  return trajectoryOf(here, job, member, { ...outcome, ...served });
}

/** A promise for each id, resolved when the id arrives through the port. */
function starts(port: MessagePort, ids: readonly string[]): ReadonlyMap<string, Promise<void>> {
  const begin = new Map<string, () => void>();
  const begun = new Map(ids.map((id) => [id, new Promise<void>((resolve) => begin.set(id, resolve))]));
  port.on("message", (id: string) => begin.get(id)?.());
  return begun;
}

/** Plays the members of a group concurrently, each from the time it may begin. */
export default async function playGroup(job: GroupJob): Promise<GroupResult> {
  const { maxTurns } = settings.limits;
  let here: Ready;
  try {
    waitFor(job.members, PREPARING);
    ready ??= prepare();
    here = await ready;
  } catch (error) {
    if (error instanceof HoneError) return { setupError: error.message };
    throw error;
  }
  const failed = (id: string, error: unknown) => post({ kind: "failed", failure: { id, error: messageOf(error) } });
  let sessions: Session[] = [];
  let messages: readonly ChatMessage[] = [];
  try {
    waitFor(job.members, "the task's prompt");
    if (!here.agents) {
      const first = opening(here.task, job.scenario, maxTurns);
      sessions = here.players.start(first, job);
      messages = first.messages;
    }
  } catch (error) {
    for (const { id } of job.members) failed(id, error);
    return null;
  }
  waitFor(job.members, TURN_TO_BEGIN);
  const mayBegin = starts(
    job.begin,
    job.members.map(({ id }) => id),
  );
  await Promise.all(
    job.members.map(async (member, position) => {
      const session = sessions[position];
      try {
        await mayBegin.get(member.id);
        post({ kind: "done", trajectory: await playMember(here, job, member, session, messages) });
      } catch (error) {
        failed(member.id, error);
      } finally {
        session?.close();
      }
    }),
  );
  return null;
}
