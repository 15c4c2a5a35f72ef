//! The programs that handlers run.

use plugind::handler::{EffectId, ProgramEnd, ProgramOutcome};
use plugind::manager::Input;

use super::World;

impl World {
    /// Ends a program that runs in this way.
    pub(crate) fn end_program(&mut self, id: EffectId, end: ProgramEnd) {
        self.report_end(id, end);
        self.run();
    }

    /// Ends the oldest program that runs in this way.
    pub(crate) fn end_first(&mut self, end: ProgramEnd) {
        let first = self.programs.keys().next().copied();
        self.end_program(first.expect("a program runs"), end);
    }

    /// Ends the oldest program if programs end at once. Returns whether there was one.
    pub(super) fn end_programs(&mut self) -> bool {
        let next = self.programs.keys().next().copied();
        let (Some(id), Some(end)) = (next, self.program_end.clone()) else {
            return false;
        };
        self.report_end(id, end);
        true
    }

    /// Reports the end of a program, if it runs.
    pub(crate) fn report_end(&mut self, id: EffectId, end: ProgramEnd) {
        if self.programs.remove(&id).is_some() {
            let outcome = ProgramOutcome::silent(end);
            let ended = Input::ProgramEnded { id, outcome };
            self.manager.handle_input(ended, self.now);
        }
    }
}
