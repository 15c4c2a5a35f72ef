//! The plugins, in a process of their own: sockets in one directory, each a server on the `h2`
//! crate, all on one thread.
//!
//! Standard input is the benchmark; standard output goes to the subject that needs the path of each
//! listening socket. A plugin records when it began to listen and when it was notified that it is
//! registered.

use std::error::Error;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, future, mem};

use plugind::proto::pluginregistration::{
    PluginInfo, RegistrationStatus, RegistrationStatusResponse, registration,
};
use prost::Message as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::clock::now;
use super::grpc::{self, INVALID_ARGUMENT, Service, Status, UNIMPLEMENTED};
use super::order::{Life, Order};
use super::subject::TYPE;

/// Carries out orders until the benchmark closes its end.
pub(crate) fn run(dir: PathBuf) -> Result<(), Box<dyn Error>> {
    let orders = std::os::unix::net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    orders.set_nonblocking(true)?;
    grpc::block_on(async {
        let orders = UnixStream::from_std(orders)?;
        Plugins::new(dir).obey(orders).await
    })
}

/// The running plugins.
struct Plugins {
    dir: PathBuf,
    /// The number of plugins so far: no two have the same name.
    last: usize,
    /// The plugins of [`Order::Come`], which were not waited for.
    came: Vec<(usize, Duration)>,
    /// The plugins that stay.
    staying: Vec<Plugin>,
    tell: UnboundedSender<Told>,
    told: UnboundedReceiver<Told>,
}

impl Plugins {
    fn new(dir: PathBuf) -> Self {
        let (tell, told) = unbounded_channel();
        Self {
            dir,
            last: 0,
            came: Vec::new(),
            staying: Vec::new(),
            tell,
            told,
        }
    }

    async fn obey(mut self, benchmark: UnixStream) -> Result<(), Box<dyn Error>> {
        let (orders, mut answers) = benchmark.into_split();
        let mut orders = BufReader::new(orders).lines();
        while let Some(order) = orders.next_line().await? {
            let lives: Vec<Life> = match serde_json::from_str(&order)? {
                Order::OneByOne { pauses } => {
                    let mut lives = Vec::new();
                    for pause in pauses {
                        lives.push(self.come_and_go(pause).await?);
                    }
                    lives
                }
                Order::AtOnce(plugins) => {
                    let listened = self.come(plugins)?;
                    self.until_told(&listened).await
                }
                Order::Come(plugins) => {
                    self.came = self.come(plugins)?;
                    Vec::new()
                }
                Order::UntilTold => {
                    let came = mem::take(&mut self.came);
                    self.until_told(&came).await
                }
            };
            let mut answer = serde_json::to_vec(&lives)?;
            answer.push(b'\n');
            answers.write_all(&answer).await?;
        }
        Ok(())
    }

    /// Runs one plugin until it is registered, which begins and ends after a pause.
    async fn come_and_go(&mut self, pause: Duration) -> io::Result<Life> {
        serve_for(pause).await;
        let plugin = self.listen()?;
        let life = self.until_told(&[(plugin.number, plugin.listened)]).await;
        serve_for(pause).await;
        plugin.go()?;
        Ok(life[0])
    }

    /// Starts plugins as fast as possible, which stay.
    fn come(&mut self, plugins: usize) -> io::Result<Vec<(usize, Duration)>> {
        let mut listened = Vec::with_capacity(plugins);
        let dir = self.dir.clone();
        for _ in 0..plugins {
            if self.staying.len() >= MOST_IN_ONE {
                self.dir = dir.join("more");
                fs::create_dir_all(&self.dir)?;
            }
            let plugin = self.listen()?;
            listened.push((plugin.number, plugin.listened));
            self.staying.push(plugin);
        }
        self.dir = dir;
        Ok(listened)
    }

    /// Starts one more plugin, which listens when this returns.
    fn listen(&mut self) -> io::Result<Plugin> {
        self.last += 1;
        let socket = self.dir.join(format!("{}-reg.sock", name(self.last)));
        let listener = UnixListener::bind(&socket)?;
        let listened = now();
        announce(&socket)?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let answers = Arc::new(Answers {
            number: self.last,
            told: self.tell.clone(),
        });
        Ok(Plugin {
            number: self.last,
            socket,
            listened,
            serving: tokio::spawn(grpc::accept(answers, listener)),
        })
    }

    /// Waits until each of these plugins has been notified.
    async fn until_told(&mut self, listened: &[(usize, Duration)]) -> Vec<Life> {
        let first = listened.first().map_or(0, |(number, _)| *number);
        let mut told = vec![None; listened.len()];
        let mut left = listened.len();
        while left > 0 {
            let news = self.told.recv().await.expect("`self` holds a sender");
            // A plugin of an earlier order may be notified again.
            let at = news.number.checked_sub(first);
            if let Some(place) = at.and_then(|at| told.get_mut(at)) {
                left -= usize::from(place.replace(news.at).is_none());
            }
        }
        let lives = listened.iter().zip(told);
        lives
            .filter_map(|(&(_, listened), told)| told.map(|told| Life { listened, told }))
            .collect()
    }
}

/// One running plugin.
struct Plugin {
    number: usize,
    socket: PathBuf,
    listened: Duration,
    serving: JoinHandle<()>,
}

impl Plugin {
    /// Ends the plugin as on a regular stop: the socket is removed before it is closed.
    fn go(self) -> io::Result<()> {
        fs::remove_file(&self.socket)?;
        self.serving.abort();
        Ok(())
    }
}

/// The report that a plugin was notified that it is registered.
struct Told {
    number: usize,
    at: Duration,
}

/// The answers of a plugin to calls.
struct Answers {
    number: usize,
    told: UnboundedSender<Told>,
}

impl Service for Answers {
    fn call(&self, path: &str, message: &[u8]) -> Result<Vec<u8>, Status> {
        match path {
            registration::GET_INFO => Ok(info(self.number).encode_to_vec()),
            registration::NOTIFY_REGISTRATION_STATUS => {
                let at = now();
                let status = RegistrationStatus::decode(message).map_err(|_| INVALID_ARGUMENT)?;
                assert!(status.plugin_registered, "refused: {}", status.error);
                let _ = self.told.send(Told {
                    number: self.number,
                    at,
                });
                Ok(RegistrationStatusResponse {}.encode_to_vec())
            }
            _ => Err(UNIMPLEMENTED),
        }
    }
}

/// Does nothing but serve connections for this long.
async fn serve_for(time: Duration) {
    let _ = timeout(time, future::pending::<()>()).await;
}

/// Returns the info that plugin `number` reports.
fn info(number: usize) -> PluginInfo {
    PluginInfo {
        r#type: TYPE.to_owned(),
        name: name(number),
        endpoint: String::new(),
        supported_versions: vec!["1.0.0".to_owned()],
    }
}

fn name(number: usize) -> String {
    format!("driver-{number:05}.csi.example.com")
}

/// Prints the path of a socket that listens.
fn announce(socket: &Path) -> io::Result<()> {
    writeln!(io::stdout(), "{}", socket.display())
}

/// The number of plugins beyond which they are in a subdirectory: the daemon accepts few more in
/// one.
const MOST_IN_ONE: usize = 1_500;
