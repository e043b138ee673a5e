// The secrets in the URLs of a webhook configuration.

import { isTopic } from "../models/topics.ts";
import { parseUrl } from "./urls.ts";

/** Returns the parts of a configuration's URLs that may be secrets. */
export function secretsIn(config: {
  readonly endpoints?: object;
  readonly otherEndpoints?: object | undefined;
}): string[] {
  return Object.values({ ...config.endpoints, ...config.otherEndpoints }).flatMap(secretsOf);
}

/**
 * Returns the parts of the URLs in a text that may be secrets. The client does not know the URL that the platform has, and
 * the platform's answer may repeat it.
 */
export function secretsInText(text: string): string[] {
  const plain = text.replaceAll("\\/", "/").replaceAll("&amp;", "&");
  const decoded = plain.replace(/%([2-7][\da-f])/gi, (_, hex) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return [plain, decoded].flatMap((each) =>
    (each.match(/https?:\/\/(?:(?!&(?:quot|[gl]t|#))[^\s"'<>`\\])+/gi) ?? []).flatMap((url) => [
      ...secretsOf(url),
      ...secretsOf(url.replace(/[^\w~-]+$/, "")),
    ]),
  );
}

/** Returns query values, the password and a long last path segment of a URL, as they are written and decoded. */
function secretsOf(text: unknown): string[] {
  const url = parseUrl(text);
  if (!url) return [];
  const written = url.search
    .slice(1)
    .split("&")
    .map((pair) => pair.slice(pair.indexOf("=") + 1));
  const given = [...written, ...url.searchParams.values(), url.password];
  const segment = url.pathname.split("/").at(-1) ?? "";
  return [
    ...given.filter((each) => each.length >= 6 && !isTopic(each)),
    // A shorter last segment is probably an ordinary word and no secret.
    ...(segment.length >= 16 ? [segment] : []),
  ];
}
