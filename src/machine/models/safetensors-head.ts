/** Reads the header of a safetensors file: names and shapes of its tensors, not their data. */
import { z } from "zod";
import { HoneError } from "../../core/util/errors.js";
import { OpenFile } from "../../core/util/files.js";

/** The format's own limit of a header's length. */
const MAX_HEAD = 100_000_000;

/** Bytes of a number by the format's name of its type, which ends in its bits or goes on with their split: "BF16", "F8_E4M3". */
const bytesOf = (type: string) => (type === "BOOL" ? 1 : Number(/^[A-Z]+(\d+)/.exec(type)?.[1]) / 8);

const count = z.number().int().nonnegative();
const tensorSchema = z
  .object({ dtype: z.string(), shape: z.array(count), data_offsets: z.tuple([count, count]) })
  .refine(({ dtype, shape, data_offsets: [start, end] }) => {
    const bytes = shape.reduce((product, size) => product * size, bytesOf(dtype));
    return end - start === bytes;
  });
const headSchema = z.object({ __metadata__: z.unknown() }).catchall(tensorSchema);

/**
 * Shapes by tensor name.
 * @throws HoneError when the file is truncated, or not a safetensors file
 */
export function readHead(file: string, name: string): Map<string, readonly number[]> {
  using opened = new OpenFile(file);
  const { size } = opened;
  const broken = (why: string) => new HoneError(`${name} is not whole (${why}): download or copy it again`);
  const start = opened.bytes(0, 8);
  if (start.length < 8) throw broken(`${size} bytes`);
  const length = Number(start.readBigUInt64LE(0));
  if (length > MAX_HEAD || length + 8 > size) throw broken("its header does not end");
  const text = opened.bytes(8, length);
  let head: z.output<typeof headSchema>;
  try {
    head = headSchema.parse(JSON.parse(text.toString("utf8")));
  } catch {
    throw broken("its header does not describe tensors");
  }
  const { __metadata__: _, ...tensors } = head;
  const ends = Object.values(tensors).map(({ data_offsets: [, end] }) => end);
  const whole = ends.reduce((most, end) => Math.max(most, end), 0) + 8 + length;
  if (whole !== size) throw broken(`${size} bytes, its header says ${whole}`);
  return new Map(Object.entries(tensors).map(([tensor, { shape }]) => [tensor, shape]));
}
