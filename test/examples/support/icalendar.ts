/** The properties of a component, in order, each as `NAME:value`. Parameters other than VALUE=DATE are kept. */
export type Properties = readonly string[];

export interface Calendar {
  readonly own: Properties;
  readonly events: readonly Properties[];
}

/** Reads a calendar. Throws if a line is not as RFC 5545 wants it, or if a component lacks a property. */
export function parseICalendar(text: string): Calendar {
  const components: { name: string; properties: string[] }[] = [];
  const open: string[] = [];
  for (const line of unfold(text)) {
    const [, verb, name = ""] = /^(BEGIN|END):([A-Z-]+)$/.exec(line) ?? [];
    if (verb === "BEGIN") {
      if (open.length === 0 && components.length > 0) throw new Error("there is a second calendar");
      open.push(name);
      components.push({ name, properties: [] });
    } else if (verb === "END") {
      if (open.pop() !== name) throw new Error(`END:${name} ends another component`);
    } else {
      // Exclude control characters, except for a tab.
      if (!/^[A-Z0-9-]+(?:;[A-Z0-9-]+=[^:;,"]+)*:[\P{Cc}\t]*$/u.test(line))
        throw new Error(`no property: ${line}`);
      const component = components.findLast((each) => each.name === open.at(-1));
      if (!component) throw new Error(`outside of a component: ${line}`);
      component.properties.push(line);
    }
  }
  const [calendar, ...inner] = components;
  if (open.length > 0 || calendar?.name !== "VCALENDAR" || inner.length === 0)
    throw new Error("is not one calendar with a component");
  for (const name of ["VERSION", "PRODID"]) only(calendar.properties, name);
  const events = inner.filter(({ name }) => name === "VEVENT").map(({ properties }) => properties);
  for (const event of events) {
    for (const name of ["UID", "SUMMARY", "SEQUENCE"]) only(event, name);
    if (!/^\d{8}T\d{6}Z$/.test(only(event, "DTSTAMP"))) throw new Error("DTSTAMP is not in UTC");
    const [from, to] = [only(event, "DTSTART;VALUE=DATE"), only(event, "DTEND;VALUE=DATE")];
    if (!/^\d{8}$/.test(from) || from >= to) throw new Error(`no dates: ${from} to ${to}`);
  }
  return { own: calendar.properties, events };
}

/** Returns the value of the only property with that name. */
export function only(properties: Properties, name: string): string {
  const found = properties.filter((property) => property.startsWith(`${name}:`));
  if (found.length !== 1) throw new Error(`${name} is there ${found.length} times`);
  return (found[0] as string).slice(name.length + 1);
}

/** Decodes a TEXT value. */
export function textOf(value: string): string {
  if (/(?<!\\)(?:\\\\)*[;,]/.test(value)) throw new Error(`not escaped: ${value}`);
  return value.replace(/\\(.?)/gs, (_, character: string) => {
    if (!["\\", ";", ",", "n"].includes(character)) throw new Error(`no escape: \\${character}`);
    return character === "n" ? "\n" : character;
  });
}

function unfold(text: string): string[] {
  if (!text.endsWith("\r\n")) throw new Error("the last line does not end");
  const lines: string[] = [];
  for (const line of text.slice(0, -2).split("\r\n")) {
    const octets = new TextEncoder().encode(line);
    if (octets.length > 75 || /[\r\n]/.test(line)) throw new Error(`too long, or broken: ${line}`);
    // The encoder replaces half of a character, so the decoded line would differ.
    if (new TextDecoder().decode(octets) !== line) throw new Error(`a character is cut in two: ${line}`);
    if (/^[ \t]/.test(line)) lines.push(`${lines.pop()}${line.slice(1)}`);
    else lines.push(line);
  }
  return lines;
}
