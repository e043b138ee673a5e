/** Whether a URL's host is this machine. */
export function isLoopback(url: URL): boolean {
  const host = url.hostname.replace(/\.$/, "");
  return (
    host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || /^127(?:\.\d+){3}$/.test(host)
  );
}

/** Parses a URL that is written out in full; `undefined` where it is none, or only passes with a parser's help. */
export function parseUrl(text: unknown): URL | undefined {
  if (typeof text !== "string" || !/^https?:\/\/[^\s\\\p{Cc}]+$/iu.test(text) || !URL.canParse(text))
    return undefined;
  return new URL(text);
}

/** What is wrong with a base URL, or the URL, with no slash at the end of its path. */
export function checkBaseUrl(given: unknown, allowInsecureHttp: boolean): URL | string {
  const url = parseUrl(given instanceof URL ? given.href : given);
  if (!url) return "must be an absolute URL, such as https://api.example.com";
  if (url.username !== "" || url.password !== "") return "must not hold credentials; use accessToken";
  // By href: `search` and `hash` are empty for a lone ? or #.
  if (/[?#]/.test(url.href)) return "must have neither a query nor a fragment";
  if (url.protocol !== "https:" && !isLoopback(url) && !allowInsecureHttp)
    return "must be https (http only on a loopback host, or with allowInsecureHttp)";
  url.pathname = url.pathname.replace(/\/+$/, "");
  return url;
}

/** What is wrong with the URL of a webhook endpoint, or `undefined`. Never names the URL: it may hold a secret. */
export function problemWithEndpoint(given: unknown, baseUrl: URL): string | undefined {
  const url = parseUrl(given);
  if (!url) return "must be an absolute https URL";
  const sandboxed = isLoopback(url) && isLoopback(baseUrl);
  return url.protocol === "https:" || sandboxed ? undefined : "must be https";
}
