//! The files of the journal: in order, in part, damaged, foreign and full.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use nix::unistd::mkfifo;
use tempfile::TempDir;

use super::*;

const BOOT: &str = "0a1b";

fn entry(action: &str, name: &str) -> JournalEntry {
    let line = format!(
        r#"{{"number":0,"boot":"{BOOT}","action":"{action}","plugin":{{"socket":"/r/a.sock",
        "device":1,"inode":2,"born":[3,4],"type":"CSIPlugin","name":"{name}",
        "endpoint":"/p/a.sock","versions":["1.0.0"]}}}}"#
    );
    let (mut entries, damaged) = JournalEntry::decode(line.replace('\n', "").as_bytes(), BOOT, 0);
    assert_eq!((entries.len(), damaged), (1, 0));
    entries.remove(0)
}

/// Appends an entry. Returns it with its number.
fn append(journal: &mut Journal, name: &str) -> JournalEntry {
    let mut entry = entry("add", name);
    entry.number = journal.next;
    let pending = journal.add(&entry, BOOT).unwrap().expect("it has room");
    pending.append().unwrap();
    entry
}

/// Returns a scratch directory, and the path of a state file in it.
fn place() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    (dir, path)
}

/// Returns the names of the files in a directory.
fn files(dir: &TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap();
    let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Returns the journal of the next process, and the entries that it reads.
fn reopened(path: &Path, first: u64) -> (Journal, Vec<JournalEntry>) {
    let mut journal = Journal::new(path);
    let entries = journal.read(first, BOOT);
    (journal, entries)
}

#[test]
fn without_an_entry_nothing_is_created_and_no_version_is_due() {
    let (dir, path) = place();
    let (mut journal, entries) = reopened(&path, 0);
    let first = journal.begin();
    journal.contained(first);
    assert!(entries.is_empty() && !journal.is_dirty());
    assert!(files(&dir).is_empty());
}

#[test]
fn entries_are_read_in_order_by_the_next_process_until_a_version_contains_them() {
    let (dir, path) = place();
    let mut journal = Journal::new(&path);
    let before = [append(&mut journal, "a"), append(&mut journal, "b")];
    let first = journal.begin();
    let after = append(&mut journal, "c");
    assert_eq!(
        reopened(&path, 0).1,
        [&before[..], std::slice::from_ref(&after)].concat()
    );

    journal.contained(first);
    assert_eq!(files(&dir), ["state.journal-b"]);
    let (mut journal, entries) = reopened(&path, first);
    assert_eq!(entries, [after]);
    let last = append(&mut journal, "d");
    assert!(journal.is_dirty());
    let first = journal.begin();
    assert_eq!(reopened(&path, first - 1).1, [last]);
    journal.contained(first);
    assert!(files(&dir).is_empty() && !journal.is_dirty());
}

#[test]
fn the_entries_of_a_version_that_was_not_written_are_kept_for_the_next_one() {
    let (dir, path) = place();
    let mut journal = Journal::new(&path);
    let mut entries = Vec::new();
    for name in ["a", "b", "c"] {
        entries.push(append(&mut journal, name));
        journal.begin();
    }
    assert_eq!(files(&dir).len(), 2);
    let (mut journal, read) = reopened(&path, 0);
    assert_eq!(read, entries);
    entries.push(append(&mut journal, "d"));
    assert_eq!(reopened(&path, 0).1, entries);
    let first = journal.begin();
    journal.contained(first);
    append(&mut journal, "e");
    let first = journal.begin();
    journal.contained(first);
    assert!(files(&dir).is_empty());
}

#[test]
fn an_entry_that_is_appended_after_its_file_was_removed_is_ignored() {
    let (_dir, path) = place();
    let mut journal = Journal::new(&path);
    let late = journal.add(&entry("add", "late"), BOOT).unwrap().unwrap();
    let first = journal.begin();
    let next = append(&mut journal, "next");
    journal.contained(first);
    late.append().unwrap();
    assert_eq!(reopened(&path, first).1, [next]);
}

#[test]
fn a_torn_entry_is_ignored_and_appending_goes_on_behind_it() {
    let (_dir, path) = place();
    let mut journal = Journal::new(&path);
    let first = append(&mut journal, "first");
    let torn = journal.add(&entry("add", "torn"), BOOT).unwrap().unwrap();
    let mut file = OpenOptions::new()
        .append(true)
        .open(&journal.files[0])
        .unwrap();
    file.write_all(&torn.line[..torn.line.len() / 2]).unwrap();
    let (mut journal, read) = reopened(&path, 0);
    assert_eq!(read, std::slice::from_ref(&first));
    let next = append(&mut journal, "next");
    assert_eq!(reopened(&path, 0).1, [first, next]);
}

#[test]
fn a_file_that_cannot_be_trusted_or_read_is_replaced_and_the_other_one_is_read() {
    type Spoil = fn(&Path);
    let spoilers: [Spoil; 5] = [
        |path| fs::set_permissions(path, fs::Permissions::from_mode(0o622)).unwrap(),
        |path| {
            let other = path.with_extension("other");
            fs::rename(path, &other).unwrap();
            symlink(other, path).unwrap();
        },
        |path| {
            fs::remove_file(path).unwrap();
            mkfifo(path, Mode::S_IRWXU).unwrap();
        },
        |path| fs::write(path, "\n{}\nnot an entry\0").unwrap(),
        |path| fs::write(path, [0xff; 4096]).unwrap(),
    ];
    for spoil in spoilers {
        for index in [0, 1] {
            let (_dir, path) = place();
            let mut journal = Journal::new(&path);
            let a = append(&mut journal, "a");
            journal.begin();
            let b = append(&mut journal, "b");
            spoil(&journal.files[index]);
            let (mut journal, read) = reopened(&path, 0);
            let left = [&a, &b][1 - index].clone();
            assert_eq!(read, std::slice::from_ref(&left));
            let next = append(&mut journal, "next");
            assert_eq!(reopened(&path, 0).1, [left, next]);
        }
    }
}

#[test]
fn a_file_of_another_user_is_not_read() {
    if !nix::unistd::Uid::effective().is_root() {
        return crate::skip::skip("only root may give a file away");
    }
    let (_dir, path) = place();
    let mut journal = Journal::new(&path);
    append(&mut journal, "a");
    std::os::unix::fs::chown(&journal.files[0], Some(12345), None).unwrap();
    assert!(reopened(&path, 0).1.is_empty());
}

#[test]
fn a_file_that_is_too_large_is_read_up_to_the_limit() {
    let (_dir, path) = place();
    let mut journal = Journal::new(&path);
    let a = append(&mut journal, "a");
    let file = OpenOptions::new().append(true).open(&journal.files[0]);
    let mut file = file.unwrap();
    file.write_all(&vec![b'\n'; MAX_JOURNAL]).unwrap();
    append(&mut journal, "b");
    assert_eq!(reopened(&path, 0).1, [a]);
}

#[test]
fn a_directory_in_the_place_of_a_file_fails_what_is_required() {
    let (_dir, path) = place();
    let mut journal = Journal::new(&path);
    fs::create_dir(&journal.files[0]).unwrap();
    let pending = journal.add(&entry("add", "a"), BOOT).unwrap().unwrap();
    let error = pending.append().unwrap_err();
    assert_eq!(error, Errno::EISDIR);
    assert!(pending.is_required);
    assert!(reopened(&path, 0).1.is_empty());
}

#[test]
fn a_full_journal_refuses_an_add_and_lets_other_programs_start_without_an_entry() {
    let mut journal = Journal::new(Path::new("/no/such/state"));
    let long = "n".repeat(MAX_SHARE);
    while journal.add(&entry("add", &long), BOOT).is_ok() {}
    let half = MAX_JOURNAL / 2;
    assert!(journal.len <= half && journal.len + 2 * MAX_SHARE > half);
    assert!(journal.add(&entry("del", &long), BOOT).unwrap().is_none());
    for n in 0.. {
        if journal.add(&entry("add", &n.to_string()), BOOT).is_err() {
            assert!(n > 20_000, "{n} usual entries");
            break;
        }
    }
    assert!(journal.is_half_full() && journal.len <= MAX_JOURNAL);
    for action in ["re-add", "del"] {
        assert!(journal.add(&entry(action, "a"), BOOT).unwrap().is_none());
    }
    journal.begin();
    assert!(journal.add(&entry("add", &long), BOOT).unwrap().is_some());
}

#[test]
fn numbers_at_the_end_of_their_range_are_no_trouble() {
    let (_dir, path) = place();
    let line = entry("add", "a").encode(u64::MAX, BOOT);
    fs::write(path.with_extension("journal-a"), line).unwrap();
    let (mut journal, entries) = reopened(&path, u64::MAX);
    assert_eq!(entries.len(), 1);
    append(&mut journal, "b");
}
