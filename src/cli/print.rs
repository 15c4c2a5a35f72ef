//! `plugind config` and `plugind completion`: a configuration file, and completions for shells.

use super::Command;
use super::arguments::{Argument, Arguments, UsageError};
use super::settings::template;
use super::values::{join_with_or, parse_one_of};

/// Parses the arguments after `config`: there are none.
pub(super) fn parse_config(arguments: &mut Arguments) -> Result<Command, UsageError> {
    match arguments.next()? {
        None => Ok(Command::Print([CONFIG, template().leak()])),
        Some(other) => arguments.parse_standard(&other),
    }
}

/// Parses the arguments after `completion`: the name of a shell.
pub(super) fn parse_completion(arguments: &mut Arguments) -> Result<Command, UsageError> {
    let expected = join_with_or(&SHELLS.map(|(name, _)| name));
    let script = match arguments.next()? {
        None => return Err(arguments.error(format!("missing shell, expected {expected}"))),
        Some(Argument::Value(name)) => parse_one_of(&name, &SHELLS)
            .map_err(|expected| arguments.invalid_argument(&name, &expected))?,
        Some(other) => return arguments.parse_standard(&other),
    };
    match arguments.next()? {
        None => Ok(Command::Print([script, ""])),
        Some(other) => arguments.parse_standard(&other),
    }
}

const SHELLS: [(&str, &str); 3] = [
    ("bash", include_str!("../dist/completions/plugind.bash")),
    ("zsh", include_str!("../dist/completions/_plugind")),
    ("fish", include_str!("../dist/completions/plugind.fish")),
];

/// The first lines of the configuration file that `plugind config` prints.
const CONFIG: &str = "\
# The configuration of plugind: see plugind.conf(5). A line without # is an
# option that is given. `plugind check-config` shows what is in force, and
# `plugind reload` or a reload of the service reads this file again.
";

pub(super) const CONFIG_HELP: &str = "\
Print a configuration file for plugind run: every option with its description
and its default or the kind of its value, as comments.

Usage: plugind config

Exit status: 0 printed, 2 wrong usage.
";

pub(super) const COMPLETION_HELP: &str = "\
Print the completions of a shell. Bash: `. <(plugind completion bash)`; fish:
`plugind completion fish > ~/.config/fish/completions/plugind.fish`.

Usage: plugind completion bash|zsh|fish

Exit status: 0 printed, 2 wrong usage.
";
