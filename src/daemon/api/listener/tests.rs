//! Tests of the API socket with real files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use nix::sys::socket::{Backlog, listen};
use nix::sys::stat::umask;

use super::*;
use crate::bind::bind;
use crate::daemon::fs::dial::dial;
use crate::daemon::fs::permissions::group_id;
use crate::inside::{inside, is_inside};
use crate::time::Time;

/// Returns a new directory, and a path in it for a socket.
fn create_temp_dir() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("api.sock");
    (dir, path)
}

fn open_at(path: &Path) -> Result<Listener, SocketProblem> {
    Listener::bind(path, None, Duration::ZERO)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_socket_that_was_left_behind_is_replaced_and_nothing_stays() {
    let (dir, path) = create_temp_dir();
    drop(bind(&path));
    fs::write(dir.path().join("api.sock.lock"), "").unwrap();
    for _ in 0..2 {
        let mut listener = open_at(&path).unwrap();
        assert!(listener.acceptor.accept(Time::ZERO).is_none());
        assert_eq!(listener.acceptor.ready_at, None);
        let _client = net::UnixStream::connect(&path).unwrap();
        listener.acceptor.record_readiness();
        assert!(listener.acceptor.accept(Time::ZERO).is_some());
        drop(listener);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_socket_in_use_is_left_alone_whatever_process_uses_it() {
    let (_dir, path) = create_temp_dir();
    let first = open_at(&path).unwrap();
    let in_use = |path: &Path| match open_at(path).unwrap_err() {
        SocketProblem::InUse(pid) => pid,
        other => panic!("{other}"),
    };
    assert_eq!(in_use(&path), Some(std::process::id()));
    assert!(net::UnixStream::connect(&path).is_ok());
    drop(first);

    let other = net::UnixListener::bind(&path).unwrap();
    assert_eq!(in_use(&path), Some(std::process::id()));
    listen(&other, Backlog::new(0).unwrap()).unwrap();
    let mut waiting = Vec::new();
    while let Ok(client) = dial(&path) {
        waiting.push(client);
    }
    assert_eq!(in_use(&path), None, "its queue is full");
}

#[test]
fn an_address_that_another_process_has_bound_is_in_use() {
    let (_dir, path) = create_temp_dir();
    let _first = net::UnixListener::bind(&path).unwrap();
    let problem = SocketProblem::from(net::UnixListener::bind(&path).unwrap_err());
    assert!(matches!(problem, SocketProblem::InUse(None)));
}

#[test]
fn what_is_not_a_socket_is_left_alone() {
    let (dir, path) = create_temp_dir();
    let target = dir.path().join("target");
    drop(bind(&target));
    fs::write(&path, "precious").unwrap();
    assert!(matches!(open_at(&path), Err(SocketProblem::NotASocket)));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    fs::remove_file(&path).unwrap();
    symlink(&target, &path).unwrap();
    assert!(matches!(open_at(&path), Err(SocketProblem::NotASocket)));
    assert!(path.is_symlink() && target.exists());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(open_at(&path), Err(SocketProblem::NotASocket)));
    let missing = path.join("missing/api.sock");
    assert!(matches!(open_at(&missing), Err(SocketProblem::Unusable(_))));
    let long = dir.path().join("n".repeat(108));
    assert!(matches!(open_at(&long), Err(SocketProblem::Unusable(_))));
}

#[test]
fn another_socket_at_the_path_is_not_removed() {
    let (_dir, path) = create_temp_dir();
    let listener = open_at(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let other = net::UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(net::UnixStream::connect(&path).is_ok());
    drop(other);
}

#[test]
fn a_directory_that_others_can_change_is_refused() {
    let (dir, path) = create_temp_dir();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let problem = open_at(&path).unwrap_err();
    assert!(matches!(problem, SocketProblem::Untrusted(_)), "{problem}");
}

#[test]
fn the_socket_is_for_its_user_and_group_whatever_the_umask() {
    let name =
        "daemon::api::listener::tests::the_socket_is_for_its_user_and_group_whatever_the_umask";
    // The umask belongs to the whole process.
    if !is_inside(name) {
        return inside(name, "true", || ());
    }
    for mask in [0o000, 0o022, 0o077, 0o777] {
        let (_dir, path) = create_temp_dir();
        let before = umask(nix::sys::stat::Mode::from_bits_truncate(mask));
        let bound = Acceptor::bind(&path, &path, 0o660, None, BACKLOG).unwrap();
        umask(before);
        assert_eq!(mode(&path), 0o660, "{mask:o}");
        drop(bound);
    }
}

#[test]
fn the_socket_has_the_group_that_is_named() {
    let (_dir, path) = create_temp_dir();
    let own = nix::unistd::Gid::effective().as_raw();
    let _listener = Listener::bind(&path, Some(own), Duration::ZERO).unwrap();
    assert_eq!(fs::symlink_metadata(&path).unwrap().gid(), own);
    assert_eq!(group_id("root"), Some(0));
}

#[test]
fn of_many_simultaneous_starts_one_has_the_socket() {
    let (dir, path) = create_temp_dir();
    drop(bind(&path));
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    match open_at(&path) {
                        Ok(_listener) => {
                            assert_eq!(inside.fetch_add(1, SeqCst), 0);
                            assert!(net::UnixStream::connect(&path).is_ok());
                            inside.fetch_sub(1, SeqCst);
                        }
                        Err(SocketProblem::InUse(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
