import { randomBytes } from "node:crypto";
import { StayhookError } from "../../errors.ts";
import { isOwnRef } from "../own.ts";
import type {
  ClaimedEvent,
  EventState,
  EventStore,
  NewEvent,
  Outcome,
  RecordStatus,
  StoredEvent,
} from "../event-store.ts";
import type { Connection } from "./connection.ts";
import { NotSentError } from "./errors.ts";
import { Retold } from "./retold.ts";
import { type ClaimReply, type RowReply, toClaim, toRecordStatus, toStoredEvent } from "./rows.ts";
import type { ScriptName } from "./scripts.ts";
import { Wake } from "./wake.ts";

/** What one script handles at most, so that none holds Redis up for long. */
const PAGE = 200;
/** What the keys of this version look like. */
const FORMAT = 1;

/** Each call is a script, so that it is done as a whole or not at all; see `lua/prelude.ts` for what is kept. */
export class RedisStore implements EventStore {
  readonly #connection: Connection;
  readonly #wake: Wake;
  readonly #retold = new Retold();
  /** Only for tests: Redis's own time otherwise. */
  readonly #now: (() => number) | undefined;
  readonly #onFirstUse: () => void;
  /** By which our messages are known. */
  #handle = newName();
  #started: Promise<string> | undefined;
  #closing: Promise<void> | undefined;

  constructor(connection: Connection, onFirstUse: () => void = () => {}, now?: () => number) {
    this.#connection = connection;
    this.#onFirstUse = onFirstUse;
    this.#now = now;
    this.#wake = new Wake(
      connection.link,
      async () => `${await this.#start()}:wake`,
      (handle) => handle === this.#handle,
    );
  }

  async add(event: NewEvent): Promise<"added" | "duplicate" | "conflict"> {
    const { eventId, ref, source, topic, timestamp, notification } = event;
    const given = `${ref === null ? "" : "r"}${topic === null ? "" : "t"}${notification === null ? "" : "n"}`;
    const args = [eventId, given, ref ?? "", topic ?? "", notification ?? "", source, timestamp];
    return (await this.#change("add", args)) as "added" | "duplicate" | "conflict";
  }

  async claim(options: Parameters<EventStore["claim"]>[0]): Promise<ClaimedEvent[]> {
    const claims: ClaimedEvent[] = [];
    for (;;) {
      const limit = Math.min(options.limit - claims.length, PAGE);
      const page = await this.#claim(options, Math.max(0, limit)).catch((error) => {
        // What is leased already is to be worked on, whatever became of the rest.
        if (claims.length === 0) throw error;
        return [];
      });
      claims.push(...page);
      if (page.length < PAGE || claims.length >= options.limit) return claims;
    }
  }

  async renew(claims: readonly ClaimedEvent[], leaseDuration: number): Promise<ClaimedEvent[]> {
    this.#assertOpen();
    const renewed: ClaimedEvent[] = [];
    for (let from = 0; from < claims.length; from += PAGE) {
      const page = claims.slice(from, from + PAGE);
      const args = page.flatMap(({ eventId, lease }) => [eventId, lease]);
      const held = (await this.#change("renew", [wholeMs(leaseDuration), ...args])) as (number | string)[];
      renewed.push(...held.map((index) => page[Number(index)]!));
    }
    return renewed;
  }

  async settle(claim: ClaimedEvent, outcome: Outcome): Promise<boolean> {
    const { eventId, lease } = claim;
    const name = this.#retold.nameOf(lease, outcome);
    const args = [eventId, lease, name, ...settleArgs(outcome)];
    const settled = Number(await this.#change("settle", args)) === 1;
    this.#retold.answered(lease);
    return settled;
  }

  async nextDue(): Promise<number | undefined> {
    return toNumber(await this.#run("nextDue"));
  }

  async prune({ state, reason, age, limit }: Parameters<EventStore["prune"]>[0]): Promise<number> {
    this.#assertOpen();
    // What is done has no reason.
    if ((state === "done" && reason !== undefined) || age === Number.POSITIVE_INFINITY) return 0;
    return inPages(limit, async (size) =>
      Number(await this.#change("prune", [state, reason ?? "", String(age), String(size)])),
    );
  }

  async pruneRecords({ age, limit }: Parameters<EventStore["pruneRecords"]>[0]): Promise<number> {
    this.#assertOpen();
    if (age === Number.POSITIVE_INFINITY) return 0;
    return inPages(limit, async (size) =>
      Number(await this.#change("pruneRecords", [String(age), String(size)])),
    );
  }

  async list({ state, limit, after }: Parameters<EventStore["list"]>[0]): Promise<StoredEvent[]> {
    const events: StoredEvent[] = [];
    let before = "";
    let behind = after ?? "";
    for (;;) {
      const size = Math.max(0, Math.min(limit - events.length, PAGE));
      const [rows, last] = (await this.#run("list", [state ?? "", String(size), before, behind])) as [
        RowReply[],
        number | string,
      ];
      events.push(...rows.map(toStoredEvent));
      if (rows.length < PAGE || events.length >= limit) return events;
      before = String(last);
      behind = "";
    }
  }

  async get(eventId: string): Promise<StoredEvent | undefined> {
    const row = (await this.#run("get", [eventId])) as RowReply | null;
    return row === null ? undefined : toStoredEvent(row);
  }

  async counts(): Promise<Record<EventState, number>> {
    const counts = (await this.#run("counts")) as (number | string)[];
    const [pending, processing, retrying, done, parked] = counts.map(Number) as [
      number,
      number,
      number,
      number,
      number,
    ];
    return { pending, processing, retrying, done, parked };
  }

  async oldestWaiting(): Promise<number | undefined> {
    return toNumber(await this.#run("oldestWaiting"));
  }

  async replay(eventId: string): Promise<boolean> {
    return Number(await this.#change("replay", [eventId])) === 1;
  }

  async replayParked({ reason, before }: Parameters<EventStore["replayParked"]>[0] = {}): Promise<number> {
    let total = 0;
    for (let after = "0"; ; ) {
      const args = [after, String(PAGE), reason ?? "", String(before?.getTime() ?? "")];
      const [replayed, last] = (await this.#change("replayParked", args)) as [number | string, string];
      total += Number(replayed);
      if (last === "") return total;
      after = last;
    }
  }

  async statusOf(ref: string): Promise<RecordStatus | undefined> {
    const packed = (await this.#run("statusOf", [ref])) as string | null;
    return packed === null ? undefined : toRecordStatus(ref, packed);
  }

  async *statuses({
    after = "",
  }: {
    readonly after?: string | undefined;
  } = {}): AsyncGenerator<RecordStatus> {
    for (let from = after; ; ) {
      const [refs, packed] = (await this.#run("statuses", [from, String(PAGE)])) as [string[], string[]];
      for (const [index, ref] of refs.entries())
        if (!isOwnRef(ref)) yield toRecordStatus(ref, packed[index]!);
      if (refs.length < PAGE) return;
      from = refs.at(-1)!;
    }
  }

  subscribe(wake: () => void): () => void {
    this.#assertOpen();
    return this.#wake.subscribe(wake);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#wake.close();
    await this.#connection.idle();
    this.#connection.close();
  }

  async #claim(options: Parameters<EventStore["claim"]>[0], limit: number): Promise<ClaimedEvent[]> {
    const { leaseDuration, eventId, retriesFirst = false } = options;
    const name = newName();
    // At least 1 ms, or the claim that leases it would find it due again.
    const duration = String(Math.max(1, Math.ceil(leaseDuration)));
    const first = retriesFirst ? "retries" : "pending";
    const args = [String(limit), duration, name, first, eventId ?? "", ...this.#retold.lostClaims()];
    try {
      const [now, claims] = (await this.#change("claim", args)) as [number | string, ClaimReply[]];
      return claims.map((claim) => toClaim(claim, Number(now)));
    } catch (error) {
      if (!(error instanceof NotSentError)) this.#retold.claimLost(name, leaseDuration);
      throw error;
    }
  }

  /** Runs a script that may make something due. */
  async #change(name: ScriptName, args: readonly string[]): Promise<unknown> {
    try {
      const [result, dueSooner] = (await this.#run(name, args)) as [unknown, number | string];
      if (Number(dueSooner) === 1) this.#wake.wake();
      return result;
    } catch (error) {
      if (!(error instanceof NotSentError)) {
        // If it is still on its way, we are to hear of it as the others do; if it was done, we may have heard already.
        this.#handle = newName();
        this.#wake.wake();
      }
      throw error;
    }
  }

  async #run(name: ScriptName, args: readonly string[] = []): Promise<unknown> {
    this.#assertOpen();
    return this.#connection.busy(async () => {
      await this.#start();
      return this.#connection.run(name, [String(this.#now?.() ?? ""), this.#handle, ...args]);
    });
  }

  /** Resolves to what all keys begin with, the user's own prefix included. */
  #start(): Promise<string> {
    this.#started ??= this.#look().catch((error) => {
      this.#started = undefined;
      throw error;
    });
    return this.#started;
  }

  async #look(): Promise<string> {
    const args = ["", this.#handle, String(FORMAT)];
    const [format, keys] = (await this.#connection.run("start", args)) as [string, string];
    if (Number(format) > FORMAT) {
      throw new StayhookError(
        `redisStore (${this.#connection.link.name}): its keys ${keys}:* were written by a newer version of stayhook (format ${format}, this one knows up to ${FORMAT}): update stayhook, or use another prefix`,
      );
    }
    this.#onFirstUse();
    return keys;
  }

  #assertOpen(): void {
    if (this.#closing !== undefined) throw new StayhookError("The store is closed.");
  }
}

function settleArgs(outcome: Outcome): string[] {
  if (outcome.state === "released") return [outcome.state, ""];
  const type = outcome.type ?? "";
  if (outcome.state === "done") {
    const given = outcome.status === undefined ? "t" : "ts";
    return [outcome.state, given, type, outcome.status ?? ""];
  }
  const failure = [
    outcome.state,
    outcome.type === undefined ? "" : "t",
    type,
    "",
    outcome.reason,
    outcome.error,
  ];
  if (outcome.state === "parked") return failure;
  return [...failure, wholeMs(outcome.in), outcome.counted ? "1" : "0"];
}

/** Asks for `limit` in pieces, until one is smaller than asked for. */
async function inPages(limit: number, run: (size: number) => Promise<number>): Promise<number> {
  for (let total = 0; ; ) {
    const size = Math.max(0, Math.min(limit - total, PAGE));
    if (size === 0) return total;
    const count = await run(size);
    total += count;
    if (count < size) return total;
  }
}

function wholeMs(ms: number): string {
  return String(Math.ceil(ms));
}

function toNumber(reply: unknown): number | undefined {
  return reply === null ? undefined : Number(reply);
}

function newName(): string {
  return randomBytes(12).toString("base64url");
}
