//! What a daemon that was killed has run, and what follows from that at its next start. The state
//! file is of the last program's start, or of a later moment.

use std::collections::BTreeMap;
use std::path::Path;

use plugind::handler::{EffectId, ProgramEnd, ProgramOutcome};
use plugind::manager::{Input, SavedState};

use crate::exec::{end_first, manager, running};
use crate::script::Script;
use crate::world::World;

const A: &str = "/r/a-reg.sock";
const B: &str = "/r/b-reg.sock";

fn disk(name: &str) -> Script {
    Script::good("CSIPlugin", name)
}

/// Writes the state file, as the daemon does some time after a change.
fn save(world: &mut World) {
    world.state_file = Some(world.manager.snapshot("boot").encode());
}

/// Kills the daemon, and starts another one that has read the state file. The watch has reported
/// nothing yet.
fn kill(world: &mut World) {
    world.restart(manager());
    if let Some(file) = &world.state_file {
        let state = SavedState::decode(file, "boot").expect("it was just written");
        world.manager.restore(state);
    }
    world.manager.handle_timeout(world.now);
    world.run();
}

/// Reports what the watch finds after a start.
fn look(world: &mut World) {
    let exists = world.paths();
    for path in world.manager.restored() {
        if !exists.iter().any(|it| Path::new(it) == &*path) {
            world.manager.handle_input(Input::Lost { path }, world.now);
        }
    }
    for path in exists {
        world.notice(&path);
    }
    world.run();
}

fn appear(world: &mut World, path: &str, name: &str) {
    world.appear(path, disk(name));
}

/// Has the oldest running program succeed.
fn succeed(world: &mut World) {
    end_first(world, ProgramEnd::Exited(0));
}

/// Has the oldest running program fail.
fn fail(world: &mut World) {
    end_first(world, ProgramEnd::Exited(1));
}

#[test]
fn an_add_is_undone_before_that_of_another_at_the_same_path() {
    for name in ["a", "b"] {
        let mut world = World::with(manager());
        world.appear(A, disk("a"));
        succeed(&mut world);
        world.create(A, disk(name));
        kill(&mut world);
        look(&mut world);
        assert_eq!(running(&world), ["del a"]);
        succeed(&mut world);
        assert_eq!(running(&world), [format!("add {name}")]);
    }
}

// --- Every moment ---

/// A step of the story in which the daemon is killed.
type Step = fn(&mut World);

/// What happens until the daemon is killed. Several programs run at once, in part until the end.
const STORY: [Step; 14] = [
    |world| appear(world, A, "a"),
    |world| appear(world, B, "b"),
    succeed,
    fail,
    |world| world.vanish(B),
    |world| appear(world, B, "c"),
    succeed,
    |world| world.vanish(A),
    |world| appear(world, A, "d"),
    succeed,
    |world| world.vanish(B),
    |world| appear(world, B, "c"),
    succeed,
    |world| world.vanish(A),
];

#[test]
fn programs_and_plugins_agree_after_each_kill_and_save() {
    let mut run = 0;
    for killed in 0..=STORY.len() {
        for saved in 0..=killed {
            for gone in [None, Some(A), Some(B)] {
                run += play(killed, saved, gone);
            }
        }
    }
    assert!(run > 100, "{run}");
}

/// Plays the story until the daemon is killed before one step. Its state was saved before another
/// step, too, unless that is the first. The socket at the path `gone` is removed meanwhile. Returns
/// the number of programs that the next daemon has run.
fn play(killed: usize, saved: usize, gone: Option<&str>) -> usize {
    let case = format!("killed={killed} saved={saved} gone={gone:?}");
    let mut world = World::with(manager());
    let mut log = Vec::new();
    for (n, step) in STORY[..killed].iter().enumerate() {
        if n == saved && n > 0 {
            save(&mut world);
        }
        let before: Vec<_> = world.programs.keys().copied().collect();
        step(&mut world);
        note(&world, &before, &mut log);
    }
    if saved == killed && killed > 0 {
        save(&mut world);
    }
    if let Some(path) = gone.filter(|path| world.paths().iter().any(|it| it == path)) {
        world.remove(path);
    }
    let before_it = log.len();
    kill(&mut world);
    note(&world, &[], &mut log);
    let before: Vec<_> = world.programs.keys().copied().collect();
    look(&mut world);
    note(&world, &before, &mut log);
    while let Some((id, _)) = world.programs.pop_first() {
        let before: Vec<_> = world.programs.keys().copied().collect();
        let outcome = ProgramOutcome::silent(ProgramEnd::Exited(0));
        let ended = Input::ProgramEnded { id, outcome };
        world.input(ended);
        note(&world, &before, &mut log);
    }
    let registered: Vec<_> = world.manager.registered().collect();
    let mut last = BTreeMap::new();
    for line in &log {
        let (verb, name) = line.split_once(' ').expect("a verb and a name");
        let before = last.insert(name, verb);
        let is_twice = before == Some("add") && verb == "add" && name != "b";
        assert!(!is_twice, "{case}: {log:?}");
    }
    for (name, verb) in last {
        let is_known = verb != "del";
        let exists = registered.iter().any(|it| it.plugin.name == name);
        // The `add` of b has failed, and is trusted to have undone its work.
        let agrees = is_known == exists || (name == "b" && !exists);
        assert!(agrees, "{case}: {name} exists={exists}: {log:?}");
    }
    log.len() - before_it
}

/// Notes the programs that were started in a step.
fn note(world: &World, before: &[EffectId], log: &mut Vec<String>) {
    for (id, program) in &world.programs {
        if !before.contains(id) {
            let word = |n: usize| program.arguments[n].to_string_lossy();
            log.push(format!("{} {}", word(0), word(2)));
        }
    }
}
