//! The state file, which keeps the registered plugins across restarts of the daemon.
//!
//! Each version is written beside the old one and renamed over it, so that the file is complete at
//! every moment. A version is written some time after a change, so that a burst of registrations is
//! one version, but always before a program is started that may set up a plugin, so that the next
//! daemon knows of that plugin. The file is used during one boot only, so fsync(2) is not called.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;

use super::own_file::remove_if_present;
use super::permissions;
use crate::config::{MAX_STATE_FILE, STATE_FILE_RETRY, UPDATE_INTERVAL};
use crate::daemon::{ProgramProblem, SetupError};
use crate::escape;
use crate::manager::{Manager, SavedState};
use crate::time::Time;

/// The state file, and when it is written next.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// The id of the current boot. `None` if the id cannot be read: then the file is neither read
    /// nor written, because it could not be distinguished from a file of an earlier boot.
    boot: Option<String>,
    /// The manager's revision when the file was last written or, at the start, read.
    written: u64,
    /// The time at which the next version is written.
    due: Option<Time>,
    /// The pause before the next attempt, if the last version could not be written.
    pause: Option<Duration>,
    /// Whether plugins were left out of the last version. Only the first of several such versions
    /// in a row is logged.
    is_incomplete: bool,
}

impl StateFile {
    /// Returns the state file at `path`, which need not exist.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            boot: read_boot_id(&path),
            path,
            written: 0,
            due: None,
            pause: None,
            is_incomplete: false,
        }
    }

    /// Checks that only root and this user can replace the state file by another file, and that the
    /// state file can be written. Resolves the symbolic links in its path.
    pub(crate) fn resolve_and_check(&mut self) -> Result<(), SetupError> {
        let file = escape::path(&self.path).to_string();
        let written = match permissions::resolve_trusted_file(&self.path) {
            Ok(place) => {
                self.path = place;
                self.check_writable()
            }
            Err(ProgramProblem::NotFound(error)) => Err(error),
            Err(problem) => {
                return Err(SetupError::Unusable(format!(
                    "cannot use the state file {file}: {problem}; name a file in a directory that \
                     only root and the daemon's user can change"
                )));
            }
        };
        written.map_err(|error| {
            SetupError::Unusable(format!(
                "cannot write the state file {file}: {error}; name a file in a directory that \
                 exists and is writable"
            ))
        })
    }

    /// Checks that the file can be written, except for errors that may pass: a full disk may have
    /// room later, but a missing directory will not appear.
    fn check_writable(&self) -> io::Result<()> {
        let new = new_path(&self.path);
        match create_file(&new, 0o600) {
            Ok(_) => fs::remove_file(new)?,
            Err(error) => match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                // Left behind by a daemon that was killed: the first version replaces it.
                Errno::EEXIST => {}
                Errno::ENOSPC | Errno::EDQUOT | Errno::EMFILE | Errno::ENFILE | Errno::EIO => {}
                _ => return Err(error),
            },
        }
        if fs::symlink_metadata(&self.path).is_ok_and(|found| !found.is_file()) {
            let path = escape::path(&self.path);
            return Err(io::Error::other(format!("{path} is not a regular file")));
        }
        Ok(())
    }

    /// Restores the plugins in the file to the manager. If the file cannot be used, logs that; the
    /// file stays until the next version replaces it.
    pub(crate) fn restore(&mut self, manager: &mut Manager) {
        let path = escape::path(&self.path);
        let Some(boot) = &self.boot else { return };
        match self.read(boot) {
            Ok(state) => {
                log::info!(
                    "{path}: restored plugins from the state file count={}",
                    state.len()
                );
                manager.restore(state);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log::warn!(
                "{path}: the state file is ignored: {error}; plugins that disappeared while \
                 plugind was not running are not deregistered"
            ),
        }
        self.written = manager.revision();
    }

    fn read(&self, boot: &str) -> io::Result<SavedState> {
        let content = permissions::read_trusted_file(&self.path, MAX_STATE_FILE, false)?;
        SavedState::decode(&content, boot).map_err(io::Error::other)
    }

    /// Returns when [`StateFile::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Schedules the next version if the manager has changed since the last one, and writes it if
    /// that is due.
    pub(crate) fn handle_timeout(&mut self, manager: &Manager, now: Time) {
        // Without the id of the boot, the file is never written.
        let is_written = self.boot.is_some();
        if is_written && self.due.is_none() && manager.revision() != self.written {
            self.due = Some(now + UPDATE_INTERVAL);
        }
        if self.due.is_some_and(|due| due <= now) {
            let _is_logged = self.save(manager, now);
        }
    }

    /// Writes the next version now, if the manager has changed. If that fails, schedules a retry,
    /// and returns the reason.
    pub(crate) fn save(&mut self, manager: &Manager, now: Time) -> Result<(), String> {
        self.due = None;
        self.write_if_changed(manager).map_err(|error| {
            self.record_failure(&error, now);
            format!("cannot write the state file: {error}")
        })
    }

    /// Writes the last version before the process ends. Logs if that fails.
    pub(crate) fn finish(&mut self, manager: &Manager, now: Time) {
        if let Err(error) = self.save(manager, now) {
            let path = escape::path(&self.path);
            log::warn!(
                "{path}: the last changes were not saved, so some plugins may be neither restored \
                 nor deregistered after the next start: {error}"
            );
        }
    }

    fn write_if_changed(&mut self, manager: &Manager) -> io::Result<()> {
        let is_changed = manager.revision() != self.written;
        let Some(boot) = self.boot.as_ref().filter(|_| is_changed) else {
            return Ok(());
        };
        let (mut state, new) = (manager.snapshot(boot), new_path(&self.path));
        // Only the daemon's user may read the file.
        replace_file(&self.path, &new, 0o600, &state.encode())?;
        self.written = manager.revision();
        self.record_success(state.left_out_count());
        Ok(())
    }

    /// Logs if the file can be written again, or if plugins are left out of this version, but not
    /// of the last one.
    fn record_success(&mut self, left_out: usize) {
        let path = escape::path(&self.path);
        if self.pause.take().is_some() {
            log::info!("{path}: the state file can be written again");
        }
        if left_out > 0 && !self.is_incomplete {
            log::warn!(
                "{path}: left plugins out of the state file: they do not fit, or a path is not \
                 UTF-8; they are not deregistered if they disappear while plugind is not running \
                 count={left_out}"
            );
        }
        self.is_incomplete = left_out > 0;
    }

    /// Schedules a retry after a pause that doubles each time. Logs only the first failure.
    fn record_failure(&mut self, error: &io::Error, now: Time) {
        if self.pause.is_none() {
            let path = escape::path(&self.path);
            log::warn!("{path}: cannot write the state file, retrying: {error}");
        }
        let pause = STATE_FILE_RETRY.next_pause(self.pause);
        self.pause = Some(pause);
        self.due = Some(now + pause);
    }
}

/// Returns the id of the current boot. If it cannot be read, logs that the state file at `path` is
/// not used.
fn read_boot_id(path: &Path) -> Option<String> {
    let problem = match fs::read_to_string(BOOT_ID) {
        Ok(id) if !id.trim().is_empty() => return Some(id.trim().to_owned()),
        Ok(_) => "it is empty".to_owned(),
        Err(error) => error.to_string(),
    };
    log::warn!(
        "{}: the state file is neither read nor written: cannot read the boot ID from {BOOT_ID}: \
         {problem}; mount /proc",
        escape::path(path)
    );
    None
}

/// Replaces the file at `path` atomically: a reader finds the old or the new content. The new file
/// is first written at `new`, where it replaces any file, even a pipe or a symbolic link.
pub(super) fn replace_file(path: &Path, new: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
    remove_if_present(new)?;
    create_file(new, mode)?.write_all(content)?;
    fs::rename(new, path)
}

/// Returns the path at which the next version of the file at `path` is written.
fn new_path(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    new.into()
}

fn create_file(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(mode).open(path)
}

/// The file with the kernel's id of the current boot (`random(4)`).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::HandlerTable;

    #[test]
    fn a_directory_in_the_place_of_the_file_prevents_a_start() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("state");
        fs::create_dir(&place).unwrap();
        let error = StateFile::new(place.clone())
            .resolve_and_check()
            .unwrap_err();
        let expected = format!("{} is not a regular file", place.display());
        assert!(error.to_string().contains(&expected), "{error}");
    }

    #[test]
    fn without_a_boot_id_a_change_never_makes_the_daemon_wake_up() {
        let manager = Manager::new(HandlerTable::new());
        for (boot, is_due) in [(Some("0a1b".to_owned()), true), (None, false)] {
            let mut file = StateFile {
                boot,
                written: manager.revision() + 1,
                ..StateFile::new("/no/such/file".into())
            };
            file.handle_timeout(&manager, Time::ZERO);
            assert_eq!(file.poll_timeout().is_some(), is_due);
        }
    }
}
