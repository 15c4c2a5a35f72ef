//! The two plugin managers, each with a handler that decides in the same way.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plugind::config::Config;
use plugind::daemon::PluginManager;
use plugind::handler::{Answer, Context, HandlerTable, Plugin, PluginHandler};

/// One of the two plugin managers.
#[derive(Clone, Copy)]
pub(crate) enum Which<'a> {
    /// Kubelet's, in the program at this path.
    Kubelet(&'a Path),
    Plugind,
}

/// A running plugin manager, and the calls of its handler.
pub(crate) struct Subject {
    calls: Arc<Mutex<Vec<String>>>,
    running: Running,
}

enum Running {
    Kubelet(Child),
    Plugind(Arc<AtomicBool>, Option<JoinHandle<()>>),
}

impl Subject {
    pub(crate) fn start(which: Which<'_>, dir: &Path) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let running = match which {
            Which::Kubelet(program) => Running::Kubelet(kubelet(program, dir, &calls)),
            Which::Plugind => plugind(dir, &calls),
        };
        Self { calls, running }
    }

    /// Returns the calls of the handler so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        match &mut self.running {
            Running::Kubelet(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Running::Plugind(over, thread) => {
                over.store(true, Ordering::Relaxed);
                let _ = thread.take().map(JoinHandle::join);
            }
        }
    }
}

fn kubelet(program: &Path, dir: &Path, calls: &Arc<Mutex<Vec<String>>>) -> Child {
    let mut command = Command::new(program);
    // The path that the program is given has to begin with the directory's own name.
    command.current_dir(dir.parent().unwrap());
    command.args(dir.file_name()).args([TYPE, "record"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let calls = Arc::clone(calls);
    thread::spawn(move || {
        for line in said.lines().map_while(Result::ok) {
            calls.lock().unwrap().push(line);
        }
    });
    child
}

fn plugind(dir: &Path, calls: &Arc<Mutex<Vec<String>>>) -> Running {
    let over = Arc::new(AtomicBool::new(false));
    let config = Config {
        plugins_dirs: vec![dir.to_owned()],
        ..Config::default()
    };
    let recorder = Recorder {
        calls: Arc::clone(calls),
        refused: BTreeSet::new(),
    };
    let is_over = Arc::clone(&over);
    let thread = thread::spawn(move || {
        let mut handlers = HandlerTable::new();
        handlers.add([TYPE], recorder);
        let mut plugins = PluginManager::new(&config, handlers).unwrap();
        while !is_over.load(Ordering::Relaxed) {
            plugins.turn(Some(TURN)).unwrap();
        }
    });
    Running::Plugind(over, Some(thread))
}

/// A handler that records its calls. `tests/peers/kubelet` has the same.
struct Recorder {
    calls: Arc<Mutex<Vec<String>>>,
    /// The names that were refused once.
    refused: BTreeSet<String>,
}

impl Recorder {
    fn note(&self, question: &str, plugin: &Plugin, more: &str) {
        let (name, endpoint) = (&plugin.name, plugin.endpoint.display());
        let words = format!("{question} {name} {endpoint}{more}");
        self.calls.lock().unwrap().push(words);
    }

    fn note_versions(&self, question: &str, plugin: &Plugin) {
        self.note(question, plugin, &format!(" {}", plugin.versions.join(",")));
    }
}

impl PluginHandler for Recorder {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.note_versions("validate", plugin);
        if plugin.name.starts_with("invalid") {
            return Answer::no("it is not acceptable");
        }
        Answer::YES
    }

    fn register(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.note_versions("register", plugin);
        let name = &plugin.name;
        let is_refused = name.starts_with("once") && self.refused.insert(name.clone())
            || name.starts_with("refused");
        if is_refused {
            return Answer::no("it cannot be used");
        }
        Answer::YES
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.note("deregister", plugin, "");
        Answer::YES
    }
}

/// The type of all plugins that should be registered.
pub(crate) const TYPE: &str = "CSIPlugin";

/// The longest wait of one turn.
const TURN: Duration = Duration::from_millis(50);
