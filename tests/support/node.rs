//! A plugin manager in the loop of a test, on a real directory. Nothing sleeps: each wait is for an
//! event, with a bound.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use plugind::config::Config;
use plugind::daemon::PluginManager;
use plugind::handler::{self, Answer, Context, HandlerTable, PluginHandler};
use plugind::manager::Socket;
use plugind::proto::pluginregistration::RegistrationStatus;
use tempfile::TempDir;

use super::plugin::Plugin;

/// Returns the configuration of a daemon that watches `dir`.
pub(crate) fn watching(dir: &Path) -> Config {
    Config {
        plugins_dirs: vec![dir.to_owned()],
        ..Config::default()
    }
}

/// A plugin manager on a new directory, with a handler that records its calls.
pub(crate) struct Node {
    pub(crate) dir: TempDir,
    pub(crate) plugins: PluginManager,
    pub(crate) record: Record,
}

impl Node {
    pub(crate) fn start() -> Self {
        Self::start_on(tempfile::tempdir().unwrap())
    }

    pub(crate) fn start_on(dir: TempDir) -> Self {
        let config = watching(dir.path());
        Self::start_with(dir, &config)
    }

    pub(crate) fn start_with(dir: TempDir, config: &Config) -> Self {
        let record = Record::default();
        let mut handlers = HandlerTable::new();
        handlers.add(["CSIPlugin"], record.clone());
        Self {
            record,
            ..Self::start_handling(dir, config, handlers)
        }
    }

    /// Starts a plugin manager with handlers of the test, whose calls are not recorded.
    pub(crate) fn start_handling(dir: TempDir, config: &Config, handlers: HandlerTable) -> Self {
        Self {
            dir,
            plugins: PluginManager::new(config, handlers).unwrap(),
            record: Record::default(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Takes turns until `answer` returns a value.
    #[track_caller]
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        mut answer: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = answer(self) {
                return answer;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "timed out: {what}");
            // A plugin's thread may have the answer without any event for this loop.
            self.plugins.turn(Some(left.min(LOOK_AGAIN))).unwrap();
        }
    }

    /// Takes turns until the plugin was notified, and returns what of.
    #[track_caller]
    pub(crate) fn until_notified(&mut self, plugin: &Plugin) -> RegistrationStatus {
        self.until("the plugin is notified", |_| plugin.try_notified())
    }

    /// Takes turns until the plugin was notified that it is registered.
    #[track_caller]
    pub(crate) fn until_registered(&mut self, plugin: &Plugin) {
        let notified = self.until_notified(plugin);
        assert!(notified.plugin_registered, "{notified:?}");
    }

    /// Serves a CSI plugin on a socket below the directory, and takes turns until it was notified
    /// that it is registered.
    #[track_caller]
    pub(crate) fn register(&mut self, socket: impl AsRef<Path>, name: &str) -> Plugin {
        let plugin = Plugin::serve(&self.dir.path().join(socket), name);
        self.until_registered(&plugin);
        plugin
    }

    /// Takes turns until `last` is the last call to the handler. Returns descriptions of all calls.
    #[track_caller]
    pub(crate) fn until_handler_is_told(&mut self, last: &str) -> Vec<String> {
        let mut words = Vec::new();
        self.until(last, |node| {
            words.extend(node.record.take());
            (words.last().map(String::as_str) == Some(last)).then(|| words.clone())
        })
    }

    /// Takes turns until the handler has been called with the last of these questions, which are
    /// separated by commas, and fails if there were others.
    #[track_caller]
    pub(crate) fn until_asked(&mut self, questions: &str) {
        let last = questions.rsplit(", ").next().unwrap_or_default();
        let asked = self.until_handler_is_told(last).join(", ");
        assert_eq!(asked, questions);
    }

    #[track_caller]
    pub(crate) fn until_desired(&mut self, count: usize) {
        self.until("the number of sockets", |node| {
            let sockets = node.plugins.manager().sockets();
            (sockets.filter_map(Socket::desired).count() == count).then_some(())
        });
    }

    /// Takes turns until the loop has nothing to do and no deadline within a minute.
    #[track_caller]
    pub(crate) fn until_quiet(&mut self) {
        self.until("the loop has nothing to do", |node| {
            let next = node.plugins.poll_timeout();
            next.is_none_or(|next| next > Duration::from_secs(60))
                .then_some(())
        });
    }

    /// Returns whether the descriptor of the loop is readable.
    pub(crate) fn is_readable(&self) -> bool {
        let mut polled = [PollFd::new(self.plugins.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).unwrap() > 0
    }

    pub(crate) fn registered(&self) -> usize {
        self.plugins.manager().registered().count()
    }

    pub(crate) fn is_registered(&self, socket: &Path) -> bool {
        let socket = self.plugins.manager().socket(socket);
        socket.is_some_and(|socket| socket.registered().is_some())
    }
}

/// The questions to a handler that accepts every plugin. Clones share one record.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<String>>>);

impl Record {
    /// Removes and returns the questions, oldest first.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn accept(&self, question: &str, plugin: &handler::Plugin) -> Answer {
        let mut asked = self.0.lock().unwrap();
        asked.push(format!("{question} {}", plugin.name));
        Answer::YES
    }
}

impl PluginHandler for Record {
    fn validate(&mut self, plugin: &Arc<handler::Plugin>, _: &mut Context<'_>) -> Answer {
        self.accept("validate", plugin)
    }

    fn register(&mut self, plugin: &Arc<handler::Plugin>, _: &mut Context<'_>) -> Answer {
        self.accept("register", plugin)
    }

    fn deregister(&mut self, plugin: &Arc<handler::Plugin>, _: &mut Context<'_>) -> Answer {
        self.accept("deregister", plugin)
    }
}

/// The time limit for every wait here, a hundred times what it takes, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest wait for this loop before `answer` is called again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
