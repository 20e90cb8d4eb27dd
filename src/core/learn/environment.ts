/** Variables that the learner's process is started with. */
import { cpus } from "node:os";
import { join } from "node:path";
import { cacheHome } from "../util/paths.js";
import { hone } from "../util/program.js";

/**
 * MKL's products otherwise depend, in their last bits, on where in memory their operands are: then an update computed again is
 * another one. MKL has this mode for Intel's processors; on others its products stay as they are.
 */
const sameBits = (): NodeJS.ProcessEnv =>
  /intel/i.test(cpus()[0]?.model ?? "") ? { MKL_CBWR: process.env.MKL_CBWR ?? "AUTO,STRICT" } : {};

/**
 * What the learner's libraries are told when they are loaded.
 * @param ggml the engine's own library, which on a CPU computes the values of quantised weights
 */
export const learnerEnvironment = (threads: number, ggml: string | undefined): NodeJS.ProcessEnv => ({
  HONE_DOCTOR: hone("doctor"),
  HONE_GGML: ggml,
  // Read when PyTorch is imported: its own thread pool must not be larger than granted.
  OMP_NUM_THREADS: String(threads),
  ...sameBits(),
  // Waiting threads give up their core quickly: where others need it, spinning halves the speed.
  OMP_WAIT_POLICY: process.env.OMP_WAIT_POLICY ?? "passive",
  GOMP_SPINCOUNT: process.env.GOMP_SPINCOUNT ?? "10000",
  // Huge pages for allocations: an update allocates and frees gigabytes, which page by page takes a tenth of its time.
  // Allocations above a threshold are mapped separately and returned when freed. glibc raises its threshold up to 32
  // MiB by itself; the holes that tensors then leave in the heap take as much memory again as the tensors. Where there
  // is room for them the learner raises it (native/learner/heap.py).
  GLIBC_TUNABLES: process.env.GLIBC_TUNABLES ?? "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1048576",
  // The model is on this disk; no library may ask the network for it.
  HF_HUB_OFFLINE: "1",
  TOKENIZERS_PARALLELISM: "false",
  // Kernels that PyTorch's compiler has made for this card, and Triton's in the same folder. Its own choice is the
  // temporary folder, which is emptied at a reboot: the next first update would compile for minutes again.
  TORCHINDUCTOR_CACHE_DIR: process.env.TORCHINDUCTOR_CACHE_DIR ?? join(cacheHome(), "hone", "kernels"),
});
