//! Text in mdoc, the language of manual pages.

use super::help::Opt;

/// Returns text as lines of a page: a sentence begins a line, and characters that mean something
/// to the formatter stand for themselves.
pub(crate) fn text(text: &str) -> String {
    let mut lines = String::new();
    for sentence in sentences(text) {
        let mut width = 0;
        for word in sentence.split_whitespace() {
            let word = escape(word);
            let length = word.chars().count();
            if width > 0 && width + 1 + length > WIDTH {
                lines.push('\n');
                width = 0;
            }
            if width > 0 {
                lines.push(' ');
                width += 1;
            } else if word.starts_with(['.', '\'']) {
                lines.push_str("\\&");
            }
            lines.push_str(&word);
            width += length;
        }
        lines.push('\n');
    }
    lines
}

/// Returns text that is shown as it is, line by line.
pub(crate) fn literal(text: &str) -> String {
    let mut lines = String::from(".Bd -literal -offset indent\n");
    for line in text.lines() {
        if line.starts_with(['.', '\'']) {
            lines.push_str("\\&");
        }
        lines.push_str(&line.replace('\\', "\\e").replace('-', "\\-"));
        lines.push('\n');
    }
    lines + ".Ed\n"
}

/// Returns a heading within a section.
pub(crate) fn subsection(title: &str) -> String {
    format!(".Ss {}\n", escape(title))
}

/// Returns a list of entries with a heading each, which is a line of macros.
pub(crate) fn list(entries: impl IntoIterator<Item = (String, String)>) -> String {
    let mut lines = String::from(".Bl -tag -width Ds\n");
    for (head, body) in entries {
        lines += &format!(".It {head}\n{body}");
    }
    lines + ".El\n"
}

/// Returns the heading of an option.
pub(crate) fn option(option: &Opt<'_>) -> String {
    let mut head = String::new();
    if let Some(letter) = option.short.strip_prefix('-') {
        head = format!("Fl {letter} , ");
    }
    head += &format!("Fl -{}", option.long);
    if !option.value.is_empty() {
        head += &format!(" Ar {}", option.value);
    }
    head
}

/// Returns a command line of the synopsis.
pub(crate) fn usage(usage: &str) -> String {
    let words: Vec<String> = usage.split(' ').skip(1).map(word_of_usage).collect();
    format!(".Nm\n.{}\n", words.join(" "))
}

/// Returns a word of a command line. A bracket around it or around several words is a macro.
fn word_of_usage(word: &str) -> String {
    let (begin, word) = match word.strip_prefix('[') {
        Some(word) => ("Oo ", word),
        None => ("", word),
    };
    let (word, end) = match word.strip_suffix(']') {
        Some(inner) if word.matches(']').count() > word.matches('[').count() => (inner, " Oc"),
        _ => (word, ""),
    };
    let shown = match word.strip_prefix('-') {
        Some(option) => format!("Fl {option}"),
        None if word.starts_with(|c: char| c.is_ascii_uppercase()) => format!("Ar {word}"),
        None => format!("Cm {word}"),
    };
    [begin, &shown, end].concat()
}

/// Returns an argument of a macro, which may have several words.
pub(crate) fn quoted(words: &str) -> String {
    let words = words.replace('\\', "\\e").replace('"', "\"\"");
    format!("\"{words}\"")
}

/// Splits text into its sentences.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(". ") {
        if text[at + 2..].starts_with(|c: char| c.is_ascii_uppercase()) {
            sentences.push(&text[start..=at]);
            start = at + 2;
        }
    }
    sentences.push(&text[start..]);
    sentences
}

/// Returns a word in which a dash stands for itself if the word is one to type.
fn escape(word: &str) -> String {
    let word = word.replace('\\', "\\e");
    let is_typed = word.starts_with(['-', '(']) || word.contains(['/', '$', '_', '=']);
    if is_typed {
        word.replace('-', "\\-")
    } else {
        word
    }
}

/// The width of a line of the source.
const WIDTH: usize = 78;
