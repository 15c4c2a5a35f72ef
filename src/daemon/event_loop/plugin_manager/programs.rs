//! Runs the programs of handlers, each only after the plugin that it may set up is saved.

use super::PluginManager;
use crate::config::TrustMode;
use crate::daemon::fs::permissions;
use crate::handler::{EffectId, ProgramEnd, ProgramOutcome};
use crate::manager;
use crate::time::Time;

impl PluginManager {
    /// Starts the next program, and reports the programs that have ended or cannot be started.
    ///
    /// A run of `add` may set up a plugin, so it is not started if the plugin cannot be saved. It
    /// is started without a state file, or if the boot is unknown, because nothing can be saved
    /// then. Any other run is about a plugin that is saved already, and is repeated after a
    /// restart. In strict mode, a program that other users can change is not started.
    pub(super) fn start_and_reap_programs(&mut self, now: Time) {
        while let Some((next, program)) = self.programs.waiting.front() {
            let next = *next;
            let problem = match self.trust.mode {
                TrustMode::Warn => None,
                TrustMode::Strict => {
                    permissions::resolve_trusted_program(&program.path, false).err()
                }
            };
            let file = self.state_file.as_mut();
            let saved = file.map_or(Ok(()), |file| file.save(&self.manager, now));
            let reason = match (problem, saved) {
                (Some(problem), _) => problem.to_string(),
                (None, Err(reason)) if self.manager.is_add_program(next) => reason,
                _ => break,
            };
            self.programs.waiting.pop_front();
            let end = ProgramEnd::NotStarted(reason);
            self.report_program_end(next, ProgramOutcome::silent(end), now);
        }
        for (id, outcome) in self.programs.start_and_reap(self.poll.registry()) {
            self.report_program_end(id, outcome, now);
        }
    }

    /// Kills a program, and reports its end before the kernel does: a program that waits for a disk
    /// that does not answer cannot end.
    pub(super) fn kill_program(&mut self, id: EffectId, now: Time) {
        let outcome = ProgramOutcome::silent(self.programs.kill(id));
        self.report_program_end(id, outcome, now);
    }

    fn report_program_end(&mut self, id: EffectId, outcome: ProgramOutcome, now: Time) {
        let ended = manager::Input::ProgramEnded { id, outcome };
        self.manager.handle_input(ended, now);
    }
}
