import { type Command, type Entry, optionsOf, UsageError } from "../command.ts";

/**
 * The candidates for the word at the cursor. A pattern has the number of words before the cursor, the command, and the
 * command of its group: `1:*` stands for the first word after `stayhook`.
 */
type Case = readonly [pattern: string, words: readonly string[]];

const optionNames = (command: Command): string[] =>
  Object.keys(optionsOf(command)).map((name) => `--${name}`);

async function allCases(commands: readonly Entry[]): Promise<Case[]> {
  const cases: Case[] = [["1:*", [...commands.map(({ name }) => name), "help", "--help", "--version"]]];
  for (const { name, load } of commands) {
    const command = await load();
    const { commands: below = [] } = command;
    if (below.length > 0) cases.push([`2:${name}:*`, [...below.map((each) => each.name), "--help"]]);
    for (const each of below) cases.push([`*:${name}:${each.name}`, optionNames(each)]);
    if (below.length === 0) cases.push([`*:${name}:*`, optionNames(command)]);
  }
  return cases;
}

// In each shell, a name of a file completes where no word does, for options such as --store.
const scripts: Readonly<Record<string, (cases: readonly Case[]) => string>> = {
  bash: (cases) => `_stayhook() {
  local words=""
  case "$COMP_CWORD:\${COMP_WORDS[1]}:\${COMP_WORDS[2]}" in
${cases.map(([pattern, words]) => `    ${pattern}) words="${words.join(" ")}" ;;`).join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _stayhook stayhook`,

  zsh: (cases) => `#compdef stayhook
_stayhook() {
  local -a candidates
  case "$((CURRENT - 1)):$words[2]:$words[3]" in
${cases.map(([pattern, words]) => `    ${pattern}) candidates=(${words.join(" ")}) ;;`).join("\n")}
  esac
  compadd -- $candidates || _files
}
compdef _stayhook stayhook`,

  fish: (cases) => `function __stayhook_words
  set -l typed (commandline -opc)
  switch (count $typed)":$typed[2]:$typed[3]"
${cases.map(([pattern, words]) => `    case '${pattern}'\n      printf '%s\\n' ${words.join(" ")}`).join("\n")}
  end
end
complete -c stayhook -f -a '(__stayhook_words)'
complete -c stayhook -n 'contains -- --store (__stayhook_words)' -l store -r -F`,
};

/** @param commands - all commands, which the script completes */
export const completionOf = (commands: readonly Entry[]): Command => ({
  takes: "<shell>",
  arguments: [1, 1],
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
