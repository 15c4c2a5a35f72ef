//! `plugind retry`, `forget`, `rescan`, `reload`, `log-level`: requests that make the daemon act.

use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use super::client::{Client, Request, percent_encode, print};
use super::failure::{Failure, FailureKind, Result};
use super::options::{Context, DEFAULT, Options, Target};
use super::table::Table;

/// Sends the request, and shows the daemon's response.
pub(super) fn run(context: &Context<'_>) -> Result<()> {
    let path = request_target(context.options);
    let mut request = Request::get(&path);
    request.changes = true;
    let client = Client {
        socket: context.client.socket.clone(),
        // `rescan` reads directories, which may be large or on slow file systems.
        timeout: Duration::from_secs(60),
    };
    let done = client.request_json(&request);
    let mut done = done.map_err(|failure| match context.options.target.display_name() {
        Some(named) if failure.kind == FailureKind::NotFound => {
            Failure::new(failure.kind, format!("{named} does not exist"))
        }
        Some(named) if failure.kind == FailureKind::Conflict => {
            Failure::new(failure.kind, format!("{named}: {}", failure.why))
        }
        _ => failure,
    })?;
    if done["filter"] == "" {
        done["filter"] = DEFAULT.into();
    }
    let mut table = Table::default();
    table.add_entries("", &done);
    print(table.take_text(""))
}

/// Returns the path and the query of the request.
fn request_target(options: &Options) -> String {
    let query = match &options.target {
        Target::Plugin { kind, name } => {
            let (kind, name) = (
                percent_encode(kind.as_bytes()),
                percent_encode(name.as_bytes()),
            );
            format!("?type={kind}&name={name}")
        }
        Target::Socket(path) => format!("?socket={}", percent_encode(path.as_os_str().as_bytes())),
        Target::Text(filter) if filter == DEFAULT => "?filter=".to_owned(),
        Target::Text(filter) => format!("?filter={}", percent_encode(filter.as_bytes())),
        Target::All | Target::Type(_) => String::new(),
    };
    let verb = options.verb.trim_end_matches("-level");
    format!("/v1/{verb}{query}")
}

pub(super) const RETRY_HELP: &str = "\
Reset the backoff of a plugin or socket, or of all, in a running plugind, and
retry at once. Only root and the daemon's user may do this.

Usage: plugind retry [OPTIONS] [TYPE/NAME|SOCKET]

Exits with 4 if it does not exist.

Options:
";

pub(super) const FORGET_HELP: &str = "\
Make a running plugind deregister at once a plugin that is down, whatever the
policy of --on-down is. Only root and the daemon's user may do this.

Usage: plugind forget [OPTIONS] TYPE/NAME

Exits with 1 if it is not down, with 4 if it does not exist.

Options:
";

pub(super) const RESCAN_HELP: &str = "\
Make a running plugind read all its directories again, and show what it found.
Only root and the daemon's user may do this.

Usage: plugind rescan [OPTIONS]

Options:
";

pub(super) const RELOAD_HELP: &str = "\
Make a running plugind read its configuration again, and show what has changed.
The configuration file is the one of its start, and its command line keeps its
priority. A configuration that is not valid changes nothing. The directories of
plugins, types, programs, --csi-node-info, the path map, the policy for plugins
that are down, what is trusted, the memory budget and the verbosity are in force
at once; all else needs a restart, which is shown. Only root and the daemon's
user may do this.

Usage: plugind reload [OPTIONS]

Exits with 78 if the configuration is not valid.

Options:
";

pub(super) const LOG_HELP: &str = "\
Set the log filter of a running plugind until the next change. FILTER has the
syntax of RUST_LOG, such as info, debug or plugind::watch=trace; default is that
of the configuration. Only root and the daemon's user may do this.

Usage: plugind log-level [OPTIONS] FILTER

Options:
";

#[cfg(test)]
mod tests {
    use super::super::testing::parse_options;
    use super::*;

    #[test]
    fn the_target_is_the_query() {
        for (line, expected) in [
            (&["retry"][..], "/v1/retry"),
            (&["retry", "A/b/c+d"], "/v1/retry?type=A&name=b%2Fc%2Bd"),
            (&["retry", "/r/a b"], "/v1/retry?socket=%2Fr%2Fa%20b"),
            (&["forget", "A/b"], "/v1/forget?type=A&name=b"),
            (&["rescan"], "/v1/rescan"),
            (&["reload"], "/v1/reload"),
            (&["log", "a=b,c"], "/v1/log?filter=a%3Db%2Cc"),
            (&["log", "default"], "/v1/log?filter="),
        ] {
            assert_eq!(request_target(&parse_options(line)), expected);
        }
    }
}
