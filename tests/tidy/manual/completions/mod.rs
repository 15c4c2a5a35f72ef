//! The completions of the shells, from the help texts.

mod bash;
mod fish;
mod zsh;

use plugind::config::DEFAULT_TYPES;

use super::help::{self, Opt, Verb};

/// Returns each completion with the name of its file.
pub(crate) fn all() -> [(&'static str, String); 3] {
    let commands = commands(&help::verbs());
    [
        ("plugind.bash", bash::script(&commands)),
        ("_plugind", zsh::script(&commands)),
        ("plugind.fish", fish::script(&commands)),
    ]
}

/// A command.
#[derive(Debug)]
struct Command {
    name: String,
    summary: String,
    options: Vec<Choice>,
    operand: Value,
}

/// An option of a command.
#[derive(Debug)]
struct Choice {
    /// The short name without its dash.
    short: Option<String>,
    /// The long name without its dashes.
    long: String,
    summary: String,
    /// The name of the value, which is empty for a flag.
    placeholder: String,
    value: Value,
    is_repeatable: bool,
}

/// What a value can be.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Value {
    words: Vec<String>,
    source: Option<Source>,
}

/// Where values come from that are not in the help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Directories,
    Files,
    /// The commands.
    Commands,
    /// The plugins that a running daemon lists.
    Plugins,
    /// Those, and files.
    PluginsAndFiles,
    /// The resources of the device plugins that it lists.
    Resources,
}

fn commands(verbs: &[Verb]) -> Vec<Command> {
    let commands = verbs.iter().map(|verb| Command {
        name: verb.name.clone(),
        summary: verb.summary.clone(),
        options: verb.options().iter().map(|it| choice(verb, it)).collect(),
        operand: operand(verb),
    });
    let help = Command {
        name: "help".to_owned(),
        summary: "print the help of a command".to_owned(),
        options: Vec::new(),
        operand: Value {
            words: Vec::new(),
            source: Some(Source::Commands),
        },
    };
    commands.chain([help]).collect()
}

fn choice(verb: &Verb, option: &Opt<'_>) -> Choice {
    let source = match option.value.split('|').next() {
        Some("DIR") => Some(Source::Directories),
        Some("FILE" | "PATH" | "FROM=TO" | "TYPE=PROGRAM") => Some(Source::Files),
        _ => None,
    };
    let mut words = verb.words_of(option);
    if option.long == "type" {
        words = DEFAULT_TYPES.map(str::to_owned).to_vec();
    }
    let is_repeatable = option.text.contains("several times") || option.text.contains("-vv");
    Choice {
        short: option.short.strip_prefix('-').map(str::to_owned),
        long: option.long.to_owned(),
        summary: option.summary().to_owned(),
        placeholder: option.value.to_owned(),
        value: Value { words, source },
        is_repeatable,
    }
}

/// Returns what the arguments of a command can be that are not options.
fn operand(verb: &Verb) -> Value {
    let operands = verb.operands().join(" ");
    let has = |name: &str| operands.contains(name);
    let words = if has("FILTER") { &LEVELS[..] } else { &[] };
    let source = if has("TYPE") && has("SOCKET") {
        Some(Source::PluginsAndFiles)
    } else if has("TYPE") {
        Some(Source::Plugins)
    } else if has("RESOURCE") {
        Some(Source::Resources)
    } else if has("FILE") || has("PATH") {
        Some(Source::Files)
    } else {
        None
    };
    Value {
        words: words.iter().map(|&word| word.to_owned()).collect(),
        source,
    }
}

/// Returns text between single quotes of a shell: a quote ends them, and begins them again.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The simple log filters.
const LEVELS: [&str; 7] = ["default", "error", "warn", "info", "debug", "trace", "off"];

#[test]
fn values_are_recognized_by_their_names() {
    let commands = commands(&help::verbs());
    let command = |name: &str| {
        commands
            .iter()
            .find(|it| it.name == name)
            .expect("a command")
    };
    let value = |name: &str, long: &str| {
        let options = &command(name).options;
        let option = options
            .iter()
            .find(|it| it.long == long)
            .expect("an option");
        (option.value.words.join(" "), option.value.source)
    };
    assert_eq!(
        value("run", "plugins-dir"),
        (String::new(), Some(Source::Directories))
    );
    assert_eq!(
        value("run", "config"),
        ("none".to_owned(), Some(Source::Files))
    );
    assert_eq!(value("probe", "output"), ("text json".to_owned(), None));
    assert_eq!(value("simulate", "type").0, DEFAULT_TYPES.join(" "));
    for (name, source) in [
        ("run", None),
        ("probe", Some(Source::Files)),
        ("check-config", Some(Source::Files)),
        ("describe", Some(Source::PluginsAndFiles)),
        ("wait", Some(Source::Plugins)),
        ("devices", Some(Source::Resources)),
    ] {
        assert_eq!(command(name).operand.source, source, "{name}");
    }
    assert!(command("log").operand.words.contains(&"debug".to_owned()));
}
