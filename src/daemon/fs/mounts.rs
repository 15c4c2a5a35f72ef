//! The mounts that this process sees, as the kernel lists them (proc_pid_mountinfo(5)).
//!
//! The kernel reports a change as a priority event (`POLLPRI`) on `/proc/self/mountinfo`, once on
//! each open file. The file is opened twice:
//!
//! - One open file wakes the loop. It is closed when it reports a change, and opened again when the
//!   roots are scanned, at most once per [`config::UPDATE_INTERVAL`]: a node that mounts all the
//!   time causes one report and one scan per interval, and a node that does not mount causes none.
//! - The open file that the table was read from is polled at the start of each turn, and whenever
//!   the table is used outside of a turn, so that the table is never older than the turn. The first
//!   file cannot be polled instead, because waiting for events of the loop consumes its report, and
//!   so does a caller that polls the descriptor of the loop.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use mio::unix::SourceFd;
use mio::{Interest, Registry};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::Mode;

use crate::config::{self, PathMap};
use crate::daemon::source::Source;
use crate::octets;
use crate::time::Time;

/// The mount table, and the directories that the user named, whose paths are followed wherever they
/// lead. The value of [`Mounts::default`] never reads the table.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    /// The directories that the user named: the roots, and the targets of the path map.
    named: Vec<PathBuf>,
    /// `None` until the table is read, and if `/proc` is not mounted.
    table: RefCell<Option<Table>>,
    /// Whether the file of the table was polled in this turn.
    is_polled: bool,
    /// The open directory of [`Mounts::open_start`], with its path. It is closed at the end of a
    /// turn, because an open directory keeps its mount busy, and before a directory that the user
    /// named is opened itself, because another one may have taken its place.
    pub(super) start: RefCell<Option<(PathBuf, File)>>,
    /// The registry of the loop; `None` if the table is never read.
    registry: Option<Registry>,
    /// The file that wakes the loop; `None` after a change, and if `/proc` is not mounted.
    waking: Option<File>,
    /// Whether the roots are to be scanned again at `scan_at`.
    is_changed: Cell<bool>,
    scan_at: Time,
}

/// The mounts, without those on whose root another mount lies.
#[derive(Debug)]
pub(crate) struct Table {
    mounts: Vec<Mount>,
    /// Whether a system call on one of the mounts may hang.
    pub(crate) any_may_hang: bool,
    /// The id of the mount of the root directory, which counts as answering if it is not listed: in
    /// a chroot that is not a mount point, the kernel does not list it.
    root: u32,
    /// The file that the table was read from.
    file: File,
}

/// A mount, as one line of mountinfo describes it. The kernel reuses ids of removed mounts.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: u32,
    /// The id of the mount in which the mount point lies.
    parent: u32,
    /// The mount point.
    path: PathBuf,
    /// The type of the file system.
    file_system: String,
    /// Whether the mount counts as one on which a system call may block forever.
    may_hang: bool,
}

impl Mounts {
    /// Reads the table for these roots and this path map.
    pub(crate) fn new(
        roots: &[PathBuf],
        path_map: &PathMap,
        registry: Registry,
        now: Time,
    ) -> Self {
        let mut mounts = Self {
            registry: Some(registry),
            is_changed: Cell::new(true),
            scan_at: now,
            ..Self::default()
        };
        mounts.set_named_dirs(roots, path_map);
        mounts.handle_timeout(now);
        mounts
    }

    /// Replaces the directories that the user named: the roots, and the targets of the path map.
    pub(crate) fn set_named_dirs(&mut self, roots: &[PathBuf], path_map: &PathMap) {
        let mapped = path_map.targets().map(Path::to_owned);
        self.named = roots.iter().cloned().chain(mapped).collect();
        self.table.take();
    }

    /// Records that the kernel has reported a change.
    pub(crate) fn record_change(&mut self) {
        self.is_changed.set(true);
        self.waking = None;
    }

    /// Returns when to call [`Mounts::handle_timeout`], or `None` until a change is reported.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.is_changed.get().then_some(self.scan_at)
    }

    /// Reads the table if a change was reported and a scan is due. Returns whether the roots are to
    /// be scanned again, because a mount above, at or below them may have been added or removed.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        // The kernel reports a change only once, so the report is recorded.
        let table = self.table.get_mut();
        if matches!(table, Some(table) if table.is_outdated()) {
            *table = None;
            self.record_change();
        }
        self.is_polled = true;
        let is_due = self.is_changed.get() && self.scan_at <= now;
        if is_due {
            self.scan_at = now + config::UPDATE_INTERVAL;
            // The wakeup is requested before the table is read, so that no change is missed.
            let read = self
                .request_wakeup()
                .and_then(|()| self.load_table().map(drop));
            self.is_changed.set(read.is_err());
            if let Err(error) = read {
                log::debug!("cannot read {MOUNTINFO}: {error}");
            }
        }
        is_due
    }

    /// Asks the kernel to wake the loop at the next change, if `/proc` is mounted.
    fn request_wakeup(&mut self) -> io::Result<()> {
        let (None, Some(registry)) = (&self.waking, &self.registry) else {
            return Ok(());
        };
        if let Some(file) = open_mountinfo()? {
            let (fd, token) = (file.as_raw_fd(), Source::Mounts.token());
            registry.register(&mut SourceFd(&fd), token, Interest::PRIORITY)?;
            self.waking = Some(file);
        }
        Ok(())
    }

    /// Returns whether the mounts are known: not if `/proc` is not mounted, for example.
    pub(crate) fn is_known(&self) -> bool {
        self.load_table().is_ok_and(|table| table.is_some())
    }

    /// Returns the current table, or `None` if `/proc` is not mounted or the table is never read.
    pub(crate) fn load_table(&self) -> io::Result<RefMut<'_, Option<Table>>> {
        let mut table = self.table.borrow_mut();
        let is_current = match &*table {
            Some(table) => self.is_polled || !table.is_outdated(),
            None => self.registry.is_none(),
        };
        if !is_current {
            let named: Vec<PathBuf> = self.named_dirs().map(resolve_links).collect();
            *table = None;
            if let Some(file) = open_mountinfo()? {
                *table = Some(Table::read(file, &named)?);
                self.is_changed.set(true);
            }
        }
        Ok(table)
    }

    /// Opens the directory at which a path resolution starts. The directory stays open, so that
    /// many paths below it can be opened in one turn.
    pub(crate) fn open_start(&self, dir: &Path) -> Result<Ref<'_, File>, Errno> {
        let octets = dir.as_os_str().as_bytes();
        let is_open = match &*self.start.borrow() {
            Some((open, _)) => octets::are_equal(open.as_os_str().as_bytes(), octets),
            None => false,
        };
        if !is_open {
            let opened = open_named(dir)?;
            *self.start.borrow_mut() = Some((dir.to_owned(), opened));
        }
        Ok(Ref::map(self.start.borrow(), |start| {
            &start.as_ref().expect("it is open").1
        }))
    }

    /// Ends a turn: until the next one, each use of the table polls its file.
    pub(crate) fn end_turn(&mut self) {
        self.is_polled = false;
        self.start.take();
    }

    /// Returns the type of the file system of a directory that the user named, or of one below it,
    /// if inotify does not report all changes on that file system. An unknown file system is
    /// assumed to report them.
    pub(crate) fn unreporting_file_system(&self, dir: &Path) -> Option<String> {
        let (root, below) = self.split_after_named_dir(dir)?;
        let dir = resolve_links(root).join(below);
        let table = self.load_table().ok()?;
        let mounts = table.as_ref()?.mounts.iter();
        let around = mounts.filter(|mount| dir.starts_with(&mount.path));
        let innermost = around.max_by_key(|mount| mount.path.as_os_str().len())?;
        let file_system = &*innermost.file_system;
        let is_silent = is_remote(file_system) || matches!(file_system, "proc" | "sysfs");
        is_silent.then(|| file_system.to_owned())
    }

    /// Returns the longest directory that the user named and that `path` begins with, and the rest
    /// of `path`.
    pub(crate) fn split_after_named_dir<'a>(&self, path: &'a Path) -> Option<(&Path, &'a Path)> {
        let above = self.named_dirs();
        let above = above.filter_map(|dir| Some((dir, strip_dir(path, dir)?)));
        above.max_by_key(|(dir, _)| dir.as_os_str().len())
    }

    /// Returns the directory and the name of an entry of a directory that the user named, or `None`
    /// if `path` leads elsewhere.
    pub(crate) fn split_entry<'a>(&self, path: &'a Path) -> Option<(&Path, &'a Path)> {
        let (dir, name) = self.split_after_named_dir(path)?;
        let is_entry = !name.as_os_str().as_bytes().contains(&b'/');
        is_entry.then_some((dir, name))
    }

    /// Returns the directories that the user named.
    pub(crate) fn named_dirs(&self) -> impl Iterator<Item = &Path> + Clone {
        self.named.iter().map(PathBuf::as_path)
    }
}

/// Returns the rest of a path that begins with `dir`, as [`Path::strip_prefix`] does. Octets are
/// compared first, which is faster; components are compared only if that does not decide.
fn strip_dir<'a>(path: &'a Path, dir: &Path) -> Option<&'a Path> {
    let above = dir.as_os_str().as_bytes();
    match path.as_os_str().as_bytes().split_at_checked(above.len()) {
        Some((begin, [b'/', name @ ..]))
            if !matches!(name, [] | [b'/' | b'.', ..]) && octets::are_equal(begin, above) =>
        {
            Some(Path::new(OsStr::from_bytes(name)))
        }
        _ => path.strip_prefix(dir).ok(),
    }
}

/// Opens a file that the user named, with `O_PATH`, wherever its path leads.
///
/// With musl, `OpenOptions` would drop `O_PATH`, because musl has it among the bits of the access
/// mode.
pub(crate) fn open_named(path: &Path) -> Result<File, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    openat(AT_FDCWD, path, flags, Mode::empty()).map(File::from)
}

/// Returns a path with its symbolic links resolved, or unchanged if that fails.
fn resolve_links(dir: &Path) -> PathBuf {
    fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned())
}

impl Table {
    /// Reads the table from a file that was just opened. A mount at or above one of the `named`
    /// directories counts as answering.
    fn read(mut file: File, named: &[PathBuf]) -> io::Result<Self> {
        let mut lines = Vec::new();
        file.read_to_end(&mut lines)?;
        let mut mounts = Vec::<Mount>::new();
        for mut mount in String::from_utf8_lossy(&lines)
            .lines()
            .filter_map(parse_mount)
        {
            mount.may_hang &= !named.iter().any(|dir| dir.starts_with(&mount.path));
            // A mount on the root of another mount, such as an automount, covers all of that mount.
            let above = mounts.iter_mut().find(|it| it.id == mount.parent);
            match above.filter(|it| it.path == mount.path) {
                Some(covered) => *covered = mount,
                None => mounts.push(mount),
            }
        }
        Ok(Self {
            any_may_hang: mounts.iter().any(|mount| mount.may_hang),
            mounts,
            root: mount_id(&open_named(Path::new("/"))?)?,
            file,
        })
    }

    /// Returns whether the kernel reports a change since the table was read. A failed poll counts
    /// as a change.
    fn is_outdated(&self) -> bool {
        let mut polled = [PollFd::new(self.file.as_fd(), PollFlags::POLLPRI)];
        poll(&mut polled, PollTimeout::ZERO) != Ok(0)
    }

    /// Returns the type of a file system that may not answer and is mounted at `path` or above it.
    pub(crate) fn hanging_file_system_above(&self, path: &Path) -> Option<&str> {
        let mut mounts = self.mounts.iter();
        let above = mounts.find(|mount| mount.may_hang && path.starts_with(&mount.path));
        above.map(|mount| &*mount.file_system)
    }

    /// Returns the type of the file system that an open file is on if the file system may not
    /// answer, without accessing it. Fails with `EAGAIN` if the table does not have the mount,
    /// which was added or removed a moment ago.
    pub(crate) fn hanging_file_system_at(&self, file: &File) -> io::Result<Option<&str>> {
        let id = mount_id(file)?;
        match self.mounts.iter().find(|mount| mount.id == id) {
            Some(mount) => Ok(mount.may_hang.then_some(&mount.file_system)),
            None if id == self.root => Ok(None),
            None => Err(Errno::EAGAIN.into()),
        }
    }
}

/// Returns the id of the mount that an open file is on, without accessing its file system.
fn mount_id(file: &File) -> io::Result<u32> {
    // proc_pid_fdinfo(5): "the ID of the mount containing this file" (Linux 3.15).
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let id = id.and_then(|id| id.trim().parse().ok());
    id.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Opens the kernel's list of mounts, or returns `None` if `/proc` is not mounted.
fn open_mountinfo() -> io::Result<Option<File>> {
    match File::open(MOUNTINFO) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Parses a line such as `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`.
fn parse_mount(line: &str) -> Option<Mount> {
    let (fields, after) = line.split_once(" - ")?;
    let mut fields = fields.split(' ');
    let mut next = || fields.next();
    let [id, parent, _, _, path] = [next()?, next()?, next()?, next()?, next()?];
    let path = path.replace(r"\040", " ").replace(r"\011", "\t");
    let path = path.replace(r"\012", "\n").replace(r"\134", r"\");
    // Mounts below /proc and /sys count as answering: most nodes have an automount below /proc.
    let is_pseudo = path.starts_with("/proc/") || path.starts_with("/sys/");
    let file_system = after.split(' ').next()?.to_owned();
    Some(Mount {
        id: id.parse().ok()?,
        parent: parent.parse().ok()?,
        may_hang: is_remote(&file_system) && !is_pseudo,
        path: path.into(),
        file_system,
    })
}

/// Returns whether a system call on a file system may wait forever for another process or host. On
/// such a file system, inotify(7) "does not catch remote events". `fusectl` is not one of them: the
/// kernel serves it.
fn is_remote(file_system: &str) -> bool {
    let is_fuse = matches!(file_system, "fuse" | "fuseblk") || file_system.starts_with("fuse.");
    is_fuse || REMOTE.contains(&file_system)
}

/// The file systems, besides FUSE, on which a system call may wait for another process or host.
const REMOTE: [&str; 20] = [
    "9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
];

/// The kernel's list of the mounts that are visible to this process.
const MOUNTINFO: &str = "/proc/self/mountinfo";

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use mio::Poll;

    use super::*;

    fn mounts(root: &Path) -> Mounts {
        let registry = Poll::new().unwrap().registry().try_clone().unwrap();
        Mounts::new(
            &[root.to_owned()],
            &PathMap::default(),
            registry,
            Time::ZERO,
        )
    }

    /// Returns a table of these lines, for these directories that the user named.
    fn table(named: &[&str], lines: &[&str]) -> Table {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(lines.join("\n").as_bytes()).unwrap();
        file.rewind().unwrap();
        let named: Vec<PathBuf> = named.iter().map(PathBuf::from).collect();
        Table::read(file, &named).unwrap()
    }

    #[test]
    fn a_directory_is_stripped_as_by_strip_prefix() {
        for dir in ["/", "/r", "/r/", "/r/a", "/r//a", "r"] {
            for path in [
                "/",
                "/r",
                "/r/",
                "/ra",
                "/r/a",
                "/r//a/./b",
                "/r/a/../b",
                "r/a",
                "",
            ] {
                let [dir, path] = [dir, path].map(Path::new);
                assert_eq!(
                    strip_dir(path, dir),
                    path.strip_prefix(dir).ok(),
                    "{path:?} {dir:?}"
                );
            }
        }
    }

    #[test]
    fn a_mount_is_parsed_with_any_number_of_optional_fields() {
        for optional in ["", " master:1", " shared:1 master:2"] {
            let line = format!(r"36 35 98:1 /a /b\040c\134d rw{optional} - nfs4 server:/ rw");
            let mount = parse_mount(&line).unwrap();
            assert_eq!((mount.id, mount.parent), (36, 35));
            assert_eq!(mount.path, Path::new(r"/b c\d"));
            assert!(mount.file_system == "nfs4" && mount.may_hang);
        }
        for nonsense in [
            "36 35 98:1 /a /b rw",
            "",
            "- - - - - - - -",
            "36 35 98:1 /a /b rw -",
        ] {
            assert_eq!(parse_mount(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn remote_file_systems_are_distinguished_from_local_ones() {
        for remote in [
            "nfs4",
            "fuse",
            "fuse.sshfs",
            "fuseblk",
            "virtiofs",
            "autofs",
            "cifs",
        ] {
            assert!(is_remote(remote), "{remote}");
        }
        for local in [
            "ext4", "tmpfs", "overlay", "btrfs", "ramfs", "proc", "fusectl",
        ] {
            assert!(!is_remote(local), "{local}");
        }
    }

    #[test]
    fn a_remote_mount_at_a_path_or_above_it_is_found() {
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/sda rw",
            "2 1 0:30 / /mnt/nfs rw - nfs4 server:/ rw",
            "3 2 8:2 / /mnt/nfs/local rw - xfs /dev/sdb rw",
            "4 1 0:31 / /mnt/fuse rw - fuse.sshfs host: rw",
        ];
        let table = table(&["/registry"], &lines);
        for (path, expected) in [
            ("/mnt/nfs", Some("nfs4")),
            ("/mnt/nfs/local/a.sock", Some("nfs4")),
            ("/mnt/fuse/a", Some("fuse.sshfs")),
            ("/mnt/nfs2/a", None),
            ("/mnt", None),
            ("/", None),
        ] {
            assert_eq!(
                table.hanging_file_system_above(Path::new(path)),
                expected,
                "{path}"
            );
        }
        assert!(table.any_may_hang);
    }

    #[test]
    fn an_automount_counts_until_something_covers_it() {
        let automount = "2 1 0:30 / /data rw - autofs systemd-1 rw";
        let covering = "3 2 8:2 / /data rw - xfs /dev/sdb rw";
        let binfmt = "4 1 0:31 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw";
        let uncovered = table(&[], &[automount]);
        let above = uncovered.hanging_file_system_above(Path::new("/data/a.sock"));
        assert_eq!(above, Some("autofs"));
        assert!(!table(&[], &[automount, covering, binfmt]).any_may_hang);
    }

    #[test]
    fn a_remote_mount_with_a_root_on_it_counts_as_answering() {
        let lines = [
            "2 1 0:30 / /data rw - virtiofs share rw",
            "3 2 0:31 / /data/registry/sub rw - fuse none rw",
        ];
        let table = table(&["/data/registry"], &lines);
        let hanging = |path: &str| table.hanging_file_system_above(Path::new(path));
        assert_eq!(hanging("/data/registry/a.sock"), None);
        assert_eq!(hanging("/data/registry/sub/a.sock"), Some("fuse"));
    }

    #[test]
    fn an_open_file_is_checked_by_its_mount() {
        let [root, proc] = ["/", "/proc"].map(|path| File::open(path).unwrap());
        let mounts = mounts(Path::new("/"));
        let mut table = mounts.load_table().unwrap();
        let table = table.as_mut().unwrap();
        assert_eq!(table.hanging_file_system_at(&root).unwrap(), None);
        for mount in &mut table.mounts {
            mount.may_hang = mount.path == Path::new("/proc");
        }
        assert_eq!(table.hanging_file_system_at(&root).unwrap(), None);
        assert_eq!(table.hanging_file_system_at(&proc).unwrap(), Some("proc"));
        table.mounts.clear();
        assert!(table.hanging_file_system_at(&proc).is_err());
        assert_eq!(
            table.hanging_file_system_at(&root).unwrap(),
            None,
            "as in a chroot"
        );
    }

    #[test]
    fn proc_is_known_not_to_report_all_changes() {
        let mounts = mounts(Path::new("/proc/sys"));
        let unreporting = |dir: &str| mounts.unreporting_file_system(Path::new(dir));
        assert_eq!(unreporting("/proc/sys/kernel"), Some("proc".into()));
        assert_eq!(unreporting("/"), None, "it is not below a root");
    }

    #[test]
    fn the_roots_are_scanned_after_a_change_once_per_interval() {
        let dir = tempfile::tempdir().unwrap();
        let mut mounts = mounts(dir.path());
        assert_eq!(mounts.poll_timeout(), None);
        let due = Time::ZERO + config::UPDATE_INTERVAL;
        mounts.record_change();
        mounts.record_change();
        assert_eq!(mounts.poll_timeout(), Some(due));
        assert!(!mounts.handle_timeout(Time::ZERO) && mounts.waking.is_none());
        let later = due + config::UPDATE_INTERVAL * 2;
        assert!(mounts.handle_timeout(later) && mounts.waking.is_some());
        assert_eq!(mounts.poll_timeout(), None);
        mounts.record_change();
        assert_eq!(mounts.poll_timeout(), Some(later + config::UPDATE_INTERVAL));
    }

    #[test]
    fn a_path_is_split_after_the_longest_named_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut mounts = mounts(dir.path());
        let mut path_map = PathMap::default();
        path_map.add("/mapped", "/");
        mounts.set_named_dirs(&[dir.path().to_owned()], &path_map);
        let path = dir.path().join("a/b");
        let named = mounts.split_after_named_dir(&path);
        assert_eq!(named, Some((dir.path(), Path::new("a/b"))));
        let elsewhere = mounts.split_after_named_dir(Path::new("/elsewhere"));
        assert_eq!(elsewhere, Some((Path::new("/"), Path::new("elsewhere"))));
    }
}
