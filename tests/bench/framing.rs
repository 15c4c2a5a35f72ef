//! The framing beside `h2`: client and server in memory, on one thread.
//!
//! Every call has a message, which the server returns. Both sides send the same fields and have
//! the same windows. Rounds of both alternate; what is compared is their CPU time, and the median
//! of the ratios is printed.

#[path = "../support/grpc.rs"]
mod grpc;

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{RecvStream, client, server};
use http::{HeaderMap, HeaderValue, Request, Response};
use nix::time::{ClockId, clock_gettime};
use plugind::grpc::{Client, Event, Incoming, Server};
use plugind::http2::carry;
use plugind::time::Time;
use tokio::io::duplex;
use tokio::task::{LocalSet, spawn_local};

/// What is measured: this many calls at once on one connection, this many times in a row, each with
/// a message of this many octets. At least `asked` times the throughput of `h2` is the goal.
struct Load {
    streams: usize,
    times: usize,
    octets: usize,
    asked: f64,
}

const LOADS: [Load; 5] = [
    load(1, 5000, 32, 5.0),
    load(100, 50, 32, 4.5),
    load(100, 50, 1024, 4.0),
    load(1, 40, 1 << 20, 2.0),
    load(16, 3, 1 << 20, 1.8),
];

const fn load(streams: usize, times: usize, octets: usize, asked: f64) -> Load {
    Load {
        streams,
        times,
        octets,
        asked,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    println!("streams    octets   times the throughput of h2   asked");
    for load in &LOADS {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let ours = timed(|| ours(load))?;
            let theirs = timed(|| LocalSet::new().block_on(&runtime, theirs(load)))?;
            ratios.push(theirs.as_secs_f64() / ours.as_secs_f64());
        }
        ratios.sort_by(f64::total_cmp);
        let (streams, octets, asked) = (load.streams, load.octets, load.asked);
        let median = ratios[ROUNDS / 2];
        println!("{streams:>7}  {octets:>8}   {median:>26.2}   {asked:>5.1}");
    }
    Ok(())
}

/// Returns the CPU time of this process that `work` takes.
fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let now = || clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from);
    let before = now()?;
    work()?;
    Ok(now()?.saturating_sub(before))
}

fn ours(load: &Load) -> Result<(), Box<dyn Error>> {
    let mut client = Client::new(NOW);
    let mut server = Server::new(&[METHOD], LARGEST, NOW);
    let request = vec![7; load.octets];
    for _ in 0..load.times {
        for _ in 0..load.streams {
            client.unary(METHOD, &request, LARGEST, NOW + PATIENCE, NOW);
        }
        let mut open = load.streams;
        while open > 0 {
            carry(&mut client, &mut server, NOW);
            while let Some(event) = server.poll_event(NOW) {
                if let Incoming::Called { call, message, .. } = event {
                    server.reply(call, &message, NOW);
                }
            }
            carry(&mut server, &mut client, NOW);
            while let Some(event) = client.poll_event(NOW) {
                if let Event::Finished { result, .. } = event {
                    assert_eq!(result?.len(), load.octets);
                    open -= 1;
                }
            }
        }
    }
    Ok(())
}

async fn theirs(load: &Load) -> Result<(), Box<dyn Error>> {
    let (near, far) = duplex(PIPE);
    spawn_local(async move {
        let mut connection = server::handshake(far).await.expect("a preface");
        while let Some(Ok((request, respond))) = connection.accept().await {
            spawn_local(async move {
                let answered = answer(request.into_body(), respond).await;
                answered.expect("the client waits for the answer");
            });
        }
    });
    let (requests, connection) = client::handshake(near).await?;
    spawn_local(connection);
    let request = vec![7; load.octets];
    for _ in 0..load.times {
        let mut calls = Vec::new();
        for _ in 0..load.streams {
            let requests = requests.clone().ready().await?;
            calls.push(spawn_local(call(requests, grpc::frame(&request, 0))));
        }
        for call in calls {
            assert_eq!(call.await??.len(), PREFIX + load.octets);
        }
    }
    Ok(())
}

/// Makes one call; returns the content of the reply.
async fn call(mut requests: SendRequest<Bytes>, message: Bytes) -> Result<Vec<u8>, h2::Error> {
    let request = Request::post("http://localhost/a.B/C")
        .header("grpc-timeout", "10000000u")
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .header("user-agent", "plugind")
        .body(());
    let (reply, mut body) = requests.send_request(request.expect("valid"), false)?;
    body.send_data(message, true)?;
    let mut reply = reply.await?.into_body();
    let message = grpc::read_to_end(&mut reply, LARGEST + PREFIX).await?;
    let trailers = reply.trailers().await?.expect("a status");
    assert_eq!(trailers["grpc-status"], "0");
    Ok(message)
}

/// Returns the message of a request as the answer.
async fn answer(mut body: RecvStream, mut to: SendResponse<Bytes>) -> Result<(), h2::Error> {
    let message = grpc::read_to_end(&mut body, LARGEST + PREFIX).await?;
    let head = Response::builder().header("content-type", "application/grpc");
    let mut stream = to.send_response(head.body(()).expect("valid"), false)?;
    let message = grpc::unframe(&message).expect("a message");
    stream.send_data(grpc::frame(message, 0), false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}

/// The size of the prefix of a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

const METHOD: &str = "/a.B/C";

/// The largest message (octets).
const LARGEST: usize = 1 << 20;

/// The number of rounds of each side.
const ROUNDS: usize = 11;

/// The size of the pipe between `h2` and `h2` (octets).
const PIPE: usize = 1 << 16;

/// The time of everything here, because nothing takes time.
const NOW: Time = Time::ZERO;

const PATIENCE: Duration = Duration::from_secs(10);
