/**
 * The code of one rollout worker (a piscina thread): it loads the task, opens its environment, and plays whole groups. The
 * JavaScript of many rollouts runs here concurrently; the engine or API they wait for runs elsewhere.
 */
import { MessageChannel, type MessagePort, parentPort, threadId } from "node:worker_threads";
import { workerData } from "piscina";
import { ToolServers } from "../mcp/index.js";
import { type AnyTask, loadTask, type Scenario } from "../tasks/index.js";
import { HoneError, messageOf } from "../util/index.js";
import type { GroupJob, GroupResult, WorkerMessage, WorkerSettings } from "./job.js";
import { opening, playRollout } from "./rollout.js";
import type { Session } from "./session.js";
import { openSessions, type SessionSource } from "./session-source.js";
import type { Trajectory } from "./trajectory.js";

const settings = workerData as WorkerSettings;
const post = (message: WorkerMessage, ports: MessagePort[] = []) => parentPort?.postMessage(message, ports);

interface Ready {
  task: AnyTask;
  env: unknown;
  players: SessionSource;
  servers: ToolServers | undefined;
}

/** A thread that is just ended never takes leave of its children: the process would keep their remains. */
function endWhenTold(servers: ToolServers): void {
  const { port1, port2 } = new MessageChannel();
  port1.once("message", () => void servers.close().then(() => port1.close()));
  post({ kind: "holds", end: port2 }, [port2]);
}

async function prepare(): Promise<Ready> {
  const own = await loadTask(settings.task);
  const servers = settings.servers && new ToolServers(settings.servers, own);
  if (servers) endWhenTold(servers);
  const task = servers?.task ?? own;
  const env = await task.open(settings.taskOptions);
  return { task, env, players: await openSessions(settings.player, task), servers };
}

let ready: Promise<Ready> | undefined;

async function playMember(
  { task, env, players, servers }: Ready,
  scenario: Scenario,
  member: GroupJob["members"][number],
  session: Session,
): Promise<Trajectory> {
  const { limits } = settings;
  const own = await servers?.begin(member.id, scenario);
  const { answer, reason, deadlineCause, tokens, ...outcome } = await playRollout({
    task: own?.task ?? task,
    scenario,
    env,
    session,
    limits,
    folder: own?.folder,
    // A cancelled gather ends the thread; nothing smaller is aborted.
    signal: new AbortController().signal,
    onWaiting: (waiting) => post({ kind: "waiting", id: member.id, thread: threadId, waiting }),
  }).finally(() => own?.end());
  const events = own?.events() ?? {};
  return {
    ...member,
    task: task.name,
    scenario,
    player: players.info,
    maxTurns: limits.maxTurns,
    ...outcome,
    ...(answer === undefined ? {} : { answer }),
    ...(deadlineCause === undefined ? {} : { deadlineCause }),
    ...(reason === undefined ? {} : { reason }),
    ...(Object.keys(events).length === 0 ? {} : { servers: events }),
    ...(tokens === undefined ? {} : { tokens }),
  };
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
  let here: Ready;
  try {
    ready ??= prepare();
    here = await ready;
  } catch (error) {
    if (error instanceof HoneError) return { setupError: error.message };
    throw error;
  }
  const failed = (id: string, error: unknown) => post({ kind: "failed", failure: { id, error: messageOf(error) } });
  let sessions: Session[];
  try {
    sessions = here.players.start(opening(here.task, job.scenario, settings.limits.maxTurns), job);
  } catch (error) {
    for (const { id } of job.members) failed(id, error);
    return null;
  }
  const mayBegin = starts(
    job.begin,
    job.members.map(({ id }) => id),
  );
  await Promise.all(
    job.members.map(async (member, position) => {
      const session = sessions[position] as Session;
      try {
        await mayBegin.get(member.id);
        post({ kind: "done", trajectory: await playMember(here, job.scenario, member, session) });
      } catch (error) {
        failed(member.id, error);
      } finally {
        session.close();
      }
    }),
  );
  return null;
}
