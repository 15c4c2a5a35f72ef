//! The locks that allow only one plugin manager per directory, on an unusual system.

use std::path::{Path, PathBuf};

use plugind::config::{Config, Mode};
use plugind::daemon::{PluginManager, SetupError};
use plugind::handler::HandlerTable;

use crate::support::inside::within;
use crate::support::node::watching;
use crate::support::text::assert_has;

#[test]
fn a_read_only_run_directory_is_an_error() {
    within("mount -t tmpfs -o ro none /run", || {
        let dir = tempfile::tempdir().unwrap();
        let config = watching(dir.path());
        let start = |config: &Config| PluginManager::new(config, HandlerTable::new());
        let started = start(&config);
        assert!(started.is_ok(), "nothing is made where nothing is named");
        let config = Config {
            run_dir: Some("/run/plugind".into()),
            ..config
        };
        let error = start(&config).unwrap_err();
        let said = error.to_string();
        assert_has(&said, "/run/plugind");
        assert_has(&said, "--run-dir");
        let SetupError::RunDir { dir: of, problem } = error else {
            panic!("{said}");
        };
        assert_eq!(of, Path::new("/run/plugind"));
        assert!(problem.remedy().contains("writable file system"), "{said}");

        let observing = Config {
            mode: Mode::Observe,
            ..config.clone()
        };
        assert!(start(&observing).is_ok());
        let run_dir = dir.path().join(".run");
        let elsewhere = Config {
            run_dir: Some(run_dir.clone()),
            ..config
        };
        let _first = start(&elsewhere).unwrap();
        let Err(SetupError::Taken { lock, holder, .. }) = start(&elsewhere) else {
            panic!("two managers use one directory");
        };
        assert!(lock.starts_with(run_dir.join("locks")));
        assert_eq!(holder, Some(std::process::id()));
    });
}

#[test]
fn a_lock_directory_that_was_removed_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let run_dir: PathBuf = dir.path().join(".run");
    let config = Config {
        run_dir: Some(run_dir.clone()),
        ..watching(dir.path())
    };
    let start = || PluginManager::new(&config, HandlerTable::new());
    let first = start().unwrap();
    std::fs::remove_dir_all(&run_dir).unwrap();
    drop(first);
    assert!(start().is_ok());
}
