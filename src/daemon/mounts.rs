//! Which file systems do not report all changes to inotify.
//!
//! inotify(7): "Inotify reports only events that a user-space program triggers through the
//! filesystem API. As a result, it does not catch remote events that occur on network filesystems.
//! [...] Furthermore, various pseudo-filesystems such as /proc, /sys, and /dev/pts are not
//! monitorable with inotify." The type of a directory's file system is read from mountinfo
//! (proc_pid_mountinfo(5)) by the device number: statfs(2) may wait for a server that does not
//! answer.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use rustix::fs::makedev;

use super::stat::Stat;

/// The devices that directories are on.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    /// Each device that was asked about, and the type of its file system if that does not report
    /// all changes.
    devices: Vec<(u64, Option<String>)>,
}

impl Mounts {
    /// Returns the type of the file system that a directory is on, if that does not report all
    /// changes. Where nothing can be found out, a file system is taken for one that does.
    pub(super) fn unreported(&mut self, dir: &Path) -> Option<String> {
        let device = Stat::follow(dir).ok()?.identity.device;
        let known = self.devices.iter().find(|(it, _)| *it == device);
        if let Some((_, unreported)) = known {
            return unreported.clone();
        }
        let unreported = file_system(device).filter(|fs| is_silent(fs));
        self.devices.push((device, unreported.clone()));
        unreported
    }

    /// Forgets what was found out: a device number may be another file system's by now.
    pub(super) fn forget(&mut self) {
        self.devices.clear();
    }
}

/// Returns the type of the file system that is mounted from a device.
fn file_system(device: u64) -> Option<String> {
    let mounts = fs::File::open(MOUNTINFO).ok()?;
    let lines = BufReader::new(mounts).split(b'\n').map_while(Result::ok);
    let mut types = lines.filter_map(|line| {
        let line = String::from_utf8_lossy(&line);
        let (of, kind) = parse(&line)?;
        (of == device).then(|| kind.to_owned())
    });
    types.next()
}

/// Returns the device and the type of a mount: `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3
/// /dev/root rw,errors=continue`.
fn parse(line: &str) -> Option<(u64, &str)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    Some((device, file_system.split(' ').next()?))
}

fn is_silent(file_system: &str) -> bool {
    SILENT.contains(&file_system) || file_system.starts_with("fuse")
}

/// The file systems that report no changes, or not those made elsewhere; beside them all of FUSE.
const SILENT: [&str; 18] = [
    "9p", "afs", "ceph", "cgroup", "cgroup2", "cifs", "coda", "debugfs", "gfs2", "lustre", "nfs",
    "nfs4", "ocfs2", "proc", "smb3", "sysfs", "tracefs", "virtiofs",
];

/// The kernel's list of the mounts that this process sees.
const MOUNTINFO: &str = "/proc/self/mountinfo";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_parsed_with_any_number_of_optional_fields() {
        let mount = |optional: &str| format!("36 35 98:1 /a /b rw{optional} - nfs4 server:/ rw");
        for optional in ["", " master:1", " shared:1 master:2"] {
            assert_eq!(parse(&mount(optional)), Some((makedev(98, 1), "nfs4")));
        }
        assert_eq!(parse("36 35 98:1 /a /b rw"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn pseudo_and_remote_file_systems_are_silent_and_local_ones_are_not() {
        for silent in ["proc", "nfs4", "fuse", "fuse.sshfs", "fuseblk", "virtiofs"] {
            assert!(is_silent(silent), "{silent}");
        }
        for local in ["ext4", "tmpfs", "overlay", "btrfs", "xfs", "ramfs"] {
            assert!(!is_silent(local), "{local}");
        }
    }

    #[test]
    fn proc_is_known_by_its_device_and_asked_about_once() {
        let mut mounts = Mounts::default();
        for _ in 0..2 {
            assert_eq!(mounts.unreported(Path::new("/proc")), Some("proc".into()));
        }
        assert_eq!(mounts.devices.len(), 1);
        mounts.forget();
        assert!(mounts.devices.is_empty());
        assert_eq!(mounts.unreported(Path::new("/no/such/directory")), None);
    }
}
