//! Why a directory is not watched as it should be, and what helps. Pure.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::{config, escape};

/// What is wrong with a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is not there.
    Missing,
    /// Something else has its name.
    NotADirectory,
    /// It was missing and could not be created.
    NotCreated(Obstacle),
    /// It cannot be listed: plugins that come into it unseen stay unknown.
    NotRead(Obstacle),
    /// It cannot be watched: it is scanned on the tick instead.
    NotWatched(Obstacle),
    /// It holds names that cannot be examined: it is scanned on the tick, until they can be.
    NotExamined,
    /// Its file system, of this type, does not report all changes: it is scanned on the tick, too.
    NotReported(String),
    /// It is on a file system of this type, which may not answer: it is not looked into.
    MayNotAnswer(String),
    /// It is the same directory as one that is watched already, under another path.
    SameAs(Arc<Path>),
    /// Directories in it are nested too deep and are ignored.
    TooDeep,
    /// There are too many plugin sockets in all; those in it that came last are ignored.
    TooManySockets,
    /// There are more plugin sockets than this in its part of the tree: a root, or a directory
    /// right below one with all that is below it. Those that came last are ignored.
    TooManySocketsBelow(usize),
    /// Too many links lead to a socket in it; those that came last are ignored.
    TooManyLinks,
    /// There are too many directories in all; those in it that came last are ignored.
    TooManyDirectories,
    /// It holds too many names to look at all of them.
    TooManyNames,
}

/// What stood in the way of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
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
    /// Anything else, in the system's words.
    Other(String),
}

impl Problem {
    /// Whether trying again later can help without anybody changing the tree.
    pub(super) fn is_worth_retrying(&self) -> bool {
        !matches!(
            self,
            Self::SameAs(_) | Self::TooDeep | Self::MayNotAnswer(_)
        )
    }

    /// Returns whether a limit is exceeded: that may last.
    pub(super) fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::TooManySockets
                | Self::TooManySocketsBelow(_)
                | Self::TooManyLinks
                | Self::TooManyDirectories
                | Self::TooManyNames
        )
    }

    /// Whether the directory, and so everything in it, is no longer there.
    pub(super) fn means_gone(&self) -> bool {
        matches!(
            self,
            Self::Missing | Self::NotADirectory | Self::NotCreated(_)
        )
    }

    /// Whether a directory that the user named with this problem should keep a program from
    /// starting: later it is reported and the rest goes on. One that can be read is scanned where
    /// it cannot be watched.
    pub fn prevents_start(&self) -> bool {
        match self {
            Self::Missing
            | Self::NotADirectory
            | Self::NotCreated(_)
            | Self::NotRead(_)
            | Self::SameAs(_) => true,
            Self::NotWatched(_)
            | Self::NotExamined
            | Self::NotReported(_)
            | Self::MayNotAnswer(_)
            | Self::TooDeep
            | Self::TooManySockets
            | Self::TooManySocketsBelow(_)
            | Self::TooManyLinks
            | Self::TooManyDirectories
            | Self::TooManyNames => false,
        }
    }

    /// What an operator can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Missing => "it is created again in a moment",
            Self::NotADirectory => "remove what is there or name another directory",
            Self::NotCreated(obstacle) | Self::NotRead(obstacle) | Self::NotWatched(obstacle) => {
                obstacle.remedy()
            }
            Self::NotExamined => "run with -v to see which, and check their permissions",
            Self::NotReported(_) => "name a directory on a local file system, or accept the delay",
            Self::MayNotAnswer(_) => "use a local file system there, or name the directory, too",
            Self::SameAs(_) => "name each directory once",
            Self::TooDeep => "move the sockets further up",
            Self::TooManySockets
            | Self::TooManySocketsBelow(_)
            | Self::TooManyLinks
            | Self::TooManyDirectories
            | Self::TooManyNames => "remove what does not belong there",
        }
    }
}

impl Obstacle {
    fn remedy(&self) -> &'static str {
        match self {
            Self::Denied => "run as a user who may read and write there, usually root",
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
            Self::Missing => f.write_str("it is not there"),
            Self::NotADirectory => f.write_str("it is not a directory"),
            Self::NotCreated(obstacle) => write!(f, "it cannot be created: {obstacle}"),
            Self::NotRead(obstacle) => write!(f, "it cannot be read: {obstacle}"),
            Self::NotWatched(obstacle) => write!(
                f,
                "it cannot be watched and is scanned every {:?}: {obstacle}",
                config::WATCH_RETRY
            ),
            Self::NotExamined => write!(
                f,
                "it holds names that cannot be examined, so it is scanned every {:?}",
                config::WATCH_RETRY
            ),
            Self::NotReported(file_system) => write!(
                f,
                "its file system does not report all changes, so it is scanned every {:?}: \
                 file_system={}",
                config::WATCH_RETRY,
                escape::text(file_system)
            ),
            Self::MayNotAnswer(file_system) => write!(
                f,
                "its file system may not answer, so it is not looked into: file_system={}",
                escape::text(file_system)
            ),
            Self::SameAs(other) => write!(f, "it is watched as {} already", escape::path(other)),
            Self::TooDeep => write!(
                f,
                "it holds directories more than {} levels deep, which are ignored",
                config::MAX_TREE_DEPTH
            ),
            Self::TooManySockets => write!(
                f,
                "there are more than {} plugin sockets; the rest is ignored",
                config::MAX_SOCKETS
            ),
            Self::TooManySocketsBelow(most) => write!(
                f,
                "there are more than {most} plugin sockets in this part of the tree; the rest is \
                 ignored"
            ),
            Self::TooManyLinks => write!(
                f,
                "more than {} links lead to a plugin socket; the rest is ignored",
                config::MAX_LINKS
            ),
            Self::TooManyDirectories => write!(
                f,
                "there are more than {} directories; the rest is ignored",
                config::MAX_DIRECTORIES
            ),
            Self::TooManyNames => write!(
                f,
                "it holds more than {} names; the rest is ignored",
                config::MAX_NAMES
            ),
        }
    }
}

impl fmt::Display for Obstacle {
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
