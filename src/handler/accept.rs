//! A handler that accepts every plugin and records its calls.
//!
//! For types that need no work on this node, for experiments, and for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Answer, Context, Plugin, PluginHandler};

/// A handler that accepts every plugin of its types.
#[derive(Debug, Default)]
pub struct AcceptHandler {
    record: Record,
}

impl AcceptHandler {
    /// Returns the record, which stays readable after the handler has been given away.
    pub fn record(&self) -> Record {
        self.record.clone()
    }
}

impl PluginHandler for AcceptHandler {
    fn validate(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.record.push(RecordedCall::Validate(plugin.clone()));
        Answer::YES
    }

    fn register(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.record.push(RecordedCall::Register(plugin.clone()));
        Answer::YES
    }

    fn deregister(&mut self, plugin: &Arc<Plugin>, _: &mut Context<'_>) -> Answer {
        self.record.push(RecordedCall::Deregister(plugin.clone()));
        Answer::YES
    }
}

/// A recorded call of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedCall {
    /// The plugin was to be validated.
    Validate(Arc<Plugin>),
    /// The plugin was to be registered.
    Register(Arc<Plugin>),
    /// The plugin was to be deregistered.
    Deregister(Arc<Plugin>),
}

/// The last [`MAX_RECORDED`] calls of a handler. Clones share one record.
#[derive(Clone, Debug, Default)]
pub struct Record(Arc<Mutex<VecDeque<RecordedCall>>>);

impl Record {
    /// Removes and returns the recorded calls, oldest first.
    pub fn take(&self) -> Vec<RecordedCall> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
            .collect()
    }

    fn push(&self, call: RecordedCall) {
        let mut record = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if record.len() == MAX_RECORDED {
            record.pop_front();
        }
        record.push_back(call);
    }
}

/// The number of calls that are kept: a debugging aid must not grow with the number of plugins.
pub const MAX_RECORDED: usize = 64;
