/** Pages whose few numbers the code declares. */
import type { Declared, Source } from "./source.js";

const page = (name: string, declared: readonly Declared[], plain: readonly string[] = []): Source => ({
  page: `docs/${name}.md`,
  measured: [],
  tables: [],
  declared,
  elsewhere: [],
  plain,
});

export const smallPages: readonly Source[] = [
  page("mail", [
    ["300 mailboxes", "src/hone/commands/email/email-options.ts", "default: 300"],
    ["at most 5,000 characters", "src/hone/commands/email/build-db.ts", "maxBody: 5000"],
    ["at most 30 recipients", "src/hone/commands/email/build-db.ts", "maxRecipients: 30"],
    ["(over 64 MiB)", "src/email/import/found.ts", "MAX_MESSAGE_BYTES = 64 * 1024 * 1024"],
    ["before 1980-01-01 UTC", "src/email/import/dates.ts", "Date.UTC(1980, 0, 1)"],
  ]),
  page("run-folder", [
    ["newest `` checkpoints (1)", "src/trainer/training-options.ts", 'default: 1, run: "changeable"'],
    ["(``, 2,000:", "src/insight/insight-options.ts", "default: 2000"],
    ["below 30 MB", "src/insight/view/report-file.ts", "MOST_BYTES = 30e6"],
  ]),
  page("pack", [
    ["driver 525 or newer", "src/engine/device/cuda.ts", "driver: 525"],
    ["driver 580 or newer", "src/engine/device/cuda.ts", "driver: 580"],
    ["run on glibc 2.28", "scripts/package/platforms.mjs", "GLIBC = [2, 28]"],
  ]),
  page(
    "vllm",
    [
      ["vLLM 0.32.0 is tested", "src/engine/vllm/protocol.ts", 'VLLM_VERSION = "0.32.0"'],
      ["sleeps at level 1", "src/engine/vllm/own-server.ts", "level=1"],
      ["`` below 2, several", "src/engine/vllm/checks.ts", "start it with --max-loras 2"],
    ],
    ["(not with rank 1)"],
  ),
];
