//! The configuration file that packages install: all keys with their descriptions, as comments.

use super::{checked, help};

/// Returns the file.
pub(crate) fn file() -> String {
    let mut text = HEAD.to_owned();
    let verbs = help::verbs();
    for key in checked::keys(&verbs) {
        text.push('\n');
        let mut line = "#".to_owned();
        for word in key.text.split_whitespace() {
            if line.len() + 1 + word.len() > WIDTH {
                text += &line;
                "\n#".clone_into(&mut line);
            }
            line.push(' ');
            line += word;
        }
        text += &line;
        let set = SET.iter().find(|(name, _)| *name == key.name);
        text += &match (set, key.value.is_empty()) {
            (Some((name, value)), _) => format!("\n{name} {value}\n"),
            (None, true) => format!("\n#{}\n", key.name),
            (None, false) => format!("\n#{} {}\n", key.name, key.value),
        };
    }
    text
}

const HEAD: &str = "\
# The configuration of plugind: see plugind.conf(5). A line without # is an
# option that is given. `plugind check-config` shows what is in force, and
# `plugind reload` or a reload of the service reads this file again.
";

/// What packages set: `/run` is as old as the boot, and so is what the file is worth.
const SET: [(&str, &str); 1] = [("state-file", "/run/plugind/state.json")];

/// The greatest length of a line.
const WIDTH: usize = 80;
