//! Texts for plugins in kubelet's words: lists as Go prints them, and failed calls as grpc-go does.
//!
//! Operators search for these sentences, and scripts match them. Only what Go escapes is escaped
//! here: the texts in them are returned to the plugin that has sent them.

use std::fmt::{self, Write as _};
use std::path::Path;

use super::{CallFailure, DialError};
use crate::grpc::{CallError, Code};

/// Returns a list as Go's `%v` prints it: `[v1 v2]`. The rest of a long list is left out.
pub(super) fn list(entries: &[String]) -> String {
    join(entries, |text, entry| text.push_str(entry))
}

/// Returns a list as Go's `%q` prints it: `["v1" "v2"]`; the escapes of unusual characters may
/// differ. The rest of a long list is left out.
pub(super) fn quoted_list<T: fmt::Debug>(entries: &[T]) -> String {
    join(entries, |text, entry| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{entry:?}");
    })
}

/// Returns the error of a call to `endpoint` as grpc-go prints it: `rpc error: code = Unavailable
/// desc = not yet`.
pub(super) fn rpc_error(failure: &CallFailure, endpoint: &Path) -> String {
    let (code, description) = match failure {
        CallFailure::Dial(DialError::TimedOut) => (Code::DeadlineExceeded, EXPIRED.to_owned()),
        CallFailure::Dial(error) => (Code::Unavailable, connection_error(error, endpoint)),
        CallFailure::Call(error) => (error.code(), description(error)),
    };
    status(code, &description)
}

/// Returns a status as grpc-go prints it.
pub(super) fn status(code: Code, description: &str) -> String {
    format!("rpc error: code = {} desc = {description}", go_name(code))
}

/// Returns the failure to dial a device plugin as kubelet prints it. If nothing listens, kubelet
/// retries until its deadline has passed, and prints that.
pub(crate) fn dial_failure(error: &DialError, endpoint: &Path) -> String {
    match error {
        DialError::TimedOut | DialError::Gone | DialError::Refused => EXPIRED.to_owned(),
        error => connection_error(error, endpoint),
    }
}

/// Returns the failure to connect to `endpoint` as grpc-go prints it.
pub(super) fn connection_error(error: &DialError, endpoint: &Path) -> String {
    let endpoint = endpoint.display();
    let own_words = error.to_string();
    let dial = match error {
        // Go's net package shows the texts of strerror(3), in lower case.
        DialError::Gone => "connect: no such file or directory",
        DialError::Refused | DialError::NotASocket => "connect: connection refused",
        DialError::Busy => "connect: resource temporarily unavailable",
        DialError::Denied => "connect: permission denied",
        DialError::TimedOut => "i/o timeout",
        DialError::Replaced => "connect: another socket is at the path",
        DialError::NoDescriptors => "socket: too many open files",
        DialError::MayNotAnswer(_) | DialError::Untrusted(_) => &own_words,
        DialError::Other(words) => words,
    };
    let dial = format!("transport: Error while dialing: dial unix {endpoint}: {dial}");
    format!("connection error: desc = {dial:?}")
}

/// Returns the description of a failed call, in grpc-go's words if it has any.
fn description(error: &CallError) -> String {
    match error {
        CallError::Status(status) => status.message.clone(),
        CallError::DeadlineExceeded => EXPIRED.to_owned(),
        CallError::TooLarge { announced, limit } => too_large_text(u64::from(*announced), *limit),
        error if error.is_eof() => "error reading from server: EOF".to_owned(),
        other => other.to_string(),
    }
}

/// Returns grpc-go's words for a message of this length.
pub(super) fn too_large_text(octets: u64, limit: usize) -> String {
    format!("grpc: received message larger than max ({octets} vs. {limit})")
}

/// Returns the name of a code in Go's gRPC library.
fn go_name(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    }
}

fn join<T>(entries: &[T], mut add: impl FnMut(&mut String, &T)) -> String {
    let mut text = "[".to_owned();
    for (at, entry) in entries.iter().enumerate() {
        if at > 0 {
            text.push(' ');
        }
        if text.len() > MAX_LIST {
            text.push_str("...");
            break;
        }
        add(&mut text, entry);
    }
    text.push(']');
    text
}

/// grpc-go's words for a call whose deadline has passed.
const EXPIRED: &str = "context deadline exceeded";

/// The length of a list in octets after which further entries are left out: plugins usually list
/// up to three short ones, and a reason is kept and logged (kubelet: no limit).
const MAX_LIST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::Status;

    fn versions(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn lists_are_shown_as_go_shows_them_and_long_ones_are_cut() {
        assert_eq!(list(&[]), "[]");
        assert_eq!(list(&versions(&["v1", "v2"])), "[v1 v2]");
        assert_eq!(quoted_list(&versions(&["v1", "a\"b"])), r#"["v1" "a\"b"]"#);
        let long = list(&vec!["x".repeat(100); 1000]);
        assert!(
            long.len() < 2 * MAX_LIST && long.ends_with("x ...]"),
            "{long}"
        );
    }

    #[test]
    fn failed_calls_are_shown_as_grpc_go_shows_them() {
        let call = |error| rpc_error(&CallFailure::Call(error), Path::new("/p/a.sock"));
        let dial = |error| rpc_error(&CallFailure::Dial(error), Path::new("/p/a.sock"));
        let too_large = CallError::TooLarge {
            announced: 5_000_000,
            limit: 4_194_304,
        };
        for (shown, expected) in [
            (
                call(CallError::Status(Status::new(Code::Unavailable, "not yet"))),
                "code = Unavailable desc = not yet",
            ),
            (
                call(CallError::Status(Status::new(Code::Cancelled, ""))),
                "code = Canceled desc = ",
            ),
            (
                call(CallError::DeadlineExceeded),
                "code = DeadlineExceeded desc = context deadline exceeded",
            ),
            (
                dial(DialError::TimedOut),
                "code = DeadlineExceeded desc = context deadline exceeded",
            ),
            (
                call(too_large),
                "code = ResourceExhausted desc = \
                 grpc: received message larger than max (5000000 vs. 4194304)",
            ),
            (
                dial(DialError::Gone),
                "code = Unavailable desc = connection error: desc = \"transport: Error while \
                 dialing: dial unix /p/a.sock: connect: no such file or directory\"",
            ),
        ] {
            assert_eq!(shown, format!("rpc error: {expected}"));
        }
    }
}
