/** A component of an iCalendar stream. */
export interface Component {
  readonly name: string;
  readonly properties: readonly Property[];
  readonly components: readonly Component[];
}

export interface Property {
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
  readonly value: string;
}

/** Parses an iCalendar stream with one calendar. Throws on any violation of RFC 5545. */
export function parseICalendar(text: string): Component {
  const lines = unfold(text);
  const calendar = readComponent(lines);
  if (lines.length > 0) throw new Error(`there is something after the calendar: ${lines[0]}`);
  if (calendar.name !== "VCALENDAR") throw new Error(`it is a ${calendar.name}`);
  expectOne(calendar, ["VERSION", "PRODID"], ["CALSCALE", "METHOD"]);
  if (only(calendar, "VERSION") !== "2.0") throw new Error("it is not version 2.0");
  if (calendar.components.length === 0) throw new Error("a calendar must have a component");
  for (const component of calendar.components) checkComponent(component);
  return calendar;
}

/** Returns the value of the component's only property with that name. */
export function only(component: Component, name: string): string {
  const found = component.properties.filter((property) => property.name === name);
  if (found.length !== 1 || !found[0]) throw new Error(`${component.name} has ${found.length} times ${name}`);
  return found[0].value;
}

/** Decodes a TEXT value. */
export function textOf(value: string): string {
  if (/(?<!\\)(?:\\\\)*[;,]/.test(value)) throw new Error(`not escaped: ${value}`);
  return value.replace(/\\(.?)/gs, (_, character: string) => {
    if (!["\\", ";", ",", "n", "N"].includes(character)) throw new Error(`no escape: \\${character}`);
    return character.toLowerCase() === "n" ? "\n" : character;
  });
}

export const events = ({ components }: Component): Component[] =>
  components.filter(({ name }) => name === "VEVENT");

function unfold(text: string): string[] {
  if (!text.endsWith("\r\n")) throw new Error("the last line does not end");
  const lines: string[] = [];
  for (const line of text.slice(0, -2).split("\r\n")) {
    if (/[\r\n]/.test(line)) throw new Error(`a bare line break in ${JSON.stringify(line)}`);
    const octets = new TextEncoder().encode(line).length;
    if (octets > 75) throw new Error(`${octets} octets: ${line}`);
    // The encoder replaces half of a character, so the decoded line would differ.
    if (new TextDecoder().decode(new TextEncoder().encode(line)) !== line)
      throw new Error(`a character is cut in two: ${line}`);
    if (/^[ \t]/.test(line)) {
      if (lines.length === 0) throw new Error("it begins with the rest of a line");
      lines[lines.length - 1] += line.slice(1);
    } else lines.push(line);
  }
  return lines;
}

function readComponent(lines: string[]): Component {
  const name = /^BEGIN:([A-Z-]+)$/.exec(lines.shift() ?? "")?.[1];
  if (name === undefined) throw new Error("no component begins");
  const properties: Property[] = [];
  const components: Component[] = [];
  for (;;) {
    const line = lines[0];
    if (line === undefined) throw new Error(`${name} does not end`);
    if (line === `END:${name}`) {
      lines.shift();
      return { name, properties, components };
    }
    if (line.startsWith("BEGIN:")) components.push(readComponent(lines));
    else {
      if (components.length > 0) throw new Error(`a property after a component: ${line}`);
      properties.push(readProperty(line));
      lines.shift();
    }
  }
}

function readProperty(line: string): Property {
  const match = /^([A-Z0-9-]+)((?:;[A-Z0-9-]+=[^:;,"]+)*):(.*)$/s.exec(line);
  if (!match) throw new Error(`not a property: ${line}`);
  const [, name = "", parameters = "", value = ""] = match;
  if (/[^\P{Cc}\t]/u.test(value)) throw new Error(`a control character in ${JSON.stringify(line)}`);
  const pairs = parameters
    .split(";")
    .slice(1)
    .map((pair) => pair.split("=") as [string, string]);
  return { name, parameters: Object.fromEntries(pairs), value };
}

function checkComponent(component: Component): void {
  if (component.name === "VTIMEZONE") {
    expectOne(component, ["TZID"], []);
    if (component.components.length === 0) throw new Error("a time zone must have an observance");
    for (const one of component.components) expectOne(one, ["DTSTART", "TZOFFSETFROM", "TZOFFSETTO"], []);
    return;
  }
  if (component.name !== "VEVENT") throw new Error(`unexpected: ${component.name}`);
  expectOne(
    component,
    ["UID", "DTSTAMP", "DTSTART"],
    ["DTEND", "SUMMARY", "STATUS", "SEQUENCE", "LAST-MODIFIED", "TRANSP"],
  );
  for (const name of ["DTSTAMP", "LAST-MODIFIED"])
    if (!/^\d{8}T\d{6}Z$/.test(only(component, name))) throw new Error(`${name} is not in UTC`);
  if (!/^\d+$/.test(only(component, "SEQUENCE"))) throw new Error("SEQUENCE is not a number");
  if (!["TENTATIVE", "CONFIRMED", "CANCELLED"].includes(only(component, "STATUS")))
    throw new Error("no such STATUS");
  const days = ["DTSTART", "DTEND"].map((name) => {
    const { parameters, value } = component.properties.find((property) => property.name === name) as Property;
    if (parameters.VALUE !== "DATE" || !/^\d{8}$/.test(value)) throw new Error(`${name} is not a date`);
    return value;
  });
  if (!days[0] || !days[1] || days[0] >= days[1]) throw new Error("it ends before it begins");
}

function expectOne(component: Component, required: readonly string[], once: readonly string[]): void {
  for (const name of required) only(component, name);
  for (const name of once)
    if (component.properties.filter((property) => property.name === name).length > 1)
      throw new Error(`${component.name} has ${name} more than once`);
}
