//! Runs in which the node has faults: the daemon is killed, the disk is full, descriptors run
//! short, file systems do not answer, programs and device plugins fail, and handlers and
//! directories change. As with the events, weights decide which of these a run has.

use plugind::handler::{ExecHandler, HandlerTable, ProgramEnd};
use plugind::manager::{Input, Manager};

use super::announcer::Announcer;
use super::events::Happening;
use super::{Simulation, choose, weigh};
use crate::node::{OTHER_ROOT, ROOT};
use crate::rng::Rng;
use crate::script::Script;

/// The faults of a run, and their random numbers.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) rng: Rng,
    weights: Vec<u64>,
}

impl Faults {
    /// Returns whether the state file and the devices are checked at this step.
    pub(super) fn is_any_check_due(&mut self) -> bool {
        self.rng.one_in(4)
    }
}

/// All faults, each with its weight relative to the others.
const FAULTS: [(u64, Happening); 16] = [
    (10, ("a plugin of these binds", Simulation::bind_built_in)),
    (10, ("all arrives and is done", Simulation::catch_up)),
    (12, ("a program ends", Simulation::end_program)),
    (1, ("programs are missing, or not", Simulation::miss)),
    (5, ("devices change", Simulation::change_devices)),
    (2, ("a device list is invalid", Simulation::list_nonsense)),
    (2, ("streams of devices end", Simulation::end_streams)),
    (1, ("the daemon is stopped", Simulation::stop_and_start)),
    (1, ("the daemon is killed", Simulation::kill_daemon)),
    (1, ("the daemon dies in a turn", Simulation::kill_in_turn)),
    (
        2,
        ("the disk is full, slow or well", Simulation::change_disk),
    ),
    (2, ("descriptors run short, or not", Simulation::run_short)),
    (2, ("a file system hangs, or not", Simulation::hang)),
    (1, ("a root is added or removed", Simulation::toggle_root)),
    (1, ("a type gets a handler", Simulation::add_type)),
    (1, ("a handler is replaced", Simulation::replace_built_in)),
];

/// The directories that are watched, or not: one inside another, and one apart.
const ROOTS: [&str; 3] = [ROOT, "/r/d", OTHER_ROOT];

/// The directories at which a file system may be mounted that does not answer.
const MOUNTED: [&str; 4] = ["/r/d", "/r/f", OTHER_ROOT, "/p"];

impl Simulation {
    /// Creates a run with faults of the node. In every other run plugins announce themselves, too.
    pub(super) fn with_faults(seed: u64, is_loud: bool) -> Self {
        let mut simulation = Self::new(seed, is_loud);
        let mut rng = Rng::new(seed.rotate_left(48));
        simulation.restarts.clear();
        if rng.one_in(2) {
            simulation.announcer = Some(Announcer::new(seed));
        }
        let weights = weigh(1, &FAULTS, &mut rng);
        simulation.faults = Some(Faults { rng, weights });
        simulation.node.make_directory(OTHER_ROOT);
        let manager = std::mem::replace(
            &mut simulation.node.world.manager,
            Manager::new(HandlerTable::new()),
        );
        simulation.node.world.manager = simulation.with_built_in(manager);
        simulation
    }

    /// Causes a fault, or an event as in the other runs.
    pub(super) fn happen_or_fail(&mut self) {
        let Some(faults) = &mut self.faults else {
            return self.happen();
        };
        let total: u64 = faults.weights.iter().sum();
        let at = faults.rng.below(0..total.max(1) * 3);
        match choose(at, &faults.weights, &FAULTS) {
            Some((_, fault)) => self.cause(*fault),
            None => self.happen(),
        }
    }

    /// Ends all faults of the node.
    pub(super) fn recover(&mut self) {
        if self.faults.is_none() {
            return;
        }
        (self.disk.is_full, self.disk.is_slow) = (false, false);
        self.set_descriptors(None);
        self.node.world.has_descriptors = true;
        self.node.answer_again();
        self.node.watch_root();
        self.programs.is_missing = false;
        self.accept_programs();
        self.node.world.program_end = Some(ProgramEnd::Exited(0));
        self.node.world.run();
        self.accept_programs();
    }

    // --- The handlers ---

    /// Adds the built-in handlers to a manager.
    pub(super) fn with_built_in(&mut self, mut manager: Manager) -> Manager {
        let now = self.node.world.now;
        manager.add_handler(["Program"], ExecHandler::new("/lib/hook"), now);
        manager.add_handler(["Gadget"], self.devices.handler(), now);
        manager
    }

    /// Replaces a built-in handler by another one of its kind.
    fn replace_built_in(&mut self) {
        let now = self.node.world.now;
        if self.rng.one_in(2) {
            self.programs.handler_replaced();
            let handler = ExecHandler::new("/lib/hook");
            let manager = &mut self.node.world.manager;
            manager.add_handler(["Program"], handler, now);
        } else {
            let handler = self.devices.handler();
            let manager = &mut self.node.world.manager;
            manager.add_handler(["Gadget"], handler, now);
        }
    }

    /// Adds a handler for a type that had none.
    fn add_type(&mut self) {
        if !self.types.contains(&"Unknown") {
            self.types.push("Unknown");
        }
        self.oracle = self.oracle.next();
        let (handler, now) = (self.oracle.clone(), self.node.world.now);
        let types = self.types.clone();
        self.node.world.manager.add_handler(types, handler, now);
        self.dials.clear();
    }

    /// Binds a plugin of a type with a built-in handler.
    fn bind_built_in(&mut self) {
        let path = self.path();
        let name = *self.rng.pick(&super::events::NAMES).expect("a name");
        let script = if self.rng.one_in(2) {
            Script::good("Program", name)
        } else {
            let count = if self.rng.one_in(8) { 300 } else { 3 };
            self.devices.script(name, count)
        };
        let is_gadget = !script.services.is_empty();
        self.say(format_args!("  {path}: {:?}", script.info));
        self.node.bind(path, Some(script), false);
        let identity = self.node.world.identity(path.as_ref());
        if let Some(identity) = identity.filter(|_| is_gadget) {
            self.devices.listens(identity);
        }
    }

    // --- The system ---

    fn change_disk(&mut self) {
        self.disk.is_full = self.rng.one_in(3);
        self.disk.is_slow = self.rng.one_in(3);
    }

    /// Has the system refuse descriptors, or the manager count on a few of them only.
    fn run_short(&mut self) {
        self.node.world.has_descriptors = !self.rng.one_in(4);
        let limit = 2 + usize::try_from(self.rng.below(0..8)).expect("a small number");
        let limit = (!self.rng.one_in(3)).then_some(limit);
        self.say(format_args!("  limit: {limit:?}"));
        self.set_descriptors(limit);
    }

    pub(super) fn set_descriptors(&mut self, limit: Option<usize>) {
        let world = &mut self.node.world;
        world.limit_descriptors(limit.unwrap_or(usize::MAX));
        // A limit that is raised lets sockets go ahead with the next event.
        world.manager.handle_input(Input::Reconsider, world.now);
        self.waiting.limit = limit;
    }

    fn hang(&mut self) {
        let dir = *self.rng.pick(&MOUNTED).expect("the list is not empty");
        self.say(format_args!("  {dir}"));
        self.node.toggle_answering(dir);
    }

    fn miss(&mut self) {
        self.programs.is_missing = self.rng.one_in(2);
    }

    fn toggle_root(&mut self) {
        let dir = *self.rng.pick(&ROOTS).expect("the list is not empty");
        self.say(format_args!("  {dir}"));
        self.node.toggle_root(dir);
    }
}
