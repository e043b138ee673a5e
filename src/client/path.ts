import { InvalidArgumentError } from "../errors.ts";

/** A path below the base URL. Made at once, checked when it is built, so that a bad argument can reject. */
export interface Path {
  /** With the names of its parameters in place of their values: `/v2/bookings/{bookingCode}`. */
  readonly route: string;
  /**
   * @returns the path, each parameter encoded within its segment, with the query that was written in it
   * @throws {@link InvalidArgumentError} where a parameter cannot be kept in its segment
   */
  build(): { readonly path: string; readonly query: string };
}

/** One parameter: its name and its value. */
type Parameter = Readonly<Record<string, string | number>>;

/**
 * A path whose parameters cannot leave their segments.
 *
 * @example path`/v2/bookings/${{ bookingCode }}`
 */
export function path(literals: TemplateStringsArray, ...parameters: readonly Parameter[]): Path {
  const fill = (write: (name: string, value: string | number) => string): string =>
    literals.reduce((before, literal, index) => {
      const [[name, value] = ["", ""]] = Object.entries(parameters[index - 1] ?? {});
      return before + write(name, value) + literal;
    });
  return {
    route: fill((name) => `{${name}}`),
    build: () => ({ path: fill(segment), query: "" }),
  };
}

function segment(name: string, value: string | number): string {
  const refuse = (message: string): never => {
    throw new InvalidArgumentError({ path: [name], message });
  };
  if (typeof value === "number")
    return Number.isSafeInteger(value) ? String(value) : refuse("must be an integer");
  if (typeof value !== "string") return refuse("must be a string");
  if (value === "") return refuse("must not be empty");
  // URL parsers resolve these even when they are percent-encoded.
  if (value === "." || value === "..") return refuse("must not be a path segment of dots");
  if (!value.isWellFormed()) return refuse("must not hold a lone surrogate");
  return encodeURIComponent(value);
}

/** A path as the user of `client.request` wrote it. */
export function givenPath(given: string): Path {
  const [before = "", ...query] = typeof given === "string" ? given.split("?") : [];
  return {
    route: before,
    build: () => {
      const message = problemWith(given);
      if (message !== undefined) throw new InvalidArgumentError({ path: ["path"], message });
      return { path: before, query: query.join("?") };
    },
  };
}

function problemWith(given: unknown): string | undefined {
  if (typeof given !== "string" || !given.startsWith("/")) return "must be a string that begins with /";
  if (given.startsWith("//")) return "must not begin with //, which would name another host";
  if (given.includes("#")) return "must not have a fragment";
  if (!given.isWellFormed()) return "must not hold a lone surrogate";
  const [before = ""] = given.split("?");
  // URL parsers take a backslash for a slash, and drop tabs and line breaks.
  if (before.includes("\\") || /\p{Cc}/u.test(given))
    return "must not hold backslashes or control characters";
  const segments = before.split("/").flatMap((part) => decoded(part).split(/[/\\]/));
  return segments.some((part) => part === "." || part === "..")
    ? "must not hold segments of dots"
    : undefined;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // A percent sign that encodes nothing; dots that are encoded beside it still count.
    return part.replace(/%2e/gi, ".").replace(/%2f/gi, "/").replace(/%5c/gi, "\\");
  }
}
