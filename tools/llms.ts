// Makes llms.txt and llms-full.txt from the pages of the documentation, in the order of the site's sidebar.
//
//   npx node tools/llms.ts     writes docs/llms.txt, which the package has
//
// The build of the site calls `writeSite`.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** An entry of VitePress' sidebar. */
interface Item {
  readonly text?: string;
  readonly link?: string;
  readonly items?: readonly Item[];
}

interface Page {
  /** The heading of the sidebar above the page. */
  readonly group: string;
  readonly title: string;
  /** The page's file on the site, such as `stores/sqlite.md`. */
  readonly name: string;
  /** The file that has its text, seen from `docs`. */
  readonly file: string;
}

const docs = fileURLToPath(new URL("../docs/", import.meta.url));
/** Pages whose text is outside `docs`. */
const elsewhere: Readonly<Record<string, string>> = {
  "examples/index.md": "../examples/README.md",
  "project/changelog.md": "../CHANGELOG.md",
};

/** Returns the pages in the order of the sidebar. Pages that it does not name follow the index of their folder. */
export async function pages(): Promise<Page[]> {
  const { sidebar } = await import(pathToFileURL(join(docs, ".vitepress/sidebar.ts")).href);
  const named = (sidebar as readonly Item[]).flatMap(({ text = "", items = [] }) =>
    items.flatMap((item) => [item, ...(item.items ?? [])]).map((item) => ({ ...item, group: text })),
  );
  const names = new Set(named.map(({ link = "" }) => nameOf(link)));
  return named.flatMap(({ group, link = "", text = "" }) => {
    const name = nameOf(link);
    if (name.startsWith("reference/")) return []; // the build of the site makes it
    const page = { group, title: text, name, file: elsewhere[name] ?? name };
    return page.file !== name || !name.endsWith("/index.md") ? [page] : [page, ...unnamed(page, names)];
  });
}

function unnamed({ group, name }: Page, names: ReadonlySet<string>): Page[] {
  return readdirSync(join(docs, dirname(name)))
    .map((file) => `${dirname(name)}/${file}`)
    .filter((file) => file.endsWith(".md") && !names.has(file))
    .toSorted()
    .map((file) => ({ group, title: /^# (.*)$/m.exec(textOf(file))?.[1] ?? file, name: file, file }));
}

const nameOf = (link: string): string => `${link.slice(1)}${link.endsWith("/") ? "index" : ""}.md`;

/** The text of a page, without the comments that only tests read. */
const textOf = (file: string): string =>
  readFileSync(join(docs, file), "utf8")
    .replaceAll(/^<!--.*?-->\n/gm, "")
    .trim();

/** The list of the pages. @param linkOf - the address of a page */
export async function list(linkOf: (page: Page) => string): Promise<string> {
  const groups = Map.groupBy(await pages(), ({ group }) => group);
  const lists = [...groups].map(
    ([group, of]) => `## ${group}\n\n${of.map((page) => `- [${page.title}](${linkOf(page)})`).join("\n")}\n`,
  );
  const about = "Webhooks of a short-stay rental platform, handled without losing one.";
  return `# stayhook\n\n> ${about}\n\n${lists.join("\n")}`;
}

/** Writes llms.txt, llms-full.txt and the text of each page into the folder of the site. */
export async function writeSite(folder: string): Promise<void> {
  const all = await pages();
  for (const { name, file } of all) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), `${textOf(file)}\n`);
  }
  writeFileSync(join(folder, "llms.txt"), await list(({ name }) => `/${name}`));
  const texts = all.map(({ name, file }) => `<!-- /${name} -->\n\n${textOf(file)}\n`);
  writeFileSync(join(folder, "llms-full.txt"), texts.join("\n"));
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  writeFileSync(join(docs, "llms.txt"), await list(({ file }) => file));
