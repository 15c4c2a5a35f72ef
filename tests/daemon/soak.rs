//! Plugins for a long time: many that register and end, and many that do nothing.
//! What is measured belongs to the whole process: `make full ONLY=soak` runs one test at a time.

use std::fs;
use std::time::{Duration, Instant};

use plugind::config::LOG_REPORT_INTERVAL;

use crate::support::client::ask;
use crate::support::daemon::Daemon;
use crate::support::plugin::Plugin;
use crate::support::simulated::Simulated;
use crate::support::until::until;

#[test]
#[ignore = "make full ONLY=soak"]
fn plugins_that_come_and_go_leave_a_daemon_nothing() {
    if !crate::support::watches::are_enough_or_skip() {
        return;
    }
    let [dir, run] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let api = run.path().join("api.sock");
    let daemon = Daemon::start_with(dir.path(), &["--socket", api.to_str().unwrap()]);
    let cycle = |n: usize| {
        let name = format!("plugin-{n}");
        let plugin = Plugin::serve(&dir.path().join(format!("{n}.sock")), &name);
        assert!(plugin.until_notified().plugin_registered);
        plugin.stop();
        // The log is limited, the API is not.
        until(&format!("{name} is deregistered"), || {
            let status = ask(&api, "GET", "/v1/status").json();
            (status["sockets"] == 0).then_some(())
        });
    };
    // Suppressed lines may be reported.
    let used = |daemon: &Daemon| {
        until("the daemon is silent", || {
            daemon.is_silent_for(Duration::from_secs(1)).then_some(())
        });
        (daemon.descriptors(), daemon.resident())
    };
    (0..CYCLES).for_each(cycle);
    let before = used(&daemon);
    (CYCLES..2 * CYCLES).for_each(cycle);
    let after = used(&daemon);
    println!("{CYCLES} cycles: descriptors, resident KiB: {before:?} -> {after:?}");
    assert_eq!(after.0, before.0, "descriptors");
    assert!(
        after.1 <= before.1 + SLACK,
        "resident KiB: {before:?} -> {after:?}"
    );
}

#[test]
#[ignore = "make full ONLY=soak"]
fn a_hundred_drivers_beside_registrars_wake_nobody_until_killed() {
    if !crate::support::watches::are_enough_or_skip() {
        return;
    }
    // Changes beside the watched directory do not concern the daemon, but they wake it.
    let dir = tempfile::tempdir().unwrap();
    let [registry, drivers_dir] = ["registry", "drivers"].map(|it| dir.path().join(it));
    fs::create_dir(&drivers_dir).unwrap();
    let mut daemon = Daemon::start(&registry);
    let serve = |n| {
        let name = format!("driver-{n}");
        let driver = Simulated::start(&drivers_dir, "CSIPlugin", &name, &[]);
        let socket = registry.join(format!("{n}.sock"));
        let registrar = Plugin::serve_elsewhere(&socket, &name, driver.socket());
        (driver, registrar)
    };
    let (drivers, registrars): (Vec<_>, Vec<_>) = (0..REGISTERED).map(serve).unzip();
    assert_never_woken(&mut daemon, &registrars);
    let mut times: Vec<_> = drivers[..KILLED]
        .iter()
        .map(|driver| {
            let start = Instant::now();
            driver.kill();
            daemon.until_logged(" is down: the driver's process at ");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let median = times[KILLED / 2];
    println!("{KILLED} drivers killed: down after {median:?} (median), {times:?}");
    assert!(median < Duration::from_millis(10), "{times:?}");
}

/// Waits until these plugins are registered and the daemon is at rest, and fails if it wakes up
/// within a minute.
#[track_caller]
fn assert_never_woken(daemon: &mut Daemon, plugins: &[Plugin]) {
    for plugin in plugins {
        assert!(plugin.until_notified().plugin_registered);
    }
    for _ in plugins {
        daemon.until_logged(": registered ");
    }
    // Lines that a burst of registrations has suppressed are reported that time after the first of
    // them, which may come after the last line that was written.
    until("the daemon is silent", || {
        daemon.is_silent_for(2 * LOG_REPORT_INTERVAL).then_some(())
    });
    let wakeups = daemon.until_at_rest();
    let quiet = Duration::from_secs(60);
    assert_eq!(daemon.line_within(quiet), None);
    let woken = daemon.wakeups() - wakeups;
    println!("{} plugins, {quiet:?}: {woken} wakeups", plugins.len());
    assert_eq!(woken, 0);
}

/// The number of plugins that come and go before anything is measured, and after that: as many as
/// paths are remembered at most.
const CYCLES: usize = 10_000;

/// The limit on the growth of memory meanwhile (KiB): what an allocator keeps now and then, and
/// well below what a hundred octets per cycle would add up to.
const SLACK: u64 = 512;

/// The number of plugins that are registered and do nothing: more than a node has.
const REGISTERED: usize = 100;

/// The number of drivers whose end is noticed, for a median.
const KILLED: usize = 20;
