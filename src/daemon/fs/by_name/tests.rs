//! Tests of the queue of links, in virtual time on a real directory.

use super::*;
use crate::handler::HandlerTable;
use crate::manager::{Input, SavedState};
use crate::proto::pluginregistration::PluginInfo;
use crate::watch::Identity;

fn plugin(n: usize) -> Arc<Plugin> {
    let info = PluginInfo {
        r#type: "T".into(),
        name: n.to_string(),
        ..PluginInfo::default()
    };
    let socket = Path::new("/r/a").into();
    Arc::new(Plugin::from_info(info, socket).unwrap())
}

fn deregistered_event(n: usize) -> PluginEvent {
    PluginEvent {
        generation: 0,
        socket: None,
        plugin: Some(plugin(n)),
        attempt: 0,
        kind: EventKind::Deregistered,
    }
}

/// Returns a run directory, the links in it, and the directory of the links of type `T`.
fn links() -> (tempfile::TempDir, ByName, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let links = ByName::new(Some(dir.path())).unwrap();
    let of_type = dir.path().join("by-name/T");
    (dir, links, of_type)
}

/// Creates links of plugins that are not registered.
fn create_links(of_type: &Path, count: usize) {
    fs::create_dir_all(of_type).unwrap();
    for n in 0..count {
        symlink("/r/a", of_type.join(format!("{n}.sock"))).unwrap();
    }
}

/// Returns a world in which every path except `/r/file` leads to a socket.
fn world(manager: &Manager) -> World<'_> {
    World {
        manager,
        is_socket: &|path| path != Path::new("/r/file"),
    }
}

fn count_links(of_type: &Path) -> usize {
    of_type.read_dir().map_or(0, Iterator::count)
}

#[test]
fn a_turn_changes_some_links_and_a_full_queue_compares_all() {
    let manager = Manager::new(HandlerTable::new());
    let (_dir, mut links, of_type) = links();
    create_links(&of_type, MAX_SOCKETS + 1);
    for n in 0..MAX_SOCKETS {
        links.handle_event(&deregistered_event(n));
    }
    let mut left = count_links(&of_type);
    while let Some(at) = links.poll_timeout() {
        links.handle_timeout(&world(&manager), true, at);
        let before = mem::replace(&mut left, count_links(&of_type));
        assert!(before - left <= MAX_AT_ONCE, "{before} {left}");
    }
    assert_eq!(left, 1);
    for n in 0..=MAX_SOCKETS {
        links.handle_event(&deregistered_event(n));
    }
    assert_eq!(links.changed.len(), MAX_SOCKETS);
    while let Some(at) = links.poll_timeout() {
        links.handle_timeout(&world(&manager), true, at);
    }
    assert_eq!(count_links(&of_type), 0);
}

#[test]
fn the_link_of_a_flapping_plugin_is_changed_at_intervals() {
    let manager = Manager::new(HandlerTable::new());
    let (_dir, mut links, of_type) = links();
    let mut changes = 0;
    for ms in 0..10_000 {
        if count_links(&of_type) == 0 {
            create_links(&of_type, 1);
        }
        let now = Time::from_millis(ms);
        links.handle_event(&deregistered_event(0));
        links.handle_timeout(&world(&manager), true, now);
        changes += usize::from(count_links(&of_type) == 0);
    }
    assert_eq!(changes, 10);
    links.finish(&world(&manager), Time::from_millis(10_000));
    assert_eq!(count_links(&of_type), 0);
}

#[test]
fn a_change_that_fails_is_retried_after_pauses() {
    let manager = Manager::new(HandlerTable::new());
    let (dir, mut links, of_type) = links();
    create_links(&of_type, 3);
    let run_dir = dir.path().to_owned();
    links.handle_event(&deregistered_event(0));
    // A file takes the place of the run directory.
    fs::rename(&run_dir, run_dir.with_extension("away")).unwrap();
    fs::write(&run_dir, "").unwrap();
    let mut pauses = Vec::new();
    let mut now = Time::ZERO;
    while pauses.len() < 4 {
        let at = links.poll_timeout().unwrap();
        if at > now {
            pauses.push(at.saturating_since(now).as_secs());
            now = at;
        }
        links.handle_timeout(&world(&manager), true, now);
    }
    assert_eq!(pauses, [5, 5, 5, 5]);
    links.handle_event(&deregistered_event(1));
    fs::remove_file(&run_dir).unwrap();
    fs::rename(run_dir.with_extension("away"), &run_dir).unwrap();
    while let Some(at) = links.poll_timeout() {
        now = now.max(at);
        links.handle_timeout(&world(&manager), true, now);
    }
    assert_eq!((count_links(&of_type), links.is_failing), (0, false));
}

#[test]
fn the_link_of_a_restored_plugin_stays() {
    let saved = br#"{"format":"plugind registered plugins 2","boot":"","plugins":[{
        "socket":"/r/a","device":1,"inode":2,"born":[3,4],"type":"T","name":"0",
        "endpoint":"/r/a","versions":[]}]}"#;
    let mut manager = Manager::new(HandlerTable::new());
    manager.restore(SavedState::decode(saved, "").unwrap());
    let (_dir, _, of_type) = links();
    create_links(&of_type, 2);
    let run_dir = of_type.ancestors().nth(2);
    let mut links = ByName::new(run_dir).unwrap();
    let path: Arc<Path> = Path::new("/r/a").into();
    let identity = Identity {
        device: 1,
        inode: 2,
        btime: Identity::btime_of(3, 4),
    };
    let found = Input::Found {
        path: path.clone(),
        identity,
    };
    manager.handle_input(found, Time::ZERO);
    links.handle_timeout(&world(&manager), true, Time::ZERO);
    while let Some(at) = links.poll_timeout() {
        links.handle_timeout(&world(&manager), true, at);
    }
    assert!(of_type.join("0.sock").is_symlink() && count_links(&of_type) == 1);
    // Another plugin of the name was registered and deregistered.
    fs::remove_file(of_type.join("0.sock")).unwrap();
    symlink("/r/b", of_type.join("0.sock")).unwrap();
    links.handle_event(&deregistered_event(0));
    let due = links.poll_timeout().unwrap();
    links.handle_timeout(&world(&manager), true, due);
    let target = fs::read_link(of_type.join("0.sock")).unwrap();
    assert_eq!(target, Path::new("/r/a"));
    let later = due + UPDATE_INTERVAL;
    manager.handle_input(Input::Lost { path }, later);
    links.handle_event(&deregistered_event(0));
    links.handle_timeout(&world(&manager), true, later);
    assert_eq!(count_links(&of_type), 0);
}

#[test]
fn a_path_that_leads_to_no_socket_has_no_link() {
    let saved = |endpoint: &str| {
        format!(
            r#"{{"format":"plugind registered plugins 2","boot":"","plugins":[{{
            "socket":"/r/a","device":1,"inode":2,"born":[3,4],"type":"T","name":"0",
            "endpoint":"{endpoint}","versions":[]}}]}}"#
        )
    };
    for (endpoint, has_link) in [("/r/a", true), ("/r/file", false)] {
        let mut manager = Manager::new(HandlerTable::new());
        let saved = saved(endpoint);
        manager.restore(SavedState::decode(saved.as_bytes(), "").unwrap());
        let (_dir, mut links, of_type) = links();
        links.handle_event(&deregistered_event(0));
        links.handle_timeout(&world(&manager), true, Time::ZERO);
        assert_eq!(of_type.join("0.sock").is_symlink(), has_link, "{endpoint}");
    }
}
