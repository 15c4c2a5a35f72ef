//! Tests of the sandbox: each attack by code in the process succeeds without it, and fails with it.

use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread;

use log::LevelFilter;
use nix::sys::signal::kill;
use nix::unistd::getppid;

use super::*;
use crate::config::TrustMode;
use crate::daemon::Daemon;
use crate::skip::skip;

type Attack<'a> = dyn Fn(&Path) -> io::Result<()> + Sync + 'a;

/// Starts a daemon on a new thread, which then carries out the attack. Returns the ABI version of
/// Landlock in force (0: none), and the outcome.
fn carry_out(has_sandbox: bool, attack: &Attack<'_>) -> (i32, io::Result<()>) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    fs::create_dir_all(dir.join("other")).unwrap();
    fs::write(dir.join("other/file"), "").unwrap();
    let config = DaemonConfig {
        manager: Config {
            plugins_dirs: vec![dir.join("above/kubelet/registry")],
            run_dir: Some(dir.join("run")),
            ..Config::default()
        },
        // The sandbox lets the daemon read below the directory of its configuration file: `/usr`,
        // so that the attack that executes a program fails for executing it, not for reading it.
        file: Some("/usr/none".into()),
        sandbox: has_sandbox,
        ..DaemonConfig::default()
    };
    thread::scope(|scope| {
        let attacked = scope.spawn(|| {
            let (level, load) = (LevelFilter::Info, Box::new(|| Err(Vec::new())));
            let daemon = Daemon::new(&config, None, level, load, |_, _| Vec::new()).unwrap();
            let text = &daemon.plugins.api.daemon.sandbox;
            let abi = text.strip_prefix("on, Landlock ABI ");
            let abi = abi.map_or(0, |abi| abi.parse().unwrap());
            (abi, attack(dir))
        });
        attacked.join().unwrap()
    })
}

#[test]
fn code_in_the_process_can_do_little() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap();
    let attacks: [(&str, i32, &Attack<'_>); 12] = [
        ("write a file", 1, &|dir| {
            fs::write(dir.join("other/file"), "x")
        }),
        ("create a file", 1, &|dir| {
            fs::write(dir.join("other/new"), "")
        }),
        ("create a file in the plugins directory", 1, &|dir| {
            fs::write(dir.join("above/kubelet/registry/file"), "")
        }),
        ("read a file", 1, &|dir| {
            fs::read(dir.join("other/file")).map(drop)
        }),
        ("remove a file", 1, &|dir| {
            fs::remove_file(dir.join("other/file"))
        }),
        ("rename a file", 1, &|dir| {
            fs::rename(dir.join("other/file"), dir.join("run/file"))
        }),
        ("make a link", 1, &|dir| {
            symlink("/", dir.join("other/link"))
        }),
        ("list a directory", 1, &|dir| {
            fs::read_dir(dir.join("other")).map(drop)
        }),
        ("run a program", 1, &|_| {
            fs::read(ENV).expect("it may be read");
            Command::new(ENV).arg("-i").status().map(drop)
        }),
        ("connect by TCP", 4, &|_| TcpStream::connect(port).map(drop)),
        ("listen by TCP", 4, &|_| {
            TcpListener::bind("127.0.0.1:0").map(drop)
        }),
        ("send a signal", 6, &|_| Ok(kill(getppid(), None)?)),
    ];
    for (what, since, attack) in attacks {
        let (_, outcome) = carry_out(false, attack);
        assert!(outcome.is_ok(), "{what}: {outcome:?}");
        let (abi, outcome) = carry_out(true, attack);
        if abi < since {
            skip(&format!("the kernel has Landlock ABI {abi}, not {since}"));
            continue;
        }
        let raw = outcome.as_ref().err().and_then(io::Error::raw_os_error);
        let is_denied = matches!(raw, Some(nix::libc::EACCES | nix::libc::EPERM));
        // EXDEV: a file cannot be moved to another directory.
        assert!(
            is_denied || raw == Some(nix::libc::EXDEV),
            "{what}: {outcome:?}"
        );
    }
}

#[test]
fn capabilities_are_dropped_that_are_not_needed() {
    let had = capabilities(None).unwrap().permitted;
    let strict = |uids: &[u32]| Trust {
        mode: TrustMode::Strict,
        uids: uids.to_vec(),
        ..Trust::default()
    };
    for (trust, needed) in [
        (Trust::default(), CapabilitySet::DAC_OVERRIDE),
        (strict(&[]), CapabilitySet::empty()),
        (strict(&[7]), CapabilitySet::DAC_OVERRIDE),
    ] {
        let dropped = thread::spawn(move || {
            drop_capabilities(&trust);
            capabilities(None).unwrap()
        });
        let left = dropped.join().unwrap();
        assert_eq!(left.permitted, had & needed);
        assert_eq!((left.effective, left.inheritable.bits()), (had & needed, 0));
    }
}

#[test]
fn an_ancestor_exists_and_is_the_root_only_if_none_is_lower() {
    let ancestor = |dir: &str, levels| ancestor_dirs(Path::new(dir), levels)[0].clone();
    assert_eq!(ancestor("/usr/lib/none/registry", 2), Path::new("/usr"));
    assert_eq!(ancestor("/usr/lib/none", 2), Path::new("/usr"));
    assert_eq!(ancestor("/usr/lib/none", 1), Path::new("/usr/lib"));
    assert_eq!(ancestor("/usr/none", 2), Path::new("/usr"));
    assert_eq!(ancestor("/none", 2), Path::new("/"));
}

/// A program that prints nothing with `-i`.
const ENV: &str = "/usr/bin/env";
