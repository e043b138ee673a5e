// Serves the open requests as a page, or as JSON: GET /requests?key=<secret>.
import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { DatabaseSync } from "node:sqlite";
import { openRequests } from "./desk.ts";

export interface PageOptions {
  readonly db: DatabaseSync;
  readonly secret: string;
}

export function servePage({ db, secret }: PageOptions) {
  return (request: IncomingMessage, response: ServerResponse): void => {
    if (request.method !== "GET" && request.method !== "HEAD") {
      response.writeHead(405, { allow: "GET, HEAD" }).end();
      return;
    }
    const query = new URLSearchParams((request.url ?? "").split(/\?(.*)/s)[1]);
    if (!isSame(query.get("key") ?? "", secret)) {
      response.writeHead(401, { "content-type": "text/plain" }).end("the key is missing or wrong\n");
      return;
    }
    const rows = rowsOf(db);
    // The URL contains the key, so no cache and no other site may get it.
    response.setHeader("cache-control", "no-store").setHeader("referrer-policy", "no-referrer");
    if (request.headers.accept?.includes("application/json")) {
      response.setHeader("content-type", "application/json").end(JSON.stringify({ requests: rows }));
    } else {
      response.setHeader("content-type", "text/html; charset=utf-8").end(toHtml(rows));
    }
  };
}

type Row = ReturnType<typeof rowsOf>[number];

function rowsOf(db: DatabaseSync) {
  const now = Date.now();
  return openRequests(db, now).map(({ bookingCode, listingId, checkIn, checkOut, decideBy }) => ({
    bookingCode,
    listingId,
    checkIn,
    checkOut,
    decideBy: new Date(decideBy).toISOString(),
    minutesLeft: Math.floor((decideBy - now) / 60_000),
  }));
}

function toHtml(rows: readonly Row[]): string {
  const items = rows.map(
    ({ bookingCode, listingId, checkIn, checkOut, decideBy, minutesLeft }) => `<tr>
<td>${toText(bookingCode)}</td><td>${toText(listingId ?? "?")}</td>
<td>${toText(checkIn ?? "?")} to ${toText(checkOut ?? "?")}</td><td>${decideBy}</td>
<td>${minutesLeft < 0 ? "overdue" : `${Math.floor(minutesLeft / 60)} h ${minutesLeft % 60} min`}</td>
</tr>`,
  );
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="60"><title>Requests</title>
<h1>${rows.length} to decide on</h1>
<table>
<tr><th>Booking</th><th>Listing</th><th>Nights</th><th>Decide by</th><th>Left</th></tr>
${items.join("\n")}
</table>
</html>
`;
}

const toText = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** Compares in constant time. */
function isSame(given: string, secret: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(secret));
}
