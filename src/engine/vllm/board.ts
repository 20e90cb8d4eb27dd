/**
 * What the threads of a process must agree on while they use the same vLLM servers: the adapter in force, which servers
 * answer, and how many sequences and turns each has. Numbers in shared memory, changed by atomic operations.
 */
import { HoneError } from "../../core/util/errors.js";

const VERSION = 0;
/** Milliseconds, wrapping, without any server so far. */
const OUTAGE = 1;
/** 1 once no server is to be waited for any more. */
const GIVEN_UP = 2;
const HEAD = 3;
/** Numbers of a server. */
const ANSWERS = 0;
const LOSSES = 1;
const SEQUENCES = 2;
const PER_SERVER = 3;
/** Turns are counted by their adapter's version modulo this: only the newest few versions have any. */
const TURNS = 16;

export class Board {
  readonly memory: SharedArrayBuffer;
  readonly servers: number;
  readonly #numbers: Int32Array;

  private constructor(memory: SharedArrayBuffer) {
    this.memory = memory;
    this.#numbers = new Int32Array(memory);
    this.servers = (this.#numbers.length - HEAD - TURNS) / PER_SERVER;
  }

  static of(servers: number): Board {
    return new Board(new SharedArrayBuffer(4 * (HEAD + TURNS + PER_SERVER * servers)));
  }

  /** The board that another thread has made. */
  static at(memory: SharedArrayBuffer): Board {
    return new Board(memory);
  }

  /** Number of the adapter in force; 0 is the base model. */
  get version(): number {
    return Atomics.load(this.#numbers, VERSION);
  }

  set version(version: number) {
    Atomics.store(this.#numbers, VERSION, version);
  }

  /** Milliseconds in which no server answered; `since` a number of before, as the counter wraps. */
  outage(since = 0): number {
    return (Atomics.load(this.#numbers, OUTAGE) - since) | 0;
  }

  addOutage(milliseconds: number): void {
    Atomics.add(this.#numbers, OUTAGE, Math.round(milliseconds));
  }

  /** No server answers, and none will. */
  giveUp(): void {
    Atomics.store(this.#numbers, GIVEN_UP, 1);
  }

  /** To be called before a server is waited for. @throws HoneError where none will answer */
  checkHope(): void {
    if (Atomics.load(this.#numbers, GIVEN_UP) === 0) return;
    throw new HoneError("the vLLM server that hone started has ended too often, and is not started again");
  }

  answers(server: number): boolean {
    return this.#get(server, ANSWERS) === 1;
  }

  /** Servers that answer. */
  answering(): number[] {
    return Array.from({ length: this.servers }, (_, server) => server).filter((server) => this.answers(server));
  }

  join(server: number): void {
    Atomics.store(this.#numbers, this.#place(server, ANSWERS), 1);
  }

  /** How often the server was lost: a turn that began before another loss is played elsewhere. */
  losses(server: number): number {
    return this.#get(server, LOSSES);
  }

  /** Notes once that a server no longer answers. @returns whether it did until now */
  lose(server: number): boolean {
    if (Atomics.exchange(this.#numbers, this.#place(server, ANSWERS), 0) === 0) return false;
    Atomics.add(this.#numbers, this.#place(server, LOSSES), 1);
    return true;
  }

  /** The answering server with the fewest open sequences, which gets `count` more; undefined where none answers. */
  assign(count: number): number | undefined {
    const load = (server: number) => this.#get(server, SEQUENCES);
    const [first, ...others] = this.answering();
    if (first === undefined) return undefined;
    const chosen = others.reduce((least, one) => (load(one) < load(least) ? one : least), first);
    Atomics.add(this.#numbers, this.#place(chosen, SEQUENCES), count);
    return chosen;
  }

  release(server: number, count: number): void {
    Atomics.sub(this.#numbers, this.#place(server, SEQUENCES), count);
  }

  /** Not of the base model, which is never unloaded. */
  beginTurn(version: number): void {
    Atomics.add(this.#numbers, this.#turns(version), 1);
  }

  endTurn(version: number): void {
    Atomics.sub(this.#numbers, this.#turns(version), 1);
  }

  /** Turns that run with this adapter. */
  turns(version: number): number {
    return Atomics.load(this.#numbers, this.#turns(version));
  }

  #turns(version: number): number {
    return HEAD + (version % TURNS);
  }

  #place(server: number, number: number): number {
    return HEAD + TURNS + PER_SERVER * server + number;
  }

  #get(server: number, number: number): number {
    return Atomics.load(this.#numbers, this.#place(server, number));
  }
}
