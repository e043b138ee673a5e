const redirectStatuses = new Set([301, 302, 303, 307, 308]);

/** Where a redirect leads that may be followed: that of a read, within the origin. */
export function redirectTarget(method: string, response: Response, from: URL): URL | undefined {
  const location = response.headers.get("location");
  if ((method !== "GET" && method !== "HEAD") || !redirectStatuses.has(response.status) || !location)
    return undefined;
  if (!URL.canParse(location, from)) return undefined;
  const target = new URL(location, from);
  const bare = target.username === "" && target.password === "";
  return bare && target.origin === from.origin ? target : undefined;
}

/** What to say of a redirect that was not followed; `undefined` for any other answer. */
export function describeRedirect(response: Response): string | undefined {
  if (response.type === "opaqueredirect") return "a redirect, which this runtime does not show";
  if (response.status < 300 || response.status > 399) return undefined;
  const location = response.headers.get("location");
  return location ? `a redirect to ${location}, not followed` : undefined;
}
