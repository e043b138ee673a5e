// A host whose bookings A1, A2, …, all in listing 7, the handler has read.
import type { WebhookEvent } from "stayhook";
import { expect } from "vitest";
import { advance, handlerOf } from "../support.ts";

export const stayed = { listingId: 7, checkIn: "2026-12-09", checkOut: "2026-12-12" };

/** Makes the host, and keeps what its callbacks are told. `gone()` has the refs of the records that are gone. */
export async function hostOf(count: number, options: Parameters<typeof handlerOf>[0] = {}) {
  const told: WebhookEvent[] = [];
  const on = { fallback: (event: WebhookEvent) => void told.push(event) };
  const it = handlerOf({ on, recheckAfter: false, ...options });
  /** Makes the platform list these listings. */
  const list = (...ids: number[]) => {
    const body = ids.map((listingId) => ({ listingId, status: "Published" }));
    it.platform.answer("listings", { status: 200, body });
  };
  const hide = (...ids: string[]) => {
    for (const id of ids) it.platform.answer(id, { status: 404 });
  };
  const gone = () => told.filter(({ type }) => type.endsWith(".gone")).map(({ ref }) => ref);
  const codes = Array.from({ length: count }, (_, n) => `A${n + 1}`);
  list(7);
  for (const code of codes) await it.tell(code, "Confirmed", stayed);
  await advance(1000);
  expect(await it.store.counts()).toMatchObject({ done: count, retrying: 0 });
  it.platform.reads.length = 0;
  return { ...it, told, gone, codes, list, hide };
}
