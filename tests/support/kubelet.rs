//! A stand-in for the part of kubelet that registers device plugins which call it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use plugind::grpc::{Incoming, Server, Status};
use plugind::http2::{Endpoint as _, StreamId};
use plugind::proto::v1beta1::{RegisterRequest, registration};
use plugind::time::Time;
use prost::Message as _;

use super::caller::PATIENCE;

/// A kubelet that runs, and leaves its socket behind when it is dropped.
pub(crate) struct Kubelet(UnixListener);

/// A call of a plugin that is not answered yet.
pub(crate) struct Registration {
    pub(crate) request: RegisterRequest,
    call: StreamId,
    server: Server,
    stream: UnixStream,
}

impl Kubelet {
    /// Starts on a directory as kubelet does: removes all sockets, and creates `kubelet.sock`.
    pub(crate) fn start(dir: &Path) -> Self {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_socket() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        Self(UnixListener::bind(dir.join("kubelet.sock")).unwrap())
    }

    /// Waits for the next call of a plugin.
    #[track_caller]
    pub(crate) fn called(&self) -> Registration {
        let mut waiting = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(PATIENCE).unwrap();
        assert_eq!(poll(&mut waiting, timeout), Ok(1), "a plugin connects");
        let (mut stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut server = Server::new(&[registration::REGISTER], 1 << 16, Time::ZERO);
        loop {
            let is_open = exchange(&mut server, &mut stream);
            if let Some(Incoming::Called { call, message, .. }) = server.poll_event(Time::ZERO) {
                let request = RegisterRequest::decode(&*message).unwrap();
                return Registration {
                    request,
                    call,
                    server,
                    stream,
                };
            }
            assert!(is_open, "the plugin calls");
        }
    }
}

impl Registration {
    /// Answers, and waits until the plugin has closed the connection.
    pub(crate) fn answer(mut self, result: Result<(), Status>) {
        match result {
            Ok(()) => self.server.reply(self.call, &[], Time::ZERO),
            Err(status) => self.server.finish(self.call, status, Time::ZERO),
        }
        while exchange(&mut self.server, &mut self.stream) {
            while self.server.poll_event(Time::ZERO).is_some() {}
        }
    }
}

/// Writes everything and reads once. Returns whether the plugin has not closed the connection.
fn exchange(server: &mut Server, stream: &mut UnixStream) -> bool {
    while !server.transmit().is_empty() {
        let Ok(count) = stream.write(server.transmit()) else {
            return false;
        };
        server.sent(count, Time::ZERO);
    }
    match stream.read(server.recv_buf()).unwrap() {
        0 => {
            server.eof(Time::ZERO);
            false
        }
        count => {
            server.received(count, Time::ZERO);
            true
        }
    }
}
