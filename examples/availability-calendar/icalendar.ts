// Writes a feed in the iCalendar format (RFC 5545). Google, Apple, Outlook and other platforms can subscribe to it. The
// feed shows booked nights, but no guests.
import type { BlockedStay } from "./calendar.ts";

/** @param name - the name that calendar apps show */
export function toICalendar(name: string, stays: readonly BlockedStay[]): string {
  const lines = [
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//stayhook//availability-calendar//EN",
    "CALSCALE:GREGORIAN",
    `NAME:${escapeText(name)}`,
    `X-WR-CALNAME:${escapeText(name)}`,
    // How often to poll. Some apps know only the second property.
    "REFRESH-INTERVAL;VALUE=DURATION:PT1H",
    "X-PUBLISHED-TTL:PT1H",
    // Leave cancelled stays out. An app drops stays that are missing from the feed. Some apps ignore STATUS:CANCELLED.
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
    // Without METHOD, both properties hold the time of the last change.
    `DTSTAMP:${changed}`,
    `LAST-MODIFIED:${changed}`,
    `SEQUENCE:${revision}`,
    `DTSTART;VALUE=DATE:${toDate(checkIn)}`,
    // DTEND is exclusive, like the day of departure, whose night is free.
    `DTEND;VALUE=DATE:${toDate(checkOut)}`,
    `SUMMARY:${escapeText("Booked")}`,
    "STATUS:CONFIRMED",
    "TRANSP:OPAQUE",
    "END:VEVENT",
  ];
}

// A calendar must have at least one component. This one blocks nothing.
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

/** Escapes a text, and removes control characters, which the format does not allow. */
function escapeText(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/[^\P{Cc}\n\t]/gu, "")
    .replace(/[\\;,]/g, "\\$&")
    .replaceAll("\n", "\\n");
}

/**
 * Splits a line into lines of at most 75 octets, without splitting a character. Continuation lines begin with a space.
 */
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
