//! Tests of the programs that are run, their order, and the answers that follow from their ends.

use std::collections::BTreeMap;

use std::path::Path;

use super::*;
use crate::config::MAX_DEL_TRIES;
use crate::handler::{Effect, EffectIds, EffectOwner};
use crate::proto::pluginregistration::PluginInfo;
use crate::time::Time;

/// A handler, and the effects that it has requested.
struct Bench {
    handler: ExecHandler,
    ids: EffectIds,
    effects: Vec<Effect>,
    /// The plugins whose deregistration is owed.
    owed: BTreeMap<EffectId, Arc<Plugin>>,
    /// The reasons of the events for operators.
    reported: Vec<&'static str>,
    now: Time,
}

impl Bench {
    fn new() -> Self {
        Self {
            handler: ExecHandler::new("/lib/hook"),
            ids: EffectIds::default(),
            effects: Vec::new(),
            owed: BTreeMap::new(),
            reported: Vec::new(),
            now: Time::ZERO,
        }
    }

    fn call<T>(
        &mut self,
        ticket: Option<Ticket>,
        method: impl FnOnce(&mut ExecHandler, &mut Context<'_>) -> T,
    ) -> T {
        let mut context = Context::new(self.now, ticket, &mut self.ids, &mut self.effects);
        context.owner = EffectOwner(1);
        let result = method(&mut self.handler, &mut context);
        let owned = self.effects.iter().filter(|it| !is_detached(it));
        assert_eq!(owned.count(), 0, "{:?}", self.effects);
        let (owed, reported) = (&mut self.owed, &mut self.reported);
        self.effects.retain(|effect| match effect {
            Effect::Owe { id, plugin } => owed.insert(*id, plugin.clone()).is_some(),
            Effect::Cancel { id } => owed.remove(id).is_none(),
            Effect::Emit { notice, .. } => {
                reported.push(notice.reason);
                false
            }
            _ => true,
        });
        result
    }

    /// Asks a question, which the handler must leave pending.
    fn ask(
        &mut self,
        question: impl FnOnce(&mut ExecHandler, &mut Context<'_>) -> Answer,
    ) -> Ticket {
        let ticket = Ticket(self.ids.next(EffectOwner(1)));
        assert_eq!(self.call(Some(ticket), question), Answer::Pending);
        ticket
    }

    fn add(&mut self, plugin: &Arc<Plugin>) -> Ticket {
        self.ask(|handler, context| handler.register(plugin, context))
    }

    fn del(&mut self, plugin: &Arc<Plugin>) -> Ticket {
        self.ask(|handler, context| handler.deregister(plugin, context))
    }

    fn end_program(&mut self, id: EffectId, end: ProgramEnd, errors: &[u8]) {
        let errors = errors.to_vec();
        let outcome = ProgramOutcome { end, errors };
        self.call(None, |handler, context| {
            handler.handle_event(Event::ProgramEnded { id, outcome }, context);
        });
    }

    fn promote(&mut self, plugin: &Arc<Plugin>) {
        self.call(None, |handler, context| handler.promoted(plugin, context));
    }

    /// Reports to the handler that the program of that effect could not be started.
    fn fail_to_start(&mut self, id: EffectId) {
        self.end_program(id, ProgramEnd::NotStarted("no memory".into()), b"");
    }

    /// Returns the only timer among the new effects, and its length.
    fn take_timer(&mut self) -> (EffectId, Duration) {
        match self.take_effects()[..] {
            [Effect::SetTimer { id, at }] => (id, at.saturating_since(self.now)),
            ref other => panic!("one timer, not {other:?}"),
        }
    }

    /// Advances the time by the length of that timer, which then expires.
    fn fire_timer(&mut self, (id, pause): (EffectId, Duration)) {
        self.now += pause;
        self.call(None, |handler, context| {
            handler.handle_event(Event::TimerFired { id }, context);
        });
    }

    /// Returns the only program among the new effects, which must be the only effect.
    fn take_spawned(&mut self) -> (EffectId, Program) {
        match &self.effects[..] {
            [Effect::Spawn { id, program, .. }] => {
                let spawned = (*id, program.clone());
                self.effects.clear();
                spawned
            }
            other => panic!("one program, not {other:?}"),
        }
    }

    /// Returns the effect and the verb of the only program among the new effects.
    fn take_spawned_verb(&mut self) -> (EffectId, String) {
        let (id, program) = self.take_spawned();
        (id, program.arguments[0].to_string_lossy().into_owned())
    }

    fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}

/// Returns whether the end of the plugin does not cancel an effect.
fn is_detached(effect: &Effect) -> bool {
    match effect {
        Effect::Spawn { id, .. } | Effect::SetTimer { id, .. } | Effect::Owe { id, .. } => {
            id.owner == EffectOwner::HANDLER
        }
        _ => true,
    }
}

fn plugin(endpoint: &str) -> Arc<Plugin> {
    plugin_named("disk", endpoint)
}

fn plugin_named(name: &str, endpoint: &str) -> Arc<Plugin> {
    let info = PluginInfo {
        r#type: "CSIPlugin".into(),
        name: name.into(),
        endpoint: endpoint.into(),
        supported_versions: vec!["1.0.0".into(), "1.1.0".into()],
    };
    let plugin = Plugin::from_info(info, Path::new("/r/disk-reg.sock").into());
    Arc::new(plugin.expect("it has a name"))
}

fn answer_effect(ticket: Ticket, result: Result<(), &str>) -> Effect {
    let result = result.map_err(Reason::new);
    Effect::Answer { ticket, result }
}

#[test]
fn the_program_receives_arguments_environment_and_input() {
    let mut bench = Bench::new();
    bench.add(&plugin("/p/disk.sock"));
    let (_, program) = bench.take_spawned();
    assert_eq!(program.path, Path::new("/lib/hook"));
    assert_eq!(
        program.arguments,
        ["add", "CSIPlugin", "disk", "/p/disk.sock"]
    );
    assert_eq!(program.timeout, EXEC_TIMEOUT);
    let environment: Vec<_> = program
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={}", value.to_string_lossy()))
        .collect();
    assert_eq!(
        environment,
        [
            "PLUGIND_ACTION=add",
            "PLUGIND_TYPE=CSIPlugin",
            "PLUGIND_NAME=disk",
            "PLUGIND_ENDPOINT=/p/disk.sock",
            "PLUGIND_SOCKET=/r/disk-reg.sock",
            "PLUGIND_VERSIONS=1.0.0,1.1.0",
        ]
    );
    assert_eq!(
        String::from_utf8_lossy(&program.input),
        "{\"action\":\"add\",\"type\":\"CSIPlugin\",\"name\":\"disk\",\"endpoint\":\"/p/disk.sock\",\
         \"versions\":[\"1.0.0\",\"1.1.0\"],\"socket\":\"/r/disk-reg.sock\"}\n"
    );
}

#[test]
fn status_0_registers_and_any_other_end_refuses() {
    let failed = "/lib/hook: exited with status 3";
    let cases: [(ProgramEnd, &[u8], Result<(), &str>); 4] = [
        (ProgramEnd::Exited(0), b"a warning\n", Ok(())),
        (ProgramEnd::Exited(1), b"\nno disk\nmore\n", Err("no disk")),
        (ProgramEnd::Exited(3), b"", Err(failed)),
        (
            ProgramEnd::NotStarted("not executable".into()),
            b"",
            Err("/lib/hook: could not be started: not executable"),
        ),
    ];
    for (end, errors, expected) in cases {
        let mut bench = Bench::new();
        let ticket = bench.add(&plugin(""));
        let (id, _) = bench.take_spawned();
        bench.end_program(id, end, errors);
        assert_eq!(bench.take_effects(), [answer_effect(ticket, expected)]);
    }
}

#[test]
fn an_add_that_was_killed_is_undone() {
    for end in [ProgramEnd::TimedOut, ProgramEnd::Killed(11)] {
        let mut bench = Bench::new();
        let ticket = bench.add(&plugin(""));
        let (id, _) = bench.take_spawned();
        let why = format!("/lib/hook: {end}");
        bench.end_program(id, end, b"");
        let mut effects = bench.take_effects();
        assert_eq!(effects.pop(), Some(answer_effect(ticket, Err(&why))));
        bench.effects = effects;
        let (id, verb) = bench.take_spawned_verb();
        assert_eq!(verb, "del");
        bench.end_program(id, ProgramEnd::Exited(0), b"");
        assert_eq!(bench.take_effects(), []);
    }
}

#[test]
fn one_program_at_a_time_runs_for_a_name() {
    let mut bench = Bench::new();
    let (old, new) = (plugin("/p/old"), plugin("/p/new"));
    let del = bench.del(&new);
    let (deleting, verb) = bench.take_spawned_verb();
    assert_eq!(verb, "del");
    bench.promote(&old);
    let gone = bench.del(&old);
    assert_eq!(bench.take_effects(), []);

    bench.add(&plugin_named("nic", "/p/nic"));
    assert_eq!(bench.take_spawned_verb().1, "add");

    bench.end_program(deleting, ProgramEnd::Exited(0), b"");
    assert_eq!(bench.effects.pop(), Some(answer_effect(del, Ok(()))));
    let (promoting, program) = bench.take_spawned();
    assert_eq!(program.arguments, ["re-add", "CSIPlugin", "disk", "/p/old"]);
    bench.end_program(promoting, ProgramEnd::Exited(1), b"");
    let (deleting, verb) = bench.take_spawned_verb();
    assert_eq!(verb, "del");
    bench.end_program(deleting, ProgramEnd::Exited(0), b"");
    assert_eq!(bench.take_effects(), [answer_effect(gone, Ok(()))]);
}

#[test]
fn an_abandoned_question_cancels_its_program() {
    let mut bench = Bench::new();
    let given_up = bench.add(&plugin(""));
    let (running, _) = bench.take_spawned();
    let waits = bench.del(&plugin(""));
    let is_abandoned = |handler: &mut ExecHandler, context: &mut Context<'_>| {
        handler.abandon(given_up, context);
    };
    bench.call(None, is_abandoned);
    let effects = bench.take_effects();
    let [Effect::Cancel { id }, Effect::Spawn { id: next, .. }] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(*id, running);
    bench.end_program(running, ProgramEnd::TimedOut, b"");
    assert_eq!(bench.take_effects(), [], "the late end is ignored");
    bench.end_program(*next, ProgramEnd::Exited(0), b"");
    assert_eq!(bench.take_effects(), [answer_effect(waits, Ok(()))]);
}

#[test]
fn a_question_abandoned_in_the_queue_runs_no_program() {
    let mut bench = Bench::new();
    let first = bench.del(&plugin(""));
    let (running, _) = bench.take_spawned();
    let given_up = bench.add(&plugin(""));
    bench.call(None, |handler, context| handler.abandon(given_up, context));
    bench.end_program(running, ProgramEnd::Exited(0), b"");
    assert_eq!(bench.take_effects(), [answer_effect(first, Ok(()))]);
}

#[test]
fn a_plugin_registered_before_a_restart_is_added_again() {
    let mut bench = Bench::new();
    bench.ask(|handler, context| {
        context.hints.was_registered = true;
        handler.register(&plugin(""), context)
    });
    assert_eq!(bench.take_spawned_verb().1, "re-add");
}

#[test]
fn a_plugin_outside_the_grammar_is_refused() {
    let mut bench = Bench::new();
    let mut validate = |name: &str| {
        let plugin = plugin_named(name, "/p/disk");
        bench.call(None, |handler, context| handler.validate(&plugin, context))
    };
    let Answer::Done(Err(reason)) = validate("--force") else {
        panic!("an option is not a name");
    };
    assert!(reason.as_str().starts_with("plugin name \"--force\""));
    assert_eq!(bench.take_effects(), []);
}

#[test]
fn an_abandoned_del_is_run_nevertheless() {
    let mut bench = Bench::new();
    bench.add(&plugin(""));
    let (adding, _) = bench.take_spawned();
    let del = bench.del(&plugin(""));
    let give_up = |handler: &mut ExecHandler, context: &mut Context<'_>| {
        handler.abandon(del, context);
    };
    bench.call(None, give_up);
    bench.end_program(adding, ProgramEnd::Exited(0), b"");
    bench
        .effects
        .retain(|it| matches!(it, Effect::Spawn { .. }));
    let (deleting, verb) = bench.take_spawned_verb();
    assert_eq!(verb, "del");
    bench.call(None, give_up);
    assert_eq!(bench.owed.len(), 1);
    bench.end_program(deleting, ProgramEnd::Exited(0), b"");
    assert_eq!((bench.take_effects(), bench.owed.len()), (vec![], 0));
}

#[test]
fn a_del_is_owed_until_it_has_run_whatever_its_end() {
    for end in [
        ProgramEnd::Exited(0),
        ProgramEnd::Exited(1),
        ProgramEnd::Killed(9),
        ProgramEnd::TimedOut,
    ] {
        let mut bench = Bench::new();
        bench.del(&plugin(""));
        assert_eq!(bench.owed.len(), 1);
        let (id, _) = bench.take_spawned();
        bench.end_program(id, end, b"");
        assert_eq!(bench.owed.len(), 0);
        assert!(matches!(bench.take_effects()[..], [Effect::Answer { .. }]));
    }
}

#[test]
fn a_del_that_cannot_be_started_is_tried_again() {
    let mut bench = Bench::new();
    let del = bench.del(&plugin(""));
    let (mut id, _) = bench.take_spawned();
    bench.fail_to_start(id);
    let why = "/lib/hook: could not be started: no memory";
    assert_eq!(bench.effects.remove(0), answer_effect(del, Err(why)));
    for pause in [500, 1000, 2000] {
        let timer = bench.take_timer();
        assert_eq!(timer.1, Duration::from_millis(pause));
        bench.fire_timer(timer);
        let verb;
        (id, verb) = bench.take_spawned_verb();
        assert_eq!(verb, "del");
        assert_eq!(bench.owed.len(), 1);
        if pause < 2000 {
            bench.fail_to_start(id);
        }
    }
    bench.end_program(id, ProgramEnd::Exited(0), b"");
    assert_eq!((bench.take_effects(), bench.owed.len()), (vec![], 0));
}

#[test]
fn a_del_that_can_never_be_started_is_given_up() {
    let mut bench = Bench::new();
    bench.del(&plugin(""));
    let (id, _) = bench.take_spawned();
    bench.fail_to_start(id);
    bench.effects.remove(0);
    let timer = bench.take_timer();
    // A new job tries the `del` before its time, which does not count against the limit.
    bench.promote(&plugin(""));
    let (id, verb) = take_last_spawned(&mut bench);
    assert_eq!(verb, "del");
    bench.fail_to_start(id);
    assert_eq!(bench.effects.len(), 1, "the timer is set again: {timer:?}");
    for _ in 1..MAX_DEL_TRIES {
        assert_eq!(bench.owed.len(), 1);
        let timer = bench.take_timer();
        bench.fire_timer(timer);
        let (id, _) = bench.take_spawned();
        bench.fail_to_start(id);
    }
    assert_eq!(bench.take_spawned_verb().1, "re-add");
    assert_eq!(bench.owed.len(), 0);
    assert_eq!(bench.reported, ["ProgramFailed", "ProgramGivenUp"]);
}

/// Returns the last of the new effects, a program to be started, and discards the others.
fn take_last_spawned(bench: &mut Bench) -> (EffectId, String) {
    let last = bench.effects.pop();
    bench.effects = last.into_iter().collect();
    bench.take_spawned_verb()
}

#[test]
fn an_add_never_runs_before_a_del_that_is_owed() {
    let mut bench = Bench::new();
    bench.del(&plugin(""));
    let (id, _) = bench.take_spawned();
    bench.fail_to_start(id);
    bench.effects.remove(0);
    let (timer, pause) = bench.take_timer();

    let add = bench.add(&plugin(""));
    let [Effect::Cancel { id }, _] = bench.effects[..] else {
        panic!("{:?}", bench.effects);
    };
    assert_eq!(id, timer);
    let (id, verb) = take_last_spawned(&mut bench);
    assert_eq!(verb, "del");
    bench.fail_to_start(id);
    let refusal = "an earlier plugin of the same name is not deregistered yet: \
                   /lib/hook: could not be started: no memory";
    let refused = bench.effects.pop();
    assert_eq!(refused, Some(answer_effect(add, Err(refusal))));
    assert_eq!(bench.take_timer().1, pause, "the pause goes on");

    let add = bench.add(&plugin(""));
    let (id, verb) = take_last_spawned(&mut bench);
    assert_eq!(verb, "del");
    bench.end_program(id, ProgramEnd::Exited(0), b"");
    let (id, verb) = bench.take_spawned_verb();
    assert_eq!(verb, "add");
    bench.end_program(id, ProgramEnd::Exited(0), b"");
    assert_eq!(bench.take_effects(), [answer_effect(add, Ok(()))]);
}

#[test]
fn a_del_owed_before_a_restart_is_owed_again_until_it_has_run() {
    let mut bench = Bench::new();
    let plugin = plugin("");
    let is_resumed = bench.call(None, |handler, context| {
        handler.resume_deregistration(&plugin, context)
    });
    assert!(is_resumed);
    assert_eq!(bench.owed.values().collect::<Vec<_>>(), [&plugin]);
    let (id, verb) = bench.take_spawned_verb();
    assert_eq!(verb, "del");
    bench.end_program(id, ProgramEnd::Exited(0), b"");
    assert_eq!((bench.take_effects(), bench.owed.len()), (vec![], 0));
}

#[test]
fn the_number_of_owed_dels_is_limited() {
    let mut bench = Bench::new();
    for n in 0..=MAX_OWED {
        bench.del(&plugin_named(&format!("disk-{n}"), ""));
        let (id, _) = bench.take_spawned();
        bench.fail_to_start(id);
        bench.take_effects();
    }
    assert_eq!(bench.owed.len(), MAX_OWED);
}

/// Returns a plugin with a version outside the grammar, as an older version may have saved it.
fn plugin_outside_the_grammar() -> Arc<Plugin> {
    let mut plugin = Plugin::clone(&plugin(""));
    plugin.versions.push("1\u{0}1".into());
    Arc::new(plugin)
}

#[test]
fn no_program_is_run_to_deregister_a_plugin_outside_the_grammar() {
    let mut bench = Bench::new();
    let plugin = plugin_outside_the_grammar();
    let ticket = Ticket(EffectOwner(1).first_effect());
    let answer = bench.call(Some(ticket), |handler, context| {
        handler.deregister(&plugin, context)
    });
    let Answer::Done(Err(reason)) = answer else {
        panic!("{answer:?}");
    };
    let reason = reason.as_str();
    assert!(reason.starts_with("plugin version \"1\u{0}1\" cannot be passed to a program"));
    bench.promote(&plugin);
    assert_eq!((bench.take_effects(), bench.owed.len()), (vec![], 0));
    assert_eq!(bench.reported, ["ProgramNotRun"]);
}

#[test]
fn a_del_owed_to_a_plugin_outside_the_grammar_is_not_run() {
    let mut bench = Bench::new();
    let plugin = plugin_outside_the_grammar();
    let mut ids = EffectIds::default();
    let mut effects = Vec::new();
    let mut context = Context::new(bench.now, None, &mut ids, &mut effects);
    assert!(bench.handler.resume_deregistration(&plugin, &mut context));
    assert!(matches!(effects[..], [Effect::Emit { .. }]), "{effects:?}");
}
