//! A plugin that makes links to other plugins' sockets in its own directory.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::churn::until;
use crate::row::Row;
use crate::support::plugin::Plugin;

#[test]
fn links_to_other_plugins_sockets_that_are_made_again_and_again() {
    let before = "the plugin told that its name is taken";
    Row::new("links to the honest plugin's socket", before).withstand(|dir, over| {
        let root = dir.parent().unwrap();
        let steady = root.join("steady.sock");
        let plugin = Plugin::serve(&steady, "steady");
        assert!(plugin.until_notified().plugin_registered);
        let mut n = 0;
        until(over, || {
            for socket in sockets(root)? {
                let links = [dir.join(format!("hard-{n}")), dir.join(format!("soft-{n}"))];
                n += 1;
                // A plugin that was there a moment ago may have ended.
                missing_is_well(fs::hard_link(&socket, &links[0]))?;
                symlink(&socket, &links[1])?;
                if n % 2 == 0 {
                    for link in &links {
                        missing_is_well(fs::remove_file(link))?;
                    }
                }
            }
            if n > MOST_LINKS {
                n = 0;
                remove_all(dir)?;
            }
            Ok(())
        });
        assert_eq!(plugin.try_notified(), None, "the plugin stayed registered");
        plugin.leave();
    });
}

/// Returns the sockets in a directory.
fn sockets(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    let is_socket = |path: &PathBuf| path.extension() == Some(OsStr::new("sock"));
    let paths: io::Result<Vec<_>> = paths.collect();
    Ok(paths?.into_iter().filter(is_socket).collect())
}

fn remove_all(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        missing_is_well(fs::remove_file(entry?.path()))?;
    }
    Ok(())
}

fn missing_is_well(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The most links before all are removed.
const MOST_LINKS: usize = 400;
