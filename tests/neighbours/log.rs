//! Rows about the log: plugins that cause as much of it as they can, and a reader that does not
//! read.

use std::fs;
use std::future::poll_fn;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plugind::config::STOP_GRACE;
use plugind::proto::pluginregistration::{PluginInfo, registration};
use plugind::proto::v1beta1::{Device, ListAndWatchResponse, device_plugin};
use prost::Message;

use crate::honest::{Times, register};
use crate::row::{Row, alone};
use crate::support::binary::binary;
use crate::support::pipe::full_pipe;

#[test]
fn a_device_that_flips_its_health_as_fast_as_it_can() {
    Row::new("a device that flips its health", "26 MiB/s of log")
        .withstand(|dir, over| serve_lists(dir, over, 1, lists()));
}

#[test]
fn many_devices_that_flip_their_health_as_fast_as_they_can() {
    Row::new(
        "32 devices that flip their health",
        "with 64: p99 1.8 s, turns of 0.6 s",
    )
    .restless()
    .withstand(|dir, over| serve_lists(dir, over, 32, lists()));
}

#[test]
fn sockets_with_new_names_for_ever_while_every_step_is_logged() {
    Row::new("sockets with new names, with -v", "1.3 MiB/s of log")
        .options(["-v"])
        .withstand(|dir, over| renew(dir, over, |n| format!("evil-{n}.sock")));
}

#[test]
fn a_log_that_is_not_read() {
    let _alone = alone();
    let root = tempfile::tempdir().unwrap();
    let (reader, pipe) = full_pipe();
    let mut command = Command::new(binary());
    command
        .env_remove("RUST_LOG")
        .env("PLUGIND_API_SOCKET", "none")
        .args(["run", "-v", "--plugins-dir"])
        .arg(root.path())
        .stdin(Stdio::null())
        .stderr(pipe);
    let mut daemon = Ending(command.spawn().unwrap());
    drop(command);
    let times = Times::measure("unread", ROUNDS, |name| register(root.path(), name));
    let start = Instant::now();
    let pid = Pid::from_raw(i32::try_from(daemon.0.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let status = daemon.0.wait().unwrap();
    let took = start.elapsed();
    println!(
        "| a log that is not read | hangs for ever, SIGTERM too | {times:?}, ended after {took:?} |"
    );
    assert!(status.success(), "{status}");
    assert!(took < STOP_GRACE + Duration::from_secs(1), "{took:?}");
    drop(reader);
}

/// A daemon that does not outlive the test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates a socket on which nothing listens, and removes it, until the attack is over or the
/// directory was removed.
fn renew(dir: &Path, over: &AtomicBool, name: impl Fn(u64) -> String) {
    let mut n = 0;
    while !over.load(Ordering::Relaxed) {
        let path = dir.join(name(n));
        if UnixListener::bind(&path)
            .and_then(|_| fs::remove_file(path))
            .is_err()
        {
            return;
        }
        n += 1;
    }
}

/// Serves device plugins that send lists of devices again and again, as fast as they are received.
pub(crate) fn serve_lists(dir: &Path, over: &AtomicBool, plugins: usize, lists: Bytes) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let lists = Arc::new(lists);
    runtime.block_on(async {
        for n in 0..plugins {
            let listener = tokio::net::UnixListener::bind(dir.join(format!("{n}.sock"))).unwrap();
            tokio::spawn(accept(listener, n, lists.clone()));
        }
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        while !over.load(Ordering::Relaxed) {
            tick.tick().await;
        }
    });
}

/// Serves every connection to a plugin, until the runtime ends.
async fn accept(listener: tokio::net::UnixListener, n: usize, lists: Arc<Bytes>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, n, lists.clone()));
    }
}

async fn serve(stream: tokio::net::UnixStream, n: usize, lists: Arc<Bytes>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        match request.uri().path() {
            device_plugin::LIST_AND_WATCH => {
                tokio::spawn(stream_lists(respond, lists.clone()));
            }
            registration::GET_INFO => answer(respond, info(n)),
            _ => answer(respond, framed(&())),
        }
    }
}

/// Sends the lists again and again, until the connection ends.
async fn stream_lists(mut respond: SendResponse<Bytes>, lists: Arc<Bytes>) -> Option<()> {
    let mut stream: SendStream<Bytes> = respond.send_response(head(), false).ok()?;
    loop {
        let mut rest = Bytes::clone(&lists);
        while !rest.is_empty() {
            stream.reserve_capacity(rest.len());
            while stream.capacity() == 0 {
                poll_fn(|context| stream.poll_capacity(context))
                    .await?
                    .ok()?;
            }
            let piece = rest.split_to(stream.capacity().min(rest.len()));
            stream.send_data(piece, false).ok()?;
        }
    }
}

fn answer(mut respond: SendResponse<Bytes>, message: Bytes) {
    if let Ok(mut stream) = respond.send_response(head(), false) {
        let status = HeaderName::from_static("grpc-status");
        let trailers = HeaderMap::from_iter([(status, HeaderValue::from_static("0"))]);
        let _ = stream.send_data(message, false);
        let _ = stream.send_trailers(trailers);
    }
}

fn head() -> Response<()> {
    let head = Response::builder().header("content-type", "application/grpc");
    head.body(()).unwrap()
}

fn info(n: usize) -> Bytes {
    framed(&PluginInfo {
        r#type: "DevicePlugin".to_owned(),
        name: format!("evil.example/device-{n}"),
        endpoint: String::new(),
        supported_versions: vec!["v1beta1".to_owned()],
    })
}

/// Returns as many lists of one device as fit in 16 KiB: healthy, unhealthy, and so on.
fn lists() -> Bytes {
    let list = |health: &str| {
        framed(&ListAndWatchResponse {
            devices: vec![Device {
                id: "d".to_owned(),
                health: health.to_owned(),
                topology: None,
            }],
        })
    };
    let two = [list("Healthy"), list("Unhealthy")].concat();
    two.repeat(16_384 / two.len()).into()
}

/// Returns a message behind its length, as gRPC sends it.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap();
    [&[0][..], &length.to_be_bytes(), &message].concat().into()
}

/// The number of registrations of the honest plugin while the log is not read: enough for several
/// times what the pipe and the daemon's buffer hold.
const ROUNDS: usize = 300;
