// Prints lines, tables and JSON to a terminal or a pipe.

import type { Readable } from "node:stream";
import { styleText } from "node:util";
import { duration } from "../console/html.ts";

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

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** A row of a table with two columns, such as an option and its help. */
export type Row = readonly [left: string | number, right: string];

/** The width of text that is not written to a terminal. */
const PIPE_WIDTH = 100;
/** The smallest width of the right column of {@link Output.twoColumns}. */
const LEAST_RIGHT = 24;

/** How a column looks on a terminal. */
export interface OnTerminal<Row> {
  /** The cell, if the terminal shows a shorter one than a pipe. */
  readonly text?: ((row: Row) => string | null) | undefined;
  readonly style?: ((row: Row) => Style) | undefined;
  /** Whether the cells are never cut. Default `false`. */
  readonly isWhole?: boolean | undefined;
  /** Whether the column is the first to be left out on a narrow terminal. Default `false`. */
  readonly isMinor?: boolean | undefined;
  /** Whether the cells stand in a line of their own below the row. Default `false`. */
  readonly isBelow?: boolean | undefined;
}

/** One column of a table: its heading, a function that returns the cell of a row, and how a terminal shows it. */
export type Column<Row> = readonly [
  heading: string,
  cell: (row: Row) => unknown,
  onTerminal?: OnTerminal<Row>,
];

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
    this.item(row, () =>
      this.isTerminal
        ? this.#terminalTable([row], columns, false).join("\n")
        : columns.map(([, cell]) => printable(cell(row))).join("\t"),
    );
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
    if (!this.isTerminal)
      return rows.map((row) => columns.map(([, cell]) => printable(cell(row))).join("\t")).join("\n");
    if (rows.length === 0) return this.style("dim", "none");
    return this.#terminalTable(rows, columns, true).join("\n");
  }

  /** The lines of a table that is as wide as the terminal. Leaves out empty columns, and cuts long cells. */
  #terminalTable<Row>(rows: readonly Row[], columns: readonly Column<Row>[], hasHeadings: boolean): string[] {
    const made = columns.map(([heading, cell, how = {}]) => {
      const cells = rows.map((row) => printable(how.text ? how.text(row) : cell(row)));
      return { heading, how, cells, isEmpty: cells.every((text) => text === "-") };
    });
    const all = made.filter(({ isEmpty, how }) => !isEmpty && !how.isBelow);
    const below = made.filter(({ isEmpty, how }) => !isEmpty && how.isBelow);
    const widthsOf = (chosen: typeof all) =>
      fitted(
        chosen.map(({ heading, cells }) =>
          Math.max(hasHeadings ? heading.length : 0, ...cells.map(({ length }) => length)),
        ),
        chosen.map(({ how }) => how.isWhole === true),
        this.width,
      );
    const fits = widthsOf(all).length === all.length;
    const shown = fits ? all : all.filter(({ how }) => !how.isMinor);
    const widths = widthsOf(shown);
    const kept = shown.slice(0, widths.length);
    const lined = (texts: readonly string[], style: (text: string, index: number) => string) =>
      texts
        .map((text, index) => {
          const cut = shortened(text, widths[index]!);
          const isLast = index === texts.length - 1;
          return style(cut, index) + (isLast ? "" : " ".repeat(widths[index]! - cut.length));
        })
        .join("  ");
    const lines = rows.flatMap((row, at) => [
      lined(
        kept.map(({ cells }) => cells[at]!),
        (text, index) => {
          const style = kept[index]!.how.style?.(row);
          return style ? this.style(style, text) : text;
        },
      ),
      ...below
        .filter(({ cells }) => cells[at] !== "-")
        .map(({ cells }) => this.style("dim", `  ${shortened(cells[at]!, this.width - 2)}`)),
    ]);
    const headings = lined(
      kept.map(({ heading }) => heading),
      (text) => text,
    );
    return hasHeadings ? [this.style("bold", headings), ...lines] : lines;
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

/** The space between two columns. */
const GAP = 2;
/** Columns are not cut to less than this width. */
const LEAST_CELL = 6;

/**
 * Returns the widths of the columns that fit. Cuts the widest columns first. If even that does not suffice, leaves out the
 * last columns.
 */
function fitted(natural: readonly number[], isWhole: readonly boolean[], width: number): number[] {
  const widths = [...natural];
  const excess = () => widths.reduce((sum, each) => sum + each + GAP, -GAP) - width;
  while (excess() > 0) {
    const cuttable = widths
      .map((_, index) => index)
      .filter((index) => !isWhole[index] && widths[index]! > LEAST_CELL);
    const widest = cuttable.sort((one, other) => widths[other]! - widths[one]!)[0];
    if (widest !== undefined) widths[widest]! -= 1;
    else if (widths.length > 1) {
      widths.pop();
      for (const index of widths.keys()) widths[index] = natural[index]!;
    } else widths[0] = width;
  }
  return widths;
}

/** Cuts a text to a width, with an ellipsis at its end. */
function shortened(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`;
}

/** Says how far away a time is: `3 min ago`, `in 2 h`. */
export function ago(at: Date | null): string | null {
  if (at === null) return null;
  const ms = Date.now() - at.getTime();
  if (Math.abs(ms) < 1000) return "now";
  return ms < 0 ? `in ${duration(-ms)}` : `${duration(ms)} ago`;
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
