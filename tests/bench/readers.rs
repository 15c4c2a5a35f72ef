//! How much longer a plugin waits for its registration while others read the API: four that watch
//! all records, and one that scrapes the metrics every second.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::json;

use super::field::Field;
use super::order::Life;
use super::report::{Table, millis};
use super::spread::{Spread, ratio};
use super::subject::Subject;

/// The medians of all rounds, without readers and with them.
pub(crate) struct Readers {
    without: Spread,
    with: Spread,
    /// The ratio of the two medians of each round, from the least to the greatest.
    ratios: Vec<f64>,
}

/// Has plugins appear one at a time without readers and with them, in turn.
pub(crate) fn measure() -> Result<Readers, Box<dyn Error>> {
    let (mut field, process) = Field::with_subject(Subject::Plugind)?;
    field.farm.at_once(PLUGINS)?;
    process.until_quiet()?;
    let (mut without, mut with, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let mut p50 = [Duration::ZERO; 2];
        // Each is the first in half of the rounds.
        for is_read in [round % 2 == 0, round % 2 == 1] {
            let reading = is_read.then(|| Reading::start(&field.api())).transpose()?;
            p50[usize::from(is_read)] = median(&mut field)?;
            if let Some(reading) = reading {
                reading.end()?;
            }
        }
        without.push(p50[0]);
        with.push(p50[1]);
        ratios.push(ratio(p50[1], p50[0]));
    }
    ratios.sort_by(f64::total_cmp);
    Ok(Readers {
        without: Spread::new(without),
        with: Spread::new(with),
        ratios,
    })
}

/// Returns the median of the times that the plugins of a round wait.
fn median(field: &mut Field) -> Result<Duration, Box<dyn Error>> {
    let lives = field.farm.one_by_one(vec![PAUSE; BATCH])?;
    Ok(Spread::new(lives.iter().map(Life::wait).collect()).median())
}

/// The readers.
struct Reading {
    watches: Vec<UnixStream>,
    /// Dropped to end the scraper.
    stop: Sender<()>,
    readers: Vec<JoinHandle<io::Result<u64>>>,
}

impl Reading {
    fn start(api: &Path) -> io::Result<Self> {
        let (mut watches, mut readers) = (Vec::new(), Vec::new());
        for _ in 0..WATCHES {
            let watch = request(api, "/v1/watch")?;
            let mut watched = watch.try_clone()?;
            readers.push(thread::spawn(move || {
                io::copy(&mut watched, &mut io::sink())
            }));
            watches.push(watch);
        }
        let (stop, stopped) = mpsc::channel();
        let api = PathBuf::from(api);
        readers.push(thread::spawn(move || {
            let mut octets = 0;
            while stopped.recv_timeout(SCRAPE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                octets += io::copy(&mut request(&api, "/metrics")?, &mut io::sink())?;
            }
            Ok(octets)
        }));
        Ok(Self {
            watches,
            stop,
            readers,
        })
    }

    /// Ends the readers, each of which must have read something.
    fn end(self) -> Result<(), Box<dyn Error>> {
        for watch in self.watches {
            watch.shutdown(Shutdown::Both)?;
        }
        drop(self.stop);
        for reader in self.readers {
            if reader.join().map_err(|_| "a reader has failed")?? < LEAST_READ {
                return Err("a reader has read nothing".into());
            }
        }
        Ok(())
    }
}

/// Sends a request whose response ends with the connection. Returns that when the response has
/// begun.
pub(crate) fn request(api: &Path, target: &str) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(api)?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut begin = *b"HTTP/1.1 200";
    stream.read_exact(&mut begin)?;
    if begin != *b"HTTP/1.1 200" {
        return Err(io::Error::other("the request is refused"));
    }
    Ok(stream)
}

impl Readers {
    /// Returns the median of the ratios of all rounds.
    pub(crate) fn ratio(&self) -> f64 {
        self.ratios[self.ratios.len() / 2]
    }

    pub(crate) fn table(&self) -> Table {
        let row = |readers, spread: &Spread, ratio| {
            vec![json!(readers), millis(spread.median()), json!(ratio)]
        };
        Table {
            title: format!(
                "One plugin at a time beside {PLUGINS} registered: p50, medians of {ROUNDS} rounds"
            ),
            name: "readers",
            columns: vec!["readers", "p50 ms", "p50 to none"],
            rows: vec![
                row("none", &self.without, 1.0),
                row(
                    "four watches, and a scrape every second",
                    &self.with,
                    self.ratio(),
                ),
            ],
        }
    }
}

/// The number of registered plugins: more than a node has.
const PLUGINS: usize = 100;

/// The number of readers that watch.
const WATCHES: usize = 4;

/// The number of rounds.
const ROUNDS: usize = 11;

/// The number of plugins in a round, which takes longer than [`SCRAPE_INTERVAL`].
const BATCH: usize = 500;

/// The pause before a plugin appears: long enough for the previous one to be deregistered.
const PAUSE: Duration = Duration::from_millis(2);

/// The pause between two scrapes.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);

/// The least that a reader reads in a round (octets): less than the metrics or the records of
/// [`PLUGINS`] have.
const LEAST_READ: u64 = 4096;
