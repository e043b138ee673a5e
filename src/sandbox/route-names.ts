/** The endpoints that the API has, as the platform's interface writes them. */
export const routeNames = [
  "POST /v2/webhooks/config",
  "PUT /v2/webhooks/config",
  "GET /v2/webhooks/config",
  "DELETE /v2/webhooks/config",
  "PATCH /v2/webhooks/config/toggle",
  "GET /v2/listings",
  "GET /v2/listings/{listingId}",
  "GET /v2/bookings/{bookingCode}",
] as const;

const endpoints = routeNames.map((name) => {
  const [method = "", path = ""] = name.split(" ");
  return { method, path, pattern: toPattern(path) };
});

/**
 * Tells whether a request is one of a route: a method, or none for any, and a path, in which `{…}` stands for any
 * one segment. `undefined` where no endpoint is of that route.
 */
export function routeMatcher(route: string): ((method: string, path: string) => boolean) | undefined {
  const match = /^(?:([A-Z]+) )?(\/\S*)$/.exec(route);
  if (!match) return undefined;
  const [, wanted, path = ""] = match;
  const pattern = toPattern(path);
  const known = endpoints.some(
    (endpoint) =>
      (wanted === undefined || endpoint.method === wanted) &&
      (endpoint.pattern.test(path) || pattern.test(endpoint.path)),
  );
  if (!known) return undefined;
  return (method, asked) => (wanted === undefined || method === wanted) && pattern.test(asked);
}

function toPattern(path: string): RegExp {
  const parts = path.split(/\{[^/{}]*\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^/]+")}$`);
}
