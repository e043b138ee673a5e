import { styleText } from "node:util";
import type { Io } from "./command.ts";

/** An output stream, which may be a terminal. */
export interface Sink extends NodeJS.WritableStream {
  readonly isTTY?: boolean | undefined;
}

type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** One column of a table: its heading, and the value of a row in it. */
export type Column<Row> = readonly [heading: string, cell: (row: Row) => unknown];

/**
 * Writes results to stdout and everything else to stderr. With `--json`, results are JSON. On a terminal they are
 * tables with color. In a pipe they are lines with tabs, for `cut` and `awk`.
 */
export class Output {
  readonly json: boolean;
  readonly #stdout: Sink;
  readonly #stderr: Sink;
  readonly #wantsColor: boolean;

  constructor(io: Pick<Io, "stdout" | "stderr" | "env">, json: boolean) {
    this.json = json;
    this.#wantsColor = wantsColor(io.env);
    this.#stdout = io.stdout;
    this.#stderr = io.stderr;
  }

  get isTerminal(): boolean {
    return this.#stdout.isTTY === true;
  }

  /** Writes the result: `value` with `--json`, else `text`. */
  result(value: unknown, text: () => string): void {
    const shown = this.json ? printableJson(value ?? null, 2) : text();
    // In a pipe, an empty list has no line.
    if (shown !== "") this.line(shown);
  }

  /** Writes one of many results: a line of JSON, or a line of text. */
  item(value: unknown, text: () => string): void {
    this.line(this.json ? printableJson(value) : text());
  }

  /** Writes one row of a list that grows, with the columns of {@link table} but without padding. */
  row<Row>(row: Row, columns: readonly Column<Row>[]): void {
    const cells = columns.map(([, cell]) => printable(cell(row)));
    this.item(row, () => cells.join(this.isTerminal ? "  " : "\t"));
  }

  line(text: string): void {
    this.#stdout.write(`${text}\n`);
  }

  /** Writes a line to stderr, so that it does not get into a pipe. */
  note(text: string): void {
    this.#stderr.write(`${text}\n`);
  }

  style(style: Style, text: string): string {
    return this.#styled(style, text, this.#stdout);
  }

  /** Writes an error. Only JSON has the `details`. */
  error(message: string, details: Readonly<Record<string, unknown>> = {}): void {
    if (this.json) this.note(printableJson({ error: { ...details, message } }));
    else this.note(`${this.#styled("red", "stayhook:", this.#stderr)} ${printable(message)}`);
  }

  warn(message: string): void {
    if (this.json) this.note(printableJson({ warning: { message } }));
    else this.note(`${this.#styled("yellow", "stayhook:", this.#stderr)} ${printable(message)}`);
  }

  #styled(style: Style, text: string, sink: Sink): string {
    // By default, styleText reads the environment of the process and not `env`.
    return sink.isTTY === true && this.#wantsColor ? styleText(style, text, { validateStream: false }) : text;
  }

  table<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
    const cells = rows.map((row) => columns.map(([, cell]) => printable(cell(row))));
    if (this.isTerminal && rows.length === 0) return this.style("dim", "none");
    if (!this.isTerminal) return cells.map((row) => row.join("\t")).join("\n");
    const headings = columns.map(([heading]) => heading);
    const widths = headings.map((heading, index) =>
      Math.max(heading.length, ...cells.map((row) => row[index]?.length ?? 0)),
    );
    const lined = (row: readonly string[]) =>
      row
        .map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
        .join("  ");
    return [this.style("bold", lined(headings)), ...cells.map(lined)].join("\n");
  }

  /** One line for each field of a record. */
  fields(entries: readonly (readonly [name: string, value: unknown])[]): string {
    const width = Math.max(0, ...entries.map(([name]) => printable(name).length));
    return entries
      .map(([name, value]) =>
        this.isTerminal
          ? `${this.style("bold", printable(name).padEnd(width))}  ${printable(value)}`
          : `${printable(name)}\t${printable(value)}`,
      )
      .join("\n");
  }

  /** Shows the progress of long work on a terminal. The returned function clears the line. */
  progress(text: string): () => void {
    if (this.#stderr.isTTY !== true || this.json) return () => {};
    this.#stderr.write(`\r\u001b[2K${text}`);
    return () => void this.#stderr.write("\r\u001b[2K");
  }
}

// Text from outside, such as a listing's name, must not control the terminal or start a new line.
const steering = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** A value as text in one line. */
export function printable(value: unknown): string {
  if (value === undefined || value === null) return "-";
  if (value instanceof Date) return value.toISOString();
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return text.replace(steering, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `\\u${code > 0xffff ? `{${code.toString(16)}}` : code.toString(16).padStart(4, "0")}`;
  });
}

/** JSON with the characters escaped that could control a terminal. */
function printableJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(steering, (character) =>
    character === "\n"
      ? character
      : character
          .split("")
          .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
          .join(""),
  );
}

/** Whether the environment allows color on a terminal. */
function wantsColor({ NO_COLOR, FORCE_COLOR, TERM }: Io["env"]): boolean {
  if (FORCE_COLOR !== undefined && FORCE_COLOR !== "") return !/^(0|false)$/.test(FORCE_COLOR);
  return !NO_COLOR && TERM !== "dumb";
}
