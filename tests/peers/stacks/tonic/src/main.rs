//! A plugin on tonic, and a client of one:
//!
//!     stacks serve SOCKET CASE
//!     stacks call SOCKET CASE
//!
//! Messages are written by hand, so that no generated code is needed. On its standard input,
//! `change` breaks a device and `stop` ends the plugin in order; at the end of the input it ends at
//! once.

mod client;
mod message;
mod plugin;
mod raw;

use std::convert::Infallible;
use std::process::exit;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::transport::Server;
use tower::service_fn;

use plugin::Plugin;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, path, case] = &words[..] else {
        eprintln!("usage: stacks serve|call SOCKET CASE");
        exit(2);
    };
    match &**role {
        "serve" => serve(path, case).await,
        _ => client::call(path).await,
    }
}

/// Serves the plugin until it is stopped.
async fn serve(path: &str, case: &str) {
    let server = Server::builder();
    let mut server = match case {
        "age" => server
            .max_connection_age(Duration::from_secs(1))
            .max_connection_age_grace(Duration::from_millis(1)),
        "age-grace" => server
            .max_connection_age(Duration::from_secs(1))
            .max_connection_age_grace(Duration::from_secs(1)),
        "pings" => server
            .http2_keepalive_interval(Some(Duration::from_secs(1)))
            .http2_keepalive_timeout(Some(Duration::from_secs(1))),
        "windows-small" => server
            .initial_stream_window_size(1)
            .initial_connection_window_size(65_535),
        "windows-large" => server
            .initial_stream_window_size(1 << 30)
            .initial_connection_window_size(1 << 30),
        "one-stream" => server.max_concurrent_streams(1),
        "policy" | "no-table" | "compressed" => exit(64),
        _ => server,
    };
    let listener = UnixListener::bind(path).expect("the socket can be made");
    let plugin = Arc::new(Plugin::new(case));
    if case == "announce" {
        tokio::spawn(client::register(path.to_owned()));
    }
    if case == "pings" {
        let plugin = plugin.clone();
        tokio::spawn(async move {
            let stopped = plugin.until_stopped();
            if tokio::time::timeout(Duration::from_secs(3), stopped)
                .await
                .is_err()
            {
                plugin.change();
            }
        });
    }
    tokio::spawn(read(plugin.clone()));
    let answering = plugin.clone();
    let service = service_fn(move |request: http::Request<axum::body::Body>| {
        let plugin = answering.clone();
        async move { Ok::<_, Infallible>(plugin.handle(request.map(Body::new)).await) }
    });
    let routes = axum::Router::new().fallback_service(service);
    let stopped = async move { plugin.until_stopped().await };
    let served = server
        .add_routes(routes.into())
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stopped);
    served.await.expect("the plugin is served");
    std::fs::remove_file(path).expect("the socket can be removed");
}

/// Follows the standard input.
async fn read(plugin: Arc<Plugin>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match &*line {
            "change" => plugin.change(),
            "stop" => return plugin.stop(),
            _ => {}
        }
    }
    exit(0);
}
