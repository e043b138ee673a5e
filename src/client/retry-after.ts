// The three forms of an HTTP date (RFC 9110, section 5.6.7).
const httpDate =
  /^(?:[a-z]{3}, \d\d [a-z]{3} \d{4} [\d:]{8} GMT|[a-z]{6,9}, \d\d-[a-z]{3}-\d\d [\d:]{8} GMT|[a-z]{3} [a-z]{3} [ \d]\d [\d:]{8} \d{4})$/i;

/**
 * The wait that the `Retry-After` header asks for, in ms and never below 0; `undefined` where the header is absent,
 * or neither a number of seconds nor an HTTP date.
 */
export function retryAfterMs(headers: Headers, now: number = Date.now()): number | undefined {
  const value = headers.get("retry-after")?.trim();
  if (value === undefined) return undefined;
  if (/^\d+(?:\.\d+)?$/.test(value)) return Number(value) * 1000;
  if (!httpDate.test(value)) return undefined;
  // The oldest form names no zone. Date.parse would read it as local time.
  const time = Date.parse(value.endsWith("GMT") ? value : `${value} GMT`);
  return Number.isNaN(time) ? undefined : Math.max(0, time - now);
}
