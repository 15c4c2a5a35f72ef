//! Plugins and endpoints that are not trusted. Each attack succeeds with `--trust warn`, and is
//! reported; it fails with `--trust strict`, and the plugin is told why.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::binary::binary;
use crate::support::client::ask;
use crate::support::daemon::Daemon;
use crate::support::plugin::Plugin;
use crate::support::process::Process;
use crate::support::program::{copy_binary, install};
use crate::support::simulated::Simulated;
use crate::support::skip::{
    NO_NAMESPACES, can_be_others_or_skip, programs_can_be_trusted_or_skip, skip,
};
use crate::support::text::assert_has;
use crate::support::trusted::trusted_dir;
use crate::support::until::until;
use crate::support::without::{Without, lacks};

older_kernels! {
    without_landlock: Landlock [];
}

/// A plugins directory that only its owner can change, and a directory beside it that no option
/// names.
struct Place {
    home: tempfile::TempDir,
    registry: PathBuf,
    elsewhere: PathBuf,
}

impl Place {
    fn new() -> Self {
        let home = trusted_dir();
        let real = home.path().canonicalize().unwrap();
        let [registry, elsewhere] = ["r", "e"].map(|name| real.join(name));
        for dir in [&real, &registry, &elsewhere] {
            fs::create_dir_all(dir).unwrap();
            fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        }
        Self {
            home,
            registry,
            elsewhere,
        }
    }

    /// Starts a daemon that watches the plugins directory.
    fn start(&self, options: &[&str]) -> Daemon {
        let mut command = Process::command();
        command.arg("run").args(self.options()).args(options);
        Daemon::start_command(&mut command)
    }

    /// Returns the options of such a daemon.
    fn options(&self) -> Vec<OsString> {
        let run = self.home.path().join("run");
        let mut options: Vec<OsString> = vec!["--plugins-dir".into(), (&self.registry).into()];
        options.extend(["--run-dir".into(), run.into()]);
        options.extend(["--type=CSIPlugin", "--type=X"].map(OsString::from));
        options
    }

    /// Starts a plugin of another user, in a directory of that user.
    fn plugin_of(&self, uid: u32, (kind, name): (&str, &str), options: &[&str]) -> Simulated {
        let dir = self.registry.join(uid.to_string());
        fs::create_dir(&dir).unwrap();
        chown(&dir, Some(uid), Some(uid)).unwrap();
        let copy = self.home.path().join(format!("plugind-{uid}"));
        copy_binary(&copy);
        let mut command = Command::new(&copy);
        command.uid(uid).gid(uid);
        Simulated::start_command(command, &dir, (kind, name), options)
    }

    /// Listens outside of the plugins directory.
    fn listen_elsewhere(&self) -> UnixListener {
        let listener = UnixListener::bind(self.elsewhere.join("docker.sock")).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }
}

/// Returns the number of connections that a listener has got.
fn connections(listener: &UnixListener) -> usize {
    std::iter::from_fn(|| listener.accept().ok()).count()
}

/// Carries out an attack on each of several daemons: it succeeds without strict mode, and with it
/// if this option allows it; otherwise, the log gives this reason.
#[track_caller]
fn assert_refused_in_strict_mode_only(
    attack: fn(&Place) -> Simulated,
    reason: &str,
    allowed_by: &str,
) {
    let run = |options: &[&str], until: &str| {
        let place = Place::new();
        let mut daemon = place.start(options);
        let _plugin = attack(&place);
        daemon.until_logged(until)
    };
    let line = run(&["--trust=warn"], "would be refused with --trust strict");
    assert!(line.contains(reason), "{line}");
    run(&["--trust=warn"], "registered X victim");
    let line = run(&["--trust=strict"], "; next try in");
    assert!(line.contains(reason), "{line}");
    run(&["--trust=strict", allowed_by], "registered X victim");
}

#[test]
fn a_plugin_of_another_user_is_refused() {
    if !can_be_others_or_skip() {
        return;
    }
    for allowed_by in ["--allow-uid=4242", "--allow-name=4242=X/vic*"] {
        assert_refused_in_strict_mode_only(
            |place| place.plugin_of(4242, ("X", "victim"), &[]),
            "user 4242; allowed by --allow-uid 4242",
            allowed_by,
        );
    }
}

#[test]
fn a_pinned_name_is_refused_to_other_users() {
    if !can_be_others_or_skip() {
        return;
    }
    let place = Place::new();
    let pinned = "--allow-name=4243=X/victim";
    let mut daemon = place.start(&["--trust=strict", "--allow-uid=4242", pinned]);
    let thief = place.plugin_of(4242, ("X", "victim"), &[]);
    let said = thief.until_said("NotifyRegistrationStatus");
    let why = "its name is reserved for other users";
    assert!(said.contains(why), "{said}");
    let _owner = place.plugin_of(4243, ("X", "victim"), &[]);
    daemon.until_logged("registered X victim");
}

#[test]
fn a_socket_that_belongs_to_another_user_is_refused() {
    if !can_be_others_or_skip() {
        return;
    }
    assert_refused_in_strict_mode_only(
        |place| {
            // The process is root's, and the socket is given away before the plugin is found.
            let hidden = place.registry.join(".hidden");
            fs::create_dir(&hidden).unwrap();
            let plugin = Simulated::start(&hidden, "X", "victim", &[]);
            chown(plugin.socket(), Some(4242), None).unwrap();
            fs::rename(plugin.socket(), place.registry.join("a.sock")).unwrap();
            plugin
        },
        "belongs to user 4242; allowed by --allow-uid 4242",
        "--allow-uid=4242",
    );
}

#[test]
fn a_name_of_another_user_is_not_taken_over() {
    if !can_be_others_or_skip() {
        return;
    }
    let taken = "takes the place of a plugin of another user; uid=4242";
    let refused = "user 0 has a plugin with the same name";
    for (mode, logged) in [("--trust=warn", taken), ("--trust=strict", refused)] {
        let place = Place::new();
        let mut daemon = place.start(&[mode, "--allow-uid=4242"]);
        let first = Simulated::start(&place.registry, "X", "victim", &[]);
        daemon.until_logged("registered X victim");
        let thief = place.plugin_of(4242, ("X", "victim"), &[]);
        daemon.until_logged(logged);
        if mode == "--trust=strict" {
            let said = thief.until_said("NotifyRegistrationStatus");
            assert!(said.contains(refused), "{said}");
            first.end_saying("socket removed");
            daemon.until_logged("registered X victim");
        }
    }
}

#[test]
fn an_endpoint_elsewhere_is_not_connected_to() {
    for (is_link, mode) in [
        (false, "--trust=warn"),
        (false, "--trust=strict"),
        (true, "--trust=warn"),
        (true, "--trust=strict"),
    ] {
        let place = Place::new();
        let foreign = place.listen_elsewhere();
        let mut endpoint = place.elsewhere.join("docker.sock");
        if is_link {
            let link = place.registry.join(".csi.sock");
            symlink(&endpoint, &link).unwrap();
            endpoint = link;
        }
        let mut daemon = place.start(&[mode]);
        let socket = place.registry.join("a.sock");
        let plugin = Plugin::serve_elsewhere(&socket, "thief", &endpoint);
        let dir = place.elsewhere.display();
        let why = format!(
            "its socket {dir}/docker.sock is in none of the trusted directories; allowed by \
             --endpoint-dir {dir}"
        );
        let is_strict = mode == "--trust=strict";
        let said = if is_strict {
            plugin.until_notified().error
        } else {
            daemon.until_logged("CSIPlugin thief would be refused with --trust strict")
        };
        assert!(said.contains(&why), "{said}");
        assert_eq!(connections(&foreign) == 0, is_strict);
    }
}

#[test]
fn an_endpoint_in_a_directory_that_is_named_is_connected_to() {
    let place = Place::new();
    let endpoint = place.elsewhere.join("csi.sock");
    let link = place.home.path().join("link");
    symlink(&place.elsewhere, &link).unwrap();
    for named in [&place.elsewhere, &link] {
        let named = format!("--endpoint-dir={}", named.display());
        let mut daemon = place.start(&["--trust=strict", &named]);
        let endpoint = format!("--endpoint={}", endpoint.display());
        let _plugin = Simulated::start(&place.registry, "CSIPlugin", "a", &[&endpoint]);
        daemon.until_logged("registered CSIPlugin a");
    }
}

#[test]
fn an_abstract_endpoint_is_not_connected_to() {
    for (options, is_connected) in [
        (&["--trust=warn"][..], true),
        (&["--trust=strict"], false),
        (&["--trust=strict", "--endpoint-dir=@"], true),
    ] {
        let place = Place::new();
        let name = place.home.path().display().to_string();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let foreign = UnixListener::bind_addr(&address).unwrap();
        foreign.set_nonblocking(true).unwrap();
        let _daemon = place.start(options);
        let socket = place.registry.join("a.sock");
        let endpoint = PathBuf::from(format!("@{name}"));
        let plugin = Plugin::serve_elsewhere(&socket, "thief", &endpoint);
        if is_connected {
            until("a connection", || (connections(&foreign) > 0).then_some(()));
        } else {
            let status = plugin.until_notified();
            let why = "abstract socket; allowed by --endpoint-dir @";
            assert!(status.error.contains(why), "{status:?}");
            assert_eq!(connections(&foreign), 0);
        }
    }
}

#[test]
fn a_dry_run_shows_what_strict_mode_would_do() {
    let place = Place::new();
    let foreign = place.listen_elsewhere();
    let mut daemon = place.start(&["--observe"]);
    let endpoint = place.elsewhere.join("docker.sock");
    let _plugin = Plugin::serve_elsewhere(&place.registry.join("a.sock"), "a", &endpoint);
    let line = daemon.until_logged("CSIPlugin a would be refused with --trust strict");
    assert!(line.contains("; allowed by --endpoint-dir"), "{line}");
    assert_eq!(connections(&foreign), 0);
}

#[test]
fn directories_that_others_can_change_stop_start_and_reload() {
    let place = Place::new();
    let config = place.home.path().join("conf");
    fs::write(&config, "trust strict\n").unwrap();
    let named = format!("--config={}", config.display());
    let mut daemon = place.start(&[&named]);
    let open = |mode| fs::set_permissions(&place.registry, Permissions::from_mode(mode)).unwrap();
    open(0o777);
    daemon.signal(Signal::SIGHUP);
    let line = daemon.until_logged("cannot reload the configuration");
    let why = format!(
        "{} is writable by its group or others; use a path on which only root",
        place.registry.display()
    );
    assert!(line.contains(&why), "{line}");
    drop(daemon);
    let mut command = Process::command();
    command.args(["run", "--trust=strict"]);
    Process::run(command.args(place.options())).assert_fails(1, &why);
    let daemon = place.start(&["--trust=warn"]);
    let warned = daemon.seen_with("other users can change a directory");
    assert!(warned.len() == 1 && warned[0].contains(&why), "{warned:?}");
}

#[test]
fn a_program_that_others_can_change_is_not_run() {
    if !programs_can_be_trusted_or_skip() {
        return;
    }
    for (mode, logged) in [
        ("--trust=warn", "registered Y a"),
        ("--trust=strict", "hook is writable by its group or others"),
    ] {
        let place = Place::new();
        let hook = place.home.path().join("hook");
        install(&hook, "#!/bin/sh\n");
        let exec = format!("--exec=Y={}", hook.display());
        let mut daemon = place.start(&[mode, &exec]);
        fs::set_permissions(&hook, Permissions::from_mode(0o777)).unwrap();
        let _plugin = Simulated::start(&place.registry, "Y", "a", &[]);
        daemon.until_logged(logged);
    }
}

#[test]
fn the_status_shows_the_sandbox() {
    let inherited = "off, because programs would inherit it";
    for (option, expected) in [
        ("--sandbox=on", "on, "),
        ("--sandbox=off", "off"),
        ("--exec=Y=/bin/true", inherited),
    ] {
        let place = Place::new();
        let socket = place.elsewhere.join("api.sock");
        let daemon = place.start(&[option, &format!("--socket={}", socket.display())]);
        let status = ask(&socket, "GET", "/v1/status").json();
        let said = status["sandbox"].as_str().unwrap();
        assert!(said.starts_with(expected), "{said}");
        let has_landlock = said.starts_with("on, Landlock ABI ");
        let lacks_it = said == "on, without Landlock: it is not available";
        assert!(!(has_landlock && lacks(Without::Landlock)), "{said}");
        assert_eq!(said.starts_with("on"), has_landlock || lacks_it, "{said}");
        assert_eq!(daemon.seen_with(&format!("the sandbox is {said}")).len(), 1);
    }
}

#[test]
fn a_reload_reports_what_the_sandbox_does_not_allow() {
    if !can_be_others_or_skip() {
        return;
    }
    let place = Place::new();
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = elsewhere.path().join("a/b/registry");
    let config = place.home.path().join("conf");
    let outcomes = |daemon: &mut Daemon, lines: &str| {
        fs::write(&config, lines).unwrap();
        daemon.signal(Signal::SIGHUP);
        daemon.until_logged("reloaded the configuration: ")
    };
    let named = format!("--config={}", config.display());
    let registry = format!("plugins-dir {}\n", place.registry.display());
    fs::write(&config, &registry).unwrap();
    let run = format!("--run-dir={}", place.home.path().join("run").display());
    let start = || Daemon::start_command(Process::command().args(["run", &named, &run]));
    let mut daemon = start();

    let lines = format!("{registry}plugins-dir {}\n", outside.display());
    let line = outcomes(&mut daemon, &lines);
    let confined = daemon.seen_with("the sandbox is on, Landlock ABI");
    let is_refused = line.ends_with(": needs-restart=plugins-dir");
    assert_eq!(is_refused, !confined.is_empty(), "{line}");
    assert_eq!(outside.exists(), !is_refused);
    let line = outcomes(&mut daemon, &format!("{registry}exec Y=/bin/true\n"));
    assert!(line.ends_with("needs-restart=exec"), "{line}");
    let allowing = "trust strict\nallow-uid 7\n";
    let pinning = "trust strict\nallow-name 7=CSIPlugin/a\n";
    for (lines, expected) in [
        (allowing, "trust,allow-uid"),
        ("trust strict\n", "allow-uid"),
        (allowing, "allow-uid needs-restart=allow-uid"),
        ("trust warn\n", "trust,allow-uid needs-restart=trust"),
        ("trust strict\n", "trust"),
        (pinning, "allow-name needs-restart=allow-name"),
    ] {
        let line = outcomes(&mut daemon, &(registry.clone() + lines));
        assert!(line.ends_with(&format!(": changed={expected}")), "{line}");
    }
    drop(daemon);
    fs::write(&config, lines).unwrap();
    let _after = start();
    assert!(outside.exists());
}

#[test]
fn users_and_groups_are_known_in_the_sandbox() {
    let place = Place::new();
    let config = place.home.path().join("conf");
    fs::write(&config, "allow-uid root\n").unwrap();
    let named = format!("--config={}", config.display());
    let mut daemon = place.start(&[&named, "--socket-group=root"]);
    fs::write(&config, "allow-uid daemon\n").unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.until_logged("reloaded the configuration: changed=allow-uid");
}

/// Returns a command that runs the binary in a PID namespace of its own, or `None` if this user may
/// not make one: the test is skipped then.
fn in_pid_namespace_or_skip() -> Option<Command> {
    let mut command = Command::new("unshare");
    command.args("--user --map-root-user --pid --fork --kill-child".split(' '));
    let mut tried = Command::new("unshare");
    let output = tried.args(command.get_args()).arg("true").output();
    if !output.is_ok_and(|it| it.status.success()) {
        skip(NO_NAMESPACES);
        return None;
    }
    command.arg(binary());
    Some(command)
}

#[test]
fn the_process_of_a_plugin_is_shown_if_it_is_asked_for() {
    let Some(command) = in_pid_namespace_or_skip() else {
        return;
    };
    let place = Place::new();
    let socket = place.elsewhere.join("api.sock");
    let mut daemon = place.start(&[&format!("--socket={}", socket.display())]);
    let _plugin = Simulated::start(&place.registry, "X", "a", &[]);
    daemon.until_logged("registered X a");
    let _inside = Simulated::start_command(command, &place.registry, ("X", "b"), &[]);
    daemon.until_logged("registered X b");
    for (name, is_inside) in [("a", false), ("b", true)] {
        let found = ask(&socket, "GET", &format!("/v1/plugins/X/{name}")).json();
        let found = &found["items"][0];
        let shown = |file| fs::read_to_string(format!("/proc/{}/{file}", found["pid"])).unwrap();
        assert_eq!(found["command"], shown("comm").trim());
        let cgroup = format!(":{}\n", found["cgroup"].as_str().unwrap());
        assert!(shown("cgroup").ends_with(&cgroup), "{cgroup}");
        assert_eq!(found["otherPidNamespace"], is_inside);

        let output = Process::ask(&socket, &["describe", &format!("X/{name}")]).out;
        let command = format!("\nCommand:     {}\nCgroup:      /", shown("comm").trim());
        assert_has(&output, &command);
        let is_said = output.contains(", in another PID namespace\n");
        assert_eq!(is_said, is_inside, "{output}");
    }
    let all = ask(&socket, "GET", "/v1/plugins").json().to_string();
    assert!(!all.contains("cgroup") && all.contains("\"pid\""), "{all}");
}

#[test]
fn a_process_outside_of_the_pid_namespace_is_named_as_such() {
    let Some(mut command) = in_pid_namespace_or_skip() else {
        return;
    };
    let place = Place::new();
    let socket = place.elsewhere.join("api.sock");
    command.args(["run", "--config=none", "--socket"]);
    command.arg(&socket).args(place.options());
    let mut daemon = Daemon::start_command(&mut command);
    let _plugin = Simulated::start(&place.registry, "X", "a", &[]);
    daemon.until_logged("registered X a");
    let found = ask(&socket, "GET", "/v1/plugins/X/a").json();
    let found = &found["items"][0];
    assert!(
        found["pid"].is_null() && found["command"].is_null(),
        "{found}"
    );
    assert_eq!(found["otherPidNamespace"], true, "{found}");
}
