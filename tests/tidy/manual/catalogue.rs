//! The catalogue of the log, `src/guide/log.rs`, as data.

use std::fs;

/// A part of the catalogue.
#[derive(Debug)]
pub(crate) enum Item {
    Heading(String),
    Paragraph(String),
    /// A line of the log.
    Line {
        /// The text, with `{name}` where a value is.
        words: String,
        /// The level, and the reason of the event if the line is one.
        note: String,
        /// What it means, and what to do.
        meaning: String,
    },
}

/// Returns the catalogue, from its first heading on.
pub(crate) fn items() -> Vec<Item> {
    let text = fs::read_to_string(super::in_crate(GUIDE)).expect("the catalogue");
    parse(&text)
}

fn parse(text: &str) -> Vec<Item> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("//!"));
    let lines = lines
        .map(str::trim)
        .skip_while(|line| !line.starts_with("# "));
    let mut items: Vec<Item> = Vec::new();
    let mut is_open = false;
    for line in lines {
        if line.is_empty() {
            is_open = false;
            continue;
        }
        if let Some(title) = line.strip_prefix("# ") {
            items.push(Item::Heading(title.to_owned()));
            continue;
        }
        if let Some(entry) = line.strip_prefix("- ") {
            items.push(Item::Paragraph(entry.to_owned()));
        } else if let Some(Item::Paragraph(words)) = items.last_mut().filter(|_| is_open) {
            words.push(' ');
            words.push_str(line);
        } else {
            items.push(Item::Paragraph(line.to_owned()));
        }
        is_open = true;
    }
    items.into_iter().map(Item::recognized).collect()
}

impl Item {
    /// Returns a paragraph of the form "`words` (level, Reason): meaning" as a line of the log.
    fn recognized(self) -> Self {
        let Self::Paragraph(text) = &self else {
            return self;
        };
        let parts = text
            .strip_prefix('`')
            .and_then(|rest| rest.split_once("` ("));
        let Some((words, rest)) = parts else {
            return self;
        };
        let (note, meaning) = rest.split_once("): ").expect("a level, and a meaning");
        Self::Line {
            words: words.to_owned(),
            note: note.to_owned(),
            meaning: meaning.replace('`', ""),
        }
    }
}

/// The module that holds the catalogue.
const GUIDE: &str = "src/guide/log.rs";
