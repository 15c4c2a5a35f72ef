//! How an operation fails, and who is wrong.
//!
//! Pure. The first line of what is shown always names the culprit; text that came from a plugin is
//! escaped here, at the last step outward.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

#[cfg(doc)]
use crate::config::FIRST_MINUTE;
use crate::escape;
use crate::grpc::{CallError, Code};
use crate::handler::{CallFailure, DialError, HandlerTable, InvalidPlugin, Reason};

/// Why a plugin is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no connection to its socket.
    Dial(DialError),
    /// It did not say who it is.
    GetInfo(CallError),
    /// What it answered to GetInfo is no `PluginInfo`.
    UndecodableInfo(String),
    /// It is not acceptable; it has been told so.
    Refused(Refusal),
    /// In a dry run: its handler finds it acceptable, but nothing can be called at its endpoint.
    Endpoint(EndpointFailure),
    /// It was registered, but could not be told so.
    Notify(CallFailure),
    /// What it answered to NotifyRegistrationStatus is no `RegistrationStatusResponse`.
    UndecodableResponse(String),
}

/// Why nothing can be called at a plugin's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointFailure {
    /// Whether the plugin would be registered all the same.
    pub is_registered: bool,
    /// Where the plugin says its endpoint is.
    pub endpoint: Arc<Path>,
    /// Where that is here.
    pub path: Arc<Path>,
    /// What went wrong there.
    pub error: CallFailure,
}

/// Why a plugin is refused: what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No handler is there for its type, which is this.
    NoHandler(String),
    /// It was not valid.
    Validation(Reason),
    /// It could not be made usable.
    Registration(Reason),
    /// It is not made usable for as long as the plugin behind the socket `holder` is registered and
    /// up: that one has its name and endpoint.
    EndpointTaken {
        /// The registration socket of the plugin that has the endpoint.
        holder: Arc<Path>,
        /// What the handler says to that.
        reason: Reason,
    },
    /// No handler is there for its type, which is this, and such plugins are to be left alone.
    Ignored(String),
}

impl Failure {
    /// Whether it came as the user wants it, or is what a dry run was to find out: nothing has gone
    /// wrong.
    pub fn is_wanted(&self) -> bool {
        matches!(self, Self::Refused(Refusal::Ignored(_)) | Self::Endpoint(_))
    }

    /// Whether what is at the path has changed: the watch will say so in a moment, and there is
    /// nothing to tell anybody before.
    pub fn is_overtaken(&self) -> bool {
        matches!(
            self,
            Self::Dial(DialError::Gone | DialError::Replaced | DialError::NotASocket)
        )
    }

    /// Whether trying again soon is pointless once the plugin has had [`FIRST_MINUTE`]: it works,
    /// and what it says of itself is not acceptable. Only another socket, other handlers or another
    /// configuration can change that.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::GetInfo(error) => error.code() == Code::Unimplemented,
            Self::Refused(refusal) => refusal.is_told_once(),
            _ => false,
        }
    }
}

impl Refusal {
    /// What becomes of a plugin for whose type these handlers have none.
    pub(super) fn without_handler(kind: String, handlers: &HandlerTable) -> Self {
        if handlers.ignores_unknown() {
            Self::Ignored(kind)
        } else {
            Self::NoHandler(kind)
        }
    }

    /// `RegistrationStatus.error`: kubelet's words, to the letter. Not escaped: it goes to the
    /// plugin that the words are about. None: the plugin is told nothing at all.
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
            Self::Registration(reason) | Self::EndpointTaken { reason, .. } => format!(
                "RegisterPlugin error -- plugin registration failed with err: {}",
                reason.as_str()
            ),
        })
    }

    /// Returns why a registration was not undone, if this is the answer to that.
    pub(super) fn why_not_undone(&self) -> String {
        match self {
            Self::NoHandler(_) | Self::Ignored(_) => {
                "no handler is registered for its type any more".to_owned()
            }
            Self::Registration(reason) => escape::text(reason.as_str()).to_string(),
            Self::Validation(_) | Self::EndpointTaken { .. } => self.to_string(),
        }
    }

    /// Whether a plugin that describes itself as before is not told again: its handler has looked
    /// at nothing else.
    pub(super) fn is_told_once(&self) -> bool {
        !matches!(self, Self::Registration(_) | Self::EndpointTaken { .. })
    }

    /// Whether the plugin is told.
    pub fn is_told(&self) -> bool {
        !matches!(self, Self::Ignored(_))
    }
}

impl From<InvalidPlugin> for Refusal {
    fn from(invalid: InvalidPlugin) -> Self {
        Self::Validation(Reason::new(invalid.to_string()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dial(error) => write!(f, "cannot connect: {error}"),
            Self::GetInfo(error) => write!(f, "GetInfo failed: {error}"),
            Self::UndecodableInfo(error) => {
                write!(
                    f,
                    "the plugin's reply to GetInfo is no PluginInfo: {}",
                    escape::text(error)
                )
            }
            Self::Refused(refusal) => write!(f, "plugin refused: {refusal}"),
            Self::Endpoint(failure) if failure.is_registered => {
                write!(f, "would register the plugin, but {failure}")
            }
            Self::Endpoint(failure) => write!(f, "would refuse the plugin: {failure}"),
            Self::Notify(error) => write!(f, "NotifyRegistrationStatus failed: {error}"),
            Self::UndecodableResponse(error) => write!(
                f,
                "the plugin's reply to NotifyRegistrationStatus is no RegistrationStatusResponse: {}",
                escape::text(error)
            ),
        }
    }
}

impl fmt::Display for EndpointFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its endpoint {}", escape::path(&self.endpoint))?;
        if self.path != self.endpoint {
            write!(f, " (mapped to {})", escape::path(&self.path))?;
        }
        write!(f, " does not answer: {}", self.error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHandler(kind) => {
                write!(f, "no handler for plugin type {:?}", escape::text(kind))
            }
            Self::Validation(reason) => {
                write!(f, "validation failed: {}", escape::text(reason.as_str()))
            }
            Self::Registration(reason) => {
                write!(f, "registration failed: {}", escape::text(reason.as_str()))
            }
            Self::EndpointTaken { holder, reason } => write!(
                f,
                "registration failed: {}; holder={}",
                escape::text(reason.as_str()),
                escape::path(holder)
            ),
            Self::Ignored(kind) => {
                write!(f, "its type \"{}\" is to be ignored", escape::text(kind))
            }
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_is_told_why_in_kubelet_s_words_to_the_letter() {
        let told = |refusal: Refusal| {
            let words = refusal.status_error(Path::new("/r/a-reg.sock"));
            words.unwrap_or_default()
        };
        assert_eq!(
            told(Refusal::NoHandler("Foo".into())),
            "RegisterPlugin error -- no handler registered for plugin type: Foo at socket /r/a-reg.sock"
        );
        assert_eq!(
            told(Refusal::Validation(Reason::new("bad version"))),
            "RegisterPlugin error -- plugin validation failed with err: bad version"
        );
        assert_eq!(
            told(Refusal::Registration(Reason::new("no node id"))),
            "RegisterPlugin error -- plugin registration failed with err: no node id"
        );
    }

    #[test]
    fn a_log_line_shows_nothing_of_the_plugin_s_as_it_is() {
        let failure = Failure::Refused(Refusal::NoHandler("a\x1b[2J\nb".into()));
        let shown = failure.to_string();
        assert_eq!(
            shown,
            "plugin refused: no handler for plugin type \"a\\u{1b}[2J\\nb\""
        );
    }
}
