//! Makes one GetInfo after the other in memory, so many times, with nothing around it: for those
//! who count the instructions.
//!
//!     call-cost TIMES
//!
//! A call is all that a daemon does for it without a system call: a client is set up, the request
//! encoded - the preface, SETTINGS, HEADERS and DATA - and taken, the whole reply handed in and
//! decoded down to the `PluginInfo`, and the client dropped. The reply is what a server on the `h2`
//! crate said once, at the start.

#[path = "../support/link.rs"]
mod link;
#[path = "../support/plugin.rs"]
mod plugin;

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;
use std::{env, process};

use plugind::grpc::{Client, Event};
use plugind::proto::pluginregistration::{InfoRequest, PluginInfo, registration};
use plugind::time::Time;
use prost::Message as _;

use self::link::Link;
use self::plugin::Plugin;

fn main() -> Result<(), Box<dyn Error>> {
    let Some(times) = env::args().nth(1).and_then(|times| times.parse().ok()) else {
        eprintln!("usage: call-cost TIMES");
        process::exit(2);
    };
    let reply = record()?;
    for _ in 0..times {
        black_box(call(black_box(&reply))?);
    }
    Ok(())
}

/// Everything that a real plugin says when it is asked who it is.
fn record() -> Result<Vec<u8>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("reg.sock");
    let plugin = Plugin::serve(&socket, "driver.csi.example.com");
    let mut link = Link::connect(&socket);
    link.get_info().map_err(|error| error.to_string())?;
    plugin.stop();
    Ok(link.received.concat())
}

/// One call, answered with these octets.
fn call(reply: &[u8]) -> Result<PluginInfo, Box<dyn Error>> {
    let now = Time::ZERO;
    let mut client = Client::new(now);
    let request = InfoRequest {}.encode_to_vec();
    client.unary(
        registration::GET_INFO,
        &request,
        MAX_REPLY,
        now + PATIENCE,
        now,
    );
    while !client.transmit().is_empty() {
        let count = black_box(client.transmit()).len();
        client.sent(count, now);
    }
    let mut rest = reply;
    loop {
        while let Some(event) = client.poll_event(now) {
            if let Event::Finished { result, .. } = event {
                let message = result.map_err(|error| error.to_string())?;
                return Ok(PluginInfo::decode(&*message)?);
            }
        }
        let buffer = client.recv_buf();
        let count = buffer.len().min(rest.len());
        if count == 0 {
            return Err("the reply is not whole".into());
        }
        buffer[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        client.received(count, now);
    }
}

/// The most that a reply may hold (bytes): what the daemon accepts.
const MAX_REPLY: usize = 64 * 1024;

/// How long the call may take: what the daemon gives it.
const PATIENCE: Duration = Duration::from_secs(1);
