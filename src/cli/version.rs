//! `plugind version`: the version, the commit that the program was built from, and the target.

use std::env::consts::ARCH;

use serde_json::json;

use super::client::print;
use super::failure::Result;
use super::json::to_json_line;
use super::options::{Context, Format};
use crate::api::REVISION;

/// Prints the version. Does not ask the daemon.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    print(format_version(context.options.format))
}

/// Returns the version, the commit and the target in this format.
fn format_version(format: Format) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let target = format!("{ARCH}{SYSTEM}");
    if format == Format::Json {
        return to_json_line(&json!({ "version": version, "commit": REVISION, "target": target }))
            + "\n";
    }
    format!("plugind {version}\ncommit: {REVISION}\ntarget: {target}\n")
}

/// The part of the target's name that follows the architecture.
const SYSTEM: &str = if cfg!(target_env = "musl") {
    "-linux-musl"
} else {
    "-linux-gnu"
};

pub(super) const HELP: &str = "\
Print the version, the commit that the program was built from, and the target.

Usage: plugind version [-o json]

Options:
  -o, --output FORMAT  text (default) or json

Exit status: 0 printed, 2 wrong usage.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_commit_and_target_as_text_and_as_json() {
        let lines = format_version(Format::Text);
        let lines: Vec<&str> = lines.lines().collect();
        let version = concat!("plugind ", env!("CARGO_PKG_VERSION"));
        assert_eq!(lines[0], version);
        assert_eq!(lines[1], format!("commit: {REVISION}"));
        assert_eq!(lines[2], format!("target: {ARCH}{SYSTEM}"));
        let document: serde_json::Value =
            serde_json::from_str(&format_version(Format::Json)).unwrap();
        assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(document["commit"], REVISION);
        assert_eq!(document["target"], format!("{ARCH}{SYSTEM}"));
    }
}
