//! Opening files by path, without ever waiting for a file system that does not answer.
//!
//! A plugin may create a symbolic link to any path, and report any path as its endpoint. If the
//! kernel resolves such a path as a whole, it may reach a FUSE mount whose process hangs, or an NFS
//! server that is down, and then the system call does not return. So a path that contains symbolic
//! links is resolved here, name by name, and each path on the way is looked up in the mount table
//! before it is touched. The table may be older than a mount, so a mount point is checked before it
//! is entered. Links on /proc that do not lead to the path that they contain (magic links) are
//! refused: they lead to other mount namespaces, whose mounts are not known.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags};
use rustix::fs::{fstatfs, openat, openat2, readlinkat};
use rustix::io::Errno;

use super::mounts::Mounts;
use super::stat::Stat;

/// The reason why a file is not opened.
#[derive(Debug)]
pub(super) enum HoldError {
    /// The path leads to a file system of this type, which may not answer.
    MayNotAnswer(String),
    /// The path leads through a symbolic link on /proc.
    MagicLink,
    /// The path leads out of its directory.
    LeadsOut,
    /// The system call failed.
    System(io::Error),
}

impl From<Errno> for HoldError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MayNotAnswer(file_system) => write!(
                f,
                "the path leads to a file system that may not answer: file_system={file_system}"
            ),
            Self::MagicLink => f.write_str("the path leads through a symbolic link on /proc"),
            Self::LeadsOut => f.write_str("a symbolic link leads out of the directory"),
            Self::System(error) => error.fmt(f),
        }
    }
}

/// Opens the file at `path` with `O_PATH`, following symbolic links.
///
/// A path without symbolic links usually takes two system calls.
pub(super) fn hold(path: &Path, mounts: &Mounts) -> Result<File, HoldError> {
    hold_counting(path, mounts, &mut 0)
}

/// Opens a file as [`hold`] does, and adds the number of names that were opened one by one to
/// `steps`.
pub(super) fn hold_counting(
    path: &Path,
    mounts: &Mounts,
    steps: &mut usize,
) -> Result<File, HoldError> {
    if mounts.is_unread() {
        return Err(Errno::AGAIN.into());
    }
    check(path, mounts)?;
    if !path.components().any(|it| it == Component::ParentDir) {
        let flags = FLAGS.difference(OFlags::NOFOLLOW);
        // What is in the kernel's cache is resolved without waiting. The mount table in which the
        // path was looked up must still be current then. An error may be due to a symbolic link, to
        // a name that is not in the cache, or to a kernel before Linux 5.12.
        if let Ok(held) = openat2(CWD, path, flags, Mode::empty(), CACHED) {
            if mounts.is_current() {
                return Ok(File::from(held));
            }
        }
    }
    let mut walk = match mounts.trusted_part(path) {
        Some((trusted, rest)) => {
            let flags = FLAGS.difference(OFlags::NOFOLLOW);
            let held = openat(CWD, &trusted.named, flags, Mode::empty())?;
            Walk::start(held, trusted.real.clone(), rest)?
        }
        None => Walk::start(root()?, PathBuf::from("/"), path)?,
    };
    let finished = walk.finish(mounts);
    *steps += walk.steps;
    finished.map(|()| File::from(walk.held))
}

/// Opens the file at a path below a root with `O_PATH`. Symbolic links below the root are not
/// followed, not even at the end of the path: any directory on the way may just have been replaced
/// by one.
pub(super) fn hold_below_root(path: &Path, mounts: &Mounts) -> Result<File, HoldError> {
    if let Some(file_system) = mounts.remote_below_root(path) {
        return Err(HoldError::MayNotAnswer(file_system.to_owned()));
    }
    let (root, below) = mounts.root_of(path).ok_or(Errno::NOENT)?;
    let flags = FLAGS.difference(OFlags::NOFOLLOW);
    let mut held = openat(CWD, &root.named, flags, Mode::empty())?;
    if below.as_os_str().is_empty() {
        return Ok(File::from(held));
    }
    match openat2(&held, below, FLAGS, Mode::empty(), NO_LINKS | STAYING) {
        Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => {}
        found => return Ok(File::from(found?)),
    }
    let mut at = root.real.clone();
    for name in below {
        at.push(name);
        held = step(&held, name, &at, mounts)?;
    }
    Ok(File::from(held))
}

/// Opens the file with that name in a directory with `O_PATH`. A symbolic link is followed only
/// inside the directory.
pub(super) fn hold_beneath(dir: &Path, name: &OsStr) -> Result<File, HoldError> {
    let flags = FLAGS.difference(OFlags::NOFOLLOW);
    let held = openat(CWD, dir, flags, Mode::empty())?;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(&held, name, flags, Mode::empty(), beneath) {
        // A link is absolute or leads out of the directory, or the call is not available.
        Err(Errno::XDEV | Errno::NOSYS | Errno::PERM) => {}
        found => return Ok(File::from(found?)),
    }
    // A link that names a file in the directory by the directory's own path does not lead out.
    let mut name = name.to_owned();
    for _ in 0..=MAX_LINKS {
        let found = File::from(openat(&held, &name, FLAGS, Mode::empty())?);
        if Stat::of(&found)?.file_type != FileType::Symlink {
            return Ok(found);
        }
        name = target_in(dir, &found)?;
    }
    Err(Errno::LOOP.into())
}

/// Returns the name of the file to which a symbolic link in a directory leads, if that file is in
/// the directory itself.
fn target_in(dir: &Path, link: &File) -> Result<OsString, HoldError> {
    let target = readlinkat(link, c"", Vec::new())?;
    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
    match (target.parent(), target.file_name()) {
        (Some(parent), Some(name)) if parent == dir || parent.as_os_str().is_empty() => {
            Ok(name.to_owned())
        }
        _ => Err(HoldError::LeadsOut),
    }
}

/// Opens a name in an open directory. If the name is a mount point, checks what is mounted there.
///
/// Opening the root of a mount with `O_PATH` does not access its file system.
fn step(held: &OwnedFd, name: &OsStr, at: &Path, mounts: &Mounts) -> Result<OwnedFd, HoldError> {
    match openat2(held, name, FLAGS, Mode::empty(), STAYING) {
        // The name is a mount point.
        Err(Errno::XDEV) => {}
        // The kernel is older than Linux 5.6, or a system call filter denies the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        found => return Ok(found?),
    }
    let next = openat(held, name, FLAGS, Mode::empty())?;
    match mounts.check_entered(&next, at)? {
        Some(file_system) => Err(HoldError::MayNotAnswer(file_system)),
        None => Ok(next),
    }
}

fn root() -> Result<OwnedFd, Errno> {
    openat(CWD, "/", FLAGS, Mode::empty())
}

fn check(path: &Path, mounts: &Mounts) -> Result<(), HoldError> {
    match mounts.remote_on_the_way(path) {
        Some(file_system) => Err(HoldError::MayNotAnswer(file_system.to_owned())),
        None => Ok(()),
    }
}

/// A path that is being resolved.
struct Walk {
    /// The file up to which the path is resolved.
    held: OwnedFd,
    /// The path of that file, free of symbolic links.
    at: PathBuf,
    /// The names that are left, the next one last.
    rest: Vec<OsString>,
    links: usize,
    steps: usize,
}

impl Walk {
    fn start(held: OwnedFd, at: PathBuf, rest: &Path) -> Result<Self, Errno> {
        let mut walk = Self {
            held,
            at,
            rest: Vec::new(),
            links: 0,
            steps: 0,
        };
        walk.push(rest)?;
        Ok(walk)
    }

    /// Puts the names of a path before those that are left. Fails if that makes more names than are
    /// ever opened: a symbolic link may contain thousands.
    fn push(&mut self, path: &Path) -> Result<(), Errno> {
        let names = path.components().rev().filter_map(|it| match it {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        });
        self.rest.extend(names.take(MAX_STEPS + 1));
        if self.rest.len() > MAX_STEPS {
            return Err(Errno::LOOP);
        }
        Ok(())
    }

    fn finish(&mut self, mounts: &Mounts) -> Result<(), HoldError> {
        while let Some(name) = self.rest.pop() {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(Errno::LOOP.into());
            }
            if name == ".." {
                self.go_up()?;
            } else {
                self.enter(&name, mounts)?;
            }
        }
        Ok(())
    }

    /// Resolves `..` by starting at `/` again, with the parent path: the open directory may have
    /// been moved, and then its `..` leads to a path that was not looked up in the mount table.
    fn go_up(&mut self) -> Result<(), HoldError> {
        let mut above = std::mem::replace(&mut self.at, PathBuf::from("/"));
        above.pop();
        while self.rest.last().is_some_and(|next| next == "..") {
            self.rest.pop();
            above.pop();
        }
        self.held = root()?;
        self.push(&above)?;
        Ok(())
    }

    /// Opens a name in the open directory, and follows it if it is a symbolic link.
    fn enter(&mut self, name: &OsStr, mounts: &Mounts) -> Result<(), HoldError> {
        self.at.push(name);
        if let Some(file_system) = mounts.remote_at(&self.at) {
            return Err(HoldError::MayNotAnswer(file_system.to_owned()));
        }
        let next = File::from(step(&self.held, name, &self.at, mounts)?);
        if Stat::of(&next)?.file_type != FileType::Symlink {
            self.held = next.into();
            return Ok(());
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if fstatfs(next.as_fd())?.f_type == PROC_SUPER_MAGIC {
            return Err(HoldError::MagicLink);
        }
        let target = readlinkat(&next, c"", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        self.at.pop();
        self.push(&target)?;
        if target.is_absolute() {
            self.at = PathBuf::from("/");
            self.held = root()?;
        }
        Ok(())
    }
}

impl From<io::Error> for HoldError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// The flags with which each name is opened.
const FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The flags for resolving a path that must be free of symbolic links.
const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

/// The flags for resolving such a path without waiting for any file system.
const CACHED: ResolveFlags = NO_LINKS.union(ResolveFlags::CACHED);

/// The flags for resolving a path that must not lead onto another mount.
const STAYING: ResolveFlags = ResolveFlags::NO_XDEV;

/// The largest number of symbolic links that are followed: the same as in the kernel
/// (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// The largest number of names that are opened for one path: several times what any plugin needs,
/// and a fraction of a millisecond's work.
const MAX_STEPS: usize = 64;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use mio::Poll;

    use super::*;
    use crate::time::Time;

    fn mounts(trusted: &[&Path]) -> Mounts {
        let registry = Poll::new().unwrap().registry().try_clone().unwrap();
        Mounts::new(&[], trusted.iter().copied(), registry, Time::ZERO)
    }

    /// Returns a directory whose path is free of symbolic links.
    fn directory() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        (dir, real)
    }

    #[test]
    fn a_path_leads_to_the_same_file_as_the_kernel_finds() {
        let (_dir, dir) = directory();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        fs::create_dir(dir.join("c")).unwrap();
        fs::write(dir.join("a/b/file"), "").unwrap();
        fs::write(dir.join("a/file"), "").unwrap();
        symlink("a/b", dir.join("relative")).unwrap();
        symlink(dir.join("a/b"), dir.join("c/absolute")).unwrap();
        symlink("../../c/absolute/file", dir.join("a/b/back")).unwrap();
        symlink("c/absolute", dir.join("twice")).unwrap();
        let mounts = mounts(&[]);
        for path in [
            "a/b/file",
            "a/../a/b/../file",
            "relative/file",
            "relative/../file",
            "c/absolute/file",
            "c/absolute/../../a/file",
            "twice/back",
            "twice",
            "./twice/./file",
            "../../../../../../..",
        ] {
            let path = dir.join(path);
            let held = hold(&path, &mounts).unwrap().metadata().unwrap();
            let found = fs::metadata(&path).unwrap();
            assert_eq!(
                (held.dev(), held.ino()),
                (found.dev(), found.ino()),
                "{path:?}"
            );
        }
    }

    #[test]
    fn links_that_lead_nowhere_or_round_in_circles_are_errors_as_the_kernel_gives_them() {
        let (_dir, dir) = directory();
        let at = |name: &str| dir.join(name);
        symlink("nothing", at("to nothing")).unwrap();
        symlink("circle", at("circle")).unwrap();
        symlink("file/below", at("below a file")).unwrap();
        fs::write(at("file"), "").unwrap();
        let many = "x/../".repeat(MAX_STEPS / 2) + "file";
        fs::create_dir(at("x")).unwrap();
        symlink(many, at("involved")).unwrap();
        let mounts = mounts(&[]);
        for (name, expected) in [
            ("to nothing", Errno::NOENT),
            ("nothing", Errno::NOENT),
            ("circle", Errno::LOOP),
            ("below a file", Errno::NOTDIR),
            ("involved", Errno::LOOP),
        ] {
            let Err(HoldError::System(error)) = hold(&at(name), &mounts) else {
                panic!("{name}");
            };
            assert_eq!(
                error.raw_os_error(),
                Some(expected.raw_os_error()),
                "{name}"
            );
        }
    }

    #[test]
    fn a_magic_link_is_refused_except_on_the_way_that_the_user_named() {
        let (_dir, dir) = directory();
        fs::write(dir.join("file"), "").unwrap();
        let through = Path::new("/proc/self/root").join(dir.strip_prefix("/").unwrap());
        symlink(through.join("file"), dir.join("link")).unwrap();
        for path in [through.join("file"), dir.join("link")] {
            let refused = hold(&path, &mounts(&[]));
            assert!(matches!(refused, Err(HoldError::MagicLink)), "{refused:?}");
        }
        let trusting = mounts(&[&through]);
        assert!(hold(&through.join("file"), &trusting).is_ok());
        assert!(
            hold(&dir.join("link"), &trusting).is_err(),
            "it is the plugin's"
        );
    }
}
