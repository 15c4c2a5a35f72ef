//! `plugind doctor`: what keeps a daemon, or its plugins, from working on this node.
//!
//! Parses the arguments, examines the node, and shows the findings: as text for the terminal, or as
//! JSON. The JSON is plain ASCII; a parser of JSON returns its paths without any escapes.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::Command;
use super::arguments::{Argument, Arguments, UsageError};
use super::client::print_unless_closed;
use super::json::to_json_document;
use super::options::{Format, TEXT, socket_from_env};
use super::table::{Table, add_colour};
use super::values::{parse_one_of, parse_path};
use crate::config::{DEFAULT_PLUGINS_DIR, PLUGINS_DIR};
use crate::daemon::doctor::{self, Finding, Level};
use crate::daemon::has_colours;
use crate::escape;

/// Parses the arguments after `doctor`.
pub(super) fn parse(arguments: &mut Arguments) -> Result<Command, UsageError> {
    let mut examined = doctor::Options {
        dirs: Vec::new(),
        run_dir: None,
        socket: socket_from_env(),
    };
    let mut format = Format::Text;
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("--output") => {
                format = arguments.parse_value(|it| parse_one_of(it, TEXT))?;
            }
            Argument::Option("--run-dir") => {
                examined.run_dir = Some(arguments.parse_value(parse_path)?);
            }
            Argument::Option("--socket") => {
                examined.socket = Some(arguments.parse_value(parse_path)?);
            }
            Argument::Option("--plugins-dir") => {
                examined.dirs.push(arguments.parse_value(parse_path)?);
            }
            Argument::Option("--root-dir") => {
                examined
                    .dirs
                    .push(arguments.parse_value(parse_path)?.join(PLUGINS_DIR));
            }
            other => return arguments.parse_standard(&other),
        }
    }
    if examined.dirs.is_empty() {
        examined.dirs.push(PathBuf::from(DEFAULT_PLUGINS_DIR));
    }
    Ok(Command::Doctor(examined, format))
}

/// Examines the node, shows the findings, and returns the exit status: 1 if there is a warning or a
/// problem.
#[inline(never)]
pub fn run(examined: &doctor::Options, format: Format) -> Result<ExitCode, Box<dyn Error>> {
    let findings = doctor::examine(examined)?;
    let shown = match format {
        Format::Json => findings_to_json(&findings),
        _ => format_findings(&findings, has_colours(&io::stdout())),
    };
    print_unless_closed(shown)?;
    let is_well = findings.iter().all(|it| it.level < Level::Warning);
    Ok(if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the findings as text: for each finding a line, its paths if there are several and its
/// level is not [`Level::Ok`], and its remedy if there is one.
fn format_findings(findings: &[Finding], is_coloured: bool) -> String {
    let mut table = Table::new(is_coloured);
    table.widths = WIDTHS.to_vec();
    let mut add = |level: &str, check: &str, text: String| {
        table.add([add_colour(level.into()), check.into(), text.into()]);
    };
    for found in findings {
        let Finding { paths, count, .. } = found;
        let subject = match &paths[..] {
            [] => String::new(),
            [path] => format!("{}: ", escape::path(path)),
            _ => format!("{count} {}: ", found.check),
        };
        let message = subject + &found.message;
        add(found.level.name(), found.check, message);
        if paths.len() > 1 && found.level > Level::Ok {
            for path in paths {
                add("", "", format!("  {}", escape::path(path)));
            }
            if *count > paths.len() {
                add("", "", "  ...".to_owned());
            }
        }
        if !found.remedy.is_empty() {
            add("", "  remedy", found.remedy.clone());
        }
    }
    table.take_text("")
}

/// The minimum widths of the columns: the lengths of the longest level and check.
const WIDTHS: [usize; 2] = [7, 11];

/// Returns the findings as a JSON object.
fn findings_to_json(findings: &[Finding]) -> String {
    let findings = findings.iter().map(|found| {
        let mut json = json!({
            "level": found.level.name(),
            "check": found.check,
            "message": found.message,
        });
        if !found.remedy.is_empty() {
            json["remedy"] = json!(found.remedy);
        }
        if found.count > 0 {
            let paths = found.paths.iter().map(|path| path.to_string_lossy());
            json["paths"] = paths.collect();
            json["count"] = json!(found.count);
        }
        json
    });
    to_json_document(&json!({ "findings": findings.collect::<Value>() }))
}

pub(super) const HELP: &str = "\
Examine the node: what keeps plugind run, or the plugins, from working here.
Needs no daemon and changes nothing. Each plugin is probed, never notified, and
judged by the defaults of run: its configuration is not read.

Usage: plugind doctor [OPTIONS]

Checks the plugins directories and their permissions, the plugins in them, other
roots that have sockets (k0s, MicroK8s), kubelets that use the same directory,
the socket of a running daemon, and the limits of inotify.

Options:
  --plugins-dir DIR    examine DIR; can be given several times
                       (default: /var/lib/kubelet/plugins_registry)
  --root-dir DIR       examine DIR/plugins_registry, DIR being the --root-dir of
                       kubelet; can be given several times
  --run-dir DIR        the run directory of the daemon (default: that of run)
  --socket PATH        the socket of the daemon (default: $PLUGIND_API_SOCKET,
                       else plugind.sock in the run directory)
  -o, --output FORMAT  text: a line for each finding, and its remedy (default);
                       json: one object

A finding is ok, a note, a warning or a problem.
Exit status: 0 no warning and no problem, 1 a warning or a problem, 2 wrong
usage.
";

#[cfg(test)]
mod tests {
    use lexopt::Parser;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<(doctor::Options, Format), String> {
        let line = [&["doctor"], arguments].concat();
        match Command::parse(Parser::from_args(line)) {
            Ok(Command::Doctor(examined, format)) => Ok((examined, format)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn directories_are_named_as_for_run() {
        let dirs = |line: &[&str]| parse(line).unwrap().0.dirs;
        assert_eq!(dirs(&[]), [PathBuf::from(DEFAULT_PLUGINS_DIR)]);
        let named = dirs(&["--root-dir=/a", "--plugins-dir", "/b"]);
        assert_eq!(named, ["/a/plugins_registry", "/b"].map(PathBuf::from));
    }

    #[test]
    fn other_options_are_read_and_wrong_ones_are_named() {
        let line = ["--run-dir=/run/x", "--socket=/run/x.sock", "-ojson"];
        let options = parse(&line).unwrap();
        assert_eq!(options.0.run_dir, Some("/run/x".into()));
        assert_eq!(options.0.socket, Some("/run/x.sock".into()));
        assert_eq!(options.1, Format::Json);
        for (line, expected) in [
            (&["x"][..], "unexpected argument \"x\""),
            (
                &["-oyaml"],
                "invalid value \"yaml\" for -o, expected text or json",
            ),
            (
                &["--root=/a"],
                "unknown option --root (did you mean --root-dir?)",
            ),
        ] {
            let expected = format!("{expected}; see plugind doctor --help");
            assert_eq!(parse(line).unwrap_err(), expected);
        }
    }

    /// Returns findings of every level, with no path, one or several, some of which have to be
    /// escaped.
    fn findings() -> [Finding; 5] {
        let finding = |level, message: &str, remedy: &str, paths: &[&str]| Finding {
            level,
            check: "sockets",
            message: message.to_owned(),
            remedy: remedy.to_owned(),
            paths: paths.iter().map(PathBuf::from).collect(),
            count: paths.len(),
        };
        let dead = finding(Level::Warning, "nothing listens", "go", &["/a\n", "/ä"]);
        [
            finding(Level::Ok, "accepts connections", "", &["/a", "/b"]),
            finding(Level::Note, "is \\n", "", &["/a\n"]),
            Finding { count: 9, ..dead },
            finding(Level::Warning, "nothing listens", "go", &["/a", "/b"]),
            finding(Level::Problem, "none", "stay", &[]),
        ]
    }

    #[test]
    fn text_has_a_line_for_each_finding_with_its_remedy_below() {
        let expected = "\
ok       sockets      2 sockets: accepts connections
note     sockets      /a\\n: is \\n
warning  sockets      9 sockets: nothing listens
                        /a\\n
                        /ä
                        ...
           remedy     go
warning  sockets      2 sockets: nothing listens
                        /a
                        /b
           remedy     go
problem  sockets      none
           remedy     stay
";
        assert_eq!(format_findings(&findings(), false), expected);
        let shown = format_findings(&findings(), true);
        assert!(
            shown.contains("\x1b[31mproblem\x1b[0m  sockets      none\n"),
            "{shown}"
        );
    }

    #[test]
    fn json_of_findings_leaves_out_what_is_empty_and_is_plain_ascii() {
        let expected = json!({"findings": [
            {"check": "sockets", "count": 2, "level": "ok",
             "message": "accepts connections", "paths": ["/a", "/b"]},
            {"check": "sockets", "count": 1, "level": "note", "message": "is \\n",
             "paths": ["/a\n"]},
            {"check": "sockets", "count": 9, "level": "warning", "message": "nothing listens",
             "paths": ["/a\n", "/\u{e4}"], "remedy": "go"},
            {"check": "sockets", "count": 2, "level": "warning", "message": "nothing listens",
             "paths": ["/a", "/b"], "remedy": "go"},
            {"check": "sockets", "level": "problem", "message": "none", "remedy": "stay"},
        ]});
        let shown = findings_to_json(&findings());
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(
            serde_json::from_str::<Value>(&shown).expect("it is JSON"),
            expected
        );
        serde_json::from_str::<Value>(&findings_to_json(&[])).expect("it is JSON");
    }
}
