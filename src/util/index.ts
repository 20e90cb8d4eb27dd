/** Helpers without a subject of hone's own, used by every room. */

export { addonFile, platformPackage } from "./binaries.js";
export { textWithin } from "./bounded.js";
export { codeOf, HoneError, messageOf, refusalOf, UnfinishedError, UsageError } from "./errors.js";
export { flush, LineFile, moveDurably, sha256OfFile, writeDurably } from "./files.js";
export { withHeartbeat } from "./heartbeat.js";
export { hasBigint, mapBigints, parseJson, toJson, withDigits, withMarks } from "./json.js";
export { lockExclusively, tryLock, withLock } from "./lock.js";
export { nearest } from "./nearest.js";
export { originOf, withOrigin } from "./origin.js";
export { cacheHome, expandHome, packageRoot } from "./paths.js";
export { isMalformed, referred } from "./pointer.js";
export { hone, isInstalled, program, reinstall } from "./program.js";
export { deriveSeed, Random } from "./random.js";
export { lastLine, type OnLine, run } from "./run.js";
export { anyOf } from "./signals.js";
export { openDatabase } from "./sqlite.js";
export { clock, cutText, type Paint, painter, printable, printableJson, printableStyled } from "./text.js";
export { spawnTied } from "./tied.js";
export { awakeTime, type Pauses, TimeLimit } from "./time-limit.js";
export { importScript, importUserFile } from "./user-file.js";
export { type Allowed, allowExit, endProcess, guarded, onLost, timed, timedNow } from "./watch.js";
export { onWrapperEnd } from "./wrapper.js";
