//! The pages of the manual: templates with the parts that come from elsewhere filled in.

use std::collections::BTreeMap;

use super::catalogue;
use super::checked;
use super::help::{self, Help, Opt, Verb};
use super::mdoc;

/// Returns a page for its template. A line `@NAME@` of the template stands for a part.
pub(crate) fn fill(template: &str) -> String {
    let mut page = String::from(GENERATED);
    for line in template.lines() {
        let name = line
            .strip_prefix('@')
            .and_then(|line| line.strip_suffix('@'));
        page += &name.map_or_else(|| line.to_owned() + "\n", part);
    }
    page
}

fn part(name: &str) -> String {
    match name {
        "SYNOPSIS" => synopsis(),
        "LOCAL" => commands(false),
        "ASKING" => commands(true),
        "STATUSES" => statuses(),
        "KEYS" => keys(),
        "EXAMPLE" => mdoc::literal(checked::EXAMPLE),
        "MISTAKES" => mdoc::literal(checked::MISTAKES),
        "PROBLEMS" => mdoc::literal(&checked::problems()),
        "LOG" => log(),
        other => panic!("no part has the name {other}"),
    }
}

fn synopsis() -> String {
    let verbs = help::verbs();
    let usages = verbs.iter().flat_map(|verb| &verb.own.usage);
    let mut lines: String = usages.map(|usage| mdoc::usage(usage)).collect();
    lines += ".Nm\n.Cm help Op Ar COMMAND\n";
    lines
}

/// Returns the commands that ask a daemon, or those that do not.
fn commands(is_asking: bool) -> String {
    let verbs = help::verbs();
    let mut lines = String::new();
    let mut common = None;
    for verb in verbs.iter().filter(|it| it.is_asking() == is_asking) {
        lines += &command(verb);
        common = is_asking.then_some(&verb.common);
    }
    if let Some(common) = common {
        lines += &mdoc::subsection("Options of all commands that ask a daemon");
        lines += &options(common.options());
    }
    lines
}

fn command(verb: &Verb) -> String {
    let Verb { name, own, .. } = verb;
    let mut lines = mdoc::subsection(&format!("plugind {name}"));
    let paragraphs = own.about.iter().chain(&own.notes);
    let paragraphs: Vec<String> = paragraphs.map(|text| mdoc::text(text)).collect();
    lines += &paragraphs.join(".Pp\n");
    for section in &own.sections {
        let list = section.entries.iter().filter_map(Opt::parse);
        let list = options(list);
        if !list.is_empty() {
            if section.title != "Options" {
                lines += ".Pp\n";
                lines += &mdoc::text(&format!("{}:", section.title));
            }
            lines += &list;
        }
    }
    lines
}

/// Returns a list of options, without those of every command.
fn options<'a>(options: impl Iterator<Item = Opt<'a>>) -> String {
    let own = options.filter(|option| !option.is_standard());
    let entries = own.map(|option| (mdoc::option(&option), mdoc::text(option.text)));
    let entries: Vec<_> = entries.collect();
    if entries.is_empty() {
        return String::new();
    }
    mdoc::list(entries)
}

/// Returns the exit statuses of all commands.
fn statuses() -> String {
    let verbs = help::verbs();
    let mut meanings: BTreeMap<u8, Vec<(&str, Vec<&str>)>> = BTreeMap::new();
    for verb in &verbs {
        let of = |help: &'_ Help| help.statuses.len();
        assert!(
            of(&verb.own) + of(&verb.common) > 0,
            "{} has no status",
            verb.name
        );
        for (status, text) in verb.own.statuses.iter().chain(&verb.common.statuses) {
            let texts = meanings.entry(*status).or_default();
            match texts.iter_mut().find(|it| it.0 == text) {
                Some((_, names)) => names.push(&verb.name),
                None => texts.push((text, vec![&verb.name])),
            }
        }
    }
    let entries = meanings.into_iter().map(|(status, texts)| {
        let mut body = String::new();
        for (text, names) in texts {
            let names = shown(&names, &verbs);
            body += &mdoc::text(&format!("{names}: {text}."));
            body += ".br\n";
        }
        (
            status.to_string(),
            body.trim_end_matches(".br\n").to_owned(),
        )
    });
    mdoc::list(entries)
}

/// Returns a list of commands. Those that ask a daemon are named together if all are in it.
fn shown(names: &[&str], verbs: &[Verb]) -> String {
    if names.len() == verbs.len() {
        return "all commands".to_owned();
    }
    let asking = || verbs.iter().filter(|it| it.is_asking());
    let mut names = names.to_vec();
    if asking().all(|verb| names.contains(&&*verb.name)) {
        names.retain(|name| !asking().any(|verb| verb.name == *name));
        names.push("commands that ask a daemon");
    }
    names.join(", ")
}

/// Returns the keys of the configuration file.
fn keys() -> String {
    let verbs = help::verbs();
    let entries = checked::keys(&verbs).into_iter().map(|key| {
        let mut head = format!("Cm {}", key.name);
        if !key.value.is_empty() {
            head += &format!(" Ar {}", key.value);
        }
        let mut body = mdoc::text(key.text);
        if let Some(variable) = &key.variable {
            body += &format!(".br\nEnvironment:\n.Ev {variable} .\n");
        }
        (head, body)
    });
    mdoc::list(entries)
}

/// Returns the lines of the log, with their meaning.
fn log() -> String {
    let mut lines = String::new();
    let mut is_list = false;
    for item in catalogue::items() {
        match item {
            catalogue::Item::Heading(title) => {
                lines += if is_list { ".El\n" } else { "" };
                lines += &mdoc::subsection(&title);
                is_list = false;
            }
            catalogue::Item::Paragraph(text) => lines += &mdoc::text(&text),
            catalogue::Item::Line {
                words,
                note,
                meaning,
            } => {
                lines += if is_list { "" } else { ".Bl -tag -width Ds\n" };
                is_list = true;
                lines += &format!(".It Li {}\n", mdoc::quoted(&words));
                lines += &mdoc::text(&format!("({note}) {meaning}"));
            }
        }
    }
    lines + ".El\n"
}

/// The first line of a generated page.
const GENERATED: &str = ".\\\" Generated by `make generate` from the template beside it.\n";
