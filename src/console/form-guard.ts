// Protects the forms of the pages against other sites.

import { idleTimer } from "../async.ts";
import { Refused } from "../webhooks/receiving/answers.ts";
import { readStream } from "../webhooks/receiving/body-stream.ts";
import { isEqual } from "../webhooks/receiving/verify.ts";

/** Headers of every answer. Pages load nothing from other hosts, run no inline code, and cannot be framed. */
export const securityHeaders: Readonly<Record<string, string>> = {
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  // With no-referrer, browsers would send `Origin: null` with the page's own forms, and the guard would refuse them.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** The largest size of a form, in bytes. A form can select at most 200 events, and then has about 9 kB. */
const MAX_FORM_BYTES = 64 * 1024;
/** The longest time for receiving the body of a form, ms. */
const FORM_TIMEOUT = 10_000;
const COOKIE = "stayhook-csrf";

/**
 * Returns the CSRF token from the request's cookie, or a new token with its `set-cookie` header. The server stores no
 * token, so any process behind a load balancer can check the form.
 */
export function csrfTokenOf(request: Request): { readonly value: string; readonly cookie?: string } {
  const existing = csrfCookieOf(request);
  if (existing !== undefined) return { value: existing };
  const value = randomHex(32);
  const secure = new URL(request.url).protocol === "https:" ? "; Secure" : "";
  // The cookie has Path=/, because a proxy may serve the pages at a path that this server does not know.
  return { value, cookie: `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict${secure}` };
}

/** Random bytes as hexadecimal digits. */
export function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param value - the pattern that the cookie's value must match */
export function cookieOf(request: Request, name: string, value = "[^;]*"): string | undefined {
  return new RegExp(`(?:^|;\\s*)${name}=(${value})(?:;|$)`).exec(request.headers.get("cookie") ?? "")?.[1];
}

const csrfCookieOf = (request: Request): string | undefined => cookieOf(request, COOKIE, "[0-9a-f]{64}");

/** Whether the form is from this site: the form's token matches the cookie, and no header names another site. */
export function isOwnForm(request: Request, form: URLSearchParams): boolean {
  const expected = csrfCookieOf(request);
  return expected !== undefined && isEqual(form.get("csrf") ?? "", expected) && !isForeign(request);
}

/** Whether the browser says that a page of another site sent the request. */
function isForeign(request: Request): boolean {
  const site = request.headers.get("sec-fetch-site");
  if (site !== null) return site !== "same-origin";
  const origin = request.headers.get("origin");
  if (origin === null) return false;
  if (!URL.canParse(origin)) return true;
  // Behind a proxy, `request.url` has an internal host. So also accept the hosts in headers, which no form can set.
  const hosts = [
    new URL(request.url).host,
    request.headers.get("host"),
    request.headers.get("x-forwarded-host"),
  ];
  return !hosts.includes(new URL(origin).host);
}

/** Returns the fields of a form, or the HTTP status of the error if the form is not valid. */
export async function readForm(request: Request): Promise<URLSearchParams | number> {
  const type = request.headers.get("content-type") ?? "";
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(type)) return 415;
  if (request.bodyUsed || !request.body) return request.bodyUsed ? 500 : 400;
  const read = await new Promise<Uint8Array | Refused>((settled) => {
    const stop = readStream(request.body!, MAX_FORM_BYTES, settled);
    idleTimer(() => stop(new Refused("body-timeout")), FORM_TIMEOUT);
  });
  return read instanceof Refused ? read.answer.status : new URLSearchParams(new TextDecoder().decode(read));
}
