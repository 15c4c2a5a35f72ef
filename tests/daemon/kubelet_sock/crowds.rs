//! Clients that are many, silent, greedy or hostile, beside a plugin that behaves.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use plugind::config::MAX_REGISTRATIONS;
use plugind::grpc::CallError;

use crate::device_plugins::scripted::Scripted;
use crate::kubelet_sock::node::{Node, rejection};
use crate::support::frames::PREFACE;
use crate::support::kubelet::{octets_of_call, register, request};
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

#[test]
fn thousands_of_registrations_take_no_memory() {
    let node = Node::serving();
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
                        let _ = register(kubelet, &request("gpu.sock", name));
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
    let node = Node::serving();
    let honest = Honest::new(&node);
    let whole = octets_of_call(&request("gpu.sock", "example.com/gpu"));
    let almost = whole.len() - 1;
    for said in [&[][..], &whole[..10], PREFACE, &whole[..almost]] {
        let silent: Vec<_> = (0..100)
            .map(|_| {
                let mut stream = UnixStream::connect(node.kubelet()).unwrap();
                let _ = stream.write_all(said);
                stream
            })
            .collect();
        honest.register_soon();
        assert!(node.daemon.descriptors() < MAX_REGISTRATIONS + 40);
        drop(silent);
    }
    // Nothing is left of them.
    let reason = rejection(node.register("honest.sock", "gpu"));
    assert_eq!(reason, "Unknown: the ResourceName \"gpu\" is invalid");
}

/// The time in which a plugin registers while others misbehave, many times what it takes.
const SOON: Duration = Duration::from_secs(5);
