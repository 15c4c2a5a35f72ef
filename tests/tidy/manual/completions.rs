//! The completions of the shells: templates, filled in from the help texts.

use std::collections::BTreeMap;
use std::fs;

use plugind::config::DEFAULT_TYPES;

use super::help::{self, Opt, Verb};
use super::{COMPLETIONS, in_crate};

/// Returns each completion with the name of its file.
pub(crate) fn all() -> [(&'static str, String); 3] {
    let verbs = help::verbs();
    let commands: Vec<Command<'_>> = verbs.iter().map(Command::of).collect();
    let names: Vec<&str> = verbs.iter().map(|it| &*it.name).collect();
    let names = names.join(" ") + " help";
    [
        ("plugind.bash", bash(&commands, &names)),
        ("_plugind", zsh(&commands)),
        ("plugind.fish", fish(&commands, &names)),
    ]
}

/// A command, with the values of its options and of its other arguments.
struct Command<'a> {
    verb: &'a Verb,
    options: Vec<(Opt<'a>, Value)>,
    operand: Value,
}

/// What a value can be: a word, or what comes from a source.
struct Value {
    words: String,
    source: Source,
}

/// Where values come from that are not in the help text: in bash, in zsh, and in fish as an option
/// and as words.
type Source = [&'static str; 4];

impl<'a> Command<'a> {
    fn of(verb: &'a Verb) -> Self {
        let options = verb.options().into_iter();
        Self {
            verb,
            options: options.map(|it| (it, Value::of(verb, &it))).collect(),
            operand: Value::of_operand(verb),
        }
    }
}

impl Value {
    fn of(verb: &Verb, option: &Opt<'_>) -> Self {
        let source = match option.value.split('|').next() {
            Some("DIR") => DIRECTORIES,
            Some("FILE" | "PATH" | "FROM=TO" | "TYPE=PROGRAM") => FILES,
            _ => NO_SOURCE,
        };
        let words = match option.long {
            "type" => DEFAULT_TYPES.join(" "),
            _ => verb.words_of(option).join(" "),
        };
        Self { words, source }
    }

    /// Returns what the arguments of a command can be that are not options.
    fn of_operand(verb: &Verb) -> Self {
        let operands = verb.operands().join(" ");
        let has = |name: &str| operands.contains(name);
        let source = match (has("TYPE"), has("SOCKET")) {
            (true, true) => PLUGINS_AND_FILES,
            (true, false) => PLUGINS,
            _ if has("RESOURCE") => RESOURCES,
            _ if has("FILE") || has("PATH") => FILES,
            _ => NO_SOURCE,
        };
        let words = if has("FILTER") {
            LEVELS.to_owned()
        } else {
            operands.replace('|', " ")
        };
        let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
        let words: Vec<&str> = words.split(' ').filter(is_word).collect();
        let words = words.join(" ");
        Self { words, source }
    }
}

/// Returns a template with its parts filled in.
fn fill(name: &str, parts: &[(&str, &str)]) -> String {
    let template = in_crate(COMPLETIONS).join(format!("{name}.in"));
    let template = fs::read_to_string(template).expect("a template");
    let filled = parts.iter();
    filled.fold(template, |text, (mark, part)| text.replace(mark, part))
}

fn bash(commands: &[Command<'_>], names: &str) -> String {
    let action = |Value { words, source }: &Value| match (&**words, source[0]) {
        ("", source) => source.to_owned(),
        (words, source) => format!("_plugind_words {}; {source}", quoted(words)),
    };
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut options, mut operands) = (String::new(), String::new());
    for command in commands {
        let name = &command.verb.name;
        for (option, value) in command.options.iter().filter(|it| !it.0.value.is_empty()) {
            let patterns = values.entry(action(value)).or_default();
            let spelled = option.spelled().map(|it| format!("{name}:{it}"));
            patterns.extend(spelled);
        }
        let own = command.options.iter().flat_map(|it| it.0.spelled());
        let all: Vec<String> = own.collect();
        let all = all.join(" ");
        options += &format!("\t\t{name}) _plugind_words {} ;;\n", quoted(&all));
        match &*action(&command.operand) {
            "" => {}
            action => operands += &format!("\t{name}) {action};;\n"),
        }
    }
    operands += &format!("\thelp) _plugind_words {}; ;;\n", quoted(names));
    let mut cases = String::new();
    for (action, patterns) in values {
        cases += &format!("\t{}) {action}return ;;\n", patterns.join(" | "));
    }
    let parts = [
        ("@VALUES@", &*cases),
        ("@OPTIONS@", &options),
        ("@OPERANDS@", &operands),
        ("@NAMES@", names),
    ];
    fill("plugind.bash", &parts)
}

fn zsh(commands: &[Command<'_>]) -> String {
    let action = |Value { words, source }: &Value| match (&**words, source[1]) {
        ("", source) => source.to_owned(),
        (words, "") => format!("({words})"),
        (words, source) => format!("{{compadd {words}; {source}}}"),
    };
    let (mut listed, mut arguments) = (String::new(), String::new());
    for command in commands {
        let Verb { name, summary, .. } = command.verb;
        let summary = summary.replace(':', "\\:");
        listed += &format!("\t\t{}\n", quoted(&format!("{name}:{summary}")));
        arguments += &format!("\t\t{name})\n\t\t\t_arguments -s -S");
        for (option, value) in &command.options {
            let summary = option.summary();
            let summary = summary.replace('[', "\\[").replace(']', "\\]");
            let mut text = format!("[{}]", summary.replace(':', "\\:"));
            let (mut one, mut other) = ("", "");
            if !option.value.is_empty() {
                (one, other) = ("+", "=");
                let action = Some(action(value)).filter(|it| !it.is_empty());
                let action = action.unwrap_or_else(|| " ".to_owned());
                text += &format!(":{}:{action}", option.value);
            }
            let (short, long) = (option.short, option.long);
            let star = if option.is_repeatable() { "*" } else { "" };
            let option = match (short, star) {
                ("", star) => quoted(&format!("{star}--{long}{other}{text}")),
                (short, "") => {
                    let forms = format!("'({short} --{long})'{{{short}{one},--{long}{other}}}");
                    forms + &quoted(&text)
                }
                _ => format!("'*'{{{short}{one},--{long}{other}}}{}", quoted(&text)),
            };
            if option == SOCKET {
                arguments += " $socket";
            } else {
                arguments += &format!(" \\\n\t\t\t\t{option}");
            }
        }
        arguments += " $standard";
        match &*action(&command.operand) {
            "" => {}
            action => {
                let operand = quoted(&format!("*:argument:{action}"));
                arguments += &format!(" \\\n\t\t\t\t{operand}");
            }
        }
        arguments += " ;;\n";
    }
    fill(
        "_plugind",
        &[("@COMMANDS@", &listed), ("@ARGUMENTS@", &arguments)],
    )
}

fn fish(commands: &[Command<'_>], names: &str) -> String {
    let value = |Value { words, source }: &Value| {
        let [.., files, source] = source;
        match format!("{words} {source}").trim() {
            "" => (*files).to_owned(),
            all => format!("{files} -a {}", quoted(all)),
        }
    };
    // A backslash stands before a quote in a quoted text.
    let in_quotes = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let (mut listed, mut options) = (String::new(), String::new());
    // What several commands have is added once for all of them.
    let mut of_commands: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for command in commands {
        let Verb { name, summary, .. } = command.verb;
        let summary = in_quotes(summary);
        listed += &format!("__plugind_command {name} {summary}\n");
        let mut add = |line: String| of_commands.entry(line).or_default().push(name);
        match value(&command.operand) {
            operand if operand.is_empty() => {}
            operand => add(operand),
        }
        for (option, values) in &command.options {
            let short = option.short.strip_prefix('-');
            let short = short.map_or_else(String::new, |it| format!(" -s {it}"));
            let values = match &*value(values) {
                _ if option.value.is_empty() => String::new(),
                values if values.starts_with(" -F") => format!(" -r{values}"),
                values => format!(" -x{values}"),
            };
            let (long, summary) = (option.long, in_quotes(option.summary()));
            add(format!("{short} -l {long}{values} -d {summary}"));
        }
    }
    for (line, names) in of_commands {
        options += &match &names[..] {
            [name] => format!("__plugind {name}{line}\n"),
            names => format!("for c in {}; __plugind $c{line}; end\n", names.join(" ")),
        };
    }
    let parts = [
        ("@NAMES@", names),
        ("@COMMANDS@", &listed),
        ("@OPTIONS@", &options),
    ];
    fill("plugind.fish", &parts)
}

/// Returns text between single quotes of a shell: a quote ends them, and begins them again.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The option of zsh that the commands have which ask a daemon.
const SOCKET: &str = "'--socket=[the API socket of plugind]:PATH:_files'";

const NO_SOURCE: Source = [""; 4];

const DIRECTORIES: Source = [
    "_plugind_files -d; ",
    "_files -/",
    "",
    "(__fish_complete_directories)",
];

const FILES: Source = ["_plugind_files -f; ", "_files", " -F", ""];

/// The plugins that a running daemon lists.
const PLUGINS: Source = ["_plugind_plugins; ", "_plugind_plugins", "", LISTED];

const PLUGINS_AND_FILES: Source = [
    "_plugind_plugins; _plugind_files -f; ",
    "{_plugind_plugins; _files}",
    " -F",
    LISTED,
];

/// The resources of the device plugins that it lists.
const RESOURCES: Source = [
    "_plugind_resources; ",
    "_plugind_resources",
    "",
    "(__plugind_resources)",
];

const LISTED: &str = "(plugind list -o name 2>/dev/null)";

/// The simple log filters.
const LEVELS: &str = "default error warn info debug trace off";
