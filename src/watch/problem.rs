//! The reasons why a directory is not watched properly, and the remedies.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use self::Problem::{
    MayNotAnswer, Missing, Nested, NotADirectory, NotCreated, NotExamined, NotRead, NotReported,
    NotWatched, SameAs, TooDeep, TooManyDirectories, TooManyNames, TooManySockets,
};
use crate::config::{
    MAX_DIRECTORIES, MAX_EXAMINED_NAMES, MAX_NAMES, MAX_SOCKETS, MAX_TREE_DEPTH, WATCH_RETRY,
};
use crate::escape;

/// A problem with a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The directory does not exist.
    Missing,
    /// Another kind of file has its name.
    NotADirectory,
    /// The directory was missing and could not be created.
    NotCreated(Cause),
    /// It cannot be listed: plugins that are added to it while it is not watched stay unknown.
    NotRead(Cause),
    /// The directory cannot be watched: it is scanned every second instead.
    NotWatched(Cause),
    /// The directory holds names that cannot be examined: it is scanned every second meanwhile.
    NotExamined,
    /// Its file system, of this type, does not report all changes: it is scanned on the tick, too.
    NotReported(String),
    /// Its file system has this type and may hang: the directory is not opened.
    MayNotAnswer(String),
    /// It is a directory that is already watched under this other path: it is tried again, because
    /// it may have been moved from there.
    SameAs(Arc<Path>),
    /// The directory is inside this plugins directory, or around it.
    Nested(Arc<Path>),
    /// The directory holds directories that are nested too deep, which are ignored.
    TooDeep,
    /// There are too many plugin sockets in total; the latest ones in it are ignored.
    TooManySockets,
    /// There are too many directories in total; the latest ones in it are ignored.
    TooManyDirectories,
    /// The directory holds too many names to examine all of them.
    TooManyNames,
}

/// The reason why a system call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `EACCES`, `EPERM`: the permission is missing.
    Denied,
    /// `EROFS`: the file system is read-only.
    ReadOnly,
    /// `ENOSPC` from inotify: the user's watches are used up.
    WatchesUsedUp,
    /// `EMFILE` from `inotify_init`: the user's inotify instances are used up.
    InstancesUsedUp,
    /// `EMFILE`, `ENFILE`: the file descriptors are used up.
    DescriptorsUsedUp,
    /// Another error, in the system's words.
    Other(String),
}

impl Problem {
    /// Returns whether trying again later can help although the tree does not change.
    pub(super) fn is_worth_retrying(&self) -> bool {
        !matches!(self, Nested(_) | TooDeep | MayNotAnswer(_))
    }

    /// Returns whether the directory is scanned on the tick instead of being watched, or in
    /// addition.
    pub(super) fn is_polled(&self) -> bool {
        matches!(self, NotWatched(_) | NotExamined | NotReported(_))
    }

    /// Returns whether a limit is exceeded, which may last.
    pub(super) fn is_limit(&self) -> bool {
        matches!(
            self,
            TooDeep | TooManyDirectories | TooManyNames | TooManySockets
        )
    }

    /// Returns whether trying again may help, but is likely to have the same result for long.
    pub(super) fn may_last(&self) -> bool {
        matches!(self, SameAs(_)) || self.is_limit() && *self != TooDeep
    }

    /// Returns whether the directory, and so everything in it, was removed.
    pub(super) fn means_gone(&self) -> bool {
        matches!(self, Missing | NotADirectory | NotCreated(_))
    }

    /// Returns whether a directory that the user named should keep a program from starting if it
    /// has this problem at the start. Later the problem is only reported, and the other directories
    /// are still followed. A directory that can be read but not watched is scanned instead.
    pub fn prevents_start(&self) -> bool {
        let is_harmless = self.is_polled() || self.is_limit();
        !is_harmless && !matches!(self, MayNotAnswer(_))
    }

    /// Returns what an operator can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Missing => "a running plugind creates it again",
            NotADirectory => "remove the file, or name another directory",
            NotCreated(cause) | NotRead(cause) | NotWatched(cause) => cause.remedy(),
            NotExamined => "run with -v to log which, and check their permissions",
            NotReported(_) => "name a directory on a local file system, or accept the delay",
            MayNotAnswer(_) => "use a local file system, or name the directory with --plugins-dir",
            SameAs(_) => "name each directory once",
            Nested(_) => "name directories beside each other, or the outer one alone",
            TooDeep => "move the sockets up to a higher directory",
            TooManySockets | TooManyDirectories | TooManyNames => {
                "remove files that do not belong there"
            }
        }
    }
}

impl Cause {
    fn remedy(&self) -> &'static str {
        match self {
            Self::Denied => "run as a user that may read and write it, usually root",
            Self::ReadOnly => "name a directory on a writable file system",
            Self::WatchesUsedUp => "raise the sysctl fs.inotify.max_user_watches",
            Self::InstancesUsedUp => "raise the sysctl fs.inotify.max_user_instances",
            Self::DescriptorsUsedUp => "raise the limit of open files (ulimit -n, LimitNOFILE=)",
            Self::Other(_) => "check the path and its file system",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing => f.write_str("it does not exist"),
            NotADirectory => f.write_str("it is not a directory"),
            NotCreated(cause) => write!(f, "it cannot be created: {cause}"),
            NotRead(cause) => write!(f, "it cannot be read: {cause}"),
            NotWatched(cause) => {
                write!(
                    f,
                    "it cannot be watched and is scanned every {WATCH_RETRY:?}: {cause}"
                )
            }
            NotExamined => write!(
                f,
                "it contains names that cannot be examined, so it is scanned every {WATCH_RETRY:?}"
            ),
            NotReported(file_system) => write!(
                f,
                "its file system does not report all changes, so it is scanned every \
                 {WATCH_RETRY:?}: file_system={}",
                escape::text(file_system)
            ),
            MayNotAnswer(file_system) => write!(
                f,
                "its file system may not answer, so it is not read: file_system={}",
                escape::text(file_system)
            ),
            SameAs(other) => write!(f, "it is already watched as {}", escape::path(other)),
            Nested(other) => write!(
                f,
                "it overlaps with the plugins directory {}, and none may be inside another",
                escape::path(other)
            ),
            TooDeep => write!(
                f,
                "it contains directories more than {MAX_TREE_DEPTH} levels deep, which are ignored"
            ),
            TooManySockets => {
                write!(
                    f,
                    "there are more than {MAX_SOCKETS} plugin sockets; the rest are ignored"
                )
            }
            TooManyDirectories => {
                write!(
                    f,
                    "there are more than {MAX_DIRECTORIES} directories; the rest are ignored"
                )
            }
            TooManyNames => write!(
                f,
                "it contains more than {MAX_NAMES} names, or {MAX_EXAMINED_NAMES} that may be \
                 sockets; the rest are ignored"
            ),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied => f.write_str("permission denied"),
            Self::ReadOnly => f.write_str("the file system is read-only"),
            Self::WatchesUsedUp => f.write_str("no inotify watches are left"),
            Self::InstancesUsedUp => f.write_str("no inotify instances are left"),
            Self::DescriptorsUsedUp => f.write_str("no file descriptors are left"),
            Self::Other(error) => write!(f, "{}", escape::text(error)),
        }
    }
}
