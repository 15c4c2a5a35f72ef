//! A configuration file with any content is either accepted, and then `check-config` prints one
//! that means the same, or rejected with problems that name their lines.

use std::path::Path;

use plugind::cli::{CommandLine, check_config};

/// Reads the octets as a configuration file, and what is printed for it.
pub fn check(bytes: &[u8]) {
    let read = |content: &[u8]| {
        let file = (Path::new(FILE), content);
        CommandLine::default().combine(Some(file), &<_>::default())
    };
    let options = match read(bytes) {
        Ok(options) => options,
        Err(problems) => return check_problems(&problems, bytes),
    };
    let printed = check_config::format_options(&options);
    let again = read(printed.as_bytes()).unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(options.config, again.config, "{printed}");
    assert_eq!(options.verbosity, again.verbosity, "{printed}");
}

fn check_problems(problems: &[String], bytes: &[u8]) {
    assert!((1..=1 + PROBLEMS).contains(&problems.len()));
    let lines = bytes.split(|octet| *octet == b'\n').count();
    let (listed, rest) = problems.split_at(problems.len().min(PROBLEMS));
    let mut last = 0;
    for problem in listed {
        let number = problem
            .strip_prefix(FILE)
            .and_then(|it| it.strip_prefix(':'));
        let number = number.and_then(|it| it.split_once(": "));
        let number: usize = number.expect(problem).0.parse().expect(problem);
        assert!(last < number && number <= lines, "{problem}");
        last = number;
        assert!(problem.len() <= LONGEST, "{} octets", problem.len());
        assert!(!problem.contains(char::is_control), "{problem:?}");
    }
    for more in rest {
        let count = more.strip_prefix("further problems: ");
        let count: usize = count.expect(more).parse().expect(more);
        assert!((1..=lines - PROBLEMS).contains(&count), "{more}");
    }
}

const FILE: &str = "/etc/a.conf";

/// The number of problems that are listed.
const PROBLEMS: usize = 20;

/// The most octets of a problem: a value of up to 1,024 octets, of which each may be shown as four,
/// and what is said of it.
const LONGEST: usize = 4096 + 256;
