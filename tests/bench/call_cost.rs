//! Makes calls in memory, with nothing around them, so that their instructions can be counted.
//!
//!     call-cost CONNECTIONS CALLS
//!
//! This many connections one after the other, with this many calls of GetInfo on each. It is all
//! that a daemon does for them without a system call: a client is created, each request (the first
//! with the preface and SETTINGS) is encoded and taken, the whole reply is passed in and decoded
//! down to the `PluginInfo`, and the client is dropped. The replies are recorded from a server on
//! the `h2` crate, once, at the start.

#[path = "../support/bind.rs"]
#[allow(dead_code, reason = "a part of it is enough")]
mod bind;
#[path = "../support/caller.rs"]
#[allow(dead_code, reason = "a part of it is enough")]
mod caller;
#[path = "../support/grpc.rs"]
mod grpc;
#[path = "../support/plugin.rs"]
#[allow(dead_code, reason = "a part of it is enough")]
mod plugin;

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;
use std::{env, mem, process};

use plugind::grpc::{Client, Event};
use plugind::http2::Endpoint as _;
use plugind::proto::pluginregistration::{InfoRequest, PluginInfo, registration};
use plugind::time::Time;
use prost::Message as _;

use self::caller::Caller;
use self::plugin::Plugin;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = env::args().skip(1).map_while(|word| word.parse().ok());
    let (Some(connections), Some(calls)) = (numbers.next(), numbers.next()) else {
        eprintln!("usage: call-cost CONNECTIONS CALLS");
        process::exit(2);
    };
    let replies = record(calls)?;
    for _ in 0..connections {
        let mut client = Client::new(NOW);
        for reply in &replies {
            black_box(call(&mut client, black_box(reply))?);
        }
    }
    Ok(())
}

/// Records everything that a real plugin sends for this many calls of GetInfo, by call.
fn record(calls: usize) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("reg.sock");
    let plugin = Plugin::serve(&socket, "driver.csi.example.com");
    let mut caller = Caller::connect(&socket);
    let mut replies = Vec::new();
    for _ in 0..calls {
        caller.get_info().map_err(|error| error.to_string())?;
        replies.push(mem::take(&mut caller.received).concat());
    }
    plugin.stop();
    Ok(replies)
}

/// Makes one call, which is answered with these octets.
fn call(client: &mut Client, reply: &[u8]) -> Result<PluginInfo, Box<dyn Error>> {
    let request = InfoRequest {}.encode_to_vec();
    let method = registration::GET_INFO;
    client.unary(method, &request, MAX_REPLY, NOW + PATIENCE, NOW);
    while !client.transmit().is_empty() {
        let count = black_box(client.transmit()).len();
        client.sent(count, NOW);
    }
    let mut rest = reply;
    while !rest.is_empty() {
        rest = &rest[client.receive_from(rest, NOW)..];
        while let Some(event) = client.poll_event(NOW) {
            if let Event::Finished { result, .. } = event {
                let message = result.map_err(|error| error.to_string())?;
                return Ok(PluginInfo::decode(&*message)?);
            }
        }
    }
    Err("the reply is not whole".into())
}

/// The time of everything here, because nothing takes time.
const NOW: Time = Time::ZERO;

/// The largest reply: what the daemon accepts (octets).
const MAX_REPLY: usize = 64 * 1024;

/// The timeout of a call: what the daemon allows.
const PATIENCE: Duration = Duration::from_secs(1);
