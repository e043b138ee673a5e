// What several copies of this package share. `import` and `require` load separate copies, and a dependency may bring one.

/**
 * Returns the object that all copies share under a name, for facts about objects that one copy makes and another reads.
 * `Symbol.for` gives each copy the same symbol.
 *
 * @param make - makes the object at the first use in this process
 */
export function shared<T extends object>(name: string, make: () => T): T {
  const all = globalThis as { [key: symbol]: T | undefined };
  const key = Symbol.for(`stayhook.${name}`);
  all[key] ??= make();
  return all[key];
}

const BRAND = Symbol.for("stayhook.class");

type Class = abstract new (...args: never) => object;

/**
 * Marks a class, so that `instanceof` also knows the instances of the same class in another copy. A user's subclass has no
 * mark of its own, so it knows its own instances only.
 *
 * @param name - the name of the class. Also becomes its property `name`, which Node shows with each error, and which the
 * minifier of this package's CommonJS files has changed
 */
export function brand(marked: Class, name: string): void {
  Object.defineProperty(marked, "name", { value: name, configurable: true });
  Object.defineProperty(marked.prototype, BRAND, { value: name });
  Object.defineProperty(marked, Symbol.hasInstance, { value: hasInstance });
}

function hasInstance(this: Class, value: unknown): boolean {
  if (Function.prototype[Symbol.hasInstance].call(this, value)) return true;
  const name = ownBrand(this.prototype);
  if (name === undefined || typeof value !== "object") return false;
  for (let each = value; each !== null; each = Object.getPrototypeOf(each))
    if (ownBrand(each) === name) return true;
  return false;
}

function ownBrand(prototype: object): unknown {
  return Object.getOwnPropertyDescriptor(prototype, BRAND)?.value;
}
