//! What observers of the API cost: plugins that register at that time, the daemon, and the client.

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;

use super::field::Field;
use super::order::Life;
use super::process::Process;
use super::report::{Table, millis};
use super::spread::{Spread, ratio};
use super::subject::{Subject, plugind};

/// Measures how long plugins wait that appear one at a time, with and without observers in turn.
pub(crate) fn beside() -> Result<Table, Box<dyn Error>> {
    let mut rows = Vec::new();
    let mut fields = Vec::new();
    for count in [0, WATCHERS] {
        let (field, process) = Field::with_subject(Subject::Plugind)?;
        let observers = (count > 0).then(|| Observers::start(&field.api(), count));
        fields.push((observers.transpose()?, field, process, Vec::new()));
    }
    for _ in 0..ROUNDS {
        for (_, field, _, waits) in &mut fields {
            let lives = field.farm.one_by_one(vec![PAUSE; BATCH])?;
            waits.extend(lives.iter().map(Life::wait));
        }
    }
    let mut medians = fields
        .into_iter()
        .map(|(.., waits)| Spread::new(waits).median());
    let (alone, beside) = (medians.next(), medians.next());
    let (alone, beside) = alone.zip(beside).ok_or("nothing was measured")?;
    for (what, median) in [("no client", alone), ("a scraper and 4 watchers", beside)] {
        rows.push(vec![
            json!(what),
            millis(median),
            json!(ratio(median, alone)),
        ]);
    }
    Ok(Table {
        title: "One plugin at a time, while the daemon is observed".to_owned(),
        columns: "by, p50 ms, to without",
        rows,
    })
}

/// Measures the CPU time that answers take: of the daemon, and of the client of `list`.
pub(crate) fn answers() -> Result<Table, Box<dyn Error>> {
    let (mut field, process) = Field::with_subject(Subject::Plugind)?;
    field.farm.at_once(LISTED)?;
    process.until_quiet()?;
    let client = || {
        let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let mut list = Command::new(plugind());
        list.arg("list").arg("--socket").arg(field.api());
        list.stdout(Stdio::null()).status()?;
        let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let used = [
            after.user_time() - before.user_time(),
            after.system_time() - before.system_time(),
        ];
        let micros: i64 = used
            .iter()
            .map(|time| time.tv_sec() * 1_000_000 + time.tv_usec())
            .sum();
        Ok(Duration::from_micros(micros.unsigned_abs()))
    };
    let mut rows = vec![vec![
        json!("plugind list"),
        json!(LISTED),
        json!("the client"),
        millis(median(client)?),
    ]];
    field.farm.at_once(MOST - LISTED)?;
    process.until_quiet()?;
    for path in ["/metrics", "/v1/plugins"] {
        let daemon = || {
            let before = process.cpu()?;
            get(&field.api(), path)?;
            process.until_quiet()?;
            Ok(process.cpu()?.saturating_sub(before))
        };
        rows.push(vec![
            json!(path),
            json!(MOST),
            json!("the daemon"),
            millis(median(daemon)?),
        ]);
    }
    Ok(Table {
        title: "The CPU time of an answer".to_owned(),
        columns: "request, plugins, CPU time of, p50 ms",
        rows,
    })
}

/// Returns the median of several measurements.
fn median(
    measure: impl Fn() -> Result<Duration, Box<dyn Error>>,
) -> Result<Duration, Box<dyn Error>> {
    let all = (0..ROUNDS).map(|_| measure()).collect::<Result<_, _>>()?;
    Ok(Spread::new(all).median())
}

/// Sends a request, and reads the whole answer.
fn get(api: &Path, path: &str) -> Result<(), Box<dyn Error>> {
    let mut stream = UnixStream::connect(api)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if !answer.starts_with(b"HTTP/1.1 200 ") {
        return Err(format!("{path}: {}", String::from_utf8_lossy(&answer)).into());
    }
    Ok(())
}

/// A scraper of the metrics and watchers of all plugins, which end when this is dropped.
struct Observers {
    _watchers: Vec<Process>,
    _scraper: Sender<()>,
}

impl Observers {
    fn start(api: &Path, watchers: usize) -> Result<Self, Box<dyn Error>> {
        let watch = |_| {
            let mut watch = Command::new(plugind());
            watch.arg("watch").arg("--socket").arg(api);
            Ok(Process::new(watch.stdout(Stdio::null()).spawn()?))
        };
        let watchers = (0..watchers)
            .map(watch)
            .collect::<Result<_, Box<dyn Error>>>()?;
        let (stop, stopped) = channel();
        let api: PathBuf = api.into();
        thread::spawn(move || {
            while stopped.recv_timeout(SCRAPED_EVERY) == Err(RecvTimeoutError::Timeout) {
                get(&api, "/metrics").expect("the daemon answers");
            }
        });
        Ok(Self {
            _watchers: watchers,
            _scraper: stop,
        })
    }
}

/// The number of watchers.
const WATCHERS: usize = 4;

/// The interval between scrapes: much shorter than Prometheus has.
const SCRAPED_EVERY: Duration = Duration::from_millis(100);

/// The number of rounds.
const ROUNDS: usize = 11;

/// The number of plugins in a round that appear one at a time.
const BATCH: usize = 50;

/// The pause before a plugin appears: long enough for the previous one to be deregistered.
const PAUSE: Duration = Duration::from_millis(2);

/// The number of plugins that are listed.
const LISTED: usize = 1_000;

/// The number of plugins that the daemon answers about: nearly as many as there may be.
const MOST: usize = 2_000;
