//! `kubelet.sock`: the socket of kubelet at which device plugins register themselves.

use std::io;
use std::path::PathBuf;

use mio::{Registry, Token};

use crate::daemon::fs::inotify::{Inotify, describe};
use crate::watch::{Event, Place, WatchId};

/// The path of the socket, and a watch of its directory.
#[derive(Debug)]
pub(super) struct KubeletSocket {
    pub(super) path: PathBuf,
    watch: WatchId,
    inotify: Inotify,
}

impl KubeletSocket {
    /// Watches for a socket at `path`, in the loop of `registry`.
    pub(super) fn watch(path: PathBuf, registry: &Registry, token: Token) -> io::Result<Self> {
        let dir = path.parent().unwrap_or(&path);
        let mut inotify = Inotify::new(registry.try_clone()?, token);
        let watch = inotify.watch(dir, Place::Root);
        let watch = watch.map_err(|problem| io::Error::other(describe(&problem).to_string()))?;
        Ok(Self {
            path,
            watch,
            inotify,
        })
    }

    /// Returns whether the socket may have been created since the last call.
    pub(super) fn was_created(&mut self) -> io::Result<bool> {
        let (mut was_created, socket) = (false, self.path.file_name());
        let mut note = |event| match event {
            Event::Appeared { watch, name, .. } => {
                was_created |= watch == self.watch && Some(&*name) == socket;
            }
            Event::Overflowed => was_created = true,
            _ => {}
        };
        while self.inotify.read(&mut note)? {}
        Ok(was_created)
    }
}
