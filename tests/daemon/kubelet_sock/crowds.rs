//! Clients that are many, silent, greedy or hostile, beside a plugin that behaves.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use plugind::config::MAX_REGISTRATIONS;
use plugind::grpc::{CallError, Client};
use plugind::http2::Endpoint as _;
use plugind::proto::v1beta1::registration;
use plugind::time::Time;
use prost::Message as _;

use crate::device_plugins::scripted::Scripted;
use crate::kubelet_sock::node::{Node, call, register, rejection, request};
use crate::support::caller::Caller;
use crate::support::frames::{END_HEADERS, Frame, HEADERS, PREFACE};
use crate::support::simulated::Simulated;
use crate::support::timed::assert_faster;
use crate::support::until::until;

/// A plugin that behaves, and registers again and again.
struct Honest<'a> {
    node: &'a Node,
    _plugin: Scripted,
}

impl<'a> Honest<'a> {
    fn new(node: &'a Node) -> Self {
        let plugin = Scripted::listing(&node.path("honest.sock"), &["device"]);
        Self {
            node,
            _plugin: plugin,
        }
    }

    /// Registers, again if the connection was closed before its call was received. Returns how long
    /// it took.
    fn register(&self) -> Duration {
        let start = Instant::now();
        until("the plugin registers", || {
            let result = self.node.register("honest.sock", "example.com/honest");
            let is_closed = matches!(
                result,
                Err(CallError::Refused { .. } | CallError::Connection { .. })
            );
            assert!(is_closed || result.is_ok(), "{result:?}");
            result.ok()
        });
        start.elapsed()
    }

    /// Registers several times, within a bounded time each.
    #[track_caller]
    fn register_soon(&self) {
        for _ in 0..5 {
            let time = self.register();
            assert_faster(time, SOON);
        }
    }
}

/// Ends the threads of a test when it is dropped, also by a panic.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the octets of a client's first call.
fn octets_of_call(endpoint: &str) -> Vec<u8> {
    let mut client = Client::new(Time::ZERO);
    let message = request(endpoint, "example.com/gpu").encode_to_vec();
    let deadline = Time::ZERO + Duration::from_secs(60);
    client.unary(registration::REGISTER, &message, 1024, deadline, Time::ZERO);
    let mut octets = Vec::new();
    while !client.transmit().is_empty() {
        octets.extend_from_slice(client.transmit());
        let count = client.transmit().len();
        client.sent(count, Time::ZERO);
    }
    octets
}

/// Connects, as soon as there is room in the backlog.
fn connect(kubelet: &Path) -> UnixStream {
    let stream = UnixStream::connect(kubelet).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

#[test]
fn thousands_of_registrations_take_no_memory() {
    let node = Node::start();
    let honest = Honest::new(&node);
    let _plugin = Scripted::listing(&node.path("gpu.sock"), &["device"]);
    let kubelet = node.kubelet();
    let flood = |rounds: usize| {
        thread::scope(|scope| {
            for thread in 0..4 {
                let kubelet = &kubelet;
                scope.spawn(move || {
                    for n in 0..rounds {
                        let name = format!("example.com/gpu-{thread}");
                        let name = if n % 10 == 0 { &*name } else { "gpu" };
                        // A connection may be closed for the sake of others that wait.
                        let _ = register(kubelet, "gpu.sock", name);
                    }
                });
            }
            honest.register_soon();
        });
    };
    flood(200);
    let (resident, open) = (node.daemon.resident(), node.daemon.descriptors());
    flood(2_500);
    let grown = node.daemon.resident().saturating_sub(resident);
    assert!(grown < 1024, "{grown} KiB more than {resident} KiB");
    until("the descriptors are closed", || {
        (node.daemon.descriptors() <= open + 3).then_some(())
    });
}

#[test]
fn clients_that_say_nothing_keep_no_plugin_out() {
    let node = Node::start();
    let honest = Honest::new(&node);
    let whole = octets_of_call("gpu.sock");
    let almost = whole.len() - 1;
    for said in [&[][..], &whole[..10], PREFACE, &whole[..almost]] {
        let silent: Vec<_> = (0..100)
            .map(|_| {
                let mut stream = connect(&node.kubelet());
                let _ = stream.write_all(said);
                stream
            })
            .collect();
        honest.register_soon();
        assert!(node.daemon.descriptors() < MAX_REGISTRATIONS + 40);
        drop(silent);
    }
    // Nothing is left of them.
    let mut caller = Caller::connect(&node.kubelet());
    let reason = rejection(call(&mut caller, &request("honest.sock", "gpu")));
    assert_eq!(reason, "Unknown: the ResourceName \"gpu\" is invalid");
}

#[test]
fn a_client_that_never_reads_is_held_back_or_closed() {
    let node = Node::start();
    let honest = Honest::new(&node);
    honest.register_soon();
    let resident = node.daemon.resident();
    let (kubelet, is_over) = (node.kubelet(), AtomicBool::new(false));
    thread::scope(|scope| {
        let _ending = Ending(&is_over);
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    call_without_end(&kubelet, &is_over);
                }
            });
        }
        for _ in 0..4 {
            honest.register_soon();
        }
    });
    let grown = node.daemon.resident().saturating_sub(resident);
    assert!(grown < 16 * 1024, "{grown} KiB more than {resident} KiB");
}

/// Calls on new streams without reading, until the daemon does not read or closes the connection.
fn call_without_end(kubelet: &Path, is_over: &AtomicBool) {
    let mut stream = connect(kubelet);
    let first = octets_of_call("gpu.sock");
    let mut frames = first[PREFACE.len()..].to_vec();
    let mut call = Vec::new();
    while let Some(frame) = Frame::take(&mut frames) {
        if frame.stream > 0 {
            call.push(frame);
        }
    }
    if stream.write_all(&first).is_err() {
        return;
    }
    for id in (3..100_001).step_by(2) {
        // Header fields that are in the table already, so that each call can be sent again.
        let octets: Vec<_> = call
            .iter()
            .flat_map(|frame| {
                let stream = id;
                Frame {
                    stream,
                    ..frame.clone()
                }
                .octets()
            })
            .collect();
        if is_over.load(Ordering::Relaxed) || stream.write_all(&octets).is_err() {
            return;
        }
    }
}

#[test]
fn clients_that_send_something_else_are_closed() {
    let node = Node::start();
    let honest = Honest::new(&node);
    let zeros = vec![0; 1 << 16];
    let huge = Frame::new(HEADERS, END_HEADERS, 1, vec![0xff; 16_000]).octets();
    let garbage: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        &zeros,
        &[PREFACE, &zeros].concat(),
        &[PREFACE, &Frame::settings(&[]).octets(), &huge].concat(),
        &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03],
    ];
    for said in garbage {
        for _ in 0..20 {
            let mut stream = connect(&node.kubelet());
            let _ = stream.write_all(said);
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer) {
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
                read => assert!(read.is_ok(), "{read:?}"),
            }
        }
        honest.register_soon();
    }
}

#[test]
fn a_process_that_connects_without_end_keeps_no_plugin_out() {
    let mut node = Node::start();
    let (kubelet, is_over) = (node.kubelet(), AtomicBool::new(false));
    thread::scope(|scope| {
        let _ending = Ending(&is_over);
        scope.spawn(|| {
            let mut kept = VecDeque::new();
            while !is_over.load(Ordering::Relaxed) {
                kept.push_back(connect(&kubelet));
                if kept.len() > MAX_REGISTRATIONS {
                    kept.pop_front();
                }
            }
        });
        for n in 0..3 {
            let start = Instant::now();
            let name = format!("example.com/gpu-{n}");
            let plugin = Simulated::start(&node.plugins(), "DevicePlugin", &name, &["--legacy"]);
            plugin.until_said(&format!("{name}: registered"));
            assert_faster(start.elapsed(), SOON);
            node.until_registered(&name);
        }
    });
}

/// The time in which a plugin registers while others misbehave, many times what it takes.
const SOON: Duration = Duration::from_secs(5);
