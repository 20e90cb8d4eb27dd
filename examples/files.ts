/**
 * A whole task whose tools come from an MCP server: find a number in a folder of small files.
 *
 *     npm install @modelcontextprotocol/server-filesystem    # not needed in a clone of hone, which has it
 *     yarn rollout --task examples/files.ts --expert --n 2 --group-size 1 --show
 *
 * Every rollout has a server of its own, in a folder of its own that `setup` fills. docs/mcp.md explains it.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { composeReward, defineTask, exactMatch, Random, type Scenario } from "@hone-rl/hone";

const ROOMS = ["kitchen", "cellar", "attic", "garage", "office"];
const THINGS = ["plates", "lamps", "chairs", "boxes", "ropes", "books"];

interface FilesScenario extends Scenario {
  /** Name and text of each file. */
  readonly files: Readonly<Record<string, string>>;
  readonly room: string;
  readonly answer: string;
}

function scenarioOf(seed: number, index: number): FilesScenario {
  const random = new Random("files", seed, index);
  const rooms = random.sample(ROOMS, 3);
  const counts = rooms.map(() => random.sample(THINGS, 3).map((thing) => ({ thing, count: random.integer(2, 99) })));
  const at = random.integer(0, rooms.length - 1);
  const asked = random.pick(counts[at] as { thing: string; count: number }[]);
  return {
    id: `files-${seed}-${index}`,
    split: index % 4 === 0 ? "test" : "train",
    question: `How many ${asked.thing} are in the ${rooms[at]}?`,
    files: Object.fromEntries(
      rooms.map((room, i) => [
        `${room}.txt`,
        (counts[i] ?? []).map(({ thing, count }) => `${thing}: ${count}\n`).join(""),
      ]),
    ),
    room: rooms[at] as string,
    answer: String(asked.count),
  };
}

export default defineTask<FilesScenario>({
  name: "files",
  description: "Find a number in a folder of small files, with the tools of an MCP server",
  scenarios: ({ seed }) => Array.from({ length: 200 }, (_, index) => scenarioOf(seed, index)),
  mcp: {
    servers: {
      files: {
        command: "node_modules/.bin/mcp-server-filesystem",
        args: ["${rolloutFolder}"],
        cwd: "${workspaceFolder}/..",
      },
    },
    allow: ["list_directory", "read_text_file"],
    setup: (folder, { files }) => {
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    },
  },
  prompt: ({ question }, { maxTurns }) => [
    {
      role: "system",
      content: `Answer a question from the files in the folder ".", with one number and nothing else. You have ${maxTurns} turns.`,
    },
    { role: "user", content: question },
  ],
  reward: composeReward<FilesScenario>({
    parts: {
      right: { weight: 1, score: exactMatch(({ answer }) => answer) },
      // Worth something by itself: a model that guesses at paths sees no file.
      read: {
        weight: 0.2,
        score: ({ calls }) => calls.some(({ name, outcome }) => name.startsWith("read") && outcome === "ok"),
      },
    },
    success: "right",
  }),

  /** Lists the folder, reads the room's file; the mistake it can make is to read another. */
  *expert({ question, room, files }, random, { mistakes = 0 }) {
    const share = typeof mistakes === "number" ? mistakes : (mistakes.other_room ?? 0);
    const names = Object.keys(files);
    const file = random.chance(share) ? random.pick(names) : `${room}.txt`;
    yield [{ name: "list_directory", arguments: { path: "." } }];
    const [read] = yield [{ name: "read_text_file", arguments: { path: file } }];
    const thing = /How many (\w+)/.exec(question)?.[1];
    yield new RegExp(`${thing}: (\\d+)`).exec(String(read?.result))?.[1] ?? "0";
  },
});
