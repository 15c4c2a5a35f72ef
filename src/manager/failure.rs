//! The failures of operations, and the refusals of plugins.
//!
//! The message of an error begins with what failed. Text that came from a plugin is escaped here,
//! when the error is shown.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use log::Level;

#[cfg(doc)]
use crate::config::FIRST_MINUTE;
use crate::config::{Distrust, GET_INFO_TIMEOUT, NOTIFY_TIMEOUT};
use crate::escape;
use crate::grpc::{CallError, Code};
use crate::handler::{CallFailure, DialError, Reason};

/// The reason why a plugin is not registered, why a check of a registered plugin failed, or why a
/// handler has given up a registered plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The connection to the plugin's socket could not be established.
    #[error("cannot connect: {0}")]
    Dial(DialError),
    /// The connection to the endpoint of a registered plugin, which its driver serves, could not be
    /// established.
    #[error("{}", driver_failure(.0, .1))]
    Driver(Arc<Path>, DialError),
    /// The handler of the registered plugin has given the plugin up, for this reason.
    #[error("{}; the plugin has to register again", escape::text(.0.as_str()))]
    GivenUp(Reason),
    /// GetInfo failed.
    #[error("GetInfo failed: {}", call_failure(.0, GET_INFO_TIMEOUT))]
    GetInfo(CallError),
    /// The reply to GetInfo is not a `PluginInfo`.
    #[error("the plugin's reply to GetInfo is not a PluginInfo: {}", escape::text(.0))]
    UndecodableInfo(String),
    /// The plugin was refused.
    #[error("plugin refused: {0}")]
    Refused(Refusal),
    /// The plugin was registered, but could not be notified of its registration.
    #[error("NotifyRegistrationStatus failed: {}", notify_failure(.0))]
    Notify(CallFailure),
    /// The reply to NotifyRegistrationStatus is not a `RegistrationStatusResponse`.
    #[error(
        "the plugin's reply to NotifyRegistrationStatus is not a RegistrationStatusResponse: {}",
        escape::text(.0)
    )]
    UndecodableResponse(String),
}

/// The reason why a plugin is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No handler is registered for this plugin type.
    #[error("no handler for plugin type {:?}", escape::text(.0))]
    NoHandler(String),
    /// The plugin's description is not valid, or the handler has not accepted it.
    #[error("validation failed: {}", escape::text(.0.as_str()))]
    Validation(Reason),
    /// The handler could not register the plugin, or could not deregister it.
    #[error("registration failed: {}", escape::text(.0.as_str()))]
    Registration(Reason),
    /// The plugin is refused for as long as the plugin behind the socket `holder`, which has the
    /// same name and endpoint, is registered and up.
    #[error(
        "registration failed: {}; holder={}",
        escape::text(reason.as_str()),
        escape::path(holder)
    )]
    EndpointTaken {
        /// The registration socket of the plugin that has the endpoint.
        holder: Arc<Path>,
        /// The handler's reason.
        reason: Reason,
    },
    /// No handler is registered for this type, and plugins of unknown types are ignored.
    #[error(
        "no handler for plugin type {:?}, and plugins of unknown types are ignored",
        escape::text(.0)
    )]
    Ignored(String),
    /// The plugin is not trusted.
    #[error("not trusted: {0}")]
    Untrusted(Distrust),
}

impl Failure {
    /// Returns whether the failure follows from the configuration, and so is not an error: plugins
    /// of unknown types are ignored.
    pub fn is_intended(&self) -> bool {
        matches!(self, Self::Refused(Refusal::Ignored(_)))
    }

    /// Returns whether the socket at the path is missing or was replaced. The watch usually reports
    /// that in a moment, so this is not a warning if another attempt follows.
    pub fn is_socket_changed(&self) -> bool {
        matches!(
            self,
            Self::Dial(DialError::Gone | DialError::Replaced | DialError::NotASocket)
        )
    }

    /// Returns the level of the event if an attempt fails, unless the attempt before failed for the
    /// same reason. A plugin that has announced itself is not retried.
    pub(super) fn level(&self, is_retried: bool) -> Level {
        if self.is_intended() {
            Level::Info
        } else if self.is_socket_changed() && is_retried {
            Level::Debug
        } else {
            Level::Warn
        }
    }

    /// Returns the reason of the event, in CamelCase.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Dial(_) | Self::Driver(..) => "ConnectFailed",
            Self::GivenUp(_) => "Down",
            Self::GetInfo(_) | Self::UndecodableInfo(_) => "GetInfoFailed",
            Self::Refused(
                Refusal::NoHandler(_)
                | Refusal::Ignored(_)
                | Refusal::Validation(_)
                | Refusal::Untrusted(_),
            ) => "ValidationFailed",
            Self::Refused(Refusal::Registration(_) | Refusal::EndpointTaken { .. }) => {
                "RegistrationFailed"
            }
            Self::Notify(_) | Self::UndecodableResponse(_) => "NotifyFailed",
        }
    }

    /// Returns whether retrying soon is pointless once the plugin has had [`FIRST_MINUTE`]: the
    /// plugin answers, but its answer is not acceptable. Usually only another socket, other
    /// handlers, another configuration or the end of another plugin can change that.
    pub fn is_persistent(&self) -> bool {
        match self {
            Self::GetInfo(error) => error.code() == Code::Unimplemented,
            Self::Refused(refusal) => refusal.is_notified_once(),
            _ => false,
        }
    }
}

impl Refusal {
    /// Returns `RegistrationStatus.error` in kubelet's exact wording, or `None` if the plugin is
    /// not notified at all. A handler's reason is not escaped, because the plugin itself receives
    /// it.
    pub fn status_error(&self, socket: &Path) -> Option<String> {
        Some(match self {
            Self::Ignored(_) => return None,
            Self::NoHandler(kind) => format!(
                "RegisterPlugin error -- no handler registered for plugin type: {kind} at socket {}",
                socket.display()
            ),
            Self::Validation(reason) => format!(
                "RegisterPlugin error -- plugin validation failed with err: {}",
                reason.as_str()
            ),
            Self::Untrusted(why) => {
                format!("RegisterPlugin error -- plugin validation failed with err: {why}")
            }
            Self::Registration(reason) | Self::EndpointTaken { reason, .. } => format!(
                "RegisterPlugin error -- plugin registration failed with err: {}",
                reason.as_str()
            ),
        })
    }

    /// Returns why a registration was not undone, if this is the answer to a deregistration.
    pub(super) fn why_not_undone(&self) -> String {
        match self {
            Self::NoHandler(_) | Self::Ignored(_) => {
                "no handler is registered for its type any more".to_owned()
            }
            Self::Registration(reason) => escape::text(reason.as_str()).to_string(),
            // A plugin is not refused its deregistration for any other reason.
            other => other.to_string(),
        }
    }

    /// Returns whether a plugin is notified at most once of this refusal, for as long as its
    /// description stays the same: the plugin was refused before its handler began to register it.
    pub(super) fn is_notified_once(&self) -> bool {
        !matches!(self, Self::Registration(_) | Self::EndpointTaken { .. })
    }
}

/// Returns the text about the failed connection to the endpoint of a registered plugin.
fn driver_failure(endpoint: &Path, error: &DialError) -> String {
    let endpoint = escape::path(endpoint);
    match error {
        DialError::Refused | DialError::Gone => {
            format!("the driver's process at {endpoint} has ended")
        }
        error => format!("cannot connect to the driver at {endpoint}: {error}"),
    }
}

/// Returns the text about a failed call, with the time limit if the call has exceeded that.
fn call_failure(error: &CallError, limit: Duration) -> String {
    match error {
        CallError::DeadlineExceeded => format!("the peer did not respond within {limit:?}"),
        error => error.to_string(),
    }
}

/// Returns the text about a failed notification.
fn notify_failure(failure: &CallFailure) -> String {
    match failure {
        CallFailure::Call(error) => call_failure(error, NOTIFY_TIMEOUT),
        CallFailure::Dial(_) => failure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_worded_exactly_as_by_kubelet() {
        let sent = |refusal: Refusal| {
            let words = refusal.status_error(Path::new("/r/a-reg.sock"));
            words.unwrap_or_default()
        };
        assert_eq!(
            sent(Refusal::NoHandler("Foo".into())),
            "RegisterPlugin error -- no handler registered for plugin type: Foo at socket /r/a-reg.sock"
        );
        assert_eq!(
            sent(Refusal::Validation(Reason::new("bad version"))),
            "RegisterPlugin error -- plugin validation failed with err: bad version"
        );
        assert_eq!(
            sent(Refusal::Registration(Reason::new("no node id"))),
            "RegisterPlugin error -- plugin registration failed with err: no node id"
        );
    }

    #[test]
    fn text_of_a_plugin_is_escaped_in_an_error() {
        let failure = Failure::Refused(Refusal::NoHandler("a\x1b[2J\nb".into()));
        let shown = failure.to_string();
        assert_eq!(
            shown,
            "plugin refused: no handler for plugin type \"a\\u{1b}[2J\\nb\""
        );
    }
}
