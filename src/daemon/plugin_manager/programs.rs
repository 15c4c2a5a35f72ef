//! The programs that handlers run, with their entries in the journal.

use super::PluginManager;
use crate::handler::{EffectId, Program, ProgramEnd, ProgramOutcome};
use crate::manager;
use crate::time::Time;

impl PluginManager {
    /// Queues a program to be started, once its entry is in the journal of the state file, if there
    /// is one.
    pub(super) fn start_program(&mut self, id: EffectId, program: Program, now: Time) {
        let file = self.state_file.as_mut();
        match file.map_or(Ok(None), |file| file.journal_entry(id, &self.manager)) {
            Ok(entry) => self.programs.start(id, program, entry),
            Err(reason) => {
                let end = ProgramEnd::NotStarted(reason.to_owned());
                self.program_ended(id, ProgramOutcome::silent(end), now);
            }
        }
    }

    /// Starts the next program, and reports those that have ended.
    pub(super) fn advance_programs(&mut self, now: Time) {
        for (id, outcome) in self.programs.advance(self.poll.registry()) {
            self.program_ended(id, outcome, now);
        }
    }

    /// Kills a program, and reports its end before the kernel does: a program that waits for a disk
    /// that does not answer cannot end.
    pub(super) fn kill_program(&mut self, id: EffectId, now: Time) {
        let outcome = ProgramOutcome::silent(self.programs.kill(id));
        self.program_ended(id, outcome, now);
    }

    fn program_ended(&mut self, id: EffectId, outcome: ProgramOutcome, now: Time) {
        let ended = manager::Input::ProgramEnded { id, outcome };
        self.manager.handle_input(ended, now);
    }
}
