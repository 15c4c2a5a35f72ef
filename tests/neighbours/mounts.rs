//! Mounts: many that appear and disappear, and one that does not answer.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

use crate::row::{Row, alone};
use crate::support::inside::{inside, is_inside};
use crate::support::plugin::Plugin;
use crate::support::skip::fuse_can_be_opened_or_skip;

#[test]
fn links_and_endpoints_on_a_dead_mount_are_withstood() {
    if !fuse_can_be_opened_or_skip() {
        return;
    }
    let name = "mounts::links_and_endpoints_on_a_dead_mount_are_withstood";
    let _alone = (!is_inside(name)).then(alone);
    let options = "fd=3,rootmode=40000,user_id=0,group_id=0";
    let prepare = format!("exec 3<>/dev/fuse && mount -i -t fuse -o {options} stalled /mnt");
    inside(name, &prepare, || {
        let row = Row::new("links and endpoints on a dead mount", "hangs for ever");
        row.withstand(|attacker, _| {
            let elsewhere = tempfile::tempdir().unwrap();
            symlink("/mnt", elsewhere.path().join("way")).unwrap();
            let way = elsewhere.path().join("way/a.sock");
            let (new, link) = (attacker.join(".new"), attacker.join("link"));
            let own_root = Path::new("/proc/self/root").join("mnt/a.sock");
            let endpoints = [Path::new("/mnt/a.sock"), &way, &own_root];
            let plugins = endpoints.iter().enumerate().map(|(n, endpoint)| {
                let socket = attacker.join(format!("{n}.sock"));
                Plugin::serve_elsewhere(&socket, &format!("dead-{n}"), endpoint)
            });
            let plugins: Vec<Plugin> = plugins.collect();
            for plugin in &plugins {
                assert!(!plugin.until_notified().plugin_registered);
            }
            for target in endpoints.iter().cycle().take(LINKS) {
                symlink(target, &new).unwrap();
                fs::rename(&new, &link).unwrap();
            }
        });
    });
}

#[test]
fn mounts_that_come_and_go_near_the_directory_are_withstood() {
    let name = "mounts::mounts_that_come_and_go_near_the_directory_are_withstood";
    let _alone = (!is_inside(name)).then(alone);
    inside(name, "mount -t tmpfs none /mnt", || {
        let row = Row::new("mounts below the directory", "unseen for 300 s");
        row.withstand(|attacker, over| {
            // The directory is removed with the daemon.
            while !over.load(Ordering::Relaxed)
                && run("mount", &["-t", "tmpfs", "none"], attacker)
                && run("umount", &["--lazy"], attacker)
            {}
        });
    });
}

/// Runs `mount` or `umount`, and returns whether it succeeded.
fn run(program: &str, options: &[&str], dir: &Path) -> bool {
    let output = Command::new(program).args(options).arg(dir).output();
    output.unwrap().status.success()
}

/// The number of links: how the loop copes with a flood of them is another row.
const LINKS: usize = 300;
