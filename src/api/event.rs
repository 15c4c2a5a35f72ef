//! The events of the plugin manager: about sockets and their plugins, directories, or the daemon.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::handler::Plugin;
use crate::manager::PluginEvent;
use crate::watch::Report;

/// An event of the plugin manager, which was already logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An event of a socket or its plugin, or of the daemon.
    Plugin(Arc<PluginEvent>),
    /// A watched directory, or one below it, has a problem, or its problem is solved.
    Directory(Box<Report>),
}

impl Event {
    /// Returns the path of the registration socket, if the event is about one.
    pub fn socket(&self) -> Option<&Arc<Path>> {
        match self {
            Self::Plugin(event) => event.socket.as_ref(),
            Self::Directory(_) => None,
        }
    }

    /// Returns the path of the socket or directory; `None` if the event is about the daemon.
    pub fn subject(&self) -> Option<&Arc<Path>> {
        match self {
            Self::Plugin(event) => event.socket.as_ref(),
            Self::Directory(report) => Some(report.dir()),
        }
    }

    /// Returns whether the event is about security, so that other events must not displace it.
    pub(super) fn is_security(&self) -> bool {
        matches!(self, Self::Plugin(event) if event.is_security())
    }

    /// Returns the plugin, if it is known.
    pub fn plugin(&self) -> Option<&Arc<Plugin>> {
        match self {
            Self::Plugin(event) => event.plugin.as_ref(),
            Self::Directory(_) => None,
        }
    }

    /// Returns the reason in CamelCase, as in Kubernetes events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Plugin(event) => event.reason(),
            Self::Directory(report) => report.reason(),
        }
    }

    /// Returns whether the type of the event is `Warning`; otherwise it is `Normal`.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::Plugin(event) => event.is_warning(),
            Self::Directory(report) => report.is_warning(),
        }
    }

    /// Returns whether `other` is a repetition of this event.
    pub fn is_repeated_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plugin(event), Self::Plugin(again)) => event.is_repeated_by(again),
            (Self::Directory(report), Self::Directory(again)) => report == again,
            _ => false,
        }
    }

    /// Returns the event as one sentence, without its subject.
    pub fn message(&self) -> String {
        match self {
            Self::Plugin(event) => event.message().to_string(),
            Self::Directory(report) => report.message(),
        }
    }

    /// Returns the event as text with everything that is known about it.
    pub fn detail(&self) -> String {
        match self {
            Self::Plugin(event) => event.detail(),
            Self::Directory(report) => report.to_string(),
        }
    }
}

/// Shows the event as a line of the log.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin(event) => event.fmt(f),
            Self::Directory(report) => report.fmt(f),
        }
    }
}
