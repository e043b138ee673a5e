// The faults that random schedules consist of. Each begins, and returns what ends it.
import { advance, sleep } from "../../queue/support.ts";
import type { Random } from "../../system/random.ts";
import { type Answer, SECOND } from "./app.ts";
import type { Rule, StoreFault, Target, World } from "./world.ts";

type End = () => unknown;
type Fault = (world: World, random: Random) => End | undefined | Promise<End | undefined>;

const added = <T>(set: Set<T>, item: T): End => {
  set.add(item);
  return () => set.delete(item);
};
const isListing = (id: string) => /^(\d+|listings)$/.test(id);

type Scope = (world: World, random: Random) => (target: Target) => boolean;
const everything: Scope = () => () => true;
const account: Scope = ({ accounts }, random) => {
  const one = random.pick(accounts);
  return (target) => target.account === one;
};
const lane: Scope = (world, random) => {
  const [isOfAccount, listings] = [account(world, random), random.oneIn(2)];
  return (target) => isOfAccount(target) && isListing(target.id) === listings;
};
const record: Scope = (world, random) => {
  const [isOfAccount, id] = [account(world, random), world.anyId()];
  return (target) => isOfAccount(target) && target.id === id;
};

const answering =
  (scope: Scope, answer: (random: Random) => Answer | undefined): Fault =>
  (world, random) => {
    const isHit = scope(world, random);
    const rule: Rule = (target) => (isHit(target) ? answer(random) : undefined);
    return added(world.rules, rule);
  };
const always = (answer: Answer) => () => answer;

/** Refuses records, for so short a time that their attempts last. */
const briefly =
  (scope: Scope, answer: Answer): Fault =>
  async (world, random) => {
    const end = await answering(scope, always(answer))(world, random);
    await advance(random.below(8) * SECOND);
    end!();
    return undefined;
  };

const store =
  (part: number, how: ReturnType<StoreFault>): Fault =>
  (world, random) => {
    const end = added<StoreFault>(world.storeFaults, () => (random.chance(part) ? how : "works"));
    return () => {
      end();
      world.noteStoreFault();
    };
  };

const clock =
  (ahead: number): Fault =>
  (world) => {
    world.ahead += ahead;
    return undefined;
  };

export const faults: Readonly<Record<string, Fault>> = {
  "5xx of everything": answering(everything, always(500)),
  "5xx of an account": answering(account, always(503)),
  "5xx of a lane": answering(lane, always(502)),
  "5xx of a record": answering(record, always(500)),
  "hanging reads": answering(everything, always("hangs")),
  "hanging reads of an account": answering(account, always("hangs")),
  "a hanging record": answering(record, always("hangs")),
  "no connection": answering(everything, always("refused")),
  "every third read fails": answering(everything, (random) => (random.oneIn(3) ? 500 : undefined)),
  "401 of an account": answering(account, always(401)),
  "401 of everything": answering(everything, always(401)),
  "429 of an account": answering(account, always(429)),
  "429 with Retry-After of an account": answering(account, (random) => ({
    status: 429,
    retryAfter: 1 + random.below(60),
  })),
  "503 with Retry-After": answering(everything, (random) => ({
    status: 503,
    retryAfter: 1 + random.below(60),
  })),
  "404 of a lane": answering(lane, always(404)),
  "404 of an account": answering(account, always(404)),
  "403 of an account": briefly(account, 403),
  "422 of a record": briefly(record, 422),
  "an unreadable body": answering(record, always("unreadable")),
  "unreadable bodies of an account": answering(account, always("unreadable")),
  "no token for an account": (world, random) => {
    const one = random.pick(world.accounts);
    return added(world.tokens, (account) => account === one);
  },
  "forged notifications": async (world, random) => {
    let count = 0;
    await world.arrive(10 + random.below(30), () => `FORGED${world.now()}-${count++}`);
    return undefined;
  },
  "slow callbacks": (world) => added(world.callbacks, () => sleep(8 * SECOND)),
  "throwing callbacks": (world, random) =>
    added(world.callbacks, () => {
      if (random.oneIn(2)) throw new Error("the callback failed");
    }),
  "a store that fails": store(1, "fails"),
  "a store that fails now and then": store(0.3, "fails"),
  "a store that hangs": store(1, "hangs"),
  "a store that hangs now and then": store(0.1, "hangs"),
  "a store that loses answers": store(0.1, "loses the answer"),
  "a killed process": (world) => {
    world.kill();
    return undefined;
  },
  "a process that begins": (world) => {
    world.start();
    return undefined;
  },
  "a replaced process": async (world) => {
    await world.replace();
    return undefined;
  },
  "a clock that jumps ahead": clock(20 * SECOND),
  "a clock that is set back": clock(-20 * SECOND),
  eraseAccount: (world, random) => {
    const one = random.pick(world.accounts);
    if (one !== undefined) world.erase(one);
    return undefined;
  },
  "discard of an account": async (world, random) => {
    await world.store.discard({ state: "pending", account: random.pick(world.accounts) });
    return undefined;
  },
  "discard of what is tried again": async (world, random) => {
    await world.store.discard({ state: "retrying", account: random.pick(world.accounts) });
    return undefined;
  },
  replay: async (world, random) => {
    await world.store.replay({
      state: random.pick(["retrying", "done"]),
      account: random.pick(world.accounts),
    });
    return undefined;
  },
  "events without a record": async (world, random) => {
    await world.arrive(1 + random.below(4), () => "");
    return undefined;
  },
  "a drain": (world) => {
    world.drain();
    return undefined;
  },
  "a pass of the reconciler": (world) => {
    world.reconcile();
    return undefined;
  },
  "a burst": async (world, random) => {
    await world.arrive(20 + random.below(30));
    return undefined;
  },
};
