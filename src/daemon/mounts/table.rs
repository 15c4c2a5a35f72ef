//! The mounts that matter, as mountinfo lists them (proc_pid_mountinfo(5)).
//!
//! The table answers two questions by path alone: whether a path may lead to a mount that does not
//! answer, and whether a mount has changed at a root. statfs(2) and stat(2) may wait for a server
//! that does not answer.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use litemap::LiteMap;

/// The mounts that are visible to this process, as far as they matter.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The mounts that may not answer, sorted by path, without those that a root lies on.
    remote: Vec<(PathBuf, String)>,
    /// For each root: the mounts above it, at it and below it, in the order of mountinfo.
    near: Vec<Vec<Mount>>,
}

/// A mount, as one line of mountinfo describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// The id, unique among the mounts that exist at a time. The kernel reuses ids of removed
    /// mounts.
    id: u32,
    /// The id of the mount in which the mount point lies.
    parent: u32,
    /// The device as `major:minor`, which is not reused while the file system lives.
    device: String,
    /// The directory of the file system that is mounted.
    root: String,
    /// The mount point.
    path: PathBuf,
    /// The type of the file system.
    file_system: String,
}

/// A directory that the user named.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Root {
    /// The path as the watch knows it.
    pub(in crate::daemon) named: PathBuf,
    /// The path without symbolic links, as in mountinfo.
    pub(in crate::daemon) real: PathBuf,
}

impl Root {
    /// Returns a root with its symbolic links resolved, or with the path as it is if that fails.
    pub(super) fn new(named: &Path) -> Self {
        Self {
            named: named.to_owned(),
            real: fs::canonicalize(named).unwrap_or_else(|_| named.to_owned()),
        }
    }

    /// Returns the path of a directory below this root, with the root's symbolic links resolved, or
    /// `None` if the directory is not below this root.
    pub(super) fn real_path(&self, dir: &Path) -> Option<PathBuf> {
        let rest = dir.strip_prefix(&self.named).ok()?;
        if rest.as_os_str().is_empty() {
            return Some(self.real.clone()); // A path joined with nothing would end in a slash.
        }
        Some(self.real.join(rest))
    }

    fn lies_below(&self, mount_point: &Path) -> bool {
        self.named.starts_with(mount_point) || self.real.starts_with(mount_point)
    }

    fn concerns(&self, mount_point: &Path) -> bool {
        self.lies_below(mount_point)
            || mount_point.starts_with(&self.named)
            || mount_point.starts_with(&self.real)
    }
}

impl Table {
    /// Returns the type of the innermost file system on the way to `path` that may not answer. The
    /// path must be free of symbolic links and of `..`.
    pub(super) fn remote_on_the_way(&self, path: &Path) -> Option<&str> {
        if self.is_empty() {
            return None;
        }
        path.ancestors().find_map(|it| self.remote_at(it))
    }

    /// Returns the type of the file system that is mounted at `path`, if that file system may not
    /// answer.
    pub(super) fn remote_at(&self, path: &Path) -> Option<&str> {
        let at = self.remote.binary_search_by(|(at, _)| (**at).cmp(path));
        at.ok().map(|at| &*self.remote[at].1)
    }

    /// Returns whether every file system answers.
    pub(super) fn is_empty(&self) -> bool {
        self.remote.is_empty()
    }

    /// Returns whether no path can lead to a file system that may not answer, except a path below
    /// /proc or /sys, where such mounts are found on most nodes.
    pub(super) fn has_no_remote(&self) -> bool {
        let pseudo = |path: &Path| path.starts_with("/proc") || path.starts_with("/sys");
        self.remote.iter().all(|(path, _)| pseudo(path))
    }

    /// Returns the type of the file system that a directory is on, if that file system does not
    /// report all changes to inotify.
    pub(super) fn unreported(&self, dir: &Path, roots: &[Root]) -> Option<&str> {
        let below = roots.iter().zip(&self.near);
        let below = below.filter_map(|(root, near)| Some((root, near, root.real_path(dir)?)));
        // A root inside another one may be a symbolic link.
        let (_, near, real) = below.max_by_key(|(root, ..)| root.named.as_os_str().len())?;
        let on_the_way = near.iter().filter(|it| real.starts_with(&it.path));
        // Of several mounts at one mount point, the last one is on top.
        let covering = on_the_way.max_by_key(|it| it.path.as_os_str().len());
        let file_system = &*covering?.file_system;
        is_silent(file_system).then_some(file_system)
    }

    /// Replaces the roots: for each, the index that it had, or `None` if nothing is known of it.
    pub(super) fn set_roots(&mut self, places: &[Option<usize>]) {
        let mut before = std::mem::take(&mut self.near);
        let near = places
            .iter()
            .map(|place| before.get_mut((*place)?).map(std::mem::take));
        self.near = near.map(Option::unwrap_or_default).collect();
    }

    /// Returns the roots, by index, around which this table and `other` differ.
    pub(super) fn differing(&self, other: &Self) -> Vec<usize> {
        let count = self.near.len().max(other.near.len());
        let differs = |at: &usize| self.near.get(*at) != other.near.get(*at);
        (0..count).filter(differs).collect()
    }
}

/// A table that is being read, line by line.
#[derive(Debug)]
pub(super) struct Builder {
    roots: Vec<Root>,
    remote: LiteMap<u32, (PathBuf, String)>,
    near: Vec<Vec<Mount>>,
}

impl Builder {
    pub(super) fn new(roots: Vec<Root>) -> Self {
        let near = vec![Vec::new(); roots.len()];
        let remote = LiteMap::new();
        Self {
            roots,
            remote,
            near,
        }
    }

    /// Adds the mount that a line of mountinfo describes.
    pub(super) fn add(&mut self, line: &[u8]) {
        let Some(mount) = parse(line) else {
            return;
        };
        // A mount on the root of another mount covers all of it; that is how an automount is
        // covered.
        let covered = self.remote.get(&mount.parent);
        if covered.is_some_and(|(path, _)| *path == mount.path) {
            self.remote.remove(&mount.parent);
        }
        if may_not_answer(&mount.file_system) {
            // A root on such a file system is the user's own decision.
            if !self.roots.iter().any(|root| root.lies_below(&mount.path)) {
                let remote = (mount.path.clone(), mount.file_system.clone());
                self.remote.insert(mount.id, remote);
            }
        }
        for (root, near) in self.roots.iter().zip(&mut self.near) {
            if root.concerns(&mount.path) {
                near.push(mount.clone());
            }
        }
    }

    pub(super) fn finish(self) -> Table {
        let mut remote: Vec<_> = self.remote.into_iter().map(|(_, it)| it).collect();
        remote.sort_unstable();
        Table {
            remote,
            near: self.near,
        }
    }
}

/// Returns whether a line of mountinfo describes the mount with this id.
pub(super) fn is_line_of(line: &[u8], id: u64) -> bool {
    let number = line.split(|&octet| octet == b' ').next();
    let number = number.and_then(|octets| std::str::from_utf8(octets).ok());
    number.is_some_and(|number| number.parse() == Ok(id))
}

/// Returns the type of the file system that a line describes, if that file system may not answer. A
/// root on such a file system is the user's own decision.
pub(super) fn remote_of(line: &[u8], roots: &[Root]) -> Option<String> {
    let mount = parse(line)?;
    let is_wanted = roots.iter().any(|root| root.lies_below(&mount.path));
    (may_not_answer(&mount.file_system) && !is_wanted).then_some(mount.file_system)
}

/// Parses a line such as `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&octet| octet == b' ');
    let mut next = || fields.next();
    let [id, parent, device, root, path] = [next()?, next()?, next()?, next()?, next()?];
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let number = |field: &[u8]| text(field).parse().ok();
    let mut after = fields.skip_while(|field| *field != b"-");
    after.next()?;
    Some(Mount {
        id: number(id)?,
        parent: number(parent)?,
        device: text(device),
        root: text(root),
        path: PathBuf::from(OsString::from_vec(unescape(path))),
        file_system: text(after.next()?),
    })
}

/// Decodes a path in which the kernel has escaped space, tab, newline and backslash as a backslash
/// and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&octet, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| octet == b'\\');
        let code = digits.and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 8).ok());
        decoded.push(code.unwrap_or(octet));
        rest = &after[if code.is_some() { 3 } else { 0 }..];
    }
    decoded
}

/// Returns whether inotify does not report all changes on a file system. inotify(7): "Inotify
/// reports only events that a user-space program triggers through the filesystem API. As a result,
/// it does not catch remote events that occur on network filesystems. [...] Furthermore, various
/// pseudo-filesystems such as /proc, /sys, and /dev/pts are not monitorable with inotify."
fn is_silent(file_system: &str) -> bool {
    PSEUDO.contains(&file_system) || may_not_answer(file_system)
}

/// Returns whether a system call on a file system may wait for a process or a server that does not
/// answer. `fusectl` is a pseudo file system.
fn may_not_answer(file_system: &str) -> bool {
    let is_fuse = matches!(file_system, "fuse" | "fuseblk") || file_system.starts_with("fuse.");
    is_fuse || REMOTE.contains(&file_system)
}

/// The local file systems that do not report changes.
const PSEUDO: [&str; 8] = [
    "cgroup",
    "cgroup2",
    "debugfs",
    "fusectl",
    "proc",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// The file systems, besides FUSE, that are served from elsewhere: they do not report changes that
/// are made there, and may not answer.
const REMOTE: [&str; 20] = [
    "9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn root(path: &str) -> Root {
        Root {
            named: path.into(),
            real: path.into(),
        }
    }

    fn table(roots: &[Root], lines: &[&str]) -> Table {
        let mut builder = Builder::new(roots.to_vec());
        for line in lines {
            builder.add(line.as_bytes());
        }
        builder.finish()
    }

    #[test]
    fn a_mount_is_parsed_with_any_number_of_optional_fields() {
        for optional in ["", " master:1", " shared:1 master:2"] {
            let line = format!("36 35 98:1 /a /b\\040c rw{optional} - nfs4 server:/ rw");
            let mount = parse(line.as_bytes()).unwrap();
            assert_eq!((mount.id, mount.parent, &*mount.device), (36, 35, "98:1"));
            assert_eq!(mount.path, Path::new("/b c"));
            assert_eq!((&*mount.root, &*mount.file_system), ("/a", "nfs4"));
        }
        for nonsense in [
            "36 35 98:1 /a /b rw",
            "",
            "- - - - - - - -",
            "36 35 98:1 /a /b rw -",
        ] {
            assert_eq!(parse(nonsense.as_bytes()), None, "{nonsense}");
        }
    }

    #[test]
    fn a_path_is_unescaped_and_a_stray_backslash_stays() {
        for (field, expected) in [
            (r"/a\040b\011\012\134", &b"/a b\t\n\\"[..]),
            (r"/a\04", b"/a\\04"),
            (r"/a\999", b"/a\\999"),
            (r"\", b"\\"),
        ] {
            assert_eq!(unescape(field.as_bytes()), expected, "{field}");
        }
    }

    #[test]
    fn pseudo_file_systems_are_silent_remote_ones_also_may_not_answer_and_local_ones_are_neither() {
        for pseudo in ["proc", "sysfs", "fusectl"] {
            assert!(is_silent(pseudo) && !may_not_answer(pseudo), "{pseudo}");
        }
        let remote = [
            "nfs4",
            "fuse",
            "fuse.sshfs",
            "fuseblk",
            "virtiofs",
            "autofs",
        ];
        for remote in remote
            .iter()
            .chain(&["beegfs", "gpfs", "orangefs", "smbfs"])
        {
            assert!(is_silent(remote) && may_not_answer(remote), "{remote}");
        }
        for local in ["ext4", "tmpfs", "overlay", "btrfs", "xfs", "ramfs"] {
            assert!(!is_silent(local) && !may_not_answer(local), "{local}");
        }
    }

    #[test]
    fn a_path_meets_the_remote_mounts_that_it_is_below_and_no_others() {
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/sda rw",
            "2 1 0:30 / /mnt/nfs rw - nfs4 server:/ rw",
            "3 2 8:2 / /mnt/nfs/local rw - xfs /dev/sdb rw",
            "4 1 0:31 / /mnt/fuse rw - fuse.sshfs host: rw",
        ];
        let table = table(&[root("/registry")], &lines);
        for (path, expected) in [
            ("/mnt/nfs", Some("nfs4")),
            ("/mnt/nfs/local/a.sock", Some("nfs4")),
            ("/mnt/fuse/a", Some("fuse.sshfs")),
            ("/mnt/nfs2/a", None),
            ("/mnt", None),
            ("/", None),
        ] {
            assert_eq!(table.remote_on_the_way(Path::new(path)), expected, "{path}");
        }
        assert!(!table.has_no_remote());
    }

    #[test]
    fn an_automount_counts_until_something_covers_it() {
        let automount = "2 1 0:30 / /data rw - autofs systemd-1 rw";
        let covering = "3 2 8:2 / /data rw - xfs /dev/sdb rw";
        let data = Path::new("/data/a.sock");
        assert_eq!(
            table(&[], &[automount]).remote_on_the_way(data),
            Some("autofs")
        );
        assert_eq!(
            table(&[], &[automount, covering]).remote_on_the_way(data),
            None
        );
        let binfmt = "4 1 0:31 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw";
        let table = table(&[], &[binfmt]);
        assert!(table.has_no_remote());
        let below = Path::new("/proc/sys/fs/binfmt_misc/a");
        assert_eq!(table.remote_on_the_way(below), Some("autofs"));
    }

    #[test]
    fn a_remote_mount_that_a_root_lies_on_is_the_user_s_decision_and_one_below_it_is_not() {
        let lines = [
            "2 1 0:30 / /data rw - virtiofs share rw",
            "3 2 0:31 / /data/registry/sub rw - fuse none rw",
        ];
        let table = table(&[root("/data/registry")], &lines);
        let met = |path: &str| table.remote_on_the_way(Path::new(path));
        assert_eq!(met("/data/registry/a.sock"), None);
        assert_eq!(met("/data/registry/sub/a.sock"), Some("fuse"));
    }

    #[test]
    fn one_mount_is_told_by_its_id() {
        let line = "37 36 0:31 / /run/fuse rw - fuse.sshfs host: rw";
        assert!(is_line_of(line.as_bytes(), 37));
        for id in [3, 7, 36, 370] {
            assert!(!is_line_of(line.as_bytes(), id), "{id}");
        }
        assert!(!is_line_of(b"", 0) && !is_line_of(b"x 37", 37));
    }

    #[test]
    fn one_line_tells_whether_its_mount_may_not_answer() {
        let roots = [root("/data/registry")];
        for (line, expected) in [
            ("36 1 8:2 / /run rw - tmpfs none rw", None),
            (
                "37 36 0:31 / /run/fuse rw - fuse.sshfs host: rw",
                Some("fuse.sshfs"),
            ),
            ("38 1 0:32 / /data rw - virtiofs share rw", None),
            ("", None),
        ] {
            let remote = remote_of(line.as_bytes(), &roots);
            assert_eq!(remote.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_directory_is_polled_because_of_the_mount_that_it_is_on() {
        let roots = [Root {
            named: "/link".into(),
            real: "/data/registry".into(),
        }];
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/sda rw",
            "2 1 0:30 / /data rw - nfs4 server:/ rw",
            "3 2 0:31 / /data/registry/sub rw - tmpfs none rw",
        ];
        let table = table(&roots, &lines);
        let unreported = |dir: &str| table.unreported(Path::new(dir), &roots);
        assert_eq!(unreported("/link"), Some("nfs4"));
        assert_eq!(unreported("/link/other"), Some("nfs4"));
        assert_eq!(unreported("/link/sub/deeper"), None);
        assert_eq!(unreported("/elsewhere"), None);
    }

    #[test]
    fn a_root_that_is_a_link_inside_another_root_is_polled_because_of_its_own_mount() {
        let inner = Root {
            named: "/registry/link".into(),
            real: "/data/inner".into(),
        };
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/sda rw",
            "2 1 0:30 / /data rw - nfs4 server:/ rw",
        ];
        for roots in [
            [root("/registry"), inner.clone()],
            [inner.clone(), root("/registry")],
        ] {
            let table = table(&roots, &lines);
            let unreported = |dir: &str| table.unreported(Path::new(dir), &roots);
            assert_eq!(unreported("/registry/link/sub"), Some("nfs4"));
            assert_eq!(unreported("/registry/other"), None);
        }
    }

    #[test]
    fn a_root_differs_when_a_mount_above_at_or_below_it_does() {
        let roots = [root("/a/registry"), root("/b")];
        let base = "1 0 8:1 / / rw - ext4 /dev/sda rw";
        let before = table(&roots, &[base]);
        for (mount, expected) in [
            ("2 1 0:30 / /a rw - tmpfs none rw", &[0][..]),
            ("2 1 0:30 / /a/registry rw - tmpfs none rw", &[0]),
            ("2 1 0:30 / /a/registry/sub rw - tmpfs none rw", &[0]),
            ("2 1 0:30 / /b rw - tmpfs none rw", &[1]),
            ("2 1 0:30 / /a/registry2 rw - tmpfs none rw", &[]),
            ("2 1 0:30 / /pods/volume rw - tmpfs none rw", &[]),
        ] {
            let after = table(&roots, &[base, mount]);
            assert_eq!(after.differing(&before), expected, "{mount}");
            assert_eq!(before.differing(&after), expected, "{mount}");
        }
        let one = table(&roots, &["2 1 0:30 /x /b rw - tmpfs none rw"]);
        let same_id = table(&roots, &["2 1 0:31 /x /b rw - tmpfs none rw"]);
        assert_eq!(one.differing(&same_id), [1], "the id was given out again");
    }
}
