// Serves the calendar:
//   GET /calendars?key=<secret>                     an overview, for you: JSON
//   GET /calendars/<listingId>/<token>.ics          one listing's feed, for calendar apps and platforms
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { DatabaseSync } from "node:sqlite";
import type { EventStore } from "stayhook/store";
import { blockedStays, doubleBookings, isListed, listingName, listings } from "./calendar.ts";
import { toICalendar } from "./icalendar.ts";
import { isSame, tokenOf } from "./secret.ts";

const DAY = 24 * 60 * 60_000;
/** How long the feed shows a past stay, in ms. */
const SHOWN_FOR = 400 * DAY;

export interface CalendarsOptions {
  readonly db: DatabaseSync;
  readonly store: EventStore<DatabaseSync>;
  readonly secret: string;
}

/** Answers requests below `/calendars`. */
export function serveCalendars({ db, store, secret }: CalendarsOptions) {
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.method !== "GET" && request.method !== "HEAD") {
      response.writeHead(405, { allow: "GET, HEAD" }).end();
      return;
    }
    const [path = "", query = ""] = (request.url ?? "").split(/\?(.*)/s);
    if (path === "/calendars" && isSame(new URLSearchParams(query).get("key") ?? "", secret)) {
      const json = JSON.stringify(await overview(), undefined, 2);
      response.writeHead(200, { "content-type": "application/json", "cache-control": "no-store" }).end(json);
      return;
    }
    const [, listingId = "", token = ""] = /^\/calendars\/([^/]+)\/([\w-]+)\.ics$/.exec(path) ?? [];
    const id = decode(listingId);
    // A wrong token gets the same answer for each listing, so that it does not reveal which listings exist.
    if (id === undefined || !isSame(token, tokenOf(secret, id))) response.writeHead(404).end();
    // The token is right, so the listing was known, and the database is lost. An empty feed would free every night.
    else if (!isListed(db, id)) response.writeHead(503, { "retry-after": "3600" }).end();
    else sendCalendar(id, request, response);
  };

  async function overview() {
    const [retrying, parked] = await Promise.all([
      store.list({ state: "retrying", limit: 100 }),
      store.list({ state: "parked", limit: 100 }),
    ]);
    return {
      doubleBookings: doubleBookings(db, today()),
      // These include bookings with unreadable dates, whose nights are not blocked.
      unhandled: [...retrying, ...parked].map(({ eventId, ref, state, history }) => ({
        eventId,
        ref,
        state,
        error: history.at(-1)?.error,
      })),
      calendars: listings(db).map(({ listingId, name }) => ({
        listingId,
        name,
        path: `/calendars/${encodeURIComponent(listingId)}/${tokenOf(secret, listingId)}.ics`,
      })),
    };
  }

  function sendCalendar(listingId: string, request: IncomingMessage, response: ServerResponse): void {
    const name = listingName(db, listingId) ?? `Listing ${listingId}`;
    const text = toICalendar(name, blockedStays(db, listingId, today(-SHOWN_FOR)));
    const etag = `"${createHash("sha256").update(text).digest("base64url")}"`;
    response.setHeader("etag", etag).setHeader("cache-control", "private, no-cache");
    if (request.headers["if-none-match"] === etag) {
      response.writeHead(304).end();
      return;
    }
    response.writeHead(200, {
      "content-type": "text/calendar; charset=utf-8",
      "content-disposition": 'inline; filename="calendar.ics"',
    });
    response.end(text);
  }
}

/** Returns today in UTC as `YYYY-MM-DD`, or the day `shift` ms away. */
export const today = (shift = 0): string => new Date(Date.now() + shift).toISOString().slice(0, 10);

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
