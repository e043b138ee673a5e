import type { NewEvent } from "../event-store.ts";
import { change, type SqlSteps, select } from "./driver.ts";
import type { Operation } from "./queue.ts";
import { number, toId, toRecord, toRef } from "./rows.ts";

export function* add(
  { sql, now }: Operation,
  event: NewEvent,
  dueIn: number | undefined,
): SqlSteps<"added" | "duplicate" | "conflict"> {
  const { eventId, ref, source, topic, timestamp, notification, traceparent = null } = event;
  const id = toId(eventId);
  const record = toRecord(ref, eventId);
  const dueAt = now + (dueIn ?? 0);
  const readyAt = dueIn === undefined ? 0 : dueAt;
  const inserted = yield {
    sql: sql.insertEvent,
    params: [
      id,
      record,
      readyAt,
      dueAt,
      dueIn === undefined ? null : now,
      now,
      source,
      topic,
      timestamp,
      notification,
      traceparent,
    ],
    query: false,
  };
  if (inserted.changes === 0) {
    const [known] = yield* select(sql.eventById, id);
    return toRef(known!.record) === ref ? "duplicate" : "conflict";
  }
  // Not `??`: the CommonJS build would put the `yield` into an arrow function.
  const seq =
    inserted.insertId === undefined ? number((yield* select(sql.eventById, id))[0]!.seq) : inserted.insertId;
  if ((yield* change(sql.insertQueue, record, readyAt, seq)) > 0) return "added";
  if (dueIn === undefined) yield* change(sql.queueNow, seq, record);
  else yield* change(sql.queueLater, seq, readyAt, record, readyAt);
  return "added";
}
