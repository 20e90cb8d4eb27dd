/** Loads a local engine, or joins the one that another thread of this process has loaded. */
import { appendFileSync, realpathSync, statSync } from "node:fs";
import { basename } from "node:path";
import { isMainThread } from "node:worker_threads";
import type { Gpu, LocalEngine, LocalEngineInfo, LocalEngineOptions } from "../core/engine/engine.js";
import { engineError } from "../core/engine/errors.js";
import { HoneError, messageOf } from "../core/util/errors.js";
import { endProcess } from "../core/util/watch.js";
import { type Addon, gpuOf, type NativeEngine, type NativeSettings, openAddon } from "./addon.js";
import { whileCompiling } from "./compiling.js";
import { contextsOf, pooledByDefault, SCORE_ROWS } from "./contexts.js";
import { drawsOnDevice } from "./engine-options.js";
import { governorOf } from "./governor.js";
import { MOST_SECONDS, watchDevice } from "./hang.js";
import { checkSound, hasLongFactors, header, modelShape, trainedContext } from "./models.js";
import { LlamaEngine } from "./native.js";
import { sumIn32Bits } from "./sums.js";
import { usableCores } from "./threads.js";

/**
 * Idle sequences between running ones that get a token too, instead of a second pass over the weights (see
 * `SchedulerSettings::fillGap`). A pass on a GPU costs reading the weights; a CPU pays for each row too.
 */
const FILL_GAP = { cpu: 2, gpu: 16 };

/**
 * Highest number of rows of a pass on a Vulkan device with subgroups of 4: llvmpipe with vectors of 128 bits, as on
 * processors without AVX. llvmpipe's subgroups are as wide as its vectors, and say so in its name. llama.cpp's small tile of
 * a matrix product (32 columns; taken for adapters of rank 32 and less) then lets invocations beyond the tile write into
 * the next 32 columns: log-probabilities of later rows are wrong, and differ from run to run. Up to 32 columns there is
 * no next tile.
 */
const ROWS_OF_SUBGROUPS_OF_4 = 32;

function mostRows(devices: readonly { readonly isGpu: boolean; readonly description: string }[]): number {
  const narrow = devices.some(({ isGpu, description }) => isGpu && /^llvmpipe .*\b128 bits/.test(description));
  return narrow ? ROWS_OF_SUBGROUPS_OF_4 : Number.POSITIVE_INFINITY;
}

function settingsOf(options: LocalEngineOptions, addon: Pick<Addon, "devices" | "mostSequences">): NativeSettings {
  const devices = addon.devices();
  const gpu = options.onHost ? false : gpuOf(devices);
  const useGpu = gpu !== false;
  let model: string;
  try {
    model = realpathSync(options.model);
  } catch (error) {
    throw new HoneError(`the model file ${options.model} cannot be read: ${messageOf(error)}`, { cause: error });
  }
  const { lanes, ubatch: asked, ...contexts } = contextsOf(options, statSync(model).size, gpu);
  const { sequences } = options;
  const settings = {
    model,
    name: options.name ?? "",
    useGpu,
    ...contexts,
    sequences,
    contextPerSequence: options.contextPerSequence,
    ubatch: Math.min(asked, mostRows(devices)),
    outputs: sequences + SCORE_ROWS,
    exact: options.exact ?? false,
    fillGap: useGpu ? FILL_GAP.gpu : FILL_GAP.cpu,
    samplingThreads: useGpu ? Math.min(16, usableCores()) : 1,
  };
  const pooled = options.pooledKv ?? (useGpu && pooledByDefault(settings, lanes, settings.ubatch));
  const pooledKv = pooled && !hasLongFactors(header(model));
  const mostSequences = addon.mostSequences();
  const most = pooledKv ? Math.floor(mostSequences / 2) : mostSequences; // padding has as many again
  if (Math.ceil(sequences / lanes) > most) {
    const all = lanes === 1 ? "" : `, ${lanes * most} in ${lanes} lanes`;
    throw new HoneError(
      `${sequences} sequences at once are too many: llama.cpp evaluates at most ${most} in one context${all}; ask for fewer (--concurrency)`,
    );
  }
  const steadyShapes = options.steadyShapes ?? useGpu;
  const drawOnDevice = drawsOnDevice(options.sampling, gpuOf(devices));
  const drawUntried = options.untried ?? false;
  const own = { ownDecoder: options.decoder === "own", whyLlama: "" };
  return { ...settings, lanes, pooledKv, steadyShapes, drawOnDevice, drawUntried, ...own };
}

function infoOf(addon: Addon, native: NativeEngine, settings: NativeSettings): LocalEngineInfo {
  const {
    bos,
    eos,
    eot,
    pad,
    controlTokens,
    addedTokens,
    endTokens,
    whyHost: _,
    whyLlama: __,
    ...facts
  } = native.info();
  const { device, offloadedLayers, layers, kv, flashAttention, sampling, adapters, ...info } = facts;
  const devices = addon.devices();
  const used = devices.filter((one) => (device === "" ? !one.isGpu : one.name === device)).slice(0, 1);
  return {
    ...info,
    model: settings.model,
    special: { bos, eos, eot, pad },
    controlTokens: new Map(controlTokens),
    addedTokens: new Map(addedTokens),
    endTokens: [...endTokens],
    sequences: settings.sequences,
    replicas: settings.lanes,
    contextPerSequence: settings.contextPerSequence,
    batch: settings.batch,
    ubatch: settings.ubatch,
    threads: settings.threads,
    lanes: settings.lanes,
    devices: devices.map((device) => device.description),
    gpu: gpuOf(devices),
    compute: {
      backend: gpuOf(used) || "cpu",
      device: used[0]?.description ?? device,
      offloadedLayers,
      layers,
      weights: info.weightType,
      kv,
      flashAttention,
      sampling,
      ...(adapters === "" ? {} : { adapters }),
    },
    llamaVersion: addon.llamaVersion() ?? "",
  };
}

/**
 * The first call of a process must come from its main thread. Later calls for the same model file and name, from any
 * thread, share that engine's weights, contexts and decode threads; each caller must close it.
 *
 * @param log reports when the engine yields to other programs and when it stops yielding; when a GPU compiles for long; when
 * the device does not draw tokens although it should; and passes and threads of which it has fewer than asked
 * @throws HoneError when the model or the addon cannot be loaded, or the engine exists with other settings;
 * EngineOutOfMemory for a lack of memory
 */
export async function loadLocal(options: LocalEngineOptions, log?: (line: string) => void): Promise<LocalEngine> {
  const addon = await openAddon(options.gpu ?? "auto", options.device);
  const settings = settingsOf(options, addon);
  try {
    // A worker joins what the main thread has loaded.
    if (isMainThread) checkSound(settings.model);
    const gpu = gpuOf(addon.devices());
    // Before loading, since its warm-up computes.
    if (isMainThread && gpu === "cuda") sumIn32Bits(gpu, (await modelShape(settings.model)).weightType);
    if (isMainThread && settings.ownDecoder && !settings.drawUntried) {
      const { whyLlama } = await import("./own-decoder.js");
      settings.whyLlama = await whyLlama(addon, settings, log);
    }
    const native = await whileCompiling(addon, log, () => addon.load(settings), basename(settings.model));
    const { whyHost, whyLlama: why } = native.info();
    if (isMainThread && settings.ubatch < (options.ubatch ?? 0)) {
      log?.(
        `a pass has ${settings.ubatch} tokens at most, not ${options.ubatch}: this device computes longer ones wrongly`,
      );
    }
    if (isMainThread && settings.threads < (options.threads ?? 0)) {
      log?.(`--threads ${options.threads}: the engine has ${settings.threads}, as many as the cores that hone may use`);
    }
    if (isMainThread && whyHost !== "") log?.(`tokens are sampled on the host, not on the device: ${whyHost}`);
    if (isMainThread && why !== "") log?.(`llama.cpp's graph plays, and not hone's own (--decoder own): ${why}`);
    // Workers join an engine that the main thread governs. On a GPU threads do little work. Lanes of one thread share the
    // cores with other programs by the system's scheduling.
    const meet = settings.threads > settings.lanes;
    const governed = isMainThread && options.threads === undefined && !settings.useGpu && meet;
    const governor = governed ? governorOf(native, settings.threads, log) : undefined;
    const info = { ...infoOf(addon, native, settings), trainedContext: await trainedContext(settings.model) };
    const hangs = `the GPU hangs: ${info.compute.device} has not ended a batch for ${MOST_SECONDS} s; its driver may say why (dmesg)`;
    const unwatch =
      isMainThread && settings.useGpu
        ? watchDevice(
            native,
            () => addon.warming(),
            () => endProcess(hangs),
          )
        : undefined;
    const decoder = settings.ownDecoder && why === "" ? "own" : "llama";
    return new LlamaEngine(addon, native, info, { governor, unwatch, log, decoder });
  } catch (error) {
    throw engineError(error);
  }
}

/** Bytes of the GPU that an engine of this process would use; null where there is none. Loads llama.cpp, but no model. */
export async function gpuMemory(
  gpu: Gpu,
): Promise<{ kind: LocalEngineInfo["gpu"]; name: string; total: number; free: number } | null> {
  const devices = (await openAddon(gpu)).devices();
  const device = devices.find(({ isGpu }) => isGpu);
  if (!device) return null;
  return { kind: gpuOf(devices), name: device.description, total: device.totalBytes, free: device.freeBytes };
}

/**
 * Receives llama.cpp's warnings and errors on this thread; null, the default, drops them. One listener per process.
 *
 * @param gpu as for the engine that is loaded afterwards: the first call of a process chooses llama.cpp's build
 */
export async function onEngineLog(
  listener: ((level: "warning" | "error", line: string) => void) | null,
  gpu: Gpu = "auto",
): Promise<void> {
  (await openAddon(gpu)).onLog(listener);
}

/** As {@link onEngineLog}: writes llama.cpp's warnings and errors to `file` until the returned function is called. */
export async function logEngine(file: string, gpu: Gpu): Promise<() => Promise<void>> {
  const write = (level: string, line: string) => {
    try {
      appendFileSync(file, `${level}: ${line}\n`);
    } catch {
      // A log that cannot be written must not end the process: llama.cpp calls this outside of any work that could fail.
    }
  };
  await onEngineLog(write, gpu);
  return () => onEngineLog(null, gpu);
}
