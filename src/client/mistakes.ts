// Tells a mistake in the user's `fetch` from a network that is out of reach: only the second one is worth a retry.

/** Returns the problem with what `fetch` returned, or `undefined`. A status, headers and `text()` suffice. */
export function problemWithResponse(response: unknown): string | undefined {
  const { status, headers, text, body, bodyUsed } = Object(response) as Partial<Response>;
  if (typeof status !== "number" || typeof headers?.get !== "function" || typeof text !== "function")
    return "did not return a Response";
  return bodyUsed === true || body?.locked === true
    ? "returned a Response whose body has been read already. Read a clone() of it instead"
    : undefined;
}

const mistakenCodes = /^(ERR_INVALID_|ERR_MISSING_ARGS|UND_ERR_INVALID_ARG|UND_ERR_NOT_SUPPORTED)/;
// The engines' words for a mistake. Some name a property, which may be called "fetch", so look for these first.
const mistakenWords =
  /is not (a function|defined|iterable|a constructor|an object)|cannot (read|set|destructure|convert|access)|illegal invocation|expected signal/i;
// The runtimes' words for a network failure, which is a TypeError in all of them.
const networkWords =
  /fetch|network|connection|terminated|load failed|socket|offline|tim(ed|e) ?out|request|dns|tls|cert/i;

/** Whether an error comes from wrong code or wrong arguments. */
export function isMistake(error: unknown, depth = 5): boolean {
  const { name, message, code, cause } = Object(error) as Readonly<Record<string, unknown>>;
  if (typeof code === "string") return mistakenCodes.test(code);
  if (cause !== undefined) return depth > 0 && isMistake(cause, depth - 1);
  if (name === "ReferenceError" || name === "RangeError") return true;
  return name === "TypeError" && (mistakenWords.test(String(message)) || !networkWords.test(String(message)));
}
