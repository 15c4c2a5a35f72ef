//! What is asked of `plugind`, and what was measured.
//!
//! Nothing fails here: a time on a busy machine proves nothing, and a ratio of two of them little.

use std::fs;

use serde_json::{Value, json};

use super::at_once::AtOnce;
use super::held::Held;
use super::instructions::Instructions;
use super::one_by_one::OneByOne;
use super::report::Table;
use super::rest::Rest;
use super::spread::ratio;
use super::subject::{Subject, plugind};

/// Everything that was measured.
pub(crate) struct Measured {
    pub(crate) one_by_one: OneByOne,
    pub(crate) at_once: AtOnce,
    pub(crate) held: Held,
    pub(crate) rest: Rest,
    pub(crate) instructions: Instructions,
}

/// What a figure should be.
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Measured {
    /// A row for everything that is asked; without a figure where it could not be measured.
    pub(crate) fn table(&self) -> Table {
        use Bound::{AtLeast, AtMost};
        use Subject::{H2, Kubelet, Plugind};
        let asked = [
            (
                "one at a time: p50, to the h2 client's",
                AtMost(1.5),
                self.one_by_one.ratio(Plugind, H2),
            ),
            (
                "1,000 at once: wall time, to the h2 client's",
                AtMost(1.5),
                self.wall(Plugind, H2),
            ),
            (
                "resident with 100 registered, KiB",
                AtMost(1024.0),
                self.held.resident(Plugind, 100),
            ),
            (
                "more for each further plugin, KiB",
                AtMost(2.0),
                self.held.per_plugin(Plugind, 100, 1000),
            ),
            (
                "wakeups at rest",
                AtMost(0.0),
                self.rest.wakeups(Plugind).map(figure),
            ),
            ("the binary, bytes", AtMost(999_999.0), size()),
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
                AtMost(0.1),
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

    /// How the wall time of 1,000 at once compares.
    fn wall(&self, one: Subject, other: Subject) -> Option<f64> {
        let of = |subject| self.at_once.of(subject, MANY);
        Some(ratio(of(one)?.wall, of(other)?.wall))
    }

    /// How the CPU time of 1,000 at once compares.
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

/// The size of the binary that was measured.
fn size() -> Option<f64> {
    Some(figure(fs::metadata(plugind()).ok()?.len()))
}

/// A count as a figure; none of these is beyond what that holds exactly.
#[allow(clippy::cast_precision_loss, reason = "it is less than 2^53")]
fn figure(count: u64) -> f64 {
    count as f64
}

/// How many are many.
const MANY: usize = 1000;
