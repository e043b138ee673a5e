import { type Account, shortId } from "./account.ts";
import { type Contents, inState } from "./contents.ts";
import type { Told } from "./messages.ts";

/** Prints the subscriber's messages. */
export function retell(account: Account, told: Told): void {
  if (told.kind === "received") account.line("arrived", `${shortId(told.eventId)} ${told.ref}`);
  else if (told.kind === "duplicate") account.line("duplicate", `${shortId(told.eventId)} ${told.ref}`);
  else if (told.kind === "begun") {
    const again = told.attempt > 1 ? `, attempt ${told.attempt}` : "";
    account.line("callback", `${shortId(told.eventId)} ${told.type}${again}: ${told.text}`);
  } else if (told.kind === "failed") {
    const { eventId, type, error, retryIn } = told;
    account.line("failed", `${shortId(eventId)} ${type}: ${error}; again in ${retryIn} ms`);
  } else if (told.kind === "done" && told.change) {
    account.line("calendar", `${shortId(told.eventId)} ${told.change}`);
  } else if (told.kind === "opened" && told.file.events.length > 0) retellFound(account, told.file);
}

function retellFound(account: Account, file: Contents): void {
  const list = (ids: readonly string[]) => (ids.length === 0 ? "none" : ids.map(shortId).join(", "));
  const nights = file.calendar.reduce((sum, row) => sum + row.nights, 0);
  account.line("on disk", `${file.events.length} events, ${inState(file, "done").length} of them done`);
  account.line(
    "on disk",
    `begun, not ended: ${list(inState(file, "processing"))}; again when their leases end`,
  );
  account.line("on disk", `not begun: ${list(inState(file, "pending"))}; taken up now`);
  account.line("on disk", `${nights} nights blocked`);
}
