//! The reasons why a directory is not watched properly, and the remedies.

use std::path::Path;
use std::sync::Arc;

use self::Problem::{
    MayNotAnswer, Missing, Nested, NotADirectory, NotCreated, NotExamined, NotRead, NotReported,
    NotWatched, SameAs, TooDeep, TooManyDirectories, TooManyNames, TooManySockets,
};
use crate::config::{
    MAX_DIRECTORIES, MAX_EXAMINED_NAMES, MAX_NAMES, MAX_SOCKETS, MAX_TREE_DEPTH, SYSTEM_RETRY,
};
use crate::escape;

/// A problem with a directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The directory does not exist.
    #[error("it does not exist")]
    Missing,
    /// The path leads to another kind of file.
    #[error("it is not a directory")]
    NotADirectory,
    /// The directory was missing and could not be created.
    #[error("it cannot be created: {0}")]
    NotCreated(Cause),
    /// The directory cannot be listed: until it can be, plugins that were added to it while it was
    /// not watched are unknown.
    #[error("it cannot be read: {0}")]
    NotRead(Cause),
    /// The directory cannot be watched: it is scanned every second instead.
    #[error("it cannot be watched and is scanned every {SYSTEM_RETRY:?}: {0}")]
    NotWatched(Cause),
    /// The directory contains names that cannot be examined: until they can be, it is scanned every
    /// second.
    #[error("it contains names that cannot be examined, so it is scanned every {SYSTEM_RETRY:?}")]
    NotExamined,
    /// The file system of the directory, which has this type, does not report all changes: the
    /// directory is also scanned every second.
    #[error(
        "its file system does not report all changes, so it is scanned every {SYSTEM_RETRY:?} \
         file_system={}",
        escape::text(.0)
    )]
    NotReported(String),
    /// The file system of the directory has this type and may hang: the directory is not opened.
    #[error(
        "its file system may not answer, so it is not read file_system={}",
        escape::text(.0)
    )]
    MayNotAnswer(String),
    /// The directory is already watched under this other path. It is scanned again later, because
    /// it may have been moved from there.
    #[error("it is already watched as {}", escape::path(.0))]
    SameAs(Arc<Path>),
    /// The directory is inside this plugins directory, or contains it.
    #[error(
        "it overlaps with the plugins directory {}, and none may be inside another",
        escape::path(.0)
    )]
    Nested(Arc<Path>),
    /// The directory contains directories that are nested too deeply, which are ignored.
    #[error("it contains directories more than {MAX_TREE_DEPTH} levels deep, which are ignored")]
    TooDeep,
    /// There are too many plugin sockets in total; the latest ones in the directory are ignored.
    #[error("there are more than {MAX_SOCKETS} plugin sockets; the rest are ignored")]
    TooManySockets,
    /// There are too many directories in total; the latest ones in the directory are ignored.
    #[error("there are more than {MAX_DIRECTORIES} directories; the rest are ignored")]
    TooManyDirectories,
    /// The directory contains too many names to examine all of them.
    #[error(
        "it contains more than {MAX_NAMES} names, or {MAX_EXAMINED_NAMES} that may be sockets; the \
         rest are ignored"
    )]
    TooManyNames,
}

/// The reason why a system call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// `EACCES`, `EPERM`: the permission is missing.
    #[error("permission denied")]
    Denied,
    /// `EROFS`: the file system is read-only.
    #[error("the file system is read-only")]
    ReadOnly,
    /// `ENOSPC` from inotify: the user's watches are used up.
    #[error("no inotify watches are left")]
    WatchesUsedUp,
    /// `EMFILE` from `inotify_init`: the user's inotify instances are used up.
    #[error("no inotify instances are left")]
    InstancesUsedUp,
    /// `EMFILE`, `ENFILE`: the file descriptors are used up.
    #[error("no file descriptors are left")]
    DescriptorsUsedUp,
    /// Another error, in the system's words.
    #[error("{}", escape::text(.0))]
    Other(String),
}

impl Problem {
    /// Returns whether scanning the directory again later may help even if the kernel reports no
    /// change.
    pub(super) fn is_worth_retrying(&self) -> bool {
        !matches!(self, Nested(_) | TooDeep | MayNotAnswer(_))
    }

    /// Returns whether the directory is scanned every second, either instead of being watched or in
    /// addition.
    pub(super) fn causes_polling(&self) -> bool {
        matches!(self, NotWatched(_) | NotExamined | NotReported(_))
    }

    /// Returns whether a limit is exceeded.
    pub(super) fn is_limit(&self) -> bool {
        matches!(
            self,
            TooDeep | TooManyDirectories | TooManyNames | TooManySockets
        )
    }

    /// Returns whether scanning again may help, but is likely to have the same result for a long
    /// time.
    pub(super) fn may_last(&self) -> bool {
        matches!(self, SameAs(_)) || self.is_limit() && *self != TooDeep
    }

    /// Returns whether the directory, and so everything in it, does not exist any more.
    pub(super) fn means_gone(&self) -> bool {
        matches!(self, Missing | NotADirectory | NotCreated(_))
    }

    /// Returns whether the start fails if a directory that the user named has this problem. Later,
    /// the problem is only reported, and the other directories are still watched. A directory that
    /// can be read but not watched is scanned at intervals instead.
    pub fn prevents_start(&self) -> bool {
        let is_harmless = self.causes_polling() || self.is_limit();
        !is_harmless && !matches!(self, MayNotAnswer(_))
    }

    /// Returns what an operator can do about the problem.
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
