//! A handler that records what it is asked, and answers as a test wants.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use plugind::handler::{Answer, Context, Plugin, PluginHandler, Ticket};

/// The answer that accepts.
pub(crate) const YES: Answer = Answer::YES;

/// The answer that leaves the question open.
pub(crate) const WAIT: Answer = Answer::Pending;

/// Returns the answer that refuses for this reason.
pub(crate) fn no(reason: &str) -> Answer {
    Answer::no(reason)
}

/// What the recording handler was asked, and its next answers; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<LogState>>);

#[derive(Debug, Default)]
struct LogState {
    notified: Vec<String>,
    answers: VecDeque<Answer>,
    open: Vec<Ticket>,
}

impl Log {
    /// Adds answers to the next questions; after these, every answer is yes.
    pub(crate) fn will_answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.lock().answers.extend(answers);
    }

    /// Returns the questions that were left open since the last call, oldest first.
    pub(crate) fn open(&self) -> Vec<Ticket> {
        std::mem::take(&mut self.lock().open)
    }

    /// Returns what the handler was asked since the last call.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.lock().notified).join(", ")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LogState> {
        self.0.lock().expect("no panic under the lock")
    }

    fn asked(&self, what: &str, plugin: &Plugin, context: &Context<'_>) -> Answer {
        let mut state = self.lock();
        let mut line = format!("{what} {}", plugin.name);
        if plugin.endpoint != plugin.socket {
            write!(line, "@{}", plugin.endpoint.display()).expect("a string can be written to");
        }
        state.notified.push(line);
        let answer = state.answers.pop_front().unwrap_or(Answer::YES);
        if answer == Answer::Pending {
            state.open.extend(context.ticket());
        }
        answer
    }
}

#[derive(Debug)]
pub(crate) struct Recorder(pub(crate) Log);

impl PluginHandler for Recorder {
    fn validate(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.0.asked("validate", plugin, context)
    }

    fn register(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.0.asked("register", plugin, context)
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, context: &mut Context<'_>) -> Answer {
        self.0.asked("deregister", plugin, context)
    }

    fn promoted(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) {
        let line = format!("promoted {}@{}", plugin.name, plugin.endpoint.display());
        self.0.lock().notified.push(line);
    }

    fn abandon(&mut self, _: Ticket, _: &mut Context<'_>) {
        self.0.lock().notified.push("abandon".into());
    }
}
