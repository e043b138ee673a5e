// Prints lines, tables and JSON to a terminal or a pipe.

import type { Readable } from "node:stream";
import { styleText } from "node:util";

/** The streams, environment and signal of the process. Tests replace them. */
export interface Io {
  readonly stdin: Readable & { readonly isTTY?: boolean | undefined };
  readonly stdout: Sink;
  readonly stderr: Sink;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts on Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal;
}

/** An output stream, which may be a terminal. */
export interface Sink extends NodeJS.WritableStream {
  readonly isTTY?: boolean | undefined;
  /** The width of the terminal. */
  readonly columns?: number | undefined;
}

type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** A row of a table with two columns, such as an option and its help. */
export type Row = readonly [left: string | number, right: string];

/** The width of text that is not written to a terminal. */
const PIPE_WIDTH = 100;
/** The smallest width of the right column of {@link Output.twoColumns}. */
const LEAST_RIGHT = 24;

/** One column of a table: its heading, and a function that returns the cell of a row. */
export type Column<Row> = readonly [heading: string, cell: (row: Row) => unknown];

/**
 * Writes results to stdout and everything else to stderr. With `--json`, results are JSON. Without `--json`, results
 * are colored tables on a terminal, and lines with tabs in a pipe.
 */
export class Output {
  readonly json: boolean;
  readonly #io: Pick<Io, "stdout" | "stderr" | "env">;

  constructor(io: Pick<Io, "stdout" | "stderr" | "env">, json: boolean) {
    this.json = json;
    this.#io = io;
  }

  get isTerminal(): boolean {
    return this.#io.stdout.isTTY === true;
  }

  /** The width of the terminal, or of text in a pipe. A terminal that does not know its width says 0. */
  get width(): number {
    return (this.isTerminal && this.#io.stdout.columns) || PIPE_WIDTH;
  }

  /** Breaks the lines of a text at spaces, so that they are no wider than the terminal. */
  wrap(text: string, indent = 0): string[] {
    const lines: string[] = [];
    for (const word of text.split(/\s+/)) {
      const longer = `${lines.at(-1)} ${word}`;
      if (lines.length > 0 && longer.length <= this.width - indent) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines;
  }

  /** Formats rows with an indent of two spaces. The right column has several lines if the terminal is narrow. */
  twoColumns(rows: readonly Row[]): string[] {
    const widest = Math.max(...rows.map(([left]) => String(left).length)) + 4;
    const isNarrow = this.width - widest < LEAST_RIGHT;
    const indent = isNarrow ? 6 : widest;
    return rows.flatMap(([left, right]) => {
      const start = `  ${left}`.padEnd(indent);
      const [first = "", ...others] = this.wrap(right, indent);
      const below = others.map((line) => " ".repeat(indent) + line);
      return isNarrow ? [start, " ".repeat(indent) + first, ...below] : [start + first, ...below];
    });
  }

  /** Writes the result: `value` with `--json`, else `text`. */
  result(value: unknown, text: () => string): void {
    const shown = this.json ? printableJson(value ?? null, 2) : text();
    // In a pipe, an empty list prints nothing, not even an empty line.
    if (shown !== "") this.line(shown);
  }

  /** Writes one of many results: a line of JSON, or a line of text. */
  item(value: unknown, text: () => string): void {
    this.line(this.json ? printableJson(value) : text());
  }

  /** Writes one row of a list that is still growing. Unlike {@link table}, does not pad the columns. */
  row<Row>(row: Row, columns: readonly Column<Row>[]): void {
    const cells = columns.map(([, cell]) => printable(cell(row)));
    this.item(row, () => cells.join(this.isTerminal ? "  " : "\t"));
  }

  line(text: string): void {
    this.#io.stdout.write(`${text}\n`);
  }

  /** Writes a line to stderr, so that the line does not go into a pipe. */
  note(text: string): void {
    this.#io.stderr.write(`${text}\n`);
  }

  style(style: Style, text: string): string {
    return this.#styled(style, text, this.#io.stdout);
  }

  /** Formats the time of day, for the start of a line. */
  clock(date: Date): string {
    return this.style("dim", date.toISOString().slice(11, 23));
  }

  /** Formats the status of an endpoint's answer, or the error if no answer came. */
  answer({ status, error }: { readonly status?: unknown; readonly error?: unknown }): string {
    return this.style(status === 200 ? "green" : "red", printable(status ?? error));
  }

  /** Writes an error. The `details` appear only with `--json`. */
  error(message: string, details: Readonly<Record<string, unknown>> = {}): void {
    this.#complain("red", "error", { ...details, message });
  }

  warn(message: string): void {
    this.#complain("yellow", "warning", { message });
  }

  #complain(style: Style, kind: string, details: { readonly message: string }): void {
    const start = this.#styled(style, "stayhook:", this.#io.stderr);
    this.note(this.json ? printableJson({ [kind]: details }) : `${start} ${printable(details.message)}`);
  }

  #styled(style: Style, text: string, sink: Sink): string {
    // Switch `validateStream` off, because it reads the environment of the process instead of `env`.
    return sink.isTTY === true && wantsColor(this.#io.env)
      ? styleText(style, text, { validateStream: false })
      : text;
  }

  table<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
    const cells = rows.map((row) => columns.map(([, cell]) => printable(cell(row))));
    if (this.isTerminal && rows.length === 0) return this.style("dim", "none");
    if (!this.isTerminal) return cells.map((row) => row.join("\t")).join("\n");
    const headings = columns.map(([heading]) => heading);
    const widths = headings.map((heading, index) =>
      Math.max(heading.length, ...cells.map((row) => row[index]?.length ?? 0)),
    );
    widths[widths.length - 1] = 0;
    const lined = (row: readonly string[]) =>
      row.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join("  ");
    return [this.style("bold", lined(headings)), ...cells.map(lined)].join("\n");
  }

  /** Formats a record as one line for each field. */
  fields(entries: readonly (readonly [name: string, value: unknown])[]): string {
    const width = Math.max(0, ...entries.map(([name]) => printable(name).length));
    const start = (name: string) =>
      this.isTerminal ? `${this.style("bold", name.padEnd(width))}  ` : `${name}\t`;
    return entries.map(([name, value]) => start(printable(name)) + printable(value)).join("\n");
  }

  /** Shows the progress of long work on a terminal. The returned function clears the line. */
  progress(text: string): () => void {
    if (this.#io.stderr.isTTY !== true || this.json) return () => {};
    this.#io.stderr.write(`\r\u001b[2K${text}`);
    return () => void this.#io.stderr.write("\r\u001b[2K");
  }
}

// Text from outside, such as a listing's name, must not control the terminal or start a new line.
const steering = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Returns a count with its noun, such as `1 event` or `2 events`. */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Returns a value as one line of text. */
export function printable(value: unknown): string {
  if (value === undefined || value === null) return "-";
  if (value instanceof Date) return value.toISOString();
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.replace(steering, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : escaped(code);
  });
}

const escaped = (code: number): string => `\\u${code.toString(16).padStart(4, "0")}`;

/** Returns JSON. Escapes the characters that could control a terminal. */
const printableJson = (value: unknown, indent?: number): string =>
  JSON.stringify(value, null, indent).replace(steering, (found) =>
    found === "\n" ? found : found.replace(/[\s\S]/g, (unit) => escaped(unit.charCodeAt(0))),
  );

/** Whether the environment allows color on a terminal. */
function wantsColor({ NO_COLOR, FORCE_COLOR, TERM }: Io["env"]): boolean {
  if (FORCE_COLOR !== undefined && FORCE_COLOR !== "") return !/^(0|false)$/.test(FORCE_COLOR);
  return !NO_COLOR && TERM !== "dumb";
}
