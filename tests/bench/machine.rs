//! The machine on which figures were measured.

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::json;

use super::field::new_dir;
use super::report::Table;
use super::subject::plugind;

/// Returns the facts without which figures mean nothing.
pub(crate) fn table() -> Table {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = format!("Linux {} {}", kernel.trim(), std::env::consts::ARCH);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let rows = [
        ("kernel", kernel),
        ("processors", processors()),
        ("load at the start", load.to_owned()),
        ("sockets in", sockets()),
        ("plugind", binary()),
    ];
    Table {
        title: "Measured on".to_owned(),
        columns: "what, which",
        rows: rows.map(|it| vec![json!(it.0), json!(it.1)]).to_vec(),
    }
}

/// Returns the number of processors, and their model.
fn processors() -> String {
    let count = thread::available_parallelism().map_or(1, usize::from);
    let known = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = known.lines();
    let model = lines.find_map(|line| line.strip_prefix("model name"));
    let model = model
        .unwrap_or_default()
        .trim_start_matches(['\t', ' ', ':']);
    format!("{count} x {model}")
}

/// Returns the directory in which directories with sockets are created.
fn sockets() -> String {
    let dir = new_dir().ok();
    let above = dir.as_ref().and_then(|dir| dir.path().parent());
    above.unwrap_or_else(|| Path::new("")).display().to_string()
}

/// Returns the measured binary, and its size.
fn binary() -> String {
    let path = plugind();
    let size = fs::metadata(&path).map_or(0, |file| file.len());
    format!("{}, {size} bytes", path.to_string_lossy())
}
