// Handles hundreds of thousands of events in bursts, with duplicates, outages of the platform, and killed processes.
import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Order, Report, Sample, WorkerOptions } from "./endurance-worker.ts";
import { bytesOf, makePlace, openStore, type Place, type StoreName } from "./places.ts";
import type { Row } from "./table.ts";

const BURST = 2000;
const CONNECTIONS = 25;
/** Every 20th notification is sent twice. */
const DUPLICATE = 20;
const RECORDS = 5000;
/** Limit of pending events, so that the run ends soon after its last event. */
const MOST_WAITING = 20_000;
/** A process is killed, or the platform goes down, when these shares of the events are handled. */
const KILLS = [0.15, 0.3, 0.45, 0.6, 0.75];
const OUTAGES = [0.25, 0.65];
const OUTAGE = 2000;
/** Limit of concurrent events per process. It includes events whose result is being recorded. */
const IN_FLIGHT = 20;
/** The run fails if no event is handled for this long, in ms. */
const STALL = 90_000;

/** A process, and its replacements after kills. */
class Worker {
  handled = 0;
  kills = 0;
  readonly #options: Omit<WorkerOptions, "log">;
  readonly #logs: string;
  #before = 0;
  #child: ChildProcess | undefined;
  #port: number | undefined;

  constructor(place: Place, logs: string) {
    this.#options = { place };
    this.#logs = logs;
  }

  get port(): number | undefined {
    return this.#port;
  }

  async start(): Promise<void> {
    const log = join(this.#logs, `${this.kills > 0 ? "after-kill" : "first"}-${randomUUID()}`);
    const file = join(import.meta.dirname, "endurance-worker.ts");
    const options = JSON.stringify({ ...this.#options, log } satisfies WorkerOptions);
    const child = fork(file, [options], { execArgv: ["--expose-gc"] });
    this.#child = child;
    const port = await new Promise<number>((resolve, reject) => {
      child.on("exit", (code) => reject(new Error(`a worker ended with ${code}`)));
      child.on("message", (report: Report) => {
        if ("port" in report) resolve(report.port);
        if ("handled" in report && child === this.#child) this.handled = this.#before + report.handled;
      });
    });
    this.#port = port;
  }

  async kill(): Promise<void> {
    const child = this.#child!;
    this.#port = undefined;
    child.kill("SIGKILL");
    await once(child, "exit");
    this.kills += 1;
    this.#before = this.handled;
    await this.start();
  }

  tell(order: Order): void {
    this.#child?.send(order);
  }

  async sample(): Promise<Sample> {
    this.tell("sample");
    for (;;) {
      const [report] = (await once(this.#child!, "message")) as [Report];
      if ("sample" in report) return report.sample;
    }
  }

  async close(): Promise<void> {
    const ended = once(this.#child!, "exit");
    this.tell("close");
    await ended;
  }

  end(): void {
    this.#child?.kill("SIGKILL");
  }
}

/** Sends each notification until a process answers 200, as the platform does. */
class Sender {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  readonly #workers: readonly Worker[];
  readonly answered: string[] = [];
  again = 0;
  #turn = 0;

  constructor(workers: readonly Worker[]) {
    this.#workers = workers;
  }

  async burst(count: number): Promise<void> {
    let left = count;
    const send = async (): Promise<void> => {
      while (left-- > 0) {
        const eventId = randomUUID();
        const number = Math.floor(Math.random() * RECORDS);
        const bookingCode = `HM${String(number).padStart(6, "0")}`;
        const body = JSON.stringify({ eventId, bookingCode, listingId: null, timestamp: new Date() });
        await this.#deliver(body);
        this.answered.push(eventId);
        if (this.answered.length % DUPLICATE !== 0) continue;
        await this.#deliver(body);
        this.again += 1;
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, send));
  }

  close(): void {
    this.#agent.destroy();
  }

  async #deliver(body: string): Promise<void> {
    for (let tries = 0; tries < 2000; tries++) {
      const { port } = this.#workers[this.#turn++ % this.#workers.length]!;
      if (port !== undefined && (await this.#post(port, body).catch(() => 0)) === 200) return;
      await sleep(20);
    }
    throw new Error("a notification was not answered 200 in 2,000 tries");
  }

  #post(port: number, body: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const headers = { "content-type": "application/json" };
      const sent = request(
        { host: "127.0.0.1", port, method: "POST", headers, agent: this.#agent, timeout: 30_000 },
        (answer) => {
          answer.resume().on("end", () => resolve(answer.statusCode ?? 0));
        },
      );
      sent.on("error", reject).on("timeout", () => sent.destroy(new Error("no answer")));
      sent.end(body);
    });
  }
}

interface Measured extends Sample {
  readonly file: number | undefined;
}

async function endure(place: Place, events: number, logs: string): Promise<Row> {
  const startedAt = performance.now();
  const steady = new Worker(place, logs);
  const killed = new Worker(place, logs);
  const workers = [steady, killed];
  const samples: Measured[] = [];
  const sender = new Sender(workers);
  const handled = () => steady.handled + killed.handled;
  try {
    for (const worker of workers) await worker.start();
    const sending = (async () => {
      while (sender.answered.length < events) {
        if (sender.answered.length - handled() < MOST_WAITING)
          await sender.burst(Math.min(BURST, events - sender.answered.length));
        await sleep(50);
      }
    })();
    const kills = [...KILLS];
    const outages = [...OUTAGES];
    let [last, lastAt] = [0, performance.now()];
    let failure: unknown;
    sending.catch((error) => {
      failure = error;
    });
    const store = openStore(place);
    for (let isLeft = true; isLeft; ) {
      await sleep(100);
      if (failure !== undefined) throw failure;
      const share = handled() / events;
      if (handled() !== last) [last, lastAt] = [handled(), performance.now()];
      if (performance.now() - lastAt > STALL)
        throw new Error(`nothing was handled for ${STALL} ms, at ${last}`);
      if (share >= (kills[0] ?? 2)) {
        kills.shift();
        await killed.kill();
      }
      if (share >= (outages[0] ?? 2)) {
        outages.shift();
        for (const worker of workers) worker.tell({ outage: true });
        await sleep(OUTAGE);
        for (const worker of workers) worker.tell({ outage: false });
      }
      if (share * 10 >= samples.length + 1)
        samples.push({ ...(await steady.sample()), file: bytesOf(place) });
      if (sender.answered.length < events) continue;
      const { pending, processing, retrying } = await store.counts();
      isLeft = pending + processing + retrying > 0;
    }
    await store.close();
    await sending;
    samples.push({ ...(await steady.sample()), file: bytesOf(place) });
    const took = performance.now() - startedAt;
    for (const worker of workers) await worker.close();
    return rowOf(place.store, sender, killed.kills, samples, runsIn(logs), took);
  } finally {
    sender.close();
    for (const worker of workers) worker.end();
  }
}

interface Runs {
  readonly events: ReadonlySet<string>;
  /** Events that ran again after their process was killed. */
  readonly inFlight: number;
  /** Events that ran again for another reason. */
  readonly twice: number;
}

/**
 * Counts the runs of each event. Each process has its own file of event ids. A kill can have interrupted only the
 * events of the last `IN_FLIGHT` ids in a file.
 */
function runsIn(logs: string): Runs {
  const files = readdirSync(logs).map((name) => readFileSync(join(logs, name), "utf8").trimEnd().split("\n"));
  const last = new Set(files.flatMap((ids) => ids.slice(-IN_FLIGHT)));
  const events = new Set<string>();
  const again = files.flat().filter((eventId) => events.has(eventId) || !events.add(eventId));
  const inFlight = again.filter((eventId) => last.has(eventId)).length;
  return { events, inFlight, twice: again.length - inFlight };
}

function rowOf(
  store: string,
  { answered, again }: Sender,
  kills: number,
  samples: readonly Measured[],
  runs: Runs,
  took: number,
): Row {
  const lost = answered.filter((eventId) => !runs.events.has(eventId)).length;
  const heap = flat(samples.map((sample) => sample.heap / 2 ** 20));
  const file = flat(samples.map((sample) => (sample.file ?? 0) / 2 ** 20));
  const open = flat(samples.map((sample) => sample.files));
  const grows = heap.last > heap.first + 16 || file.last > file.first + 64 || open.last > open.first + 10;
  return {
    cells: {
      store,
      events: answered.length.toLocaleString("en"),
      duplicates: again.toLocaleString("en"),
      seconds: (took / 1000).toFixed(0),
      kills: String(kills),
      lost: String(lost),
      "repeated, in flight at a kill": String(runs.inFlight),
      "repeated, not in flight": String(runs.twice),
      "heap, MB": heap.text,
      "database, MB": samples[0]?.file === undefined ? "" : file.text,
      "open files": open.text,
    },
    failed: lost > 0 || runs.twice > 0 || runs.inFlight > kills * IN_FLIGHT || grows,
  };
}

/** Returns the value after a fifth of the run, and the last value. */
function flat(values: readonly number[]): { first: number; last: number; text: string } {
  const [first = 0, last = 0] = [values[1] ?? values[0], values.at(-1)];
  return { first, last, text: `${first.toFixed(0)} to ${last.toFixed(0)}` };
}

/** Runs the stores one after the other. Each takes a few minutes. */
export async function endurance(names: readonly StoreName[], events: number): Promise<Row[]> {
  const rows: Row[] = [];
  for (const name of names) {
    const place = await makePlace(name);
    if (place === undefined) continue;
    const logs = mkdtempSync(join(tmpdir(), "stayhook-soak-logs-"));
    try {
      rows.push(await endure({ store: place.store, at: place.at, name: place.name }, events, logs));
      console.log(`${name}: ${JSON.stringify(rows.at(-1)?.cells)}`);
    } finally {
      await place.remove();
      rmSync(logs, { recursive: true, force: true });
    }
  }
  return rows;
}
