import { type Command, type Entry, optionsOf, UsageError } from "../command.ts";

/**
 * The candidates for the word at the cursor. A pattern has three texts between colons: the word before the cursor or the
 * number of words before it, the command, and the command of its group. `1:*` stands for the first word after `stayhook`.
 */
type Case = readonly [patterns: readonly string[], words: readonly string[]];

interface Cases {
  /** Cases of a word that is the value of an option. */
  readonly ofValues: readonly Case[];
  readonly ofNames: readonly Case[];
}

async function allCases(commands: readonly Entry[]): Promise<Cases> {
  const ofValues: Case[] = [];
  const ofNames: Case[] = [[["1:*"], [...commands.map(({ name }) => name), "help", "--help", "--version"]]];
  const add = (command: Command, path: string) => {
    const options = Object.entries(optionsOf(command));
    const taking = options.filter(([, { value }]) => value !== undefined);
    for (const [name, { choices }] of taking) if (choices) ofValues.push([[`--${name}:${path}`], choices]);
    // No word stands for any other value, so that the shell completes the name of a file.
    const others = taking.filter(([, { choices }]) => choices === undefined);
    if (others.length > 0) ofValues.push([others.map(([name]) => `--${name}:${path}`), []]);
    ofNames.push([[`*:${path}`], [...(command.choices ?? []), ...options.map(([name]) => `--${name}`)]]);
  };
  for (const { name, load } of commands) {
    const command = await load();
    const { commands: below = [] } = command;
    if (below.length > 0) ofNames.push([[`2:${name}:*`], [...below.map((each) => each.name), "--help"]]);
    for (const each of below) add(each, `${name}:${each.name}`);
    if (below.length === 0) add(command, `${name}:*`);
  }
  return { ofValues, ofNames };
}

const casesFor = (
  cases: readonly Case[],
  line: (patterns: readonly string[], words: string) => string,
): string => cases.map(([patterns, words]) => line(patterns, words.join(" "))).join("\n");

// In each shell, a name of a file completes where no word does, for options such as --store.
const scripts: Readonly<Record<string, (cases: Cases) => string>> = {
  bash: ({ ofValues, ofNames }) => `_stayhook() {
  local words=""
  local path="\${COMP_WORDS[1]}:\${COMP_WORDS[2]}"
  case "\${COMP_WORDS[COMP_CWORD - 1]}:$path" in
${casesFor(ofValues, (patterns, words) => `    ${patterns.join("|")}) words="${words}" ;;`)}
    *) case "$COMP_CWORD:$path" in
${casesFor(ofNames, (patterns, words) => `      ${patterns.join("|")}) words="${words}" ;;`)}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _stayhook stayhook`,

  zsh: ({ ofValues, ofNames }) => `#compdef stayhook
_stayhook() {
  local -a candidates
  local place="$words[2]:$words[3]"
  case "$words[CURRENT-1]:$place" in
${casesFor(ofValues, (patterns, words) => `    ${patterns.join("|")}) candidates=(${words}) ;;`)}
    *) case "$((CURRENT - 1)):$place" in
${casesFor(ofNames, (patterns, words) => `      ${patterns.join("|")}) candidates=(${words}) ;;`)}
    esac ;;
  esac
  compadd -- $candidates || _files
}
compdef _stayhook stayhook`,

  fish: ({ ofValues, ofNames }) => `function __stayhook_words
  set -l typed (commandline -opc)
  set -l place "$typed[2]:$typed[3]"
  switch "$typed[-1]:$place"
${casesFor(ofValues, (patterns, words) => `    case ${patterns.map((pattern) => `'${pattern}'`).join(" ")}\n      ${words === "" ? "" : `printf '%s\\n' ${words}; `}return`)}
  end
  switch (count $typed)":$place"
${casesFor(ofNames, (patterns, words) => `    case ${patterns.map((pattern) => `'${pattern}'`).join(" ")}\n      printf '%s\\n' ${words}`)}
  end
end
complete -c stayhook -f -a '(__stayhook_words)'
complete -c stayhook -n 'not count (__stayhook_words) >/dev/null' -F`,
};

/** @param commands - all commands, which the script completes */
export const completionOf = (commands: readonly Entry[]): Command => ({
  takes: "<shell>",
  arguments: [1, 1],
  choices: Object.keys(scripts),
  description: `<shell> is bash, zsh or fish. The script completes the command "stayhook", so install the package
globally, or put node_modules/.bin into your PATH. In zsh, load the script after compinit.`,
  examples: [
    "stayhook completion fish > ~/.config/fish/completions/stayhook.fish",
    "source <(stayhook completion bash)",
    "source <(stayhook completion zsh)",
  ],
  run: async ({ out, positionals: [shell = ""] }) => {
    const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
    if (!script) throw new UsageError("<shell> must be bash, zsh or fish.");
    const cases = await allCases(commands);
    out.result({ shell, script: script(cases) }, () => script(cases));
  },
});
