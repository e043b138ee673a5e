// The line of a page that says what came of the last replay.

import type { EventStore } from "../stores/event-store.ts";
import type { StoredEvent } from "../stores/stored-event.ts";
import { eventsOf, withoutFlash } from "./flash.ts";
import { randomHex } from "./form-guard.ts";
import { type Html, html } from "./html.ts";
import { ofVisit } from "./links.ts";
import { ReplayOutcome } from "./replay-outcome.ts";

type Store = EventStore<unknown>;

/** The pages follow replays of at most this many events, because an open page reads them again and again. */
const MOST_EVENTS = 2000;
/** How many replays are remembered. */
const MOST_REPLAYS = 20;

/** The last replays of this process. Another process behind a load balancer shows only how many events were replayed. */
export class Replays {
  readonly #replays = new Map<string, { readonly outcome: ReplayOutcome; readonly total: number }>();

  /**
   * Begins to follow events, before they are replayed.
   *
   * @returns the name of the replay for the query. `undefined` if the events are too many
   */
  async of(
    store: Store,
    chosen: AsyncIterable<StoredEvent> | Iterable<StoredEvent>,
  ): Promise<string | undefined> {
    const events: StoredEvent[] = [];
    for await (const event of chosen) if (events.push(event) > MOST_EVENTS) return undefined;
    if (events.length === 0) return undefined;
    const name = randomHex(8);
    this.#replays.set(name, { outcome: new ReplayOutcome(store, events), total: events.length });
    for (const oldest of this.#replays.keys()) {
      if (this.#replays.size <= MOST_REPLAYS) break;
      this.#replays.delete(oldest);
    }
    return name;
  }

  /**
   * Says what has come of the replay that the query names.
   *
   * @returns the line, and how many events it is about
   */
  async lineOf(query: URLSearchParams): Promise<{ readonly line: Html; readonly total: number } | undefined> {
    const replay = this.#replays.get(query.get("run") ?? "");
    if (!replay) return undefined;
    const { outcome, total } = replay;
    const { done, failed, waiting, isSilent } = await outcome.look();
    const link = (state: string) =>
      html`<a href="?${new URLSearchParams([["state", state], ...ofVisit(query)])}">${state}</a>`;
    const tone = (failed > 0 || isSilent) && "wait";
    const others = withoutFlash(query);
    others.delete("run");
    const line = html`<p class="flash ${tone}" role="status" id="replay">Replayed ${eventsOf(total)}. ${done} ${link("done")}, ${failed} failed again${
      failed > 0 && html` (${link("parked")}, ${link("retrying")})`
    }, ${waiting} waiting.${isSilent && " No process has claimed anything for 3 minutes. Does your app run?"} <a data-replace href="?${others}">Hide</a></p>`;
    return { line, total };
  }
}
