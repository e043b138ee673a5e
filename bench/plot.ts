// Draws a bar chart as SVG. It is readable on light and dark pages.
import type { Section } from "./report.ts";

const [WIDTH, LABELS, BAR, GAP] = [760, 330, 18, 8];

/** Draws the ratios of a section as bars. */
export function plot({ title, rows }: Pick<Section, "title" | "rows">): string {
  const most = Math.max(1, ...rows.map(({ ratio }) => ratio));
  const x = (ratio: number): number => LABELS + (ratio / most) * (WIDTH - LABELS - 60);
  const bars = rows.flatMap(({ label, ratio, ours }, index) => {
    const y = 34 + index * (BAR + GAP);
    return [
      `<text x="${LABELS - 10}" y="${y + 13}" text-anchor="end">${escaped(label.replaceAll("`", ""))}</text>`,
      `<rect x="${LABELS}" y="${y}" width="${(x(ratio) - LABELS).toFixed(1)}" height="${BAR}" rx="3" class="${ours ? "ours" : "other"}"/>`,
      `<text x="${(x(ratio) + 8).toFixed(1)}" y="${y + 13}">${ratio.toFixed(2)}</text>`,
    ];
  });
  const height = 44 + rows.length * (BAR + GAP);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escaped(title)}">
<style>
text { font: 12px system-ui, sans-serif; fill: #333 } .title { font-weight: 600; font-size: 14px }
.ours { fill: #2f6fde } .other { fill: #a9b4c4 }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .other { fill: #5d6878 } }
</style>
<text x="10" y="18" class="title">${escaped(title)}</text>
${bars.join("\n")}
</svg>
`;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
