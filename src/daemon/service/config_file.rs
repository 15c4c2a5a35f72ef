//! Reads the configuration file.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::config::MAX_CONFIG_FILE;
use crate::daemon::fs::permissions;
use crate::escape;

/// Reads a configuration file. Returns `None` if a default one (`is_default`) does not exist. An
/// error is one line of text.
///
/// Opening a FIFO does not block, and at most one byte beyond the size limit is read. Fails if the
/// owner or the mode of the file lets other users change it: it may name programs to run.
pub fn read(path: &Path, is_default: bool) -> Result<Option<Vec<u8>>, String> {
    let problem = match permissions::read_trusted_file(path, MAX_CONFIG_FILE + 1, true) {
        Ok(content) if content.len() > MAX_CONFIG_FILE => "it is larger than 64 KiB".to_owned(),
        Ok(content) => return Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => match fs::symlink_metadata(path) {
            Ok(_) => "it is a symbolic link to a file that does not exist".to_owned(),
            Err(_) if is_default => return Ok(None),
            Err(_) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    let path = escape::path(path);
    Err(format!("cannot read the configuration {path}: {problem}"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    use nix::sys::stat::Mode;
    use nix::unistd::{Uid, mkfifo};

    use super::*;

    /// Returns the problem with a file.
    fn problem(path: &Path) -> String {
        let error = read(path, false).unwrap_err();
        assert_eq!(read(path, true).err().as_ref(), Some(&error), "{path:?}");
        let begin = format!("cannot read the configuration {}: ", path.display());
        error.strip_prefix(&begin).unwrap().to_owned()
    }

    #[test]
    fn what_is_not_a_readable_file_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        mkfifo(&path("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
        let listener = UnixListener::bind(path("socket")).unwrap();
        symlink("missing", path("dangling")).unwrap();
        symlink("loop", path("loop")).unwrap();
        fs::write(path("file"), "").unwrap();
        let not_regular = "it is not a regular file";
        assert_eq!(problem(dir.path()), not_regular);
        assert_eq!(problem(&path("fifo")), not_regular);
        assert_eq!(problem(Path::new("/dev/zero")), not_regular);
        assert!(problem(&path("socket")).contains("os error"));
        assert!(problem(&path("loop")).contains("os error"));
        assert!(problem(&path("file/below")).contains("os error"));
        let dangling = "it is a symbolic link to a file that does not exist";
        assert_eq!(problem(&path("dangling")), dangling);
        drop(listener);
    }

    #[test]
    fn a_default_file_need_not_exist_and_another_one_must() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("above/a.conf");
        assert_eq!(read(&path, true), Ok(None));
        assert!(read(&path, false).unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_file_that_others_may_write_or_none_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.conf");
        fs::write(&path, "observe\n").unwrap();
        for mode in [0o620, 0o602] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(problem(&path), "it is writable by its group or others");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
        if !Uid::effective().is_root() {
            assert!(problem(&path).contains("Permission denied"));
        }
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        assert_eq!(read(&path, false), Ok(Some(b"observe\n".to_vec())));
    }

    #[test]
    fn a_link_to_a_file_is_followed_and_a_file_has_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("..data"), dir.path().join("a.conf"));
        symlink(&file, &link).unwrap();
        assert_eq!(MAX_CONFIG_FILE, 64 << 10, "the message below names it");
        fs::write(&file, vec![b'#'; MAX_CONFIG_FILE]).unwrap();
        let content = read(&link, true).unwrap().unwrap();
        assert_eq!(content.len(), MAX_CONFIG_FILE);
        fs::write(&file, vec![b'#'; MAX_CONFIG_FILE + 1]).unwrap();
        assert_eq!(problem(&link), "it is larger than 64 KiB");
    }
}
