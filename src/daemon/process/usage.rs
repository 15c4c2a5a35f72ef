//! The resources that this process uses, and facts about the processes of plugins: read from
//! `/proc` on request.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};

use crate::api::{PeerFacts, ProcessFacts};

/// Returns the resources of this process, or `None` if `/proc` does not show them.
pub(crate) fn read_own() -> Option<ProcessFacts> {
    let stat = read_text("/proc/self/stat")?;
    let status = read_text("/proc/self/status")?;
    let (cpu, start) = parse_times(&stat)?;
    let open_fds = match fs::metadata(DESCRIPTORS).ok()?.len() {
        // Before Linux 6.2, the size is 0. One of the entries is the directory's own descriptor.
        0 => (fs::read_dir(DESCRIPTORS).ok()?.count() as u64).saturating_sub(1),
        count => count,
    };
    // The unit in the file is KiB, although it is written `kB`.
    let find_octets = |name| Some(find_number(&status, name)? * 1024);
    Some(ProcessFacts {
        cpu,
        open_fds,
        max_fds: getrlimit(Resource::RLIMIT_NOFILE).ok()?.0,
        resident: find_octets("VmRSS:")?,
        virtual_size: find_octets("VmSize:")?,
        start: boot_time()? + start,
    })
}

/// Returns what `/proc` shows of another process, or `None` if it shows nothing.
pub(crate) fn read_peer(pid: u32) -> Option<PeerFacts> {
    let status = read_text(&format!("/proc/{pid}/status"))?;
    let cgroup = read_text(&format!("/proc/{pid}/cgroup")).unwrap_or_default();
    // cgroups(7): "hierarchy-ID:controller-list:cgroup-path". Version 2, if mounted, is the last.
    let line = cgroup.lines().last();
    let path = line.and_then(|line| line.splitn(3, ':').nth(2));
    // proc_pid_status(5): the ids "in each of the PID namespaces of which [it] is a member".
    let ids = find_line(&status, "NSpid:").map_or(1, |ids| ids.split_whitespace().count());
    Some(PeerFacts {
        command: find_line(&status, "Name:").map(|name| name.trim().to_owned()),
        cgroup: path.map(str::to_owned),
        other_pid_namespace: ids > 1,
    })
}

/// Parses the CPU time of a process, and the time of its start since the boot, in its `stat` file
/// (proc_pid_stat(5)).
fn parse_times(stat: &str) -> Option<(Duration, Duration)> {
    // The second field is the name of the program, which may contain any characters.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields = fields.split_ascii_whitespace();
    // The unit is 1/USER_HZ, which is the same on all processors that this program supports.
    let tick = Duration::from_millis(10);
    let mut fields = fields.map(|field| field.parse().map(|ticks| tick.saturating_mul(ticks)).ok());
    let user = fields.nth(11)??;
    let system = fields.next()??;
    let start = fields.nth(6)??;
    Some((user + system, start))
}

/// Returns the time of the boot, since the Unix epoch.
fn boot_time() -> Option<Duration> {
    static BOOT: OnceLock<Option<u64>> = OnceLock::new();
    // Read once: the file is long, with a line for each processor and a number for each interrupt.
    let boot = BOOT.get_or_init(|| find_number(&read_text("/proc/stat")?, "btime"));
    boot.map(Duration::from_secs)
}

/// Returns the number that follows a word at the beginning of a line.
fn find_number(text: &str, name: &str) -> Option<u64> {
    let mut words = find_line(text, name)?.split_ascii_whitespace();
    words.next()?.parse().ok()
}

/// Returns the rest of the line that begins with a word.
fn find_line<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

/// Returns the content of a file, with octets that are not UTF-8 replaced: the name of a program
/// may contain any.
fn read_text(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

const DESCRIPTORS: &str = "/proc/self/fd";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn times_are_found_behind_a_name_that_holds_anything() {
        let stat = "7 (a) b (c 1 2) S 1 2 3 4 5 6 7 8 9 10 250 50 1 2 20 0 1 0 12345 999 8 0\n";
        let (cpu, start) = (Duration::from_secs(3), Duration::from_millis(123_450));
        assert_eq!(parse_times(stat), Some((cpu, start)));
        for torn in [
            "7 (a",
            "7 (a)",
            "7 (a) S 1 2",
            "7 (a) S 1 2 3 4 5 6 7 8 9 10 x 50",
        ] {
            assert_eq!(parse_times(torn), None);
        }
    }

    #[test]
    fn a_field_is_found_at_the_beginning_of_its_line() {
        let status = "Name:\tVmRSS: 1\nVmSize:\t   22 kB\nVmRSS:\t    7 kB\n";
        assert_eq!(find_number(status, "VmRSS:"), Some(7));
        assert_eq!(find_number(status, "VmSize:"), Some(22));
        assert_eq!(find_number(status, "btime"), None);
        assert_eq!(find_number("btime x", "btime"), None);
    }

    #[test]
    fn this_process_is_shown_as_it_is() {
        let Some(before) = read_own() else {
            return crate::skip::skip("/proc is not mounted");
        };
        let file = fs::File::open("/dev/null").expect("it exists");
        let after = read_own().expect("it was there a moment ago");
        assert!(before.resident > 0 && before.virtual_size >= before.resident);
        assert!(after.open_fds > 3 && after.open_fds <= after.max_fds);
        assert!(after.cpu >= before.cpu && after.start == before.start);
        assert!(Some(after.start) >= boot_time());
        let written = tempfile::NamedTempFile::new().and_then(|it| it.as_file().metadata());
        let now = written.expect("it exists").mtime();
        let now = Duration::from_secs(now.try_into().expect("it is later"));
        let second = Duration::from_secs(1);
        assert!(after.start <= now + second && after.start + 86_400 * second > now);
        drop(file);
    }
}
