//! Calls of Register one by one, with kubelet's registration server and with the built binary: the
//! statuses and the devices have to be those that kubelet's own tests expect.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use plugind::grpc::{CallError, Code};
use plugind::proto::v1beta1::{RegisterRequest, device_plugin};

use super::{StartManager, managers};
use crate::device_plugins::manager::{Manager, Plugind};
use crate::device_plugins::peer::RESOURCE;
use crate::device_plugins::scripted::{OUT_OF_ORDER, Scripted};
use crate::support::caller::Caller;
use crate::support::kubelet;
use crate::support::trusted::trusted_dir;

#[test]
fn rs3_the_start_removes_all_sockets_and_nothing_else() {
    for start in managers() {
        let root = trusted_dir();
        let dir = root.path().join("device-plugins");
        let outside = root.path().join("outside.sock");
        let bound = bind(&outside);
        fs::create_dir(&dir).unwrap();
        for socket in ["kubelet.sock", "old.sock", ".hidden"] {
            bind(&dir.join(socket));
        }
        symlink(&outside, dir.join("link.sock")).unwrap();
        symlink(root.path().join("missing"), dir.join("dangling.sock")).unwrap();
        fs::write(dir.join("kubelet_internal_checkpoint"), "{}").unwrap();
        fs::create_dir(dir.join("sub")).unwrap();
        bind(&dir.join("sub/inner.sock"));

        let manager = start(root.path());
        assert_eq!(
            names(&manager.dir()),
            [
                "dangling.sock",
                "kubelet.sock",
                "kubelet_internal_checkpoint",
                "sub"
            ]
        );
        assert_eq!(names(&dir.join("sub")), ["inner.sock"]);
        assert!(outside.exists());
        drop(bound);
        Caller::connect(&dir.join("kubelet.sock"));
    }
}

#[test]
fn a_missing_directory_is_created_without_rights_for_others() {
    for start in managers() {
        let root = trusted_dir();
        let manager = start(root.path());
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&manager.dir()) & 0o027, 0);
        // unix(7): to connect needs the right to write.
        assert_eq!(mode(&manager.dir().join("kubelet.sock")) & 0o022, 0);
    }
}

#[test]
fn rs4_a_resource_that_registers_again_has_the_last_devices() {
    with_each(|manager| {
        let mut plugins = Vec::new();
        for (socket, devices) in [
            ("x", &["one", "two"][..]),
            ("x.new", &["one", "two"]),
            ("x.third", &["three"]),
        ] {
            plugins.push(Scripted::listing(&manager.dir().join(socket), devices));
            assert_eq!(register(&manager.dir(), socket), Ok(()));
            let devices: Vec<_> = devices.iter().map(|id| (*id, true)).collect();
            manager.until_devices(&devices);
            manager.check_one_plugin();
        }
    });
}

#[test]
fn rs5_another_version_is_refused_in_kubelet_s_words() {
    with_each(|manager| {
        for version in ["", "v1", "v1beta2"] {
            let request = RegisterRequest {
                version: version.to_owned(),
                ..request("x")
            };
            let expected = format!(
                "requested API version {version:?} is not supported by kubelet. Supported version \
                 is [\"v1beta1\"]"
            );
            assert_eq!(call(&manager.dir(), &request), refused(&expected));
        }
    });
}

#[test]
fn rs6_a_name_that_is_no_extended_resource_is_refused() {
    with_each(|manager| {
        for name in ["", "gpu", "kubernetes.io/gpu", "requests.a.example/gpu"] {
            let request = RegisterRequest {
                resource_name: name.to_owned(),
                ..request("x")
            };
            let expected = format!("the ResourceName {name:?} is invalid");
            assert_eq!(call(&manager.dir(), &request), refused(&expected));
        }
    });
}

#[test]
fn rs7_an_endpoint_on_which_nothing_listens_is_refused() {
    with_each(|manager| {
        let expected = "failed to dial device plugin: context deadline exceeded";
        assert_eq!(register(&manager.dir(), "missing.sock"), refused(expected));
        manager.until_devices(&[]);
    });
}

#[test]
fn rs8_a_plugin_that_does_not_report_its_options_is_refused() {
    with_each(|manager| {
        let method = device_plugin::GET_DEVICE_PLUGIN_OPTIONS;
        let plugin = Scripted::failing(&manager.dir().join("x"), method);
        let why = OUT_OF_ORDER.1;
        let expected =
            format!("failed to get device plugin options: rpc error: code = Internal desc = {why}");
        assert_eq!(register(&manager.dir(), "x"), refused(&expected));
        assert_eq!(plugin.calls(), [method]);
        manager.until_devices(&[]);
    });
}

#[test]
fn rs9_a_plugin_whose_list_fails_at_once_is_registered() {
    with_each(|manager| {
        let plugin = Scripted::failing(&manager.dir().join("x"), device_plugin::LIST_AND_WATCH);
        for _ in 0..2 {
            assert_eq!(register(&manager.dir(), "x"), Ok(()));
            for method in [
                device_plugin::GET_DEVICE_PLUGIN_OPTIONS,
                device_plugin::LIST_AND_WATCH,
            ] {
                assert_eq!(plugin.until_called(), method);
            }
        }
        assert_eq!(plugin.calls(), [""; 0]);
        manager.until_devices(&[]);
        manager.until_down();
    });
}

#[test]
fn rs10_a_plugin_whose_list_fails_later_has_unhealthy_devices() {
    with_each(|manager| {
        let plugin = Scripted::listing(&manager.dir().join("x"), &["one", "two"]);
        assert_eq!(register(&manager.dir(), "x"), Ok(()));
        manager.until_devices(&[("one", true), ("two", true)]);
        plugin.fail();
        manager.until_devices(&[("one", false), ("two", false)]);
        assert_eq!(plugin.calls().len(), 2);
        manager.until_down();
    });
}

#[test]
fn rs11_a_plugin_that_is_stopped_has_unhealthy_devices() {
    with_each(|manager| {
        let plugin = Scripted::listing(&manager.dir().join("x"), &["one", "two"]);
        assert_eq!(register(&manager.dir(), "x"), Ok(()));
        manager.until_devices(&[("one", true), ("two", true)]);
        plugin.stop();
        manager.until_devices(&[("one", false), ("two", false)]);
        manager.until_down();
    });
}

#[test]
fn rs12_devices_become_unhealthy_and_healthy_as_listed() {
    with_each(|manager| {
        let plugin = Scripted::listing(&manager.dir().join("x"), &["a", "b", "c", "d"]);
        assert_eq!(register(&manager.dir(), "x"), Ok(()));
        manager.until_devices(&[("a", true), ("b", true), ("c", true), ("d", true)]);
        for [b, d] in [[true, false], [true, true], [false, false], [false, true]] {
            let devices = [("a", true), ("b", b), ("c", true), ("d", d)];
            plugin.list(&devices);
            manager.until_devices(&devices);
        }
    });
}

#[test]
fn the_end_of_an_older_plugin_leaves_the_newer_one_healthy() {
    let dir = trusted_dir();
    let mut daemon = Plugind::start(dir.path());
    let older = Scripted::listing(&daemon.dir().join("older"), &["one"]);
    assert_eq!(register(&daemon.dir(), "older"), Ok(()));
    daemon.until_devices(&[("one", true)]);
    let newer = Scripted::listing(&daemon.dir().join("newer"), &["two"]);
    assert_eq!(register(&daemon.dir(), "newer"), Ok(()));
    daemon.until_devices(&[("two", true)]);
    older.stop();
    // Its end is noticed with the first of these lists, at the latest.
    for devices in [&[("three", true), ("two", true)][..], &[("two", true)]] {
        newer.list(devices);
        daemon.until_devices(devices);
    }
    daemon.check_one_plugin();
}

#[test]
fn the_end_of_the_newest_plugin_leaves_the_one_before_it() {
    let dir = trusted_dir();
    let mut daemon = Plugind::start(dir.path());
    let names = ["oldest", "older", "newest"];
    let mut plugins = names.map(|name| {
        let plugin = Scripted::listing(&daemon.dir().join(name), &[name]);
        assert_eq!(register(&daemon.dir(), name), Ok(()));
        daemon.until_devices(&[(name, true)]);
        Some(plugin)
    });
    plugins[2].take().unwrap().stop();
    daemon.until_devices(&[("older", true)]);
    daemon.check_one_plugin();
    plugins[0].take().unwrap().stop();
    plugins[1].as_ref().unwrap().list(&[("older", false)]);
    daemon.until_devices(&[("older", false)]);
    daemon.check_one_plugin();
}

#[test]
fn the_end_of_a_plugin_is_noticed_after_a_failure() {
    let dir = trusted_dir();
    let mut daemon = Plugind::start(dir.path());
    let older = Scripted::listing(&daemon.dir().join("older"), &["one"]);
    assert_eq!(register(&daemon.dir(), "older"), Ok(()));
    daemon.until_devices(&[("one", true)]);
    let method = device_plugin::GET_DEVICE_PLUGIN_OPTIONS;
    let newer = Scripted::failing(&daemon.dir().join("newer"), method);
    assert!(register(&daemon.dir(), "newer").is_err());
    assert_eq!(newer.calls().len(), 1);
    daemon.until_devices(&[("one", true)]);
    older.stop();
    daemon.until_devices(&[("one", false)]);
}

/// Plays a scenario with each manager that this machine has, all at the same time.
#[track_caller]
fn with_each(play: impl Fn(&mut dyn Manager) + Sync) {
    let managers: Vec<StartManager> = managers();
    std::thread::scope(|scope| {
        for start in managers {
            let play = &play;
            scope.spawn(move || {
                let dir = trusted_dir();
                play(&mut *start(dir.path()));
            });
        }
    });
}

/// Registers a plugin with this socket, and returns the reason if it is refused.
fn register(dir: &Path, socket: &str) -> Result<(), String> {
    call(dir, &request(socket))
}

fn request(socket: &str) -> RegisterRequest {
    kubelet::request(socket, RESOURCE)
}

/// Calls Register. Returns the message of the status if it is the one of a Go error.
fn call(dir: &Path, request: &RegisterRequest) -> Result<(), String> {
    let registered = kubelet::register(&dir.join("kubelet.sock"), request);
    registered.map_err(|error| match error {
        CallError::Status(status) if status.code == Code::Unknown => status.message,
        other => panic!("{other:?}"),
    })
}

/// Binds a socket that is left behind.
fn bind(path: &Path) -> UnixListener {
    UnixListener::bind(path).unwrap()
}

/// Returns the names of the files in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn refused(reason: &str) -> Result<(), String> {
    Err(reason.to_owned())
}
