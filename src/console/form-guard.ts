import { isEqual } from "../webhooks/receiving/verify.ts";

/** Headers of every answer. Pages load nothing from other hosts, run no inline code, and cannot be framed. */
export const securityHeaders: Readonly<Record<string, string>> = {
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  // With no-referrer, browsers send `Origin: null` with the page's own forms.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** The most bytes of a form. A selection of 100 events has 5 kB. */
const MAX_FORM_BYTES = 64 * 1024;
/** How long the body of a form may take, ms. */
const FORM_TIMEOUT = 10_000;
const COOKIE = "stayhook-csrf";

/**
 * The CSRF token of the request's cookie, or a new one with its `set-cookie` header. The server keeps no token, so any
 * process behind a load balancer takes the form.
 */
export function csrfTokenOf(request: Request): { readonly value: string; readonly cookie?: string } {
  const known = csrfCookieOf(request);
  if (known !== undefined) return { value: known };
  const value = randomHex(32);
  const secure = new URL(request.url).protocol === "https:" ? "; Secure" : "";
  // A proxy may mount the pages below another path than the one seen here.
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

/** Whether a page of this site sent the form: the token matches its cookie, and the browser names no other site. */
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
  // Behind a proxy the URL has an inner host. A page cannot set the other two headers in a form of its own.
  const hosts = [
    new URL(request.url).host,
    request.headers.get("host"),
    request.headers.get("x-forwarded-host"),
  ];
  return !hosts.includes(new URL(origin).host);
}

/** The fields of a form, or the status to refuse it with. */
export async function readForm(request: Request): Promise<URLSearchParams | number> {
  const type = request.headers.get("content-type") ?? "";
  if (!/^application\/x-www-form-urlencoded\s*(;|$)/i.test(type)) return 415;
  if (request.bodyUsed || !request.body) return request.bodyUsed ? 500 : 400;
  const reader = request.body.getReader();
  const timer = setTimeout(() => void reader.cancel().catch(() => {}), FORM_TIMEOUT);
  const decoder = new TextDecoder();
  let [text, size] = ["", 0];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return new URLSearchParams(text + decoder.decode());
      size += value.byteLength;
      if (size > MAX_FORM_BYTES) {
        void reader.cancel().catch(() => {});
        return 413;
      }
      text += decoder.decode(value, { stream: true });
    }
  } catch {
    return 400;
  } finally {
    clearTimeout(timer);
  }
}
