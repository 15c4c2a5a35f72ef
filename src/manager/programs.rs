//! The programs that handlers ask for, with limits on their number and their running time.
//!
//! Pure. A program counts as running from its [`Output::Spawn`] until the daemon reports its end or
//! its time is over; a late report of a killed program is ignored.

use std::collections::VecDeque;

use litemap::LiteMap;

use super::{Manager, Output, Wake};
use crate::config::MAX_PROGRAMS;
use crate::handler::{EffectId, Event, HandlerId, Program, ProgramEnd, ProgramOutcome};
use crate::time::Time;

/// The programs that run, and those that wait, in the order in which they were asked for.
#[derive(Debug, Default)]
pub(super) struct Programs {
    running: LiteMap<EffectId, HandlerId>,
    waiting: VecDeque<(EffectId, HandlerId, Program)>,
}

impl Programs {
    /// Returns the number of programs that run.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }
}

impl Manager {
    pub(super) fn spawn(&mut self, handler: HandlerId, id: EffectId, program: Program, now: Time) {
        self.programs.waiting.push_back((id, handler, program));
        self.start_programs(now);
    }

    /// Starts programs that wait, up to [`MAX_PROGRAMS`] at a time.
    fn start_programs(&mut self, now: Time) {
        while self.programs.running.len() < MAX_PROGRAMS {
            let Some((id, handler, program)) = self.programs.waiting.pop_front() else {
                return;
            };
            self.programs.running.insert(id, handler);
            let deadline = now + program.timeout;
            self.deadlines.set(Wake::Program(id), Some(deadline));
            self.outputs.push_back(Output::Spawn { id, program });
        }
    }

    pub(super) fn program_ended(&mut self, id: EffectId, outcome: ProgramOutcome, now: Time) {
        if let Some(handler) = self.programs.running.remove(&id) {
            self.deadlines.set(Wake::Program(id), None);
            self.tell(handler, Event::ProgramEnded { id, outcome });
            self.start_programs(now);
        }
    }

    /// Kills a program whose time is over.
    pub(super) fn program_overdue(&mut self, id: EffectId, now: Time) {
        self.outputs.push_back(Output::Kill { id });
        self.program_ended(id, ProgramOutcome::silent(ProgramEnd::TimedOut), now);
    }

    /// Cancels a program, whether it runs or waits.
    pub(super) fn cancel_program(&mut self, id: EffectId, now: Time) {
        if self.programs.running.remove(&id).is_some() {
            self.deadlines.set(Wake::Program(id), None);
            self.outputs.push_back(Output::Kill { id });
            self.start_programs(now);
        } else {
            self.programs.waiting.retain(|(waiting, ..)| *waiting != id);
        }
    }
}
