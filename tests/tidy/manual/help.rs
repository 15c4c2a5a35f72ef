//! The help texts as data: what the manual and the completions are generated from.

use lexopt::Parser;
use plugind::cli::Command;

/// A parsed help text.
#[derive(Debug, Default)]
pub(crate) struct Help {
    /// The paragraphs before the usage.
    pub(crate) about: Vec<String>,
    /// The command lines.
    pub(crate) usage: Vec<String>,
    /// The paragraphs after the usage, without the exit statuses.
    pub(crate) notes: Vec<String>,
    pub(crate) sections: Vec<Section>,
    /// The exit statuses, with their meaning.
    pub(crate) statuses: Vec<(u8, String)>,
}

/// A list with a heading, such as that of the options.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) entries: Vec<Entry>,
}

/// An entry of a list.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The option with its value, or the command: `-o, --output FORMAT`.
    pub(crate) head: String,
    pub(crate) text: String,
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt<'a> {
    /// The short name with its dash, which may be empty.
    pub(crate) short: &'a str,
    /// The long name without dashes.
    pub(crate) long: &'a str,
    /// The value, which is empty for a flag.
    pub(crate) value: &'a str,
    pub(crate) text: &'a str,
}

/// A command with its help.
#[derive(Debug)]
pub(crate) struct Verb {
    pub(crate) name: String,
    /// The entry in the list of all commands.
    pub(crate) summary: String,
    /// What only this command has.
    pub(crate) own: Help,
    /// What all commands that ask a daemon have; empty for others.
    pub(crate) common: Help,
}

/// Returns the parts of the help text that a command line prints.
pub(crate) fn printed(line: &[&str]) -> [&'static str; 2] {
    match Command::parse(Parser::from_args(line)) {
        Ok(Command::Print(help)) => help,
        other => panic!("{line:?} does not print a text: {other:?}"),
    }
}

/// Returns the help of the program itself.
pub(crate) fn program() -> Help {
    Help::parse(printed(&["help"])[0])
}

/// Returns every command of the program, in the order of the help text.
pub(crate) fn verbs() -> Vec<Verb> {
    let program = program();
    let listed = program.commands().filter(|(name, _)| *name != "help");
    listed
        .map(|(name, summary)| {
            let [own, common] = printed(&["help", name]);
            Verb {
                name: name.to_owned(),
                summary: summary.to_owned(),
                own: Help::parse(own),
                common: Help::parse(common),
            }
        })
        .collect()
}

impl Verb {
    /// Returns all options of the command.
    pub(crate) fn options(&self) -> Vec<Opt<'_>> {
        self.own.options().chain(self.common.options()).collect()
    }

    /// Returns whether the command asks a running daemon.
    pub(crate) fn is_asking(&self) -> bool {
        !self.common.sections.is_empty()
    }

    /// Returns the operands of the command, as in its usage: `[TYPE[/NAME]]`.
    pub(crate) fn operands(&self) -> Vec<&str> {
        let words = self.own.usage.iter().flat_map(|usage| {
            let words: Vec<&str> = usage.split(' ').skip(2).collect();
            let is_value = |at: usize| at > 0 && words[at - 1].starts_with("--");
            let operands = (0..words.len()).filter(|&at| {
                let word = words[at].trim_start_matches('[');
                let is_choice = word.contains('|') && !word.starts_with('-');
                (is_choice || word.starts_with(|c: char| c.is_ascii_uppercase()))
                    && word != "OPTIONS]"
                    && !is_value(at)
            });
            operands.map(|at| words[at]).collect::<Vec<_>>()
        });
        words.collect()
    }

    /// Returns the words that an option accepts as its value, as its parser lists them; none if it
    /// accepts others, too. A word that ends with `=` has a value itself.
    pub(crate) fn words_of(&self, option: &Opt<'_>) -> Vec<String> {
        let option = format!("--{}", option.long);
        for value in ["?", ""] {
            let line = [&*self.name, &option, value];
            let Err(error) = Command::parse(Parser::from_args(line)) else {
                continue;
            };
            let error = error.to_string();
            let Some((_, expected)) = error.split_once(&format!(" for {option}, expected ")) else {
                continue;
            };
            let expected = expected.split("; see ").next().unwrap_or_default();
            let expected = expected.split(" such as ").next().unwrap_or_default();
            let expected = expected.replace(" or ", ", ");
            let words = expected.split(", ").map(str::trim);
            return words.filter_map(word).collect();
        }
        Vec::new()
    }
}

/// Returns a word that stands for itself, or up to the `=` behind which its value is.
fn word(word: &str) -> Option<String> {
    let (name, has_value) = match word.split_once('=') {
        Some((name, _)) => (name, true),
        None => (word, false),
    };
    let is_name = name.len() > 1 && name.chars().all(|c| c.is_ascii_alphabetic());
    let is_placeholder = name.chars().all(|c| c.is_ascii_uppercase());
    let end = if has_value { "=" } else { "" };
    (is_name && !is_placeholder).then(|| [name, end].concat())
}

impl Help {
    /// Parses a help text.
    pub(crate) fn parse(text: &str) -> Self {
        let mut help = Self::default();
        let mut is_open = false;
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let is_usage = line.starts_with("       plugind ") && help.sections.is_empty();
            if line.is_empty() {
                is_open = false;
            } else if let Some(usage) = line.strip_prefix("Usage: ") {
                help.usage.push(usage.to_owned());
            } else if is_usage {
                help.usage.push(line.trim_start().to_owned());
            } else if line.starts_with("  ") {
                help.add_line(line);
                is_open = false;
            } else if line.ends_with(':') && lines.get(at + 1).is_none_or(|it| it.starts_with(' '))
            {
                help.sections.push(Section {
                    title: line.trim_end_matches(':').to_owned(),
                    entries: Vec::new(),
                });
            } else {
                help.add_words(line, is_open);
                is_open = true;
            }
        }
        help.take_statuses();
        help
    }

    /// Adds a line of a list. The common part of a help text begins within the list of options.
    fn add_line(&mut self, line: &str) {
        if self.sections.is_empty() {
            self.sections.push(Section {
                title: "Options".to_owned(),
                entries: Vec::new(),
            });
        }
        let entries = self.sections.last_mut().map(|it| &mut it.entries);
        let entries = entries.expect("a section was added");
        let text = line.trim_start();
        if line.len() - text.len() == 2 {
            let (head, text) = text.split_once("  ").unwrap_or((text, ""));
            entries.push(Entry {
                head: head.to_owned(),
                text: text.trim_start().to_owned(),
            });
        } else if let Some(entry) = entries.last_mut() {
            let space = if entry.text.is_empty() { "" } else { " " };
            entry.text += space;
            entry.text += text;
        }
    }

    /// Adds a line of a paragraph.
    fn add_words(&mut self, line: &str, is_open: bool) {
        let is_before = self.usage.is_empty() && self.sections.is_empty();
        let paragraphs = if is_before {
            &mut self.about
        } else {
            &mut self.notes
        };
        match paragraphs.last_mut().filter(|_| is_open) {
            Some(paragraph) => {
                paragraph.push(' ');
                paragraph.push_str(line);
            }
            None => paragraphs.push(line.to_owned()),
        }
    }

    /// Moves the exit statuses out of the paragraphs and lists.
    fn take_statuses(&mut self) {
        let lists = self
            .sections
            .iter()
            .position(|it| it.title.starts_with("Exit status"));
        if let Some(list) = lists {
            let list = self.sections.remove(list);
            let entries = list.entries.into_iter();
            let statuses = entries.map(|it| (it.head.parse().expect("a status"), it.text));
            self.statuses.extend(statuses);
        }
        for paragraph in &mut self.notes {
            if let Some((before, statuses)) = paragraph.split_once("Exit status: ") {
                self.statuses.extend(numbered(statuses));
                *paragraph = before.trim_end().to_owned();
            } else if let Some(statuses) = paragraph.strip_prefix("Exits with ") {
                self.statuses
                    .extend(numbered(&statuses.replace(", with ", ", ")));
                paragraph.clear();
            }
        }
        self.notes.retain(|paragraph| !paragraph.is_empty());
    }

    /// Returns the commands that the help text of the program lists, with their descriptions.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&str, &str)> {
        let sections = self.sections.iter().filter(|it| it.title != "Options");
        let entries = sections.flat_map(|it| &it.entries);
        entries.map(|it| (it.head.split(' ').next().unwrap_or_default(), &*it.text))
    }

    /// Returns the options.
    pub(crate) fn options(&self) -> impl Iterator<Item = Opt<'_>> {
        let entries = self.sections.iter().flat_map(|it| &it.entries);
        entries.filter_map(Opt::parse)
    }
}

impl<'a> Opt<'a> {
    /// Returns the option that an entry describes.
    pub(crate) fn parse(entry: &'a Entry) -> Option<Self> {
        let (short, long) = match entry.head.split_once(", --") {
            Some(both) => both,
            None => ("", entry.head.strip_prefix("--")?),
        };
        let (long, value) = long.split_once(' ').unwrap_or((long, ""));
        Some(Self {
            short,
            long,
            value,
            text: &entry.text,
        })
    }

    /// Returns the names of the option, with their dashes.
    pub(crate) fn spelled(&self) -> impl Iterator<Item = String> {
        let short = Some(self.short.to_owned()).filter(|it| !it.is_empty());
        short.into_iter().chain([format!("--{}", self.long)])
    }

    /// Returns whether the option may be given several times.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.text.contains("several times") || self.text.contains("-vv")
    }

    /// Returns whether every command has the option.
    pub(crate) fn is_standard(&self) -> bool {
        ["help", "version"].contains(&self.long)
    }

    /// Returns the beginning of the description, as short as a completion shows it.
    pub(crate) fn summary(&self) -> &'a str {
        let end = self.text.find([';', ':', '(']).unwrap_or(self.text.len());
        let text = self.text[..end].trim();
        let text = match text.find(", ") {
            Some(at) if text.len() > SUMMARY => &text[..at],
            _ => text,
        };
        if text.contains(' ') { text } else { self.value }
    }
}

/// The length from which a summary ends at its first comma.
const SUMMARY: usize = 60;

/// Splits statuses such as `0 done, 1 failed, at once, 2 wrong usage.`
fn numbered(text: &str) -> Vec<(u8, String)> {
    let mut statuses: Vec<(u8, String)> = Vec::new();
    for part in text.trim_end_matches('.').split(", ") {
        let numbered = part.split_once(' ').and_then(|(number, meaning)| {
            let number = number.parse().ok()?;
            Some((number, meaning.to_owned()))
        });
        match (numbered, statuses.last_mut()) {
            (Some(status), _) => statuses.push(status),
            (None, Some((_, meaning))) => *meaning += &format!(", {part}"),
            (None, None) => panic!("a status does not begin with its number: {text}"),
        }
    }
    statuses
}
