//! The configuration file that packages install: that of `plugind config`, with what they set.

use super::help::printed;

/// Returns the file.
pub(crate) fn file() -> String {
    let mut text = printed(&["config"]).concat();
    for (key, value) in SET {
        let (comment, line) = (format!("\n#{key} FILE\n"), format!("\n{key} {value}\n"));
        assert!(text.contains(&comment), "{key}");
        text = text.replace(&comment, &line);
    }
    text
}

/// What packages set: `/run` is as old as the boot, and so is what the file is worth.
const SET: [(&str, &str); 1] = [("state-file", "/run/plugind/state.json")];
