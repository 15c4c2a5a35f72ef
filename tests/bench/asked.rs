//! The goals for `plugind`, and the measurements.
//!
//! Nothing fails here: a time on a busy machine proves nothing, and a ratio of two times little.

use std::fs;

use serde_json::{Value, json};

use super::at_once::AtOnce;
use super::held::Held;
use super::instructions::Instructions;
use super::list::List;
use super::one_by_one::OneByOne;
use super::readers::Readers;
use super::register::Register;
use super::report::Table;
use super::rest::Rest;
use super::spread::ratio;
use super::start::Start;
use super::subject::{Subject, plugind};

/// All measurements.
pub(crate) struct Measured {
    pub(crate) one_by_one: OneByOne,
    pub(crate) at_once: AtOnce,
    pub(crate) start: Start,
    pub(crate) held: Held,
    pub(crate) rest: Rest,
    pub(crate) list: List,
    pub(crate) readers: Readers,
    pub(crate) register: Register,
    pub(crate) instructions: Instructions,
}

/// The bound of a figure.
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Measured {
    /// Returns a row for each goal, without a figure if it could not be measured.
    pub(crate) fn table(&self) -> Table {
        use Bound::{AtLeast, AtMost};
        use Subject::{H2, Kubelet, Plugind};
        let asked = [
            (
                "one at a time: p50, to the h2 client's",
                AtMost(0.95),
                self.one_by_one.ratio(Plugind, H2),
            ),
            (
                "1,000 at once: wall time, to the h2 client's",
                AtMost(0.8),
                self.wall(Plugind, H2),
            ),
            (
                "1,000 at once: CPU time, to the h2 client's",
                AtMost(0.6),
                self.cpu(Plugind, H2),
            ),
            (
                "start beside dead sockets: p50, to the h2 client's",
                AtMost(1.15),
                self.start.ratio(Plugind, H2),
            ),
            (
                "private at rest, KiB",
                AtMost(100.0),
                self.held.private(Plugind, 0),
            ),
            (
                "private with 100 registered, KiB",
                AtMost(230.0),
                self.held.private(Plugind, 100),
            ),
            (
                "private with 1,000 registered, KiB",
                AtMost(1100.0),
                self.held.private(Plugind, 1000),
            ),
            (
                "resident with 100 registered, KiB",
                AtMost(1500.0),
                self.held.resident(Plugind, 100),
            ),
            (
                "wakeups at rest",
                AtMost(0.0),
                self.rest.wakeups(Plugind).map(figure),
            ),
            (
                "CPU time of `plugind list` with 1,000 registered, ms",
                AtMost(4.0),
                Some(self.list.cpu()),
            ),
            (
                "the longest turn meanwhile, ms",
                AtMost(5.0),
                Some(self.list.turn()),
            ),
            (
                "the longest turn of /metrics and /v1/plugins with 2,000, ms",
                AtMost(5.0),
                Some(self.list.response()),
            ),
            (
                "one at a time beside readers: p50, to that without",
                AtMost(1.05),
                Some(self.readers.ratio()),
            ),
            (
                "from Register to the list of devices: p50, to the h2 server's",
                AtMost(1.5),
                self.register.ratio(Plugind, H2),
            ),
            ("the binary, bytes", AtMost(1_500_000.0), size()),
            (
                "GetInfo in memory, with set-up, instructions",
                AtMost(19_999.0),
                self.instructions.get_info().map(figure),
            ),
            (
                "one at a time: kubelet's p50, to plugind's",
                AtLeast(200.0),
                self.one_by_one.ratio(Kubelet, Plugind),
            ),
            (
                "1,000 at once: CPU time, to kubelet's",
                AtMost(0.095),
                self.cpu(Plugind, Kubelet),
            ),
        ];
        Table {
            title: "Asked for".to_owned(),
            name: "asked",
            columns: vec!["what", "asked", "measured", "met"],
            rows: asked.into_iter().map(row).collect(),
        }
    }

    /// Returns the ratio of the wall times of 1,000 plugins at once.
    fn wall(&self, one: Subject, other: Subject) -> Option<f64> {
        let of = |subject| self.at_once.of(subject, MANY);
        Some(ratio(of(one)?.wall, of(other)?.wall))
    }

    /// Returns the ratio of the CPU times of 1,000 plugins at once.
    fn cpu(&self, one: Subject, other: Subject) -> Option<f64> {
        let of = |subject| self.at_once.of(subject, MANY);
        Some(ratio(of(one)?.cpu, of(other)?.cpu))
    }
}

fn row((what, bound, measured): (&str, Bound, Option<f64>)) -> Vec<Value> {
    let (words, is_met) = match bound {
        Bound::AtMost(most) => (format!("at most {most}"), measured.map(|it| it <= most)),
        Bound::AtLeast(least) => (format!("at least {least}"), measured.map(|it| it >= least)),
    };
    let met = is_met.map_or("not measured", |is_met| if is_met { "yes" } else { "NO" });
    vec![json!(what), json!(words), json!(measured), json!(met)]
}

/// Returns the size of the measured binary.
fn size() -> Option<f64> {
    Some(figure(fs::metadata(plugind()).ok()?.len()))
}

/// Returns a count as a figure, which is exact for all of these.
#[allow(clippy::cast_precision_loss, reason = "it is less than 2^53")]
fn figure(count: u64) -> f64 {
    count as f64
}

/// The number of plugins that counts as many.
const MANY: usize = 1000;
