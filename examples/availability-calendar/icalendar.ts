// Writes a calendar in the iCalendar format (RFC 5545), in the way that Google, Apple and Outlook, and the other
// platforms that a host's listing is on, take one that they subscribe to. It says when, and not who.
import type { BlockedStay } from "./calendar.ts";

/** @param name - what the calendar app calls it */
export function toICalendar(name: string, stays: readonly BlockedStay[]): string {
  const lines = [
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//stayhook//availability-calendar//EN",
    "CALSCALE:GREGORIAN",
    `NAME:${escapeText(name)}`,
    `X-WR-CALNAME:${escapeText(name)}`,
    // How often to ask again; the second one for those that do not know the first.
    "REFRESH-INTERVAL;VALUE=DURATION:PT1H",
    "X-PUBLISHED-TTL:PT1H",
    // What was cancelled is left out: an app that subscribes drops what is gone, while not all of them take
    // STATUS:CANCELLED for free nights.
    ...(stays.length > 0 ? stays.flatMap(toEvent) : nothing),
    "END:VCALENDAR",
  ];
  return lines.map((line) => `${fold(line)}\r\n`).join("");
}

function toEvent({ uid, checkIn, checkOut, revision, changedAt }: BlockedStay): string[] {
  const changed = toUtc(changedAt);
  return [
    "BEGIN:VEVENT",
    `UID:${uid}`,
    // In a calendar without METHOD both say when it has last changed.
    `DTSTAMP:${changed}`,
    `LAST-MODIFIED:${changed}`,
    `SEQUENCE:${revision}`,
    `DTSTART;VALUE=DATE:${toDate(checkIn)}`,
    // Exclusive, as the day of departure is: its night is free.
    `DTEND;VALUE=DATE:${toDate(checkOut)}`,
    `SUMMARY:${escapeText("Booked")}`,
    "STATUS:CONFIRMED",
    "TRANSP:OPAQUE",
    "END:VEVENT",
  ];
}

// A calendar must hold something, and this changes nothing.
const nothing = [
  "BEGIN:VTIMEZONE",
  "TZID:Etc/UTC",
  "BEGIN:STANDARD",
  "DTSTART:19700101T000000",
  "TZOFFSETFROM:+0000",
  "TZOFFSETTO:+0000",
  "END:STANDARD",
  "END:VTIMEZONE",
];

const toDate = (day: string): string => day.replaceAll("-", "");

const toUtc = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19).replace(/[-:]/g, "")}Z`;

/** A text as a value; control characters, which none may hold, are left out. */
function escapeText(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/[^\P{Cc}\n\t]/gu, "")
    .replace(/[\\;,]/g, "\\$&")
    .replaceAll("\n", "\\n");
}

/** Lines of 75 octets at most, with no character cut in two; those that go on begin with a space. */
function fold(line: string): string {
  let folded = "";
  let length = 0;
  for (const character of line) {
    const octets = Buffer.byteLength(character);
    if (length + octets > 75) {
      folded += "\r\n ";
      length = 1;
    }
    folded += character;
    length += octets;
  }
  return folded;
}
