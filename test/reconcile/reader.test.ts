import { expect, test } from "vitest";
import { ConnectionError } from "../../src/client/client-errors.ts";
import { CircuitBreaker } from "../../src/queue/circuit-breaker.ts";
import { Witnesses } from "../../src/queue/witnesses.ts";
import { Reader, StopReason } from "../../src/reconcile/reader.ts";
import { memoryStore } from "../../src/stores/memory/index.ts";
import { laneOf } from "../../src/webhooks/refs.ts";
import { advance, eventOf, never, SECOND, useFakeTime, watch } from "../queue/support.ts";

useFakeTime();

test("a pass that stops does not wait for witnesses", async () => {
  const store = memoryStore();
  for (const id of ["one", "two", "three"]) await store.add(eventOf(id));
  const breaker = new CircuitBreaker({
    concurrency: 10,
    backoff: () => SECOND,
    witnesses: new Witnesses(store, laneOf, never),
    onPause() {},
    onResume() {},
  });
  const stop = new StopReason();
  const reader = new Reader({
    ...{ stop, breaker, backoff: () => SECOND, asked: false, rate: 100, store: memoryStore() },
    internals: { handlesEvents: () => false },
  });
  const fails = () => Promise.reject(new ConnectionError("the platform is down"));
  const reading = watch(Promise.all([reader.read("booking:x", fails), reader.read("booking:y", fails)]));
  await advance(SECOND);
  expect(reading.settled).toBe(false);
  stop.stop("aborted");
  await advance();
  expect(reading.settled).toBe(true);
});
