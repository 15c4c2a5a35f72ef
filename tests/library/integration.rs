//! The plugin manager in a loop of its own, with real directories, sockets and plugins.
//!
//! Rows PM1 and PM22 of kubelet's own tests, its end-to-end rows, and what concerns the
//! kernel. Nothing sleeps: each wait is for an event, with a bound.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use plugind::config::{Config, Exec, HandlerConfig, UnknownTypes};
use plugind::daemon::{Event, handlers};
use plugind::proto::pluginregistration::{InfoRequest, registration};

use crate::kernel::limits::is_scanning;
use crate::support::caller::Caller;
use crate::support::exposition::Exposition;
use crate::support::node::{Node, watching};
use crate::support::plugin::{Flaw, Plugin, SERVICE};
use crate::support::without::{Without, lacks};

older_kernels! {
    without_so_peerpidfd: PeerPidfd [];
    without_birth_times: BirthTimes [];
    without_openat2: Openat2 [];
    without_pidfd_open: PidfdOpen [
        "an_embedder_has_the_handlers_that_the_daemon_has": "programs need pidfd_open",
    ];
    without_statx: Statx [];
    where_a_filter_denies_what_it_does_not_know: Denied [
        "an_embedder_has_the_handlers_that_the_daemon_has": "programs need pidfd_open",
    ];
    without_inotify: Inotify [
        "an_embedder_reads_the_metrics_of_its_plugins_and_its_process":
            "the directory is not watched",
    ];
    without_proc: Proc [
        "a_path_that_fits_no_socket_address_is_connected_to":
            "such a path is dialed through /proc",
        "an_embedder_reads_the_metrics_of_its_plugins_and_its_process":
            "those of the process are read from /proc",
    ];
}

#[test]
fn pm1_a_plugin_at_any_depth_is_registered_exactly_once() {
    for below in ["", "sub", "sub/sub"] {
        let mut node = Node::start();
        let dir = node.path(below);
        fs::create_dir_all(&dir).unwrap();
        let plugin = node.register(dir.join("reg.sock"), "one");
        node.until_asked("validate one, register one");
        plugin.stop();
        node.until_asked("deregister one");
    }
}

#[test]
fn an_embedder_reads_what_has_happened_since_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = Plugin::serve(&dir.path().join("reg.sock"), "one");
    let mut node = Node::start_on(dir);
    node.until_registered(&plugin);
    let mut reasons = Vec::new();
    let mut until_read = |node: &mut Node, last| {
        node.until(last, |node| {
            while let Some(event) = node.plugins.poll_event() {
                if let Event::Plugin(event) = event {
                    reasons.push(event.reason());
                }
            }
            reasons.contains(&last).then_some(())
        });
    };
    until_read(&mut node, "Registered"); // The plugin's reply is read after it was notified.
    plugin.stop();
    until_read(&mut node, "Deregistered");
    let expected = ["SocketFound", "Registered", "SocketLost", "Deregistered"];
    assert_eq!(reasons, expected);
    assert_eq!(node.plugins.dropped_events(), 0);
}

#[test]
fn an_embedder_reads_the_metrics_of_its_plugins_and_its_process() {
    let mut node = Node::start();
    let _plugin = node.register("reg.sock", "one");
    let scraped = node.until("the registration is counted", |node| {
        let scraped = Exposition::parse(&node.plugins.metrics(None));
        let count = scraped.get("plugind_registration_duration_seconds_count", &[]);
        (count == Some(1)).then_some(scraped)
    });
    let single = |name| scraped.get(name, &[]).expect(name);
    assert!(single("plugind_loop_turns_total") > 0);
    let took = scraped.seconds("plugind_registration_duration_seconds_sum", &[]);
    assert!(took.is_some_and(|took| !took.is_zero()));
    let socket = node.path("reg.sock");
    let labels = [
        ("socket_path", socket.to_str().unwrap()),
        ("state", "actual_state_of_world"),
    ];
    let actual = scraped.get("plugin_manager_total_plugins", &labels);
    assert_eq!(actual, Some(1));
    let dir = node.plugins.directories()[0].to_str().unwrap();
    let watched = scraped.get("plugind_directory_watched", &[("path", dir)]);
    assert_eq!(watched, Some(1));
    assert!(single("process_open_fds") > 0);
    assert!(single("process_open_fds") <= single("process_max_fds"));
    assert!(single("process_resident_memory_bytes") > 0);
    assert!(scraped.seconds("process_cpu_seconds_total", &[]).is_some());
}

// --- End to end: kubelet's own rows --------------------------------------------------------------

#[test]
fn a_plugin_is_registered_again_after_our_restart() {
    let mut node = Node::start();
    let plugin = node.register("reg.sock", "patient");
    let Node { dir, plugins, .. } = node;
    drop(plugins);
    let mut node = Node::start_on(dir);
    node.until_registered(&plugin);
    node.until_asked("validate patient, register patient");
}

#[test]
fn a_plugin_is_registered_again_after_its_restart() {
    let mut node = Node::start();
    let socket = node.path("reg.sock");
    let plugin = node.register(&socket, "one");
    plugin.stop();
    let _plugin = node.register(&socket, "one");
    node.until_handler_is_told("register one");
    assert_eq!(node.registered(), 1);
}

#[test]
fn a_plugin_is_registered_after_its_get_info_failed() {
    let mut node = Node::start();
    let flaw = Flaw::Refuses(registration::GET_INFO);
    let plugin = Plugin::serve_flawed(&node.path("reg.sock"), "late", flaw);
    node.until_registered(&plugin);
    node.until_asked("validate late, register late");
}

#[test]
fn a_plugin_is_deregistered_and_registered_again() {
    let mut node = Node::start();
    let flaw = Flaw::Refuses(registration::NOTIFY_REGISTRATION_STATUS);
    let plugin = Plugin::serve_flawed(&node.path("reg.sock"), "deaf", flaw);
    node.until_registered(&plugin);
    let asked = node.record.take().join(", ");
    let registered = "validate deaf, register deaf";
    assert_eq!(
        asked,
        format!("{registered}, deregister deaf, {registered}")
    );
}

#[test]
fn registration_and_service_may_have_one_common_socket() {
    let mut node = Node::start();
    let socket = node.path("driver.sock");
    let _plugin = node.register(&socket, "both");
    let known = node.plugins.manager().socket(&socket).unwrap();
    let registered = known.registered().unwrap();
    assert_eq!(*registered.plugin.endpoint, *socket);
    let mut service = Caller::connect(&registered.plugin.endpoint);
    assert_eq!(service.unary(SERVICE, &InfoRequest {}), Ok(Vec::new()));
}

// --- What concerns the kernel; the rest of it is in tests/kernel ---------------------------------

#[test]
fn a_registered_plugin_costs_no_wakeups() {
    if !crate::support::watches::are_enough_or_skip() {
        return;
    }
    let mut node = Node::start();
    let _plugin = node.register("reg.sock", "one");
    if lacks(Without::Inotify) {
        // The directory is scanned each second instead.
        node.until("the registration is over", |node| {
            node.plugins.manager().is_idle().then_some(())
        });
        assert!(is_scanning(&node));
    } else {
        node.until_quiet();
    }
}

#[test]
fn a_path_that_fits_no_socket_address_is_connected_to() {
    let mut node = Node::start();
    let dir = node.path(&"long".repeat(40));
    fs::create_dir(&dir).unwrap();
    // The path is too long for the plugin's own address as well, which goes through a descriptor,
    // too.
    let held = File::open(&dir).unwrap();
    let through = format!("/proc/self/fd/{}/reg.sock", held.as_raw_fd());
    let _plugin = node.register(Path::new(&through), "far-away");
    node.until_asked("validate far-away, register far-away");
}

#[test]
fn a_link_to_a_socket_counts_under_its_own_path() {
    let elsewhere = tempfile::tempdir().unwrap();
    let socket = elsewhere.path().join("hidden.sock");
    let plugin = Plugin::serve(&socket, "linked");
    let mut node = Node::start();
    let link = node.path("reg.sock");
    symlink(&socket, &link).unwrap();
    node.until_registered(&plugin);
    let mut sockets = node.plugins.manager().sockets();
    assert!(sockets.all(|socket| **socket.path() == *link));
    drop(sockets);
    fs::remove_file(&link).unwrap();
    node.until_handler_is_told("deregister linked");
}

#[test]
fn a_directory_that_is_removed_is_made_again_and_watched_again() {
    let mut node = Node::start();
    let dir = node.dir.path().to_owned();
    fs::remove_dir(&dir).unwrap();
    node.until("the directory is there again", |_| {
        dir.exists().then_some(())
    });
    let _plugin = node.register("reg.sock", "patient");
}

#[test]
fn a_state_file_that_is_torn_never_stops_the_start() {
    let memory = tempfile::tempdir().unwrap();
    let file = memory.path().join("state.json");
    for (content, mode) in [("{\"format\":", 0o600), ("{}", 0o666)] {
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let config = Config {
            state_file: Some(file.clone()),
            ..watching(dir.path())
        };
        let mut node = Node::start_with(dir, &config);
        let plugin = node.register("a.sock", "a");
        plugin.stop();
    }
}

#[test]
fn an_embedder_has_the_handlers_that_the_daemon_has() {
    let config = HandlerConfig {
        types: vec!["Toaster".to_owned()],
        unknown_types: UnknownTypes::Ignore,
        exec: vec![Exec {
            kind: "Kettle".to_owned(),
            program: "/bin/true".into(),
        }],
        ..HandlerConfig::default()
    };
    let (handlers, _) = handlers(&config).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let config = watching(dir.path());
    let mut node = Node::start_handling(dir, &config, handlers);
    let serve = |kind: &str| Plugin::serve_type(&node.path(kind), kind, "a");
    let [ignored, built_in, program] = ["Juicer", "Toaster", "Kettle"].map(serve);
    for plugin in [&built_in, &program] {
        node.until_registered(plugin);
    }
    assert_eq!(node.registered(), 2);
    assert_eq!(ignored.try_notified(), None);
}
