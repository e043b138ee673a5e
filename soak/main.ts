// Figures that take minutes to measure. `npm run soak` runs all parts; `npm run soak -- forged` one of them.
import { forged } from "./forged.ts";
import { print, type Row } from "./table.ts";

const parts: Readonly<Record<string, { readonly title: string; readonly run: () => Promise<Row[]> }>> = {
  forged: { title: "How long a genuine event waits among forged ones", run: forged },
};

const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(parts);
for (const name of names) {
  const part = parts[name];
  if (!part) throw new Error(`There is no part ${name}. The parts are ${Object.keys(parts).join(", ")}.`);
  const rows = await part.run();
  print(part.title, rows);
  if (rows.some(({ failed }) => failed)) process.exitCode = 1;
}
