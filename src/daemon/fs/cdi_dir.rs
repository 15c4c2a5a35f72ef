//! The directory of CDI files, which describe devices to container runtimes (Container Device
//! Interface).
//!
//! A file is written beside the old one and renamed over it, so that a runtime never reads an
//! incomplete file. Changes are made at the end of a turn; a change that fails is retried. The
//! files of an earlier process are removed at the start. The files of plugins stay when the daemon
//! stops, because the plugins keep running; those of leases are removed, because the leases end.
//!
//! Only the process that holds the lock in a directory writes the files there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::file_lock::{self, FileLock};
use super::own_file::create_public_dir;
use super::{permissions, state_file};
use crate::config::{FILE_RETRY, LOCK_TIMEOUT};
use crate::daemon::SetupError;
use crate::escape;
use crate::handler::device::{CdiFiles, Leases, is_lease_file};
use crate::time::Time;

/// The directory, and the files that are to be changed in it.
#[derive(Debug)]
pub(crate) struct CdiDir {
    dir: PathBuf,
    _lock: FileLock,
    leases: Leases,
    /// The changes that are to be made.
    changed: CdiFiles,
    /// The time of the next attempt, if the last one has failed.
    retry_at: Option<Time>,
    /// The last failure, until a file can be written again.
    failure: Option<String>,
}

impl CdiDir {
    /// Takes the lock of a directory, which is created if it is missing, and removes the files of
    /// an earlier process.
    pub(crate) fn open(dir: &Path) -> Result<Self, SetupError> {
        try_open(dir).map_err(|why| {
            let dir = escape::path(dir);
            SetupError::Unusable(format!("cannot use the CDI directory {dir}: {why}"))
        })
    }

    /// Writes the files of these leases to the directory from now on.
    pub(crate) fn set_leases(&mut self, leases: &Leases) {
        leases.enable_files();
        self.leases = leases.clone();
    }

    /// Returns when to call [`CdiDir::handle_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let has_files = self.leases.has_files();
        has_files.then_some(Time::ZERO).or(self.retry_at)
    }

    /// Makes the pending changes. Those that fail are retried with the next changes, at the latest
    /// after [`FILE_RETRY`]; only the first of several failures in a row is logged.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let new = self.leases.take_files();
        let is_due = self.retry_at.is_some_and(|at| at <= now);
        if new.is_empty() && !is_due {
            return;
        }
        self.changed.extend(new);
        let dir = escape::path(&self.dir);
        let (mut failed, mut has_written) = (None, false);
        self.changed.retain(|name, content| {
            let error = replace_or_remove(&self.dir, name, content.as_deref()).err();
            let is_left = error.is_some();
            has_written |= !is_left && content.is_some();
            failed = error.or_else(|| failed.take());
            is_left
        });
        self.retry_at = failed.is_some().then(|| now + FILE_RETRY);
        match failed {
            Some(error) => {
                if self.failure.is_none() {
                    log::warn!("{dir}: cannot update the CDI files, retrying: {error}");
                }
                self.failure = Some(error.to_string());
            }
            None if self.failure.is_some() && has_written => {
                self.failure = None;
                log::info!("{dir}: the CDI files can be updated again");
            }
            None => {}
        }
    }

    /// Returns why the file of a client's devices could not be written, or `None` if the file was
    /// written or the client needs none.
    pub(crate) fn lease_failure(&self, client: u64) -> Option<String> {
        let mut missing = self.changed.iter().filter(|(_, content)| content.is_some());
        if !missing.any(|(name, _)| is_lease_file(name, client)) {
            return None;
        }
        let (dir, why) = (escape::path(&self.dir), self.failure.as_deref());
        let why = why.unwrap_or_default();
        Some(format!(
            "{dir}: cannot write the CDI file of the devices: {why}"
        ))
    }
}

/// Replaces a file atomically, or removes it if `content` is `None`.
fn replace_or_remove(dir: &Path, name: &str, content: Option<&str>) -> io::Result<()> {
    let path = dir.join(name);
    let Some(content) = content else {
        return match fs::remove_file(&path) {
            // On a read-only file system, the removal of a missing file fails, too.
            Err(error) if path.symlink_metadata().is_ok() => Err(error),
            _ => Ok(()),
        };
    };
    // Runtimes of every user may read the files.
    state_file::replace_file(&path, &dir.join(NEW), 0o644, content.as_bytes())
}

/// Creates the directory if it is missing, checks that other users cannot change it, takes its
/// lock, for which it waits at most [`LOCK_TIMEOUT`], and removes the files of an earlier process.
/// An error is the reason and a remedy.
fn try_open(dir: &Path) -> Result<CdiDir, String> {
    let unusable = |error: io::Error| format!("{error}; name a directory that is writable");
    create_public_dir(dir).map_err(unusable)?;
    if dir.is_symlink() {
        return Err("it is a symbolic link; name the directory itself".to_owned());
    }
    let trusted = permissions::resolve_trusted_directory(dir, true);
    let dir = trusted.map_err(|problem| format!("{problem}; {}", problem.remedy()))?;
    let lock = dir.join(LOCK);
    let taken = FileLock::acquire(&lock, Instant::now() + LOCK_TIMEOUT).map_err(unusable)?;
    let Some(taken) = taken else {
        let holder = file_lock::describe_holder(file_lock::holder(&lock));
        return Err(format!(
            "another plugind uses it; stop that plugind, or name another directory{holder}"
        ));
    };
    for entry in fs::read_dir(&dir).map_err(unusable)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(FILE_PREFIX) && name.ends_with(".json") {
            fs::remove_file(entry.path()).map_err(unusable)?;
        }
    }
    Ok(CdiDir {
        dir,
        _lock: taken,
        leases: Leases::default(),
        changed: CdiFiles::new(),
        retry_at: None,
        failure: None,
    })
}

/// The beginning of the names of the files that this program writes.
const FILE_PREFIX: &str = "plugind-";

/// The name of the lock file, which runtimes do not read.
const LOCK: &str = ".plugind.lock";

/// The name of a new file until it is renamed over the old one.
const NEW: &str = ".plugind.new";
