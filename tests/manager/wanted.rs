//! Effects that the handlers of the simulation ask for at random, and what must hold for each of
//! their events.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plugind::handler::{Call, Context, EffectId, Event, Plugin, Stream};

use crate::rng::Rng;
use crate::script::WATCH;

/// The effects that are open, and their random numbers.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    rng: Rng,
    /// Whether handlers ask for effects in this run.
    is_any: bool,
    open: BTreeMap<EffectId, Asked>,
}

#[derive(Debug)]
struct Asked {
    /// The handler that asked.
    handler: usize,
    /// The plugin that the effect belongs to; `None` if it is detached.
    plugin: Option<Arc<Plugin>>,
}

impl Wanted {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed.rotate_left(32));
        Self {
            is_any: rng.one_in(2),
            rng,
            open: BTreeMap::new(),
        }
    }

    /// Asks for no effects from now on.
    pub(crate) fn cease(&mut self) {
        self.is_any = false;
    }

    /// Forgets all effects, because they ended with the process.
    pub(crate) fn restarted(&mut self) {
        self.open.clear();
    }

    /// Asks for an effect now and then, or cancels one.
    pub(crate) fn ask(&mut self, handler: usize, context: &mut Context<'_>) {
        let Some(plugin) = context.plugin().filter(|_| self.is_any) else {
            return;
        };
        let of_it = |it: &(&EffectId, &Asked)| it.1.plugin.as_ref() == Some(plugin);
        let open: Vec<_> = self.open.iter().filter(of_it).map(|(id, _)| *id).collect();
        if self.rng.one_in(8) {
            if let Some(id) = self.rng.pick(&open) {
                self.open.remove(id);
                context.cancel(*id);
            }
        }
        if open.len() >= MAX_OPEN || self.rng.one_in(2) {
            return;
        }
        let endpoint = plugin.endpoint.clone();
        let pause = Duration::from_millis(self.rng.below(0..30_000).max(1));
        let mut owner = Some(plugin.clone());
        let id = match self.rng.below(0..6) {
            0 => {
                owner = None;
                context.detached().set_timer(pause)
            }
            1 => context.call(Call {
                endpoint,
                method: "/a.B/C",
                request: Vec::new(),
                timeout: pause,
                wait_for_ready: self.rng.one_in(2),
            }),
            2 => context.stream(Stream {
                endpoint,
                method: WATCH,
                request: Vec::new(),
                dial_timeout: pause,
            }),
            3 => context.connect(endpoint),
            _ => context.set_timer(pause),
        };
        let asked = Asked {
            handler,
            plugin: owner,
        };
        self.open.insert(id, asked);
    }

    /// Checks that an event is about an effect that the handler asked for and that is open, and
    /// that the event names the effect's plugin.
    pub(crate) fn happened(&mut self, handler: usize, event: &Event, context: &Context<'_>) {
        let id = event.effect();
        let asked = self.open.get(&id).expect("the effect is open");
        assert_eq!(asked.handler, handler, "{event:?}");
        assert_eq!(asked.plugin.as_ref(), context.plugin(), "{event:?}");
        if !matches!(event, Event::StreamMessage { .. } | Event::Connected { .. }) {
            self.open.remove(&id);
        }
    }

    /// Records that the effects of the plugin behind that socket are cancelled.
    pub(crate) fn cancelled(&mut self, socket: &Path) {
        let of_it = |plugin: &Arc<Plugin>| *plugin.socket == *socket;
        self.open
            .retain(|_, asked| !asked.plugin.as_ref().is_some_and(of_it));
    }
}

/// The largest number of open effects of one plugin.
const MAX_OPEN: usize = 3;
