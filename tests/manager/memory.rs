//! The memory budget, and handlers that state what they keep.

use plugind::config::{LEAST_MEMORY_BUDGET, SMALL_SHARE};
use plugind::handler::Answer;
use plugind::manager::event::EventKind;

use crate::effects::{Ask, PAUSE, planned};
use crate::script::Script;
use crate::world::World;

const A: &str = "/r/a.sock";
const B: &str = "/r/b.sock";

fn appear(world: &mut World, path: &str, name: &str) {
    world.appear(path, Script::good("CSIPlugin", name));
}

fn used(world: &World) -> usize {
    let [.., memory] = world.manager.usage();
    memory.used
}

fn cuts(world: &World) -> usize {
    let is_cut = |kind: &EventKind| matches!(kind, EventKind::OverBudget { .. });
    world.events.iter().filter(|it| is_cut(&it.kind)).count()
}

#[test]
fn what_a_handler_keeps_counts_until_it_states_less_and_until_its_plugin_goes() {
    let (mut world, plan) = planned();
    appear(&mut world, A, "a");
    let described = used(&world);
    assert!((100..1000).contains(&described), "{described}");
    plan.then(
        "register",
        &[Ask::Keep(100_000), Ask::Keep(200_000)],
        Answer::YES,
    );
    plan.then("registered", &[Ask::Timer], Answer::YES);
    plan.then("fired", &[Ask::Keep(50_000), Ask::Timer], Answer::YES);
    plan.then("fired", &[Ask::Keep(0)], Answer::YES);
    appear(&mut world, B, "b");
    assert_eq!(used(&world), 2 * described + 200_000);
    world.advance(PAUSE);
    assert_eq!(used(&world), 2 * described + 50_000);
    world.advance(PAUSE);
    assert_eq!(used(&world), 2 * described);
    plan.then("promoted", &[Ask::Keep(7_000)], Answer::YES);
    for socket in [A, B] {
        world.vanish(socket);
    }
    assert_eq!((used(&world), cuts(&world)), (0, 0));
}

#[test]
fn a_handler_that_drops_nothing_is_asked_once_and_its_plugin_stays_registered() {
    let (mut world, plan) = planned();
    plan.then("registered", &[Ask::Keep(2 << 24)], Answer::YES);
    plan.then("over budget", &[Ask::Keep(2 << 24)], Answer::YES);
    appear(&mut world, A, "a");
    assert_eq!(
        plan.take(),
        "validate a, register a, registered a, over budget a"
    );
    assert_eq!(cuts(&world), 1);
    assert_eq!(world.counts(), (1, 1));
    assert!(used(&world) > 2 << 24);
    world.vanish(A);
    assert_eq!((plan.take(), used(&world)), ("deregister a".to_owned(), 0));
}

#[test]
fn a_plugin_is_cut_for_a_small_one_only_if_it_holds_more() {
    let (mut world, plan) = planned();
    plan.then("register", &[Ask::Keep(SMALL_SHARE)], Answer::YES);
    plan.then("register", &[Ask::Keep(SMALL_SHARE / 2)], Answer::YES);
    appear(&mut world, A, "a");
    world
        .manager
        .set_memory_budget(used(&world) + SMALL_SHARE / 2);
    plan.take();
    appear(&mut world, B, "b");
    let told = plan.take();
    assert!(
        told.contains("over budget a") && !told.contains("over budget b"),
        "{told}"
    );
    assert_eq!((world.counts(), cuts(&world)), ((2, 2), 1));
}

#[test]
fn a_program_that_holds_much_is_not_started_at_the_budget() {
    let (mut world, plan) = planned();
    world.manager.set_memory_budget(LEAST_MEMORY_BUDGET);
    let full = [Ask::Keep(LEAST_MEMORY_BUDGET - 10_000)];
    plan.then("register", &full, Answer::YES);
    let programs = [Ask::LargeProgram(3_000), Ask::LargeProgram(20_000)];
    plan.then("registered", &programs, Answer::YES);
    appear(&mut world, A, "a");
    assert_eq!(world.programs.len(), 1);
    let told = plan.take();
    assert_eq!(told, "validate a, register a, registered a, program a");
}

#[test]
fn a_deregistration_that_is_owed_counts() {
    let (mut world, plan) = planned();
    plan.then("deregister", &[Ask::Debt], Answer::YES);
    appear(&mut world, A, "a");
    let described = used(&world);
    world.vanish(A);
    assert_eq!(used(&world), described);
}
